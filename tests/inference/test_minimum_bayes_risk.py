"""Trees with the most heads expected to be right: enumeration of trees and of their risks."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import chu_liu_edmonds
from gpuparse.inference.marginals import minimum_bayes_risk
from gpuparse.inference.matrix_tree import matrix_tree_marginals
from tests.oracles.brute_force import all_trees, tree_values

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
    probabilities = np.exp(tree_values(arcs, truths))
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
