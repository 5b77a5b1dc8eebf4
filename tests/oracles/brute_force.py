"""The best tree by looking at every tree: slow, short, and not like any algorithm under test."""

from functools import cache
from itertools import product

import numpy as np


def is_tree(heads: tuple[int, ...]) -> bool:
    """Every word 1..n reaches 0; heads[m - 1] is the head of word m."""
    for m in range(1, len(heads) + 1):
        seen = 0
        while m != 0 and seen <= len(heads):
            m, seen = heads[m - 1], seen + 1
        if m != 0:
            return False
    return True


def is_projective(heads: tuple[int, ...]) -> bool:
    """No two arcs cross, the root standing at 0."""
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, start=1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


@cache
def all_trees(n: int, projective: bool, single_root: bool) -> np.ndarray:
    """All heads vectors (T, n+1) of trees over n words; column 0 is -1."""
    trees = [
        (-1, *heads)
        for heads in product(range(n + 1), repeat=n)
        if is_tree(heads)
        and (not projective or is_projective(heads))
        and (not single_root or heads.count(0) == 1)
    ]
    return np.array(trees, dtype=np.int64).reshape(len(trees), n + 1)
