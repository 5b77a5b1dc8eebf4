"""Saved models: scores on a treebank, and words a second from file to file."""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.parse import parse_file
from benchmarks.registry import Report, median_times
from gpuparse.data.conll import read_treebank
from gpuparse.evaluation.treebanks import score_treebanks

GATE = ("tests/test_model.py", "tests/test_vector_models.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="model folders")
    parser.add_argument("--treebank", type=Path, required=True, help="gold trees to parse")
    parser.add_argument("--copies", type=int, default=20, help="of the treebank in the timed file")


def run(options: argparse.Namespace) -> Report:
    """One row a model; they take turns. The start of the command is not timed."""
    gold = read_treebank(options.treebank)
    words = gold.n_words * options.copies
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "input.conllu"
        text.write_bytes(gold.data.tobytes() * options.copies)
        calls = {
            str(model): partial(parse_file, model, text, folder / "out", options.threads)
            for model in options.models
        }
        # A parse has threads of its own for reading and writing.
        clock = time.process_time if options.threads == 1 else time.perf_counter
        seconds = median_times(calls, options, clock=clock)
        rows = []
        for model in options.models:
            parse_file(model, options.treebank, folder / "out", options.threads)
            scores = score_treebanks(gold, read_treebank(folder / "out" / options.treebank.name))
            found = [f"{each.percent:.2f}" for each in (scores.uas, scores.las)]
            first = seconds[str(options.models[0])]
            taken = seconds[str(model)]
            rows.append([model.name, *found, words / taken, first / taken])
    notes = [
        f"{options.treebank.name}, {options.copies} times over, {words:,} words,"
        f" {options.threads} threads; median of {options.repeats} rounds"
        f" of {'CPU time' if options.threads == 1 else 'time'}.",
    ]
    columns = ["model", "UAS", "LAS", "words/s", "speed, of the first"]
    return Report("Accuracy and speed of models", columns, rows, notes)
