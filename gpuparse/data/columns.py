"""Columns of a CoNLL file: their numbers, arcs of DEPS, items of MISC, and replacing columns.

DEPS is `_` or items `head:relation` joined by `|`. The relation begins behind the first `:` and may
contain more of them. The head is a number, or `i.j` for an empty node. MISC is `_` or items
`KEY=value` joined by `|`.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.errors import ConfigError

ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC = range(10)

# Columns of a row of faults: a DepsFault; sentence; word of the treebank; offsets of the item.
FAULT_CODE, FAULT_SENTENCE, FAULT_WORD, FAULT_START, FAULT_END = 0, 1, 2, 3, 4

IN_MISC = "misc:"  # how the name of a source begins that is an item of MISC
SEPARATORS = "\t\n\r|"  # what neither a key nor a value may have in it
MAX_KEYS = 62  # bits of a mask
_IN_NO_COLUMN = re.compile("[\t\n\r\0\ud800-\udfff]")


def is_value(text: object) -> bool:
    """True if a text can be the value of a column: not blank, without tabs, line ends and NUL."""
    return isinstance(text, str) and bool(text.strip(" ")) and not has_separator(text)


def has_separator(text: str) -> bool:
    """True if a text has a tab, a line end, NUL or an unpaired surrogate."""
    return _IN_NO_COLUMN.search(text) is not None


def common_string(a: str, b: str) -> tuple[int, int, int]:
    """The first longest string that both texts have: where it begins in each, and its length."""
    best = (0, 0, 0)
    lengths = [0] * (len(b) + 1)
    for i, x in enumerate(a):
        previous = 0
        for j, y in enumerate(b):
            length = previous + 1 if x == y else 0
            previous, lengths[j] = lengths[j], length
            if length > best[2]:
                best = (i - length + 1, j - length + 1, length)
    return best


class ScannedDeps(NamedTuple):
    """The arcs between words, and from the root, of all words."""

    starts: np.ndarray  # int64 (W + 1,): word w has the arcs starts[w]:starts[w + 1]
    heads: np.ndarray  # int32 (A,), ascending within a word
    spans: np.ndarray  # int64 (A, 2), offsets of the relations
    faults: np.ndarray  # int64 (F, 5), the first of every faulty sentence, which has no arcs


def scan_deps(data: np.ndarray, columns: np.ndarray, word_starts: np.ndarray) -> ScannedDeps:
    """Find the arcs of all words.

    Args: data, columns, word_starts: as a Treebank has them.
    Raises: ValueError where these do not fit each other.
    Cost: linear in the bytes of DEPS.
    """
    n_items = native.call("count_deps", data, columns)
    starts = np.empty(len(columns) + 1, np.int64)
    heads, spans = np.empty(n_items, np.int32), np.empty((n_items, 2), np.int64)
    faults = np.empty((len(word_starts) - 1, 5), np.int64)
    n_faults = native.call("scan_deps", data, columns, word_starts, starts, heads, spans, faults)
    return ScannedDeps(starts, heads[: starts[-1]], spans[: starts[-1]], faults[:n_faults])


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
    """New values of columns; None leaves a column as it is."""

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
    Raises: ValueError: arrays do not fit each other.
    Cost: one copy of the bytes.
    """
    size = native.call("replaced_size", data, replacing)
    text = np.empty(size + len(end), np.uint8)
    used = native.call("replace_columns", data, columns, dropped, replacing, text)
    text[used : used + len(end)] = np.frombuffer(end, np.uint8)
    return text[: used + len(end)].tobytes()


def joined_names(names: list[bytes]) -> Names:
    """Names in one array."""
    ends = np.array(list(accumulate(map(len, names), initial=0)), np.int64)
    return Names(np.frombuffer(b"".join(names), np.uint8), ends)


def is_key(name: str) -> bool:
    """True if a name can be the key of an item."""
    return name not in ("", "_") and not any(c in SEPARATORS + " =\0" for c in name)


def is_guide_file(source: str) -> bool:
    """True if a source of guides, `misc:KEY` or a path, names a file.

    Raises: ConfigError: it names an impossible key of MISC.
    """
    if not source.startswith(IN_MISC):
        return True
    if not is_key(source.removeprefix(IN_MISC)):
        raise ConfigError(
            f"{source!r}: expected {IN_MISC}KEY, the key without blanks, '=' and '|', or a file"
        )
    return False


def scan_numbers(data: np.ndarray, columns: np.ndarray, key: np.ndarray) -> np.ndarray:
    """(W,) int32 numbers under a key; NO_HEAD without one, BAD_HEAD for another thing.

    The first item counts; `KEY=_` counts as none.

    Args: data, columns: as a Treebank has them. key: of `as_key`.
    """
    numbers = np.empty(len(columns), np.int32)
    native.call("scan_misc_numbers", data, columns, key, numbers)
    return numbers


def as_key(name: str) -> np.ndarray:
    """The bytes of a key's name."""
    return np.frombuffer(name.encode(), np.uint8)


def misc_arrays(items: Mapping[str, Sequence[str] | np.ndarray], n_words: int) -> Items:
    """Keys and values as the writer takes them.

    Args:
        items: for each key the values of all words, "" for no item: text, or an array (W,) of
            bytes ("S").
    Raises: ValueError for a name that is no key, values that do not fit the words or have a `|`, a
        tab or a line end in them.
    """
    if len(items) > MAX_KEYS or not all(map(is_key, items)):
        raise ValueError(f"the keys {list(items)} cannot all be keys of MISC")
    texts = {name: _as_bytes(name, values, n_words) for name, values in items.items()}
    width = max((text.itemsize for text in texts.values()), default=1)
    values = np.zeros((len(texts), n_words, width), np.uint8)
    for k, text in enumerate(texts.values()):
        values[k] = text.astype(f"S{width}").view(np.uint8).reshape(n_words, width)
    for separator in SEPARATORS:
        if (values == ord(separator)).any():
            raise ValueError(f"a value of MISC has {separator!r} in it")
    if ((values[..., :-1] == 0) & (values[..., 1:] != 0)).any():
        raise ValueError("a value of MISC has '\\0' in it")
    return Items(joined_names([name.encode() for name in items]), values)


def _as_bytes(name: str, values: Sequence[str] | np.ndarray, n_words: int) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        text = values
    else:
        text = np.array([value.encode() for value in values], np.bytes_)
    if text.shape != (n_words,):
        raise ValueError(f"values of {name} of shape {text.shape}, not ({n_words},)")
    return text if text.itemsize else text.astype("S1")
