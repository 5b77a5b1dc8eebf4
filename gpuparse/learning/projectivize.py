"""Trees that a projective decoder can build, for training on trees that it cannot."""

import numpy as np

from gpuparse import native


def nearest_projective(heads: np.ndarray, *, single_root: bool = False) -> np.ndarray:
    """The projective tree that keeps most gold arcs.

    Among several it prefers words that hang from an ancestor of theirs in the gold tree, as if
    the arc had been lifted.

    Args:
        heads: (n,) heads of a tree, 0 for the root, -1 for words whose head is not known.
        single_root: whether one word only may hang from the root.
    Returns:
        (n,) int64 heads; the same tree if it is projective already.
    Cost: O(n^3).
    Source: Carreras (2007), footnote 2: Eisner's algorithm over scores that count gold arcs.
        differs: gold arcs score n + 1, arcs from other ancestors 1, all others 0. Every tree has
        n arcs, so that +1 and -1, or 0 and -1, would find the same number of gold arcs.
    """
    n = len(heads)
    scores = np.zeros((n + 1, n + 1))
    for m in range(1, n + 1):
        ancestor = heads[m - 1]
        if ancestor < 0:
            continue
        scores[ancestor, m] = n + 1
        while ancestor > 0:
            ancestor = heads[ancestor - 1]
            scores[ancestor, m] += 1
    return _best_tree(scores, single_root)[0]


def unkeepable(heads: np.ndarray, *, single_root: bool = False) -> list[int]:
    """Words whose known heads no projective tree has all together.

    Args:
        heads: (n,) 0 for the root, -1 for words whose head is not known; without cycles.
        single_root: as in `nearest_projective`.
    Returns:
        Words, counted from 1; without any one of them, a tree could keep the remaining heads. Empty
        if there is a tree with all known heads.
    Cost: O(n^3); O(n^4) for a set that is not empty.
    """
    if _has_projective(heads, single_root):
        return []
    rest = heads.copy()
    for m in np.flatnonzero(heads >= 0):
        given = rest[m]
        rest[m] = -1
        if _has_projective(rest, single_root):
            rest[m] = given
    return [int(m) + 1 for m in np.flatnonzero(rest >= 0)]


def _has_projective(heads: np.ndarray, single_root: bool) -> bool:
    n = len(heads)
    scores = np.zeros((n + 1, n + 1))
    for m in np.flatnonzero(heads >= 0) + 1:
        scores[:, m] = -np.inf
        scores[heads[m - 1], m] = 0.0
    return _best_tree(scores, single_root)[1] > -np.inf


def _best_tree(scores: np.ndarray, single_root: bool) -> tuple[np.ndarray, float]:
    """The heads (n,) of the best projective tree under scores (n + 1, n + 1), and its score."""
    heads = np.zeros((1, len(scores)), np.int64)
    lengths, total = np.array([len(scores) - 1]), np.empty(1)
    native.call("eisner_batch", scores[np.newaxis], lengths, single_root, heads, total)
    return heads[0, 1:], float(total[0])
