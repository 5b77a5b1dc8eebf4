"""Halves of spans whose head's head is known, as third-order searches share them.

`right` holds C_R and `left` C_L: for every arc (g, h) a row over ends e, the best half of h that
reaches to e while g is the head of h; A rows of n + 1 numbers one after another, and room for a
vector. `outer` holds I + end: for every arc (h, m) a row over the candidates for the head of h, the
best item of that arc when m is the outermost modifier; row_size, whole vectors, apart, in the order
of `arcs_by_head`.

A head of h that stands between h and e is computed like any other, and never used: such a row is
read only where the span stops short of that head.
"""

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.lanes import VECTOR_BYTES, whole_vectors
from gpuparse.inference.kernels.cpu.row_maxima import best_row, largest_sum


@compiled
def arcs_by_head(number: np.ndarray, side: np.ndarray, beyond: np.ndarray, n: int) -> np.ndarray:
    """The arcs to the right by head, the nearest modifier first, then those to the left; (A,).

    Those of a head h begin at side[0, h], and at side[0, n + 1] + side[1, h].
    """
    arcs = np.zeros(beyond.shape[1], np.int64)
    for d in range(2):
        offset = d * side[0, n + 1]
        for h in range(n + 1):
            for k in range(side[d, h], side[d, h + 1]):
                arcs[offset + k] = number[h, beyond[d, k]]
    return arcs


@compiled
def size_of_rows(first: np.ndarray, n: int, itemsize: int) -> int:
    """Whole vectors for the largest number of candidates for the head of one node."""
    most = 1
    for h in range(1, n + 1):
        most = max(most, first[h + 1] - first[h])
    return whole_vectors(most, itemsize)


@compiled
def new_halves(modifier: np.ndarray, n: int, like: np.ndarray) -> np.ndarray:
    """Rows of all arcs with the halves of single words, in the type of `like`; the rest is void."""
    halves = np.empty(len(modifier) * (n + 1) + VECTOR_BYTES // like.itemsize, like.dtype)
    for a in range(len(modifier)):
        halves[a * (n + 1) + modifier[a]] = 0
    return halves


@compiled
def new_outer(n_arcs: int, row_size: int, n: int, like: np.ndarray) -> np.ndarray:
    """Room for `outer`, and beyond it to spare; in the type of `like`."""
    return np.empty((n_arcs + 1) * row_size + n + 1, like.dtype)


@inlined
def best_between(
    right: np.ndarray, left: np.ndarray, i: int, arc_of_i: int, j: int, arc_of_j: int, n: int
) -> float:
    """S(i,j) = max_{i<=r<j} C_R(i,r) + C_L(r+1,j), both heads being modifiers of one word."""
    of_i, of_j = arc_of_i * (n + 1) + i, arc_of_j * (n + 1) + i + 1
    return largest_sum(right, of_i, left, of_j, j - i)


@inlined
def first_split(
    right: np.ndarray, left: np.ndarray, i: int, arc_of_i: int, j: int, arc_of_j: int, n: int
) -> int:
    """The smallest best r of `best_between`."""
    best, split = right.dtype.type(-np.inf), i
    of_i, of_j = arc_of_i * (n + 1), arc_of_j * (n + 1) + 1
    for r in range(i, j):
        value = right[np.uint64(of_i + r)] + left[np.uint64(of_j + r)]
        if value > best:
            best, split = value, r
    return split


# These take pointers: arrays are counted wherever they are handed on.


@inlined
def _fill_halves(
    h: int,
    e: int,
    place: int,
    count: int,
    n: int,
    arcs: np.ndarray,
    first: np.ndarray,
    halves: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    lanes: int,
    spare: int,
) -> None:
    """C(h,e) = max_m (I(h,m) + end(h,m)) + C(m,e) with every head of h, by the arcs into h.

    Args: place: of the first arc of h on that side; count: how many modifiers of h stand no further
    than e; spare: where in `outer` there is room for a row and a number of each word.
    """
    of_modifiers = spare + row_size
    for t in range(count):
        outer[of_modifiers + t] = halves[arcs[place + t] * (n + 1) + e]
    width = first[h + 1] - first[h]
    for q in range(0, width, lanes):
        row = place * row_size + q
        best_row(outer, of_modifiers, outer, row, row_size, count, outer, spare + q)
    cell = first[h] * (n + 1) + e
    for q in range(width):
        halves[cell] = outer[spare + q]
        cell += n + 1


@compiled
def fill_right_halves(
    i: int,
    n: int,
    arcs: np.ndarray,
    modifier: np.ndarray,
    first: np.ndarray,
    side: np.ndarray,
    right: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    lanes: int,
    spare: int,
) -> None:
    """All right halves of i; of the root only the one of the whole sentence.

    Args: pointers; lanes: of a vector; side: its two rows; the rest as `_fill_halves`.
    """
    place, stop, count = side[i], side[i + 1], 0
    for e in range(i + 1 if i > 0 else n, n + 1):
        while place + count < stop and modifier[arcs[place + count]] <= e:
            count += 1
        _fill_halves(i, e, place, count, n, arcs, first, right, outer, row_size, lanes, spare)


@compiled
def fill_left_halves(
    i: int,
    n: int,
    arcs: np.ndarray,
    modifier: np.ndarray,
    first: np.ndarray,
    side: np.ndarray,
    left: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    lanes: int,
    spare: int,
) -> None:
    """All left halves that end in i; arguments as `fill_right_halves`."""
    to_left, n_right = n + 2, side[n + 1]
    for h in range(i + 1, n + 1):
        place = n_right + side[to_left + h]
        count = side[to_left + h + 1] - side[to_left + h]
        while count > 0 and modifier[arcs[place + count - 1]] < i:
            count -= 1
        _fill_halves(h, i, place, count, n, arcs, first, left, outer, row_size, lanes, spare)


@compiled
def outermost_modifier(
    a: int,
    e: int,
    n: int,
    arcs: np.ndarray,
    modifier: np.ndarray,
    first: np.ndarray,
    side: np.ndarray,
    halves: np.ndarray,
    outer: np.ndarray,
    row_size: int,
) -> int:
    """The smallest best m of C(h,e) under the arc a = (g, h): the rank of its arc."""
    h = modifier[a]
    d = 0 if h < e else 1
    place, count = d * side[0, n + 1] + side[d, h], side[d, h + 1] - side[d, h]
    best, chosen = halves.dtype.type(-np.inf), 0
    for k in range(count):
        t = k if d == 0 else count - 1 - k
        b = arcs[place + t]
        if (modifier[b] > e) if d == 0 else (modifier[b] < e):
            continue
        value = outer[(place + t) * row_size + a - first[h]] + halves[b * (n + 1) + e]
        if value > best:
            best, chosen = value, t
    return chosen


@inlined
def push(stack: np.ndarray, depth: int, a: int, e: int) -> int:
    """Note the half under the arc a that reaches to e; the new depth."""
    stack[depth, 0], stack[depth, 1] = a, e
    return depth + 1


@inlined
def push_between(
    stack: np.ndarray,
    depth: int,
    right: np.ndarray,
    left: np.ndarray,
    modifier: np.ndarray,
    b: int,
    c: int,
    n: int,
) -> int:
    """Note the two halves between the modifiers of the arcs b and c; the new depth."""
    i, j = (b, c) if modifier[b] < modifier[c] else (c, b)
    r = first_split(right, left, modifier[i], i, modifier[j], j, n)
    return push(stack, push(stack, depth, i, r), j, r + 1)
