"""From values to rows of weights on the GPU: the Triton form of `features.keys` and of row maps."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuparse.data.batch import ROOT
from gpuparse.features.keys import SEED_SHIFT
from gpuparse.features.plan import LINE
from gpuparse.scoring.feature_map import FeatureMap

# Kinds of row maps: the key is the row; the key chooses a line; the key is looked up.
POWER, LINES, EXACT = 0, 1, 2

_POWER, _LINES, _EXACT = tl.constexpr(POWER), tl.constexpr(LINES), tl.constexpr(EXACT)
_FOLD = tl.constexpr(0x9E3779B1)
_SEED = tl.constexpr(0x85EBCA6B)
_MIX_1 = tl.constexpr(0x7FEB352D)
_MIX_2 = tl.constexpr(0x846CA68B)
_SLOT = tl.constexpr(0x9E3779B97F4A7C15)
_SEED_SHIFT = tl.constexpr(SEED_SHIFT)
_LINE = tl.constexpr(LINE)
_ROOT = tl.constexpr(ROOT)


class DeviceMap(NamedTuple):
    """A row map on a device; `search` is what kernels take of it to find rows."""

    kind: int
    mask: int  # bits of a hashed key that count
    n_lines: int
    keys: Tensor  # (capacity,) int64, 0 where free
    bases: Tensor  # (capacity,) int64
    dense: int

    @property
    def search(self) -> tuple[int, int, Tensor, Tensor, int]:
        return self.mask, self.n_lines, self.keys, self.bases, len(self.keys)


def device_map(features: FeatureMap, device: torch.device) -> DeviceMap:
    """Put a row map onto a device."""
    rows = features.rows
    if rows.keys is None or rows.bases is None:
        nothing = torch.zeros(1, dtype=torch.int64, device=device)
        # A power of two above 2^31 leaves no bit to mark silent parts with.
        kind = POWER if rows.is_power and rows.rows <= 1 << 31 else LINES
        return DeviceMap(kind, rows.mask, rows.rows // LINE, nothing, nothing, rows.dense)
    keys, bases = (torch.from_numpy(x.astype("int64")).to(device) for x in (rows.keys, rows.bases))
    return DeviceMap(EXACT, 0, 0, keys, bases, rows.dense)


@triton.jit
def fold(key, value):
    """Take one more value into a side's key; both uint32."""
    key = (key ^ value) * tl.full([], _FOLD, tl.uint32)
    return key ^ (key >> 15)


@triton.jit
def mix(key, seed):
    """A family's part from a side's key; both uint32."""
    key = key ^ (seed * tl.full([], _SEED, tl.uint32))
    key = key ^ (key >> 16)
    key = key * tl.full([], _MIX_1, tl.uint32)
    key = key ^ (key >> 15)
    key = key * tl.full([], _MIX_2, tl.uint32)
    return key ^ (key >> 16)


@triton.jit
def side_key(
    values, n_places, place, atoms, first, last, KIND: tl.constexpr, LONE_ROOT: tl.constexpr
):
    """Keys of one side at some places, and whether every atom has a value there."""
    key = tl.zeros_like(place).to(tl.int64 if KIND == _EXACT else tl.uint32)
    on = place < n_places
    for atom in range(first, last):
        row, offset = tl.load(atoms + 3 * atom).to(tl.int64), tl.load(atoms + 3 * atom + 1)
        inside = (place + offset >= 0) & (place + offset < n_places)
        value = tl.load(values + row * n_places + place + offset, mask=inside, other=0)
        on = on & (value != 0)
        if LONE_ROOT:
            here = tl.load(values + row * n_places + place, mask=place < n_places, other=0)
            on = on & ((offset == 0) | (here != _ROOT))
        if KIND == _EXACT:
            key = key | (value.to(tl.int64) << tl.load(atoms + 3 * atom + 2).to(tl.int64))
        else:
            key = fold(key, value.to(tl.uint32))
    return key, on


@triton.jit
def part_of(key, on, salt, mask, KIND: tl.constexpr):
    """A family's part from a side's key; -1 where it is silent.

    salt: twice the family's seed, and one more for a modifier; of exact keys the seed itself, and
    nothing for a modifier.
    """
    if KIND == _EXACT:
        part = key | (salt.to(tl.int64) << _SEED_SHIFT)
    elif KIND == _POWER:
        part = (mix(key, salt.to(tl.uint32)) & mask.to(tl.uint32)).to(tl.int32)
    else:
        part = (mix(key, salt.to(tl.uint32)) & mask.to(tl.uint32)).to(tl.int64)
    return tl.where(on, part, -1)


@triton.jit
def is_off(part):
    """Whether a part, or any of several that were ORed, is silent."""
    return part < 0


@triton.jit
def find_base(key, on, n_lines, keys, bases, capacity, KIND: tl.constexpr):
    """The base rows of whole keys; what is found where `on` is False is no row."""
    if KIND == _POWER:
        return key
    elif KIND == _LINES:
        return ((key * n_lines) >> 32) * _LINE + (key & (_LINE - 1))
    else:
        slot = (key.to(tl.uint64) * tl.full([], _SLOT, tl.uint64)) >> 20
        slot = ((slot ^ (slot >> 23)) & (capacity - 1).to(tl.uint64)).to(tl.int64)
        found = tl.load(keys + slot, mask=on, other=0)
        while tl.max(((found != key) & (found != 0)).to(tl.int32)) > 0:
            slot = tl.where((found != key) & (found != 0), (slot + 1) & (capacity - 1), slot)
            found = tl.load(keys + slot, mask=on, other=0)
        return tl.where(found == 0, 0, tl.load(bases + slot, mask=on, other=0))
