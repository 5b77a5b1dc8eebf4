"""Searches and sums that read sibling scores from tables while they run, as from a dense array."""

import numpy as np
import pytest
import torch

from gpuparse import native
from gpuparse.inference import (
    eisner_sibling,
    eisner_sibling_kbest,
    eisner_sibling_log_partition,
    eisner_sibling_marginals,
)
from tests.inference.siblings import SiblingTables, dense, draw_tables

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_type = pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.int8])


def search(arcs, tables, k, single_root, scale=1.0):
    """(heads (count, N), scores, marginals, log-partition)."""
    nodes = len(arcs)
    heads, totals = np.full((k, nodes), -1), np.empty(k)
    marginals, log_partition = np.empty((nodes, nodes)), np.empty(1)
    count = native.call(
        "eisner_sibling_of_tables", arcs, tables, single_root, scale, heads, totals, marginals,
        log_partition,
    )  # fmt: skip
    return heads[:count], totals[:count], marginals, log_partition[0]


def as_tensors(arcs, tables):
    """Arguments of the public functions: a batch of one."""
    arc, sibling, end = (torch.from_numpy(part[None]) for part in (arcs, dense(tables), tables.end))
    return (arc, sibling, torch.tensor([len(arcs) - 1])), {"end_scores": end}


def draw(rng, n, dtype, *, forbidden=0.0):
    arcs = rng.integers(-9, 10, (n + 1, n + 1)).astype(np.float64)
    arcs[rng.random(arcs.shape) < forbidden] = -np.inf
    tables = draw_tables(rng, n, int(rng.integers(1, n + 2)), dtype)
    for part in (tables.first, tables.pair, tables.end):
        part[rng.random(part.shape) < forbidden] = -np.inf
    return arcs, tables


@every_root
@every_type
def test_trees_are_those_of_dense_scores(single_root, dtype):
    """Integers, so that the order of additions does not matter: the same trees, ties included."""
    rng = np.random.default_rng(1)
    lengths = [*range(1, 10), 15, 16, 17, 33] * 2
    for case, n in enumerate(lengths):
        arcs, tables = draw(rng, n, dtype, forbidden=0.1 * (case % 3 == 0))
        parts, options = as_tensors(arcs, tables)
        found, totals, *_ = search(arcs, tables, 1, single_root)
        ranked, values, *_ = search(arcs, tables, 5, single_root)
        if len(found) == 0:
            assert len(ranked) == 0
            continue
        heads, scores = eisner_sibling(*parts, single_root=single_root, **options)
        assert found[0].tolist() == heads[0].tolist()
        assert totals[0] == scores[0]
        heads, scores = eisner_sibling_kbest(*parts, 5, single_root=single_root, **options)
        assert ranked.tolist() == heads[0, : len(ranked)].tolist()
        assert values.tolist() == scores[0, : len(ranked)].tolist()
        assert (scores[0, len(ranked) :] == -torch.inf).all()


@every_root
@pytest.mark.parametrize("spread", [1.0, 300.0], ids=["plain", "scaled"])
def test_sums_are_those_of_dense_scores(single_root, spread):
    """Numbers that stay within the range of exp, and numbers that do not."""
    rng, scale = np.random.default_rng(2), 0.05
    for n in (1, 2, 5, 9, 16, 17):
        arcs, tables = draw(rng, n, np.int16)
        arcs *= spread
        _, _, marginals, log_partition = search(arcs, tables, 1, single_root, scale)
        parts, options = as_tensors(arcs, tables)
        parts = parts[0] * scale, parts[1] * scale, parts[2]
        options = {"end_scores": options["end_scores"] * scale, "single_root": single_root}
        expected = eisner_sibling_log_partition(*parts, backend="torch", **options)
        assert log_partition == pytest.approx(expected.item(), rel=1e-12)
        expected = eisner_sibling_marginals(*parts, backend="torch", **options)[0].numpy()
        np.testing.assert_allclose(marginals, expected, rtol=0, atol=1e-10)


def test_without_a_tree_there_is_no_probability():
    arcs, tables = draw(np.random.default_rng(3), 4, np.int8)
    arcs[:, 2] = -np.inf
    for single_root in (False, True):
        heads, _, marginals, log_partition = search(arcs, tables, 3, single_root)
        assert len(heads) == 0
        assert log_partition == -np.inf
        assert (marginals == 0).all()


def test_a_flat_sentence_of_three_hundred_words():
    """All words modify the middle one: the longest chain of siblings."""
    n, rng = 300, np.random.default_rng(6)
    tables = draw_tables(rng, n, 20, np.float64, whole=False)
    arcs = np.zeros((n + 1, n + 1))
    arcs[n // 2, 1:] = 20
    arcs[0, n // 2] = 100
    heads, *_ = search(arcs, tables, 1, single_root=True)
    assert heads[0].tolist() == [-1, *[n // 2] * (n // 2 - 1), 0, *[n // 2] * (n - n // 2)]


def test_tables_of_wrong_shapes_are_refused():
    arcs, tables = draw(np.random.default_rng(4), 3, np.float32)
    for name in ("first", "pair", "end", "places", "masks"):
        bad = SiblingTables(*tables)._replace(**{name: getattr(tables, name)[..., :-1].copy()})
        with pytest.raises(ValueError, match="eisner_sibling_of_tables"):
            search(arcs, bad, 1, single_root=False)
