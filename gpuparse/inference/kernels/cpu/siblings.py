"""Where compiled second-order search reads sibling scores from: dense, or a sum of tables' cells.

A sibling source is one of the two tuples below. Searches are compiled for the one that they are
called with, and only the functions of this file tell the two apart.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from gpuparse.compiled import compiled


class DenseSiblings(NamedTuple):
    """A number for each part: scores (N, N, N), [h, m, s], s == h where there is no sibling.

    ends: (N, N), [h, s], the score of s being the outermost modifier of h on its side.
    """

    scores: np.ndarray
    ends: np.ndarray


class FactoredSiblings(NamedTuple):
    """Parts of one and two words as matrices, parts of three as a sum of cells of one table.

    score(h, m, s) = pair[s, m] + sum over looks p of table[cell], where, ^ being XOR, & AND,
    cell = firsts[p] + (place & mask[0, p, h] & mask[1, p, s] & mask[2, p, m]) and
    place = places[0, p, h] ^ places[1, p, s] ^ places[2, p, m] ^ gaps[p, m - s + middle].

    first: (N, N), [h, m], the whole score of a modifier without an inner sibling.
    pair: (N, N), [s, m], s on either side of m.
    table: (R,), numbers of any type. firsts: int64 (P,).
    places: int64 (3, P, N). masks: int64 (3, P, N), -1 or 0: a word that has no value for a look
    leads to its first cell, which is 0. gaps: int64 (P, 2 * middle + 1), for every difference of
    positions.
    ends: (N, N), as of DenseSiblings.
    `first`, `pair` and `ends` have one type. What stands in cells of no part does not matter.
    """

    first: np.ndarray
    pair: np.ndarray
    ends: np.ndarray
    table: np.ndarray
    firsts: np.ndarray
    places: np.ndarray
    masks: np.ndarray
    gaps: np.ndarray


Siblings = DenseSiblings | FactoredSiblings


def _is_dense(siblings: Any) -> bool:
    """While compiling: which of the two this type is."""
    return siblings.instance_class is DenseSiblings


def sibling_score(siblings: Siblings, h: int, m: int, s: int) -> float:
    """Score of the modifier m of h with the inner sibling s, or without one (s == h)."""
    raise TypeError("only compiled code can call this")


@overload(sibling_score)
def _sibling_score(siblings, h, m, s):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):
        return lambda siblings, h, m, s: siblings.scores[h, m, s]

    return lambda siblings, h, m, s: (
        siblings.first[h, m] if s == h else siblings.pair[s, m] + part_of_three(siblings, h, m, s)
    )


def part_of_three(siblings: Siblings, h: int, m: int, s: int) -> float:
    """The score with an inner sibling s, less the part of the pair (s, m)."""
    raise TypeError("only compiled code can call this")


@overload(part_of_three)
def _part_of_three(siblings, h, m, s):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):
        return lambda siblings, h, m, s: siblings.scores[h, m, s]

    def look_up(siblings, h, m, s):  # type: ignore[no-untyped-def]
        total = siblings.first.dtype.type(0)
        places, masks, gaps = siblings.places, siblings.masks, siblings.gaps
        of_gap = gaps.shape[1] // 2 + m - s
        for p in range(len(gaps)):
            place = places[0, p, h] ^ places[1, p, s] ^ places[2, p, m] ^ gaps[p, of_gap]
            place &= masks[0, p, h] & masks[1, p, s] & masks[2, p, m]
            total += siblings.table[np.uint64(siblings.firsts[p] + place)]
        return total

    return look_up


def fill_parts_of_three(
    siblings: Siblings, h: int, m: int, first: int, last: int, row: np.ndarray
) -> None:
    """Write `part_of_three` of h, m and every sibling s = first..last to row[s]."""
    raise TypeError("only compiled code can call this")


@overload(fill_parts_of_three)
def _fill_parts_of_three(siblings, h, m, first, last, row):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):

        def copy(siblings, h, m, first, last, row):  # type: ignore[no-untyped-def]
            scores = siblings.scores
            for s in range(first, last + 1):
                row[np.uint64(s)] = scores[h, m, s]

        return copy

    def gather(siblings, h, m, first, last, row):  # type: ignore[no-untyped-def]
        places, masks, gaps, table = siblings.places, siblings.masks, siblings.gaps, siblings.table
        of_gap = gaps.shape[1] // 2 + m
        for s in range(first, last + 1):
            row[np.uint64(s)] = 0
        for p in range(len(gaps)):
            if masks[0, p, h] & masks[2, p, m] == 0:
                continue
            fixed, cell = places[0, p, h] ^ places[2, p, m], siblings.firsts[p]
            for s in range(first, last + 1):
                place = (fixed ^ places[1, p, s] ^ gaps[p, of_gap - s]) & masks[1, p, s]
                row[np.uint64(s)] += table[np.uint64(cell + place)]

    return gather


def part_of_pair(siblings: Siblings, m: int, s: int) -> float:
    """The part of the modifier m and its inner sibling s, whatever their head."""
    raise TypeError("only compiled code can call this")


@overload(part_of_pair)
def _part_of_pair(siblings, m, s):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):
        return lambda siblings, m, s: siblings.scores.dtype.type(0)
    return lambda siblings, m, s: siblings.pair[s, m]


def fill_sibling_rows(
    siblings: Siblings, n: int, first: int, last: int, near: np.ndarray, rows: np.ndarray
) -> None:
    """For the heads h = first..last and every word m, two scores with what stands next to m.

    Args: near: (2, N, N): near[0, h, m], the inner sibling that m has or would have as a modifier
    of h, h for none; near[1, h, m], the modifier beyond, -1 for none. rows: (2, N, N) floats, to
    fill: the score of m at [0, h, m], that of the modifier beyond, its sibling m, at [1, h, m].
    """
    raise TypeError("only compiled code can call this")


@overload(fill_sibling_rows)
def _fill_sibling_rows(siblings, n, first, last, near, rows):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):

        def copy(siblings, n, first, last, near, rows):  # type: ignore[no-untyped-def]
            for h in range(first, last + 1):
                for m in range(1, n + 1):
                    if m != h:
                        rows[0, h, m] = siblings.scores[h, m, near[0, h, m]]
                        if near[1, h, m] >= 0:
                            rows[1, h, m] = siblings.scores[h, near[1, h, m], m]

        return copy

    def gather(siblings, n, first, last, near, rows):  # type: ignore[no-untyped-def]
        places, masks, gaps, table = siblings.places, siblings.masks, siblings.gaps, siblings.table
        middle = gaps.shape[1] // 2
        for h in range(first, last + 1):
            for m in range(1, n + 1):
                rows[0, h, m] = 0
                rows[1, h, m] = 0
            for p in range(len(gaps)):
                if masks[0, p, h] == 0:
                    continue
                of_head, cell = places[0, p, h], siblings.firsts[p]
                for m in range(1, n + 1):
                    s, o = near[0, h, m], near[1, h, m]
                    if m != h and s != h:
                        place = places[1, p, s] ^ places[2, p, m] ^ gaps[p, middle + m - s]
                        place = (of_head ^ place) & masks[1, p, s] & masks[2, p, m]
                        rows[0, h, m] += table[np.uint64(cell + place)]
                    if m != h and o >= 0:
                        place = places[1, p, m] ^ places[2, p, o] ^ gaps[p, middle + o - m]
                        place = (of_head ^ place) & masks[1, p, m] & masks[2, p, o]
                        rows[1, h, m] += table[np.uint64(cell + place)]
            for m in range(1, n + 1):
                s, o = near[0, h, m], near[1, h, m]
                if m != h and s != h:
                    rows[0, h, m] = siblings.pair[s, m] + rows[0, h, m]
                elif m != h:
                    rows[0, h, m] = siblings.first[h, m]
                if m != h and o >= 0:
                    rows[1, h, m] = siblings.pair[m, o] + rows[1, h, m]

    return gather


def copy_parts_of_two(
    siblings: Siblings,
    n: int,
    stride: int,
    first_right: np.ndarray,
    first_left: np.ndarray,
    pair_right: np.ndarray,
    pair_left: np.ndarray,
) -> None:
    """Write the parts of i < j to [i * stride + j].

    first_right: of the modifier j of i, first_left: of the modifier i of j, without siblings.
    pair_right: of the modifier j and its sibling i, pair_left: of the modifier i and its sibling j.
    """
    raise TypeError("only compiled code can call this")


@overload(copy_parts_of_two)
def _copy_parts_of_two(siblings, n, stride, first_right, first_left, pair_right, pair_left):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):

        def copy_dense(siblings, n, stride, first_right, first_left, pair_right, pair_left):  # type: ignore[no-untyped-def]
            for i in range(n + 1):
                for j in range(i + 1, n + 1):
                    at = np.uint64(i * stride + j)
                    first_right[at] = siblings.scores[i, j, i]
                    first_left[at] = siblings.scores[j, i, j]
                    pair_right[at] = 0
                    pair_left[at] = 0

        return copy_dense

    def copy_factored(siblings, n, stride, first_right, first_left, pair_right, pair_left):  # type: ignore[no-untyped-def]
        for i in range(n + 1):
            first, pair = siblings.first[i], siblings.pair[i]
            to_right, of_right = first_right[i * stride :], pair_right[i * stride :]
            for j in range(i + 1, n + 1):
                to_right[np.uint64(j)] = first[np.uint64(j)]
                of_right[np.uint64(j)] = pair[np.uint64(j)]
            to_left, of_left = first_left[i:], pair_left[i:]
            for j in range(i):
                to_left[np.uint64(j * stride)] = first[np.uint64(j)]
                of_left[np.uint64(j * stride)] = pair[np.uint64(j)]

    return copy_factored


@compiled
def copy_ends(
    siblings: Siblings, n: int, stride: int, to_right: np.ndarray, to_left: np.ndarray
) -> None:
    """Write the ends of i < j to [i * stride + j]: to_right of j under i, to_left of i under j."""
    for i in range(n + 1):
        row, left = siblings.ends[i], to_left[i:]
        right = to_right[i * stride :]
        for j in range(i + 1, n + 1):
            right[np.uint64(j)] = row[np.uint64(j)]
        for j in range(1, i):
            left[np.uint64(j * stride)] = row[np.uint64(j)]


ROWS = 2
"""Rows for `spread_parts_of_three`, times n + 1."""


def spread_parts_of_three(
    siblings: Siblings, i: int, n: int, stride: int, rows: np.ndarray
) -> None:
    """Write the parts of i < k < j into rows over j.

    Args: rows: `ROWS` * (n + 1) * stride elements: the part of the modifier j of i with the
    sibling k goes to [k * stride + j], that of the modifier i of j with the sibling k to
    [(n + 1 + k) * stride + j].
    """
    raise TypeError("only compiled code can call this")


@overload(spread_parts_of_three)
def _spread_parts_of_three(siblings, i, n, stride, rows):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):

        def turn(siblings, i, n, stride, rows):  # type: ignore[no-untyped-def]
            left = (n + 1) * stride
            for j in range(i + 2, n + 1):
                to_right, to_left = siblings.scores[i, j], siblings.scores[j, i]
                right_column, left_column = rows[j:], rows[left + j :]
                for k in range(i + 1, j):
                    right_column[np.uint64(k * stride)] = to_right[np.uint64(k)]
                    left_column[np.uint64(k * stride)] = to_left[np.uint64(k)]

        return turn

    # No slices of arrays in the loops: each costs as much as several cells.
    def gather(siblings, i, n, stride, rows):  # type: ignore[no-untyped-def]
        places, masks, gaps, table = siblings.places, siblings.masks, siblings.gaps, siblings.table
        middle, head, sibling, modifier = (
            gaps.shape[1] // 2,
            np.uint64(0),
            np.uint64(1),
            np.uint64(2),
        )
        start = np.uint64(i)
        for k in range(i + 1, n):
            right, left, inner = k * stride, (n + 1 + k) * stride, np.uint64(k)
            for j in range(k + 1, n + 1):
                rows[np.uint64(right + j)] = 0
                rows[np.uint64(left + j)] = 0
            for look in range(len(gaps)):
                p = np.uint64(look)
                first, of_inner = siblings.firsts[p], places[sibling, p, inner]
                if masks[sibling, p, inner] == 0:
                    continue
                if masks[head, p, start] != 0:
                    fixed = places[head, p, start] ^ of_inner
                    for j in range(k + 1, n + 1):
                        at, gap = np.uint64(j), gaps[p, np.uint64(middle - k + j)]
                        place = (fixed ^ places[modifier, p, at] ^ gap) & masks[modifier, p, at]
                        rows[np.uint64(right + j)] += table[np.uint64(first + place)]
                if masks[modifier, p, start] != 0:
                    fixed = of_inner ^ places[modifier, p, start]
                    fixed ^= gaps[p, np.uint64(middle + i - k)]
                    for j in range(k + 1, n + 1):
                        at = np.uint64(j)
                        place = (fixed ^ places[head, p, at]) & masks[head, p, at]
                        rows[np.uint64(left + j)] += table[np.uint64(first + place)]

    return gather
