"""Arrays that are mostly zeros, in fewer bytes: as files of packaged models have them.

Of such an array a file has a bit for each number, whether it is not zero, and the numbers that are
not. Whole numbers have the narrowest type that holds all of them. Where it takes less, an array is
taken byte by byte, as filters of bits are. The bits are an array that may be mostly zeros in turn.
Nothing is lost: `expanded` gives back the same arrays.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpuparse import native
from gpuparse.limits import MAX_COMPACT_BYTES

BITS, VALUES = ".bits", ".values"  # what the names of both arrays end in
_LEAST = 1 << 12  # bytes of an array that is worth the effort
_WORTH = 0.75  # an array is stored in another form if that has at most this share of its bytes
_WIDTHS = tuple(np.dtype(f"<i{size}") for size in (1, 2, 4, 8))
_TYPES = {dtype.str: dtype for dtype in (*_WIDTHS, np.dtype("u1"))}
LINE = 64  # bytes of a cache line


def compacted(
    arrays: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[str, list[Any]]]:
    """The arrays in fewer bytes, and type and shape of those that have another form now.

    Arrays of real numbers stay as they are.
    """
    stored: dict[str, np.ndarray] = {}
    changed: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        new = _smaller(name, array)
        if new is None:
            stored[name] = array
            continue
        changed[name] = [array.dtype.str, list(array.shape)]
        within, of_bits = compacted({key: part for key, part in new.items() if key != name})
        stored |= within | {key: part for key, part in new.items() if key == name}
        changed |= of_bits
    return stored, changed


def _smaller(name: str, array: np.ndarray) -> dict[str, np.ndarray] | None:
    """The arrays that stand for one, if they have fewer bytes."""
    if array.dtype.str not in _TYPES or array.nbytes < _LEAST:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    narrow = _narrowed(flat)
    forms = [{name: narrow}] + [
        {name + BITS: np.packbits(each != 0, bitorder="little"), name + VALUES: each[each != 0]}
        for each in (narrow, flat.view(np.uint8))
    ]
    sizes = [sum(part.nbytes for part in form.values()) for form in forms]
    best = sizes.index(min(sizes))
    return forms[best] if sizes[best] <= _WORTH * array.nbytes else None


def _narrowed(flat: np.ndarray) -> np.ndarray:
    """Whole numbers in the narrowest type that holds all of them."""
    if flat.dtype not in _WIDTHS:
        return flat
    least, most = int(flat.min()), int(flat.max())
    fits = (t for t in _WIDTHS if np.iinfo(t).min <= least and most <= np.iinfo(t).max)
    return flat.astype(next(fits))


def expanded(stored: Mapping[str, np.ndarray], changed: object) -> dict[str, np.ndarray]:
    """The arrays of `compacted`, each beginning with a cache line.

    Raises: ValueError, TypeError, KeyError: these are not what `compacted` writes, or arrays of
        more than MAX_COMPACT_BYTES.
    Cost: about a nanosecond for each number that is not zero.
    """
    if not isinstance(changed, dict):
        raise TypeError("the forms of its arrays are not a table")
    forms = {name: _form(name, form) for name, form in changed.items()}
    room = sum(dtype.itemsize * math.prod(shape) for dtype, shape in forms.values())
    if room > MAX_COMPACT_BYTES:
        raise ValueError(f"its arrays have {room:,} bytes, more than {MAX_COMPACT_BYTES:,}")
    arrays = dict(stored)
    for name in sorted(forms, key=lambda name: (-len(name), name)):  # bits before their array
        dtype, shape = forms[name]
        whole = aligned(dtype.itemsize * math.prod(shape), np.zeros).view(dtype)
        if name in arrays:
            narrow = arrays.pop(name)
            if narrow.shape != whole.shape or narrow.dtype not in _WIDTHS or dtype not in _WIDTHS:
                raise ValueError(f"array {name[:40]!r} has another type or size than it says")
            if narrow.dtype.itemsize > dtype.itemsize:
                raise ValueError(f"array {name[:40]!r} has a wider type than it says")
            whole[:] = narrow
        else:
            bits, values = arrays.pop(name + BITS), arrays.pop(name + VALUES)
            if bits.dtype != np.uint8 or bits.ndim != 1 or values.ndim != 1:
                raise ValueError(f"array {name[:40]!r} has no bits and values")
            are_bytes = len(bits) == -(-whole.nbytes // 8) and values.dtype == np.uint8
            target = whole.view(np.uint8) if are_bytes else whole
            native.call("expand_values", bits, values, target)
        arrays[name] = whole.reshape(shape)
    return arrays


def _form(name: object, form: object) -> tuple[np.dtype, tuple[int, ...]]:
    """Type and shape of an array."""
    if not isinstance(form, list) or len(form) != 2 or not isinstance(form[1], list):
        raise TypeError(f"array {str(name)[:40]!r} lacks its type or shape")
    dtype, shape = form
    are_sizes = all(type(size) is int and 0 <= size <= MAX_COMPACT_BYTES for size in shape)
    if dtype not in _TYPES or len(shape) > 4 or not are_sizes:
        raise ValueError(f"array {str(name)[:40]!r} is of no type and shape of ours")
    return _TYPES[dtype], tuple(shape)


def aligned(size: int, make: Callable[..., np.ndarray] = np.empty) -> np.ndarray:
    """Bytes that begin with a cache line, in memory of NumPy's own, which has huge pages.

    Args: make: np.empty or np.zeros.
    """
    memory = make(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size]
