"""Time and memory under load: short and long sentences, many models, many processes."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.registry import Report
from benchmarks.subjects import add_treebank_argument, read_subject, trained_model
from gpuparse.model_folder import save_parser

GATE = ("tests/test_model.py",)
MIB = 1 << 20
_WORDS = ("It\tit\tPRON\tPRP", "ends\tend\tVERB\tVBZ", "well\twell\tADV\tRB")
_PARSE = """
import sys
from gpuparse.commands import parse
code = parse.main(sys.argv[1:])
print("ready", file=sys.stderr, flush=True)
sys.stdin.read()
sys.exit(code)
"""
_OPTIONS = ("--quiet", "--allow-missing", "--device", "cpu", "--threads")
_LOAD = """
import sys
from pathlib import Path
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.model_folder import load_parser
folder, text, count = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes(), int(sys.argv[3])
treebank = treebank_from_bytes(text, "input")
models = []
for _ in range(count):
    models.append(load_parser(folder))
    models[-1].parse(treebank)
print("ready", file=sys.stderr, flush=True)
sys.stdin.read()
"""


def _sentence(n: int) -> str:
    rows = (f"{m + 1}\t{_WORDS[m % len(_WORDS)]}\t_\t_\t_\t_\t_\n" for m in range(n))
    return "".join(rows) + "\n"


class Child:
    """A process that says when it is ready, and then waits."""

    def __init__(self, program: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def wait(self) -> None:
        """Until it is ready. Raises: RuntimeError: it failed."""
        assert self.process.stderr
        lines = iter(self.process.stderr.readline, b"")
        said = []
        for line in lines:
            said.append(line.decode())
            if line == b"ready\n":
                return
        raise RuntimeError("".join(said))

    def use(self) -> tuple[float, float, float]:
        """CPU seconds; MiB of the peak of what is resident, and of its share of that now (PSS)."""
        folder = Path("/proc") / str(self.process.pid)
        try:
            ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
            seconds = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        except OSError:
            seconds = float("nan")
        return seconds, _field(folder / "status", "VmHWM"), _field(folder / "smaps_rollup", "Pss")

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def _field(path: Path, name: str) -> float:
    """A field of kB in MiB; not a number where it cannot be read."""
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) * 1024 / MIB if found else float("nan")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)
    parser.add_argument(
        "--sentences",
        type=int,
        default=1_000_000,
        help="of two words each; and three times as many",
    )
    parser.add_argument(
        "--words", type=int, nargs="*", default=[5_000, 100_000], help="of a sentence"
    )
    parser.add_argument("--models", type=int, default=100, help="in one process")
    parser.add_argument("--processes", type=int, default=64, help="on one model folder")


def run(options: argparse.Namespace) -> Report:
    """Parse short sentences, load models and start processes, in processes of their own."""
    model = trained_model(
        read_subject(options.treebank), "mcdonald-2005", n_rows=1 << 22, labels="labels"
    )
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name) / "model", Path(name) / "input.conllu"
        folder.mkdir()
        save_parser(model, folder)
        size = (folder / "weights.safetensors").stat().st_size / MIB
        rows = []
        inputs = [
            ("sentences of 2 words", count, _sentence(2) * count)
            for count in (options.sentences, 3 * options.sentences)
        ]
        inputs += [("words in a sentence", n, _sentence(n)) for n in options.words]
        for what, count, content in inputs:
            text.write_text(content)
            child = Child(_PARSE, *_OPTIONS, options.threads, folder, text)
            rows.append(_measured(what, count, [child]))
        text.write_text(_sentence(2))
        for count in sorted({1, options.models}):
            rows.append(
                _measured("models in one process", count, [Child(_LOAD, folder, text, count)])
            )
        began = time.monotonic()
        children = [Child(_LOAD, folder, text, 1) for _ in range(options.processes)]
        rows.append(_measured("processes", options.processes, children, began))
    notes = [
        f"The weights of the model take {size:.1f} MiB on disk. Each model that is loaded has"
        " parsed a sentence.",
        "peak: of the largest process; PSS: the sum over all processes while all are alive, where"
        " pages that processes share count once.",
    ]
    return Report(
        "Load", ["of", "count", "seconds", "CPU seconds", "peak, MiB", "PSS, MiB"], rows, notes
    )


def _measured(
    what: str, count: int, children: list[Child], began: float | None = None
) -> list[object]:
    """A row: seconds until all children are ready, and their memory then; they are ended."""
    began = time.monotonic() if began is None else began
    try:
        for child in children:
            child.wait()
        seconds = time.monotonic() - began
        cpu_seconds, peaks, shares = zip(*(child.use() for child in children), strict=True)
    finally:
        for child in children:
            child.end()
    return [what, count, seconds, sum(cpu_seconds), max(peaks), sum(shares)]
