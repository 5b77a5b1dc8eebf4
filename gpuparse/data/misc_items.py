"""The MISC column: items `KEY=value` joined by `|`, read as numbers and prepared for writing."""

from collections.abc import Mapping, Sequence

import numpy as np

from gpuparse.data import plain
from gpuparse.data.misc_keys import SEPARATORS, is_key
from gpuparse.data.writer import Items, joined_names

MAX_KEYS = 62  # bits of a mask


def scan_numbers(data: np.ndarray, columns: np.ndarray, key: np.ndarray) -> np.ndarray:
    """(W,) int32 numbers under a key; NO_HEAD without one, BAD_HEAD for another thing.

    The first item counts; `KEY=_` is as good as none.

    Args: data, columns: as a Treebank has them. key: of `as_key`.
    """
    numbers = np.empty(len(columns), np.int32)
    plain.call("scan_misc_numbers", data, columns, key, numbers)
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
    return Items(joined_names([name.encode() for name in items]), values)


def _as_bytes(name: str, values: Sequence[str] | np.ndarray, n_words: int) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        text = values
    else:
        text = np.array([value.encode() for value in values], np.bytes_)
    if text.shape != (n_words,):
        raise ValueError(f"values of {name} of shape {text.shape}, not ({n_words},)")
    return text if text.itemsize else text.astype("S1")
