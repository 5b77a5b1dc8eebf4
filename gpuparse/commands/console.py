"""Exit codes, error messages and progress on the terminal, for all commands."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TextIO

from gpuparse import native
from gpuparse.errors import DataError, GpuparseError, NativeError, ResourceError

INTERRUPTED = 130
MEANINGS = {
    0: "success",
    1: "some sentences failed",
    2: "wrong command line or config",
    3: "bad input",
    4: "bad model",
    5: "out of memory, disk space or device memory",
    6: "the compiled library is missing or does not fit",
    INTERRUPTED: "interrupted",
}
_EXHAUSTED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command, and turn an error into one line on stderr and an exit code.

    Args:
        main: the command; takes its arguments and returns its exit code.
        arguments: its arguments.
    Returns: one of MEANINGS. An unexpected error keeps its traceback.
    """
    _say_without_native()
    try:
        code = main(arguments)
        sys.stdout.flush()
        return code
    except GpuparseError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader closed our output, as `head` does. Python would raise again when it flushes
        # stdout at exit, so redirect stdout to nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _interrupted()
    except SystemError as error:
        # Python makes this of a Ctrl-C at the moment when native code is entered or left.
        if isinstance(_first_cause(error), KeyboardInterrupt):
            return _interrupted()
        raise
    except OSError as error:
        if error.errno in _EXHAUSTED:
            return _fail(_with_file(error), ResourceError.exit_code)
        if error.filename is not None:
            return _fail(_with_file(error), DataError.exit_code)
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or _is_device_memory_error(error):
            return _fail(f"out of memory: {error}".rstrip(": "), ResourceError.exit_code)
        raise


def _say_without_native() -> None:
    """Say once, at start, why native code will not be used."""
    try:
        native.library()
    except NativeError as error:
        say(f"no native code, so all work is much slower: {error}")


def exit_codes(*codes: int) -> str:
    """The line about these exit codes in the help of a command."""
    meanings = ", ".join(f"{code} {MEANINGS[code]}" for code in (*codes, INTERRUPTED))
    return f"Exit codes: {meanings}. More: docs/files.md."


def say(text: str) -> None:
    """Write one line on stderr, after the program's name."""
    print(f"gpuparse: {text}", file=sys.stderr, flush=True)


def silent(text: str) -> None:
    """Write nothing: `--quiet` uses it in place of `say`."""


def _fail(text: str, code: int) -> int:
    for line in text.splitlines():
        say(f"error: {line}")
    return code


def _interrupted() -> int:
    say("interrupted")
    return INTERRUPTED


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _with_file(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _is_device_memory_error(error: Exception) -> bool:
    # Looked up, not imported: a command that did not need torch must not load it now.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)


class Progress:
    """Shows the progress, speed and remaining time of some work on stderr.

    On a terminal, one line that is redrawn; otherwise a line every few seconds and a last one.
    """

    def __init__(
        self,
        what: str,
        *,
        total: int | None = None,
        unit: str = "sentences",
        quiet: bool = False,
        stream: TextIO | None = None,
        interval: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        since: float | None = None,
    ) -> None:
        """
        Args:
            what: the work, such as "parsing".
            total: total number of units, if known.
            unit: name of the units.
            quiet: write nothing.
            stream: where to write; stderr if None.
            interval: seconds between two lines without a terminal.
            clock: returns seconds from any start.
            since: when the work began, by the clock; now if None.
        """
        self._what, self._total, self._unit, self._quiet = what, total, unit, quiet
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
        self.close()

    def advance(
        self, units: int, *, fraction: float | None = None, note: str | None = None
    ) -> None:
        """Count more units as done.

        Args:
            units: number of further units.
            fraction: share of the work that is done, 0..1, if the caller knows it (such as the
                share of bytes read); otherwise it is the share of `total`.
            note: text to show after the figures from now on, such as a score.
        """
        self._done += units
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
        """Write the last line: units, seconds and rate."""
        self._write(self._clock(), last=True)

    def _write(self, now: float, *, last: bool) -> None:
        if self._quiet:
            return
        text = f"gpuparse: {self._what}: {self._figures(now - self._started, last=last)}"
        if self._on_terminal:
            self._stream.write(f"\r\x1b[K{text}" + ("\n" if last else ""))
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def _figures(self, seconds: float, *, last: bool) -> str:
        rate = self._done / seconds if seconds > 0 else 0.0
        count = f"{self._done:,} {self._unit}"
        speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2f}/s"
        note = f", {self._note}" if self._note else ""
        if last:
            return f"{count} in {seconds:.1f} s, {speed}{note}"
        if not self._fraction:
            return f"{count}, {speed}{note}"
        left = seconds * (1.0 - self._fraction) / self._fraction
        bar = f" [{'#' * int(20 * self._fraction):<20}]" if self._on_terminal else ""
        return f"{100 * self._fraction:3.0f}%{bar} {count}, {speed}, {_clock_time(left)} left{note}"


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
