"""Required and forbidden arcs: decoders, k best trees and sums over the trees that satisfy them."""

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import constrain
from tests.oracles.brute_force import all_trees, sibling_tree_values, tree_values
from tests.oracles.tree_sums import arc_marginals, sums_of_values
from tests.strategies import cases

# n -> cases with both kinds of roots each, for every search.
CASES = cases({1: 250, 2: 1000, 3: 2000, 4: 1750})
every_case = pytest.mark.parametrize(
    ("n", "single_root"), [(n, single) for n in CASES for single in (False, True)]
)


def draw_masks(rng, n_batch, n, trees):
    """(required, forbidden), of which some tree of each sentence satisfies all."""
    tree = trees[rng.integers(len(trees), size=n_batch)]
    in_tree = tree[:, None, :] == np.arange(n + 1)[:, None]
    density = rng.random((n_batch, 1, 1))
    required = in_tree & (rng.random((n_batch, n + 1, n + 1)) < 0.6 * density)
    forbidden = ~in_tree & (rng.random((n_batch, n + 1, n + 1)) < 0.5 * density)
    return required, forbidden


def satisfying(trees, required, forbidden):
    """(B, T) bool: which trees have all required arcs and no forbidden one."""
    has_arc = trees[:, None, :] == np.arange(trees.shape[1])[:, None]
    return ~(
        np.einsum("bhm,thm->bt", required.astype(int), ~has_arc)
        + np.einsum("bhm,thm->bt", forbidden.astype(int), has_arc)
    ).astype(bool)


def draw(n, single_root, *, projective, seed):
    """Scores, masks and the values (B, T) of all trees, -inf for those that do not satisfy."""
    rng = np.random.default_rng([n, single_root, seed])
    trees = all_trees(n, projective, single_root)
    arcs = rng.standard_normal((CASES[n], n + 1, n + 1))
    required, forbidden = draw_masks(rng, CASES[n], n, trees)
    return rng, trees, arcs, required, forbidden


def as_tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


def check_trees(heads, values, trees, best):
    """The trees found are the best of enumeration; ties do not happen among random numbers."""
    assert np.array_equal(heads.numpy(), trees[best.argmax(axis=1)])
    np.testing.assert_allclose(values.numpy(), best.max(axis=1), rtol=1e-9, atol=1e-12)


@every_case
@pytest.mark.parametrize("name", ["eisner", "chu_liu_edmonds"])
def test_first_order(name, n, single_root):
    projective = name == "eisner"
    _, trees, arcs, required, forbidden = draw(n, single_root, projective=projective, seed=1)
    allowed = satisfying(trees, required, forbidden)
    best = np.where(allowed, tree_values(arcs, trees), -np.inf)
    scores, needed, banned = as_tensors(arcs, required, forbidden)
    lengths = torch.full((len(arcs),), n)
    given = constrain(scores, lengths, required=needed, forbidden=banned)
    for engine in ("native", "torch"):
        decoder = getattr(inference, name)
        check_trees(*decoder(given, lengths, single_root=single_root, engine=engine), trees, best)
    heads, values = getattr(inference, f"{name}_kbest")(given, lengths, 4, single_root=single_root)
    ordered = -np.sort(-best, axis=1)[:, :4]
    np.testing.assert_allclose(values[:, : ordered.shape[1]], ordered, rtol=1e-9, atol=1e-12)
    has_tree = values > -torch.inf
    for b, k in has_tree.nonzero()[:2000].tolist():
        assert allowed[b, (trees == heads[b, k].numpy()).all(1)].all()
    sums = sums_of_values(best)
    prefix = "eisner" if projective else "matrix_tree"
    marginals = getattr(inference, f"{prefix}_marginals")(given, lengths, single_root=single_root)
    expected = arc_marginals(sums.probabilities, trees)
    np.testing.assert_allclose(marginals.numpy(), expected, atol=1e-9)
    log_partition = getattr(inference, f"{prefix}_log_partition")(
        given, lengths, single_root=single_root
    )
    np.testing.assert_allclose(log_partition.numpy(), sums.log_partition, rtol=1e-9, atol=1e-9)


@every_case
def test_second_order(n, single_root):
    rng, trees, arcs, required, forbidden = draw(n, single_root, projective=True, seed=2)
    siblings = rng.standard_normal((len(arcs), n + 1, n + 1, n + 1))
    ends = rng.standard_normal(arcs.shape)
    values = sibling_tree_values(arcs, siblings, ends, projective=True, single_root=single_root)
    allowed = satisfying(trees, required, forbidden)
    best = np.where(allowed, values, -np.inf)
    scores, pairs, outer, needed, banned = as_tensors(arcs, siblings, ends, required, forbidden)
    lengths = torch.full((len(arcs),), n)
    given = constrain(scores, lengths, required=needed, forbidden=banned)
    options = {"end_scores": outer, "single_root": single_root}
    check_trees(*inference.eisner_sibling(given, pairs, lengths, **options), trees, best)
    _, several = inference.eisner_sibling_kbest(given, pairs, lengths, 4, **options)
    ordered = -np.sort(-best, axis=1)[:, :4]
    np.testing.assert_allclose(several[:, : ordered.shape[1]], ordered, rtol=1e-9, atol=1e-12)
    marginals = inference.eisner_sibling_marginals(given, pairs, lengths, **options)
    expected = arc_marginals(sums_of_values(best).probabilities, trees)
    np.testing.assert_allclose(marginals.numpy(), expected, atol=1e-9)
    found, *_ = inference.hill_climb(given, pairs, lengths, **options)
    has_arc = found.numpy()[:, None, :] == np.arange(n + 1)[:, None]
    assert not (required & ~has_arc).any()
    assert not (forbidden & has_arc)[:, :, 1:].any()


def test_gradients_pass_and_nothing_is_written_to():
    scores = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    before = scores.detach().clone()
    needed = torch.zeros(2, 4, 4, dtype=torch.bool)
    needed[0, 2, 1] = True
    given = constrain(scores, torch.tensor([3, 2]), required=needed)
    assert (given[0, :, 1] > -torch.inf).tolist() == [False, True, True, False]
    given[given > -torch.inf].sum().backward()
    assert torch.equal(scores.grad == 0, given.detach() == -torch.inf)
    assert torch.equal(scores, before)
    assert constrain(
        torch.ones(1, 2, 2, dtype=torch.int64), torch.tensor([1])
    ).dtype.is_floating_point


def mask(*cells):
    found = torch.zeros(2, 4, 4, dtype=torch.bool)
    for cell in cells:
        found[cell] = True
    return found


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"required": mask((1, 2, 1), (1, 0, 1))}, "sentence 1: word 1 has more than one"),
        ({"required": mask((0, 2, 2))}, "sentence 0: head 2 of word 2 is required, where no"),
        ({"required": mask((0, 1, 0))}, "sentence 0: head 1 of word 0 is required, where no"),
        ({"required": mask((1, 0, 3))}, "sentence 1: head 0 of word 3 is required, where no"),
        (
            {"required": mask((0, 3, 2)), "forbidden": mask((0, 3, 2))},
            "sentence 0: head 3 of word 2 is both required and forbidden",
        ),
        (
            {"forbidden": mask((1, 0, 1), (1, 2, 1))},
            "sentence 1: all heads of word 1 are forbidden",
        ),
        ({"forbidden": torch.zeros(2, 4, 3, dtype=torch.bool)}, "forbidden is torch.bool"),
        ({"required": torch.zeros(2, 4, 4)}, "required is torch.float32"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_case_29_contradictions_name_the_words(masks, message):
    with pytest.raises(ScoreError, match=message):
        constrain(torch.zeros(2, 4, 4), torch.tensor([3, 2]), **masks)


def test_what_only_the_decoder_sees():
    lengths, scores = torch.tensor([2, 4]), torch.zeros(2, 5, 5)
    cycle = torch.zeros(2, 5, 5, dtype=torch.bool)
    cycle[1, 1, 2] = cycle[1, 2, 1] = True
    with pytest.raises(NoTreeError, match="sentence 1"):
        inference.chu_liu_edmonds(constrain(scores, lengths, required=cycle), lengths)
    crossing = torch.zeros(2, 5, 5, dtype=torch.bool)
    crossing[1, 1, 3] = crossing[1, 2, 4] = True
    given = constrain(scores, lengths, required=crossing)
    assert inference.chu_liu_edmonds(given, lengths)[0][1, 3:].tolist() == [1, 2]
    with pytest.raises(NoTreeError, match="sentence 1"):
        inference.eisner(given, lengths)
