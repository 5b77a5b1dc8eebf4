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


def tree_values(arc_scores: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """Scores (B, T) of all trees under all matrices (B, n+1, n+1)."""
    total = np.zeros((len(arc_scores), len(trees)), arc_scores.dtype)
    for m in range(1, trees.shape[1]):
        total += arc_scores[:, trees[:, m], m]
    return total


def best_values(arc_scores: np.ndarray, *, projective: bool, single_root: bool) -> np.ndarray:
    """Highest tree score (B,) of matrices (B, n+1, n+1); -inf where there is no tree."""
    trees = all_trees(arc_scores.shape[1] - 1, projective, single_root)
    return tree_values(arc_scores, trees).max(axis=1)


def parts_of(tree: np.ndarray) -> list[tuple[int, int, int]]:
    """(h, m, s) of every word m of a heads vector (n+1,), s the inner sibling or h for none."""
    parts = []
    for m, h in enumerate(tree.tolist()):
        if m > 0:
            inside = range(min(h, m) + 1, max(h, m))
            siblings = [s for s in inside if tree[s] == h]
            parts.append((h, m, min(siblings, key=lambda s: abs(s - m), default=h)))
    return parts


def ends_of(tree: np.ndarray) -> list[tuple[int, int]]:
    """(h, m) of every m of a heads vector (n+1,) beyond which its head h has no modifier."""
    ends = []
    for h in range(len(tree)):
        modifiers = [m for m in range(1, len(tree)) if tree[m] == h]
        ends += [(h, m) for m in modifiers if m > h and m == max(modifiers)]
        ends += [(h, m) for m in modifiers if m < h and m == min(modifiers)]
    return ends


@cache
def _all_ends(n: int, projective: bool, single_root: bool) -> np.ndarray:
    """bool (T, n+1, n+1): whether (h, m) is an end in each of the trees."""
    trees = all_trees(n, projective, single_root)
    is_end = np.zeros((len(trees), n + 1, n + 1), bool)
    for t, tree in enumerate(trees):
        for h, m in ends_of(tree):
            is_end[t, h, m] = True
    return is_end


@cache
def _all_parts(n: int, projective: bool, single_root: bool) -> np.ndarray:
    trees = all_trees(n, projective, single_root)
    return np.array([parts_of(tree) for tree in trees]).reshape(len(trees), n, 3)


def sibling_tree_values(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray | None = None,
    *,
    projective: bool,
    single_root: bool,
) -> np.ndarray:
    """Scores (B, T) of all trees, as in `all_trees`.

    Sibling scores are (B, n+1, n+1, n+1), end scores (B, n+1, n+1).
    """
    parts = _all_parts(arc_scores.shape[1] - 1, projective, single_root)
    total = np.zeros((len(arc_scores), len(parts)), arc_scores.dtype)
    for h, m, s in parts.transpose(1, 2, 0):
        total += arc_scores[:, h, m] + sibling_scores[:, h, m, s]
    if end_scores is not None:
        is_end = _all_ends(arc_scores.shape[1] - 1, projective, single_root)
        for h, m in np.argwhere(is_end.any(axis=0)):
            trees = np.flatnonzero(is_end[:, h, m])
            total[:, trees] += end_scores[:, h, m, np.newaxis]
    return total


def best_sibling_values(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray | None = None,
    *,
    projective: bool,
    single_root: bool,
) -> np.ndarray:
    """Highest score (B,) of a tree with sibling and end scores; -inf where there is no tree."""
    return sibling_tree_values(
        arc_scores, sibling_scores, end_scores, projective=projective, single_root=single_root
    ).max(axis=1)
