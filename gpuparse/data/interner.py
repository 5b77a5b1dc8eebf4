"""Strings to dense ids: a hash table over bytes, in native code.

A Python dictionary would need an object per word of a corpus; this table reads the words in the
file's bytes. Strings are compared by their bytes, and ids are given in order of first appearance,
so nothing depends on the hash function.
"""

import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpuparse.data import plain

EMPTY = -1
UNKNOWN = -1


class StringTable(NamedTuple):
    """The arrays of a hash table; see native/api/conll.h."""

    slots: np.ndarray
    hashes: np.ndarray
    ends: np.ndarray
    pool: np.ndarray


class Interner:
    """Strings seen so far, each with a dense id from 0 in order of first appearance.

    Many threads may call find at once; intern takes a lock. A find beside an intern may miss what
    is being added, no more.
    """

    def __init__(self, strings: Iterable[bytes] = ()) -> None:
        """Args: strings: to begin with; all different, or ValueError."""
        self._lock = threading.Lock()
        self._size = 0
        self._table = _empty_table(64, 1024)
        given = list(strings)
        ends = np.cumsum([0, *map(len, given)], dtype=np.int64)
        self.intern(np.frombuffer(b"".join(given), np.uint8), ends[:-1], ends[1:])
        if len(self) != len(given):
            raise ValueError(f"{len(given) - len(self)} of the strings appear twice")

    def __len__(self) -> int:
        """Number of strings."""
        return self._size

    def intern(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Ids of the strings data[starts[k]:ends[k]]; new strings are added.

        Args: data (uint8), starts and ends (K,) offsets into it.
        Returns: (K,) int32.
        Raises: ValueError where an offset lies outside of data.
        Cost: about 20 ns a string of few bytes.
        """
        first_bytes, last_bytes, ids = _offsets(data, starts, ends)
        with self._lock:
            done, size = 0, np.array([self._size])
            while True:
                done = plain.call(
                    "add_strings", data, first_bytes, last_bytes, self._table, done, size, ids
                )
                self._size = int(size[0])
                if done == len(ids):
                    return ids
                used = int(self._table.ends[self._size])
                more = int(last_bytes[done] - first_bytes[done])
                self._reserve(2 * (self._size + 1), 2 * (used + more))

    def find(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Ids of the strings data[starts[k]:ends[k]]; -1 for those never interned.

        Args, returns, raises and cost: as intern. Nothing is changed.
        """
        first_bytes, last_bytes, ids = _offsets(data, starts, ends)
        plain.call("find_strings", data, first_bytes, last_bytes, self._table, ids)
        return ids

    def string(self, i: int) -> bytes:
        """The string with id i; IndexError where there is none."""
        if not 0 <= i < self._size:
            raise IndexError(f"string {i} of {self._size}")
        ends = self._table.ends
        return self._table.pool[ends[i] : ends[i + 1]].tobytes()

    def _reserve(self, n_strings: int, n_bytes: int) -> None:
        """New arrays with room for more strings, and the present strings in them."""
        old, table = self._table, _empty_table(n_strings, n_bytes)
        n_used = old.ends[self._size]
        table.hashes[: self._size] = old.hashes[: self._size]
        table.ends[: self._size + 1] = old.ends[: self._size + 1]
        table.pool[:n_used] = old.pool[:n_used]
        plain.call("fill_slots", table, self._size)
        self._table = table


def _empty_table(n_strings: int, n_bytes: int) -> StringTable:
    """Arrays with room for `n_strings` of `n_bytes` together."""
    n_slots = 1 << (2 * n_strings - 1).bit_length()  # at most half of the slots are in use
    return StringTable(
        np.full(n_slots, EMPTY, np.int32),
        np.zeros(n_strings, np.uint64),
        np.zeros(n_strings + 1, np.int64),
        np.zeros(n_bytes, np.uint8),
    )


def _offsets(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends as native code takes them, and room for as many ids.

    Raises: ValueError where a string does not lie in data.
    """
    first_bytes = np.ascontiguousarray(starts, np.int64)
    last_bytes = np.ascontiguousarray(ends, np.int64)
    if first_bytes.shape != last_bytes.shape or first_bytes.ndim != 1:
        raise ValueError(f"starts {first_bytes.shape} and ends {last_bytes.shape} differ in shape")
    if len(first_bytes):
        in_order = bool(np.all(first_bytes <= last_bytes))
        if not in_order or first_bytes.min() < 0 or last_bytes.max() > len(data):
            raise ValueError("a string ends before it starts, or lies outside of data")
    return first_bytes, last_bytes, np.empty(len(first_bytes), np.int32)
