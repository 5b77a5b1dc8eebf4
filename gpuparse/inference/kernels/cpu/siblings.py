"""Where compiled second-order search reads sibling scores from: dense, or a sum of tables' cells.

A sibling source is one of the two tuples below. Searches are compiled for the one that they are
called with, and only the functions of this file tell the two apart.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from gpuparse.compiled import inlined


class DenseSiblings(NamedTuple):
    """A number for each part: scores (N, N, N), [h, m, s], s == h where there is no sibling."""

    scores: np.ndarray


class FactoredSiblings(NamedTuple):
    """Parts of one and two words as matrices, parts of three as a sum of cells of one table.

    score(h, m, s) = pair[s, m] + sum over looks p of table[cell], where
    cell = places[0, p, h] + places[1, p, s] + places[2, p, m] + gaps[p, m - s + middle].

    first: (N, N), [h, m], the whole score of a modifier without an inner sibling.
    pair: (N, N), [s, m], s on either side of m.
    table: (R,), numbers of any type.
    places: int64 (3, P, N); gaps: int64 (P, 2 * middle + 1) for every difference of positions.
    `first` and `pair` have one type. What stands in cells of no part does not matter.
    """

    first: np.ndarray
    pair: np.ndarray
    table: np.ndarray
    places: np.ndarray
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

    def add_up(siblings, h, m, s):  # type: ignore[no-untyped-def]
        if s == h:
            return siblings.first[h, m]
        three = look_up(siblings.first, siblings.table, siblings.places, siblings.gaps, h, m, s)
        return siblings.pair[s, m] + three

    return add_up


@inlined
def look_up(
    scores: np.ndarray,
    table: np.ndarray,
    places: np.ndarray,
    gaps: np.ndarray,
    h: int,
    m: int,
    s: int,
) -> float:
    """The part of three words of factored scores, in the type of `scores`."""
    total = scores.dtype.type(0)
    of_gap = gaps.shape[1] // 2 + m - s
    for p in range(len(gaps)):
        total += table[places[0, p, h] + places[1, p, s] + places[2, p, m] + gaps[p, of_gap]]
    return total


def part_of_three(siblings: Siblings, h: int, m: int, s: int) -> float:
    """The score with an inner sibling s, less the part of the pair (s, m)."""
    raise TypeError("only compiled code can call this")


@overload(part_of_three)
def _part_of_three(siblings, h, m, s):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):
        return lambda siblings, h, m, s: siblings.scores[h, m, s]
    return lambda siblings, h, m, s: look_up(
        siblings.first, siblings.table, siblings.places, siblings.gaps, h, m, s
    )


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

    def gather(siblings, i, n, stride, rows):  # type: ignore[no-untyped-def]
        table, places, gaps = siblings.table, siblings.places, siblings.gaps
        middle = gaps.shape[1] // 2
        for k in range(i + 1, n):
            right_row = rows[k * stride : (k + 1) * stride]
            left_row = rows[(n + 1 + k) * stride : (n + 2 + k) * stride]
            for p in range(len(gaps)):
                as_head, as_modifier, gap = places[0, p], places[2, p], gaps[p, middle - k :]
                right = places[0, p, i] + places[1, p, k]
                left = places[1, p, k] + places[2, p, i] + gaps[p, middle + i - k]
                if p == 0:
                    for j in range(k + 1, n + 1):
                        at = np.uint64(j)
                        right_row[at] = table[np.uint64(right + as_modifier[at] + gap[at])]
                        left_row[at] = table[np.uint64(left + as_head[at])]
                else:
                    for j in range(k + 1, n + 1):
                        at = np.uint64(j)
                        right_row[at] += table[np.uint64(right + as_modifier[at] + gap[at])]
                        left_row[at] += table[np.uint64(left + as_head[at])]

    return gather
