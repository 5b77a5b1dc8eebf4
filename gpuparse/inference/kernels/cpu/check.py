"""The check of score values, compiled: one pass over the cells that decoders read."""

import numpy as np

from gpuparse.compiled import compiled, inlined


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


# What the last two axes of scores of larger parts of the arc h -> m are: of [.., g] the head of h;
# of [s, g] and [s, t] siblings first.
GRANDPARENT, GRAND_SIBLING, TRI_SIBLING = range(3)


@inlined
def _is_sibling(h: int, m: int, s: int) -> bool:
    """Whether s can be the inner sibling of m, or is h, for none."""
    return s == h or (h < s < m) or (m < s < h)


@inlined
def _is_grandparent(h: int, m: int, g: int) -> bool:
    """Whether g can be the head of h in a projective tree; 0 for that of the root."""
    return g == 0 if h == 0 else g < min(h, m) or g > max(h, m)


@compiled
def first_unusable_part(scores: np.ndarray, lengths: np.ndarray, kind: int) -> np.ndarray:
    """Place [b, h, m, x, y] of the first unusable score of a larger part; b == -1: there is none.

    Args: scores float (B, N, N, X, N), C order, X == 1 for grandparents; lengths int64 (B,),
    checked; kind: GRANDPARENT, GRAND_SIBLING or TRI_SIBLING.
    """
    largest = np.finfo(scores.dtype).max
    place = np.full(5, -1, np.int64)
    for b in range(len(lengths)):
        n = lengths[b]
        limit = scores.dtype.type(largest / (8 * (n + 1)))
        if not _any_unusable(scores[b, : n + 1].reshape(scores[b, : n + 1].size), limit):
            continue
        for h in range(n + 1):
            for m in range(1, n + 1):
                for x in range(n + 1 if kind != GRANDPARENT else 1):
                    if h == m or (kind != GRANDPARENT and not _is_sibling(h, m, x)):
                        continue
                    for y in range(n + 1):
                        if kind == TRI_SIBLING:
                            is_read = _is_sibling(h, m if x == h else x, y) and (x != h or y == h)
                        else:
                            is_read = _is_grandparent(h, m, y)
                        if is_read and _any_unusable(scores[b, h, m, x, y : y + 1], limit):
                            place[:] = b, h, m, x, y
                            return place
    return place


@compiled
def suspicious_sentences(scores: np.ndarray, lengths: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """bool (B,): whether any number of a sentence, read or not, is unusable.

    Args: scores float (B, N, M), of which the rows 0 .. length are looked at, C order; lengths
    int64 (B,), checked; limit float64 (B,), the largest number.
    """
    found = np.zeros(len(lengths), np.bool_)
    for b in range(len(lengths)):
        n_rows = lengths[b] + 1
        cells = scores[b, :n_rows].reshape(n_rows * scores.shape[2])
        found[b] = _any_unusable(cells, scores.dtype.type(limit[b]))
    return found
