"""Reading, checking and writing give the same with native code and without it."""

import random
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from gpuparse import native
from gpuparse.data.columns import as_key, scan_deps, scan_numbers
from gpuparse.data.conll import (
    check_trees,
    treebank_from_bytes,
    with_misc,
    write_graph_predictions,
    write_predictions,
)
from gpuparse.data.graphs import acyclic, check_graphs, read_graphs
from gpuparse.data.guides import read_guides
from gpuparse.data.synthetic import generate
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import is_tree, nonprojective_arcs
from gpuparse.data.vocabulary import Encoder, Interner, Vocabularies

DEPS = [
    "_",
    "0:root",
    "1:a|2:b",
    "2:b|1:a|2:c",
    "1.1:a|1:x:y",
    "3.2:b|3.1:a",
    "x",
    "1:",
    "9:a",
    ":",
    "|",
]
MISC = ["_", "", "G=1", "G=_|A=b", "A|G=2|G=3", "G", "G=x", "K=1||L=2", "P=0.5|K"]
HEADS = ["0", "1", "2", "3", "_", "-1", "01", "7"]


def text_of(seed: int, n_sentences: int) -> bytes:
    draw, lines = random.Random(seed), []
    for _ in range(n_sentences):
        for m in range(1, draw.randint(1, 5) + 1):
            form = draw.choice(["a", "b", "wörd", "x" * draw.randint(1, 30)])
            deps, misc = draw.choice(DEPS), draw.choice(MISC)
            lines.append(f"{m}\t{form}\t_\tN\tN\t_\t{draw.choice(HEADS)}\tr\t{deps}\t{misc}\n")
        lines.append("\n")
    return "".join(lines).encode()


def everything(treebank: Treebank, seed: int) -> list[object]:
    """What reads, checks and writes a treebank of any content."""
    draw, n = np.random.default_rng(seed), treebank.n_words
    names = [b"nsubj", b"obj"]
    heads, labels = draw.integers(-2, 1_000_000, n), draw.integers(-1, 2, n)
    items = {"P": draw.choice([b"", b"0.25", b"1"], n), "G": draw.choice(["", "x"], n).tolist()}
    vocabularies = Vocabularies.build(treebank, ["form", "pos"], 3)
    return [
        [str(error) for error in check_trees(treebank)],
        [str(error) for error in check_trees(treebank, single_root=True, partial=True)],
        [str(error) for error in check_graphs(treebank)],
        scan_deps(treebank.data, treebank.columns, treebank.word_starts),
        scan_numbers(treebank.data, treebank.columns, as_key("G")),
        write_predictions(treebank, heads, names, labels, items),
        with_misc(treebank, items),
        vocabularies.values,
        Encoder(vocabularies).encode(treebank).values,
    ]


def of_trees(treebank: Treebank) -> list[object]:
    """What reads and writes a treebank of trees and graphs."""
    graphs, n_dropped = acyclic(read_graphs(treebank), treebank)
    written = write_graph_predictions(treebank, treebank.heads, None, None, graphs)
    starts = treebank.word_starts
    return [
        graphs,
        n_dropped,
        written,
        nonprojective_arcs(treebank.heads, starts),
        [is_tree(treebank.heads[starts[s] : starts[s + 1]]) for s in range(len(treebank))],
    ]


def same(one: object, two: object) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(two, np.ndarray) and one.dtype == two.dtype and np.array_equal(one, two)
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(two, f.name)) for f in fields(one))
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two


@pytest.mark.parametrize("seed", range(20))
def test_both_forms_read_check_and_write_the_same(seed, monkeypatch):
    treebank = treebank_from_bytes(text_of(seed, 12), "text")
    expected = everything(treebank, seed)
    monkeypatch.setattr(native, "is_available", lambda: False)
    found = everything(treebank_from_bytes(text_of(seed, 12), "text"), seed)
    for mine, its in zip(found, expected, strict=True):
        assert same(mine, its)


def test_both_forms_read_trees_and_graphs_the_same(monkeypatch, tmp_path):
    text = generate(40, 1)
    expected = of_trees(treebank_from_bytes(text, "text"))
    monkeypatch.setattr(native, "is_available", lambda: False)
    assert same(of_trees(treebank_from_bytes(text, "text")), expected)


def test_both_forms_complete_cyclic_graphs_the_same(monkeypatch):
    draw, lines = random.Random(0), []
    for _ in range(60):
        n = draw.randint(1, 6)
        for m in range(1, n + 1):
            others = [h for h in range(n + 1) if h != m]
            heads = sorted(draw.sample(others, draw.randint(0, min(3, n))))
            deps = "|".join(f"{h}:r" for h in heads) or "_"
            lines.append(f"{m}\tw\t_\t_\t_\t_\t{draw.randrange(m)}\tr\t{deps}\t_\n")
        lines.append("\n")
    text = "".join(lines).encode()
    expected = of_trees(treebank_from_bytes(text, "text"))
    monkeypatch.setattr(native, "is_available", lambda: False)
    assert same(of_trees(treebank_from_bytes(text, "text")), expected)


def test_both_forms_find_the_same_strings(monkeypatch):
    data = np.frombuffer(bytes(random.Random(1).choices(b"ab\xff", k=400)), np.uint8)
    starts = np.arange(0, 380, 3)
    ends = starts + np.arange(len(starts)) % 20
    expected = Interner()
    known = expected.intern(data, starts, ends)
    monkeypatch.setattr(native, "is_available", lambda: False)
    found = Interner()
    found._table = found._table._replace(key=expected._table.key)
    assert np.array_equal(found.intern(data, starts, ends), known)
    assert np.array_equal(
        found.find(data, starts[:9], ends[:9] + 1), expected.find(data, starts[:9], ends[:9] + 1)
    )
    for mine, its in zip(found._table, expected._table, strict=True):
        assert np.array_equal(mine, its)


def test_words_of_guides_are_compared_without_native_code(monkeypatch, tmp_path):
    text = generate(5, 1)
    other = tmp_path / "other.conllu"
    other.write_bytes(text)
    treebank = treebank_from_bytes(text, "text")
    monkeypatch.setattr(native, "is_available", lambda: False)
    assert np.array_equal(read_guides(treebank, str(other)), treebank.heads)
