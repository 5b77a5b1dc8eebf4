"""From values to keys: the hash of a template's parts, in compiled form and in torch.

The key of a family's feature for the arc h -> m is `head part XOR modifier part`. A part is
hashed once a word, so an arc costs one XOR (Dredze & Crammer-style feature hashing, with the
conjunction moved into the hash). Both forms below give the same 32 bits.
"""

import numpy as np
import torch
from torch import Tensor

from gpuparse.compiled import compiled

_FOLD = np.uint32(0x9E3779B1)
_SEED = np.uint32(0x85EBCA6B)
_MIX_1 = np.uint32(0x7FEB352D)
_MIX_2 = np.uint32(0x846CA68B)
WORD = 0xFFFFFFFF
SEED_SHIFT = 56  # where the family stands in an exact key


@compiled
def fold(key: np.uint32, value: np.uint32) -> np.uint32:
    """Take one more value into a side's key."""
    key = np.uint32((key ^ value) * _FOLD)
    return key ^ (key >> np.uint32(15))


@compiled
def mix(key: np.uint32, seed: np.uint32) -> np.uint32:
    """A family's part from a side's key: every bit depends on every bit."""
    key = key ^ np.uint32(seed * _SEED)
    key = key ^ (key >> np.uint32(16))
    key = np.uint32(key * _MIX_1)
    key = key ^ (key >> np.uint32(15))
    key = np.uint32(key * _MIX_2)
    return key ^ (key >> np.uint32(16))


def fold_torch(key: Tensor, value: Tensor) -> Tensor:
    """`fold` on int64 tensors that hold 32-bit numbers."""
    key = ((key ^ value) * int(_FOLD)) & WORD
    return key ^ (key >> 15)


def mix_torch(key: Tensor, seed: int | Tensor) -> Tensor:
    """`mix` on int64 tensors that hold 32-bit numbers."""
    key = key ^ ((seed * int(_SEED)) & WORD)
    key = key ^ (key >> 16)
    key = (key * int(_MIX_1)) & WORD
    key = key ^ (key >> 15)
    key = (key * int(_MIX_2)) & WORD
    return key ^ (key >> 16)


def side_keys(
    values: Tensor, places: Tensor, atoms: list[tuple[int, int, int]], exact: bool
) -> tuple[Tensor, Tensor]:
    """Keys of one side at every node.

    Args:
        values: (C, T) int field values of a batch.
        places: (B, N) place of each node.
        atoms: (row, offset, shift) of each atom.
        exact: whether values are packed side by side, each from its shift on, or hashed.
    Returns:
        (B, N) int64 keys, and (B, N) bool: every atom has a value.
    """
    key = torch.zeros_like(places)
    present = torch.ones_like(places, dtype=torch.bool)
    for row, offset, shift in atoms:
        value = values[row].long()[(places + offset).clamp(0, values.shape[1] - 1)]
        present &= value != 0
        key = key | (value << shift) if exact else fold_torch(key, value)
    return key, present


def part_keys(key: Tensor, seed: int | Tensor, role: int, exact: bool) -> Tensor:
    """A family's part from a side's key; in an exact key the head's part carries the seed."""
    if exact:
        return key if role else key | (seed << SEED_SHIFT)
    return mix_torch(key, 2 * seed + role)
