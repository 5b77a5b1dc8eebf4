"""From keys to weight rows: a table of fixed size, or one row for every feature met in training."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse.errors import ConfigError
from gpuparse.features.keys import WORD
from gpuparse.features.plan import LINE
from gpuparse.scoring.cpu import RowMap, insert_all

_FIRST_CAPACITY = 1 << 16


class FeatureMap(NamedTuple):
    """A row map, and the number of weight rows that it and the dense region need.

    Hashed: the table's rows come first, then the dense region of the between families.
    Exact: one line that stays zero, the dense region, then the rows of the values met so far.
    """

    rows: RowMap
    n_rows: int

    @property
    def is_exact(self) -> bool:
        return self.rows.keys is not None


def hashed_map(n_rows: int, dense_lines: int) -> FeatureMap:
    """A table of fixed size; the last n_rows % LINE rows stay unused.

    Raises:
        ConfigError: fewer rows than one line.
    """
    if n_rows < LINE:
        raise ConfigError(f"feature_map.rows: {n_rows} is too few, at least {LINE} are needed")
    table = n_rows // LINE * LINE
    is_power = table & (table - 1) == 0
    rows = RowMap(table, is_power, table - 1 if is_power else WORD, None, None, None, table)
    return FeatureMap(rows, table + dense_lines * LINE)


def exact_map(dense_lines: int) -> FeatureMap:
    """An empty map that grows in training."""
    first = LINE + dense_lines * LINE
    return _exact(_FIRST_CAPACITY, first, np.zeros(0, np.uint64), np.zeros(0, np.int64))


def grown(features: FeatureMap, n_values: int) -> FeatureMap:
    """An exact map with the same rows and room for n_values more values."""
    _, _, _, slots, _, state, _ = features.rows
    assert slots is not None, "only an exact map grows"
    assert state is not None
    keys, bases = contents(features)
    capacity = len(slots)
    while 2 * (len(keys) + n_values) > capacity:
        capacity *= 2
    bigger = _exact(capacity, int(state[1]), keys, bases)
    return FeatureMap(bigger.rows, bigger.n_rows + n_values * LINE)


def contents(features: FeatureMap) -> tuple[np.ndarray, np.ndarray]:
    """The keys of an exact map, ascending, and their base rows: what is saved of it."""
    slots, bases = features.rows.keys, features.rows.bases
    assert slots is not None, "only an exact map has contents"
    assert bases is not None
    taken = np.flatnonzero(slots)
    order = taken[np.argsort(slots[taken])]
    return slots[order], bases[order]


def n_values(features: FeatureMap) -> int:
    """How many values an exact map holds."""
    assert features.rows.state is not None, "only an exact map holds values"
    return int(features.rows.state[0])


def next_free_row(features: FeatureMap) -> int:
    """The row that the next new value of an exact map would begin at, or just after."""
    assert features.rows.state is not None, "only an exact map has free rows"
    return int(features.rows.state[1])


def frozen_map(keys: np.ndarray, bases: np.ndarray, n_rows: int) -> FeatureMap:
    """The exact map of the given contents, for parsing."""
    capacity = max(_FIRST_CAPACITY, 1 << (2 * len(keys)).bit_length())
    return _exact(capacity, n_rows, keys.astype(np.uint64), bases.astype(np.int64))


def _exact(capacity: int, n_rows: int, keys: np.ndarray, bases: np.ndarray) -> FeatureMap:
    slots, slot_bases = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int64)
    insert_all(keys, bases, slots, slot_bases)
    state = np.array([len(keys), n_rows], np.int64)
    return FeatureMap(RowMap(0, False, 0, slots, slot_bases, state, LINE), n_rows)


def row_finder(features: FeatureMap, device: torch.device) -> Callable[[Tensor], Tensor]:
    """From int64 keys on a device to their base rows: the torch form of the kernels' `find_base`.

    Cost: an exact map's contents are sorted here, once for all the calls of what comes back.
    """
    rows = features.rows
    if rows.is_power:
        return lambda keys: keys & rows.mask
    if not features.is_exact:
        lines = rows.rows // LINE
        return lambda keys: ((keys * lines) >> 32) * LINE + (keys & (LINE - 1))
    known, bases = (
        torch.from_numpy(part.astype(np.int64)).to(device) for part in contents(features)
    )
    if len(known) == 0:
        return torch.zeros_like

    def find(keys: Tensor) -> Tensor:
        place = torch.searchsorted(known, keys).clamp(max=len(known) - 1)
        return torch.where(known[place] == keys, bases[place], 0)

    return find
