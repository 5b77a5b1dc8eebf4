"""The arcs that a search over larger parts may use, and where the scores of their parts stand.

Parts of three and four words are many, and most of them hold an arc that no good tree has. So the
searches read them from blocks, one for each arc that is left: without pruning these are all arcs,
with it a few for each word. Everything here is of one sentence.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled

ALL_ARCS = np.zeros((0, 0), np.bool_)  # for `allowed_arcs`: nothing is pruned


class Candidates(NamedTuple):
    """Arcs h -> m of a sentence of n words, numbered by modifier, then by head, ascending.

    Arc 0 is no arc: it stands for the head of the root, which has none, so that every node has at
    least one candidate for a head. N = n + 1, A arcs with it.

    number: int32 (N, N), [h, m], the number of the arc, -1 for what is no candidate.
    head, modifier: int32 (A,).
    first: int32 (N + 1,): the arcs into m are first[m] .. first[m + 1] - 1; the q-th of them, from
    0, has the q-th head of m.
    side: int32 (2, N + 1): the modifiers of h to the right are beyond[0, side[0, h] : side[0, h +
    1]], those to the left beyond[1, side[1, h] : side[1, h + 1]].
    beyond: int32 (2, A): modifiers, the nearest of each head first.
    rank: int32 (A,): how many candidates of the same head and side stand inside the modifier of an
    arc: its place in `beyond`, counted from where its head's begin. Its possible inner siblings
    have the ranks 0 .. rank - 1.
    """

    number: np.ndarray
    head: np.ndarray
    modifier: np.ndarray
    first: np.ndarray
    side: np.ndarray
    beyond: np.ndarray
    rank: np.ndarray


@compiled
def allowed_arcs(scores: np.ndarray, left: np.ndarray, n: int) -> np.ndarray:
    """bool (N, N): the arcs that are left and not forbidden by a score of -inf.

    Args: scores (>= N, >= N); left: bool (N, N), or (0, 0): all arcs.
    """
    allowed = np.zeros((n + 1, n + 1), np.bool_)
    for h in range(n + 1):
        for m in range(1, n + 1):
            is_left = len(left) == 0 or left[h, m]
            allowed[h, m] = h != m and is_left and scores[h, m] > -np.inf
    return allowed


@compiled
def find_candidates(allowed: np.ndarray, n: int) -> Candidates:
    """The candidates of a sentence of n words.

    Args: allowed: bool (>= N, >= N), [h, m]; column 0 and the diagonal are not looked at.
    Cost: O(n^2).
    """
    n_arcs = 1
    for h in range(n + 1):
        for m in range(1, n + 1):
            n_arcs += h != m and allowed[h, m]
    number = np.full((n + 1, n + 1), -1, np.int32)
    head, modifier = np.zeros(n_arcs, np.int32), np.zeros(n_arcs, np.int32)
    first = np.ones(n + 2, np.int32)
    first[0] = 0
    a = 1
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != m and allowed[h, m]:
                number[h, m], head[a], modifier[a] = a, h, m
                a += 1
        first[m + 1] = a
    side, beyond = np.zeros((2, n + 2), np.int32), np.zeros((2, n_arcs), np.int32)
    rank = np.zeros(n_arcs, np.int32)
    right = left = 0
    for h in range(n + 1):
        for m in range(h + 1, n + 1):
            if number[h, m] >= 0:
                beyond[0, right] = m
                rank[number[h, m]] = right - side[0, h]
                right += 1
        for m in range(h - 1, 0, -1):
            if number[h, m] >= 0:
                beyond[1, left] = m
                rank[number[h, m]] = left - side[1, h]
                left += 1
        side[0, h + 1], side[1, h + 1] = right, left
    return Candidates(number, head, modifier, first, side, beyond, rank)


@compiled
def grand_sibling_blocks(head: np.ndarray, first: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Where the block of each arc begins in an array of grand-sibling parts; int64 (A + 1,).

    The block of the arc h -> m is (rank + 1, heads of h), C order: row 0 is for no inner sibling,
    row j for the one of rank j - 1; column q for the q-th head of h. That of arc 0 is empty; the
    last number is the size of the array.
    """
    start = np.zeros(len(head) + 1, np.int64)
    for a in range(1, len(head)):
        h = head[a]
        start[a + 1] = start[a] + (np.int64(rank[a]) + 1) * (first[h + 1] - first[h])
    return start


@compiled
def tri_sibling_blocks(rank: np.ndarray) -> np.ndarray:
    """Where the block of each arc begins in an array of tri-sibling parts; int64 (A + 1,).

    The block of an arc has 1 number for no inner sibling, then for the inner sibling of each rank
    r = 0, 1, ... the r + 1 numbers: no sibling inside that one, or the one of rank 0 .. r - 1. So
    the sibling of rank r begins at 1 + r (r + 1) / 2.
    """
    start = np.zeros(len(rank) + 1, np.int64)
    for a in range(1, len(rank)):
        start[a + 1] = start[a] + 1 + np.int64(rank[a]) * (rank[a] + 1) // 2
    return start


@compiled
def sibling_blocks(rank: np.ndarray) -> np.ndarray:
    """Where the block of each arc begins in an array of sibling parts; int64 (A + 1,).

    The block of an arc is (rank + 1,): for no inner sibling, then for the one of rank 0, 1, ...
    That of arc 0 is empty.
    """
    start = np.zeros(len(rank) + 1, np.int64)
    for a in range(1, len(rank)):
        start[a + 1] = start[a] + np.int64(rank[a]) + 1
    return start
