"""How fast treebanks are read and written, beside splitting the same bytes at tabs and line feeds.

Without files it takes a generated treebank. One thread, seconds of CPU time, best of several runs.
"""

import argparse
import gc
import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.registry import Report
from gpuparse.data.conll import stream_treebanks, treebank_from_bytes, write_predictions
from tests.synthetic import generate

GATE = ("tests/data/test_conll.py",)
REPEATS = 7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files to read."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")


def run(options: argparse.Namespace) -> Report:
    """One row for each way through each file."""
    texts = [(path.name, path.read_bytes()) for path in options.files]
    rows = []
    for name, text in texts or [("generated, 20,000 sentences", generate(20_000, 1))]:
        rates = measure(text)
        for what, rate in rates.items():
            rows.append([name, len(text) / 1e6, what, rate, rate / rates["bytes.split"]])
    columns = ["file", "MB", "what", "MB/s", "x bytes.split"]
    return Report("Reading and writing treebanks", columns, rows)


def measure(text: bytes) -> dict[str, float]:
    """MB/s of each way to go through the text, once the output is known to be right."""
    treebank = treebank_from_bytes(text, "text")
    if write_predictions(treebank, treebank.heads) != text:
        raise SystemExit("the text does not come back as it was: nothing to measure")
    relations = [treebank.column(w, 7).encode() for w in range(treebank.n_words)]
    names = sorted(set(relations))
    place = {name: i for i, name in enumerate(names)}
    labels = np.array([place[relation] for relation in relations], np.int32)
    if write_predictions(treebank, treebank.heads, names, labels) != text:
        raise SystemExit("the relations do not come back as they were: nothing to measure")

    def read_and_write() -> bytes:
        again = treebank_from_bytes(text, "text")
        return write_predictions(again, again.heads)

    def stream_and_write() -> int:
        chunks = stream_treebanks(io.BytesIO(text), "text")
        return sum(len(write_predictions(chunk, chunk.heads)) for chunk in chunks)

    ways: dict[str, Callable[[], object]] = {
        "bytes.split": lambda: [line.split(b"\t") for line in text.split(b"\n")],
        "read": lambda: treebank_from_bytes(text, "text"),
        "write heads": lambda: write_predictions(treebank, treebank.heads),
        "write heads and relations": lambda: write_predictions(
            treebank, treebank.heads, names, labels
        ),
        "read whole, write heads": read_and_write,
        "stream, write heads": stream_and_write,
    }
    return {what: len(text) / 1e6 / best_time(way) for what, way in ways.items()}


def best_time(way: Callable[[], object]) -> float:
    """Least seconds of this thread's CPU time that one call took."""
    times = []
    gc.disable()  # else the time of bytes.split is mostly the collector's
    for _ in range(REPEATS):
        start = time.thread_time()
        way()
        times.append(time.thread_time() - start)
    gc.enable()
    return min(times)
