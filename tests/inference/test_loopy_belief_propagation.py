"""Loopy belief propagation: exact where it must be, near enumeration elsewhere, batch by batch."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import loopy_belief_propagation, matrix_tree_marginals
from tests.inference.crossing import as_tensors, put_junk
from tests.oracles.brute_force import all_trees
from tests.oracles.crossing_trees import crossing_tree_values
from tests.oracles.tree_sums import arc_marginals, sums_of_values

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
MODELS = {
    "siblings": {"sibling_scores": 3, "end_scores": 2},
    "ends": {"end_scores": 2},
    "grandparents": {"grandparent_scores": 3},
    "both": {"sibling_scores": 3, "end_scores": 2, "grandparent_scores": 3},
}
every_model = pytest.mark.parametrize("model", MODELS)


def draw(rng, n_batch, n, model, scale):
    arcs = rng.standard_normal((n_batch, n + 1, n + 1))
    higher = {
        name: scale * rng.standard_normal((n_batch, *[n + 1] * n_axes))
        for name, n_axes in MODELS[model].items()
    }
    return arcs, higher


def enumerated(arcs, higher, single_root):
    values = crossing_tree_values(arcs, higher, single_root)
    trees = all_trees(arcs.shape[1] - 1, False, single_root)
    return arc_marginals(sums_of_values(values).probabilities, trees)


@every_root
def test_without_higher_order_parts_marginals_are_those_of_the_matrix_tree_theorem(single_root):
    rng = np.random.default_rng(60)
    arcs = torch.from_numpy(rng.standard_normal((5, 8, 8)))
    lengths = torch.tensor([7, 0, 3, 1, 5])
    found, converged = loopy_belief_propagation(arcs, lengths, single_root=single_root)
    assert found.equal(matrix_tree_marginals(arcs, lengths, single_root=single_root))
    assert converged.all()


@every_root
@every_model
def test_higher_order_parts_that_are_all_zero_change_nothing(model, single_root):
    rng = np.random.default_rng(61)
    arcs, higher = draw(rng, 6, 5, model, 0.0)
    batch = torch.from_numpy(arcs), torch.full((6,), 5)
    found, converged = loopy_belief_propagation(
        *batch, **as_tensors(higher), single_root=single_root
    )
    expected = matrix_tree_marginals(*batch, single_root=single_root)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-10)
    assert converged.all()


@every_model
def test_it_is_exact_where_no_two_factors_share_two_arcs(model):
    """One modifier for each head and side, and no arc above one that is not the root's."""
    rng = np.random.default_rng(62)
    for n, forbidden in ((1, []), (2, [(0, 2), (2, 1)]), (2, [(0, 1), (1, 2)])):
        arcs, higher = draw(rng, 10, n, model, 1.0)
        for h, m in forbidden:
            arcs[:, h, m] = -np.inf
        found, converged = loopy_belief_propagation(
            torch.from_numpy(arcs), torch.full((10,), n), **as_tensors(higher)
        )
        np.testing.assert_allclose(found.numpy(), enumerated(arcs, higher, False), atol=1e-5)
        assert converged.all()


@every_root
@every_model
@pytest.mark.parametrize(("scale", "share"), [(0.02, 0.35), (0.5, 0.5)])
def test_it_is_far_nearer_to_enumeration_than_the_arcs_alone(model, single_root, scale, share):
    rng = np.random.default_rng(63)
    n = 4
    arcs, higher = draw(rng, 40, n, model, scale)
    expected = enumerated(arcs, higher, single_root)
    batch = torch.from_numpy(arcs), torch.full((40,), n)
    found, converged = loopy_belief_propagation(
        *batch, **as_tensors(higher), single_root=single_root, iterations=200
    )
    assert converged.all()
    np.testing.assert_allclose(found[:, :, 1:].sum(1).numpy(), 1.0, atol=1e-9)
    alone = matrix_tree_marginals(*batch, single_root=single_root).numpy()
    error = np.abs(found.numpy() - expected).mean()
    assert error < share * np.abs(alone - expected).mean()


@every_model
def test_padding_and_batch_mates_change_nothing_and_inputs_stay(model):
    rng = np.random.default_rng(64)
    lengths = [6, 0, 3, 1, 5]
    arcs, higher = draw(rng, 5, 6, model, 0.5)
    put_junk(arcs, higher, lengths)
    before = [scores.tobytes() for scores in (arcs, *higher.values())]
    batch = torch.from_numpy(arcs), torch.tensor(lengths)
    together, converged = loopy_belief_propagation(*batch, **as_tensors(higher), iterations=30)
    assert [scores.tobytes() for scores in (arcs, *higher.values())] == before
    for b, n in enumerate(lengths):
        inside = slice(n + 1)
        alone = {
            name: torch.from_numpy(scores[(slice(b, b + 1), *[inside] * (scores.ndim - 1))].copy())
            for name, scores in higher.items()
        }
        found, did = loopy_belief_propagation(
            batch[0][b : b + 1, inside, inside], batch[1][b : b + 1], **alone, iterations=30
        )
        np.testing.assert_allclose(found[0].numpy(), together[b, inside, inside].numpy(), atol=1e-9)
        assert not together[b, n + 1 :].any()
        assert did[0] == converged[b]


def test_forbidden_arcs_and_parts_have_no_probability():
    rng = np.random.default_rng(65)
    n = 4
    arcs, higher = draw(rng, 20, n, "both", 0.3)
    arcs[:, 1, 2] = -np.inf
    # 3 may not be the head of 4 unless 2 is: without a sibling between, and from the root, never.
    higher["grandparent_scores"][:, 3, 4, :2] = -np.inf
    found, _ = loopy_belief_propagation(
        torch.from_numpy(arcs), torch.full((20,), n), **as_tensors(higher), iterations=200
    )
    expected = enumerated(arcs, higher, False)
    assert not found.isnan().any()
    assert not found[:, 1, 2].any()
    assert np.abs(found.numpy() - expected).mean() < 0.03


def test_few_iterations_do_not_converge_and_wrong_options_are_refused():
    rng = np.random.default_rng(66)
    arcs, higher = draw(rng, 3, 5, "both", 1.0)
    batch = torch.from_numpy(arcs), torch.full((3,), 5)
    parts = as_tensors(higher)
    assert not loopy_belief_propagation(*batch, **parts, iterations=1)[1].any()
    with pytest.raises(ScoreError, match="iterations is 0"):
        loopy_belief_propagation(*batch, iterations=0)
    with pytest.raises(ScoreError, match="damping is 1"):
        loopy_belief_propagation(*batch, damping=1.0)
    with pytest.raises(ScoreError, match="sibling_scores has shape"):
        loopy_belief_propagation(*batch, sibling_scores=batch[0])
    batch[0][1, :, 2] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 1 "):
        loopy_belief_propagation(*batch, **parts)
