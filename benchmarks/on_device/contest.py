"""A table on a device as it grows: who is timed on what.

A module of this folder has a TITLE, COLUMNS, and

    run(options: argparse.Namespace, contest: Contest) -> None

which fills in rows and notes; `options.small` asks for sizes that only try the program.
"""

import argparse
import dataclasses
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from benchmarks.on_device.clock import SECONDS, device_seconds_of_a_call, seconds_of_a_call
from benchmarks.registry import Report
from gpuparse.errors import one_line

COLUMNS = [
    "task", "root", "n", "batch", "by", "us per call", "on device us", "sentences/s",
    "triton is x",
]  # fmt: skip
TASK, ROOT, N, BATCH, BY, CALL, ON_DEVICE, RATE, RATIO = range(len(COLUMNS))
OURS = ("triton", "torch")  # engines, the first to be compared with all others
SHARE = 0.9  # of the time of a part, after which nothing begins
SEED = 0


@dataclass
class Contest:
    """Rows so far, and why some are not there.

    deadline: on the clock of `time.monotonic`; what would begin after it is left out. case: the
    module. path: where all is kept that is measured by now. seconds: a round of calls takes about
    so long.
    """

    device: torch.device
    deadline: float
    case: ModuleType | None = None
    path: Path | None = None
    seconds: float = SECONDS
    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, *rows: list[Any]) -> None:
        """Add rows to the table, and keep it."""
        self.rows += rows
        self.keep()

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Do some of the work; if it fails, that is kept as a fault, and the rest goes on."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.faults.append(one_line(f"{what}: {error}"))
            self.note(f"Failed: {self.faults[-1]}")

    def keep(self, **more: str) -> None:
        """Write the table so far, and more beside it, into the file."""
        if self.path is None or self.case is None:
            return
        report = Report(self.case.TITLE, self.case.COLUMNS, self.rows, self.notes)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"report": dataclasses.asdict(report), **more}))
        new.replace(self.path)

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
            self.keep()

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
        self.add(*rows)


def main() -> None:
    """Run the part that the words of this process name; see `benchmarks.gpu`."""
    module, path, end, given = sys.argv[1:]
    begin = time.monotonic()
    deadline = begin + SHARE * (float(end) - begin)
    options, case = argparse.Namespace(**json.loads(given)), import_module(module)
    seconds = 0.002 if options.small else SECONDS
    contest = Contest(torch.device(options.device), deadline, case, Path(path), seconds)
    torch.manual_seed(SEED)
    with contest.attempt(case.__name__.rpartition(".")[2]):
        case.run(options, contest)
    if contest.faults:
        contest.keep(result=f"failed: {'; '.join(contest.faults)}")
        sys.exit(1)
    contest.keep()
