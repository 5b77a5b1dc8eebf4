"""Files written completely or not at all, and folders with one writer."""

import fcntl
import glob
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpuparse.errors import ConfigError, DataError

_WHOLE_NAME = 100  # characters of a file's name that its temporary name has
_RANDOM = 8  # hexadecimal digits in it


def standard_input() -> BinaryIO:
    """Standard input, as bytes.

    Raises: DataError: it is closed.
    """
    if sys.stdin is None:
        raise DataError("<stdin>: is closed; name a file")
    return sys.stdin.buffer


@contextmanager
def replace_file(path: str | Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when it is complete.

    It is written under a temporary name in the same folder, flushed to disk and renamed; after an
    exception it is removed. A symbolic link is followed, not replaced; a pipe or device is written
    to directly. The file has the ordinary mode (0666 minus the umask).

    Args:
        path: of the file.
        force: whether an existing file may be replaced.
    Yields: The binary file to write to.
    Raises:
        ConfigError: the file exists and `force` is false, or it is a folder.
        OSError: the folder is missing or not writable, or the disk is full.
    Cost: one fsync of the file and one of its folder.
    """
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise ConfigError(f"{path}: is a folder; name a file")
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as stream:
            yield stream
        return
    if os.path.exists(target) and not force:
        raise ConfigError(f"{path}: exists; give --force to replace it")
    folder, name = os.path.split(target)
    temporary = os.path.join(
        folder, f".{name[:_WHOLE_NAME]}.{secrets.token_hex(_RANDOM // 2)}.part"
    )
    # os.open with O_EXCL: tempfile would make the file readable by its owner alone.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_folder(folder: str | Path) -> Iterator[None]:
    """Be the only process that writes into a folder, which is made if necessary.

    The lock is that of the operating system (flock on `.lock`): it ends with the process.

    Args: folder: the folder.
    Raises:
        ConfigError: another process holds the lock, or the folder's name belongs to a file.
        OSError: the folder cannot be made or written to.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"{folder}: is not a folder; name another output") from None
    with _locked(os.path.join(folder, ".lock"), folder):
        yield


@contextmanager
def lock_file(path: str | Path) -> Iterator[None]:
    """Be the only process that writes a file, which need not exist.

    Temporary files of `replace_file` that killed processes left are removed. The lock is like that
    of `lock_folder`, on `.NAME.lock` beside the file.

    Args: path: the file.
    Raises:
        ConfigError: another process holds the lock.
        OSError: its folder is missing or cannot be written to.
    """
    folder, name = os.path.split(os.path.abspath(path))
    with _locked(os.path.join(folder, f".{name}.lock"), path):
        if len(name) <= _WHOLE_NAME:  # otherwise it could be that of another file
            pattern = f".{glob.escape(name)}.{_RANDOM * '[0-9a-f]'}.part"
            for left in glob.glob(os.path.join(glob.escape(folder), pattern)):
                os.unlink(left)
        yield


@contextmanager
def _locked(path: str, target: str | Path) -> Iterator[None]:
    descriptor = _lock(path, target)
    try:
        yield
    finally:
        # Removed while still held: whoever waits on the old file sees that it has gone.
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def _lock(path: str, folder: str | Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"{folder}: another process is writing there; wait for it or name another output"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)
