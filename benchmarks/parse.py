"""File to file with one thread: sentences a second, and where the time goes."""

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.registry import Report
from benchmarks.subjects import HIGHER, add_treebank_argument, read_subject, trained_model
from gpuparse.commands import parse
from gpuparse.data.batch import word_places
from gpuparse.data.conll import treebank_from_bytes, write_predictions
from gpuparse.data.treebank import Treebank
from gpuparse.model_folder import save_parser
from gpuparse.parser import Parser
from gpuparse.scoring.arcs import arc_scores
from gpuparse.scoring.labels import label_ragged

GATE = ("tests/test_model.py",)
SETS = ("mcdonald-2005", "extended")
GATHER = 0.32e-9  # seconds a gather from the first-level cache, the floor of scoring


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)
    parser.add_argument(
        "--sentences", type=int, default=100_000, help="the text is repeated to so many"
    )


def run(options: argparse.Namespace) -> Report:
    """Parse a repeated text by the command, then time its stages on one copy of it."""
    treebank = read_subject(options.treebank)
    copies = max(1, options.sentences // len(treebank))
    rows = []
    for features in SETS:
        model = trained_model(treebank, features, n_rows=1 << 22, labels="labels")
        whole = _file_to_file(model, treebank, copies)
        rows.append([features, "file to file", copies * len(treebank) / whole, None, None])
        for stage, seconds, floor in _stages(model, treebank):
            per_sentence = 1e6 * seconds / len(treebank)
            share = floor / seconds if floor else None
            rows.append([features, stage, None, per_sentence, share])
    for features, decoder in HIGHER:
        model = trained_model(
            treebank, features, decoder=decoder, n_rows=1 << 22, labels="joint-labels"
        )
        whole = _file_to_file(model, treebank, copies)
        name = f"{features}, {decoder}"
        rows.append([name, "file to file", copies * len(treebank) / whole, None, None])
    notes = [
        f"{treebank.source}, {treebank.n_words / len(treebank):.1f} words a sentence, repeated "
        f"{copies} times; 2^22 rows, 16-bit weights, labels included; CPU time of the process.",
        "Floors: reading and writing, bytes.split on line and column ends and one join; scores, "
        f"every weight gathered from the first-level cache at {1e9 * GATHER} ns.",
    ]
    columns = ["templates", "stage", "sentences/s", "us a sentence", "floor / time"]
    return Report("Parsing from file to file, one thread", columns, rows, notes)


def _file_to_file(model: Parser, treebank: Treebank, copies: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_parser(model, folder)
        text, out = folder / "input.conllu", folder / "out"
        with text.open("wb") as file:
            for _ in range(copies):
                file.write(treebank.data.tobytes())
        short = folder / "short.conllu"
        short.write_bytes(treebank.data.tobytes())
        parse_file(folder, short, out)  # loads the kernels
        begin = time.process_time()
        parse_file(folder, text, out)
        return time.process_time() - begin


def parse_file(model: Path, text: Path, output: Path, threads: int = 1) -> None:
    """Parse a file by the command, on the CPU."""
    options = ["--output", str(output), "--threads", str(threads), "--device", "cpu", "--quiet"]
    parse.main([str(model), str(text), *options, "--force"])


def _stages(model: Parser, treebank: Treebank) -> Iterator[tuple[str, float, float | None]]:
    text = treebank.data.tobytes()
    floor = _seconds(lambda: [line.split(b"\t") for line in text.split(b"\n")])
    yield "reading", _seconds(lambda: treebank_from_bytes(text, "text")), floor
    batch = model.encode(treebank)
    yield "token ids", _seconds(lambda: model.encode(treebank)), None
    order = np.argsort(batch.lengths, kind="stable")
    parts = [batch.select(order[first : first + 64]) for first in range(0, len(order), 64)]
    scores = _seconds(
        lambda: [arc_scores(part, model.plan.arcs, model.features, model.arcs) for part in parts]
    )
    yield "scores", scores, _gathers(model, batch.lengths) * GATHER
    found = model.search(batch)
    heads, labels = found.heads, found.labels
    labelling = _seconds(
        lambda: label_ragged(batch, heads, model.label_plan, model.label_weights, labels.copy())
    )
    both = _seconds(lambda: model.search(batch))
    yield "search, and all between", max(0.0, both - scores - labelling), None
    yield "labels", labelling, None
    places = word_places(batch)
    columns = heads[places].astype(np.int32), labels[places].astype(np.int32)
    floor = _seconds(lambda: b"\n".join(text.split(b"\n")))
    writing = _seconds(
        lambda: write_predictions(treebank, columns[0], model.label_names, columns[1])
    )
    yield "writing", writing, floor


def _gathers(model: Parser, lengths: np.ndarray) -> float:
    """Weights that the pair families read for all arcs."""
    per_arc = len(model.plan.arcs.pair) + int((model.plan.arcs.pair["second_codes"] >= 0).sum())
    return float(per_arc * (lengths * lengths).sum())


def _seconds(call: Callable[[], object]) -> float:
    """The least CPU time of five calls."""
    times = []
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(5):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
    return min(times)
