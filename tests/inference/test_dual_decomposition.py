"""Dual decomposition against all trees and integer programs."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import dual_decomposition, dual_decomposition_labelled
from gpuparse.inference.textbook import dual_decomposition as textbook_form
from tests.inference.crossing import (
    MODELS,
    at,
    best_labelled_value,
    decompose,
    draw_parts,
    keeps_limits,
    values_of,
)
from tests.oracles.brute_force import all_trees, is_tree
from tests.oracles.integer_program import integer_program
from tests.oracles.tree_parts import tree_value
from tests.strategies import cases

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_kind = pytest.mark.parametrize("model", MODELS)
PLENTY = 5000
"""Iterations that the compiled form never needs for a few words."""


def places_of(heads, single_root):
    """The numbers of trees (B, n + 1) in `all_trees`."""
    n = heads.shape[1] - 1
    places = {tuple(t): i for i, t in enumerate(all_trees(n, False, single_root).tolist())}
    return [places[tuple(tree)] for tree in heads.tolist()]


@every_root
@every_kind
@pytest.mark.parametrize("most", [1, 4])
def test_what_is_certified_within_few_iterations_is_the_best_of_all_trees(model, single_root, most):
    rng = np.random.default_rng(most)
    n_certified = n_uncertain = n_none = 0
    for case in range(60):
        n = int(rng.integers(1, 6))
        parts = draw_parts(rng, 1, n, model, forbidden=0.3 * (case % 2))
        values = values_of(parts, single_root)[0]
        try:
            found = decompose(parts, [n], single_root=single_root, max_iterations=most)
        except NoTreeError as error:
            n_none += 1
            if values.max() > -np.inf and "shows no tree in" not in str(error):
                raise
            continue
        score, certified, iterations = (part[0].item() for part in found[1:])
        assert iterations <= most
        assert score == values[places_of(found[0], single_root)[0]] > -np.inf
        assert not certified or score == values.max()
        n_certified += certified
        n_uncertain += not certified
    assert n_certified > 1
    assert n_uncertain > 0 or model == "arcs" or most == 4
    assert n_none < 40


@every_root
@every_kind
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_many_batches_have_the_value_of_enumeration(model, single_root, n):
    """Over all models and roots, n = 1..5: every tree is certified, and right."""
    rng, half = np.random.default_rng(n), cases({1: 100, 2: 200, 3: 500, 4: 500, 5: 400})[n] // 2
    drawn = [draw_parts(rng, half, n, model, forbidden=p) for p in (0.0, 0.2)]
    parts = {field: np.concatenate([each[field] for each in drawn]) for field in drawn[0]}
    values = values_of(parts, single_root)
    has_tree = values.max(1) > -np.inf
    options = {"single_root": single_root, "max_iterations": PLENTY}
    left, of_left = at(parts, has_tree), values[has_tree]
    heads, scores, certified, _ = decompose(left, [n] * len(of_left), **options)
    assert scores.tolist() == of_left.max(1).tolist()
    assert certified.all()
    found = places_of(heads, single_root)
    assert of_left[np.arange(len(found)), found].tolist() == scores.tolist()
    for b in np.flatnonzero(~has_tree)[:5]:
        with pytest.raises(NoTreeError, match="sentence 0 of the batch has no tree"):
            decompose(at(parts, [b]), [n], **options)


@every_root
@every_kind
def test_what_the_textbook_and_native_code_certify_is_the_best(model, single_root):
    rng = np.random.default_rng(5)
    n_certified, options = 0, {"single_root": single_root, "max_iterations": 25}
    for n in (1, 2, 4, 5):
        parts = draw_parts(rng, 2, n, model, forbidden=0.1 * (n == 4))
        values = values_of(parts, single_root)
        for b in range(2):
            arcs, *others = at(parts, b).values()
            named = dict(zip([f"{field}_scores" for field in parts][1:], others, strict=True))
            try:
                _, score, is_certified, _ = textbook_form.dual_decomposition(
                    arcs, granularity=1.0, **options, **named
                )
            except NoTreeError:
                continue
            found = decompose(at(parts, [b]), [n], **options)
            assert score <= values[b].max()
            if is_certified:
                n_certified += 1
                assert score == values[b].max()
                assert not found[2] or found[1].item() == score
    assert n_certified > 2


@every_root
@pytest.mark.parametrize("model", ["siblings", "grandparents", "all"])
def test_certified_trees_are_those_of_integer_programs(model, single_root):
    n, parts = 7, draw_parts(np.random.default_rng(6), 2, 7, model, forbidden=0.1, spread=20)
    heads, _, certified, _ = decompose(
        parts, [n, n], single_root=single_root, max_iterations=PLENTY
    )
    assert certified.all()
    for b, found in enumerate(heads.tolist()):
        one = at(parts, b)
        expected = integer_program(one, single_root=single_root)
        assert tree_value(one, found) == tree_value(one, expected)


def test_scores_that_are_not_whole_are_certified_too():
    rng, n = np.random.default_rng(8), 4
    fields = {"arc": 2, "sibling": 3, "grandparent": 3}
    parts = {f: rng.standard_normal((60, *[n + 1] * k), np.float32) for f, k in fields.items()}
    values = values_of(parts, False)
    heads, scores, certified, _ = decompose(parts, [n] * 60, max_iterations=PLENTY)
    assert certified.all()
    assert heads.tolist() == all_trees(n, False, False)[values.argmax(1)].tolist()
    np.testing.assert_allclose(scores.numpy(), values.max(1), rtol=1e-5)
    # With a coarse granularity less is certain, and sooner.
    _, near, certified, fewer = decompose(parts, [n] * 60, granularity=2.0)
    assert certified.all()
    assert (near.numpy() > values.max(1) - 2.0).all()
    assert fewer.sum() > 0


@every_root
@every_kind
def test_crossing_arcs_cost_min_gain(model, single_root):
    """The tree found is the best one where each tree with crossing arcs scores min_gain less."""
    n, n_changed = 4, 0
    parts = draw_parts(np.random.default_rng(13), 12, n, model, forbidden=0.0, spread=9)
    projective = {tuple(tree) for tree in all_trees(n, True, single_root).tolist()}
    trees = all_trees(n, False, single_root).tolist()
    is_projective = np.array([tuple(tree) in projective for tree in trees])
    values = values_of(parts, single_root)
    for min_gain in (0.0, 4.0, 1e4):
        heads, scores, certified, _ = decompose(
            parts, [n] * 12, single_root=single_root, max_iterations=PLENTY, min_gain=min_gain
        )
        found = places_of(heads, single_root)
        cost = np.where(is_projective, 0.0, min_gain)
        best = (values - cost).max(1)
        for b in np.flatnonzero(certified.numpy()):
            assert scores[b] == values[b, found[b]]
            assert values[b, found[b]] - cost[found[b]] == best[b]
        n_changed += int((values.max(1) > scores.numpy()).sum())
    assert n_changed > 0


@every_root
def test_crossing_arcs_cost_min_gain_under_limits_too(single_root):
    rng, n, n_gave_way = np.random.default_rng(14), 6, 0
    parts = draw_parts(rng, 30, n, "siblings", forbidden=0.0)
    labels = rng.integers(-4, 5, (30, n + 1, n + 1, 3)).astype(np.float32)
    options = {"limits": [{0, 1}], "single_root": single_root, "max_iterations": PLENTY}
    free = decompose(parts, [n] * 30, labels, **options)
    for min_gain in (3.0, 1e4):
        found = decompose(parts, [n] * 30, labels, **options, min_gain=min_gain)
        assert (found[2] <= free[2]).all()
        for b in range(30):
            assert keeps_limits(found[0][b].numpy(), tuple(found[1][b, 1:].tolist()), [{0, 1}])
            gave_way = found[0][b].tolist() != free[0][b].tolist()
            n_gave_way += gave_way
            assert not gave_way or found[2][b] >= free[2][b] - min_gain
    assert n_gave_way > 0


def test_case_30_one_iteration_gives_a_tree_that_is_mostly_not_certified():
    n = 9
    parts = draw_parts(np.random.default_rng(9), 10, n, "all", forbidden=0.0)
    heads, scores, certified, iterations = decompose(parts, [n] * 10, max_iterations=1)
    assert (iterations == 1).all()
    assert not certified.all()
    assert all(is_tree(tuple(tree[1:])) for tree in heads.tolist())
    assert (scores <= decompose(parts, [n] * 10, max_iterations=300)[1]).all()


LIMITS = [[], [{1}], [{0}, {1}], [{0, 1}, {1, 2}], [{0, 1, 2}]]
"""Nothing, one label, two apart, two that overlap, and one modifier per head at most."""


@every_root
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_labelled_trees_are_the_best_that_keep_the_limits(limits, single_root):
    rng, n_none = np.random.default_rng(11), 0
    for case in range(12):
        n, model = int(rng.integers(1, 5)), list(MODELS)[case % len(MODELS)]
        parts = draw_parts(rng, 1, n, model, forbidden=0.1 * (case % 3))
        labels = rng.integers(-4, 5, (1, n + 1, n + 1, 3)).astype(np.float32)
        labels[rng.random(labels.shape) < 0.15 * (case % 3)] = -np.inf
        value = best_labelled_value(parts, labels, limits, single_root)
        options = {"limits": limits, "single_root": single_root, "max_iterations": PLENTY}
        if value == -np.inf:
            n_none += 1
            with pytest.raises(NoTreeError, match="has no tree"):
                decompose(parts, [n], labels, **options)
            continue
        heads, found, scores, certified, _ = decompose(parts, [n], labels, **options)
        assert certified.all()
        assert scores.item() == value
        assert keeps_limits(heads[0].numpy(), tuple(found[0, 1:].tolist()), limits)
        assert found[0, 0] == -1
    assert n_none < 8


def test_a_tree_that_is_not_certified_keeps_the_limits_too():
    rng, n, limits = np.random.default_rng(12), 12, [{0}, {1, 2}]
    parts = draw_parts(rng, 10, n, "both", forbidden=0.0)
    labels = rng.integers(-9, 10, (10, n + 1, n + 1, 5)).astype(np.float32)
    labels[..., 0] += 20
    options = {"limits": limits, "max_iterations": 2}
    heads, found, _, certified, _ = decompose(parts, [n] * 10, labels, **options)
    assert not certified.all()
    for tree, names in zip(heads.numpy(), found.tolist(), strict=True):
        assert keeps_limits(tree, tuple(names[1:]), limits)


def test_what_is_no_number_label_or_limit_is_refused():
    arcs, lengths, labels = torch.zeros(2, 4, 4), torch.tensor([3, 3]), torch.zeros(2, 4, 4, 3)
    for options, said in [
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"granularity": -1.0}, "granularity is -1"),
    ]:
        with pytest.raises(ScoreError, match=said):
            dual_decomposition(arcs, lengths, **options)
    infinite = labels.clone()
    infinite[0, 1, 2, 1] = torch.inf
    for given, limits, said in [
        (labels, [{0}, {3}], "limit 1 names label 3"),
        (labels, [{0}] * 11, "there are 11 limits"),
        (labels[:, 1:], [], "label_scores has shape"),
        (infinite, [], "label_scores: sentence 0: "),
    ]:
        with pytest.raises(ScoreError, match=said):
            dual_decomposition_labelled(arcs, given, lengths, limits=limits)
