"""File to file on the processors of the machine, by number of workers."""

import argparse
import tempfile
from pathlib import Path

from benchmarks.on_device.contest import Contest
from benchmarks.scaling import COLUMNS, parsed
from benchmarks.subjects import learned_model, long_input
from gpuparse.data.conll import read_treebank
from gpuparse.jobs.resources import available_processors

__all__ = ["COLUMNS", "TITLE", "run"]

TITLE = "Parsing by several workers, from file to file"
WORKERS = (1, 2, 4, 8, 16)
COPIES, SECONDS = 100, 10.0  # of the input, at most; of one worker, about


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Parse gold tags with `fast`, and raw text with `english`, by each number of workers."""
    for name in ("fast", "english"):
        with contest.attempt(name), tempfile.TemporaryDirectory() as made:
            _one_model(contest, name, Path(made), small=options.small)
    contest.note("One run each, its start left out; MB: the most memory that a process held.")


def _one_model(contest: Contest, name: str, folder: Path, *, small: bool) -> None:
    raw, out, expected = name == "english", folder / "out.conllu", b""
    model = name if raw else learned_model(name, folder, small=small)
    _, text = long_input(folder, 1, raw=raw)
    seconds = 0.02 if small else SECONDS
    copies = min(COPIES, max(1, int(seconds / parsed(model, text, out, 1).seconds)))
    _, text = long_input(folder, copies, raw=raw)
    for n in WORKERS:
        if n > available_processors() or contest.is_over(f"{name} with {n} workers"):
            continue
        run = parsed(model, text, out, n)
        if not expected:
            expected, n_words, alone = (
                out.read_bytes(),
                read_treebank(str(out)).n_words,
                run.seconds,
            )
        if out.read_bytes() != expected:
            raise AssertionError(f"{n} workers write other bytes than one")
        rates = n_words / run.seconds, alone / run.seconds
        contest.add([name, Path(text).name, n, *rates, run.share, run.memory / 1024])
