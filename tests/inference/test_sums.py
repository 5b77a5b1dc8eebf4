"""Sums over projective trees: enumeration, textbook, gradients, extreme scores, samples, peers."""

import importlib.util
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck as every_gradcheck
from torch.autograd import gradgradcheck as every_gradgradcheck

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import (
    arc_scores_of_labels,
    eisner,
    eisner_entropy,
    eisner_log_partition,
    eisner_marginals,
    eisner_sample,
    eisner_sibling,
    eisner_sibling_entropy,
    eisner_sibling_log_partition,
    eisner_sibling_marginals,
    eisner_sibling_sample,
    label_marginals,
)
from gpuparse.inference.textbook import projective
from tests.oracles.brute_force import (
    all_trees,
    ends_of,
    parts_of,
    sibling_tree_values,
    tree_values,
)
from tests.oracles.tree_sums import arc_marginals, sibling_marginals, sums_of_values
from tests.strategies import cases, with_junk

# Derivatives in a random direction rather than in all of them.
gradcheck = partial(every_gradcheck, fast_mode=True)
gradgradcheck = partial(every_gradgradcheck, fast_mode=True)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_engine = pytest.mark.parametrize("engine", ["torch", "native"])
CASES = cases({1: 250, 2: 1250, 3: 2000, 4: 3250, 5: 3250})
"""Words -> matrices of each kind."""


def draw(rng, *shape, forbidden=0.0, spread=1.0):
    scores = spread * rng.standard_normal(shape)
    scores[rng.random(shape) < forbidden] = -np.inf
    return scores


def draw_arcs(rng, n_batch, n, single_root, forbidden=0.25):
    """Half of the matrices with forbidden arcs, all with a tree; and the values of all trees."""
    scores = draw(rng, n_batch, n + 1, n + 1, spread=2.0)
    scores[::2] = draw(rng, len(scores[::2]), n + 1, n + 1, forbidden=forbidden)
    trees = all_trees(n, True, single_root)
    values = tree_values(scores, trees)
    has_tree = values.max(axis=1) > -np.inf
    return scores[has_tree], values[has_tree], trees


def draw_siblings(rng, n_batch, n, single_root):
    arcs = draw(rng, n_batch, n + 1, n + 1)
    siblings = draw(rng, n_batch, n + 1, n + 1, n + 1)
    ends = draw(rng, n_batch, n + 1, n + 1)
    arcs[::2] = draw(rng, len(arcs[::2]), n + 1, n + 1, forbidden=0.15)
    siblings[::3] = draw(rng, len(siblings[::3]), n + 1, n + 1, n + 1, forbidden=0.1)
    ends[::5] = draw(rng, len(ends[::5]), n + 1, n + 1, forbidden=0.1)
    values = sibling_tree_values(
        arcs, siblings, ends, projective=True, single_root=single_root
    )  # fmt: skip
    keep = values.max(axis=1) > -np.inf
    return (arcs[keep], siblings[keep], ends[keep]), values[keep], all_trees(n, True, single_root)


def tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


def assert_equals_numpy(result, expected, tolerance=1e-9):
    assert result.dtype == torch.float64
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=0, atol=tolerance)


@every_root
def test_textbook_equals_enumeration(single_root):
    rng = np.random.default_rng(1)
    for n in range(1, 6):
        scores, values, _ = draw_arcs(rng, 20, n, single_root)
        for matrix, expected in zip(scores, sums_of_values(values).log_partition, strict=True):
            found = projective.eisner_log_partition(matrix, single_root=single_root)
            assert found == pytest.approx(expected, abs=1e-10)
        parts, values, _ = draw_siblings(rng, 20, n, single_root)
        for b, expected in enumerate(sums_of_values(values).log_partition):
            of_sentence = [part[b] for part in parts]
            found = projective.eisner_sibling_log_partition(*of_sentence, single_root=single_root)
            assert found == pytest.approx(expected, abs=1e-10)
    nothing = np.full((3, 3), -np.inf)
    assert projective.eisner_log_partition(nothing, single_root=single_root) == -np.inf


@every_root
@every_engine
@pytest.mark.parametrize("n", CASES)
def test_many_matrices_have_the_sums_of_enumeration(single_root, engine, n):
    scores, values, trees = draw_arcs(np.random.default_rng(n), CASES[n], n, single_root)
    assert len(scores) < CASES[n] or n > 2  # some have no tree
    expected = sums_of_values(values)
    args = [torch.from_numpy(scores), torch.full((len(scores),), n)]
    how = {"single_root": single_root, "engine": engine}
    assert_equals_numpy(eisner_log_partition(*args, **how), expected.log_partition)
    assert_equals_numpy(eisner_entropy(*args, **how), expected.entropy)
    marginals = eisner_marginals(*args, **how)
    assert_equals_numpy(marginals, arc_marginals(expected.probabilities, trees))


@every_root
@every_engine
@pytest.mark.parametrize("n", CASES)
def test_many_sibling_scores_have_the_sums_of_enumeration(single_root, engine, n):
    parts, values, trees = draw_siblings(np.random.default_rng(n), CASES[n], n, single_root)
    expected = sums_of_values(values)
    arcs, siblings, ends = tensors(*parts)
    args, how = (arcs, siblings, torch.full((len(arcs),), n)), {"single_root": single_root}
    how["end_scores"] = ends
    log_partition = eisner_sibling_log_partition(*args, **how, engine=engine)
    assert_equals_numpy(log_partition, expected.log_partition)
    marginals = eisner_sibling_marginals(*args, **how, engine=engine)
    assert_equals_numpy(marginals, arc_marginals(expected.probabilities, trees))
    if engine == "torch":
        assert_equals_numpy(eisner_sibling_entropy(*args, **how), expected.entropy)


@every_root
@pytest.mark.parametrize("n", [1, 2, 3])
def test_many_label_marginals_are_those_of_enumeration(single_root, n):
    n_batch, n_labels = cases({1: 3000, 2: 3500, 3: 3500})[n], 3
    rng = np.random.default_rng(n)
    arcs = draw(rng, n_batch, n + 1, n + 1)
    labels = draw(rng, n_batch, n + 1, n + 1, n_labels, forbidden=0.1)
    trees = all_trees(n, True, single_root)
    # A tree with labels is a pair of lines: heads and labels of the words.
    pairs = [(t, choice) for t in range(len(trees)) for choice in product(range(3), repeat=n)]
    values = np.zeros((n_batch, len(pairs)))
    for p, (t, choice) in enumerate(pairs):
        for m, label in enumerate(choice, start=1):
            h = trees[t, m]
            values[:, p] += arcs[:, h, m] + labels[:, h, m, label]
    keep = values.max(axis=1) > -np.inf
    arcs, labels, values = arcs[keep], labels[keep], values[keep]
    expected = sums_of_values(values)
    of_labels = np.zeros(labels.shape)
    for p, (t, choice) in enumerate(pairs):
        for m, label in enumerate(choice, start=1):
            of_labels[:, trees[t, m], m, label] += expected.probabilities[:, p]
    both, lengths = torch.from_numpy(arcs), torch.full((len(arcs),), n)
    both = both + arc_scores_of_labels(torch.from_numpy(labels))
    how = {"single_root": single_root}
    assert_equals_numpy(eisner_log_partition(both, lengths, **how), expected.log_partition)
    of_arcs = eisner_marginals(both, lengths, **how)
    found = label_marginals(of_arcs, torch.from_numpy(labels))
    assert_equals_numpy(found, of_labels)
    torch.testing.assert_close(found.sum(3), of_arcs, rtol=0, atol=1e-12)


def test_label_marginals_are_differentiable_and_check_shapes():
    rng = np.random.default_rng(4)
    labels = torch.from_numpy(draw(rng, 2, 4, 4, 3)).requires_grad_()
    forbidden = torch.from_numpy(rng.random((2, 4, 4, 3)) < 0.2)
    forbidden[:, 1, 2] = True  # all labels of an arc
    lengths = torch.tensor([3, 2])

    def probabilities(labels):
        labels = labels.masked_fill(forbidden, -torch.inf)
        arcs = arc_scores_of_labels(labels)
        return label_marginals(eisner_marginals(arcs, lengths), labels)

    assert gradcheck(probabilities, (labels,))
    probabilities(labels).square().sum().backward()
    assert labels.grad.isfinite().all()
    assert (labels.grad[forbidden] == 0).all()
    with pytest.raises(ScoreError, match="label_scores"):
        arc_scores_of_labels(torch.zeros(2, 3, 3))
    with pytest.raises(ScoreError, match="label_scores"):
        label_marginals(torch.zeros(2, 3, 3), torch.zeros(2, 4, 4, 2))


@every_root
@every_engine
def test_the_gradient_of_the_log_partition_is_the_marginals(single_root, engine):
    scores, _, _ = draw_arcs(np.random.default_rng(5), 30, 5, single_root)
    arcs, lengths = torch.from_numpy(scores).requires_grad_(), torch.full((len(scores),), 5)
    how = {"single_root": single_root, "engine": engine}
    factors = torch.linspace(-1, 2, len(scores), dtype=torch.float64)
    (eisner_log_partition(arcs, lengths, **how) * factors).sum().backward()
    marginals = eisner_marginals(arcs.detach(), lengths, **how)
    expected = factors[:, None, None] * marginals
    torch.testing.assert_close(arcs.grad, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        marginals[:, :, 1:].sum(1), torch.ones(len(scores), 5, dtype=torch.float64)
    )


@every_root
def test_gradients_of_the_sibling_log_partition_are_marginals_of_all_parts(single_root):
    n = 4
    parts, values, trees = draw_siblings(np.random.default_rng(6), 40, n, single_root)
    arcs, siblings, ends = (part.requires_grad_() for part in tensors(*parts))
    lengths = torch.full((len(arcs),), n)
    eisner_sibling_log_partition(
        arcs, siblings, lengths, end_scores=ends, single_root=single_root
    ).sum().backward()
    probabilities = sums_of_values(values).probabilities
    assert_equals_numpy(arcs.grad, arc_marginals(probabilities, trees))
    assert_equals_numpy(siblings.grad, sibling_marginals(probabilities, trees))
    of_ends = np.zeros(ends.shape)
    for t, tree in enumerate(trees):
        for h, m in ends_of(tree):
            of_ends[:, h, m] += probabilities[:, t]
    assert_equals_numpy(ends.grad, of_ends)


def masked(function, forbidden, *args, **how):
    """The function of scores of which some are forbidden, for numerical differentiation."""
    return lambda scores: function(scores.masked_fill(forbidden, -torch.inf), *args, **how)


@every_root
@every_engine
def test_derivatives_of_the_first_order_are_right(single_root, engine):
    rng = np.random.default_rng(7)
    arcs = torch.from_numpy(draw(rng, 3, 5, 5)).requires_grad_()
    forbidden = torch.from_numpy(rng.random((3, 5, 5)) < 0.15)
    forbidden[:, 0, :] = False
    forbidden[:, 1, :] = False
    lengths, how = torch.tensor([4, 3, 0]), {"single_root": single_root}
    log_partition = masked(eisner_log_partition, forbidden, lengths, engine=engine, **how)
    assert gradcheck(log_partition, (arcs,))
    assert gradgradcheck(log_partition, (arcs,))
    if engine == "torch":
        assert gradcheck(masked(eisner_entropy, forbidden, lengths, **how), (arcs,))
        assert gradcheck(masked(eisner_marginals, forbidden, lengths, **how), (arcs,))


@every_root
def test_derivatives_of_the_second_order_are_right(single_root):
    rng = np.random.default_rng(8)
    arcs = torch.from_numpy(draw(rng, 2, 4, 4)).requires_grad_()
    siblings = torch.from_numpy(draw(rng, 2, 4, 4, 4)).requires_grad_()
    ends = torch.from_numpy(draw(rng, 2, 4, 4)).requires_grad_()
    forbidden = torch.from_numpy(rng.random((2, 4, 4, 4)) < 0.1)
    forbidden[:, 0] = False
    lengths = torch.tensor([3, 2])

    def calling(function):
        return lambda arcs, siblings, ends: function(
            arcs, siblings.masked_fill(forbidden, -torch.inf), lengths, end_scores=ends,
            single_root=single_root,
        )  # fmt: skip

    assert gradcheck(calling(eisner_sibling_log_partition), (arcs, siblings, ends))
    assert gradcheck(calling(eisner_sibling_entropy), (arcs, siblings, ends))
    assert gradcheck(calling(eisner_sibling_marginals), (arcs, siblings, ends))
    # Gradients may be asked for with respect to other parts than the arcs alone.
    assert gradcheck(lambda s: calling(eisner_sibling_marginals)(arcs.detach(), s, ends), siblings)


@every_root
@pytest.mark.parametrize("what", ["log_partition", "entropy", "marginals"])
def test_forbidden_arcs_and_padding_leave_no_nan_in_gradients(single_root, what):
    rng = np.random.default_rng(9)
    arcs = torch.full((3, 7, 7), -torch.inf, dtype=torch.float64)
    chain = torch.arange(6)
    arcs[:, chain, chain + 1] = 1.0  # a single tree, but for:
    arcs[:, 1, 3] = 0.5
    arcs[:, :, 5:] = torch.nan
    arcs[:, 5:] = torch.nan
    arcs[:, :, 0] = torch.nan
    arcs.diagonal(dim1=1, dim2=2).fill_(torch.nan)
    arcs.requires_grad_()
    lengths = torch.tensor([4, 2, 0])
    first = {
        "log_partition": eisner_log_partition, "entropy": eisner_entropy,
        "marginals": eisner_marginals,
    }[what]  # fmt: skip
    result = first(arcs, lengths, single_root=single_root)
    result.square().sum().backward()
    assert result.isfinite().all()
    assert arcs.grad.isfinite().all()
    second = {
        "log_partition": eisner_sibling_log_partition, "entropy": eisner_sibling_entropy,
        "marginals": eisner_sibling_marginals,
    }[what]  # fmt: skip
    siblings = torch.from_numpy(draw(rng, 3, 7, 7, 7, forbidden=0.0))
    siblings[:, 5:] = torch.nan
    siblings.requires_grad_()
    arcs.grad = None
    result = second(arcs, siblings, lengths, single_root=single_root)
    result.square().sum().backward()
    assert arcs.grad.isfinite().all()
    assert siblings.grad.isfinite().all()


@every_root
@every_engine
@pytest.mark.parametrize("n", [1, 3, 5])
def test_huge_scores_with_ties_have_the_sums_of_enumeration(single_root, engine, n):
    """Whole numbers times a million: many best trees, next to nothing on the others."""
    rng = np.random.default_rng(n)
    scores = 1e6 * rng.integers(-2, 3, (500, n + 1, n + 1)).astype(np.float64)
    expected = sums_of_values(tree_values(scores, all_trees(n, True, single_root)))
    args = torch.from_numpy(scores), torch.full((500,), n)
    how = {"single_root": single_root, "engine": engine}
    assert_equals_numpy(eisner_log_partition(*args, **how), expected.log_partition, 1e-8)
    assert_equals_numpy(eisner_entropy(*args, **how), expected.entropy, 1e-8)
    trees = all_trees(n, True, single_root)
    found = eisner_marginals(*args, **how)
    assert_equals_numpy(found, arc_marginals(expected.probabilities, trees), 1e-8)


@every_root
@every_engine
def test_huge_scores_plus_small_ones_lose_no_more_than_their_rounding(single_root, engine):
    """Columns a million up or down change nothing but the rounding of the scores themselves."""
    rng = np.random.default_rng(10)
    n = 12
    small = np.round(draw(rng, 20, n + 1, n + 1), 3)
    columns = 1e6 * rng.integers(-1, 2, (20, 1, n + 1))
    lengths, how = torch.full((20,), n), {"single_root": single_root, "engine": engine}
    for function in (eisner_marginals, eisner_entropy):
        expected = function(torch.from_numpy(small), lengths, **how)
        found = function(torch.from_numpy(small + columns), lengths, **how)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)


@every_root
@every_engine
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 1e6])
def test_the_log_partition_is_above_the_best_tree(single_root, engine, spread):
    rng = np.random.default_rng(11)
    arcs = torch.from_numpy(draw(rng, 8, 21, 21, spread=spread))
    siblings = torch.from_numpy(draw(rng, 8, 21, 21, 21, spread=spread))
    lengths = torch.tensor([20, 1, 2, 3, 7, 13, 19, 20])
    how = {"single_root": single_root, "engine": engine}
    for log_partition, (heads, best), marginals in [
        (
            eisner_log_partition(arcs, lengths, **how),
            eisner(arcs, lengths, single_root=single_root),
            eisner_marginals(arcs, lengths, **how),
        ),
        (
            eisner_sibling_log_partition(arcs, siblings, lengths, **how),
            eisner_sibling(arcs, siblings, lengths, single_root=single_root),
            eisner_sibling_marginals(arcs, siblings, lengths, **how),
        ),
    ]:
        assert (log_partition >= best - 1e-13 * (1 + best.abs())).all()
        is_word = heads >= 0
        torch.testing.assert_close(marginals.sum(1), is_word.double(), rtol=0, atol=1e-8)
        assert (marginals >= 0).all()
        assert (marginals <= 1 + 1e-8).all()
        if spread == 1e6:  # nothing but the best tree is left
            of_best = marginals.gather(1, heads.clamp(min=0)[:, None])[:, 0]
            torch.testing.assert_close(of_best, is_word.double(), rtol=0, atol=1e-8)
            torch.testing.assert_close(log_partition, best, rtol=1e-14, atol=0)


@every_root
@pytest.mark.parametrize("spread", [1.0, 20.0, 1000.0])
def test_compiled_equals_torch_whatever_the_size(single_root, spread):
    """Among them sums by numbers and, where spread is large, by logarithms."""
    rng = np.random.default_rng(12)
    for n in (1, 2, 7, 33):
        arcs = torch.from_numpy(draw(rng, 4, n + 1, n + 1, forbidden=0.02, spread=spread))
        arcs[:, 0, 1:] = 0.1 * spread  # so that there are trees
        siblings = torch.from_numpy(draw(rng, 4, n + 1, n + 1, n + 1, spread=spread))
        ends = torch.from_numpy(draw(rng, 4, n + 1, n + 1, spread=spread))
        if single_root:
            arcs = arcs.masked_fill(arcs == -torch.inf, -spread)
        lengths = torch.tensor([n, (n + 1) // 2, n, 0])
        first = partial(eisner_marginals, arcs, lengths, single_root=single_root)
        second = partial(
            eisner_sibling_marginals, arcs, siblings, lengths, end_scores=ends,
            single_root=single_root,
        )  # fmt: skip
        for marginals in (first, second):
            compiled, batched = marginals(engine="native"), marginals(engine="torch")
            torch.testing.assert_close(compiled, batched, rtol=0, atol=1e-10)
        first = partial(eisner_log_partition, arcs, lengths, single_root=single_root)
        second = partial(
            eisner_sibling_log_partition, arcs, siblings, lengths, end_scores=ends,
            single_root=single_root,
        )  # fmt: skip
        for log_partition in (first, second):
            compiled, batched = log_partition(engine="native"), log_partition(engine="torch")
            torch.testing.assert_close(compiled, batched, rtol=1e-13, atol=1e-10)
        entropy = partial(eisner_entropy, arcs, lengths, single_root=single_root)
        torch.testing.assert_close(
            entropy(engine="native"), entropy(engine="torch"), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
def test_long_sentences_and_large_scores_have_the_sums_of_torch(spread):
    arcs = torch.from_numpy(draw(np.random.default_rng(13), 1, 181, 181, spread=spread))
    lengths = torch.tensor([180])
    found, expected = (
        eisner_marginals(arcs, lengths, engine=engine) for engine in ("native", "torch")
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_sums_are_traced_whole_whatever_the_engine():
    """For the sums of all decoders in torch see test_distributions.py."""
    words = torch.tensor([2, 1])
    (arcs,) = tensors(draw(np.random.default_rng(25), 2, 3, 3))

    def sums(arcs):
        functions = (eisner_log_partition, eisner_marginals, eisner_entropy)
        return torch.stack([function(arcs, words).sum() for function in functions])

    traced = torch.compile(sums, fullgraph=True, backend="eager")
    torch.testing.assert_close(traced(arcs), sums(arcs))
    gradient = torch.func.grad(lambda arcs: eisner_log_partition(arcs, words).sum())(arcs)
    torch.testing.assert_close(gradient, eisner_marginals(arcs, words))


@every_root
@every_engine
def test_what_is_not_read_changes_nothing(single_root, engine):
    rng = np.random.default_rng(14)
    n, lengths = 6, torch.tensor([6, 4, 1])
    arcs, siblings, ends = (
        draw(rng, 3, 7, 7), draw(rng, 3, 7, 7, 7), draw(rng, 3, 7, 7),
    )  # fmt: skip
    wide = [np.full((3,) + (n + 4,) * k, np.nan) for k in (2, 3, 2)]
    for b, length in enumerate(lengths.tolist()):
        cut = slice(0, length + 1)
        wide[0][b, cut, cut] = arcs[b, cut, cut]
        wide[1][b, cut, cut, cut] = siblings[b, cut, cut, cut]
        wide[2][b, cut, cut] = ends[b, cut, cut]
    with_junk(wide[0], wide[1], np.nan, wide[2])
    narrow, padded = tensors(arcs, siblings, ends), tensors(*wide)
    before = [part.clone() for part in padded]
    how = {"single_root": single_root, "engine": engine}
    for function in (eisner_log_partition, eisner_marginals, eisner_entropy):
        expected = function(narrow[0], lengths, **how)
        found = function(padded[0], lengths, **how)
        if found.dim() == 3:
            assert (found[:, n + 1 :] == 0).all()
            assert (found[:, :, n + 1 :] == 0).all()
            found = found[:, : n + 1, : n + 1]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    for function in (eisner_sibling_log_partition, eisner_sibling_marginals):
        expected = function(*narrow[:2], lengths, end_scores=narrow[2], **how)
        found = function(*padded[:2], lengths, end_scores=padded[2], **how)
        if found.dim() == 3:
            found = found[:, : n + 1, : n + 1]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    how.pop("engine")
    found = eisner_sibling_entropy(*padded[:2], lengths, end_scores=padded[2], **how)
    expected = eisner_sibling_entropy(*narrow[:2], lengths, end_scores=narrow[2], **how)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    for part, copy in zip(padded, before, strict=True):
        torch.testing.assert_close(part, copy, rtol=0, atol=0, equal_nan=True)


@every_engine
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_any_type_is_computed_with_as_float64(engine, kind):
    rng = np.random.default_rng(15)
    arcs = torch.from_numpy(draw(rng, 4, 9, 9, spread=3.0)).to(kind)
    siblings = torch.from_numpy(draw(rng, 4, 9, 9, 9, spread=3.0)).to(kind)
    lengths = torch.full((4,), 8)
    for function in (eisner_log_partition, eisner_marginals, eisner_entropy):
        found = function(arcs, lengths, engine=engine)
        assert found.dtype == torch.float64
        assert found.equal(function(arcs.double(), lengths, engine=engine))
    for function in (eisner_sibling_log_partition, eisner_sibling_marginals):
        found = function(arcs, siblings, lengths, engine=engine)
        assert found.dtype == torch.float64
        assert found.equal(function(arcs.double(), siblings.double(), lengths, engine=engine))


@every_engine
def test_sums_are_there_in_inference_mode(engine):
    arcs = torch.from_numpy(draw(np.random.default_rng(16), 2, 6, 6))
    lengths = torch.full((2,), 5)
    expected = eisner_marginals(arcs, lengths, engine=engine)
    siblings = torch.zeros(2, 6, 6, 6)
    with torch.inference_mode():
        assert eisner_marginals(arcs.clone(), lengths.clone(), engine=engine).equal(expected)
        found = eisner_sibling_marginals(arcs.clone(), siblings, lengths, engine=engine)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@every_root
@every_engine
def test_a_sentence_without_a_tree_is_named(single_root, engine):
    arcs = torch.zeros(3, 4, 4)
    arcs[1, :, 2] = -torch.inf
    lengths, how = torch.full((3,), 3), {"single_root": single_root, "engine": engine}
    for function in (eisner_log_partition, eisner_marginals, eisner_entropy):
        with pytest.raises(NoTreeError, match="sentence 1"):
            function(arcs, lengths, **how)
    for function in (eisner_sibling_log_partition, eisner_sibling_marginals):
        with pytest.raises(NoTreeError, match="sentence 1"):
            function(arcs, torch.zeros(3, 4, 4, 4), lengths, **how)
    with pytest.raises(NoTreeError, match="sentence 1"):
        eisner_sample(arcs, lengths, 2)
    with pytest.raises(NoTreeError, match="sentence 1"):
        eisner_sibling_sample(arcs, torch.zeros(3, 4, 4, 4), lengths, 2)


@every_root
@every_engine
@pytest.mark.parametrize("shape", [(0, 1), (0, 4), (3, 1), (2, 3)])
def test_no_sentences_and_no_words(single_root, engine, shape):
    n_batch, n_nodes = shape
    arcs = torch.zeros(n_batch, n_nodes, n_nodes)
    siblings, lengths = torch.zeros(n_batch, n_nodes, n_nodes, n_nodes), torch.zeros(n_batch).long()
    how = {"single_root": single_root, "engine": engine}
    nothing = torch.zeros(n_batch, dtype=torch.float64)
    assert eisner_log_partition(arcs, lengths, **how).equal(nothing)
    assert eisner_entropy(arcs, lengths, **how).equal(nothing)
    assert eisner_marginals(arcs, lengths, **how).equal(arcs.double())
    assert eisner_sibling_log_partition(arcs, siblings, lengths, **how).equal(nothing)
    assert eisner_sibling_marginals(arcs, siblings, lengths, **how).equal(arcs.double())
    assert eisner_sibling_entropy(arcs, siblings, lengths).equal(nothing)
    for samples in (
        eisner_sample(arcs, lengths, 2, single_root=single_root),
        eisner_sibling_sample(arcs, siblings, lengths, 2, single_root=single_root),
    ):
        assert samples.equal(torch.full((n_batch, 2, n_nodes), -1))


def test_threads_and_batches_do_not_change_a_bit():
    arcs = torch.from_numpy(draw(np.random.default_rng(17), 40, 41, 41))
    lengths = torch.from_numpy(np.random.default_rng(18).integers(0, 41, 40))
    together = eisner_marginals(arcs, lengths)
    torch.set_num_threads(3)
    try:
        assert eisner_marginals(arcs, lengths).equal(together)
    finally:
        torch.set_num_threads(1)
    for b in (0, 7, 39):
        assert eisner_marginals(arcs[b : b + 1], lengths[b : b + 1])[0].equal(together[b])


def test_samples_have_the_probabilities_of_their_trees():
    rng, n, n_samples = np.random.default_rng(19), 4, 20_000
    for single_root in (False, True):
        scores, values, trees = draw_arcs(rng, 3, n, single_root)
        parts, sibling_values, _ = draw_siblings(rng, 3, n, single_root)
        arcs, siblings, ends = tensors(*parts)
        generator = torch.Generator().manual_seed(20)
        lengths = torch.full((max(len(scores), len(arcs)),), n)
        of_arcs = eisner_sample(
            torch.from_numpy(scores), lengths[: len(scores)], n_samples, generator,
            single_root=single_root,
        )  # fmt: skip
        of_siblings = eisner_sibling_sample(
            arcs, siblings, lengths[: len(arcs)], n_samples, generator, end_scores=ends,
            single_root=single_root,
        )  # fmt: skip
        base = (n + 1) ** np.arange(n)
        codes = trees[:, 1:] @ base
        for samples, of_trees in ((of_arcs, values), (of_siblings, sibling_values)):
            assert (samples[:, :, 0] == -1).all()
            probabilities = sums_of_values(of_trees).probabilities
            for b in range(len(samples)):
                drawn = samples[b, :, 1:].numpy() @ base
                assert set(drawn) <= set(codes[probabilities[b] > 0])
                shares = (drawn[:, None] == codes).mean(axis=0)
                deviation = np.sqrt(probabilities[b] * (1 - probabilities[b]) / n_samples)
                assert (abs(shares - probabilities[b]) <= 4.5 * deviation + 1e-12).all()


def test_a_sample_depends_on_its_seed_its_scores_and_its_number_alone():
    rng, n = np.random.default_rng(21), 9
    arcs = torch.from_numpy(draw(rng, 5, n + 1, n + 1))
    siblings = torch.from_numpy(draw(rng, 5, n + 1, n + 1, n + 1))
    lengths = torch.tensor([9, 4, 9, 7, 9])

    def sample(arcs, siblings, lengths, n_samples):
        first = eisner_sample(arcs, lengths, n_samples, torch.Generator().manual_seed(3))
        second = eisner_sibling_sample(
            arcs, siblings, lengths, n_samples, torch.Generator().manual_seed(3)
        )
        return first, second

    for many, again, few, other in zip(
        sample(arcs, siblings, lengths, 50),
        sample(arcs, siblings, lengths, 50),
        sample(arcs[:3], siblings[:3], lengths[:3], 10),
        sample(arcs.roll(1, 0), siblings.roll(1, 0), lengths.roll(1, 0), 50),
        strict=True,
    ):
        assert many.equal(again)
        assert many[:3, :10].equal(few)
        assert not many.equal(other)
        assert not many[0, 0].equal(many[0, 1]) or not many[0, 0].equal(many[0, 2])


def test_samples_may_be_none_but_not_fewer():
    arcs, siblings, lengths = torch.zeros(2, 3, 3), torch.zeros(2, 3, 3, 3), torch.tensor([2, 1])
    assert eisner_sample(arcs, lengths, 0).shape == (2, 0, 3)
    assert eisner_sibling_sample(arcs, siblings, lengths, 0).shape == (2, 0, 3)
    with pytest.raises(ScoreError, match="n_samples"):
        eisner_sample(arcs, lengths, -1)
    with pytest.raises(ScoreError, match="n_samples"):
        eisner_sibling_sample(arcs, siblings, lengths, -1)


def test_parts_without_scores_leave_the_first_order():
    arcs = torch.from_numpy(draw(np.random.default_rng(23), 4, 12, 12))
    lengths, siblings = torch.tensor([11, 3, 8, 1]), torch.zeros(4, 12, 12, 12)
    for engine in ("torch", "native"):
        torch.testing.assert_close(
            eisner_sibling_marginals(arcs, siblings, lengths, engine=engine),
            eisner_marginals(arcs, lengths, engine=engine),
            rtol=0,
            atol=1e-12,
        )
    torch.testing.assert_close(
        eisner_sibling_entropy(arcs, siblings, lengths), eisner_entropy(arcs, lengths)
    )


@every_root
@pytest.mark.skipif(
    importlib.util.find_spec("torch_struct") is None, reason="torch-struct is not installed"
)
def test_torch_struct_has_the_same_sums_and_entropy(single_root):
    torch_struct = importlib.import_module("torch_struct")
    arcs = torch.from_numpy(draw(np.random.default_rng(24), 6, 16, 16))
    lengths = torch.tensor([15, 15, 9, 3, 2, 1])
    theirs = arcs[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*arg_constraints")
        peer = torch_struct.DependencyCRF(
            theirs.requires_grad_(), lengths, multiroot=not single_root
        )
    how = {"single_root": single_root}
    torch.testing.assert_close(
        eisner_log_partition(arcs, lengths, **how), peer.partition.detach()
    )  # fmt: skip
    torch.testing.assert_close(eisner_entropy(arcs, lengths, **how), peer.entropy.detach())
    marginals = peer.marginals.detach()
    ours = eisner_marginals(arcs, lengths, **how)
    torch.testing.assert_close(ours[:, 0, 1:], marginals.diagonal(dim1=1, dim2=2))
    off_diagonal = ~torch.eye(15, dtype=torch.bool)
    torch.testing.assert_close(ours[:, 1:, 1:][:, off_diagonal], marginals[:, off_diagonal])


def test_enumerated_parts_are_those_of_the_trees():
    tree = np.array([-1, 2, 0, 2, 2])
    probabilities = np.ones((1, 1))
    found = sibling_marginals(probabilities, tree[None])[0]
    assert sorted(map(tuple, np.argwhere(found))) == sorted(parts_of(tree))
    assert arc_marginals(probabilities, tree[None])[0].sum() == 4
