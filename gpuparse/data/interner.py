"""Strings to dense ids: an open-addressing hash table over bytes, compiled.

A dictionary of Python would need an object for every word of a corpus; this one reads the words
where they lie in the file's bytes. Hashes only choose the place to look: equality is of bytes, and
ids are given in order of first appearance, so nothing depends on the hash function.
"""

import threading
from collections.abc import Iterable

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.data.byte_blocks import eight_bytes

EMPTY = -1
UNKNOWN = -1
# The odd constants of MurmurHash3's 64-bit finaliser (Appleby 2008).
MIX_1, MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
HALF = np.uint64(33)

# slots (power of two), the string in each or EMPTY; hashes of the strings; ends: string i is
# pool[ends[i] : ends[i + 1]]; pool, all their bytes.
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@compiled
def hash_bytes(data: np.ndarray, start: int, end: int) -> np.uint64:
    """64-bit hash of data[start:end]: eight bytes at a time, multiplied and folded; length last."""
    mixed = np.uint64(end - start)
    at = start
    while at + 8 <= end:
        mixed = (mixed ^ eight_bytes(data, at)) * MIX_1
        mixed ^= mixed >> HALF
        at += 8
    last = np.uint64(0)
    for k in range(at, end):
        last = (last << np.uint64(8)) | np.uint64(data[k])
    mixed = (mixed ^ last) * MIX_2
    return mixed ^ (mixed >> HALF)


@compiled
def find_slot(
    data: np.ndarray,
    start: int,
    end: int,
    hashed: np.uint64,
    slots: np.ndarray,
    hashes: np.ndarray,
    ends: np.ndarray,
    pool: np.ndarray,
) -> np.uint64:
    """The slot that holds data[start:end], or the empty one where it belongs (linear probing)."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while True:
        i = slots[slot]
        if i == EMPTY:
            return slot
        known = ends[i]
        if hashes[i] == hashed and ends[i + 1] - known == end - start:
            k = 0
            while k < end - start and pool[known + k] == data[start + k]:
                k += 1
            if k == end - start:
                return slot
        slot = (slot + np.uint64(1)) & mask


@compiled
def find_strings(
    data: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    slots: np.ndarray,
    hashes: np.ndarray,
    ends: np.ndarray,
    pool: np.ndarray,
    ids: np.ndarray,
    first: int,
    last: int,
) -> None:
    """ids[k] = id of string k, UNKNOWN where it is not in the table; k in first..last - 1."""
    for k in range(first, last):
        hashed = hash_bytes(data, starts[k], stops[k])
        slot = find_slot(data, starts[k], stops[k], hashed, slots, hashes, ends, pool)
        ids[k] = slots[slot]


@compiled
def add_strings(
    data: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    slots: np.ndarray,
    hashes: np.ndarray,
    ends: np.ndarray,
    pool: np.ndarray,
    ids: np.ndarray,
    first: int,
    size: int,
) -> tuple[int, int]:
    """As find_strings from string `first` on, but adds what is new while there is room.

    Returns: the string it stopped at, and the number of strings in the table, `size` before.
    """
    for k in range(first, len(starts)):
        start, stop = starts[k], stops[k]
        hashed = hash_bytes(data, start, stop)
        slot = find_slot(data, start, stop, hashed, slots, hashes, ends, pool)
        if slots[slot] == EMPTY:
            used = ends[size]
            if size == len(hashes) or used + stop - start > len(pool):
                return k, size
            for i in range(stop - start):
                pool[used + i] = data[start + i]
            hashes[size] = hashed
            ends[size + 1] = used + stop - start
            slots[slot] = size
            size += 1
        ids[k] = slots[slot]
    return len(starts), size


@compiled
def fill_slots(hashes: np.ndarray, size: int, slots: np.ndarray) -> None:
    """Puts the first `size` strings, all different, into empty slots."""
    mask = np.uint64(len(slots) - 1)
    for i in range(size):
        slot = hashes[i] & mask
        while slots[slot] != EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i


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
        self.intern(np.array(np.frombuffer(b"".join(given), np.uint8)), ends[:-1], ends[1:])
        if len(self) != len(given):
            raise ValueError(f"{len(given) - len(self)} of the strings appear twice")

    def __len__(self) -> int:
        """Number of strings."""
        return self._size

    def intern(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Ids of the strings data[starts[k]:ends[k]]; new strings are added.

        Args: data (uint8), starts and ends (K,) offsets into it.
        Returns: (K,) int32.
        Cost: about 20 ns a string of few bytes.
        """
        first_bytes, last_bytes, ids = _offsets(data, starts, ends)
        with self._lock:
            done = 0
            while True:
                done, self._size = add_strings(
                    data, first_bytes, last_bytes, *self._table, ids, done, self._size
                )
                if done == len(ids):
                    return ids
                used = int(self._table[2][self._size])
                more = int(last_bytes[done] - first_bytes[done])
                self._reserve(2 * (self._size + 1), 2 * (used + more))

    def find(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Ids of the strings data[starts[k]:ends[k]]; -1 for those never interned.

        Args, returns and cost: as intern. Nothing is changed.
        """
        first_bytes, last_bytes, ids = _offsets(data, starts, ends)
        find_strings(data, first_bytes, last_bytes, *self._table, ids, 0, len(ids))
        return ids

    def string(self, i: int) -> bytes:
        """The string with id i; IndexError where there is none."""
        if not 0 <= i < self._size:
            raise IndexError(f"string {i} of {self._size}")
        _, _, ends, pool = self._table
        return pool[ends[i] : ends[i + 1]].tobytes()

    def _reserve(self, n_strings: int, n_bytes: int) -> None:
        """New arrays with room for so much, and the present strings in them."""
        _, old_hashes, old_ends, old_pool = self._table
        table = slots, hashes, ends, pool = _empty_table(n_strings, n_bytes)
        hashes[: self._size] = old_hashes[: self._size]
        ends[: self._size + 1] = old_ends[: self._size + 1]
        pool[: ends[self._size]] = old_pool[: ends[self._size]]
        fill_slots(hashes, self._size, slots)
        self._table = table


def _empty_table(n_strings: int, n_bytes: int) -> Table:
    """Arrays with room for so many strings of so many bytes together."""
    n_slots = 1 << (2 * n_strings - 1).bit_length()  # at most half of the slots are in use
    return (
        np.full(n_slots, EMPTY, np.int32),
        np.zeros(n_strings, np.uint64),
        np.zeros(n_strings + 1, np.int64),
        np.zeros(n_bytes, np.uint8),
    )


def _offsets(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends as the kernels want them, and room for as many ids.

    Raises: ValueError where an offset lies outside of data: the kernels do not look.
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
