"""What every command does on the terminal: exit codes, error lines, progress."""

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
    0: "all right",
    1: "some sentences could not be read",
    2: "wrong command line or config",
    3: "bad input",
    4: "bad model",
    5: "memory, disk or device ran out",
    6: "the compiled library is missing or does not fit",
    INTERRUPTED: "interrupted",
}
_EXHAUSTED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command and turn what stops it into one line on stderr and an exit code.

    Args:
        main: the command; takes the words after its name, returns its exit code.
        arguments: those words.
    Returns:
        0 all right, 1 some sentences failed, 2 wrong command line or config, 3 bad input, 4 bad
        model, 5 memory, disk or device ran out, 6 the compiled library is missing or does
        not fit, 130 interrupted. An unexpected error keeps its traceback.
    """
    _say_without_native()
    try:
        code = main(arguments)
        sys.stdout.flush()
        return code
    except GpuparseError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Python would complain once more when
        # it flushes stdout at exit, so stdout leads nowhere from here on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _interrupted()
    except SystemError as error:
        # What Python makes of a Ctrl-C that falls just where compiled code is entered or left.
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
    """Say once, at start, why compiled code will not be used."""
    try:
        native.library()
    except NativeError as error:
        say(f"no compiled code: {error}")


def exit_codes(*codes: int) -> str:
    """What the help of a command says of its exit codes, of these and an interruption's."""
    meanings = ", ".join(f"{code} {MEANINGS[code]}" for code in (*codes, INTERRUPTED))
    return f"Exit codes: {meanings}. More: docs/files.md."


def say(text: str) -> None:
    """Write one line on stderr, under the program's name."""
    print(f"gpuparse: {text}", file=sys.stderr, flush=True)


def silent(text: str) -> None:
    """Say nothing: what `--quiet` puts in the place of `say`."""


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
    # Looked up, not imported: a command that never needed torch must not load it to fail.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)


class Progress:
    """Says on stderr how far a long piece of work is, how fast it goes and what is left.

    A line drawn over and over on a terminal; otherwise a line now and then, and always a last one.
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
            total: units in all, where that is known.
            unit: what is counted.
            quiet: say nothing at all.
            stream: where to; stderr if None.
            interval: seconds between two lines where there is no terminal.
            clock: seconds, from any start.
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
        """Count more work as done.

        Args:
            units: how much more.
            fraction: share of the whole that is done, 0..1, where only the caller can know it
                (bytes of the input read, say); otherwise it is units done of `total`.
            note: a word to show behind the figures from now on, such as a score.
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
        """Say the last line: units, seconds and rate."""
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
