"""Copying a treebank's bytes with columns replaced."""

from typing import NamedTuple

import numpy as np

from gpuparse.data import plain


class Names(NamedTuple):
    """Names in UTF-8, one after the other: name r is bytes[ends[r] : ends[r + 1]]."""

    bytes: np.ndarray  # uint8
    ends: np.ndarray  # int64 (names + 1,)


class Labels(NamedTuple):
    """DEPREL of every word."""

    names: Names
    labels: np.ndarray  # int32 (W,) numbers of names


class Arcs(NamedTuple):
    """DEPS of every word: its arcs, heads ascending."""

    names: Names
    starts: np.ndarray  # int64 (W + 1,)
    heads: np.ndarray  # int32 (A,)
    relations: np.ndarray  # int32 (A,) numbers of names


class Items(NamedTuple):
    """Items of MISC: of each key the value of every word."""

    keys: Names
    values: np.ndarray  # uint8 (keys, W, width), filled up with 0; a first byte of 0 for no item


class Replacing(NamedTuple):
    """What replaces columns; None leaves a column as it is."""

    heads: np.ndarray  # int32 (W,); NO_HEAD writes `_`, anything below leaves HEAD as it is
    labels: Labels | None
    arcs: Arcs | None
    items: Items | None


def replace_columns(
    data: np.ndarray, columns: np.ndarray, dropped: np.ndarray, replacing: Replacing, end: bytes
) -> bytes:
    """The bytes with columns replaced, and `end` behind them.

    Items of DEPS whose head is an empty node are kept between the arcs. A key of MISC is replaced
    where it first occurs; new ones come last.

    Args:
        data, columns: as a Treebank has them.
        dropped: (F, 2) spans to leave out, in order and apart from all words.
    Raises:
        ValueError: arrays do not fit each other.
    Cost: one copy of the bytes.
    """
    size = plain.call("replaced_size", data, replacing)
    text = np.empty(size + len(end), np.uint8)
    used = plain.call("replace_columns", data, columns, dropped, replacing, text)
    text[used : used + len(end)] = np.frombuffer(end, np.uint8)
    return text[: used + len(end)].tobytes()


def joined_names(names: list[bytes]) -> Names:
    """Names in one array."""
    ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
    return Names(np.frombuffer(b"".join(names), np.uint8), ends)
