"""Parsing tables from file to file, beside CoNLL-U with the same sentences: CPU time per word."""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.registry import Report
from gpuparse.commands import parse
from gpuparse.data.conll import read_treebank
from gpuparse.errors import require

GATE = ("tests/commands/test_parse_tables.py",)
_COLUMNS = {"form": "forms", "lemma": "lemmas", "upos": "cpos", "xpos": "pos", "feats": "feats"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="the folder that train wrote")
    parser.add_argument("text", type=Path, metavar="FILE", help="a CoNLL-U file of some megabytes")


def check(options: argparse.Namespace) -> None:
    require("this benchmark", "pyarrow.parquet")


def run(options: argparse.Namespace) -> Report:
    """One row per format; the best of several rounds."""
    import pyarrow
    from pyarrow import ipc, parquet

    treebank = read_treebank(options.text)
    columns = {field: [getattr(s, name) for s in treebank] for field, name in _COLUMNS.items()}
    table = pyarrow.table(columns)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.conllu").write_bytes(options.text.read_bytes())
        parquet.write_table(table, folder / "in.parquet")
        with ipc.new_file(str(folder / "in.arrow"), table.schema) as writer:
            writer.write_table(table, 10_000)
        files = [folder / f"in.{suffix}" for suffix in ("conllu", "parquet", "arrow")]
        words = [
            "--output",
            name + "/out/",
            "--quiet",
            "--force",
            "--threads",
            str(options.threads),
        ]
        seconds = {file: float("inf") for file in files}
        for _ in range(options.repeats):
            for file in files:
                begin = time.process_time()
                parse.main([str(options.model), str(file), *words, "--device", "cpu"])
                seconds[file] = min(seconds[file], time.process_time() - begin)
    first = seconds[files[0]]
    rows: list[list[object]] = [
        [file.suffix[1:], 1e6 * s / treebank.n_words, s / first] for file, s in seconds.items()
    ]
    notes = [f"{len(treebank):,} sentences, {treebank.n_words:,} words; loading the model included"]
    return Report("Tables from file to file", ["format", "us per word", "x conllu"], rows, notes)
