"""What one arc more or less does to the score of a graph with sibling parts.

Only the chain of modifiers of that head, on that side, is different afterwards: where m comes
between s and o, the part (h, s, o) gives way to (h, s, m) and (h, m, o). So the gains of all arcs
of one head are found in one walk over the words, O(n).
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.siblings import (
    Siblings,
    fill_sibling_rows,
    sibling_score,
)


class GainScratch(NamedTuple):
    """Working memory of searches by single changes; contents do not matter.

    gains: (N, N), [m, h]: what the arc h -> m adds to the score if it is not there, what its
    removal adds if it is. arcs: bool (N, N), [h, m]. stack, seen: int64 (N,).
    near: int64 (2, N, N), rows: (2, N, N), by head: see `fill_sibling_rows`.
    """

    gains: np.ndarray
    arcs: np.ndarray
    stack: np.ndarray
    seen: np.ndarray
    near: np.ndarray
    rows: np.ndarray


def make_gain_scratch(
    n: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> GainScratch:
    """Working memory for scores of this type and sentences of up to n words."""
    shape = (n + 1, n + 1)
    stack, seen = np.empty((2, n + 1), np.int64)
    near, rows = np.empty((2, *shape), np.int64), np.empty((2, *shape), dtype)
    gains, arcs = np.empty(shape, dtype), np.empty(shape, np.bool_)
    return GainScratch(gains, arcs, stack, seen, near, rows)


@inlined
def _fill_neighbours(n: int, h: int, arcs: np.ndarray, near: np.ndarray) -> None:
    """near[0, h, m] = the modifier of h just inside m, or h; near[1, h, m]: just beyond, or -1."""
    s = h
    for m in range(h + 1, n + 1):
        near[0, h, m] = s
        if arcs[h, m]:
            s = m
    s = h
    for m in range(h - 1, 0, -1):
        near[0, h, m] = s
        if arcs[h, m]:
            s = m
    o = -1
    for m in range(n, h, -1):
        near[1, h, m] = o
        if arcs[h, m]:
            o = m
    o = -1
    for m in range(1, h):
        near[1, h, m] = o
        if arcs[h, m]:
            o = m


@compiled
def fill_gains(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    first: int,
    last: int,
    arcs: np.ndarray,
    scratch: GainScratch,
) -> None:
    """Fill gains[m, h] for the heads h = first..last and all words m, under arcs[h, m] of a graph.

    gains[h, h] = -inf.
    """
    gains, near, rows = scratch.gains, scratch.near, scratch.rows
    zero = gains.dtype.type(0)
    for h in range(first, last + 1):
        _fill_neighbours(n, h, arcs, near)
    fill_sibling_rows(siblings, n, first, last, near, rows)
    for h in range(first, last + 1):
        for m in range(1, n + 1):
            if m == h:
                gains[h, h] = -np.inf
                continue
            s, o = near[0, h, m], near[1, h, m]
            end = siblings.ends[h, s] if s != h else zero
            if arcs[h, m]:
                gain = -arc_scores[h, m] - rows[0, h, m]
                if o >= 0:
                    gain += sibling_score(siblings, h, o, s) - rows[1, h, m]
                else:
                    gain += end - siblings.ends[h, m]
            else:
                gain = arc_scores[h, m] + rows[0, h, m]
                if o >= 0:
                    gain += rows[1, h, m] - rows[0, h, o]
                else:
                    gain += siblings.ends[h, m] - end
            gains[m, h] = gain
