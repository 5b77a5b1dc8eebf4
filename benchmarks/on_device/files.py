"""File to file on a device and on the processors beside it, with all workers."""

import argparse
import tempfile
from pathlib import Path

from benchmarks.on_device.contest import Contest
from benchmarks.scaling import parsed
from benchmarks.subjects import learned_model, long_input
from gpuparse.data.conll import read_treebank
from gpuparse.jobs.resources import available_processors

TITLE = "Parsing from file to file on a device"
COLUMNS = [
    "system", "on", "workers", "sentences", "seconds", "sentences/s", "words/s", "main process %",
    "MB", "same bytes",
]  # fmt: skip
VECTORS = {"features": "vectors", "labels__features": "vectors"}
SYSTEMS = {
    "word vectors": ("first-order-projective", VECTORS, 50),
    "first order": ("first-order-projective", {}, 50),
    "siblings": ("second-order-projective", {}, 50),
    "raw text": ("english", {}, 40),
}
"""Config, keys, and copies of the input, which has 4,000 sentences."""


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Parse one text by the command on both, which must write the same bytes."""
    systems = list(SYSTEMS)
    for system in [systems[0], systems[-1]] if options.small else systems:
        if not contest.is_over(system):
            with contest.attempt(system), tempfile.TemporaryDirectory() as made:
                _one_system(options, contest, system, Path(made))
    contest.note("One run each; the start, and a run on a tenth of the input before, are left out.")


def _one_system(options: argparse.Namespace, contest: Contest, system: str, folder: Path) -> None:
    name, keys, copies = SYSTEMS[system]
    raw = name == "english"
    model = name if raw else learned_model(name, folder, small=options.small, **keys)
    few, text = long_input(folder, 1 if options.small else copies, raw=raw)
    out, workers, expected = folder / "out.conllu", available_processors(), b""
    for device in dict.fromkeys(["cpu", contest.device.type]):
        if contest.is_over(f"{system} on {device}"):
            continue
        run = parsed(model, text, out, workers, device=device, first=few)
        written = out.read_bytes()
        expected = expected or written
        found = read_treebank(str(out))
        rates = (n / run.seconds for n in (len(found), found.n_words))
        contest.add(
            [system, device, workers, len(found), run.seconds, *rates, run.share,
             run.memory / 1024, "yes" if written == expected else "no"]
        )  # fmt: skip
        if written != expected:
            raise AssertionError(f"{device} writes other bytes than the CPU")
