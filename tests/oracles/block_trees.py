"""Scores of all trees whose parts stand in blocks, by looking every part up."""

import numpy as np

from gpuparse.inference.kernels.cpu.candidates import Candidates
from tests.oracles.brute_force import all_trees, ends_of, parts_of


def block_tree_values(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    has_grandparents: bool,
    single_root: bool,
) -> np.ndarray:
    """Float64 scores (T,) of all trees, as in `all_trees`; -inf where an arc is no candidate."""
    return np.array(
        [
            _value(candidates, blocks, starts, ends, has_grandparents, tree)
            for tree in all_trees(n, False, single_root)
        ]
    )


def _value(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    has_grandparents: bool,
    tree: np.ndarray,
) -> float:
    number, first = candidates.number, candidates.first
    total = 0.0
    for h, m, s in parts_of(tree):
        if number[h, m] < 0 or (h > 0 and number[tree[h], h] < 0):
            return -np.inf
        width = first[h + 1] - first[h] if has_grandparents else 1
        q = number[tree[h], h] - first[h] if has_grandparents and h > 0 else 0
        inner = 0
        if s != h:
            if number[h, s] < 0:
                return -np.inf
            nearer = range(h + 1, s) if h < s else range(s + 1, h)
            inner = 1 + sum(number[h, word] >= 0 for word in nearer)
        total += float(blocks[starts[number[h, m]] + inner * width + q])
    return total + sum(float(ends[number[h, m]]) for h, m in ends_of(tree))
