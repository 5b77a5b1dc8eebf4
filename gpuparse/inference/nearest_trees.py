"""The projective tree that is nearest to a given tree."""

import numpy as np

from gpuparse import native
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
    heads, total = np.zeros((1, 1, len(scores)), np.int64), np.empty((1, 1))
    decoder, lengths = DECODERS["eisner"].number, np.array([len(scores) - 1])
    native.call(
        "find_trees_batch", decoder, scores[np.newaxis], None, None, lengths, single_root, heads,
        total,
    )  # fmt: skip
    return heads[0, 0, 1:], float(total[0, 0])
