"""Peak memory of parsing a file and one ten times as long: the difference should be nothing."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.registry import Report
from benchmarks.subjects import add_treebank_argument, read_subject, trained_model
from gpuparse.model_folder import save_parser

GATE = ("tests/test_model.py",)
_CHILD = """
import resource, sys
from gpuparse.commands import parse
code = parse.main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)
    parser.add_argument(
        "--sentences", type=int, default=1_000_000, help="of the longer file; the other has a tenth"
    )


def run(options: argparse.Namespace) -> Report:
    """Parse both files in processes of their own."""
    treebank = read_subject(options.treebank)
    model = trained_model(treebank, "mcdonald-2005", n_rows=1 << 22, labels="labels")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_parser(model, folder)
        for sentences in (options.sentences // 10, options.sentences):
            copies = max(1, sentences // len(treebank))
            text = folder / "input.conllu"
            with text.open("wb") as file:
                for _ in range(copies):
                    file.write(treebank.data.tobytes())
            command = [sys.executable, "-c", _CHILD, str(folder), str(text)]
            threads = ["--threads", str(options.threads), "--quiet", "--device", "cpu"]
            done = subprocess.run(
                command + threads, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True
            )
            kibibytes = int(done.stderr.split()[-1])
            rows.append(
                ["parse", copies * len(treebank), text.stat().st_size / 1e6, kibibytes / 1024]
            )
    notes = ["Peak resident memory of a process that parses the file to standard output."]
    columns = ["command", "sentences", "input, MB", "peak, MiB"]
    return Report("Memory while parsing", columns, rows, notes)
