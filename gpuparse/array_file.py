"""Arrays and facts in one file of the safetensors format, all of it under SHA-256 sums.

The facts are one JSON text in the file's metadata, always written in the same form. Their fact
`arrays` has the sum of each array, and `sha256` that of all other facts. Nothing is believed before
it is checked: sizes are counted in Python's whole numbers, and memory is taken for bytes that the
file has. The file is read, not mapped: cut off meanwhile, it is an error and no signal.
"""

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from safetensors.numpy import save

from gpuparse.errors import ModelError, one_line
from gpuparse.limits import MAX_ARRAYS_BYTES, MAX_HEADER_BYTES

_FACTS = "gpuparse"  # the one key of the metadata
_ARRAYS, _SUM, _FORMAT = "arrays", "sha256", "format"
_DTYPES = {
    name: np.dtype(f"<{kind}")
    for name, kind in {
        "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8", "U8": "u1", "F32": "f4", "F64": "f8",
    }.items()
}  # fmt: skip
_MAX_AXES, _MAX_LENGTH = 4, 1 << 40
_LINE = 64  # bytes of a cache line


def pack(facts: dict[str, Any], arrays: dict[str, np.ndarray], *, form: int) -> bytes:
    """The file's content.

    Args:
        facts: plain data.
        arrays: of the types int8, int16, int32, int64, uint8, float32 and float64.
        form: number of the format of the facts.
    """
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    sums = {name: sum_of_array(array) for name, array in contiguous.items()}
    whole = facts | {_FORMAT: form, _ARRAYS: sums}
    whole[_SUM] = sha256(as_json(whole).encode())
    # One metadata key: the order of several would differ from save to save.
    return save(contiguous, metadata={_FACTS: as_json(whole)})


def read(
    path: Path, *, form: int, what: str, hint: str = ""
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts that `pack` was given, and the arrays.

    Args:
        form: number of the format; another one is refused.
        what: the file is of, such as "model", for messages.
        hint: what to do where the format is another one.
    Raises: ModelError: the file is missing, damaged, too large, no file, or of another program.
    Cost: one pass for reading, one for the sums.
    """
    with open_file(path, MAX_ARRAYS_BYTES) as file:
        return read_open(file, path, form=form, what=what, hint=hint)


def read_open(
    file: BinaryIO, path: Path, *, form: int, what: str, hint: str = ""
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """As `read`, of a file that is open, on the disk or in memory; `path` is for messages."""
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        header = _header(file, size)
        facts = _facts(path, header, form, what, hint)
        places = _places(header, file.tell(), size)
        sums = facts.pop(_ARRAYS)
        if {name for name, _ in places} != set(sums):
            raise ValueError("its arrays are not those that it has sums of")
        arrays = {name: _read_array(file, place) for name, place in places}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: damaged or not a weights file: {one_line(error)}") from error
    for name, array in sorted(arrays.items()):
        if sums[name] != sum_of_array(array):
            raise ModelError(f"{path}: {name[:40]!r} was changed or damaged after training")
    return facts, arrays


def facts_text(path: Path) -> str:
    """The facts as they are in the file: they identify it, for the sums of all else are in them.

    Raises: ModelError: the file is missing, no file, or has no such text. Nothing else is checked.
    """
    with open_file(path, MAX_ARRAYS_BYTES) as file:
        try:
            return _text(_header(file, os.fstat(file.fileno()).st_size))
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{path}: damaged or not a weights file: {one_line(error)}") from error


def read_text(path: Path, most: int) -> str:
    """A text file in UTF-8 of limited size.

    Raises: ModelError: the file is missing, too large, no file, or no UTF-8.
    """
    with open_file(path, most) as file:
        try:
            return file.read(most).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: cannot be read: {error}") from error


def open_file(path: Path, most: int) -> BinaryIO:
    """Open a file for reading; links to anything but a file are refused, and nothing blocks.

    Args: most: bytes that the file may have.
    Raises: ModelError: the file is missing, too large, or a folder, a pipe or a device.
    """
    try:
        # O_NONBLOCK: a pipe without a writer would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {error.strerror if isinstance(error, OSError) else error}"
        if isinstance(error, FileNotFoundError):
            reason = "no such file: give the folder that training wrote"
        raise ModelError(f"{path}: {reason}") from error
    status = os.fstat(descriptor)
    wrong = ""
    if not stat.S_ISREG(status.st_mode):
        wrong = "a folder, pipe or device, where a file is expected"
    elif status.st_size > most:
        wrong = f"{status.st_size:,} bytes, more than the {most:,} that such a file may have"
    if wrong:
        os.close(descriptor)
        raise ModelError(f"{path}: {wrong}")
    return os.fdopen(descriptor, "rb")


def check_names(found: Iterable[str], wanted: Iterable[str]) -> None:
    """Refuse facts or arrays of other names than those that a file of its kind has.

    Raises: ValueError: some are unknown or missing.
    """
    odd = set(found) ^ set(wanted)
    if odd:
        which = ", ".join(repr(name[:40]) for name in sorted(odd)[:3])
        raise ValueError(f"unknown or missing: {which}")


def as_json(content: object) -> str:
    """JSON that is always the same for the same content."""
    return json.dumps(content, ensure_ascii=False, sort_keys=True, indent=0) + "\n"


def from_json(text: str) -> Any:
    """JSON without keys that come twice; NaN and infinity are numbers here.

    Raises: ValueError: it is not; RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_unique)


def sha256(content: bytes) -> str:
    """The SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sum_of_array(array: np.ndarray) -> str:
    """The SHA-256 of an array's type, shape and numbers, in hexadecimal."""
    digest = hashlib.sha256(f"{array.dtype.str} {list(array.shape)}\n".encode())
    digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


class _Place(NamedTuple):
    dtype: np.dtype
    shape: tuple[int, ...]
    first: int  # byte, counted from the header's end
    end: int


def _header(file: BinaryIO, size: int) -> dict[str, Any]:
    """The header of the file; afterwards the file is at its end."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise ValueError("it ends before its header does")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"its header has {length:,} bytes, more than {MAX_HEADER_BYTES:,}")
    header = from_json(file.read(length).decode())
    if not isinstance(header, dict):
        raise ValueError("its header is not a table")
    return header


def _text(header: dict[str, Any]) -> str:
    metadata = header.get("__metadata__")
    text = metadata.get(_FACTS) if isinstance(metadata, dict) else None
    return text if isinstance(text, str) else ""


def _facts(path: Path, header: dict[str, Any], form: int, what: str, hint: str) -> dict[str, Any]:
    """The facts, which are complete; looked at before any array, which may be of unknown types."""
    text = _text(header)
    content = from_json(text) if text else {}
    facts: dict[str, Any] = content if isinstance(content, dict) else {}
    found = facts.get(_FORMAT)
    if type(found) is not int or found != form:
        is_older = type(found) is int and 0 < found < form
        older = f" (it has format {found}, that of an older version)" if is_older else ""
        raise ModelError(f"{path}: not a gpuparse {what} of format {form}{older}{hint}")
    if len(header["__metadata__"]) > 1:
        raise ValueError("it has metadata of another program")
    wanted = facts.pop(_SUM, None)
    if as_json(facts | {_SUM: wanted}) != text or wanted != sha256(as_json(facts).encode()):
        raise ModelError(f"{path}: what it says of the {what} was changed or damaged")
    if not isinstance(facts.get(_ARRAYS), dict):
        raise ValueError("it lacks the sums of its arrays")
    del facts[_FORMAT]
    return facts


def _places(header: dict[str, Any], start: int, size: int) -> list[tuple[str, _Place]]:
    """Where the arrays lie, in the order of the file, which they fill."""
    places = [
        (name, _place(name, value)) for name, value in header.items() if name != "__metadata__"
    ]
    places.sort(key=lambda named: (named[1].first, named[1].end))
    at = 0
    for name, place in places:
        if place.first != at:
            raise ValueError(f"array {name[:40]!r} does not begin where the one before it ends")
        at = place.end
    if at != size - start:
        raise ValueError(f"it has {size - start:,} bytes of arrays, not {at:,}")
    return places


def _place(name: str, value: object) -> _Place:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"array {name[:40]!r} lacks its type, shape or place")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(
            f"array {name[:40]!r} is of type {str(dtype)[:20]!r}, which is none of ours"
        )
    if not _are_sizes(shape) or len(shape) > _MAX_AXES:
        raise ValueError(f"array {name[:40]!r} has no shape of up to {_MAX_AXES} axes")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"array {name[:40]!r} has no place")
    first, end = offsets
    if end - first != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise ValueError(f"array {name[:40]!r} has other bytes than its shape says")
    return _Place(_DTYPES[dtype], tuple(shape), first, end)


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(
        type(size) is int and 0 <= size <= _MAX_LENGTH for size in value
    )


def _read_array(file: BinaryIO, place: _Place) -> np.ndarray:
    # Memory of NumPy's own has huge pages: random rows are found 7 % faster. It need not begin with
    # a cache line; rows that do are summed faster.
    size = place.end - place.first
    memory = np.empty(size + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    memory = memory[first : first + size]
    array = memory.view(place.dtype).reshape(place.shape)
    rest = memory.data
    while len(rest):
        count = file.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise ValueError("it was cut off while it was read")
        rest = rest[count:]
    return array


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found
