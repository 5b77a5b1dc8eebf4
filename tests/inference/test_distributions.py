"""Distributions over trees: every method against all trees there are, for every decoder."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
import torch

from gpuparse.errors import ScoreError
from gpuparse.inference import (
    DECODERS,
    NonProjectiveTrees,
    ProjectiveTrees,
    conditional_loss,
    hinge_loss,
)
from gpuparse.inference.scores import read_cells
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import AXES, tree_value

EXACT = [name for name, row in DECODERS.items() if row.trees != "graphs" and not row.starts_from]
SUMMED = [name for name in EXACT if DECODERS[name].has("log_partition")]
every_decoder = pytest.mark.parametrize("name", EXACT)
every_sum = pytest.mark.parametrize("name", SUMMED)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
N = 5  # positions; sentences of 4, 2, 0 and 3 words
LENGTHS = [4, 2, 0, 3]


def make(name, single_root=False, seed=0, lengths=LENGTHS, **options):
    """A distribution under random scores of all parts that a decoder reads."""
    generator = torch.Generator().manual_seed(seed)
    decoder, n_nodes = DECODERS[name], max(lengths) + 1

    def draw(axes):
        shape = (len(lengths), *[n_nodes] * axes)
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    parts = {f"{field}_scores": draw(AXES[field]) for field in decoder.reads}
    made = ProjectiveTrees if decoder.is_projective else NonProjectiveTrees
    trees = made(draw(2), lengths, single_root=single_root, **parts, **options)
    assert trees.decoder is decoder
    return trees


def value_of(scores, b, tree):
    """The score of one tree (n + 1,)."""
    parts = {field: getattr(scores, field) for field in AXES}
    return tree_value({key: part[b] for key, part in parts.items() if part is not None}, tree)


def enumerated(trees):
    """For each sentence all trees (T, n + 1) and their scores (T,)."""
    found = []
    for b, n in enumerate(LENGTHS):
        of_sentence = all_trees(n, trees.decoder.is_projective, trees.single_root and n > 0)
        values = np.array([value_of(trees.scores, b, tree) for tree in of_sentence.tolist()])
        found.append((of_sentence, values))
    return found


def padded(tree):
    return torch.tensor([*tree, *[-1] * (N - len(tree))])


@every_decoder
@every_root
def test_scores_and_best_trees(name, single_root):
    trees = make(name, single_root)
    heads, scores, certified = trees.best()
    assert (certified is not None) == DECODERS[name].certifies
    for b, (of_sentence, values) in enumerate(enumerated(trees)):
        several = torch.stack([padded(tree) for tree in of_sentence.tolist()])
        batch = torch.full((len(LENGTHS), len(several), N), -1)
        batch[b] = several
        found = trees.score_of(batch)[b]
        np.testing.assert_allclose(found.numpy(), values, atol=1e-12)
        assert scores[b].item() == pytest.approx(values.max(), abs=1e-12)
        best = of_sentence[values.argmax()].tolist()
        assert heads[b].tolist() == padded(best).tolist()
    assert trees.score_of(heads).tolist() == pytest.approx(scores.tolist())


@every_decoder
def test_what_does_not_exist_is_said(name):
    trees = make(name)
    quantities = {
        "k_best": lambda: trees.k_best(2),
        "log_partition": lambda: trees.log_partition,
        "marginals": lambda: trees.marginals,
        "entropy": lambda: trees.entropy,
        "samples": lambda: trees.sample(1),
    }
    for quantity, compute in quantities.items():
        if DECODERS[name].has(quantity):
            compute()
        else:
            with pytest.raises(ScoreError, match=f"{name} has no {quantity}: .* eisner"):
                compute()


@every_sum
@every_root
@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_sums(name, single_root, engine):
    trees = make(name, single_root, engine=engine)
    log_partition, marginals, entropy = trees.log_partition, trees.marginals, trees.entropy
    mbr_heads, expected = trees.mbr()
    k_heads, k_scores = trees.k_best(7)
    for b, (of_sentence, values) in enumerate(enumerated(trees)):
        weights = np.exp(values)
        shares = weights / weights.sum()
        assert log_partition[b].item() == pytest.approx(np.log(weights.sum()))
        assert entropy[b].item() == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-12)
        right = np.zeros(len(of_sentence))
        for m, h in product(range(1, LENGTHS[b] + 1), range(LENGTHS[b] + 1)):
            share = shares[of_sentence[:, m] == h].sum()
            assert marginals[b, h, m].item() == pytest.approx(share, abs=1e-12)
            right += share * (of_sentence[:, m] == h)
        assert expected[b].item() == pytest.approx(right.max())
        assert mbr_heads[b].tolist() == padded(of_sentence[right.argmax()].tolist()).tolist()
        order = np.argsort(-values, kind="stable")[:7]
        assert k_scores[b, : len(order)].tolist() == pytest.approx(values[order].tolist())
        assert k_heads[b, 0].tolist() == padded(of_sentence[order[0]].tolist()).tolist()
        assert (k_heads[b, len(order) :] == -1).all()
        gold = torch.full((len(LENGTHS), N), -1)
        for tree, share in zip(of_sentence.tolist()[:5], shares[:5], strict=False):
            gold[b] = padded(tree)
            assert trees.log_prob(gold)[b].exp().item() == pytest.approx(share)
    assert trees.log_partition is log_partition


@every_sum
def test_samples_depend_on_the_seed(name):
    trees = make(name)
    drawn = trees.sample(400, seed=1)
    assert drawn.equal(trees.sample(400, seed=1))
    assert not drawn.equal(trees.sample(400, seed=2))
    assert drawn.equal(trees.sample(400, generator=torch.Generator().manual_seed(1)))
    with pytest.raises(ScoreError, match="a seed and a generator"):
        trees.sample(1, seed=1, generator=torch.Generator())
    share = (drawn[0, :, 1:] == 0).double().mean(0)
    assert share.tolist() == pytest.approx(trees.marginals[0, 0, 1:].tolist(), abs=0.12)


@every_decoder
@every_root
def test_costs_and_hinge_losses(name, single_root):
    trees = make(name, single_root, seed=1)
    gold = make(name, single_root, seed=2).best().heads
    costs = torch.rand(len(LENGTHS), N, N, generator=torch.Generator().manual_seed(3))
    for cost in (0.7, costs):
        loss = hinge_loss(trees, gold, cost)
        harder = trees.augmented(gold, cost)
        for b, (of_sentence, values) in enumerate(enumerated(trees)):
            wrong = np.zeros(len(values))
            for m in range(1, LENGTHS[b] + 1):
                each = costs[b, of_sentence[:, m], m].numpy() if cost is costs else 0.7
                wrong += np.where(of_sentence[:, m] != gold[b, m].item(), each, 0.0)
            tree = gold[b, : LENGTHS[b] + 1].tolist()
            missed = (values + wrong).max() - value_of(trees.scores, b, tree)
            assert loss[b].item() == pytest.approx(missed, abs=1e-6)
            assert harder.best().scores[b].item() == pytest.approx((values + wrong).max(), abs=1e-6)
    assert (hinge_loss(trees, trees.best().heads, 0.0).abs() < 1e-12).all()


@every_sum
@every_root
def test_conditional_losses(name, single_root):
    trees = make(name, single_root)
    gold = make(name, single_root, seed=4).best().heads
    assert torch.allclose(conditional_loss(trees, gold), -trees.log_prob(gold))
    partial = gold.clone()
    partial[0, 2], partial[3, 1] = -1, -1
    loss = conditional_loss(trees, partial)
    for b, (of_sentence, values) in enumerate(enumerated(trees)):
        known = [m for m in range(1, LENGTHS[b] + 1) if partial[b, m] >= 0]
        fits = (of_sentence[:, known] == partial[b, known].numpy()).all(axis=1)
        weights = np.exp(values)
        expected = np.log(weights.sum()) - np.log(weights[fits].sum())
        assert loss[b].item() == pytest.approx(expected, abs=1e-12)


@every_sum
def test_gradients(name):
    trees = make(name)
    gold = make(name, seed=5).best().heads
    arcs = trees.scores.arc.clone().requires_grad_()
    leaf = trees._with_arcs(arcs)
    (gradient,) = torch.autograd.grad(conditional_loss(leaf, gold).sum(), arcs)
    is_gold = torch.zeros_like(arcs)
    for b, n in enumerate(LENGTHS):
        for m in range(1, n + 1):
            is_gold[b, gold[b, m], m] = 1
    torch.testing.assert_close(gradient, trees.marginals - is_gold)
    (gradient,) = torch.autograd.grad(hinge_loss(leaf, gold).sum(), arcs)
    found = trees.augmented(gold).best().heads
    for b, n in enumerate(LENGTHS):
        for m in range(1, n + 1):
            is_gold[b, found[b, m], m] -= 1
    assert gradient.equal(-is_gold)
    read = read_cells(trees.lengths, N)
    assert (gradient[~read] == 0).all()
    best, k_best = leaf.best().scores, leaf.k_best(2)[1]
    assert best.requires_grad
    assert k_best.requires_grad
    assert best.tolist() == pytest.approx(trees.best().scores.tolist())


@every_sum
@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_torch_func(name, engine):
    """Everything that is a number, and both losses."""
    trees = make(name, lengths=[2, 1], engine=engine)
    gold = make(name, seed=6, lengths=[2, 1]).best().heads
    arcs = trees.scores.arc
    moved = torch.stack([arcs, arcs.roll(1, 0) * 0.5])
    functions = {
        "log_partition": lambda x: trees._with_arcs(x).log_partition,
        "marginals": lambda x: trees._with_arcs(x).marginals,
        "entropy": lambda x: trees._with_arcs(x).entropy,
        "conditional_loss": lambda x: conditional_loss(trees._with_arcs(x), gold),
        "hinge_loss": lambda x: hinge_loss(trees._with_arcs(x), gold),
    }
    for function in functions.values():
        expected = function(arcs)
        torch.testing.assert_close(torch.func.vmap(function)(moved)[0], expected)
        leaf = arcs.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(leaf).sin().sum(), leaf)
        found = torch.func.grad(lambda x, function=function: function(x).sin().sum())
        torch.testing.assert_close(found(arcs), gradient)
        torch.testing.assert_close(torch.func.vmap(found)(moved)[0], gradient)
    hessian = torch.func.hessian(lambda x: trees._with_arcs(x).log_partition.sum())(arcs)
    expected = torch.func.jacrev(lambda x: trees._with_arcs(x).marginals)(arcs)
    torch.testing.assert_close(hessian, expected)


@every_sum
def test_samples_and_k_best_trees_are_traced(name):
    trees = make(name)
    heads, scores = torch.compile(lambda: trees.k_best(3), fullgraph=True, backend="eager")()
    assert heads.equal(trees.k_best(3)[0])
    assert scores.equal(trees.k_best(3)[1])
    torch.manual_seed(1)
    expected = trees.sample(4)
    torch.manual_seed(1)
    drawn = torch.compile(lambda: trees.sample(4), fullgraph=True, backend="eager")()
    assert drawn.equal(expected)


@every_sum
def test_log_partitions_are_exported(name):
    trees = make(name)

    class Model(torch.nn.Module):
        def forward(self, x):
            return trees._with_arcs(x).log_partition

    exported = torch.export.export(Model(), (trees.scores.arc,))
    assert exported.module()(trees.scores.arc).equal(trees.log_partition)


# Tracing a chart takes seconds.
@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *[(name, "auto") for name in SUMMED],
        *[
            pytest.param(x, "torch", marks=[pytest.mark.slow] * DECODERS[x].is_projective)
            for x in SUMMED
        ],
    ],
)
def test_torch_compile(name, engine):
    """In one graph what is computed from the other quantities."""
    trees = make(name, lengths=[2, 1], engine=engine)
    gold = make(name, seed=6, lengths=[2, 1]).best().heads
    arcs = trees.scores.arc

    def everything(x):
        moved = trees._with_arcs(x)
        return torch.stack([moved.entropy.sum(), hinge_loss(moved, gold).sum()])

    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(arcs), everything(arcs))


def test_arguments():
    arcs = torch.randn(2, 4, 4)
    assert repr(ProjectiveTrees(arcs)) == (
        "ProjectiveTrees(sentences=2, decoder='eisner', single_root=False)"
    )
    ends = ProjectiveTrees(arcs, end_scores=torch.randn(2, 4, 4))
    assert ends.decoder.name == "eisner_sibling"
    assert ends.best().heads.shape == (2, 4)
    cubes = torch.randn(2, 4, 4, 4)
    with pytest.raises(
        ScoreError, match="no exact decoder of projective trees reads end and inner"
    ):
        ProjectiveTrees(arcs, end_scores=arcs, inner_grandchild_scores=cubes)
    with pytest.raises(ScoreError, match=r"expected \(B, N, N\)"):
        ProjectiveTrees(arcs[0])
    with pytest.raises(ScoreError, match="arc_scores is a ndarray"):
        ProjectiveTrees(arcs.numpy())
    with pytest.raises(ScoreError, match=r"lengths has shape \(1,\)"):
        ProjectiveTrees(arcs, [3])


def typed(trees, dtype, scale):
    """The same distribution with all scores scaled and rounded to a type."""
    parts = {f"{name}_scores": (part * scale).to(dtype) for name, part in parts_of(trees)}
    return type(trees)(parts.pop("arc_scores"), LENGTHS, single_root=trees.single_root, **parts)


def parts_of(trees):
    return [(name, getattr(trees.scores, name)) for name in ("arc", *trees.decoder.reads)]


TYPES = [
    (torch.float16, [1.0, 40.0, 1e4]),
    (torch.bfloat16, [1.0, 40.0, 1e6]),
    (torch.float32, [1.0, 1e4, 1e6]),
    (torch.int32, [9.0, 1e6]),
    (torch.int64, [9.0, 1e6]),
]


@every_decoder
@every_root
@pytest.mark.parametrize(("dtype", "scales"), TYPES, ids=[str(dtype) for dtype, _ in TYPES])
def test_sums_of_scores_are_float64_whatever_the_type_of_the_scores(
    name, single_root, dtype, scales
):
    """Losses are those of the same scores in float64; searches are in float32 for narrow types."""
    for seed, scale in enumerate(scales):
        trees = typed(make(name, single_root, seed), dtype, scale)
        wide = typed(trees, torch.float64, 1)
        heads, scores, _ = trees.best()
        assert_near(scores, wide.best().scores)
        worst = typed(wide, torch.float64, -1).best().heads
        for gold in (heads, worst):
            same_numbers(trees.score_of(gold), wide.score_of(gold))
            same_loss(hinge_loss(trees, gold, 0.3), hinge_loss(wide, gold, 0.3), dtype)
            if name in SUMMED:
                same_numbers(trees.log_prob(gold), wide.log_prob(gold))
                same_loss(conditional_loss(trees, gold), conditional_loss(wide, gold), dtype)
        harder, expected = (each.augmented(worst, 0.3).best().scores for each in (trees, wide))
        same_numbers(harder, expected)
        if DECODERS[name].has("k_best"):
            assert_near(trees.k_best(5)[1], wide.k_best(5)[1])


def same_numbers(found, expected):
    assert found.dtype == expected.dtype == torch.float64
    assert found.tolist() == expected.tolist()


def same_loss(found, expected, dtype):
    """Computed in float64, and float32 for scores of that type and narrower ones."""
    is_narrow = dtype.is_floating_point and dtype != torch.float64
    assert found.dtype == (torch.float32 if is_narrow else torch.float64)
    assert found.tolist() == expected.to(found.dtype).tolist()


def assert_near(found, expected):
    """Equal but for the rounding of searches in float32."""
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@every_sum
def test_losses_under_autocast(name):
    """Scores of a product of matrices are 16-bit there; the best tree's loss is no less than 0."""
    decoder, generator = DECODERS[name], torch.Generator().manual_seed(1)
    states = torch.randn(2, 12, 8, generator=generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        arcs = 8 * states @ states.mT
        assert arcs.dtype == torch.bfloat16
        parts = {"end_scores": arcs} if "end" in decoder.reads else {}
        trees = (ProjectiveTrees if decoder.is_projective else NonProjectiveTrees)(arcs, **parts)
        assert trees.decoder is decoder
        gold = trees.best().heads
        found = conditional_loss(trees, gold), hinge_loss(trees, gold)
    wide = type(trees)(arcs.double(), **{key: part.double() for key, part in parts.items()})
    for loss, of in zip(found, (conditional_loss, hinge_loss), strict=True):
        same_loss(loss, of(wide, gold), torch.bfloat16)
        assert (loss >= 0).all()


@every_decoder
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64])
def test_functions_and_methods_give_the_same_scores(name, dtype):
    trees = typed(make(name), dtype, 50)
    given = [part for _, part in parts_of(trees)]
    second = [given.pop(1)] if DECODERS[name].order == 2 else []
    names = [field for field, _ in parts_of(trees)[1 + len(second) :]]
    options = {f"{field}_scores": part for field, part in zip(names, given[1:], strict=True)}
    heads, scores, *_ = DECODERS[name].function()(given[0], *second, trees.lengths, **options)
    best = trees.best()
    assert best.heads.equal(heads)
    same_numbers(best.scores, scores)
    if dtype.is_floating_point:
        trees.scores.arc.requires_grad_()
        with_gradient = trees.best().scores
        assert with_gradient.requires_grad
        same_numbers(with_gradient.detach(), scores)


def test_fractional_costs_of_integer_scores():
    scores = torch.tensor([[[0, 3, 3], [0, 0, 3], [0, 3, 0]]])
    gold = torch.tensor([[-1, 0, 1]])
    for cost in (0.5, 0.9, 1.5, torch.tensor(1.5), torch.full((3, 3), 2)):
        found = hinge_loss(NonProjectiveTrees(scores), gold, cost)
        each = cost if isinstance(cost, float) else cost.flatten()[0].item()
        assert found.tolist() == pytest.approx([2 * each], rel=1e-12)


@pytest.mark.parametrize("made", [ProjectiveTrees, NonProjectiveTrees])
def test_wrong_known_heads_costs_and_numbers_are_refused(made):
    trees = made(torch.zeros(1, 4, 4))
    for heads, message in [
        ([[-1, 99, -1, -1]], "word 1 has a head beyond the words"),
        ([[-1, -5, -1, -1]], "word 1 has a head below 0"),
        ([[-1, 1, -1, -1]], "word 1 is its own head"),
        ([[-1, 2, 1, -1]], "word 1 is on a cycle"),
        ([[-1.0, 2.5, -1, -1]], "expected integers"),
        ([[-1, 2]], r"expected \(1, 4\)"),
    ]:
        for method in (trees.constrained, trees.augmented):
            with pytest.raises(ScoreError, match=message):
                method(torch.tensor(heads))
    gold = torch.tensor([[-1, 0, 1, 2]])
    for cost in (torch.ones(7), torch.ones(1, 1, 4, 4), torch.ones(4, dtype=torch.cfloat), "1"):
        with pytest.raises(ScoreError, match=r"cost .* expected a number"):
            hinge_loss(trees, gold, cost)
    for k in (0, 1.0, True, 2**20, torch.tensor(3)):
        with pytest.raises(ScoreError, match="expected a number of trees"):
            trees.k_best(k)
    for count in (-1, 1.0, True, 2**31):
        with pytest.raises(ScoreError, match="n_samples"):
            trees.sample(count)
    for seed in (2**70, 1.5, True, "1"):
        with pytest.raises(ScoreError, match=r"seed .* expected an integer"):
            trees.sample(1, seed=seed)
    for scores in (torch._efficientzerotensor((1, 3, 3)), torch._neg_view(torch.zeros(1, 3, 3))):
        with pytest.raises(ScoreError, match="dense tensor with values"):
            made(scores)


@every_decoder
@every_root
def test_sentences_without_words_in_torch(name, single_root):
    trees = make(name, single_root, lengths=[0, 0], engine="torch")
    assert trees.best().heads.tolist() == [[-1], [-1]]
    same_numbers(trees.best().scores, torch.zeros(2, dtype=torch.float64))


def test_quantities_follow_scores_that_change_in_place():
    scores = torch.zeros(1, 4, 4)
    trees = ProjectiveTrees(scores)
    before = trees.log_partition, trees.marginals
    assert trees.log_partition is before[0]
    scores[0, 0, 1] = 3.0
    fresh = ProjectiveTrees(scores.clone())
    same_numbers(trees.log_partition, fresh.log_partition)
    same_numbers(trees.marginals, fresh.marginals)
    assert not trees.marginals.equal(before[1])


@every_decoder
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda trees: pickle.loads(pickle.dumps(trees))],  # noqa: S301
)
def test_copies_and_pickles(name, copied):
    trees = make(name, single_root=True, engine="native")
    if name in SUMMED:
        assert trees.marginals.shape == (4, N, N)
    other = copied(trees)
    assert other.decoder is trees.decoder
    assert repr(other) == repr(trees)
    same_numbers(other.best().scores, trees.best().scores)
    if name in SUMMED:
        same_numbers(other.log_partition, trees.log_partition)
    attached = type(trees)(torch.zeros(1, 3, 3, requires_grad=True) * 2)
    with pytest.raises(ScoreError, match="detach"):
        copied(attached)


@every_sum
@every_root
def test_divergences_and_expected_costs(name, single_root):
    trees, others = make(name, single_root), make(name, single_root, seed=8)
    gold = make(name, single_root, seed=9).best().heads
    costs = torch.rand(len(LENGTHS), N, N, generator=torch.Generator().manual_seed(3))
    found = {
        "kl": trees.kl(others), "cross_entropy": trees.cross_entropy(others),
        "wrong": trees.expected_cost(gold), "cost": trees.expected_cost(cost=costs),
    }  # fmt: skip
    for b, ((of_sentence, values), (_, other_values)) in enumerate(
        zip(enumerated(trees), enumerated(others), strict=True)
    ):
        log_probs, other_log_probs = (v - np.log(np.exp(v).sum()) for v in (values, other_values))
        shares, words = np.exp(log_probs), np.arange(1, LENGTHS[b] + 1)
        wrong = (of_sentence[:, words] != gold[b, words].numpy()).sum(1)
        cost = costs[b].double().numpy()[of_sentence[:, words], words].sum(1)
        expected = {
            "kl": (shares * (log_probs - other_log_probs)).sum(),
            "cross_entropy": -(shares * other_log_probs).sum(),
            "wrong": (shares * wrong).sum(), "cost": (shares * cost).sum(),
        }  # fmt: skip
        for quantity, value in expected.items():
            assert found[quantity][b].item() == pytest.approx(value, abs=1e-12), quantity
    same_numbers(trees.kl(trees), torch.zeros(4).double())
    as_torch = trees.as_distribution(), others.as_distribution()
    same_numbers(torch.distributions.kl_divergence(*as_torch), found["kl"])


@every_sum
def test_divergences_with_forbidden_arcs_and_gradients(name):
    trees, others = make(name), make(name, seed=8)
    forbidden = trees.scores.arc.clone()
    forbidden[0, 1, 2] = -torch.inf
    fewer = trees._with_arcs(forbidden)
    assert fewer.kl(trees).isfinite().all()
    assert trees.kl(fewer)[0] == trees.cross_entropy(fewer)[0] == torch.inf
    leaf = forbidden.clone().requires_grad_()
    trees._with_arcs(leaf).kl(others).sum().backward()
    assert leaf.grad.isfinite().all()
    point = trees.scores.arc.clone().requires_grad_()

    def divergence(x):
        moved = trees._with_arcs(x)
        return moved.kl(others) + others.kl(moved) + moved.expected_cost(cost=forbidden.exp())

    assert torch.autograd.gradcheck(divergence, point, fast_mode=True)


@every_sum
def test_distributions_of_other_trees_have_no_divergence(name):
    trees = make(name)
    for other in (make(name, single_root=True), make(name, lengths=[4, 2, 1, 3]), make(name)[1:]):
        with pytest.raises(ScoreError, match=r"have other trees|of other lengths"):
            trees.kl(other)


@every_decoder
def test_some_sentences(name):
    trees = make(name)
    assert len(trees) == 4
    scores = trees.best().scores
    for which, expected in [
        (0, [0]), (-1, [3]), (slice(1, None), [1, 2, 3]), (torch.tensor([3, 0, 3]), [3, 0, 3]),
        ([1, 2], [1, 2]), (scores > scores.median(), (scores > scores.median()).nonzero()[:, 0]),
    ]:  # fmt: skip
        some = trees[which]
        assert some.decoder is trees.decoder
        same_numbers(some.best().scores, scores[expected])
    assert [each.lengths.item() for each in trees] == LENGTHS
    with pytest.raises(IndexError):
        trees[4]
    with pytest.raises(ScoreError, match="expected one axis"):
        trees[torch.zeros(2, 2, dtype=torch.int64)]
    moved = trees.to("cpu")
    same_numbers(moved.best().scores, scores)
    with pytest.raises(TypeError, match="device"):
        trees.to(torch.float32)
    attached = trees._with_arcs(trees.scores.arc.clone().requires_grad_() * 1)
    assert not attached.detach().best().scores.requires_grad


@every_sum
def test_the_interface_of_torch_distributions(name):
    trees = make(name)
    events = trees.as_distribution()
    assert (events.batch_shape, events.event_shape) == ((4,), (N,))
    assert events.mode.equal(trees.best().heads)
    same_numbers(events.entropy(), trees.entropy)
    assert events.sample().shape == (4, N)
    drawn = events.sample((2, 3))
    assert drawn.shape == (2, 3, 4, N)
    for one in (events.mode, drawn):
        expected = [trees.log_prob(heads).tolist() for heads in one.reshape(-1, 4, N)]
        assert events.log_prob(one).reshape(-1, 4).tolist() == expected


class Shifted(torch.nn.Module):
    """The loss of a sentence as a function of numbers that are added to its arcs."""

    def __init__(self):
        super().__init__()
        self.added = torch.nn.Parameter(torch.zeros(N, N, dtype=torch.float64))

    def forward(self, which):
        trees = make("eisner")[which]
        gold = make("eisner", seed=6)[which].best().heads
        return conditional_loss(trees._with_arcs(trees.scores.arc + self.added), gold).sum()


def learn_with_another(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    model = torch.nn.parallel.DistributedDataParallel(Shifted())
    model(slice(2 * rank, 2 * rank + 2)).backward()
    torch.save(model.module.added.grad, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_several_processes_learn_the_same(tmp_path):
    """`DistributedDataParallel` gives each process the mean of the gradients of all."""
    torch.multiprocessing.spawn(learn_with_another, (tmp_path,), 2)
    model = Shifted()
    (model(slice(None)) / 2).backward()
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), model.added.grad)
