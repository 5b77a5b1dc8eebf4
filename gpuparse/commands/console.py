"""Exit codes, error messages and progress on the terminal, for all commands."""

from __future__ import annotations

import errno
import io
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn, TextIO

# Nothing that takes long to import: an interruption is an exit code from `run` on.
from gpuparse.errors import DataError, GpuparseError, ResourceError, plural

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
    with _standard_streams(), _stopping_signals() as stopped_by:
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
    code = run(main, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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


def program(command: str) -> str:
    """How a command was called, for its usage line: `gpuparse parse`, `parse.py` in a checkout."""
    called = os.path.basename(sys.argv[0])
    if called == f"{command}.py":
        return called
    before = "python -m gpuparse" if called == "__main__.py" else "gpuparse"
    return f"{before} {command}".rstrip()


def exit_codes(*codes: int) -> str:
    """The line about these exit codes in the help of a command."""
    meanings = ", ".join(f"{code} {MEANINGS[code]}" for code in (*codes, INTERRUPTED))
    return f"Exit codes: {meanings}. More: docs/files.md."


def say(text: str) -> None:
    """Write one line on stderr, after the program's name."""
    _tell(sys.stderr, f"gpuparse: {text}\n")


def print_json(result: object) -> None:
    """Print plain data as indented JSON, in UTF-8 and not escaped."""
    json.dump(result, sys.stdout, indent=2, ensure_ascii=False)
    print()


def _tell(stream: TextIO, text: str) -> None:
    """Write a message; where it cannot be written, the work goes on without."""
    with suppress(OSError):
        stream.write(text)
        stream.flush()


def silent(text: str) -> None:
    """Write nothing: `--quiet` uses it in place of `say`."""


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


def on_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


def redraw(text: str) -> None:
    """Write a line on a terminal in place of the one there, without its end."""
    _tell(sys.stderr, f"\r\x1b[K{text}")


class Progress:
    """Shows the progress, speed and remaining time of some work on stderr.

    On a terminal, one line that is redrawn; otherwise a line every few seconds and a last one.
    """

    def __init__(
        self,
        what: str,
        *,
        total: int | None = None,
        quiet: bool = False,
        stream: TextIO | None = None,
        interval: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        since: float | None = None,
    ) -> None:
        """
        Args:
            what: the work, such as "parsing".
            total: total number of sentences, if known.
            quiet: write nothing.
            stream: where to write; stderr if None.
            interval: seconds between two lines without a terminal.
            clock: returns seconds from any start.
            since: when the work began, by the clock; now if None.
        """
        self._what, self._total, self._quiet = what, total, quiet
        self._stream = sys.stderr if stream is None else stream
        self._on_terminal = self._stream.isatty()
        self._interval = 0.1 if self._on_terminal else interval
        self._clock = clock
        self._started = self._said = clock() if since is None else since
        self._done = 0
        self._fraction: float | None = 0.0 if total else None
        self._note = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None or self._done or self._on_terminal:
            self.close()  # an error before the first sentence is told alone

    def advance(
        self, sentences: int, *, fraction: float | None = None, note: str | None = None
    ) -> None:
        """Count more sentences as done.

        Args:
            sentences: number of further sentences.
            fraction: share of the work that is done, 0..1, if the caller knows it (such as the
                share of bytes read); otherwise it is the share of `total`.
            note: text to show after the figures from now on, such as a score.
        """
        self._done += sentences
        if fraction is not None:
            self._fraction = min(1.0, fraction)
        elif self._total:
            self._fraction = min(1.0, self._done / self._total)
        if note is not None:
            self._note = note
        now = self._clock()
        if now - self._said >= self._interval:
            self._said = now
            self._write(now, last=False)

    def close(self) -> None:
        """Write the last line: sentences, seconds and rate."""
        self._write(self._clock(), last=True)

    def _write(self, now: float, *, last: bool) -> None:
        if self._quiet:
            return
        text = f"gpuparse: {self._what}: {self._figures(now - self._started, last=last)}"
        if self._on_terminal:
            _tell(self._stream, f"\r\x1b[K{text}" + ("\n" if last else ""))
        else:
            _tell(self._stream, f"{text}\n")

    def _figures(self, seconds: float, *, last: bool) -> str:
        rate = self._done / seconds if seconds > 0 else 0.0
        count = plural(self._done, "sentence")
        speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2f}/s"
        note = f", {self._note}" if self._note else ""
        if last:
            return f"{count} in {seconds:.1f} s, {speed}{note}"
        if not self._fraction:
            return f"{count}, {speed}{note}"
        left = seconds * (1.0 - self._fraction) / self._fraction
        share = bar(self._fraction) if self._on_terminal else f"{100 * self._fraction:3.0f}%"
        return f"{share} {count}, {speed}, {clock_time(left)} left{note}"


def bar(fraction: float) -> str:
    """A share of some work as percent and a bar."""
    return f"{100 * fraction:3.0f}% [{'#' * int(20 * fraction):<20}]"


def clock_time(seconds: float) -> str:
    """A time as `1:30`, or with hours `2:01:30`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
