"""What one arc more or less does to the score of a graph with sibling parts.

Only the chain of modifiers of that head, on that side, is different afterwards: where m comes
between s and o, the part (h, s, o) gives way to (h, s, m) and (h, m, o). So the gains of all arcs
of one head are found in one walk over the words, O(n).
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.siblings import Siblings, end_score, sibling_score


class GainScratch(NamedTuple):
    """Working memory of searches by single changes; contents do not matter.

    gains: (N, N), [m, h]: what the arc h -> m adds to the score if it is not there, what its
    removal adds if it is. arcs: bool (N, N), [h, m]. stack, seen: int64 (N,).
    """

    gains: np.ndarray
    arcs: np.ndarray
    stack: np.ndarray
    seen: np.ndarray


def make_gain_scratch(
    n: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> GainScratch:
    """Working memory for scores of this type and sentences of up to n words."""
    shape = (n + 1, n + 1)
    ints = np.empty((2, n + 1), np.int64)
    return GainScratch(np.empty(shape, dtype), np.empty(shape, np.bool_), ints[0], ints[1])


@inlined
def _next_modifier(of_h: np.ndarray, m: int, n: int, step: int) -> int:
    """The first modifier from m on, outwards; a position without a word if there is none."""
    while 1 <= m <= n and not of_h[m]:
        m += step
    return m


@compiled
def fill_gains(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    h: int,
    arcs: np.ndarray,
    gains: np.ndarray,
) -> None:
    """Fill gains[m, h] for all words m (-inf for h itself), under arcs[h, m] of a graph."""
    of_h = arcs[h]
    gains[h, h] = -np.inf
    for step in (1, -1):
        s, m = h, h + step
        o = _next_modifier(of_h, m, n, step)
        while 1 <= m <= n:
            has_outer = 1 <= o <= n
            part = sibling_score(siblings, h, o, s) if has_outer else gains.dtype.type(0)
            end = end_score(siblings, h, s) if s != h else gains.dtype.type(0)
            while m != o and 1 <= m <= n:
                gain = arc_scores[h, m] + sibling_score(siblings, h, m, s)
                if has_outer:
                    gain += sibling_score(siblings, h, o, m) - part
                else:
                    gain += end_score(siblings, h, m) - end
                gains[m, h] = gain
                m += step
            if not has_outer:
                break
            outer = _next_modifier(of_h, o + step, n, step)
            gain = -arc_scores[h, o] - part
            if 1 <= outer <= n:
                gain += sibling_score(siblings, h, outer, s) - sibling_score(siblings, h, outer, o)
            else:
                gain += end - end_score(siblings, h, o)
            gains[o, h] = gain
            s, m, o = o, o + step, outer
