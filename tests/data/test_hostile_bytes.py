"""Any bytes, and tables of offsets that do not fit them, are read, checked and written or refused.

Run under the sanitizers too: what they look for here are reads and writes outside of the arrays.
"""

import random
from contextlib import suppress

import numpy as np
import pytest

from gpuparse import native
from gpuparse.data.columns import Replacing, as_key, replace_columns, scan_deps, scan_numbers
from gpuparse.data.conll import (
    check_trees,
    treebank_from_bytes,
    write_predictions,
)
from gpuparse.data.graphs import acyclic, read_graphs
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import nonprojective_arcs
from gpuparse.data.vocabulary import distinct
from gpuparse.errors import DataError
from tests.synthetic import generate

BASE = generate(6, 3)
PIECES = [
    b"\t", b"\n", b"\r\n", b"\r", b"|", b":", b".", b"-", b"_", b"#", b"9", b"\xff", b"\xf4\x8f",
    b"\0", b"1.1:a|", b"99999999999", b"\n\n",
]  # fmt: skip
OFFSETS = [-(2**62), -1, 0, 10**6, 2**62]


def damaged(draw: random.Random) -> bytes:
    """A piece of a treebank with some bytes changed, or random bytes."""
    if draw.random() < 0.1:
        return draw.randbytes(draw.randrange(300))
    start = draw.randrange(len(BASE))
    text = bytearray(BASE[start : start + draw.randrange(1, 3000)])
    for _ in range(draw.randrange(12)):
        at = draw.randrange(len(text) + 1)
        text[at : at + draw.choice([0, 0, 1, 3])] = draw.choice(PIECES)
    return bytes(text)


def use(treebank: Treebank, draw: random.Random) -> None:
    """Check, read and write a treebank; its trees and graphs may be none."""
    n = treebank.n_words
    check_trees(treebank)
    distinct(treebank, draw.randrange(10))
    scan_numbers(treebank.data, treebank.columns, as_key("SpaceAfter"))
    heads = np.array([draw.randrange(-2, 2**31 - 1) for _ in range(n)], np.int32)
    labels = np.array([draw.randrange(-1, 2) for _ in range(n)], np.int32)
    items = {"SpaceAfter": ["No"] * n}
    write_predictions(treebank, heads, [b"a", b"long" * draw.randrange(9)], labels, items)
    with suppress(DataError, ValueError):
        graphs = read_graphs(treebank)
        write_predictions(treebank, treebank.heads, graphs=graphs)
        acyclic(graphs, treebank)
    with suppress(ValueError):
        nonprojective_arcs(treebank.heads, treebank.word_starts)


def refuse_or_use_wrong_offsets(treebank: Treebank, draw: random.Random) -> None:
    columns = treebank.columns.copy()
    columns[draw.randrange(len(columns)), draw.randrange(11)] = draw.choice(OFFSETS)
    replacing = Replacing(treebank.heads, None, None, None)
    for read in (
        lambda: replace_columns(treebank.data, columns, treebank.dropped, replacing, b""),
        lambda: scan_deps(treebank.data, columns, treebank.word_starts),
        lambda: scan_numbers(treebank.data, columns, as_key("A")),
    ):
        with suppress(ValueError):
            read()


@pytest.mark.parametrize("seed", range(10))
def test_any_bytes_are_read_checked_and_written(seed):
    draw = random.Random(seed)
    for _ in range(60):
        text = damaged(draw)
        for on_error in ("skip", "keep"):
            limit = draw.choice([30, 100, 1 << 20])
            treebank = treebank_from_bytes(text, "text", on_error=on_error, max_line=limit)
            use(treebank, draw)
            if treebank.n_words:
                refuse_or_use_wrong_offsets(treebank, draw)


def test_arrays_that_do_not_fit_are_refused():
    treebank = treebank_from_bytes(BASE, "text")
    starts = treebank.word_starts.copy()
    starts[-1] += 1
    heads = treebank.heads

    def written(heads: np.ndarray, dropped: np.ndarray) -> bytes:
        replacing = Replacing(heads, None, None, None)
        return replace_columns(treebank.data, treebank.columns, dropped, replacing, b"")

    for call in (
        lambda: scan_deps(treebank.data, treebank.columns, starts),
        lambda: scan_deps(treebank.data, treebank.columns[:, :10].copy(), treebank.word_starts),
        lambda: nonprojective_arcs(heads, starts),
        lambda: native.call("first_difference", treebank.data, treebank.columns, treebank.data,
                            treebank.columns, 10),
        lambda: written(heads[:-1], treebank.dropped),
        lambda: written(heads, np.array([[50, 20]])),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"sizes of arrays|sentence"):
            call()
