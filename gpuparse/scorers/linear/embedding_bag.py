"""Sparse weights as an `nn.EmbeddingBag`: the score of a part is the sum of one bag.

A part has F binary features, each hashed to a row of one table of weights. So s = w . f of the
papers (McDonald, Crammer & Pereira 2005, section 2.1) is a sum of F gathered rows, and the scores
of all parts of a batch are one call:

    parts           rows of the table      scores
    arcs            (B, N, N, F)           (B, N, N)       [b, h, m]: the arc h -> m
    siblings        (B, N, N, N, F)        (B, N, N, N)    [b, h, m, s]: with the inner sibling s
    ends            (B, N, N, F)           (B, N, N)       [b, h, m]: m is the last on its side
    labels          (A, F)                 (A, L)          a row has one weight for each label

The table has R rows of D weights (D = 1, or L labels) and one more row of zeros, number R, for a
template that does not fire. It is no `padding_idx`: with one, a bag takes twenty times as long on a
CPU. `rows.py` finds the rows, `arcs.py`, `siblings.py`
and `labels.py` pass them here. `learning/on_device.py` changes the same table by sparse steps,
without gradients; on the CPU its memory is that of the model, so that nothing is copied.

Native code (native/feature_rows.h, native/arc_scores.h) and Triton kernels (`triton_sums.py`) have
the same sums without a list of rows.
"""

import torch
from torch import Tensor, nn

from gpuparse.scorers.linear.weights import Weights
from gpuparse.scorers.tensors import EXACT_BELOW


def bag_of(weights: Weights, device: torch.device, features: int) -> nn.EmbeddingBag:
    """The embedding bag of a table of weights on a device, made once and kept beside the weights.

    Args:
        features: most features that any bag will hold. Integers are summed as float32 while every
            sum stays below 2^24, where float32 is exact, and else as float64.
    """
    exact = not weights.is_integer or features * weights.largest < EXACT_BELOW
    key = device, torch.float32 if exact else torch.float64
    if key not in weights.tensors:
        weights.tensors[key] = _make_bag(weights, *key)
    return weights.tensors[key]


def sum_rows(weights: Weights, rows: Tensor) -> Tensor:
    """The sums of the rows of each bag: (..., F) int64 to (..., D); 0 for bags without any.

    Returns: float64 of whole numbers, exact and the same on any device; else float32.
    Cost: F gathered rows a bag.
    """
    bag = bag_of(weights, rows.device, rows.shape[-1])
    if rows.shape[-1] == 0:
        sums = bag.weight.new_zeros(*rows.shape[:-1], bag.embedding_dim)
    elif _has_narrow_bags(weights, rows):
        sums = bag.weight[rows].sum(-2)
    else:
        sums = bag(rows.flatten(0, -2)).unflatten(0, rows.shape[:-1])
    return sums.double() if weights.is_integer else sums


def sum_runs_of_rows(weights: Weights, rows: Tensor, starts: Tensor, most: int) -> Tensor:
    """As `sum_rows`, of bags of different sizes.

    Args:
        rows: (T, F) int64, the bags one after the other.
        starts: (P,) int64, ascending: where each bag begins in T.
        most: rows of the largest bag, at least.
    Returns: (P, D).
    """
    bag = bag_of(weights, rows.device, most)
    if _has_narrow_bags(weights, rows):
        until = torch.nn.functional.pad(bag.weight[rows].double().sum((1, 2)).cumsum(0), (1, 0))
        ends = torch.nn.functional.pad(starts[1:], (0, 1), value=len(rows))
        return (until[ends] - until[starts]).unsqueeze(1)
    sums = bag(rows.flatten(), starts * rows.shape[1])
    return sums.double() if weights.is_integer else sums


def _has_narrow_bags(weights: Weights, rows: Tensor) -> bool:
    """True if rows are gathered without a bag, whose kernel on a GPU gives one column a warp.

    Whole numbers are exact in any order.
    """
    return weights.is_integer and rows.is_cuda and weights.array.shape[1] == 1


def _make_bag(weights: Weights, device: torch.device, dtype: torch.dtype) -> nn.EmbeddingBag:
    rows, width = weights.array.shape
    if weights.is_integer:
        table = torch.zeros((rows + 1, width), dtype=dtype)
        table[:rows] = torch.tensor(weights.array)
    else:
        table = torch.from_numpy(weights.padded)
    bag = nn.EmbeddingBag(rows + 1, width, mode="sum", _weight=table)
    return bag.requires_grad_(False).to(device)
