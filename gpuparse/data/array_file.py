"""Arrays and facts in one file of the safetensors format, all of it under SHA-256 sums.

The facts are one JSON text in the file's metadata, always written in the same form. Their fact
`arrays` has the sum of each array, and `sha256` that of all other facts. Nothing is believed before
it is checked: sizes are counted in Python's whole numbers, and memory is taken for bytes that the
file has.

Arrays are read into memory: a program that overwrites or cuts off the file afterwards changes
nothing. A file that changes while it is read is an error.

The first process that opens a file checks it completely, and a file of the user's remembers it, so
that later processes need no sums: see `Opened`.
"""

import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse import __version__
from gpuparse.data.compact import LINE, aligned, compacted, expanded
from gpuparse.errors import ModelError, one_line
from gpuparse.limits import MAX_ARRAYS_BYTES, MAX_HEADER_BYTES

_FACTS = "gpuparse"  # the one key of the metadata
_ARRAYS, _SUM, _FORMAT = "arrays", "sha256", "format"
_COMPACT = "compact"  # the fact that arrays have another form in the file (data/compact.py)
_DTYPES = {
    name: np.dtype(f"<{kind}")
    for name, kind in {
        "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8", "U8": "u1", "F16": "f2", "F32": "f4",
        "F64": "f8",
    }.items()
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_AXES, _MAX_LENGTH = 4, 1 << 40
_MEMORY = ("gpuparse", "checked")  # the file that remembers, in the user's folder of caches
_CHECKS = 1  # version of the checks of files; a new one forgets the files that are known
_WORTH = 1 << 20  # bytes; smaller files are checked each time
_SETTLED = 2.0  # seconds; the times of a file that was changed later may not change again
_MAX_MEMORY = 1 << 16  # bytes, of 1,000 files; then all is forgotten


def pack(
    facts: dict[str, Any], arrays: Mapping[str, np.ndarray], *, form: int, is_compact: bool = False
) -> bytes:
    """The file's content.

    Args:
        facts: plain data.
        arrays: of the types int8, int16, int32, int64, uint8, float16, float32 and float64.
        form: number of the format of the facts.
        is_compact: whether arrays of many zeros have fewer bytes in the file.
    """
    if is_compact:
        arrays, changed = compacted(arrays)
        facts = facts | ({_COMPACT: changed} if changed else {})
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    sums = {name: sum_of_array(array) for name, array in contiguous.items()}
    whole = facts | {_FORMAT: form, _ARRAYS: sums}
    whole[_SUM] = sha256(as_json(whole).encode())

    # Arrays of whole cache lines come first, so that all of these begin with one.
    def place_of(name: str) -> tuple[bool, int, str]:
        array = contiguous[name]
        return array.nbytes % LINE > 0, -array.itemsize, name

    names = sorted(contiguous, key=place_of)
    header: dict[str, Any] = {"__metadata__": {_FACTS: as_json(whole)}}
    end = 0
    for name in names:
        array = contiguous[name]
        first, end = end, end + array.nbytes
        dtype = _NAMES[array.dtype]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [first, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % LINE)
    parts = (contiguous[name].reshape(-1).view(np.uint8).data for name in names)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def packed_again(file: BinaryIO, path: Path, *, is_compact: bool) -> bytes:
    """The content of a file, which stays, in the other form or the same; see `pack`.

    Raises: ModelError: as `read_open`; any number of the format is right.
    """
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        form = from_json(_text(_header(file, size)))[_FORMAT]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelError(f"{path}: damaged or not a weights file: {one_line(error)}") from error
    facts, arrays = read_open(file, path, form=form, what="model")
    return pack(facts, arrays, form=form, is_compact=is_compact)


def below(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `name` and a point, without these."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}


def read(path: Path, *, form: int, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts that `pack` was given, and the arrays.

    Args:
        form: number of the format; another one is refused.
        what: the file is of, such as "model", for messages.
    Raises: ModelError: the file is missing, damaged, too large, no file, or of another program.
    Cost: one pass for reading, one for the sums.
    """
    with open_file(path, MAX_ARRAYS_BYTES) as file:
        return read_open(file, path, form=form, what=what)


class Opened(NamedTuple):
    """A file of arrays that are used and not changed.

    is_known: whether a process of this user has checked the same file before: the sums, and what
        its reader checks of the arrays. The file is the same if its device, inode, size, and times
        of the last change of content and of inode are; the latter is set by the system alone. A
        file of less than 1 MiB, or that was changed in the last seconds, is not known.
    remember: to be called when all is checked. It writes into the user's folder of caches, which
        others cannot write to; where that fails, the file is checked again next time.
    """

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]
    is_known: bool
    remember: Callable[[], None]


def opened(file: BinaryIO, path: Path, *, form: int, what: str, hint: str = "") -> Opened:
    """As `read_open`, but a file on the disk that is known is not checked again.

    Raises: ModelError: also where the file was changed while it was read.
    Cost: one pass for reading, and one for the sums if the file is not known.
    """
    try:
        descriptor = file.fileno()
    except OSError:  # it is in memory
        found = read_open(file, path, form=form, what=what, hint=hint)
        return Opened(*found, is_known=False, remember=lambda: None)
    before = os.fstat(descriptor)
    identity = _identity(before, f"{what} {form}")
    is_known = identity in _remembered()
    found = read_open(file, path, form=form, what=what, hint=hint, is_known=is_known)
    if _state(os.fstat(descriptor)) != _state(before):
        raise ModelError(f"{path}: was changed while it was read; load it again")
    is_new = identity and not is_known
    return Opened(*found, is_known, partial(_remember, identity) if is_new else lambda: None)


def read_open(
    file: BinaryIO, path: Path, *, form: int, what: str, hint: str = "", is_known: bool = False
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """As `read`, of a file that is open, on the disk or in memory.

    Args:
        path: for messages. hint: what to do where the format is another one.
        is_known: the sums are right.
    """
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        header = _header(file, size)
        facts = _facts(path, header, form, what, hint, is_known=is_known)
        places = _places(header, file.tell(), size)
        sums = facts.pop(_ARRAYS)
        if {name for name, _ in places} != set(sums):
            raise ValueError("its arrays are not those that it has sums of")
        arrays = {name: _read_array(file, place) for name, place in places}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: damaged or not a weights file: {one_line(error)}") from error
    for name, array in sorted(arrays.items()):
        if not is_known and sums[name] != sum_of_array(array):
            raise ModelError(f"{path}: {name[:40]!r} was changed or damaged after training")
    if _COMPACT in facts:
        try:
            arrays = expanded(arrays, facts.pop(_COMPACT))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path}: damaged arrays: {one_line(error)}") from error
    return facts, arrays


def _state(status: os.stat_result) -> tuple[int, ...]:
    """Numbers that are others after a change of a file."""
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def _identity(status: os.stat_result, what: str) -> str:
    """The key under which a file's sums are remembered; empty: they are not."""
    last = max(status.st_mtime, status.st_ctime)
    if status.st_size < _WORTH or time.time() - last < _SETTLED:
        return ""
    return sha256(f"{__version__} {_CHECKS} {what} {_state(status)}".encode())


def _memory() -> Path | None:
    """The file that remembers."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache"))
    return folder.joinpath(*_MEMORY) if folder.is_absolute() else None


def _remembered() -> set[str]:
    """The files that are known, of a memory that no other user can write to."""
    memory = _memory()
    with suppress(OSError, UnicodeDecodeError):
        if memory:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(memory, flags), "rb") as file:
                status = os.fstat(file.fileno())
                is_safe = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o022
                if is_safe and status.st_uid == os.geteuid():
                    return set(file.read(2 * _MAX_MEMORY).decode().split())
    return set()


def _remember(identity: str) -> None:
    """Add a file to the memory, which is begun anew when it is large."""
    memory = _memory()
    with suppress(OSError):
        if memory:
            memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                if memory.lstat().st_size > _MAX_MEMORY:
                    memory.unlink()
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(memory, flags | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"{identity}\n".encode())  # at once: processes do not mix
            finally:
                os.close(descriptor)


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


def _facts(
    path: Path, header: dict[str, Any], form: int, what: str, hint: str, *, is_known: bool
) -> dict[str, Any]:
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
    if not is_known and (
        as_json(facts | {_SUM: wanted}) != text or wanted != sha256(as_json(facts).encode())
    ):
        raise ModelError(f"{path}: what it says of the {what} was changed or damaged")
    if not isinstance(facts.get(_ARRAYS), dict):
        raise ValueError("it lacks the sums of its arrays")
    del facts[_FORMAT]
    return facts


def _places(header: dict[str, Any], start: int, size: int) -> list[tuple[str, _Place]]:
    """The places of the arrays, in the order of the file, which they fill."""
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
    memory = aligned(place.end - place.first)
    rest = memory.data
    while len(rest):
        count = file.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise ValueError("it was cut off while it was read")
        rest = rest[count:]
    return memory.view(place.dtype).reshape(place.shape)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found
