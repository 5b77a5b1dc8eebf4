"""Integer programs against all trees, against other exact decoders, and at their limits."""

import time

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import chu_liu_edmonds, eisner_sibling, hill_climb
from tests.inference.crossing import MODELS, as_tensors, draw_parts, put_junk
from tests.oracles.brute_force import (
    all_trees,
    best_sibling_values,
    best_values,
    is_tree,
    sibling_tree_values,
)
from tests.oracles.crossing_trees import best_labelled_value, crossing_tree_values, keeps_limits
from tests.oracles.integer_program import integer_program, integer_program_labelled
from tests.strategies import cases, integer_scores, integer_siblings, with_junk

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_order = pytest.mark.parametrize("order", [1, 2], ids=["first", "second"])
CASES = cases({1: 200, 2: 200, 3: 80, 4: 80, 5: 40})
"""Words -> batches' size, for each order, kind of root and share of forbidden parts."""


def draw(seed, n_batch, n, order, forbidden=0.0):
    """Arc, sibling and end scores, None for the first order; NaN where nothing is read."""
    rng = np.random.default_rng(seed)
    arcs = integer_scores(rng, n_batch, n, forbidden=forbidden)
    siblings = integer_siblings(rng, n_batch, n, forbidden=forbidden)
    ends = integer_scores(rng, n_batch, n, forbidden=forbidden)
    with_junk(arcs, siblings, np.nan, ends)
    return (arcs, siblings, ends) if order == 2 else (arcs, None, None)


def solve(arcs, siblings, ends, lengths, **options):
    """The search on arrays; lengths: those of the sentences, or one number for all of them."""
    arcs, siblings, ends = (
        None if part is None else torch.from_numpy(part) for part in (arcs, siblings, ends)
    )
    if isinstance(lengths, int):
        lengths = torch.full((len(arcs),), lengths)
    return integer_program(arcs, siblings, lengths, end_scores=ends, **options)


def chosen(scores, which):
    return [None if part is None else part[which] for part in scores]


def best_by_enumeration(arcs, siblings, ends, single_root):
    if siblings is None:
        return best_values(arcs, projective=False, single_root=single_root)
    return best_sibling_values(arcs, siblings, ends, projective=False, single_root=single_root)


@every_root
@every_order
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("n", CASES)
def test_the_best_of_all_trees_is_found(order, single_root, forbidden, n):
    scores_of = draw(n, CASES[n], n, order, forbidden)
    expected = best_by_enumeration(*scores_of, single_root)
    has_tree = expected > -np.inf
    assert has_tree.any()
    heads, scores, optimal = solve(*chosen(scores_of, has_tree), n, single_root=single_root)
    assert scores.tolist() == expected[has_tree].tolist()
    assert optimal.all()
    for tree in heads.tolist():
        assert tree[0] == -1
        assert is_tree(tuple(tree[1:]))
        assert not single_root or tree.count(0) == 1
    for b in np.flatnonzero(~has_tree):
        with pytest.raises(NoTreeError, match="sentence 0 "):
            solve(*chosen(scores_of, slice(b, b + 1)), n, single_root=single_root)


@every_root
def test_siblings_without_ends_and_zero_ends(single_root):
    n = 4
    arcs, siblings, _ = draw(36, 6, n, 2)
    expected = best_by_enumeration(arcs, siblings, None, single_root)
    for ends in (None, np.zeros_like(arcs)):
        _, scores, optimal = solve(arcs, siblings, ends, n, single_root=single_root)
        assert scores.tolist() == expected.tolist()
        assert optimal.all()


@every_root
def test_a_unique_best_tree_is_the_one_found(single_root):
    n = 4
    rng = np.random.default_rng(31)
    arcs, ends = rng.standard_normal((2, 40, n + 1, n + 1))
    siblings = rng.standard_normal((40, *[n + 1] * 3))
    values = sibling_tree_values(arcs, siblings, ends, projective=False, single_root=single_root)
    trees = all_trees(n, False, single_root)[values.argmax(1)]
    heads, scores, _ = solve(arcs, siblings, ends, n, single_root=single_root)
    assert heads.tolist() == trees.tolist()
    np.testing.assert_allclose(scores.numpy(), values.max(1), rtol=1e-12, atol=1e-12)


@every_root
@every_order
def test_twelve_words_as_by_chu_liu_edmonds(order, single_root):
    n = 12
    arcs = torch.from_numpy(integer_scores(np.random.default_rng(32), 20, n, spread=9))
    lengths = torch.tensor([n] * 10 + list(range(10)))
    siblings = torch.zeros(20, *[n + 1] * 3) if order == 2 else None
    heads, scores, optimal = integer_program(arcs, siblings, lengths, single_root=single_root)
    _, expected = chu_liu_edmonds(arcs, lengths, single_root=single_root)
    assert scores.equal(expected)
    assert optimal.all()
    assert ((heads >= 0).sum(1) == lengths).all()
    if siblings is not None:
        assert (heads[:, 0] == -1).all()


@every_root
def test_approximate_searches_never_do_better(single_root):
    """Noise: relaxations with fractions, so that whole programs with cuts are met too."""
    n = 10
    rng = np.random.default_rng(33)
    arcs = torch.from_numpy(rng.integers(-20, 21, (12, n + 1, n + 1)).astype(np.float64))
    siblings = torch.from_numpy(rng.integers(-20, 21, (12, *[n + 1] * 3)).astype(np.float64))
    batch = arcs, siblings, torch.full((12,), n)
    ends = torch.from_numpy(rng.integers(-20, 21, (12, n + 1, n + 1)).astype(np.float64))
    options = {"end_scores": ends, "single_root": single_root}
    heads, scores, optimal = integer_program(*batch, **options)
    assert optimal.all()
    climbed = hill_climb(*batch, **options)[1]
    assert (climbed <= scores).all()
    assert (climbed < scores).any()
    assert (eisner_sibling(*batch, **options)[1] <= climbed).all()
    # From the best tree on there is no way up.
    again, values, changes = hill_climb(*batch, start=heads, **options)
    assert again.equal(heads)
    assert values.equal(scores)
    assert not changes.any()


@every_order
@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_the_scale_of_the_scores_does_not_matter(order, scale):
    n = 4
    drawn = draw(34, 8, n, order)
    expected = best_by_enumeration(*drawn, single_root=False)
    scaled = [None if part is None else part * np.float32(scale) for part in drawn]
    _, scores, _ = solve(*scaled, n)
    assert (scores.numpy() / np.float32(scale)).tolist() == expected.tolist()


@every_order
def test_padding_and_batch_mates_change_nothing_and_inputs_stay(order):
    arcs, siblings, ends = draw(35, 6, 6, order)
    lengths = torch.tensor([6, 0, 3, 1, 5, 4])
    for b, n in enumerate(lengths.tolist()):
        arcs[b, n + 1 :] = arcs[b, :, n + 1 :] = np.inf
        if siblings is not None:
            ends[b, n + 1 :] = ends[b, :, n + 1 :] = np.inf
            for axis in range(3):
                np.moveaxis(siblings[b], axis, 0)[n + 1 :] = np.inf
    batch = [part for part in (arcs, siblings, ends) if part is not None]
    before = [part.tobytes() for part in batch]
    heads, scores, _ = solve(arcs, siblings, ends, lengths)
    assert [part.tobytes() for part in batch] == before
    for b, n in enumerate(lengths.tolist()):
        inside = slice(n + 1)
        alone = [
            None if part is None else part[(slice(b, b + 1), *[inside] * (part.ndim - 1))]
            for part in (arcs, siblings, ends)
        ]
        _, value, _ = solve(*alone, lengths[b : b + 1])
        assert value.item() == scores[b].item()
        assert heads[b, n + 1 :].tolist() == [-1] * (6 - n)


@every_order
def test_empty_batches(order):
    siblings = torch.zeros(0, 4, 4, 4) if order == 2 else None
    heads, scores, optimal = integer_program(
        torch.zeros(0, 4, 4), siblings, torch.zeros(0, dtype=torch.int64)
    )
    assert heads.shape == (0, 4)
    assert scores.shape == optimal.shape == (0,)


def test_a_sentence_without_a_tree_is_named():
    arcs = torch.zeros(3, 4, 4)
    arcs[2, 0] = -torch.inf
    lengths = torch.tensor([3, 3, 3])
    with pytest.raises(NoTreeError, match="sentence 2 of the batch has no tree"):
        integer_program(arcs, None, lengths)
    # Two words that like only each other: no cycle of theirs is a tree.
    arcs = torch.zeros(2, 4, 4)
    arcs[1, [0, 1], [2, 2]] = arcs[1, [0, 1], [3, 3]] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 1 "):
        integer_program(arcs, torch.zeros(2, 4, 4, 4), lengths[:2])
    # All arcs are allowed, but no first modifier of the root.
    siblings = torch.zeros(1, 4, 4, 4)
    siblings[0, 0, :, 0] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 0 "):
        integer_program(torch.zeros(1, 4, 4), siblings, lengths[:1])
    # No word may be the last one on its side of its head.
    arcs, siblings, ends = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4, 4), torch.zeros(2, 4, 4)
    ends[0, :, 3] = ends[0, 3] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 0 "):
        integer_program(arcs, siblings, lengths[:1], end_scores=ends[:1])
    integer_program(arcs, siblings, lengths[:1], end_scores=ends[1:])


def test_time_that_runs_out_is_said():
    n = 24
    rng = np.random.default_rng(37)
    arcs = torch.from_numpy(rng.standard_normal((2, n + 1, n + 1)))
    siblings = torch.from_numpy(rng.standard_normal((2, *[n + 1] * 3)))
    lengths = torch.tensor([n, 1])
    begin = time.perf_counter()
    heads, scores, optimal = integer_program(arcs, siblings, lengths, time_limit=0.1)
    assert time.perf_counter() - begin < 5
    assert optimal.tolist() == [False, True]
    assert is_tree(tuple(heads[0, 1:].tolist()))
    assert torch.isfinite(scores).all()
    no_time = integer_program(arcs, siblings, lengths, single_root=True, time_limit=0.0)
    assert not no_time[2].any()
    assert no_time[0][0].tolist().count(0) == 1


def test_scores_are_checked():
    arcs, siblings, lengths = torch.zeros(2, 4, 4), torch.zeros(2, 4, 4, 4), torch.tensor([3, 3])
    with pytest.raises(ScoreError, match="lengths has type"):
        integer_program(arcs, None, lengths.float())
    with pytest.raises(ScoreError, match="sibling_scores has shape"):
        integer_program(arcs, siblings[:1], lengths)
    with pytest.raises(ScoreError, match="end_scores has shape"):
        integer_program(arcs, siblings, lengths, end_scores=arcs[:1])
    with pytest.raises(ScoreError, match="end_scores: sentence 0: "):
        integer_program(arcs, siblings, lengths, end_scores=torch.full_like(arcs, torch.nan))
    arcs[1, 2, 3] = torch.nan
    with pytest.raises(ScoreError, match="sentence 1: "):
        integer_program(arcs, siblings, lengths)


@every_root
@pytest.mark.parametrize("model", ["grandparents", "both", "all"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_best_of_all_trees_with_grandparents_is_found(model, single_root, n):
    rng = np.random.default_rng(40 + n)
    n_batch = 12
    arcs, higher = draw_parts(rng, n_batch, n, model, forbidden=0.0)
    arcs[::2], rougher = draw_parts(rng, n_batch // 2, n, model, forbidden=0.2)
    for name, scores in higher.items():
        scores[::2] = rougher[name]
    values = crossing_tree_values(arcs, higher, single_root).max(1)
    put_junk(arcs, higher, [n] * n_batch)
    for b in range(n_batch):
        parts = as_tensors({name: scores[b : b + 1] for name, scores in higher.items()})
        siblings = parts.pop("sibling_scores", None)
        batch = torch.from_numpy(arcs[b : b + 1]), siblings, torch.tensor([n])
        if values[b] == -np.inf:
            with pytest.raises(NoTreeError, match="sentence 0 "):
                integer_program(*batch, **parts, single_root=single_root)
            continue
        heads, scores, optimal = integer_program(*batch, **parts, single_root=single_root)
        assert scores.item() == values[b]
        assert optimal.all()
        assert is_tree(tuple(heads[0, 1:].tolist()))
        assert not single_root or heads[0].tolist().count(0) == 1


@every_root
@pytest.mark.parametrize("limits", [[{1}], [{0}, {1}], [{0, 1}, {1, 2}]], ids=str)
def test_labelled_trees_are_the_best_that_keep_the_limits(limits, single_root):
    rng = np.random.default_rng(50)
    for case in range(10):
        n, model = int(rng.integers(1, 5)), list(MODELS)[case % len(MODELS)]
        arcs, higher = draw_parts(rng, 1, n, model, forbidden=0.0)
        labels = rng.integers(-4, 5, (1, n + 1, n + 1, 3)).astype(np.float32)
        value = best_labelled_value(arcs, higher, labels, limits, single_root)
        batch = torch.from_numpy(arcs), torch.from_numpy(labels), torch.tensor([n])
        options = {"limits": limits, "single_root": single_root}
        heads, found, scores, optimal = integer_program_labelled(
            *batch, **as_tensors(higher), **options
        )
        assert optimal.all()
        assert scores.item() == value
        assert keeps_limits(heads[0].numpy(), tuple(found[0, 1:].tolist()), limits)
