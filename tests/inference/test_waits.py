"""Nothing waits for a device in a training step: tensors on meta have no values to read."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gpuparse.errors import ScoreError
from gpuparse.inference import (
    LabelledTrees,
    NonProjectiveTrees,
    ProjectiveTrees,
    conditional_loss,
    hinge_loss,
    local_loss,
    risk_loss,
)
from gpuparse.inference.distributions import TreeDistribution
from tests.inference.test_labelled import KINDS

LOSSES = {loss.__name__: loss for loss in (conditional_loss, hinge_loss, local_loss, risk_loss)}
every_kind = pytest.mark.parametrize("kind", KINDS)
# The local loss reads scores of arcs alone.
CASES = [(k, x) for k in KINDS for x in LOSSES if (k, x) != ("siblings", "local_loss")]
every_case = pytest.mark.parametrize(("kind", "loss"), CASES)
with_labels = pytest.mark.parametrize("labels", ["", "scores", "factors"])


class NothingSent(TorchDispatchMode):
    """Refuses tensors in main memory, which CUDA graphs do not capture; numbers are none."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for each in tree_leaves((args, kwargs)):
            assert not isinstance(each, torch.Tensor) or each.dim() == 0 or each.device == META
        return func(*args, **kwargs or {})


META = torch.device("meta")


@pytest.fixture
def without_values(monkeypatch):
    """Tensors on meta are refused, unless they are taken for those of another device."""
    monkeypatch.setattr(torch.Tensor, "is_meta", property(lambda tensor: False))


def made(kind, labels="", device="meta", of=torch.ones):
    """Trees of four positions, and gold heads and labels."""

    def scores(*shape):
        return of(2, *shape, device=device, requires_grad=True)

    names = KINDS[kind][1]
    more = {name: scores(*[4] * (3 if name == "sibling_scores" else 2)) for name in names}
    lengths = torch.tensor([3, 2]).to(device)
    trees = KINDS[kind][0](scores(4, 4), lengths, engine="torch", **more)
    gold = torch.tensor([[-1, 0, 1, 2], [-1, 2, 0, -1]]).to(device)
    if not labels:
        return trees, gold, {}
    given = scores(4, 4, 3)
    if labels == "factors":
        given = scores(4, 5), scores(4, 5), of(3, 6, 6, device=device, requires_grad=True)
    return LabelledTrees(trees, given), gold, {"gold_labels": gold.clamp(max=2)}


@pytest.mark.parametrize("what", ["item", "bool", "nonzero", "tolist", "cpu", "mask", "equal"])
def test_waits_are_found(what, without_values):
    x = torch.ones(3, device="meta")
    waiting = {
        "item": x.sum().item, "bool": lambda: bool(x.any()), "nonzero": x.nonzero,
        "tolist": x.tolist, "cpu": x.cpu, "mask": lambda: x[x > 1], "equal": lambda: x.equal(x),
    }  # fmt: skip
    with pytest.raises((RuntimeError, NotImplementedError)):
        waiting[what]()


@every_case
@with_labels
def test_losses_and_gradients(kind, loss, labels, without_values):
    if loss == "hinge_loss" and kind == "all":
        pytest.skip("the torch form of chu_liu_edmonds asks in each step if it is done")
    options = [{}] if loss in ("local_loss", "risk_loss") else [
        {}, {"unreachable": "skip"}, {"partial": True},
    ]  # fmt: skip
    for more in options:
        trees, gold, given = made(kind, labels)
        LOSSES[loss](trees, gold, **given, **more)  # plans of searches are sent once
        trees, gold, given = made(kind, labels)
        with NothingSent():
            LOSSES[loss](trees, gold, **given, **more).sum().backward()
        assert all(part.grad is not None for part in trees._parts)


@every_kind
@with_labels
def test_quantities(kind, labels, without_values):
    trees, gold, _ = made(kind, labels)
    others = made(kind, labels)[0]
    total = trees.entropy + trees.kl(others) + trees.cross_entropy(others)
    total = total + trees.expected_cost(gold) + trees.log_partition
    total.sum().backward()
    if labels:
        trees.log_prob(gold, gold.clamp(max=2))
        assert trees.label_marginals.shape == (2, 4, 4, 3)
    else:
        trees.log_prob(gold)
    mask = torch.ones(2, 4, dtype=torch.bool, device="meta")
    assert KINDS[kind][0](trees._parts[0], mask=mask).lengths.shape == (2,)
    if kind != "all":
        assert trees.best().heads.shape == (2, 4)


@pytest.fixture
def unchecked(monkeypatch):
    """Main memory is taken for a device."""
    return lambda: monkeypatch.setattr(TreeDistribution, "_is_on_device", True)


@every_case
@with_labels
def test_results_are_those_with_checks(kind, loss, labels, unchecked):
    found = []
    for _ in range(2):
        trees, gold, given = made(kind, labels, "cpu")
        torch.manual_seed(1)
        for part in trees._parts:
            part.data.normal_()
        value = LOSSES[loss](trees, gold, **given)
        gradients = torch.autograd.grad(value.sum(), trees._parts, materialize_grads=True)
        found.append([value, *gradients, trees.entropy, trees.best().scores, trees.best().heads])
        unchecked()
    for one, other in zip(*found, strict=True):
        # Where nothing waits, sums of all trees are eliminations.
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6 * (kind == "all"))


@every_kind
def test_scores_without_a_tree_or_a_number(kind, unchecked):
    """The other sentence has what it has."""
    for wrong in (-torch.inf, torch.nan):
        trees, gold, _ = made(kind, "", "cpu")
        expected = trees.log_partition, conditional_loss(trees, gold), risk_loss(trees, gold)
        with torch.no_grad():
            trees._parts[0][1] = wrong
        unchecked()
        losses = [loss(trees, gold) for loss in (conditional_loss, risk_loss)]
        hinge = hinge_loss(trees, gold), hinge_loss(trees, gold, partial=True)
        for found, value in zip((trees.log_partition, *losses), expected, strict=True):
            assert found[0] == value[0]
        assert all(not loss[1].isfinite() for loss in (*losses, *hinge))
        assert all(loss[0].isfinite() for loss in hinge)
        assert trees.log_partition[1].isneginf() if wrong == -torch.inf else (
            trees.log_partition[1].isnan()
        )  # fmt: skip
        assert trees.marginals[1].isnan().all()
        assert trees.entropy[1].isnan()
        assert trees.best().heads[1].tolist() == [-1] * 4


@pytest.mark.parametrize("loss", [conditional_loss, hinge_loss])
def test_heads_that_are_not_known(loss):
    """They are said to be known or not, or looked at in main memory."""
    trees, gold, _ = made("all", "", "cpu", of=torch.randn)
    assert loss(trees, gold).equal(loss(trees, gold, partial=False))
    torch.testing.assert_close(loss(trees, gold, partial=True), loss(trees, gold))
    gold[0, 2] = -1
    expected = loss(trees, gold)
    assert expected.equal(loss(trees, gold, partial=True))
    with pytest.raises(ScoreError, match="word 2 has no head"):
        loss(trees, gold, partial=False)

    def traced(arcs):
        return loss(NonProjectiveTrees(arcs, trees.lengths), gold, partial=True)

    found = torch.func.vmap(traced)(trees.scores.arc[None])[0]
    torch.testing.assert_close(found, expected)


def test_assertions_on_a_device_say_what_is_expected(without_values, monkeypatch):
    said = []
    monkeypatch.setattr(torch, "_assert_async", lambda is_right, what: said.append(what))
    trees, gold, given = made("projective", "scores")
    conditional_loss(trees, gold, **given)
    assert "with partial=True" in said[0]
    assert "labels: expected" in said[1]
    ProjectiveTrees(trees._parts[0], mask=torch.ones(2, 4, dtype=torch.bool, device="meta"))
    assert "mask: expected the first words" in said[-1]
