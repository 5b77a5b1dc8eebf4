"""A table on a device as it grows: who is timed on what.

A module of this folder has a TITLE, COLUMNS, and

    run(options: argparse.Namespace, contest: Contest) -> None

which fills in rows and notes; `options.small` asks for sizes that only try the program.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from benchmarks.on_device.clock import SECONDS, device_seconds_of_a_call, seconds_of_a_call
from benchmarks.registry import Report

COLUMNS = [
    "task", "root", "n", "batch", "by", "us a call", "on device us", "sentences/s",
    "triton is x",
]  # fmt: skip
TASK, ROOT, N, BATCH, BY, CALL, ON_DEVICE, RATE, RATIO = range(len(COLUMNS))
OURS = ("triton", "torch")  # engines, the first to be compared with all others


@dataclass
class Contest:
    """Rows so far, and why some are not there.

    deadline: on the clock of `time.monotonic`; what would begin after it is left out. seconds: a
    round of calls takes about so long.
    """

    device: torch.device
    deadline: float
    seconds: float = SECONDS
    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def report(self, case: ModuleType) -> Report:
        """The part of a case's table that is measured by now."""
        return Report(case.TITLE, case.COLUMNS, self.rows, self.notes)

    def is_over(self, what: str) -> bool:
        """True if there is no time for it; that is noted."""
        if time.monotonic() < self.deadline:
            return False
        self.note(f"Left out for want of time: {what}.")
        return True

    def note(self, text: str) -> None:
        """Say it once."""
        if text not in self.notes:
            self.notes.append(text)

    def measure(
        self,
        task: Sequence[Any],
        contestants: dict[str, Callable[[], tuple[Sequence[Callable[[], object]], int]]],
    ) -> None:
        """Add a row for each contestant.

        Args:
            task: name, root, n, batch.
            contestants: name -> a function that makes ready and returns calls, each on inputs of
                its own, and how many of the batch's sentences a call does.
        """
        name, root, n, batch = task
        rows = []
        for by, make in contestants.items():
            what = f"{by} on {name}, root {root}, n = {n}, batch {batch:,}"
            if self.is_over(what):
                continue
            try:
                calls, sentences = make()
                seconds = seconds_of_a_call(calls, self.device, seconds=self.seconds)
                on_device = None
                if by in OURS:
                    on_device = device_seconds_of_a_call(calls, self.device, about=seconds)
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                self.note(f"{what}: the device has not the memory.")
                continue
            except RuntimeError as error:
                if by in OURS:
                    raise
                self.note(f"{what} failed: {str(error).splitlines()[0]}")
                continue
            whole = seconds * batch / sentences
            rows.append(
                [
                    name, root, n, batch, by, 1e6 * whole,
                    None if on_device is None else 1e6 * on_device * batch / sentences,
                    batch / whole, None,
                ]
            )  # fmt: skip
        ours = next((row[CALL] for row in rows if row[BY] == OURS[0]), None)
        for row in rows:
            row[RATIO] = row[CALL] / ours if ours else None
        self.rows += rows
