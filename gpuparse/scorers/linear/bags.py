"""Weights, row maps and tables of plans as tensors, on any device."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gpuparse.features.plan import LINE
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import EXACT_BELOW

Plan = TypeVar("Plan")
Tables = TypeVar("Tables")


def bag_of(weights: Weights, device: torch.device, features: int) -> nn.EmbeddingBag:
    """The bags on a device; row R is a row of zeros that is left out of the sums.

    Args:
        features: most features that any bag will hold. Integers are summed as float32 while every
            sum stays below 2^24, where float32 is exact, and else as float64.
    """
    exact = not weights.is_integer or features * weights.largest < EXACT_BELOW
    key = device, torch.float32 if exact else torch.float64
    if key not in weights.tensors:
        weights.tensors[key] = _make_bag(weights, *key)
    return weights.tensors[key]


def sum_bags(bag: nn.EmbeddingBag, rows: Tensor) -> Tensor:
    """Sum bags of rows: (..., F) int64 to (..., D); 0 for bags without any."""
    if rows.shape[-1] == 0:
        return bag.weight.new_zeros(*rows.shape[:-1], bag.embedding_dim)
    return bag(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], bag.embedding_dim)


def sum_rows(weights: Weights, rows: Tensor) -> Tensor:
    """(..., D) sums of weights of rows (..., F): float64 of whole numbers, else float32."""
    bag = bag_of(weights, rows.device, rows.shape[-1])
    if not weights.is_integer:
        return sum_bags(bag, rows)
    if rows.is_cuda and bag.embedding_dim == 1:
        # A bag's kernel gives one column a warp. Whole numbers are exact in any order.
        return bag.weight[rows].sum(-2).double()
    return sum_bags(bag, rows).double()


def kept_tables(
    weights: Weights, plan: Plan, device: torch.device, make: Callable[[Plan, torch.device], Tables]
) -> Tables:
    """The tables that `make` puts onto a device for a plan, kept beside the weights.

    They are sent once; later batches do not wait for the device.
    """
    key = id(plan), make, device
    if key not in weights.tensors:
        weights.tensors[key] = plan, make(plan, device)  # with the plan: no other gets its id
    return weights.tensors[key][1]


def sender(device: torch.device) -> Callable[[np.ndarray], Tensor]:
    """The function that copies an array to a device."""
    return lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device)


def atoms_in_turn(starts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All first atoms, all second ones, and so on: whose they are, and their numbers.

    starts: (n + 1,): the i-th owner has the atoms starts[i] : starts[i + 1].
    """
    sizes = np.diff(starts)
    for k in range(int(sizes.max(initial=0))):
        owners = np.flatnonzero(sizes > k)
        yield owners, starts[owners] + k


def row_finder(features: FeatureMap) -> Callable[[Tensor], Tensor]:
    """From int64 keys to their base rows, as `find_base` in native/feature_rows.h."""
    rows = features.rows
    if rows.is_power:
        return lambda keys: keys & rows.mask
    lines = rows.rows // LINE
    return lambda keys: ((keys * lines) >> 32) * LINE + (keys & (LINE - 1))


def _make_bag(weights: Weights, device: torch.device, dtype: torch.dtype) -> nn.EmbeddingBag:
    rows, width = weights.array.shape
    if weights.is_integer:
        table = torch.zeros((rows + 1, width), dtype=dtype)
        table[:rows] = torch.tensor(weights.array)  # which may be mapped, read-only
    else:
        table = torch.from_numpy(weights.padded)
    bag = nn.EmbeddingBag(rows + 1, width, mode="sum", padding_idx=rows, _weight=table)
    return bag.requires_grad_(False).to(device)
