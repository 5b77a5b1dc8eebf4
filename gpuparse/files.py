"""Files written completely or not at all, and folders with one writer."""

import fcntl
import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpuparse.errors import ConfigError, DataError, option

_WHOLE_NAME = 200  # bytes of a file's name that its hidden names have
_BEGINNING = 40  # characters of a longer name that they have, each of at most 4 bytes
_TRIES = 100  # to lock a folder that other processes make and take away
_TEMPORARY = "gpuparse.part"  # how the hidden name of an unfinished file ends
COMPRESSED = "the file is compressed; decompress it (`parse` reads .gz of gzip and .zst of zstd)"
_UTF16 = "the file is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8); of text, {} reads it"
STANDARD = "-"  # the name of standard input
_HIDDEN = (".", "_")  # first letters of the files that engines write beside theirs
_BEGINNINGS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def no_utf8(begin: bytes) -> str:
    """The message about a file that is compressed or UTF-16, by its first bytes; "" of others."""
    if begin.startswith(_BEGINNINGS):
        return COMPRESSED
    # Every other byte of most UTF-16 is zero; a file of zeros alone is none.
    is_wide = len(begin) > 3 and (begin[:4:2] == b"\0\0") != (begin[1:4:2] == b"\0\0")
    is_wide |= begin.startswith(UTF16_MARKS)
    return _UTF16.format(option("encoding", "utf-16")) if is_wide else ""


def files_below(folder: str | os.PathLike[str]) -> list[str]:
    """The names of all files in a folder and in those below it, relative to it, in order.

    Names of files and folders that begin with `.` or `_` are passed over: engines write such files.

    Raises: ConfigError: there are none.
    """
    names = []
    for place, below, files in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(_HIDDEN)]
        for name in files:
            if not name.startswith(_HIDDEN):
                names.append(os.path.relpath(os.path.join(place, name), folder))
    if not names:
        raise ConfigError(f"{folder}: has no files")
    return sorted(names)


def standard_input() -> BinaryIO:
    """Standard input, as bytes.

    Raises: DataError: it is closed.
    """
    if sys.stdin is None:
        raise DataError("<stdin>: is closed; name a file")
    return sys.stdin.buffer


@contextmanager
def unchanged(file: BinaryIO, name: str) -> Iterator[None]:
    """Make sure that a file is not written to while it is read; pipes and devices are not checked.

    Args: file: open for reading. name: its name in messages.
    Raises: DataError: at the end, if it was, in place of any error that this caused.
    """
    before = _state(file)
    error = None
    try:
        yield
    except DataError as found:
        error = found
    if _state(file) != before:
        raise DataError(f"{name}: was changed while it was read; read it again") from error
    if error is not None:
        raise error


def _state(file: BinaryIO) -> tuple[int, int] | None:
    """Size and time of the last change of a regular file."""
    try:
        status = os.fstat(file.fileno())
    except OSError:  # no file of the system
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def read_input(path: str) -> bytes:
    """The bytes of a file; "-" is standard input.

    Raises: DataError: it cannot be read, or was changed meanwhile.
    """
    with input_file(path) as file:
        if path != STANDARD and _is_endless(file):
            raise DataError(f"{path}: is a device without an end; name a file")
        try:
            return file.read()
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> DataError:
    is_sentence = " " in path and not Path(path).suffix
    what = "give a sentence in a file, or on standard input" if is_sentence else "check the path"
    return DataError(f"{path}: cannot be read: {error.strerror}; {what}")


@contextmanager
def input_file(path: str) -> Iterator[BinaryIO]:
    """A file for reading; "-" is standard input.

    Raises: DataError: it cannot be read, or was changed meanwhile.
    """
    if path == STANDARD:
        file = standard_input()
        with unchanged(file, "<stdin>"):
            yield file
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise _unreadable(path, error) from error
    with file, unchanged(file, path):
        yield file


def _is_endless(file: BinaryIO) -> bool:
    """True if a file is a device such as /dev/zero; a terminal and /dev/null have an end."""
    status = os.fstat(file.fileno())
    is_null = os.path.samestat(status, os.stat(os.devnull))
    return stat.S_ISCHR(status.st_mode) and not is_null and not file.isatty()


def check_new_file(
    path: str | Path, *, force: bool = False, source: str | Path | None = None
) -> None:
    """Make sure that a file may be written, before the work whose result it gets.

    Args: force: whether an existing file may be replaced. source: what is read meanwhile.
    Raises: ConfigError: it is a folder, its folder is missing, it exists and `force` is false, or
        it is the source.
    """
    are_files = source is not None and os.path.isfile(path) and os.path.isfile(source)
    if source is not None and are_files and os.path.samefile(path, source):
        raise ConfigError(
            f"{source}: would be replaced by its own output; name another {option('output')}"
        )
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise ConfigError(f"{path}: is a folder; name a file")
    if not os.path.exists(os.path.dirname(target)):
        raise ConfigError(f"{path}: the folder is missing; make it first")
    if os.path.isfile(target) and not force:
        raise ConfigError(f"{path}: exists; give {option('force', True)} to replace it")


@contextmanager
def replace_file(path: str | Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when it is complete.

    It is written under a temporary name in the same folder, which it is locked under, flushed to
    disk and renamed; after an exception it is removed. A symbolic link is followed, not replaced; a
    pipe or device is written to directly. The file has the ordinary mode (0666 minus the umask).

    Args:
        path: of the file.
        force: whether an existing file may be replaced.
    Yields: The binary file to write to.
    Raises:
        ConfigError: the file exists and `force` is false, it is a folder, its folder is missing, or
            another process is writing it.
        OSError: the folder is not writable, or the disk is full.
    Cost: one fsync of the file and one of its folder.
    """
    check_new_file(path, force=force)
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as stream:
            yield stream
        return
    folder, name = os.path.split(target)
    temporary = hidden_path(folder, name, _TEMPORARY)
    with os.fdopen(_new_file(temporary, path), "wb") as file:
        try:
            check_new_file(path, force=force)  # another process may have written it
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    _sync_folder(folder)


def write_file(path: str | Path, content: bytes, *, force: bool = False) -> None:
    """Write a file of these bytes as `replace_file` does, with its errors."""
    with replace_file(path, force=force) as file:
        file.write(content)


def is_temporary(name: str) -> bool:
    """True if a file's name is that of a file that `replace_file` did not finish.

    Such a file is left by a process that was killed, and disappears when its file is written again.
    """
    return name.startswith(".") and name.endswith(f".{_TEMPORARY}")


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_folder(folder: str | Path) -> Iterator[None]:
    """Be the only process that writes into a folder, which is made if necessary.

    The lock is that of the operating system (flock on `.lock`): it ends with the process. Folders
    that were made and are empty at the end are removed.

    Args: folder: the folder.
    Raises:
        ConfigError: another process holds the lock, or the folder cannot be made.
        OSError: the folder cannot be written to.
    """
    with ExitStack() as stack:
        for left in reversed(range(_TRIES)):
            stack.enter_context(_made_folders(folder))
            try:
                stack.enter_context(_locked(os.path.join(folder, ".lock"), folder))
                break
            except FileNotFoundError:  # the process that made the folder has taken it away
                if not left:
                    raise
        yield


def check_folder(folder: str | Path) -> None:
    """Make sure that a folder can be made, or written to; nothing is left of the trial.

    Raises: ConfigError: it cannot.
    """
    with _made_folders(folder):
        # Another process may have made it, and have taken it away since.
        if os.path.exists(folder) and not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"{folder}: cannot be written to; name another output")


@contextmanager
def _made_folders(folder: str | Path) -> Iterator[None]:
    """Make a folder and those that it is in; at the end those that were made go, if empty."""
    missing = []
    path = os.path.abspath(folder)
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    try:
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"{folder}: is not a folder; name another output") from None
        except OSError as error:
            raise ConfigError(
                f"{folder}: cannot be made: {error.strerror}; name another output"
            ) from error
        yield
    finally:
        for made in missing:
            with suppress(OSError):
                os.rmdir(made)


def remove_folder(folder: Path) -> None:
    """Take a folder with its files away at once: a kill leaves it whole or under a temporary name.

    Raises: OSError: it cannot be removed.
    """
    gone = Path(hidden_path(str(folder.parent), folder.name, _TEMPORARY))
    if gone.exists():  # a kill has left it
        shutil.rmtree(gone)
    if folder.exists():
        os.replace(folder, gone)
        shutil.rmtree(gone)


@contextmanager
def lock_file(path: str | Path) -> Iterator[None]:
    """Be the only process that writes a file, which need not exist.

    The lock is like that of `lock_folder`, on `.NAME.lock` beside the file.

    Args: path: the file.
    Raises:
        ConfigError: another process holds the lock.
        OSError: its folder is missing or cannot be written to.
    """
    folder, name = os.path.split(os.path.abspath(path))
    with _locked(hidden_path(folder, name, "lock"), path):
        yield


def hidden_path(folder: str, name: str, end: str) -> str:
    """The path of a file that belongs to the file of that name; it has a part of a long name."""
    if len(os.fsencode(name)) > _WHOLE_NAME:
        name = f"{name[:_BEGINNING]}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return os.path.join(folder, f".{name}.{end}")


@contextmanager
def _locked(path: str, target: str | Path) -> Iterator[None]:
    while (
        descriptor := _open_locked(path, target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    ) is None:
        pass
    try:
        yield
    finally:
        # Removed while still held: whoever waits on the old file sees that it has gone.
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def _new_file(path: str, target: str | Path) -> int:
    """A new and locked file, in place of one that a killed process left."""
    while True:
        with suppress(FileNotFoundError):
            left = _open_locked(path, target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            if left is not None:
                os.unlink(path)
                os.close(left)
        with suppress(FileExistsError):
            made = _open_locked(path, target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            if made is not None:
                return made


def _open_locked(path: str, target: str | Path, flags: int) -> int | None:
    """Open a file and lock it; None if it was taken away meanwhile."""
    descriptor = os.open(path, flags, 0o666)
    with suppress(FileNotFoundError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"{target}: another process is writing there; wait for it or name another output"
            ) from None
    os.close(descriptor)
    return None
