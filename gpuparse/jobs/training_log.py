"""The lines of a training run about its progress."""

import time
from collections.abc import Callable

from gpuparse.jobs.progress import INTERVAL, REDRAW, bar, on_terminal, redraw

TAGS, CALIBRATION = "tags of data.train", "calibration"

STAGE_INTERVAL = 60.0  # between two lines of a stage without epochs of its own


class TrainingLog:
    """The lines of a run about its progress.

    On a terminal each epoch has a line, and the work at hand one that is drawn again and again.
    Elsewhere an epoch has a line if it ends a stage, or the last line is INTERVAL seconds old.

    Args:
        tell: writes a line.
        quiet: whether to write nothing.
        clock: returns seconds from any start.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        quiet: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._quiet, self._clock = tell, quiet, clock
        self._is_drawn_on = not quiet and on_terminal()
        self._said = self._drawn = clock()
        self._began: float | None = None

    def draw(self, what: str, fraction: float, note: str) -> None:
        """Show the work at hand; fraction: of it that is done. note: a figure of it."""
        now = self._clock()
        if self._is_drawn_on and now - self._drawn >= REDRAW:
            self._drawn = now
            redraw(f"gpuparse: {what}: {bar(fraction)} {note}")

    def clear(self) -> None:
        """Take away what `draw` shows, before another line is written."""
        if self._is_drawn_on:
            redraw("")

    def say(self, text: str, *, is_end: bool = True, interval: float = INTERVAL) -> None:
        """Write a line.

        Args: is_end: whether it ends a stage. interval: seconds since the last line, if not.
        """
        self.clear()
        now = self._clock()
        if not self._quiet and (is_end or self._is_drawn_on or now - self._said >= interval):
            self._said = now
            self._tell(text)

    def epoch(self, text: str, *, is_last: bool, end: str = "") -> None:
        """Write the line of an epoch.

        Args: is_last: whether it is the last one of its stage. end: more about the stage, if so.
        """
        self.say(f"{text}{end if is_last else ''}", is_end=is_last)

    def begin(self, part: str) -> Callable[[float, str], None]:
        """Begin a part without epochs; returns a function of the share that is done, and a note."""

        def watch(share: float, note: str) -> None:
            self.draw(part, share, note)
            if not self._is_drawn_on:
                text = f"{part}: {100 * share:.0f}%, {note}"
                self.say(text, is_end=False, interval=STAGE_INTERVAL)

        self._began = self._clock()
        return watch

    def end(self, part: str, text: str) -> None:
        """End such a part, or skip it if it was not begun."""
        if self._began is None:
            self.say(f"{part}: {text}")
            return
        self.say(f"{part}: {self._clock() - self._began:.1f} s, {text}")
        self._began = None
