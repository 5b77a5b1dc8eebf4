"""Words per second from file to file by number of threads, and the share of work that one does.

    python -m benchmarks scaling MODEL INPUT [MODEL INPUT ...] --workers 1 2 4

Each run is a process of its own, which parses the input once before the clock starts, so that the
start is not counted; numbers of threads take turns, and the median of their times counts. The
output of all must be the same bytes. The serial share s is that of Amdahl's law, from the speed-up
S of n threads: s = (n / S - 1) / (n - 1). The share of the main thread is its CPU time in the CPU
time of all threads.
"""

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import gpuparse
from benchmarks.registry import Report
from gpuparse.errors import ConfigError

GATE = ("tests/test_threads.py",)
_RUN = """\
import resource, sys, time
from gpuparse.commands import parse
words = [*sys.argv[1:4], "--quiet", "--device", "cpu", "--force", "--output", sys.argv[4]]
parse.main(words)
clocks = time.perf_counter, time.process_time, time.thread_time
before = [clock() for clock in clocks]
parse.main(words)
print(*(clock() - was for clock, was in zip(clocks, before)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("given", nargs="+", metavar="MODEL INPUT", help="models, each with a file")
    parser.add_argument(
        "--workers", nargs="+", type=int, default=[1, 2], metavar="N", help="threads (%(default)s)"
    )


def check(options: argparse.Namespace) -> None:
    """Raises: ConfigError: a model without an input; no threads."""
    if len(options.given) % 2:
        raise ConfigError("scaling: give an input for each model")
    if min(options.workers) < 1:
        raise ConfigError("--workers: at least 1 is needed")


def run(options: argparse.Namespace) -> Report:
    """Parse each input with each number of threads."""
    rows: list[list[object]] = []
    for model, text in zip(options.given[::2], options.given[1::2], strict=True):
        rows += _rows_of(model, text, options)
    columns = [
        "model", "input", "threads", "words/s", "times one", "serial %", "main thread %", "MB",
    ]  # fmt: skip
    notes = [f"Median of {options.repeats} rounds; MB: the most memory that a process held."]
    return Report("Parsing by several threads, from file to file", columns, rows, notes)


def _rows_of(model: str, text: str, options: argparse.Namespace) -> list[list[object]]:
    found: dict[int, list[list[float]]] = {n: [] for n in options.workers}
    sums = set()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            for n in options.workers:
                out = Path(folder) / f"out{''.join(Path(text).suffixes)}"
                words = [model, text, f"--threads={n}", str(out)]
                done = subprocess.run(
                    [sys.executable, "-c", _RUN, *words], check=True, capture_output=True, text=True
                )
                found[n].append([float(number) for number in done.stdout.split()])
                sums.add(hashlib.sha256(out.read_bytes()).digest())
        if len(sums) > 1:
            raise RuntimeError(f"{model}, {text}: numbers of threads give different bytes")
    n_words = sum(len(sentence) for sentence in gpuparse.load(model).stream(text))
    rows: list[list[object]] = []
    first = statistics.median(run[0] for run in found[options.workers[0]])
    for n, runs in found.items():
        seconds, cpu, main, memory = (statistics.median(each) for each in zip(*runs, strict=True))
        speedup = first / seconds * options.workers[0]
        serial = 100 * (n / speedup - 1) / (n - 1) if n > 1 else None
        names = Path(model).name, Path(text).name
        rows.append(
            [*names, n, n_words / seconds, speedup, serial, 100 * main / cpu, memory / 1024]
        )
    return rows
