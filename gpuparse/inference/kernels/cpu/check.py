"""The check of score values, compiled: one pass over the cells that decoders read."""

import numpy as np

from gpuparse.compiled import compiled


@compiled
def _any_unusable(cells: np.ndarray, limit: float) -> bool:
    # Written so that NaN fails, without early exit and in 32-bit integers: so it is vectorised.
    forbidden = cells.dtype.type(-np.inf)
    yes, no = np.int32(1), np.int32(0)
    bad = no
    for i in range(len(cells)):
        score = cells[i]
        bad |= no if (score <= limit) & ((score >= -limit) | (score == forbidden)) else yes
    return bad != 0


@compiled
def first_unusable(arc_scores: np.ndarray, lengths: np.ndarray) -> int:
    """First sentence with a wrong length or an unusable score in a cell that is read.

    Args: arc_scores float (B, N, N), C order; lengths int64 (B,).
    Returns: its index, or -1.
    """
    n_nodes = arc_scores.shape[1]
    largest = np.finfo(arc_scores.dtype).max
    for b in range(len(lengths)):
        n = lengths[b]
        if n < 0 or n >= n_nodes:
            return b
        limit = arc_scores.dtype.type(largest / (4 * (n + 1)))
        # Rows whole, in one sweep; only where that fails, without the cells that nobody reads.
        if not _any_unusable(arc_scores[b, : n + 1].reshape((n + 1) * n_nodes), limit):
            continue
        if _any_unusable(arc_scores[b, 0, 1 : n + 1], limit):
            return b
        for h in range(1, n + 1):
            if _any_unusable(arc_scores[b, h, 1:h], limit):
                return b
            if _any_unusable(arc_scores[b, h, h + 1 : n + 1], limit):
                return b
    return -1


@compiled
def first_unusable_siblings(sibling_scores: np.ndarray, lengths: np.ndarray) -> int:
    """First sentence with an unusable sibling score in a cell that is read.

    Args: sibling_scores float (B, N, N, N), C order; lengths int64 (B,), checked.
    Returns: its index, or -1.
    """
    n_nodes = sibling_scores.shape[1]
    largest = np.finfo(sibling_scores.dtype).max
    for b in range(len(lengths)):
        n = lengths[b]
        limit = sibling_scores.dtype.type(largest / (4 * (n + 1)))
        scores = sibling_scores[b, : n + 1].reshape((n + 1) * n_nodes * n_nodes)
        if not _any_unusable(scores, limit):
            continue
        for h in range(n + 1):
            for m in range(1, n + 1):
                inside = sibling_scores[b, h, m, min(h, m) + 1 : max(h, m)]
                if h != m and _any_unusable(sibling_scores[b, h, m, h : h + 1], limit):
                    return b
                if h != m and _any_unusable(inside, limit):
                    return b
    return -1
