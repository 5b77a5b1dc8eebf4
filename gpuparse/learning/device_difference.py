"""Gold minus found features of a mini-batch as one sparse matrix, and exact steps along its rows.

Sentence after sentence, each step is computed with the weights of that moment, without moving them:
with the differences D (B, rows), what a step along one sentence adds to the margin of another is
in D D^T, so the margins before the mini-batch, that matrix and the costs say all steps. D has small
whole numbers: D D^T is exact in float64. All other sums of floats are added in one order that does
not depend on the device, and no two additions meet at one address.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

SHARED_CELLS = 1 << 23  # of the dense part of the matrix that is held at a time


class Differences(NamedTuple):
    """E entries that are not zero, (E,) int64 each, by sentence, then by row of the weights."""

    sentence: Tensor
    row: Tensor
    count: Tensor


class Column(NamedTuple):
    """The same entries by row, then by sentence, and the U different rows."""

    order: Tensor  # (E,) which entries
    rows: Tensor  # (U,) ascending
    number: Tensor  # (E,) of each entry's row
    sizes: Tensor  # (U,) entries of each row


def coalesced(features: Tensor, n_rows: int) -> Differences:
    """Add up the signs of features that have sentence and row in common.

    Args:
        features: (3, F) int64: sentence, row, sign.
    """
    sentence, row, sign = features
    key, place = torch.unique(sentence * n_rows + row, return_inverse=True)
    count = torch.zeros_like(key).index_add_(0, place, sign)  # whole numbers, in any order
    is_left = count != 0
    key, count = key[is_left], count[is_left]
    return Differences(key // n_rows, key % n_rows, count)


def by_row(differences: Differences) -> Column:
    """The entries in the other order."""
    row, order = torch.sort(differences.row, stable=True)
    rows, number, sizes = torch.unique_consecutive(row, return_inverse=True, return_counts=True)
    return Column(order, rows, number, sizes)


def margins(differences: Differences, weights: Tensor, n_sentences: int) -> Tensor:
    """D w, (B,) float64; weights: (rows,)."""
    products = differences.count * weights[differences.row].double()
    sizes = torch.bincount(differences.sentence, minlength=n_sentences)
    return sum_runs(products, differences.sentence, sizes)


def products(
    differences: Differences, column: Column, n_sentences: int, cells: int = SHARED_CELLS
) -> Tensor:
    """D D^T, (B, B) float64.

    Args:
        cells: of the dense matrix that is held at a time: rows of the weights that several
            sentences share, by sentence.
    Cost: O(E + B^2 S) for S such rows.
    """
    squares = torch.zeros(n_sentences, dtype=torch.int64, device=differences.count.device)
    squares.index_add_(0, differences.sentence, differences.count**2)
    is_shared = column.sizes > 1
    of_entry = is_shared[column.number]
    entry = column.order[of_entry]
    shared = (is_shared.cumsum(0) - 1)[column.number[of_entry]]
    n_shared = int(is_shared.sum())
    total = torch.zeros(n_sentences, n_sentences, dtype=torch.float64, device=squares.device)
    step = max(1, cells // n_sentences)
    firsts = torch.arange(0, n_shared + step, step, device=squares.device)
    cuts = torch.searchsorted(shared, firsts).tolist()
    for first, (low, high) in enumerate(pairwise(cuts)):
        dense = total.new_zeros(n_sentences, min(step, n_shared - first * step))
        here = entry[low:high]
        place = differences.sentence[here], shared[low:high] - first * step
        dense[place] = differences.count[here].double()
        total += dense @ dense.T
    return total.diagonal_scatter(squares.double())


def change(differences: Differences, column: Column, steps: Tensor) -> Tensor:
    """Steps times D at the rows of the column, (K, U) float64; steps: (K, B) float64."""
    moved = (steps[:, differences.sentence] * differences.count)[:, column.order]
    return sum_runs(moved, column.number, column.sizes)


def sum_runs(values: Tensor, run: Tensor, sizes: Tensor) -> Tensor:
    """Sum runs of values, pair by pair: the same bits on every device.

    Args:
        values: (..., E), the runs one after the other. run: (E,) int64, ascending.
        sizes: (R,) int64, how long each run is.
    Returns:
        (..., R), 0 for empty runs.
    Cost: O(E log L) for a longest run of L values; log L rounds.
    """
    count = values.shape[-1]
    if count == 0:
        return values.new_zeros(*values.shape[:-1], len(sizes))
    firsts = sizes.cumsum(0) - sizes
    place = torch.arange(count, device=values.device) - firsts[run]
    left = sizes[run] - place  # values of the run from here on
    width, longest = 1, int(sizes.max())
    while width < longest:
        takes = (place % (2 * width) == 0) & (left > width)
        next_ones = torch.where(takes[:-width], values[..., width:], 0)
        values = torch.cat([values[..., :-width] + next_ones, values[..., -width:]], -1)
        width *= 2
    sums = values[..., firsts.clamp(max=count - 1)]
    return torch.where(sizes > 0, sums, 0)
