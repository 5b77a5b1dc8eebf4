"""File to file with one thread: sentences a second."""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.registry import Report
from benchmarks.subjects import HIGHER, add_treebank_argument, read_subject, trained_model
from gpuparse.commands import parse
from gpuparse.data.treebank import Treebank
from gpuparse.model.folder import save_parser
from gpuparse.model.parser import Parser

GATE = ("tests/test_model.py",)
SETS = ("mcdonald-2005", "extended")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)
    parser.add_argument(
        "--sentences", type=int, default=100_000, help="the text is repeated to this number"
    )


def run(options: argparse.Namespace) -> Report:
    """Parse a repeated text by the command, once by each system."""
    treebank = read_subject(options.treebank)
    copies = max(1, options.sentences // len(treebank))
    rows = []
    systems = [(features, "eisner", "labels") for features in SETS]
    systems += [(features, decoder, "joint-labels") for features, decoder in HIGHER]
    for features, decoder, labels in systems:
        model = trained_model(treebank, features, decoder=decoder, n_rows=1 << 22, labels=labels)
        seconds = _file_to_file(model, treebank, copies)
        rows.append([features, decoder, copies * len(treebank) / seconds])
    notes = [
        f"{treebank.source}, {treebank.n_words / len(treebank):.1f} words a sentence, repeated "
        f"{copies} times; 2^22 rows, 16-bit weights, labels included; CPU time of the process.",
    ]
    columns = ["templates", "decoder", "sentences/s"]
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
    options = ["--output", f"{output}/", "--threads", str(threads), "--device", "cpu", "--quiet"]
    parse.main([str(model), str(text), *options, "--force"])
