"""The best derivations of the items of a chart, found one by one; for the k best trees.

A derivation of an item is a split r and a rank for each of the two parts: (value, r, a, b). An item
keeps its best known ones sorted, the highest value first and among equals the smallest (r, a, b).
The first of them are final: one more is with every `next one` that was asked for. So no heap is
needed, and no more than are still to be asked for are kept.

Of a derivation (r, a, b) the next ones are (r, a, b + 1) and, only if b = 0, (r, a + 1, 0): so each
is met once. None comes before it in the order, for sums of floats never fall when a part rises.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuparse.compiled import inlined
from gpuparse.inference.kernels.cpu.lanes import pointer_to

RANK_BITS = 20
MAX_RANK = (1 << RANK_BITS) - 1
"""The highest rank, and the most derivations, that a place has room for."""
ONE_RIGHT = 1
ONE_LEFT = 1 << RANK_BITS

# Fields of an item on the agenda.
KIND, START, END, RANK, ASKS, N_FIELDS = range(6)

Pointer = Any
"""What `pointer_to` gives."""


class Derivations(NamedTuple):
    """The lists of all items that have one, each of k cells from `list * k` on.

    values: without what its item adds to every derivation. places: (r, a, b) in one number.
    lengths, asked: of each list, derivations that it holds and those that were asked for.
    list_of: of each item, its list or -1.
    agenda: for each item of a tree kind, i, j, rank, whether the next one is asked for.
    """

    values: np.ndarray
    places: np.ndarray
    lengths: np.ndarray
    asked: np.ndarray
    list_of: np.ndarray
    agenda: np.ndarray


def make_derivations(n: int, k: int, dtype: Any, n_items: int, cells: int) -> Derivations:
    """Lists for up to n words and k trees, of a chart with so many items in so many cells.

    Only items of the best trees get a list, and a tree has two of more than one position for every
    word at most, and the root.
    """
    of_tree = 2 * n + 1
    lists = min(k * of_tree, n_items)
    return Derivations(
        np.empty(lists * k, dtype),
        np.empty(lists * k, np.int64),
        np.empty(lists, np.int64),
        np.empty(lists, np.int64),
        np.empty(cells, np.int32),
        np.empty(of_tree * N_FIELDS, np.int64),
    )


@inlined
def pointers_to(derivations: Derivations) -> tuple[Pointer, ...]:
    """The arrays as pointers."""
    return (
        pointer_to(derivations.values), pointer_to(derivations.places),
        pointer_to(derivations.lengths), pointer_to(derivations.asked),
        pointer_to(derivations.list_of), pointer_to(derivations.agenda),
    )  # fmt: skip


@inlined
def enter(agenda: Pointer, size: int, kind: int, i: int, j: int, rank: int, asks: int) -> int:
    """Put an item on the agenda; returns how many are there."""
    at = size * N_FIELDS
    agenda[at + KIND], agenda[at + START], agenda[at + END] = kind, i, j
    agenda[at + RANK], agenda[at + ASKS] = rank, asks
    return size + 1


@inlined
def place_of(r: int, a: int, b: int) -> int:
    """Split and ranks in one number that orders as they do."""
    return (r << (2 * RANK_BITS)) | (a << RANK_BITS) | b


@inlined
def parts_of_place(place: int) -> tuple[int, int, int]:
    """The split and the two ranks."""
    return place >> (2 * RANK_BITS), (place >> RANK_BITS) & MAX_RANK, place & MAX_RANK


@inlined
def insert(
    values: Pointer, places: Pointer, start: int, length: int, room: int, value: float, place: int
) -> int:
    """Put a derivation in its place in the list from `start` on; return how many the list holds.

    If it would hold more than `room` and more than before, the last one is left out.
    """
    end = start + length
    if length >= room:
        last = values[end - 1]
        if last > value or (last == value and places[end - 1] < place):
            return length
        end -= 1
        length -= 1
    while end > start:
        before = values[end - 1]
        if before > value or (before == value and places[end - 1] < place):
            break
        values[end], places[end] = before, places[end - 1]
        end -= 1
    values[end], places[end] = value, place
    return length + 1
