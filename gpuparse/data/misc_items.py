"""The MISC column: items `KEY=value` joined by `|`, found, read as numbers and exchanged."""

from collections.abc import Mapping, Sequence

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.data.deps import BAR, is_missing, item_end
from gpuparse.data.misc_keys import SEPARATORS, is_key
from gpuparse.data.scanner import NO_HEAD, UNDERSCORE, parse_number

MISC = 9
EQUALS = 61
MAX_KEYS = 62  # bits of a mask

# Keys: their names one after the other and where each begins and the last ends; and the values of
# all words, (keys, W, width) bytes filled up with 0, where none at all stands for no item.
Misc = tuple[np.ndarray, np.ndarray, np.ndarray] | None


@compiled
def has_key(data: np.ndarray, start: int, end: int, key: np.ndarray) -> bool:
    """Is data[start:end] an item with this key, `KEY=value` or a bare `KEY`?"""
    size = len(key)
    if end - start < size or (end - start > size and data[start + size] != EQUALS):
        return False
    n_equal = 0
    while n_equal < size and data[start + n_equal] == key[n_equal]:
        n_equal += 1
    return n_equal == size


@compiled
def scan_numbers(data: np.ndarray, columns: np.ndarray, key: np.ndarray) -> np.ndarray:
    """(W,) int32 numbers that stand under a key; NO_HEAD without one, BAD_HEAD for another thing.

    The first item counts; `KEY=_` is as good as none.
    """
    numbers = np.full(len(columns), NO_HEAD, np.int32)
    for word in range(len(columns)):
        item, end = columns[word, MISC], columns[word, MISC + 1] - 1
        while item < end:
            stop = item_end(data, item, end)
            if has_key(data, item, stop, key):
                first = min(item + len(key) + 1, stop)
                if not is_missing(data, first, stop):
                    numbers[word] = parse_number(data, first, stop)
                break
            item = stop + 1
    return numbers


@compiled
def write_item(key: np.ndarray, value: np.ndarray, is_first: bool, out: np.ndarray, at: int) -> int:
    """Writes `KEY=value`, behind a `|` unless it is the first item; returns the place after it."""
    if not is_first:
        out[at] = BAR
        at += 1
    for byte in key:
        out[at] = byte
        at += 1
    out[at] = EQUALS
    at += 1
    for byte in value:
        if byte == 0:
            break
        out[at] = byte
        at += 1
    return at


@compiled
def write_misc(
    data: np.ndarray, start: int, end: int, word: int, names: np.ndarray, name_ends: np.ndarray,
    values: np.ndarray, out: np.ndarray, at: int,
) -> int:  # fmt: skip
    """Writes MISC with the values of a word under their keys, its other items as they are.

    A key that is there is replaced where it first stands; the others come last, in their order.

    Args: start, end: the present MISC.
    Returns: the place after it.
    """
    n_items, placed = 0, 0
    item = end + 1 if end == start or is_missing(data, start, end) else start
    while item <= end:
        stop = item_end(data, item, end)
        k = 0
        while k < len(values) and not has_key(
            data, item, stop, names[name_ends[k] : name_ends[k + 1]]
        ):
            k += 1
        if k == len(values):
            if n_items > 0:
                out[at] = BAR
                at += 1
            for i in range(item, stop):
                out[at] = data[i]
                at += 1
            n_items += 1
        elif placed >> k & 1 == 0:
            placed |= 1 << k
            if values[k, word, 0] != 0:
                key = names[name_ends[k] : name_ends[k + 1]]
                at = write_item(key, values[k, word], n_items == 0, out, at)
                n_items += 1
        item = stop + 1
    for k in range(len(values)):
        if placed >> k & 1 == 0 and values[k, word, 0] != 0:
            key = names[name_ends[k] : name_ends[k + 1]]
            at = write_item(key, values[k, word], n_items == 0, out, at)
            n_items += 1
    if n_items == 0 and end > start:
        out[at] = UNDERSCORE
        at += 1
    return at


def as_key(name: str) -> np.ndarray:
    """The bytes of a key's name."""
    return np.array(np.frombuffer(name.encode(), np.uint8))


def misc_arrays(items: Mapping[str, Sequence[str] | np.ndarray], n_words: int) -> Misc:
    """Keys and values as the compiled writer takes them.

    Args:
        items: for each key the values of all words, "" for no item: text, or an array (W,) of
            bytes ("S").
    Raises: ValueError for a name that is no key, values that do not fit the words or have a `|`, a
        tab or a line end in them.
    """
    if len(items) > MAX_KEYS or not all(map(is_key, items)):
        raise ValueError(f"the keys {list(items)} cannot all stand in MISC")
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
    names = b"".join(name.encode() for name in items)
    ends = np.cumsum([0, *(len(name.encode()) for name in items)], dtype=np.int64)
    return np.array(np.frombuffer(names, np.uint8)), ends, values


def _as_bytes(name: str, values: Sequence[str] | np.ndarray, n_words: int) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        text = values
    else:
        text = np.array([value.encode() for value in values], np.bytes_)
    if text.shape != (n_words,):
        raise ValueError(f"values of {name} of shape {text.shape}, not ({n_words},)")
    return text if text.itemsize else text.astype("S1")
