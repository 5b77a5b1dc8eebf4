"""From values to keys: the hash of a template's parts in torch, as in native/feature_rows.h.

The key of a family's feature for the arc h -> m is `head part XOR modifier part`. A part is
hashed once a word, so an arc costs one XOR (Dredze & Crammer-style feature hashing, with the
conjunction moved into the hash). Keys have 32 bits.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

_FOLD = 0x9E3779B1
_SEED = 0x85EBCA6B
_MIX_1 = 0x7FEB352D
_MIX_2 = 0x846CA68B
WORD = 0xFFFFFFFF


def fold(key: Tensor, value: Tensor) -> Tensor:
    """Take one more value into a side's key; int64 tensors that hold 32-bit numbers."""
    key = ((key ^ value) * _FOLD) & WORD
    return key ^ (key >> 15)


def mix(key: Tensor, seed: int | Tensor) -> Tensor:
    """A family's part from a side's key, every bit of which depends on every bit of the key."""
    key = key ^ ((seed * _SEED) & WORD)
    key = key ^ (key >> 16)
    key = (key * _MIX_1) & WORD
    key = key ^ (key >> 15)
    key = (key * _MIX_2) & WORD
    return key ^ (key >> 16)


def side_keys(
    values: Tensor, places: Tensor, atoms: Iterable[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Keys of one side at every node.

    Args:
        values: (C, T) int field values of a batch.
        places: (B, N) token index of each node.
        atoms: (row, offset) of each atom.
    Returns:
        (B, N) int64 keys, and (B, N) bool: every atom has a value.
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
