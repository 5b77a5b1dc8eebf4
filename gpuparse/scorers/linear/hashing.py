"""The hash of features, over NumPy arrays or torch tensors. As in native/feature_rows.h.

Numbers of 32 bits, in arrays of int64: what exceeds these in a product is lost, as it should be.
"""

from typing import Any

WORD = 0xFFFFFFFF  # the bits of a key

FOLD = 0x9E3779B1
SEED = 0x85EBCA6B
MIX_1 = 0x7FEB352D
MIX_2 = 0x846CA68B


def fold(key: Any, value: Any) -> Any:
    """Take one more value into a side's key."""
    key = ((key ^ value) * FOLD) & WORD
    return key ^ (key >> 15)


def mix(key: Any, seed: Any) -> Any:
    """A family's part from a side's key, every bit of which depends on every bit of the key."""
    key = key ^ ((seed * SEED) & WORD)
    key = key ^ (key >> 16)
    key = (key * MIX_1) & WORD
    key = key ^ (key >> 15)
    key = (key * MIX_2) & WORD
    return key ^ (key >> 16)
