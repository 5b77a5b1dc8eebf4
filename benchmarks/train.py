"""Online training, one sentence at a time: sentences a second of CPU time."""

import argparse
import time

from benchmarks.registry import Report
from benchmarks.subjects import HIGHER, SYSTEMS, add_treebank_argument, options_for, read_subject
from gpuparse.data.treebank import Treebank
from gpuparse.features.templates import load_templates
from gpuparse.learning.trainer import Trainer

GATE = ("tests/learning/test_mira.py", "tests/learning/test_projectivize.py")
EPOCHS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)


def run(options: argparse.Namespace) -> Report:
    """Time every epoch after the first."""
    treebank = read_subject(options.treebank)
    rows = []
    for features, decoder in (*SYSTEMS, *HIGHER):
        for cost_augmented in (False, True):
            speeds = _speeds(treebank, features, decoder, cost_augmented)
            rows.append([features, decoder, "yes" if cost_augmented else "no", *speeds])
    notes = [
        f"{len(treebank):,} sentences, {treebank.n_words:,} words of {treebank.source}; MIRA, "
        "batch_size 1, 2^22 rows.",
        "CPU time of the process, predictions and updates included; the first epoch, which also "
        "compiles or loads the kernels, is not counted.",
    ]
    columns = [
        "templates",
        "decoder",
        "cost-augmented",
        *(f"epoch {k}" for k in range(2, EPOCHS + 1)),
    ]
    return Report("Training, sentences a second of CPU time", columns, rows, notes)


def _speeds(treebank: Treebank, features: str, decoder: str, cost_augmented: bool) -> list[float]:
    options = options_for(1 << 22, epochs=EPOCHS, decoder=decoder, cost_augmented=cost_augmented)
    trainer = Trainer(treebank, load_templates(features), None, options)
    speeds, begin = [], time.process_time()
    for progress in trainer.learn():
        if progress.stage == "pruning":
            begin = time.process_time()
        elif progress.epoch_is_over:
            now = time.process_time()
            speeds.append(len(treebank) / (now - begin))
            begin = now
    return speeds[1:]
