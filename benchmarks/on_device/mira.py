"""Learning templates by MIRA in mini-batches, on a device and by native code on all processors."""

import argparse
import tempfile
import time
from pathlib import Path

import gpuparse
from benchmarks.on_device.contest import Contest
from tests.synthetic import treebank_file

TITLE = "Learning by MIRA on a device"
COLUMNS = ["config", "device", "batch size", "seconds per epoch", "sentences/s"]
SENTENCES = 4000
BATCH_SIZES = (256, 64, 1024)
EPOCHS = 5  # the difference to one is what counts


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Time an epoch as the difference of two runs, after a run that is not timed."""
    sentences = 30 if options.small else SENTENCES
    for size in BATCH_SIZES[:1] if options.small else BATCH_SIZES:
        for device in dict.fromkeys(["cpu", contest.device.type]):
            what = f"batches of {size} on {device}"
            if contest.is_over(what):
                continue
            with contest.attempt(what):
                keys = {"data.train": treebank_file(sentences, 1), "device": device, "threads": 0}
                keys |= {"learning.batch_size": size, "labels.kind": "none"}
                _, one, several = (_seconds(keys, epochs) for epochs in (1, 1, EPOCHS))
                epoch = max(1e-9, (several - one) / (EPOCHS - 1))
                contest.add(["first-order-projective", device, size, epoch, sentences / epoch])
    contest.note(
        f"{sentences:,} generated sentences; time on the clock of {EPOCHS} epochs less that of "
        f"one, over {EPOCHS - 1}."
    )


def _seconds(keys: dict[str, object], epochs: int) -> float:
    """Seconds of a run."""
    with tempfile.TemporaryDirectory() as folder:
        given = keys | {"learning.epochs": epochs, "output": Path(folder, "model")}
        begin = time.perf_counter()
        gpuparse.train("first-order-projective", given, quiet=True)
        return time.perf_counter() - begin
