"""From values to rows of weights on the GPU: the Triton form of `features.keys` and of row maps."""

from typing import NamedTuple

import triton
import triton.language as tl

from gpuparse.data.batch import ROOT
from gpuparse.features.plan import LINE
from gpuparse.scoring.weights import FeatureMap

# Kinds of row maps: the key is the row; the key chooses a line.
POWER, LINES = 0, 1

_POWER = tl.constexpr(POWER)
_FOLD = tl.constexpr(0x9E3779B1)
_SEED = tl.constexpr(0x85EBCA6B)
_MIX_1 = tl.constexpr(0x7FEB352D)
_MIX_2 = tl.constexpr(0x846CA68B)
_LINE = tl.constexpr(LINE)
_ROOT = tl.constexpr(ROOT)


class DeviceMap(NamedTuple):
    """A row map on a device; `search` is what kernels take of it to find rows."""

    kind: int
    mask: int  # bits of a key that count
    n_lines: int
    dense: int

    @property
    def search(self) -> tuple[int, int]:
        return self.mask, self.n_lines


def device_map(features: FeatureMap) -> DeviceMap:
    """A row map as kernels take it."""
    rows = features.rows
    # A power of two above 2^31 leaves no bit to mark silent parts with.
    kind = POWER if rows.is_power and rows.rows <= 1 << 31 else LINES
    return DeviceMap(kind, rows.mask, rows.rows // LINE, rows.dense)


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
def side_key(values, n_places, place, atoms, first, last, LONE_ROOT: tl.constexpr):
    """Keys of one side at some places, and whether every atom has a value there."""
    key = tl.zeros_like(place).to(tl.uint32)
    on = place < n_places
    for atom in range(first, last):
        row, offset = tl.load(atoms + 2 * atom).to(tl.int64), tl.load(atoms + 2 * atom + 1)
        inside = (place + offset >= 0) & (place + offset < n_places)
        value = tl.load(values + row * n_places + place + offset, mask=inside, other=0)
        on = on & (value != 0)
        if LONE_ROOT:
            here = tl.load(values + row * n_places + place, mask=place < n_places, other=0)
            on = on & ((offset == 0) | (here != _ROOT))
        key = fold(key, value.to(tl.uint32))
    return key, on


@triton.jit
def part_of(key, on, salt, mask, KIND: tl.constexpr):
    """A family's part from a side's key; -1 where it is silent.

    salt: twice the family's seed, and one more for a modifier.
    """
    if KIND == _POWER:
        part = (mix(key, salt.to(tl.uint32)) & mask.to(tl.uint32)).to(tl.int32)
    else:
        part = (mix(key, salt.to(tl.uint32)) & mask.to(tl.uint32)).to(tl.int64)
    return tl.where(on, part, -1)


@triton.jit
def is_off(part):
    """Whether a part, or any of several that were ORed, is silent."""
    return part < 0


@triton.jit
def find_base(key, n_lines, KIND: tl.constexpr):
    """The base rows of whole keys; those of silent parts are no rows."""
    if KIND == _POWER:
        return key
    else:
        return ((key * n_lines) >> 32) * _LINE + (key & (_LINE - 1))
