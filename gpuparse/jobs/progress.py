"""Messages to the user on standard error, and the progress of long work."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import TextIO

from gpuparse.data.draw import printable
from gpuparse.errors import plural

INTERVAL = 10.0  # seconds between two lines without a terminal
REDRAW = 0.1  # seconds between two drawings on a terminal


def program(command: str) -> str:
    """The name of a command in its usage line: `gpuparse parse`, `parse.py` in a checkout."""
    called = os.path.basename(sys.argv[0])
    if called == f"{command}.py":
        return called
    before = "python -m gpuparse" if called == "__main__.py" else "gpuparse"
    return f"{before} {command}".rstrip()


def say(text: str) -> None:
    """Write one line on stderr, after the program's name."""
    _tell(sys.stderr, f"gpuparse: {visible(text)}\n")


def visible(text: str) -> str:
    """Lines without the characters by which names in files and of files command a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def _tell(stream: TextIO, text: str) -> None:
    """Write a message; where it cannot be written, the work goes on without."""
    with suppress(OSError):
        stream.write(text)
        stream.flush()


def silent(text: str) -> None:
    """Write nothing; in place of `say` where messages are not wanted."""


def on_terminal() -> bool:
    """True if stderr is a terminal."""
    return sys.stderr.isatty()


def redraw(text: str) -> None:
    """Write a line on a terminal in place of the one there, without its end."""
    _tell(sys.stderr, f"\r\x1b[K{visible(text)}")


class Progress:
    """Shows the progress, speed and remaining time of some work on stderr.

    On a terminal, one line that is redrawn; otherwise a line every few seconds and a last one.
    """

    def __init__(self, what: str, *, total: int | None = None, quiet: bool = False) -> None:
        """
        Args:
            what: the work, such as "parsing".
            total: total number of sentences, if known.
            quiet: write nothing.
        """
        self._what, self._total, self._quiet = what, total, quiet
        self._stream = sys.stderr
        self._on_terminal = on_terminal()
        self._interval = REDRAW if self._on_terminal else INTERVAL
        self._started = self._said = time.monotonic()
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
        now = time.monotonic()
        if now - self._said >= self._interval:
            self._said = now
            self._write(now, last=False)

    def close(self) -> None:
        """Write the last line: sentences, seconds and rate."""
        self._write(time.monotonic(), last=True)

    def _write(self, now: float, *, last: bool) -> None:
        if self._quiet:
            return
        figures = self._figures(now - self._started, last=last)
        text = visible(f"gpuparse: {self._what}: {figures}")
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
