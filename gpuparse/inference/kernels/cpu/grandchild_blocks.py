"""Where the scores of grandchild parts stand: a block for each candidate arc, with all its labels.

The arc a = h -> m has L labels, numbered label_first[a] .. label_first[a + 1] - 1. It has three
blocks, each of rows of L numbers:

- sibling: row 0 without an inner sibling, row j with the candidate of rank j - 1 of h on that side,
  up to the last one inside m. The score of the arc itself is in all of them.
- inner: row 0 where m has no modifier between h and m, row j where its furthest one there is its
  j-th nearest candidate on that side.
- outer: the same for all candidates of m on the side away from h.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.candidates import Candidates


class GrandchildBlocks(NamedTuple):
    """The scores of the parts of a sentence, and where the blocks of each arc begin.

    label_first: int64 (A + 1,). sibling, inner, outer: float, of one type; their starts: int64
    (A + 1,), as `grandchild_blocks` gives them.
    """

    label_first: np.ndarray
    sibling: np.ndarray
    sibling_start: np.ndarray
    inner: np.ndarray
    inner_start: np.ndarray
    outer: np.ndarray
    outer_start: np.ndarray


@compiled
def grandchild_blocks(
    candidates: Candidates, label_first: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the sibling, inner and outer block of each arc begins; int64 (A + 1,) each.

    The blocks of arc 0 are empty; the last numbers are the sizes of the arrays.
    Cost: O(n^2).
    """
    n_arcs, n = len(candidates.head), len(candidates.first) - 2
    number, side, rank = candidates.number, candidates.side, candidates.rank
    sibling = np.zeros(n_arcs + 1, np.int64)
    inner, outer = np.zeros_like(sibling), np.zeros_like(sibling)
    # First how many candidates m has between h and m, then where blocks begin.
    for m in range(1, n + 1):
        for step in (-1, 1):
            between = 0
            h = m + step
            while 0 <= h <= n:
                if number[h, m] >= 0:
                    inner[number[h, m] + 1] = between
                between += number[m, h] >= 0
                h += step
    for a in range(1, n_arcs):
        h, m = candidates.head[a], candidates.modifier[a]
        away = 0 if h < m else 1
        n_labels = np.int64(label_first[a + 1]) - np.int64(label_first[a])
        sibling[a + 1] = sibling[a] + (rank[a] + 1) * n_labels
        inner[a + 1] = inner[a] + (inner[a + 1] + 1) * n_labels
        outer[a + 1] = outer[a] + (side[away, m + 1] - side[away, m] + 1) * n_labels
    return sibling, inner, outer


@compiled
def fill_grandchild_blocks(
    candidates: Candidates,
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    inner_scores: np.ndarray,
    outer_scores: np.ndarray,
) -> GrandchildBlocks:
    """Blocks of a sentence from dense scores; every arc has all L labels.

    Args: arc_scores (M, M, L), M >= N; the others (M, M, M, L), C order, [h, m, c, l], c == h
    for no sibling, c == m for no modifier of m. Cells of parts that cannot be are not read.
    Cost: O(n^3 L).
    """
    head, modifier = candidates.head, candidates.modifier
    side, beyond = candidates.side, candidates.beyond
    n_arcs, n_labels = len(head), arc_scores.shape[2]
    label_first = np.zeros(n_arcs + 1, np.int64)
    for a in range(1, n_arcs):
        label_first[a + 1] = label_first[a] + n_labels
    sibling_start, inner_start, outer_start = grandchild_blocks(candidates, label_first)
    sibling = np.empty(sibling_start[n_arcs], arc_scores.dtype)
    inner = np.empty(inner_start[n_arcs], arc_scores.dtype)
    outer = np.empty(outer_start[n_arcs], arc_scores.dtype)
    n_nodes, right, left = len(arc_scores), beyond[0], beyond[1]
    arcs, siblings = arc_scores.reshape(-1), sibling_scores.reshape(-1)
    inners, outers = inner_scores.reshape(-1), outer_scores.reshape(-1)
    for a in range(1, n_arcs):
        h, m = head[a], modifier[a]
        arc = (h * n_nodes + m) * n_labels
        dense, is_right = arc * n_nodes, h < m
        of_h, of_m, before_m = side[0 if is_right else 1, h], side[0, m], side[1, m]
        begin, end = sibling_start[a], sibling_start[a + 1]
        _copy(siblings, dense, right if is_right else left, of_h, h, n_labels, begin, end, sibling)
        place = 0
        for k in range(begin, end):
            sibling[np.uint64(k)] = arcs[np.uint64(arc + place)] + sibling[np.uint64(k)]
            place = place + 1 if place + 1 < n_labels else 0
        begin, end = inner_start[a], inner_start[a + 1]
        first = before_m if is_right else of_m
        _copy(inners, dense, left if is_right else right, first, m, n_labels, begin, end, inner)
        begin, end = outer_start[a], outer_start[a + 1]
        first = of_m if is_right else before_m
        _copy(outers, dense, right if is_right else left, first, m, n_labels, begin, end, outer)
    return GrandchildBlocks(
        label_first, sibling, sibling_start, inner, inner_start, outer, outer_start
    )


@inlined
def _copy(
    scores: np.ndarray,
    dense: int,
    modifiers: np.ndarray,
    first: int,
    none: int,
    n_labels: int,
    begin: int,
    end: int,
    block: np.ndarray,
) -> None:
    """Fill block[begin:end] from scores[dense + c L + l], c = none, then modifiers[first], ..."""
    for label in range(n_labels):
        block[np.uint64(begin + label)] = scores[np.uint64(dense + none * n_labels + label)]
    if n_labels == 1:
        skipped = first - begin - 1
        for k in range(begin + 1, end):
            c = np.int64(modifiers[np.uint64(skipped + k)])
            block[np.uint64(k)] = scores[np.uint64(dense + c)]
        return
    for row in range(begin + n_labels, end, n_labels):
        c = dense + np.int64(modifiers[np.uint64(first)]) * n_labels
        for label in range(n_labels):
            block[np.uint64(row + label)] = scores[np.uint64(c + label)]
        first += 1
