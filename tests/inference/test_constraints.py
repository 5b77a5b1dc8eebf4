"""Required and forbidden arcs: decoders, k best trees and sums over the trees that satisfy them."""

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import DECODERS, constrain
from tests.inference.decoders import draw_parts
from tests.inference.test_laws import answers
from tests.inference.test_sums import call
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import values_of_trees
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


@every_case
@pytest.mark.parametrize("name", inference.with_quantity("k_best"))
def test_searches_and_sums_are_those_of_the_trees_that_satisfy(name, n, single_root):
    """Ties do not happen among random numbers."""
    rng, is_projective = np.random.default_rng([n, single_root]), DECODERS[name].is_projective
    trees = all_trees(n, is_projective, single_root)
    parts = draw_parts(name, rng, CASES[n], n, "float64")
    required, forbidden = draw_masks(rng, CASES[n], n, trees)
    allowed = satisfying(trees, required, forbidden)
    values = values_of_trees(parts, projective=is_projective, single_root=single_root)
    values = np.where(allowed, values, -np.inf)
    lengths, close = [n] * len(values), {"rtol": 1e-9, "atol": 1e-9}
    masks = {"required": torch.from_numpy(required), "forbidden": torch.from_numpy(forbidden)}
    given = constrain(torch.from_numpy(parts["arc"]), torch.tensor(lengths), **masks)
    parts = parts | {"arc": given.numpy()}
    for engine in ("native", "torch"):
        heads, best = answers("best", name, parts, lengths, single_root, engine)
        assert np.array_equal(heads.numpy(), trees[values.argmax(axis=1)])
        np.testing.assert_allclose(best.numpy(), values.max(axis=1), **close)
    heads, several = answers("k_best", name, parts, lengths, single_root, "native", 4)
    ordered = -np.sort(-values, axis=1)[:, :4]
    np.testing.assert_allclose(several[:, : ordered.shape[1]], ordered, **close)
    for b, k in (several > -torch.inf).nonzero()[:2000].tolist():
        assert allowed[b, (trees == heads[b, k].numpy()).all(1)].all()
    sums, how = sums_of_values(values), {"single_root": single_root}
    expected = arc_marginals(sums.probabilities, trees)
    found = call("marginals", name, parts, lengths, **how)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)
    found = call("log_partition", name, parts, lengths, **how)
    np.testing.assert_allclose(found.numpy(), sums.log_partition, **close)
    if name == "eisner_sibling":  # from a tree that satisfies
        found, _ = answers("best", "hill_climb", parts, lengths, single_root, "native")
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
