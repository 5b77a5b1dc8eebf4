"""Weights and row maps as tensors, and the hash of features, on any device.

The key of a family's feature for the arc h -> m is `head part XOR modifier part`. A part is hashed
once per word, so an arc costs one XOR. Keys have 32 bits. As in native/feature_rows.h.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from gpuparse.features.plan import LINE
from gpuparse.scorers.linear.hashing import fold, mix
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import EXACT_BELOW


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


def side_keys(
    values: Tensor, places: Tensor, atoms: Iterable[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Keys of one side at every node.

    Args:
        values: (C, T) int field values of a batch.
        places: (B, N) token index of each node.
        atoms: (row, offset) of each atom.
    Returns: (B, N) int64 keys, and (B, N) bool: every atom has a value.
    """
    key = torch.zeros_like(places)
    present = torch.ones_like(places, dtype=torch.bool)
    for row, offset in atoms:
        value = values[row].long()[(places + offset).clamp(0, values.shape[1] - 1)]
        present &= value != 0
        key = fold(key, value)
    return key, present


def part_keys(key: Tensor, seed: int | Tensor, role: int) -> Tensor:
    """A family's part from a side's key; role: 0 of the head, 1 of the modifier."""
    return mix(key, 2 * seed + role)
