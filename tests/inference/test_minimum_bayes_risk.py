"""Marginals of labels, and trees with the most heads expected to be right: enumeration."""

from itertools import product

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import (
    arc_scores_of_labels,
    chu_liu_edmonds,
    eisner_log_partition,
    eisner_marginals,
    label_marginals,
)
from gpuparse.inference.marginals import minimum_bayes_risk
from gpuparse.inference.matrix_tree import matrix_tree_marginals
from tests.inference.test_sums import assert_equals_numpy, draw, gradcheck
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import values_of_trees
from tests.oracles.tree_sums import sums_of_values
from tests.strategies import cases

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_decoder = pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])


@every_root
@every_decoder
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_least_risk_of_all_trees(single_root, decoder, n):
    """Risks by their definition: the average number of wrong heads over all trees."""
    arcs = np.random.default_rng(n).standard_normal((100, n + 1, n + 1)) * 2
    lengths = torch.full((100,), n)
    marginals = matrix_tree_marginals(torch.from_numpy(arcs), lengths, single_root=single_root)
    heads, right = minimum_bayes_risk(marginals, lengths, decoder=decoder, single_root=single_root)
    truths = all_trees(n, False, single_root)
    values = values_of_trees({"arc": arcs}, projective=False, single_root=single_root)
    probabilities = np.exp(values)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    answers = all_trees(n, decoder == "eisner", single_root)
    n_right = (answers[:, None, 1:] == truths[None, :, 1:]).sum(axis=2)
    expected = probabilities @ n_right.T
    np.testing.assert_allclose(right.numpy(), expected.max(axis=1), rtol=1e-12)
    best = answers[expected.argmax(axis=1)]
    is_clear = -np.partition(-expected, 1, axis=1)[:, 1] < right.numpy() - 1e-9 if n > 1 else True
    same = (heads.numpy() == best).all(axis=1)
    assert (same | ~np.asarray(is_clear)).all()
    assert same.mean() > 0.95


@every_root
def test_it_is_not_the_best_tree(single_root):
    """Many trees that agree on an arc outweigh a better one."""
    arcs = torch.from_numpy(np.random.default_rng(9).standard_normal((200, 5, 5)))
    lengths = torch.full((200,), 4)
    marginals = matrix_tree_marginals(arcs, lengths, single_root=single_root)
    heads, _ = minimum_bayes_risk(
        marginals, lengths, decoder="chu_liu_edmonds", single_root=single_root
    )
    best, _ = chu_liu_edmonds(arcs, lengths, single_root=single_root)
    differ = (heads != best).any(1).sum()
    assert 0 < differ < 200


@every_decoder
def test_types_padding_and_forbidden_arcs(decoder):
    marginals = torch.full((2, 4, 4), torch.nan)
    marginals[0, :3, 1:3] = torch.tensor([[0.9, 0.4], [torch.nan, 0.6], [0.1, torch.nan]])
    lengths = torch.tensor([2, 0])
    heads, right = minimum_bayes_risk(marginals, lengths, decoder=decoder)
    assert heads.tolist() == [[-1, 0, 1, -1], [-1] * 4]
    assert right.dtype == torch.float64
    assert right.tolist() == pytest.approx([1.5, 0.0])
    marginals[0, 1, 2] = -torch.inf
    heads, right = minimum_bayes_risk(marginals, lengths, decoder=decoder)
    assert heads[0].tolist() == [-1, 0, 0, -1]
    marginals[0, 0, 2] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 0"):
        minimum_bayes_risk(marginals, lengths, decoder=decoder)


def test_an_unknown_decoder():
    with pytest.raises(ScoreError, match="unknown decoder 'hill_climb'"):
        minimum_bayes_risk(torch.zeros(1, 3, 3), torch.tensor([2]), decoder="hill_climb")


@every_root
@pytest.mark.parametrize("n", [1, 2, 3])
def test_label_marginals_are_those_of_enumeration(single_root, n):
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
