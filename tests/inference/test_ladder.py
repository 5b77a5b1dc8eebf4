"""Enumeration -> textbook loops -> torch -> compiled, Triton: each rung equals the one below."""

import re
from math import prod
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.errors import NoTreeError
from tests.inference.decoders import (
    BACKENDS,
    DUAL,
    GRANDCHILD,
    KBEST,
    KBEST_ROWS,
    NOT_DECODERS,
    PROGRAMS,
    ROWS,
    SIBLING_ROWS,
    SUMS,
    THIRD_ORDER_ROWS,
    fewer,
    no_longer,
    search_with,
    skip_unless_it_reads,
)
from tests.oracles.brute_force import all_trees, best_values
from tests.strategies import integer_scores

every_decoder = pytest.mark.parametrize("name", ROWS)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def test_every_public_decoder_has_a_row():
    rows = ROWS | SIBLING_ROWS
    elsewhere = GRANDCHILD | DUAL
    assert set(inference.DECODERS) <= set(rows | THIRD_ORDER_ROWS) | elsewhere
    assert set(rows | THIRD_ORDER_ROWS) <= set(inference.DECODERS)
    others = KBEST_ROWS | THIRD_ORDER_ROWS
    elsewhere |= NOT_DECODERS | KBEST | PROGRAMS | SUMS
    assert set(inference.__all__) - elsewhere == set(rows | others)
    assert {name.removesuffix("_kbest") for name in KBEST_ROWS} <= set(rows)
    for name, row in (rows | THIRD_ORDER_ROWS).items():
        decoder = inference.DECODERS[name]
        assert decoder.function("best") is row.search
        assert decoder.is_projective == row.projective
        assert decoder.reads_siblings == (name not in ROWS)
        assert decoder.is_higher_order == (name in THIRD_ORDER_ROWS)


def test_the_table_has_the_numbers_of_native_code():
    header = (Path(__file__).parents[2] / "native" / "decoder_numbers.h").read_text()
    numbers = header.partition("enum DecoderNumber")[2].partition("{")[2].partition("}")[0]
    names = re.findall(r"BY_(\w+)", re.sub(r"//.*", "", numbers))
    assert [name.lower() for name in names] == list(inference.DECODERS)
    assert [decoder.number for decoder in inference.DECODERS.values()] == list(range(len(names)))


def test_the_enumerator_finds_the_known_numbers_of_trees():
    assert [len(all_trees(n, True, False)) for n in range(1, 6)] == [1, 3, 12, 55, 273]
    assert [len(all_trees(n, False, False)) for n in range(1, 6)] == [
        (n + 1) ** (n - 1) for n in range(1, 6)
    ]
    assert [len(all_trees(n, False, True)) for n in range(1, 6)] == [
        n ** (n - 1) for n in range(1, 6)
    ]


def split_by_existence(scores, row, single_root):
    """(matrices with a tree, their best values, matrices without)."""
    best = best_values(scores, projective=row.projective, single_root=single_root)
    has_tree = best > -np.inf
    return scores[has_tree], best[has_tree], scores[~has_tree]


@every_decoder
@every_root
def test_textbook_equals_enumeration(name, single_root):
    row, rng = ROWS[name], np.random.default_rng(1)
    for n, forbidden in [(n, p) for n in range(1, 6) for p in (0.0, 0.2, 0.5)]:
        scores = integer_scores(rng, 60, n, forbidden=forbidden)
        trees = all_trees(n, row.projective, single_root).tolist()
        possible, best, impossible = split_by_existence(scores, row, single_root)
        for matrix, value in zip(possible, best, strict=True):
            heads, score = row.textbook(matrix, single_root=single_root)
            assert heads in trees
            assert score == value == sum(matrix[h, m] for m, h in enumerate(heads) if m > 0)
        for matrix in impossible:
            with pytest.raises(NoTreeError):
                row.textbook(matrix, single_root=single_root)


@every_decoder
@every_root
@every_backend
@pytest.mark.parametrize("kind", ["float32", "float64", "ties", "forbidden"])
def test_every_backend_equals_the_textbook(name, single_root, backend, device, kind):
    """The same trees and the same bits, ties and rounding included."""
    skip_unless_it_reads(backend, device)
    row, rng = ROWS[name], np.random.default_rng(2)
    for n in no_longer(backend, 13, [1, 2, 3, 5, 8, 13, 17, 33]):
        n_batch = 6
        if kind in ("ties", "forbidden"):
            scores = integer_scores(rng, n_batch, n, forbidden=0.3 * (kind == "forbidden"))
        else:
            scores = rng.standard_normal((n_batch, n + 1, n + 1)).astype(kind)
        kept, expected = [], []
        for b in range(n_batch):
            length = int(rng.integers(0, n + 1)) if b else n
            try:
                expected.append(
                    row.textbook(scores[b, : length + 1, : length + 1], single_root=single_root)
                )
            except NoTreeError:
                continue
            kept.append((b, length))
        batch = torch.from_numpy(scores[[b for b, _ in kept]]).to(device)
        lengths = torch.tensor([length for _, length in kept], dtype=torch.int64)
        heads, values = row.search(batch, lengths, single_root=single_root, backend=backend)
        assert heads.dtype == torch.int64
        assert heads.device.type == values.device.type == device.type
        assert values.dtype == batch.dtype
        for k, (tree, value) in enumerate(expected):
            assert heads[k].tolist() == tree + [-1] * (n + 1 - len(tree))
            assert values[k].item() == float(value)


@every_decoder
@every_root
@every_backend
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_ten_thousand_matrices_have_the_value_of_enumeration(name, single_root, backend, n):
    """Over n = 1..6: 10,000 matrices, with many ties, half of them with forbidden arcs.

    Triton's kernels search as many on a GPU, and some hundreds where they are interpreted.
    """
    row, rng = ROWS[name], np.random.default_rng(n)
    n_batch = fewer(backend, {1: 250, 2: 1250, 3: 2000, 4: 2500, 5: 2500, 6: 1500}[n])
    scores = integer_scores(rng, n_batch, n)
    scores[::2] = integer_scores(rng, len(scores[::2]), n, forbidden=0.25)
    possible, best, impossible = split_by_existence(scores, row, single_root)
    lengths = torch.full((len(possible),), n)
    scores = torch.from_numpy(possible)
    heads, values = search_with(
        row.search, scores, lengths, single_root=single_root, backend=backend
    )
    assert values.tolist() == best.tolist()
    # Each answer is one of the enumerated trees, and has the value it claims.
    trees = all_trees(n, row.projective, single_root)
    base = (n + 1) ** np.arange(n)
    assert set((heads.numpy()[:, 1:] @ base).tolist()) <= set((trees[:, 1:] @ base).tolist())
    sentence, word = np.arange(len(possible))[:, None], np.arange(1, n + 1)
    assert (possible[sentence, heads.numpy()[:, 1:], word].sum(axis=1) == best).all()
    for matrix in impossible[: fewer(backend, 20)]:
        with pytest.raises(NoTreeError, match="sentence 0"):
            search_with(
                row.search,
                torch.from_numpy(matrix[None]),
                torch.tensor([n]),
                single_root=single_root,
                backend=backend,
            )


def test_the_matrices_above_are_ten_thousand_and_some_have_no_tree():
    assert sum([250, 1250, 2000, 2500, 2500, 1500]) == 10_000
    scores = integer_scores(np.random.default_rng(3), 500, 3, forbidden=0.25)
    _, _, impossible = split_by_existence(scores, ROWS["eisner"], True)
    assert 0 < len(impossible) < 500
    assert prod(impossible.shape) > 0
