"""The projective tree that is nearest to a given tree, and the heads that it cannot keep."""

import numpy as np

from gpuparse import native
from gpuparse.data.trees import is_projective, n_roots
from gpuparse.inference.decoders import DECODERS


def nearest_projective(heads: np.ndarray, *, single_root: bool = False) -> np.ndarray:
    """The projective tree that keeps most gold arcs.

    Among several it prefers words that hang from an ancestor of theirs in the gold tree, as if
    the arc had been lifted.

    Args:
        heads: (n,) heads of a tree, 0 for the root, -1 for words whose head is not known.
        single_root: whether one word only may hang from the root.
    Returns: (n,) int64 heads; the same tree if it is projective already.
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
    return best_projective(scores, single_root)[0]


def best_projective(scores: np.ndarray, single_root: bool) -> tuple[np.ndarray, float]:
    """The heads (n,) of the best projective tree under scores (n + 1, n + 1), and its score."""
    heads, totals = _best_of_each(scores[np.newaxis], np.array([len(scores) - 1]), single_root)
    return heads[0, 1:], float(totals[0])


def _best_of_each(
    scores: np.ndarray, lengths: np.ndarray, single_root: bool
) -> tuple[np.ndarray, np.ndarray]:
    count, n_nodes, _ = scores.shape
    heads, totals = np.zeros((count, 1, n_nodes), np.int64), np.empty((count, 1))
    native.call(
        "find_trees_batch", DECODERS["eisner"].number, scores, None, None, lengths, single_root,
        heads, totals,
    )  # fmt: skip
    return heads[:, 0], totals[:, 0]


def unkeepable(heads: np.ndarray, *, single_root: bool = False) -> list[int]:
    """Words whose known heads no projective tree has all together.

    Args:
        heads: (n,) 0 for the root, -1 for words whose head is not known; without cycles.
        single_root: as in `nearest_projective`.
    Returns: Words, counted from 1; without any one of them, a tree could keep the remaining heads.
        Empty if there is a tree with all known heads.
    Cost: that of a check if all heads are known and fit; else O(n^3), or O(n^4) for a set that is
        not empty.
    """
    is_whole = bool((heads >= 0).all())
    if is_whole and is_projective(heads) and not (single_root and n_roots(heads) > 1):
        return []
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
    row = np.append(0, heads)[np.newaxis]
    return bool(have_projective(row, np.array([len(heads)]), single_root=single_root)[0])


def have_projective(heads: np.ndarray, lengths: np.ndarray, *, single_root: bool) -> np.ndarray:
    """True where a projective tree has all known heads: bool (B,).

    Args: heads: (B, N) as in `gpuparse.inference`, -1 for words whose head is not known. lengths:
        (B,) words. single_root: as in `nearest_projective`.
    Cost: O(n^3) a sentence.
    """
    is_other = heads[:, None] != np.arange(heads.shape[1])[:, None]
    scores = np.where(is_other & (heads >= 0)[:, None], -np.inf, 0.0)
    return _best_of_each(scores, lengths, single_root)[1] > -np.inf
