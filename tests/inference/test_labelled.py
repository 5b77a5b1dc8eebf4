"""Labelled trees against all trees with all labellings, and losses against their definitions."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import (
    LabelledTrees,
    NonProjectiveTrees,
    ProjectiveTrees,
    conditional_loss,
    hinge_loss,
    label_loss,
    labelled,
    local_loss,
    risk_loss,
)
from gpuparse.inference.distributions import Best
from tests.inference.test_distributions import value_of
from tests.oracles.brute_force import all_trees

LENGTHS = [4, 1, 0, 3]
N, LABELS, WIDTH = 5, 2, 2
KINDS = {
    "projective": (ProjectiveTrees, ()),
    "all": (NonProjectiveTrees, ()),
    "siblings": (ProjectiveTrees, ("sibling_scores", "end_scores")),
}
SCORES = ["normal", "ties", "forbidden", "biaffine", "diagonal"]
LOSSES = (conditional_loss, hinge_loss, local_loss, risk_loss)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_score = pytest.mark.parametrize("scores", SCORES)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])


def draw(shape, scores, generator):
    if scores in ("ties", "forbidden"):
        found = torch.randint(-2, 3, shape, generator=generator).double()
        if scores == "forbidden":
            found[torch.rand(shape, generator=generator) < 0.12] = -torch.inf
        return found
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def make(kind="projective", scores="normal", single_root=False, seed=0, **options):
    """Labelled trees under random scores; what is not read is NaN."""
    generator = torch.Generator().manual_seed(seed)
    made, parts = KINDS[kind]
    arcs = draw((4, N, N), scores, generator)
    arcs[:, :, 0] = torch.nan
    arcs[1, 2:], arcs[1, :, 2:] = torch.nan, torch.nan
    others = {
        part: draw((4, *[N] * (3 if part == "sibling_scores" else 2)), "normal", generator)
        for part in parts
    }
    trees = made(arcs, LENGTHS, single_root=single_root, **others, **options)
    if scores in ("biaffine", "diagonal"):
        heads, modifiers = (torch.randn(4, N, WIDTH, generator=generator).double() for _ in "hm")
        heads[1, 2:], modifiers[1, 2:] = torch.nan, torch.nan
        shape = (LABELS, WIDTH) if scores == "diagonal" else (LABELS, WIDTH + 1, WIDTH + 1)
        return LabelledTrees(trees, (heads, modifiers, draw(shape, scores, generator)))
    of_labels = draw((4, N, N, LABELS), scores, generator)
    if scores == "forbidden":
        of_labels[:, 0, 1, 0] = 0.0  # so that each sentence has a tree
        arcs[:, 0, 1], arcs[:, 1, 2:] = 0.0, torch.where(arcs[:, 1, 2:] < 0, 0.0, arcs[:, 1, 2:])
        of_labels[:, 1, 2:, 1] = 1.0
    of_labels[:, :, 0] = torch.nan
    of_labels[1, 2:], of_labels[1, :, 2:] = torch.nan, torch.nan
    return LabelledTrees(trees, of_labels)


def dense(trees):
    """Label scores (B, N, N, L) by their definition."""
    given = trees._labels.given
    if len(given) == 1:
        return given[0].numpy()
    x, y, weights = (tensor.numpy() for tensor in given)
    if weights.ndim == 2:
        return np.einsum("bhk,bmk,lk->bhml", x, y, weights)
    one = np.ones((*x.shape[:2], 1))
    x, y = np.concatenate([x, one], 2), np.concatenate([y, one], 2)
    return np.einsum("bhi,lij,bmj->bhml", x, weights, y)


def enumerated(trees):
    """For each sentence all trees (T, n + 1), labellings (P, n + 1), and scores (T, P)."""
    of_labels, of_trees = dense(trees), trees.trees
    for b, n in enumerate(LENGTHS):
        every = all_trees(n, of_trees.kind == "projective", of_trees.single_root and n > 0)
        labellings = np.array([(-1, *choice) for choice in product(range(LABELS), repeat=n)])
        values = np.array([value_of(of_trees.scores, b, tree) for tree in every.tolist()])
        values = np.repeat(values[:, None], len(labellings), 1)
        for m in range(1, n + 1):
            values = values + of_labels[b, every[:, m], m][:, labellings[:, m]]
        yield b, every, labellings, values


def padded(words):
    return [*words, *[-1] * (N - len(words))]


def log_sum(values):
    return torch.as_tensor(values).flatten().logsumexp(0).item()


@every_kind
@every_score
@every_root
def test_labelled_trees_are_those_of_enumeration(kind, scores, single_root):
    trees = make(kind, scores, single_root)
    best, (several, their_labels, their_scores) = trees.best(), trees.k_best(9)
    risk_heads, risk_labels, expected = trees.mbr()
    for b, every, labellings, values in enumerated(trees):
        top = values.max()
        assert best.scores[b].item() == pytest.approx(top)
        log_partition = log_sum(values)
        assert trees.log_partition[b].item() == pytest.approx(log_partition)
        shares = np.exp(values - log_partition)
        surprise = np.where(shares > 0, log_partition - values, 0.0)
        assert trees.entropy[b].item() == pytest.approx((shares * surprise).sum(), abs=1e-12)
        order = np.sort(values[values > -np.inf])[::-1][:9]
        assert their_scores[b, : len(order)].tolist() == pytest.approx(order.tolist())
        assert (several[b, len(order) :] == -1).all()
        assert (their_labels[b, len(order) :] == -1).all()
        assert (their_scores[b, len(order) :] == -np.inf).all()
        pairs = torch.stack([several[b], their_labels[b]], 1).flatten(1)[: len(order)]
        assert len(pairs.unique(dim=0)) == len(order)
        right = np.zeros_like(values)
        for m, h, label in product(range(1, LENGTHS[b] + 1), range(LENGTHS[b] + 1), range(LABELS)):
            is_there = (every[:, m] == h)[:, None] & (labellings[:, m] == label)
            share = shares[is_there].sum()
            assert trees.label_marginals[b, h, m, label].item() == pytest.approx(share, abs=1e-12)
            right += share * is_there
        assert expected[b].item() == pytest.approx(right[values > -np.inf].max())
        for heads, labels, found, of in (
            (best.heads[b], best.labels[b], values, top),
            (risk_heads[b], risk_labels[b], right, expected[b].item()),
        ):
            t = [padded(tree) for tree in every.tolist()].index(heads.tolist())
            p = [padded(choice) for choice in labellings.tolist()].index(labels.tolist())
            assert found[t, p] == pytest.approx(of)
    torch.testing.assert_close(trees.label_marginals.sum(3), trees.marginals)
    torch.testing.assert_close(trees.score_of(best.heads, best.labels), best.scores)
    given = trees.score_of(several, their_labels)
    torch.testing.assert_close(
        given.masked_fill(their_scores == -torch.inf, -torch.inf), their_scores
    )
    torch.testing.assert_close(trees.log_prob(several, their_labels)[:, 0],
                               best.scores - trees.log_partition)  # fmt: skip
    if scores == "ties":
        assert trees.best_labels(best.heads).equal(best.labels)
        assert (several[:, 0].equal(best.heads), their_labels[:, 0].equal(best.labels)) == (1, 1)


@every_kind
@every_score
def test_losses_are_those_of_enumeration(kind, scores):
    trees = make(kind, scores, single_root=True)
    gold = make(kind, scores, single_root=True, seed=0).best()
    costs = torch.rand(4, N, N, generator=torch.Generator().manual_seed(3))
    heads, labels = gold.heads.clone(), gold.labels.clone()
    for is_partial in (False, True):
        if is_partial:
            heads[0, 2], labels[3, 1] = -1, -1  # the label of a word without head is not read
        given = {"gold_labels": labels}
        losses = {
            "conditional": conditional_loss(trees, heads, **given),
            "hinge": hinge_loss(trees, heads, costs, **given),
            "risk": risk_loss(trees, heads, **given),
        }
        for b, every, labellings, values in enumerated(trees):
            cost, fits = np.zeros_like(values), np.ones_like(values, dtype=bool)
            for m in (m for m in range(1, LENGTHS[b] + 1) if heads[b, m] >= 0):
                h, label = heads[b, m].item(), labels[b, m].item()
                wrong = (every[:, m] != h)[:, None] | ((labellings[:, m] != label) & (label >= 0))
                cost += np.where(wrong, costs[b, every[:, m], m].numpy()[:, None], 0.0)
                fits &= ~wrong
            n_wrong = np.zeros_like(values)
            for m in (m for m in range(1, LENGTHS[b] + 1) if heads[b, m] >= 0):
                h, label = heads[b, m].item(), labels[b, m].item()
                n_wrong += (every[:, m] != h)[:, None] | (
                    (labellings[:, m] != label) & (label >= 0)
                )
            shares = np.exp(values - log_sum(values))
            expected = {
                "conditional": log_sum(values) - log_sum(values[fits]),
                "hinge": (values + cost).max() - values[fits].max(),
                "risk": (shares * n_wrong).sum(),
            }
            for name, loss in expected.items():
                assert losses[name][b].item() == pytest.approx(loss, abs=1e-6), (name, b)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@every_score
def test_local_losses(scores, smoothing):
    trees = make("all", scores)
    heads, labels, *_ = make("projective", scores).best()  # other trees have arcs that are allowed
    heads[0, 3] = -1
    labels[3, 2] = -1
    of_labels = torch.from_numpy(dense(trees))

    def surprise(row, gold):
        logs = row[row > -torch.inf].log_softmax(0)
        own = row.log_softmax(0)[gold]
        return -((1 - smoothing) * own + smoothing * logs.mean()).item()

    loss = local_loss(trees, heads, gold_labels=labels, label_smoothing=smoothing)
    alone = local_loss(trees.trees, heads, label_smoothing=smoothing)
    for b, n in enumerate(LENGTHS):
        expected = of_labels_expected = 0.0
        for m in (m for m in range(1, n + 1) if heads[b, m] >= 0):
            h = heads[b, m].item()
            candidates = trees.trees.scores.arc[b, : n + 1, m].clone()
            candidates[m] = -torch.inf
            expected += surprise(candidates, h)
            if labels[b, m] >= 0:
                of_labels_expected += surprise(of_labels[b, h, m], labels[b, m].item())
        assert alone[b].item() == pytest.approx(expected)
        assert loss[b].item() == pytest.approx(expected + of_labels_expected)
        if smoothing == 0:
            given_heads = label_loss(trees, heads, labels)[b].item()
            assert given_heads == pytest.approx(of_labels_expected)


def leaves_of(trees):
    """All scores without NaN, as leaves, and a function that makes the distribution of them."""
    given = [tensor.nan_to_num() for tensor in (trees.trees.scores.arc, *trees._labels.given)]
    leaves = [tensor.clone().requires_grad_() for tensor in given]

    def of(arcs, *labels):
        with_arcs = trees.trees._with_arcs(arcs)
        return LabelledTrees(with_arcs, labels[0] if len(labels) == 1 else labels)

    return leaves, of


@pytest.mark.parametrize("scores", ["normal", "biaffine"])
@pytest.mark.parametrize("kind", ["projective", "all"])
@pytest.mark.parametrize("cells", [1, labelled.CELLS], ids=["words", "whole"])
def test_derivatives(kind, scores, cells, monkeypatch):
    monkeypatch.setattr(labelled, "CELLS", cells)
    leaves, of = leaves_of(make(kind, scores))
    others = make(kind, scores, seed=5)
    heads, labels, *_ = others.best()
    functions = {
        "log_partition": lambda trees: trees.log_partition,
        "label_marginals": lambda trees: trees.label_marginals,
        "entropy": lambda trees: trees.entropy,
        "conditional": lambda trees: conditional_loss(trees, heads, gold_labels=labels),
        "risk": lambda trees: risk_loss(trees, heads, gold_labels=labels),
        "kl": lambda trees: trees.kl(others) + others.kl(trees),
        "local": lambda trees: local_loss(trees, heads, gold_labels=labels, label_smoothing=0.1),
    }
    for name, function in functions.items():
        assert gradcheck(lambda *x, function=function: function(of(*x)), leaves, fast_mode=True), (
            name
        )
    for name in ("log_partition", "local"):
        assert gradgradcheck(
            lambda *x, name=name: functions[name](of(*x)), leaves, fast_mode=True
        ), name
    found = torch.autograd.grad(of(*leaves).best().scores.sum(), leaves)
    best = of(*leaves).best()
    expected = torch.autograd.grad(of(*leaves).score_of(*best[:2]).sum(), leaves)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    loss = hinge_loss(of(*leaves), heads, gold_labels=labels).sum()
    harder = of(*leaves).augmented(heads, labels)
    worst = harder.best()
    missed = harder.score_of(*worst[:2]) - of(*leaves).score_of(heads, labels)
    assert loss.item() == pytest.approx(missed.sum().item())
    for one, other in zip(
        torch.autograd.grad(loss, leaves), torch.autograd.grad(missed.sum(), leaves), strict=True
    ):
        torch.testing.assert_close(one, other)


@every_score
def test_words_at_a_time_and_whole_are_the_same(scores, monkeypatch):
    whole = make(scores=scores)
    expected = whole.entropy, whole.label_marginals, whole.k_best(4)[2], whole.best().scores
    monkeypatch.setattr(labelled, "CELLS", 1)
    trees = make(scores=scores)
    found = trees.entropy, trees.label_marginals, trees.k_best(4)[2], trees.best().scores
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_factors_are_never_expanded(monkeypatch):
    """No tensor is as large as all labels of all arcs, in gradients neither."""
    monkeypatch.setattr(labelled, "CELLS", 1 << 11)
    n_nodes, n_labels = 24, 40
    leaves = [torch.randn(1, n_nodes, 8, requires_grad=True) for _ in "hm"]
    weights = torch.randn(n_labels, 9, 9, requires_grad=True)
    trees = LabelledTrees(ProjectiveTrees(torch.randn(1, n_nodes, n_nodes)), (*leaves, weights))
    sizes = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            sizes.extend(x.numel() for x in (found,) if isinstance(x, torch.Tensor))
            return found

    with Watch():
        (trees.log_partition + trees.entropy).sum().backward()
        trees.best()
    assert weights.grad.isfinite().all()
    assert max(sizes) < n_nodes * n_nodes * n_labels / 5


def test_samples_have_the_probabilities_of_enumeration():
    trees = make("all")
    heads, labels = trees.sample(20_000, seed=1)
    again = trees.sample(20_000, generator=torch.Generator().manual_seed(1))
    assert heads.equal(again[0])
    assert labels.equal(again[1])
    for b, every, labellings, values in enumerated(trees):
        n = LENGTHS[b]
        assert (labels[b, :, n + 1 :] == -1).all()
        shares = np.exp(values - log_sum(values)).ravel()
        codes = [(*tree, *choice) for tree in every.tolist() for choice in labellings.tolist()]
        drawn = torch.cat([heads[b, :, : n + 1], labels[b, :, : n + 1]], 1)
        kinds, counts = drawn.unique(dim=0, return_counts=True)
        found = dict(zip(map(tuple, kinds.tolist()), counts.tolist(), strict=True))
        away = [abs(found.get(code, 0) / 20_000 - p) for code, p in zip(codes, shares, strict=True)]
        assert sum(away) / 2 < 0.1
    with pytest.raises(ScoreError, match="a seed and a generator"):
        trees.sample(1, seed=1, generator=torch.Generator())


@every_kind
@every_score
def test_divergences_and_costs_are_those_of_enumeration(kind, scores):
    trees, others = make(kind, scores), make(kind, scores, seed=7)
    heads, labels, *_ = make(kind, scores, seed=5).best()
    labels[0, 1], heads[3, 2] = -1, -1
    costs = torch.rand(4, N, N, generator=torch.Generator().manual_seed(3))
    found = {
        "kl": trees.kl(others), "cross entropy": trees.cross_entropy(others),
        "cost": trees.expected_cost(heads, labels, costs), "heads": trees.expected_cost(heads),
    }  # fmt: skip
    both = zip(enumerated(trees), enumerated(others), strict=True)
    for (b, every, labellings, values), (*_, their_values) in both:
        logs, their_logs = values - log_sum(values), their_values - log_sum(their_values)
        is_there = values > -np.inf
        shares, of_there = np.exp(logs), np.exp(logs[is_there])
        cost, wrong = np.zeros_like(values), np.zeros_like(values)
        for m in (m for m in range(1, LENGTHS[b] + 1) if heads[b, m] >= 0):
            h, label = heads[b, m].item(), labels[b, m].item()
            has_other = (every[:, m] != h)[:, None]
            wrong += has_other
            has_other = has_other | ((labellings[:, m] != label) & (label >= 0))
            cost += np.where(has_other, costs[b, every[:, m], m].numpy()[:, None], 0.0)
        expected = {
            "kl": (of_there * (logs[is_there] - their_logs[is_there])).sum(),
            "cross entropy": -(of_there * their_logs[is_there]).sum(),
            "cost": (shares * cost).sum(), "heads": (shares * wrong).sum(),
        }  # fmt: skip
        for name, value in expected.items():
            assert found[name][b].item() == pytest.approx(value, abs=1e-12), (name, b)
    assert (trees.kl(trees) == 0).all()


def test_labelled_trees_of_other_labels_have_no_divergence():
    trees = make()
    fewer = LabelledTrees(trees.trees, torch.zeros(4, N, N, 1))
    for other in (fewer, trees.trees, make("all"), trees[1:]):
        with pytest.raises(ScoreError, match=r"have other trees|of other lengths"):
            trees.kl(other)
    with pytest.raises(ScoreError, match="have other trees"):
        trees.trees.kl(trees)


@pytest.mark.parametrize("scores", ["normal", "biaffine", "diagonal"])
@pytest.mark.parametrize("kind", KINDS)
def test_some_sentences_copies_and_gradients(kind, scores):
    """Known labels go along with the scores."""
    trees = make(kind, scores)
    known = torch.full((4, N), -1)
    known[:, 1] = 1
    trees = trees.constrained(torch.where(known >= 0, 0, -1)[:2].repeat(2, 1), known)
    found = trees.best()
    assert (found.labels[found.heads[:, 1] == 0, 1] == 1).all()
    assert len(trees) == 4
    assert [each.lengths.item() for each in trees] == LENGTHS
    is_long = torch.tensor([True, False, False, True])
    for which, rows in ((0, [0]), (slice(1, None),) * 2, ([3, 0, 3],) * 2, (is_long,) * 2):
        some = trees[which]
        for mine, all_of in zip(some.best()[:3], found, strict=False):
            assert mine.equal(all_of[rows])
        assert some.entropy.equal(trees.entropy[rows])
    again = (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)))  # noqa: S301
    for change in (*again, lambda x: x.to("cpu"), lambda x: x.detach()):
        other = change(trees)
        assert repr(other) == repr(trees)
        assert all(a.equal(b) for a, b in zip(other.best()[:3], found, strict=False))
    leaves, of = leaves_of(make(kind, scores))
    attached = of(*(leaf * 1 for leaf in leaves))
    assert not attached.detach().entropy.requires_grad
    with pytest.raises(ScoreError, match="detach"):
        copy.deepcopy(attached)
    attached[1:].log_partition.sum().backward()
    assert all(leaf.grad.any() for leaf in leaves)
    assert not leaves[0].grad[0].any()


@every_score
def test_constraints(scores):
    trees = make(scores=scores)
    known = make(scores=scores).best()
    heads, labels = known.heads.clone(), known.labels.clone()
    heads[0, 1], labels[3, 2] = -1, -1
    found = trees.constrained(heads, labels)
    for b, every, labellings, values in enumerated(trees):
        fits = np.ones_like(values, dtype=bool)
        for m in (m for m in range(1, LENGTHS[b] + 1) if heads[b, m] >= 0):
            fits &= (every[:, m] == heads[b, m].item())[:, None]
            fits &= (labellings[:, m] == labels[b, m].item()) | (labels[b, m].item() < 0)
        assert found.log_partition[b].item() == pytest.approx(log_sum(values[fits]))
        assert found.best().scores[b].item() == pytest.approx(values[fits].max())
    twice = found.augmented(known.heads, known.labels, 0.0).constrained(known.heads)
    torch.testing.assert_close(twice.best().scores, known.scores)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int64])
def test_types(dtype):
    """Losses are float32 for narrow scores, and computed in float64; all else is float64."""
    arcs, of_labels = torch.randint(-5, 5, (2, N, N)), torch.randint(-5, 5, (2, N, N, LABELS))
    found, wide = (
        LabelledTrees(NonProjectiveTrees(arcs.to(kind)), of_labels.to(kind))
        for kind in (dtype, torch.float64)
    )
    heads, labels, scores, certified = found.best()
    assert certified is None
    expected = torch.float32 if dtype.is_floating_point and dtype != torch.float64 else None
    for loss in LOSSES:
        value, of_wide = (loss(each, heads, gold_labels=labels) for each in (found, wide))
        assert value.dtype == (expected or torch.float64)
        assert value.tolist() == of_wide.to(value.dtype).tolist()
        assert loss(found.trees, heads).dtype == value.dtype
    mixed = LabelledTrees(found.trees, of_labels.double())
    assert local_loss(mixed, heads).dtype == torch.float64
    for value in (scores, found.log_partition, found.label_marginals, found.entropy):
        assert value.dtype == torch.float64


def test_partial_gold_that_is_left_out():
    """A sentence that is left out is no sentence with known heads."""
    arcs = torch.zeros(2, 5, 5)
    arcs[:, 0, 1] = -torch.inf  # of the chain that stands for trees that are left out
    arcs.requires_grad_()
    gold = torch.tensor([[-1, 3, 4, 0, 3], [-1, -1, 0, 2, 2]])
    for loss_of in (conditional_loss, hinge_loss):
        loss = loss_of(ProjectiveTrees(arcs), gold, unreachable="skip")
        (gradient,) = torch.autograd.grad(loss.sum(), arcs)
        assert loss[0] == 0 < loss[1]
        assert gradient.isfinite().all()


def test_types_of_factors_and_autocast():
    """Products of factors have 32 bits or more; what autocast rounds are the factors alone."""
    trees = make(scores="biaffine")
    arcs = trees.trees.scores.arc
    heads, labels, *_ = trees.best()
    narrow = [factor.bfloat16() for factor in trees._labels.given]
    expected = LabelledTrees(trees.trees, [factor.float() for factor in narrow])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = LabelledTrees(ProjectiveTrees(arcs, LENGTHS), narrow)
        for loss in (*LOSSES, label_loss):
            of_both = [loss(each, heads, gold_labels=labels) for each in (found, expected)]
            assert of_both[0].equal(of_both[1])
            assert (of_both[0] >= 0).all()
        assert found.log_partition.equal(expected.log_partition)
        assert found.best().scores.equal(expected.best().scores)


@pytest.mark.parametrize(
    ("kind", "engine"), [("all", "torch"), ("all", "auto"), ("siblings", "auto")]
)
def test_traced_losses(kind, engine):
    """The same under torch.func, in one graph of torch.compile, and exported."""
    generator, lengths = torch.Generator().manual_seed(2), torch.tensor([2, 1])
    made, parts = KINDS[kind]
    shapes = [(2, 3, 3), (2, 3, WIDTH), (2, 3, WIDTH), (LABELS, WIDTH + 1, WIDTH + 1)]
    scores = [torch.randn(shape, generator=generator).double() for shape in shapes]
    more = {part: torch.ones(2, *[3] * (3 if part == "sibling_scores" else 2)) for part in parts}
    heads, labels = torch.tensor([[-1, 2, 0], [-1, 0, -1]]), torch.tensor([[-1, 1, 0], [-1, -1, 9]])
    every = (*LOSSES, label_loss)
    losses = [loss for loss in every if loss is not local_loss or kind != "siblings"]

    def of_all(arcs, *factors):
        trees = LabelledTrees(made(arcs, lengths, engine=engine, **more), factors)
        found = [loss(trees, heads, gold_labels=labels) for loss in losses]
        other = LabelledTrees(trees.trees, torch.zeros(2, 3, 3, LABELS))
        return torch.stack([*found, trees.kl(other)])

    expected = of_all(*scores)
    several = torch.func.vmap(of_all)(*(score[None] for score in scores))
    torch.testing.assert_close(several[0], expected)
    leaves = [score.clone().requires_grad_() for score in scores]
    gradients = torch.autograd.grad(of_all(*leaves).sum(), leaves)
    compiled = torch.compile(of_all, fullgraph=True, backend="aot_eager")(*leaves)
    torch.testing.assert_close(compiled, expected)
    for one, other in zip(torch.autograd.grad(compiled.sum(), leaves), gradients, strict=True):
        torch.testing.assert_close(one, other)
    if engine == "auto":  # the torch forms are hundreds of operations

        class Model(torch.nn.Module):
            def forward(self, *scores):
                return of_all(*scores)

        exported = torch.export.export(Model(), tuple(scores)).module()
        torch.testing.assert_close(exported(*scores), expected)


def test_arguments():
    arcs = torch.zeros(2, 4, 4)
    trees = ProjectiveTrees(arcs, [3, 2])
    of_labels = torch.zeros(2, 4, 4, 3)
    found = LabelledTrees(trees, of_labels)
    assert repr(found) == f"LabelledTrees({trees!r}, labels=3)"
    x, weights = torch.zeros(2, 4, 5), torch.zeros(3, 6, 5)
    for given, said in [
        (arcs, r"label_scores has shape \(2, 4, 4\), expected \(2, 4, 4, L\)"),
        (of_labels[..., :0], "L >= 1"),
        ((of_labels.numpy(),), "expected a torch.Tensor"),
        ((x, x), "or factors: heads"),
        ((x, x[:, :3], weights), r"\(2, 3, 5\), \(3, 6, 5\), expected .* heads \(2, 4, K\)"),
        ((x, x, weights[:, :4]), r"weights \(L, K, K'\)"),
        ((x, x, weights[0, :, :4]), r"or \(L, K\)"),
        ((x, x, weights[0, 0, 0]), "or factors: heads"),
        ((x, x[..., :4], weights[:, :5, 0]), r"or \(L, K\)"),
        ((x, x, weights.bool()), "label_scores has type torch.bool"),
    ]:
        with pytest.raises(ScoreError, match=said):
            LabelledTrees(trees, given)
    heads = torch.tensor([[-1, 0, 1, 2], [-1, 0, 1, 0]])
    labels = torch.tensor([[-1, 0, 1, 2], [9, 0, 1, 9]])
    assert found.score_of(heads, labels).tolist() == [0.0, 0.0]
    for wrong, said in [
        (labels + 1, r"sentence 0: word 3 has another label; expected labels from 0 to 2"),
        (labels - 1, "sentence 0: word 1 has another label"),
        (labels.double(), "labels has type torch.float64"),
        (labels[:, 1:], r"labels has shape \(2, 3\), expected \(2, 4\), or \(2, K, 4\)"),
        (labels[:, None], r"labels has shape \(2, 1, 4\), expected that of heads, \(2, 4\)"),
    ]:
        with pytest.raises(ScoreError, match=said):
            found.score_of(heads, wrong)
    for loss in (*LOSSES, label_loss):
        with pytest.raises(ScoreError, match="from -1 to 2"):
            loss(found, heads, gold_labels=labels + 1)
        with pytest.raises(ScoreError, match="gold_labels are given for trees without labels"):
            loss(trees, heads, gold_labels=labels)
    with pytest.raises(ScoreError, match="label_smoothing is 1"):
        local_loss(found, heads, label_smoothing=1)
    siblings = ProjectiveTrees(arcs, [3, 2], sibling_scores=torch.zeros(2, 4, 4, 4))
    with pytest.raises(ScoreError, match="local_loss reads scores of arcs and labels alone"):
        local_loss(siblings, heads)
    with pytest.raises(NoTreeError, match="sentence 0"):
        LabelledTrees(trees, of_labels - torch.inf).best()
    assert isinstance(found.trees.best(), Best)
