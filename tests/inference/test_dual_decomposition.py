"""Dual decomposition against all trees and integer programs."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import (
    chu_liu_edmonds,
    dual_decomposition,
    dual_decomposition_labelled,
    engines,
)
from gpuparse.inference.textbook import dual_decomposition as textbook_form
from tests.inference.crossing import MODELS, as_tensors, draw_parts, put_junk
from tests.oracles.brute_force import all_trees, is_tree
from tests.oracles.crossing_trees import (
    best_labelled_value,
    crossing_tree_values,
    keeps_limits,
)
from tests.oracles.integer_program import integer_program
from tests.oracles.tree_parts import tree_value
from tests.strategies import cases

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_kind = pytest.mark.parametrize("model", MODELS)
PLENTY = 5000
"""Iterations that the compiled form never needs for a few words."""


@every_root
@every_kind
@pytest.mark.parametrize("most", [1, 4])
def test_what_is_certified_within_few_iterations_is_the_best_of_all_trees(model, single_root, most):
    rng = np.random.default_rng(most)
    n_certified = n_uncertain = n_none = 0
    for case in range(60):
        n = int(rng.integers(1, 6))
        arcs, higher = draw_parts(rng, 1, n, model, forbidden=0.3 * (case % 2))
        values = crossing_tree_values(arcs, higher, single_root)[0]
        batch = torch.from_numpy(arcs), torch.tensor([n])
        options = {"single_root": single_root, "max_iterations": most}
        try:
            found = dual_decomposition(*batch, **as_tensors(higher), **options)
        except NoTreeError as error:
            n_none += 1
            if values.max() > -np.inf and "shows no tree in" not in str(error):
                raise
            continue
        heads, score, certified, iterations = (part[0].numpy() for part in found)
        assert iterations <= most
        trees = all_trees(n, False, single_root)
        value = values[(trees[:, 1:] == heads[1:]).all(axis=1).nonzero()[0][0]]
        assert score == value > -np.inf
        assert not certified or value == values.max()
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
    rng = np.random.default_rng(n)
    n_batch = cases({1: 100, 2: 200, 3: 500, 4: 500, 5: 400})[n]
    arcs, higher = draw_parts(rng, n_batch, n, model, forbidden=0.0)
    rough, rougher = draw_parts(rng, n_batch, n, model, forbidden=0.2)
    arcs[::2] = rough[::2]
    for name, scores in higher.items():
        scores[::2] = rougher[name][::2]
    values = crossing_tree_values(arcs, higher, single_root)
    has_tree = values.max(1) > -np.inf
    put_junk(arcs, higher, [n] * n_batch)
    options = {"single_root": single_root, "max_iterations": PLENTY}
    possible = {name: scores[has_tree] for name, scores in higher.items()}
    heads, scores, certified, _ = dual_decomposition(
        torch.from_numpy(arcs[has_tree]),
        torch.full((has_tree.sum(),), n),
        **as_tensors(possible),
        **options,
    )
    assert scores.tolist() == values[has_tree].max(1).tolist()
    assert certified.all()
    trees = all_trees(n, False, single_root)
    base = (n + 1) ** np.arange(n)
    place = {key: t for t, key in enumerate((trees[:, 1:] @ base).tolist())}
    found = [place[key] for key in (heads.numpy()[:, 1:] @ base).tolist()]
    assert values[has_tree][np.arange(len(found)), found].tolist() == scores.tolist()
    for b in np.flatnonzero(~has_tree)[:5]:
        one = {name: scores[b : b + 1] for name, scores in higher.items()}
        with pytest.raises(NoTreeError, match="sentence 0 of the batch has no tree"):
            dual_decomposition(
                torch.from_numpy(arcs[b : b + 1]), torch.tensor([n]), **as_tensors(one), **options
            )


@every_root
@every_kind
def test_what_the_textbook_and_native_code_certify_is_the_best(model, single_root):
    rng = np.random.default_rng(5)
    n_certified = 0
    for n in (1, 2, 4, 5):
        arcs, higher = draw_parts(rng, 2, n, model, forbidden=0.1 * (n == 4))
        values = crossing_tree_values(arcs, higher, single_root)
        for b in range(len(arcs)):
            one = {name: scores[b : b + 1] for name, scores in higher.items()}
            options = {"single_root": single_root, "max_iterations": 25}
            batch = torch.from_numpy(arcs[b : b + 1]), torch.tensor([n])
            try:
                _, score, is_certified, _ = textbook_form.dual_decomposition(
                    arcs[b], granularity=1.0, **options,
                    **{name: scores[0] for name, scores in one.items()},
                )  # fmt: skip
            except NoTreeError:
                continue
            found = dual_decomposition(*batch, **as_tensors(one), **options)
            assert score <= values[b].max()
            if is_certified:
                n_certified += 1
                assert score == values[b].max()
                assert not found[2] or found[1].item() == score
    assert n_certified > 2


@every_root
@pytest.mark.parametrize("model", ["siblings", "grandparents", "all"])
def test_certified_trees_are_those_of_integer_programs(model, single_root):
    rng = np.random.default_rng(6)
    n = 7
    arcs, higher = draw_parts(rng, 2, n, model, forbidden=0.1, spread=20)
    batch, parts = (torch.from_numpy(arcs), torch.full((2,), n)), as_tensors(higher)
    heads, _, certified, _ = dual_decomposition(
        *batch, **parts, single_root=single_root, max_iterations=PLENTY
    )
    assert certified.all()
    for b, found in enumerate(heads.tolist()):
        one = {name: scores[b] for name, scores in higher.items()}
        expected = integer_program(arcs[b], one, single_root=single_root)
        named = {name.removesuffix("_scores"): scores for name, scores in one.items()}
        values = [tree_value({"arc": arcs[b], **named}, tree) for tree in (found, expected)]
        assert values[0] == values[1]


@every_root
def test_without_higher_order_parts_it_is_chu_liu_edmonds(single_root):
    rng = np.random.default_rng(7)
    arcs = torch.from_numpy(rng.integers(-50, 51, (20, 13, 13)).astype(np.float32))
    lengths = torch.tensor([12] * 10 + list(range(10)))
    heads, scores, certified, _ = dual_decomposition(arcs, lengths, single_root=single_root)
    assert certified.all()
    assert scores.equal(chu_liu_edmonds(arcs, lengths, single_root=single_root)[1])
    assert ((heads >= 0).sum(1) == lengths).all()


def test_scores_that_are_not_whole_are_certified_too():
    rng = np.random.default_rng(8)
    n = 4
    arcs = rng.standard_normal((60, n + 1, n + 1), np.float32)
    higher = {
        "sibling_scores": rng.standard_normal((60, *[n + 1] * 3), np.float32),
        "grandparent_scores": rng.standard_normal((60, *[n + 1] * 3), np.float32),
    }
    values = crossing_tree_values(arcs, higher, False)
    batch = torch.from_numpy(arcs), torch.full((60,), n)
    heads, scores, certified, _ = dual_decomposition(
        *batch, **as_tensors(higher), max_iterations=PLENTY
    )
    assert certified.all()
    assert heads.tolist() == all_trees(n, False, False)[values.argmax(1)].tolist()
    np.testing.assert_allclose(scores.numpy(), values.max(1), rtol=1e-5)
    # With a coarse granularity less is certain, and sooner.
    _, near, certified, fewer = dual_decomposition(*batch, **as_tensors(higher), granularity=2.0)
    assert certified.all()
    assert (near.numpy() > values.max(1) - 2.0).all()
    assert fewer.sum() > 0


@every_root
@every_kind
def test_crossing_arcs_cost_min_gain(model, single_root):
    """The tree found is the best one where each tree with crossing arcs scores min_gain less."""
    rng = np.random.default_rng(13)
    n, n_changed = 4, 0
    arcs, higher = draw_parts(rng, 12, n, model, forbidden=0.0, spread=9)
    trees = all_trees(n, False, single_root)
    projective = {tuple(tree) for tree in all_trees(n, True, single_root).tolist()}
    is_projective = np.array([tuple(tree) in projective for tree in trees.tolist()])
    values = crossing_tree_values(arcs, higher, single_root)
    for min_gain in (0.0, 4.0, 1e4):
        heads, scores, certified, _ = dual_decomposition(
            torch.from_numpy(arcs), torch.full((12,), n), **as_tensors(higher),
            single_root=single_root, max_iterations=PLENTY, min_gain=min_gain,
        )  # fmt: skip
        found = [(trees == tree).all(axis=1).nonzero()[0][0] for tree in heads.numpy()]
        cost = np.where(is_projective, 0.0, min_gain)
        best = (values - cost).max(1)
        for b in np.flatnonzero(certified.numpy()):
            assert scores[b] == values[b, found[b]]
            assert values[b, found[b]] - cost[found[b]] == best[b]
        n_changed += int((values.max(1) > scores.numpy()).sum())
    assert n_changed > 0


@every_root
def test_crossing_arcs_cost_min_gain_under_limits_too(single_root):
    rng = np.random.default_rng(14)
    n, n_gave_way = 6, 0
    arcs, higher = draw_parts(rng, 30, n, "siblings", forbidden=0.0)
    labels = rng.integers(-4, 5, (30, n + 1, n + 1, 3)).astype(np.float32)
    batch = torch.from_numpy(arcs), torch.from_numpy(labels), torch.full((30,), n)
    options = {"limits": [{0, 1}], "single_root": single_root, "max_iterations": PLENTY}
    free = dual_decomposition_labelled(*batch, **as_tensors(higher), **options)
    for min_gain in (3.0, 1e4):
        found = dual_decomposition_labelled(
            *batch, **as_tensors(higher), **options, min_gain=min_gain
        )
        assert (found[2] <= free[2]).all()
        for b in range(30):
            assert keeps_limits(found[0][b].numpy(), tuple(found[1][b, 1:].tolist()), [{0, 1}])
            gave_way = found[0][b].tolist() != free[0][b].tolist()
            n_gave_way += gave_way
            assert not gave_way or found[2][b] >= free[2][b] - min_gain
    assert n_gave_way > 0


def test_case_30_one_iteration_gives_a_tree_that_is_mostly_not_certified():
    rng = np.random.default_rng(9)
    n = 9
    arcs, higher = draw_parts(rng, 10, n, "all", forbidden=0.0)
    batch = torch.from_numpy(arcs), torch.full((10,), n)
    heads, scores, certified, iterations = dual_decomposition(
        *batch, **as_tensors(higher), max_iterations=1
    )
    assert (iterations == 1).all()
    assert not certified.all()
    assert all(is_tree(tuple(tree[1:])) for tree in heads.tolist())
    _, best, _, _ = dual_decomposition(*batch, **as_tensors(higher), max_iterations=300)
    assert (scores <= best).all()


@pytest.mark.parametrize("model", ["siblings", "all"])
def test_padding_batch_mates_and_threads_change_nothing_and_inputs_stay(model, monkeypatch):
    rng = np.random.default_rng(10)
    lengths = [6, 0, 3, 1, 5, 4]
    arcs, higher = draw_parts(rng, 6, 6, model, forbidden=0.0)
    put_junk(arcs, higher, lengths)
    before = [scores.tobytes() for scores in (arcs, *higher.values())]
    batch = torch.from_numpy(arcs), torch.tensor(lengths)
    together = dual_decomposition(*batch, **as_tensors(higher), max_iterations=50)
    assert [scores.tobytes() for scores in (arcs, *higher.values())] == before
    for b, n in enumerate(lengths):
        inside = slice(n + 1)
        alone = {
            name: torch.from_numpy(scores[(slice(b, b + 1), *[inside] * (scores.ndim - 1))].copy())
            for name, scores in higher.items()
        }
        found = dual_decomposition(
            batch[0][b : b + 1, inside, inside], batch[1][b : b + 1], **alone, max_iterations=50
        )
        assert found[0][0].tolist() == together[0][b, inside].tolist()
        assert (together[0][b, n + 1 :] == -1).all()
        assert [part[0].item() for part in found[1:]] == [part[b].item() for part in together[1:]]
    monkeypatch.setattr(engines.run_in_threads, "__defaults__", (1,))
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        again = dual_decomposition(*batch, **as_tensors(higher), max_iterations=50)
    finally:
        torch.set_num_threads(n_threads)
    assert all(old.equal(new) for old, new in zip(together, again, strict=True))


LIMITS = [[], [{1}], [{0}, {1}], [{0, 1}, {1, 2}], [{0, 1, 2}]]
"""Nothing, one label, two apart, two that overlap, and one modifier a head at most."""


@every_root
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_labelled_trees_are_the_best_that_keep_the_limits(limits, single_root):
    rng = np.random.default_rng(11)
    n_none = 0
    for case in range(12):
        n, model = int(rng.integers(1, 5)), list(MODELS)[case % len(MODELS)]
        arcs, higher = draw_parts(rng, 1, n, model, forbidden=0.1 * (case % 3))
        labels = rng.integers(-4, 5, (1, n + 1, n + 1, 3)).astype(np.float32)
        labels[rng.random(labels.shape) < 0.15 * (case % 3)] = -np.inf
        value = best_labelled_value(arcs, higher, labels, limits, single_root)
        batch = torch.from_numpy(arcs), torch.from_numpy(labels), torch.tensor([n])
        options = {"limits": limits, "single_root": single_root, "max_iterations": PLENTY}
        if value == -np.inf:
            n_none += 1
            with pytest.raises(NoTreeError, match="has no tree"):
                dual_decomposition_labelled(*batch, **as_tensors(higher), **options)
            continue
        heads, found, scores, certified, _ = dual_decomposition_labelled(
            *batch, **as_tensors(higher), **options
        )
        assert certified.all()
        assert scores.item() == value
        assert keeps_limits(heads[0].numpy(), tuple(found[0, 1:].tolist()), limits)
        assert found[0, 0] == -1
    assert n_none < 8


def test_a_tree_that_is_not_certified_keeps_the_limits_too():
    rng = np.random.default_rng(12)
    n, limits = 12, [{0}, {1, 2}]
    arcs, higher = draw_parts(rng, 10, n, "both", forbidden=0.0)
    labels = rng.integers(-9, 10, (10, n + 1, n + 1, 5)).astype(np.float32)
    labels[..., 0] += 20
    heads, found, _, certified, _ = dual_decomposition_labelled(
        torch.from_numpy(arcs), torch.from_numpy(labels), torch.full((10,), n), limits=limits,
        **as_tensors(higher), max_iterations=2,
    )  # fmt: skip
    assert not certified.all()
    for tree, names in zip(heads.numpy(), found.tolist(), strict=True):
        assert keeps_limits(tree, tuple(names[1:]), limits)


def test_what_is_no_score_or_limit_is_refused():
    arcs, lengths = torch.zeros(2, 4, 4), torch.tensor([3, 3])
    with pytest.raises(ScoreError, match="grandparent_scores has shape"):
        dual_decomposition(arcs, lengths, grandparent_scores=torch.zeros(2, 4, 4))
    bad = torch.zeros(2, 4, 4, 4, 4)
    bad[1, 2, 3, 2, 1] = torch.nan
    with pytest.raises(ScoreError, match="grand_sibling_scores: sentence 1: "):
        dual_decomposition(arcs, lengths, grand_sibling_scores=bad)
    with pytest.raises(ScoreError, match="end_scores has shape"):
        dual_decomposition(arcs, lengths, end_scores=arcs[:1])
    with pytest.raises(ScoreError, match="max_iterations is 0"):
        dual_decomposition(arcs, lengths, max_iterations=0)
    with pytest.raises(ScoreError, match="granularity is -1"):
        dual_decomposition(arcs, lengths, granularity=-1.0)
    arcs[1, :, 2] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 1 of the batch has no tree"):
        dual_decomposition(arcs, lengths)


def test_what_is_no_label_or_limit_on_labels_is_refused():
    arcs, lengths = torch.zeros(2, 4, 4), torch.tensor([3, 3])
    labels = torch.zeros(2, 4, 4, 3)
    with pytest.raises(ScoreError, match="limit 1 names label 3"):
        dual_decomposition_labelled(arcs, labels, lengths, limits=[{0}, {3}])
    with pytest.raises(ScoreError, match="there are 11 limits"):
        dual_decomposition_labelled(arcs, labels, lengths, limits=[{0}] * 11)
    with pytest.raises(ScoreError, match="label_scores has shape"):
        dual_decomposition_labelled(arcs, labels[:, 1:], lengths, limits=[])
    labels[0, 1, 2, 1] = torch.inf
    with pytest.raises(ScoreError, match="label_scores: sentence 0: "):
        dual_decomposition_labelled(arcs, labels, lengths, limits=[])
