"""The nearest projective tree against a look at all projective trees."""

import random

import numpy as np
import pytest

from gpuparse.data.trees import is_projective
from gpuparse.inference.nearest_trees import nearest_projective
from tests.oracles import brute_force
from tests.samples import any_heads, projective_heads


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_no_projective_tree_keeps_more_gold_arcs(n: int, single_root: bool) -> None:
    candidates = brute_force.all_trees(n, projective=True, single_root=single_root)[:, 1:]
    if n <= 4:
        golds = brute_force.all_trees(n, projective=False, single_root=False)[:, 1:]
    else:
        golds = np.array([any_heads(random.Random(seed), n) for seed in range(300)])
    assert n < 4 or any(not brute_force.is_projective(tuple(gold)) for gold in golds)
    for gold in golds:
        found = nearest_projective(gold, single_root=single_root)
        assert found.tolist() in candidates.tolist()
        assert (found == gold).sum() == (candidates == gold).sum(1).max()


@pytest.mark.parametrize("seed", range(20))
def test_projective_trees_stay_as_they_are(seed: int) -> None:
    heads = np.array(projective_heads(random.Random(seed), 3 * seed + 1))
    before = heads.copy()
    for single_root in (False, True):
        assert np.array_equal(nearest_projective(heads, single_root=single_root), heads)
    assert np.array_equal(heads, before)


@pytest.mark.parametrize("seed", range(10))
def test_long_trees_become_projective(seed: int) -> None:
    heads = np.array(any_heads(random.Random(seed), 40))
    found = nearest_projective(heads)
    assert brute_force.is_tree(tuple(found.tolist()))
    assert is_projective(found)
    assert not is_projective(heads)


def test_a_crossing_arc_is_lifted_to_an_ancestor() -> None:
    # 1 -> 3 crosses 4 -> 2. Moving 2 would keep as many arcs, but 4 is an ancestor of 3.
    heads = np.array([4, 4, 1, 0])
    assert not is_projective(heads)
    assert nearest_projective(heads).tolist() == [4, 4, 4, 0]
    # 2 -> 5 crosses root -> 3; of the ancestors 2, 1, 3 and root one is left.
    heads = np.array([3, 1, 0, 3, 2])
    assert nearest_projective(heads, single_root=True).tolist() == [3, 1, 0, 3, 3]
