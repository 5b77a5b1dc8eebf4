"""CPU seconds from the start of a process to the trees of a sentence, of this code and of another.

    python -m benchmarks start MODEL [MODEL ...] --old FOLDER

The two checkouts run each task in turn, so a slow moment of the machine meets both; the least CPU
time (user and system) of all rounds counts. One round before them is not counted: it checks the
models completely, and compiles modules.
"""

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.registry import Report
from gpuparse.model.pipeline import load_stages

GATE = ("tests/test_array_file.py", "tests/commands/test_start.py")
_ROOT = Path(__file__).resolve().parents[1]
_WORDS = ("She", "sings", "an", "old", "song", "about", "the", "sea", "every", "morning", ".")
_LOAD = "import sys, gpuparse; parser = gpuparse.load(sys.argv[1])"
_TEXT = f"{_LOAD}; print(parser.parse_text(sys.argv[2]))"
_OF_WORDS = f"{_LOAD[:-1]}, allow_missing=True); print(parser.parse([sys.argv[2].split()]))"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="model folders")
    parser.add_argument("--old", type=Path, help="another checkout, with its compiled library")
    parser.add_argument("--rounds", type=int, default=20, help="of each task (%(default)s)")


def run(options: argparse.Namespace) -> Report:
    """Run all tasks in processes of their own; both checkouts must print the same."""
    text = " ".join(_WORDS)
    tasks = [("import numpy", ["-c", "import numpy"], b"")]
    for model in options.models:
        folder = str(model.resolve())
        has_tokens = load_stages(model).tokenizer is not None
        rest = "\t_" * 8
        rows = "".join(f"{i}\t{word}{rest}\n" for i, word in enumerate(_WORDS, start=1))
        given = f"{text}\n" if has_tokens else f"{rows}\n"
        tasks += [
            (
                f"gpuparse parse {model.name}, a sentence",
                ["-m", "gpuparse", "parse", folder, "--quiet", "--allow-missing"],
                given.encode(),
            ),
            (f'gpuparse.load("{model.name}")', ["-c", _LOAD, folder], b""),
            (
                f"the same, and {'parse_text' if has_tokens else 'parse'}",
                ["-c", _TEXT if has_tokens else _OF_WORDS, folder, text],
                b"",
            ),
        ]
    roots = [_ROOT] + ([options.old.resolve()] if options.old else [])
    table: list[list[object]] = []
    for name, arguments, given in tasks:
        least, printed = [float("inf")] * len(roots), [b""] * len(roots)
        for turn in range(options.rounds + 1):
            for k, root in enumerate(roots):
                seconds, printed[k] = _use(root, arguments, given)
                if turn:
                    least[k] = min(least[k], seconds)
        if len(set(printed)) > 1:
            raise RuntimeError(f"{name}: the checkouts print different things")
        table.append([name, *least, *(other / least[0] for other in least[1:])])
    columns = ["task", "CPU s", *(["CPU s, old", "old / this"] if options.old else [])]
    notes = ["The input of commands is one sentence of 11 words on standard input."]
    return Report("Start", columns, table, notes)


def _use(root: Path, arguments: list[str], given: bytes) -> tuple[float, bytes]:
    """CPU seconds of a process of a checkout, and what it prints."""
    environment = os.environ | {"PYTHONPATH": str(root)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled modules
    used, done = run_timed(
        [sys.executable, *arguments], input=given, env=environment, cwd=root, capture_output=True
    )
    return used, done.stdout


def run_timed(command: Sequence[str], **options: Any) -> tuple[float, Any]:
    """CPU seconds of a command that succeeds, and what `subprocess.run` returns."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done
