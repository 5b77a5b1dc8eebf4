"""The check of score values, compiled: one pass over the cells that decoders read."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _count_unusable(cells, limit):
    bad = 0
    for score in cells:
        # Written so that NaN fails, and without early exit so that the loop is vectorised.
        bad += not ((score <= limit) & ((score >= -limit) | (score == -np.inf)))
    return bad


@njit(cache=True, nogil=True)
def first_unusable(arc_scores, lengths):
    """First sentence with a wrong length or an unusable score in a cell that is read.

    Args: arc_scores float (B, N, N), C order; lengths int64 (B,).
    Returns: its index, or -1.
    """
    dtype = arc_scores.dtype.type
    for b in range(len(lengths)):
        n = lengths[b]
        if n < 0 or n >= arc_scores.shape[1]:
            return b
        limit = dtype(np.finfo(arc_scores.dtype).max / (4 * (n + 1)))
        bad = _count_unusable(arc_scores[b, 0, 1 : n + 1], limit)
        for h in range(1, n + 1):
            bad += _count_unusable(arc_scores[b, h, 1:h], limit)
            bad += _count_unusable(arc_scores[b, h, h + 1 : n + 1], limit)
        if bad > 0:
            return b
    return -1
