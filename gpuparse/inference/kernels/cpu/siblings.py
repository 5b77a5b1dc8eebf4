"""Where compiled second-order search reads sibling scores from: dense, or a sum of small tables.

A sibling source is one of the two tuples below. Searches are compiled for the one that they are
called with, and only the functions of this file tell the two apart.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload


class DenseSiblings(NamedTuple):
    """A number for each part: scores (N, N, N), [h, m, s], s == h where there is no sibling."""

    scores: np.ndarray


class FactoredSiblings(NamedTuple):
    """score(h, m, s) = pair[s, m] + triple[0 if h < m else 1, classes[h], classes[s], classes[m]].

    first: (N, N), [h, m], the whole score of a modifier without an inner sibling.
    pair: (N, N), [s, m], s on either side of m.
    triple: (2, K, K, K), C order.
    classes: int (N,), the class of the root and of each word, its part of speech, say, numbered
    from 0 within the sentence: no more classes than nodes, K of them or fewer.
    The scores have one type. What stands in cells of no part does not matter.
    """

    first: np.ndarray
    pair: np.ndarray
    triple: np.ndarray
    classes: np.ndarray


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
            score = siblings.first[h, m]
        else:
            c = siblings.classes
            of_three = siblings.triple[0 if h < m else 1, c[h], c[s], c[m]]
            score = siblings.pair[s, m] + of_three
        return score

    return add_up


def part_of_three(siblings: Siblings, h: int, m: int, s: int) -> float:
    """The score with an inner sibling s, less the part of the pair (s, m)."""
    raise TypeError("only compiled code can call this")


@overload(part_of_three)
def _part_of_three(siblings, h, m, s):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):
        return lambda siblings, h, m, s: siblings.scores[h, m, s]

    def look_up(siblings, h, m, s):  # type: ignore[no-untyped-def]
        c = siblings.classes
        return siblings.triple[0 if h < m else 1, c[h], c[s], c[m]]

    return look_up


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


ROWS = 8
"""Rows for `spread_parts_of_three`, times n + 1."""


def row_offsets(siblings: Siblings, n: int, stride: int, offsets: np.ndarray) -> None:
    """Fill offsets[k], where the row of the sibling k begins among those that are spread."""
    raise TypeError("only compiled code can call this")


@overload(row_offsets)
def _row_offsets(siblings, n, stride, offsets):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):

        def one_for_each_word(siblings, n, stride, offsets):  # type: ignore[no-untyped-def]
            for k in range(n + 1):
                offsets[k] = k * stride

        return one_for_each_word

    def one_for_each_class(siblings, n, stride, offsets):  # type: ignore[no-untyped-def]
        for k in range(n + 1):
            offsets[k] = siblings.classes[k] * stride

    return one_for_each_class


def spread_parts_of_three(
    siblings: Siblings, i: int, n: int, stride: int, rows: np.ndarray, held: np.ndarray
) -> tuple[int, int]:
    """Write the parts of i < k < j into rows over j, unless they are there already.

    Args: rows: `ROWS` * (n + 1) * stride elements; held: int scratch, `ROWS` / 2 * (n + 1), -1 at
    the beginning. Both are left alone between calls for the same sentence.
    Returns: (right, left): the part of the modifier j of i with the sibling k stands at
    [right + offsets[k] + j], that of the modifier i of j with the sibling k at
    [left + offsets[k] + j].
    """
    raise TypeError("only compiled code can call this")


@overload(spread_parts_of_three)
def _spread_parts_of_three(siblings, i, n, stride, rows, held):  # type: ignore[no-untyped-def]
    if _is_dense(siblings):

        def turn(siblings, i, n, stride, rows, held):  # type: ignore[no-untyped-def]
            left = (n + 1) * stride
            for j in range(i + 2, n + 1):
                to_right, to_left = siblings.scores[i, j], siblings.scores[j, i]
                right_column, left_column = rows[j:], rows[left + j :]
                for k in range(i + 1, j):
                    right_column[np.uint64(k * stride)] = to_right[np.uint64(k)]
                    left_column[np.uint64(k * stride)] = to_left[np.uint64(k)]
            return 0, left

        return turn

    def look_up(siblings, i, n, stride, rows, held):  # type: ignore[no-untyped-def]
        # A block of rows for each class of i, one row for each class of k. With very many classes
        # the last block is filled again and again.
        classes, triple = siblings.classes, siblings.triple
        of_i, n_classes = classes[i], 0
        for k in range(n + 1):
            n_classes = max(n_classes, classes[k] + 1)
        if n_classes > n + 1:
            raise ValueError("more classes than nodes: number them within the sentence")
        block = min(of_i, ROWS * (n + 1) // (2 * n_classes) - 1)
        right = block * 2 * n_classes * stride
        left = right + n_classes * stride
        if held[block] == of_i:
            return right, left
        held[block] = of_i
        for of_k in range(n_classes):
            to_right, to_left = triple[0, of_i, of_k], triple[1, :, of_k, of_i]
            right_row, left_row = rows[right + of_k * stride :], rows[left + of_k * stride :]
            for j in range(1, n + 1):
                of_j = np.uint64(classes[np.uint64(j)])
                right_row[np.uint64(j)] = to_right[of_j]
                left_row[np.uint64(j)] = to_left[of_j]
        return right, left

    return look_up
