"""Training with the device that is named in the config, in mini-batches."""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.on_device.contest import Contest
from gpuparse.commands import train
from gpuparse.jobs.records import METRICS, SCORES
from tests.synthetic import treebank_file

TITLE = "Training on a device"
CONFIG = """
output: model
features: mcdonald-2005
data: {train: none}
labels: {kind: none}
"""
COLUMNS = ["config", "device", "batch size", "seconds per epoch", "sentences/s", "same bytes again"]
SENTENCES = 4000
BATCH_SIZES = (32, 64, 256)
EPOCHS = 3  # the difference to one is what counts


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Time an epoch as the difference of two runs, and compare the models of two equal ones."""
    devices = ("cpu", "cuda") if contest.device.type == "cuda" else ("cpu",)
    sentences = 30 if options.small else SENTENCES
    for size in BATCH_SIZES[:1] if options.small else BATCH_SIZES:
        for device in devices:
            if contest.is_over(f"training on {device} with batches of {size}"):
                continue
            overrides = [
                f"device={device}", f"learning.batch_size={size}", "threads=0",
                f"data.train={treebank_file(sentences, 1)}",
            ]  # fmt: skip
            first, model = _trained([*overrides, "learning.epochs=1"])
            first, again = _trained([*overrides, "learning.epochs=1"])
            several, _ = _trained([*overrides, f"learning.epochs={EPOCHS}"])
            epoch = max(1e-9, (several - first) / (EPOCHS - 1))
            same = "yes" if model == again else "no"
            contest.rows.append(
                ["mcdonald-2005, mira", device, size, epoch, sentences / epoch, same]
            )
    contest.note(
        f"{sentences:,} generated sentences; time on the clock of {EPOCHS} epochs less that of "
        f"one, over {EPOCHS - 1}."
    )


def _trained(overrides: list[str]) -> tuple[float, dict[str, bytes]]:
    """Seconds of a run, and the files of its model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.yaml").write_text(CONFIG)
        begin = time.perf_counter()
        words = [str(folder / "run.yaml"), f"output={folder / 'model'}", *overrides, "--quiet"]
        code = train.main(words)
        seconds = time.perf_counter() - begin
        if code != 0:
            raise AssertionError(f"training ended with exit code {code}")
        files = [path for path in sorted((folder / "model").iterdir()) if path.is_file()]
        return seconds, {
            path.name: path.read_bytes() for path in files if path.name not in (METRICS, SCORES)
        }
