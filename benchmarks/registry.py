"""Benchmark cases, and the modules in which they are found.

A case is a file of this folder with

    GATE: tuple[str, ...]                 the tests that must pass before it may print a number
    add_arguments(parser) -> None         optional: its own options
    check(options) -> None                optional: raises what makes it pointless to begin
    run(options: argparse.Namespace) -> Report

whose first line of docstring says what it measures. `options.threads` and `options.repeats` are
always there.
A case checks that whatever it compares gives equal results before it times it.
"""

import argparse
import importlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent
NOT_CASES = {"__init__", "__main__", "freeze", "freeze_doors", "plots", "registry", "subjects"}


@dataclass(frozen=True)
class Report:
    """A table of figures; `notes` say how they were taken and what was left out, and why."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    notes: list[str] = field(default_factory=list)

    def as_text(self) -> str:
        """Aligned columns: words to the left, numbers to the right."""
        table = [self.columns, *([_text(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[c]) for row in table) for c in range(len(self.columns))]
        is_word = [bool(self.rows) and isinstance(self.rows[0][c], str) for c in range(len(widths))]
        lines = [
            "  ".join(
                cell.ljust(width) if word else cell.rjust(width)
                for cell, width, word in zip(row, widths, is_word, strict=True)
            ).rstrip()
            for row in table
        ]
        lines.insert(1, "-" * sum(widths, 2 * (len(widths) - 1)))
        return "\n".join([self.title, "", *lines, "", *self.notes])


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return str(cell)


def case_names() -> list[str]:
    """Names of all cases, in the order of the alphabet."""
    return sorted({path.stem for path in FOLDER.glob("*.py")} - NOT_CASES)


def load_case(name: str) -> ModuleType:
    """The case of that name (only the one that is asked for is imported)."""
    return importlib.import_module(f"benchmarks.{name}")


def gate_is_green(gate: tuple[str, ...]) -> bool:
    """Run the tests of a gate in a process of their own; their output goes to stderr."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *gate]
    return (
        subprocess.run(command, cwd=FOLDER.parent, stdout=sys.stderr, check=False).returncode == 0
    )


def median_times(
    contestants: dict[str, Callable[[], object]],
    options: argparse.Namespace,
    *,
    least: float = 0.004,
    clock: Callable[[], float] | None = None,
) -> dict[str, float]:
    """Seconds of one call of each contestant: median over `options.repeats` rounds.

    With one thread the CPU time of this thread counts, which other programs do not disturb much;
    with more, time on the clock. The contestants take turns within a round, so that a slow moment
    of the machine meets all of them.

    Args:
        contestants: what to call, by name.
        options: `threads` and `repeats`.
        least: a call shorter than this many seconds is repeated within its turn.
        clock: another clock to go by.
    """
    if clock is None:
        clock = time.thread_time if options.threads == 1 else time.perf_counter
    calls: dict[str, int] = {}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for name, call in contestants.items():
        call()
        begin = clock()
        call()
        calls[name] = max(1, round(least / max(clock() - begin, 1e-7)))
    for _ in range(options.repeats):
        for name, call in contestants.items():
            begin = clock()
            for _ in range(calls[name]):
                call()
            seconds[name].append((clock() - begin) / calls[name])
    return {name: statistics.median(times) for name, times in seconds.items()}
