"""Weights and row maps as torch has them: the parameter of an `nn.EmbeddingBag` that sums rows."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gpuparse.features.plan import LINE
from gpuparse.scoring.feature_map import FeatureMap
from gpuparse.scoring.weights import Weights

EXACT_BELOW = 1 << 24  # float32 holds every integer up to here


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


def table_of(weights: Weights, device: torch.device) -> Tensor:
    """(R, D) the weights themselves on a device: what Triton kernels read.

    While learning, the memory of the bag there; integers keep their 8 or 16 bits.
    """
    if not weights.is_integer:
        return bag_of(weights, device, 1).weight.detach()[:-1]
    if device not in weights.tensors:
        weights.tensors[device] = torch.from_numpy(weights.array).to(device)
    return weights.tensors[device]


def sum_bags(bag: nn.EmbeddingBag, rows: Tensor) -> Tensor:
    """Sum bags of rows: (..., F) int64 to (..., D)."""
    return bag(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], bag.embedding_dim)


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
        table[:rows] = torch.from_numpy(weights.array)
    else:
        table = torch.from_numpy(weights.padded)
    bag = nn.EmbeddingBag(rows + 1, width, mode="sum", padding_idx=rows, _weight=table)
    return bag.requires_grad_(False).to(device)
