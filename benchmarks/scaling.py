"""Words per second from file to file by number of workers, and the main process's share of work.

    python -m benchmarks scaling MODEL INPUT [MODEL INPUT ...] --workers 1 2 4

Each run is a process of its own, which parses a word before the clock starts, so that the start is
not counted; numbers of workers take turns, and the median of their times counts. The output of all
must be the same bytes. The share of the main process is its part of the CPU time: it parses the
first piece, cuts the input and writes the output, so that n workers are at most 1 / share times as
fast as one. The memory is that of the largest process, the model included.
"""

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import gpuparse
from benchmarks.registry import Report
from gpuparse.data.formats.names import is_table
from gpuparse.errors import ConfigError

GATE = ("tests/commands/test_workers.py",)
COLUMNS = ["model", "input", "workers", "words/s", "times one", "main process %", "MB"]
_RUN = """\
import resource, sys, time
from gpuparse.commands import parse
model, given, first, out, *more = sys.argv[1:]
more += ["--quiet", "--force", "--output"]
if parse.main([model, first, "--allow-missing", *more, f"{out}.conllu"]):
    sys.exit(f"{first} cannot be parsed")
usage = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
def cpu():
    return [sum(resource.getrusage(which)[:2]) for which in usage]
before, began = cpu(), time.perf_counter()
if parse.main([model, given, *more, out]):
    sys.exit(f"{given} cannot be parsed")
print(time.perf_counter() - began, *(now - was for now, was in zip(cpu(), before)))
own = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(max(int(own), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("given", nargs="+", metavar="MODEL INPUT", help="models, each with a file")
    parser.add_argument(
        "--workers",
        nargs="+",
        type=int,
        default=[1, 2],
        metavar="N",
        help="processes that parse (%(default)s)",
    )


def check(options: argparse.Namespace) -> None:
    """Raises: ConfigError: a model without an input; no workers."""
    if len(options.given) % 2:
        raise ConfigError("scaling: give an input for each model")
    if min(options.workers) < 1:
        raise ConfigError("--workers: at least 1 is needed")


def run(options: argparse.Namespace) -> Report:
    """Parse each input with each number of workers."""
    rows: list[list[object]] = []
    for model, text in zip(options.given[::2], options.given[1::2], strict=True):
        rows += _rows_of(model, text, options)
    notes = [f"Median of {options.repeats} rounds; MB: the most memory that a process held."]
    return Report("Parsing by several workers, from file to file", COLUMNS, rows, notes)


class Run(NamedTuple):
    """CPU seconds of the main process and of all others; kilobytes of the largest one."""

    seconds: float
    main: float
    others: float
    memory: float

    @property
    def share(self) -> float | None:
        """The main process's part of the CPU time, in percent; None if there is no other one."""
        return 100 * self.main / (self.main + self.others) if self.others else None


def parsed(
    model: str, text: str, out: Path, threads: int, *, device: str = "cpu", first: str | None = None
) -> Run:
    """Parse a file into another one in a process of its own, after what `first` has: a word."""
    if first is None:
        word = out.with_name("word.conllu")
        word.write_text("1\tword" + "\t_" * 8 + "\n\n")
        first = str(word)
    words = [model, text, first, str(out), f"--threads={threads}", f"--device={device}"]
    done = subprocess.run([sys.executable, "-c", _RUN, *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"{model}, {text}: exit code {done.returncode}")
    return Run(*(float(number) for number in done.stdout.split()))


def _rows_of(model: str, text: str, options: argparse.Namespace) -> list[list[object]]:
    found: dict[int, list[Run]] = {n: [] for n in options.workers}
    sums = set()
    suffix = Path(text).suffix
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"out{suffix if is_table(suffix[1:]) else '.conllu'}"
        for _ in range(options.repeats):
            for n in options.workers:
                found[n].append(parsed(model, text, out, n))
                sums.add(hashlib.sha256(out.read_bytes()).digest())
        if len(sums) > 1:
            raise RuntimeError(f"{model}, {text}: numbers of workers give different bytes")
    n_words = sum(len(sentence) for sentence in gpuparse.load(model).stream(text))
    rows: list[list[object]] = []
    first = statistics.median(run.seconds for run in found[options.workers[0]])
    for n, runs in found.items():
        run = Run(*(statistics.median(each) for each in zip(*runs, strict=True)))
        names, times = (Path(model).name, Path(text).name), first / run.seconds * options.workers[0]
        rows.append([*names, n, n_words / run.seconds, times, run.share, run.memory / 1024])
    return rows
