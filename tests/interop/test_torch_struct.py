"""The classes with the interface of torch-struct: as it where it is right, else as enumerated."""

import importlib
import importlib.util
import warnings
from itertools import product

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from gpuparse.api.torch_struct import DependencyCRF, NonProjectiveDependencyCRF
from gpuparse.errors import NoTreeError, ScoreError
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_sums import sums_of_values

has_peer = importlib.util.find_spec("torch_struct") is not None
needs_peer = pytest.mark.skipif(not has_peer, reason="torch-struct is not installed")
every_root = pytest.mark.parametrize("multiroot", [True, False])
every_class = pytest.mark.parametrize("kind", [DependencyCRF, NonProjectiveDependencyCRF])
with_labels = pytest.mark.parametrize("n_labels", [0, 3])
LENGTHS = [6, 4, 2, 1]


def draw(seed, n_batch, n, n_labels=0, dtype=torch.float64):
    shape = (n_batch, n, n, n_labels) if n_labels else (n_batch, n, n)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def peer_of(potentials, lengths, multiroot):
    """Its multiroot is of the class: what is asked for is computed before the next one is made."""
    torch_struct = importlib.import_module("torch_struct")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*arg_constraints")
        # Release 0.5 fails on scores that do not require gradients.
        return torch_struct.DependencyCRF(
            potentials.clone().requires_grad_(), lengths, multiroot=multiroot
        )


@needs_peer
@every_root
@with_labels
def test_projective_trees_are_as_in_torch_struct(multiroot, n_labels):
    potentials, lengths = draw(1, 4, 6, n_labels), torch.tensor(LENGTHS)
    ours = DependencyCRF(potentials, lengths, multiroot=multiroot)
    theirs = peer_of(potentials, lengths, multiroot)
    assert ours.batch_shape == theirs.batch_shape
    assert ours.event_shape == theirs.event_shape
    for name in ("partition", "marginals", "entropy", "max", "argmax", "mode"):
        expected = getattr(theirs, name).detach()
        found = getattr(ours, name)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected.reshape(found.shape))
    torch.testing.assert_close(
        ours.log_prob(ours.argmax), theirs.log_prob(theirs.argmax).detach().reshape(-1)
    )


@needs_peer
@every_root
@with_labels
def test_k_best_projective_trees_are_as_in_torch_struct(multiroot, n_labels):
    potentials, lengths = draw(2, 3, 6, n_labels), torch.tensor([6, 5, 4])
    ours = DependencyCRF(potentials, lengths, multiroot=multiroot)
    theirs = peer_of(potentials, lengths, multiroot)
    torch.testing.assert_close(ours.topk(5), theirs.topk(5).detach())
    torch.testing.assert_close(ours.kmax(5), theirs.kmax(5).detach())


@needs_peer
def test_events_are_as_in_torch_struct():
    """Functions that fail on current torch (count, cross_entropy, kl) are enumerated below."""
    potentials, lengths = draw(3, 3, 5), torch.tensor([5, 5, 5])
    ours, theirs = DependencyCRF(potentials, lengths), peer_of(potentials, lengths, True)
    heads, nothing = ours.from_event(ours.argmax)
    expected, _ = theirs.from_event(theirs.argmax)
    assert heads.equal(expected)
    assert nothing is None
    event = ours.to_event(heads, None)
    assert event.equal(theirs.to_event(heads, None))
    assert event.equal(ours.argmax.long())


@needs_peer
@every_root
def test_non_projective_marginals_are_about_those_of_torch_struct(multiroot):
    """It adds 1e-5 to every exponential: close only for scores about 0."""
    torch_struct = importlib.import_module("torch_struct")
    potentials, lengths = draw(5, 3, 6), torch.tensor([6, 4, 2])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*arg_constraints")
        theirs = torch_struct.NonProjectiveDependencyCRF(potentials, lengths, multiroot=multiroot)
    ours = NonProjectiveDependencyCRF(potentials, lengths, multiroot=multiroot)
    torch.testing.assert_close(ours.marginals, theirs.marginals, rtol=0, atol=1e-3)
    torch.testing.assert_close(ours.partition, theirs.partition, rtol=0, atol=1e-3)


def enumerate_events(potentials, n, projective, multiroot):
    """All events (T, N, N[, L]) of the first n words, and their scores (B, T)."""
    size, n_labels = potentials.shape[1], potentials.shape[3] if potentials.dim() == 4 else 0
    events = []
    for tree in all_trees(n, projective, not multiroot):
        for choice in product(range(n_labels or 1), repeat=n):
            event = torch.zeros(size, size, n_labels or 1, dtype=potentials.dtype)
            for m, label in enumerate(choice):
                h = tree[m + 1] - 1 if tree[m + 1] > 0 else m
                event[h, m, label] = 1
            events.append(event if n_labels else event[..., 0])
    events = torch.stack(events)
    parts = torch.where(events[:, None] != 0, potentials, 0.0)
    return events, parts.flatten(2).sum(2).T


@every_class
@every_root
@pytest.mark.parametrize("n_labels", [0, 2])
def test_everything_is_as_enumerated(kind, multiroot, n_labels):
    projective = kind is DependencyCRF
    n = 3
    potentials = draw(6, 5, n, n_labels)
    potentials[1:, 0, 1] = -torch.inf
    potentials[2:, 2, 1, ...] = -torch.inf
    wide = torch.full((5, n + 2, n + 2) + potentials.shape[3:], torch.nan, dtype=torch.float64)
    wide[:, :n, :n] = potentials
    crf = kind(wide, [n] * 5, multiroot=multiroot)
    wide_events, _ = enumerate_events(torch.nan_to_num(wide), n, projective, multiroot)
    _, values = enumerate_events(potentials, n, projective, multiroot)
    expected = sums_of_values(values.numpy())
    probabilities = torch.from_numpy(expected.probabilities)

    def close(found, wanted):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)

    close(crf.partition, torch.from_numpy(expected.log_partition))
    close(crf.entropy, torch.from_numpy(expected.entropy))
    flat = probabilities @ wide_events.flatten(1)
    close(crf.marginals, flat.reshape(wide.shape))
    close(crf.max, values.max(1).values)
    close(crf.argmax, wide_events[values.argmax(1)])
    close(crf.count, (values > -torch.inf).sum(1).double())
    k = values.shape[1] + 2
    sorted_values, order = values.sort(1, descending=True)
    close(crf.kmax(k)[:-2], sorted_values.T)
    assert (crf.kmax(k)[-2:] == -torch.inf).all()
    is_tree = (sorted_values > -torch.inf).T
    best = crf.topk(k)
    assert best[:-2][is_tree].equal(wide_events[order.T][is_tree])
    assert (best[:-2][~is_tree] == 0).all()
    assert (best[-2:] == 0).all()
    second = draw(15, 5, n, n_labels)
    wide_second = torch.nan_to_num(wide, neginf=0.0)
    wide_second[:, :n, :n] = second
    other = kind(wide_second, [n] * 5, multiroot=multiroot)
    _, other_values = enumerate_events(second, n, projective, multiroot)
    surprise = -(probabilities * other_values.log_softmax(1)).sum(1)
    close(crf.cross_entropy(other), surprise)
    close(crf.kl(other), surprise - crf.entropy)
    # All events of all sentences at once: the events stand in for samples.
    log_prob = crf.log_prob(wide_events[:, None].expand(-1, 5, *wide.shape[1:]))
    close(log_prob.exp().T, probabilities)
    assert crf.log_prob(crf.argmax).shape == (5,)


@every_class
@with_labels
def test_samples_have_the_probabilities_of_their_trees(kind, n_labels):
    potentials, n_samples = draw(7, 2, 3, n_labels), 20_000
    crf = kind(potentials, multiroot=True)
    torch.manual_seed(8)
    samples = crf.sample((n_samples,))
    assert samples.shape == (n_samples, 2, *potentials.shape[1:])
    assert samples.dtype == potentials.dtype
    share = samples.mean(0)
    deviation = (crf.marginals * (1 - crf.marginals) / n_samples).sqrt()
    assert ((share - crf.marginals).abs() <= 4.5 * deviation + 1e-12).all()
    # Not the arcs alone: the mean surprise of samples is the entropy.
    surprise = -crf.log_prob(samples)
    error = surprise.std(0) / n_samples**0.5
    assert ((surprise.mean(0) - crf.entropy).abs() < 4.5 * error).all()
    assert crf.sample((2, 3)).shape == (2, 3, 2, *potentials.shape[1:])
    assert crf.sample().shape == potentials.shape


@every_class
@every_root
@with_labels
def test_gradients_are_right(kind, multiroot, n_labels):
    potentials = draw(9, 2, 3, n_labels).requires_grad_()
    forbidden = torch.zeros_like(potentials, dtype=torch.bool)
    forbidden[:, 0, 1] = True
    other = kind(draw(10, 2, 3, n_labels), multiroot=multiroot)

    def calling(name):
        def call(potentials):
            crf = kind(potentials.masked_fill(forbidden, -torch.inf), [3, 2], multiroot=multiroot)
            if name == "log_prob":
                return crf.log_prob(crf.argmax)
            if name == "kl":
                return crf.kl(kind(other.log_potentials, [3, 2], multiroot=multiroot))
            if name == "kmax":
                return crf.kmax(2).clamp(min=-1e3)  # -inf minus -inf is no difference
            return getattr(crf, name)

        return call

    for name in ("partition", "entropy", "marginals", "max", "kmax", "log_prob", "kl"):
        assert gradcheck(calling(name), (potentials,), fast_mode=True), name


@every_class
def test_gradients_come_where_they_are_asked_for_and_only_there(kind):
    potentials = draw(11, 2, 4, 0, torch.float32).requires_grad_()
    crf = kind(potentials)
    with torch.no_grad():
        assert not crf.partition.requires_grad
    assert crf.partition.requires_grad
    assert crf.partition is crf.partition
    crf.partition.sum().backward()
    torch.testing.assert_close(potentials.grad, crf.marginals.detach())
    assert potentials.grad.dtype == torch.float32
    assert crf.entropy.dtype == torch.float64
    with torch.inference_mode():
        inside = kind(potentials.detach())
        torch.testing.assert_close(inside.marginals, potentials.grad)
        assert inside.argmax.sum() == 8


@every_class
def test_one_distribution_does_not_change_another(kind):
    potentials = draw(12, 2, 4)
    many, one = kind(potentials, multiroot=True), kind(potentials, multiroot=False)
    assert (many.partition > one.partition).all()
    roots = one.marginals.diagonal(dim1=1, dim2=2).sum(1)
    torch.testing.assert_close(roots, torch.ones(2, dtype=torch.float64))
    assert (many.marginals.diagonal(dim1=1, dim2=2).sum(1) > 1).all()


@every_class
@every_root
@pytest.mark.parametrize("shift", [-12.0, 0.0, 1e6])
def test_adding_to_all_scores_changes_no_probability(kind, multiroot, shift):
    """Where torch-struct's matrix-tree is off by nats, or is not a number."""
    potentials = draw(13, 2, 10).round(decimals=3)
    crf, shifted = (kind(potentials + s, multiroot=multiroot) for s in (0.0, shift))
    torch.testing.assert_close(shifted.marginals, crf.marginals, rtol=0, atol=1e-8)
    torch.testing.assert_close(shifted.entropy, crf.entropy, rtol=0, atol=1e-7)
    torch.testing.assert_close(shifted.partition - 10 * shift, crf.partition, rtol=0, atol=1e-7)


@every_class
@with_labels
def test_events_and_heads_are_the_same_trees(kind, n_labels):
    crf = kind(draw(14, 4, 6, n_labels), LENGTHS, multiroot=True)
    heads, labels = crf.from_event(crf.argmax)
    assert crf.to_event(heads, labels).equal(crf.argmax.long())
    assert (labels is None) == (n_labels == 0)
    assert (heads[1, 4:] == 0).all()
    shorter = crf.to_event(heads, labels, torch.tensor([1, 1, 1, 1]))
    assert shorter.sum(tuple(range(1, shorter.dim()))).tolist() == [1, 1, 1, 1]


@every_class
def test_what_cannot_be_used_is_refused(kind):
    with pytest.raises(ScoreError, match="log_potentials"):
        kind(torch.zeros(2, 3, 4))
    with pytest.raises(ScoreError, match="log_potentials"):
        kind(torch.zeros(3, 3))
    with pytest.raises(ScoreError, match="length 4"):
        _ = kind(torch.zeros(2, 3, 3), [3, 4]).partition
    potentials = torch.zeros(2, 3, 3)
    potentials[1, :, 2] = -torch.inf
    for ask in ("partition", "marginals", "entropy", "argmax"):
        with pytest.raises(NoTreeError, match="sentence 1"):
            getattr(kind(potentials), ask)


def test_the_enumeration_of_labelled_trees_is_complete():
    events, values = enumerate_events(torch.zeros(1, 3, 3, 2), 3, True, True)
    assert len(events) == 12 * 2**3
    assert values.shape == (1, 12 * 2**3)
    assert len(np.unique(events.flatten(1).numpy(), axis=0)) == len(events)
