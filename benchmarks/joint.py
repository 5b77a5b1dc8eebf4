"""Labels found with the trees, microseconds per sentence, against heads alone and two stages."""

import argparse
import time
from collections.abc import Callable

import numpy as np

from benchmarks.registry import Report, median_times
from benchmarks.scoring import LENGTHS, of_length
from benchmarks.subjects import add_treebank_argument, read_subject, trained_model
from gpuparse.data.batch import Batch
from gpuparse.engines.found import Found
from gpuparse.parser import Parser

GATE = ("tests/scoring/test_joint.py", "tests/scoring/test_labels.py")
SYSTEMS = (
    ("mcdonald-2005", "eisner"),
    ("extended", "eisner"),
    ("extended", "eisner_sibling"),
    ("extended", "hill_climb"),
)  # templates, decoder
KINDS = {"none": None, "second stage": "labels", "joint": "joint-labels"}
ROWS = 1 << 22


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)


def run(options: argparse.Namespace) -> Report:
    """Time the compiled parse of three models that differ in their labels."""
    treebank = read_subject(options.treebank)
    rows = []
    for features, decoder in SYSTEMS:
        for bits in (8, 16):
            models = {
                kind: trained_model(
                    treebank, features, decoder=decoder, n_rows=ROWS, labels=labels, bits=bits
                )
                for kind, labels in KINDS.items()
            }
            # Each model sees values of its own.
            batches = {
                kind: of_length(model.encode(treebank), *LENGTHS) for kind, model in models.items()
            }
            _check_backends(models["joint"], batches["joint"])
            calls = {kind: _search(model, batches[kind]) for kind, model in models.items()}
            # The search runs in a thread of a pool, which the clock of this thread does not see.
            seconds = median_times(calls, options, clock=time.process_time)
            us = {kind: 1e6 * second / len(batches[kind]) for kind, second in seconds.items()}
            table = models["joint"].linear.label_weights
            assert table is not None
            rows.append(
                [features, decoder, str(bits), len(models["joint"].labels), *us.values()]
                + [us["joint"] / us["none"], table.array.nbytes / 2**20]
            )
    notes = [
        f"Sentences of {LENGTHS[0]} to {LENGTHS[1]} words of {treebank.source}, one thread, CPU "
        "time; tables of 2^22 weights.",
        "The torch form was checked to give the same heads and labels.",
    ]
    columns = ["templates", "decoder", "bits", "labels", "heads", "second stage", "joint"]
    columns += ["joint / heads", "MiB of labels"]
    return Report("Labels, microseconds per sentence", columns, rows, notes)


def _search(model: Parser, batch: Batch) -> Callable[[], Found]:
    return lambda: model.search(batch)


def _check_backends(model: Parser, batch: Batch) -> None:
    some = batch.select(np.arange(min(len(batch), 32)))
    found, twin = model.search(some), model.search(some, backend="torch")
    assert np.array_equal(found.heads, twin.heads), "the backends disagree in heads"
    assert np.array_equal(found.labels, twin.labels), "the backends disagree in labels"
