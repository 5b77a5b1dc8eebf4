"""Exit codes, error messages and progress on the terminal, for all commands."""

from __future__ import annotations

import argparse
import atexit
import ctypes
import errno
import io
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, NoReturn

from gpuparse.errors import DataError, GpuparseError, ResourceError, options_named
from gpuparse.files import replace_file

# Nothing that takes long to import: an interruption is an exit code from `run` on.
from gpuparse.jobs.progress import say

INTERRUPTED = 130
MEANINGS = {
    0: "success",
    1: "some sentences failed",
    2: "wrong command line or config",
    3: "bad input",
    4: "bad model",
    5: "out of memory, disk space or device memory",
    6: "the compiled library is missing or does not fit",
    7: "a self-test failed",
    INTERRUPTED: "interrupted",
}
_STDOUT = "<stdout>"  # as the file of an error
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3)
# Bytes: blocks from this size on are given back at once, as glibc allows at most; what is kept.
_LARGE, _KEPT = 1 << 25, 1 << 28
_EXHAUSTED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command, and turn an error into one line on stderr and an exit code.

    What the command writes to stdout is written completely, or is an error. Messages that stderr
    does not take are lost, and nothing else.

    Args:
        main: the command; takes its arguments and returns its exit code.
        arguments: its arguments.
    Returns: 0 all right, 1 some sentences failed, 2 wrong command line or config, 3 bad input or
        stdout is closed, 4 bad model, 5 memory, disk or device ran out, 6 the compiled library is
        missing or does not fit, 130 interrupted. SIGTERM and SIGHUP end the process as they do
        without a handler, after the files that are being written are removed. An unexpected error
        keeps its traceback.
    """
    with options_named(as_option), _standard_streams(), _stopping_signals() as stopped_by:
        if sys.stdout is None:
            return _fail("standard output is closed; redirect it, if only to /dev/null", 3)
        try:
            return _code_of(main, arguments)
        except BaseException as error:
            # Imports and native code may make another error of an interruption.
            if stopped_by or isinstance(error, KeyboardInterrupt):
                advice = str(error) if isinstance(error, _Interrupted) else ""
                return _stopped(stopped_by[0] if stopped_by else signal.SIGINT, advice)
            raise


def as_option(name: str, *values: object) -> str:
    """An option as it is written in a command, such as `--kbest` and `--keep tags`."""
    if name == "keep_heads":  # the command has one option for all that is kept
        name, values = "keep", ("heads",)
    said = " or ".join(str(value) for value in values if value is not True)
    return f"--{name.replace('_', '-')} {said}".rstrip()


GIVE_AGAIN = "run the same command again"


class _Interrupted(KeyboardInterrupt):
    """An interruption; the text says how to go on."""


@contextmanager
def goes_on_by(advice: str) -> Iterator[None]:
    """Let an interruption of this work end with a line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise _Interrupted(advice) from error


def run_and_exit(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> NoReturn:
    """`run` a command, and end the process with its exit code, which no further Ctrl-C changes."""
    _keep_memory()
    code = run(main, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end(code)


def _keep_memory() -> None:
    """Let glibc keep the memory of arrays that are gone for the next ones.

    Otherwise the kernel clears the same pages again and again, which takes 3 to 4 % of the CPU
    time of parsing. Other C libraries stay as they are.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option:
        set_option(_MMAP_THRESHOLD, _LARGE)
        set_option(_TRIM_THRESHOLD, _KEPT)


def _end(code: int) -> NoReturn:
    """End the process, without taking apart its objects where nothing waits for that.

    That would take a twentieth of the time of a short command.
    """
    if not atexit._ncallbacks() and threading.active_count() == 1:
        with suppress(OSError, ValueError):  # or Python says why they fail
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            os._exit(code)
    sys.exit(code)


def _code_of(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    try:
        try:
            code = main(arguments)
        except SystemExit:  # argparse has written help or a usage error
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return code
    except GpuparseError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and error.filename == _STDOUT:
            return 0  # the reader closed our output, as `head` does
        if error.errno in _EXHAUSTED:
            return _fail(_with_file(error), ResourceError.exit_code)
        if error.errno is not None:
            return _fail(_with_file(error), DataError.exit_code)
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or _is_of_torch(error, "OutOfMemoryError"):
            return _fail(f"out of memory: {error}".rstrip(": "), ResourceError.exit_code)
        if _is_of_torch(error, "AcceleratorError"):
            line = str(error).partition("\n")[0]
            return _fail(f"the device failed: {line}", ResourceError.exit_code)
        raise


@contextmanager
def _stopping_signals() -> Iterator[list[int]]:
    """Let SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt unless they are ignored, as by nohup.

    Yields: The signals that have come.
    """
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # where handlers cannot be set
    before: dict[int, Any] = {}
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    for each in numbers:
        if signal.getsignal(each) not in (signal.SIG_IGN, None):
            before[each] = signal.signal(each, stop)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _standard_streams() -> Iterator[None]:
    """Let stdout write completely, and stderr never fail; a closed stdout is left as None."""
    # A file opened later must not get the number of a closed stdout or stderr, and what is written
    # there with it.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    stdout: Any = sys.stdout
    stderr = sys.stderr
    if stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (closed below)
    with suppress(AttributeError, OSError):  # in place of stdout there may be nothing, or no file
        sys.stdout = io.TextIOWrapper(
            _WholeWrites(stdout.fileno()), stdout.encoding, stdout.errors,
            line_buffering=stdout.line_buffering or stdout.write_through,
        )  # fmt: skip
    try:
        yield
    finally:
        try:
            sys.stderr.flush()
        except OSError:  # or Python would flush again, and end with a code of its own
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        if stderr is None:
            sys.stderr.close()
        sys.stdout, sys.stderr = stdout, stderr


class _WholeWrites(io.RawIOBase):
    """A descriptor to which all bytes are written; a single system call may write fewer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, content: Any, /) -> int:
        left = memoryview(content).cast("B")
        n_bytes = len(left)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError as error:
                raise OSError(error.errno, error.strerror, _STDOUT) from error
        return n_bytes


LARGEST = 10**18


def whole_number(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """The type of an option whose value is a whole number from `least` to `most`."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not is_number or not least <= int(text) <= most:
            upper = "on" if most == LARGEST and len(text) <= len(str(most)) else f"to {most:,}"
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} {upper}, not {text!r}"
            )
        return int(text)

    return read


def add_number(
    parser: argparse.ArgumentParser, name: str, least: int, meaning: str, *, most: int = LARGEST,
    default: float | None = None, metavar: str = "N",
) -> None:  # fmt: skip
    """Let a command line have an option whose value is a whole number."""
    kind = whole_number(least, most)
    parser.add_argument(name, type=kind, default=default, metavar=metavar, help=meaning)


@contextmanager
def output_file(path: str | Path | None, *, force: bool) -> Iterator[BinaryIO]:
    """A file as that of `replace_file`, or standard output without a path."""
    if path:
        with replace_file(path, force=force) as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def exit_codes(*codes: int) -> str:
    """The line about these exit codes in the help of a command."""
    meanings = ", ".join(f"{code} {MEANINGS[code]}" for code in (*codes, INTERRUPTED))
    return f"Exit codes: {meanings}. More: docs/commands.md."


def print_json(result: object) -> None:
    """Print plain data as indented JSON, in UTF-8 and not escaped."""
    json.dump(result, sys.stdout, indent=2, ensure_ascii=False)
    print()


def _fail(text: str, code: int) -> int:
    for line in text.splitlines():
        say(f"error: {line}")
    return code


def _stopped(number: int, advice: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # `run` sets it back
    said = f"interrupted; to continue, {advice}" if advice else "interrupted"
    if number != signal.SIGINT:
        if advice:
            say(said)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # whoever waits for the process sees which signal it was
    say(said)
    return INTERRUPTED


def _with_file(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _is_of_torch(error: Exception, name: str) -> bool:
    # Looked up, not imported: a command that did not need torch must not load it now.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, getattr(torch, name))
