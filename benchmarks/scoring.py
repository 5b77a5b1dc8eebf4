"""Token ids to heads, sentences of about 25 words: sentences a second, shipped template sets."""

import argparse
import os
import time

import numpy as np

from benchmarks.registry import Report, median_times
from benchmarks.subjects import SYSTEMS, add_treebank_argument, read_subject, trained_model
from gpuparse.data.batch import Batch
from gpuparse.parser import Parser

GATE = ("tests/scoring/test_arcs.py", "tests/scoring/test_siblings.py")
TABLES = ((1 << 20, 16), (1 << 22, 8), (1 << 22, 16))  # rows, bits of a weight
LENGTHS = (23, 27)
SENTENCES = 4096  # at least


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)


def run(options: argparse.Namespace) -> Report:
    """Time the compiled parse with one thread and two, and its torch twin."""
    treebank = read_subject(options.treebank)
    rows = []
    for features, decoder in SYSTEMS:
        for n_rows, bits in TABLES:
            model = trained_model(
                treebank, features, decoder=decoder, n_rows=n_rows, labels=None, bits=bits
            )
            batch = of_length(model.encode(treebank), *LENGTHS)
            _check_backends(model, batch)
            row = [features, decoder, f"2^{n_rows.bit_length() - 1}", str(bits), len(batch)]
            rows.append(row + _speeds(model, batch, options))
    notes = [
        f"Sentences of {LENGTHS[0]} to {LENGTHS[1]} words of {treebank.source}.",
        "The torch form was checked to give the same heads. One thread by CPU time, two by the "
        "clock.",
    ]
    columns = [
        "templates",
        "decoder",
        "rows",
        "bits",
        "sentences",
        "1 thread/s",
        "2 threads/s",
        "gain",
        "torch/s",
    ]
    return Report("Token ids to heads, sentences a second", columns, rows, notes)


def of_length(batch: Batch, shortest: int, longest: int) -> Batch:
    """The sentences of these lengths, repeated until they keep two threads busy."""
    fitting = (batch.lengths >= shortest) & (batch.lengths <= longest)
    chosen = np.flatnonzero(fitting)
    return batch.select(np.tile(chosen, max(1, -(-SENTENCES // len(chosen)))))


def _check_backends(model: Parser, batch: Batch) -> None:
    some = batch.select(np.arange(min(len(batch), 64)))
    twin = model.search(some, backend="torch").heads
    assert np.array_equal(model.search(some).heads, twin), "the backends disagree"


def _speeds(model: Parser, batch: Batch, options: argparse.Namespace) -> list[float | None]:
    one = argparse.Namespace(threads=1, repeats=options.repeats)
    # The search runs in a thread of a pool, which the clock of this thread does not see.
    calls = {"one": lambda: model.search(batch)}
    single = median_times(calls, one, clock=time.process_time)["one"]
    wall = median_times(
        calls | {"two": lambda: model.search(batch, threads=2)}, one, clock=time.perf_counter
    )
    some = batch.select(np.arange(min(len(batch), 64)))
    torch_call = {"torch": lambda: model.search(some, backend="torch")}
    twin = median_times(torch_call, one, clock=time.process_time)["torch"]
    two = len(batch) / wall["two"] if (os.cpu_count() or 1) > 1 else None
    gain = wall["one"] / wall["two"] if two else None
    return [len(batch) / single, two, gain, len(some) / twin]
