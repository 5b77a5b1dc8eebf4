"""This code against that of another checkout, task by task, alternately in one run on one core.

    python -m benchmarks checkouts --old FOLDER --treebank train.conllu

Each checkout has a process of its own. The two run each task in turn, so a slow moment of the
machine meets both; the least CPU time of all rounds counts. What a task does first, such as
compiling at run time, is not counted.
"""

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SYSTEMS = {  # name -> overrides; heads and labels, 2^22 rows, 16 bits unless stated
    "first order, mcdonald-2005, projective": ["features=mcdonald-2005", "decoder=eisner"],
    "first order, extended, projective": ["features=extended", "decoder=eisner"],
    "first order, extended, non-projective": ["features=extended", "decoder=chu_liu_edmonds"],
    "first order, joint labels, 8 bits": [
        "features=mcdonald-2005", "decoder=eisner", "labels.kind=joint",
        "labels.features=joint-labels", "weights.bits=8",
    ],
    "second order, extended, projective": ["features=extended", "decoder=eisner_sibling"],
    "second order, extended, hill climbing": ["features=extended", "decoder=hill_climb"],
    "third order, grand-siblings": [
        "features=third-order", "decoder=eisner_grand_sibling", "labels.kind=joint",
        "labels.features=joint-labels", "pruning.folds=2", "pruning.epochs=1",
    ],
    "third order, dual decomposition": [
        "features=third-order", "decoder=dual_decomposition", "labels.kind=joint",
        "labels.features=joint-labels", "pruning.folds=2", "pruning.epochs=1",
    ],
}  # fmt: skip
CONFIG = """\
output: model
data: {train: train.conllu}
feature_map: {rows: 4194304}
learning: {epochs: 1, cost_augmented: true}
labels: {rows: 4194304, epochs: 1}
weights: {bits: 16}
threads: 1
device: cpu
"""
SIZES = {"n = 25, 64 sentences": (64, 25), "n = 60, 16 sentences": (16, 60)}
SMALL = {"n = 12, 16 sentences": (16, 12)}  # for functions that read n^4 numbers

GATE = ("tests/test_native.py",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--old", required=True, type=Path, help="the other checkout")
    parser.add_argument("--treebank", required=True, type=Path, help="a CoNLL file")
    parser.add_argument("--copies", type=int, default=20, help="of its text, to parse")
    parser.add_argument("--only", default="", help="tasks whose names contain this")


def run(options: argparse.Namespace) -> Any:
    """Run all tasks in both checkouts, and compare."""
    from benchmarks.registry import Report

    here = Path(__file__).resolve().parents[1]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        text = options.treebank.read_bytes()
        workers = []
        for name, code in (("old", options.old.resolve()), ("new", here)):
            folder = Path(scratch) / name
            folder.mkdir()
            (folder / "train.conllu").write_bytes(text)
            (folder / "input.conllu").write_bytes(text * options.copies)
            (folder / "base.yaml").write_text(CONFIG)
            workers.append(_Worker(code, folder))
        names = [name for name in workers[1].ask("names") if options.only in name]
        for name in names:
            seconds: list[list[float]] = [[], []]
            for _ in range(options.repeats + 1):
                for of_one, worker in zip(seconds, workers, strict=True):
                    of_one.append(worker.ask(name))
            old, new = (min(of_one[1:]) for of_one in seconds)
            rows.append([name, 1e3 * old, 1e3 * new, new / old])
            print(*rows[-1], file=sys.stderr, flush=True)
        for worker in workers:
            worker.stop()
    notes = ["CPU time of one thread; below 1 the new code is faster."]
    columns = ["task", "old, ms", "new, ms", "new / old"]
    return Report(f"{here.name} against {options.old}", columns, rows, notes)


class _Worker:
    """A process that runs the tasks with one checkout's code."""

    def __init__(self, code: Path, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], cwd=folder, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, task: str) -> Any:
        """Run a task; its seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(task + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{task}: the process of a checkout ended")
        return json.loads(answer)

    def stop(self) -> None:
        self._process.communicate()


def tasks() -> dict[str, Callable[[], float]]:
    """All tasks by name; each returns its CPU seconds."""
    found: dict[str, Callable[[], float]] = {}
    for name, overrides in SYSTEMS.items():
        found[f"train: {name}"] = lambda name=name, overrides=overrides: _train(name, overrides)
        found[f"parse: {name}"] = lambda name=name: _parse(name)
    for size, (count, n) in SIZES.items():
        found |= {f"{key}, {size}": call for key, call in _kernels(count, n).items()}
    for size, (count, n) in SMALL.items():
        found |= {f"{key}, {size}": call for key, call in _higher_kernels(count, n).items()}
    return found


def _folder(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


def _train(name: str, overrides: list[str]) -> float:
    from gpuparse.commands import train

    arguments = ["base.yaml", f"output={_folder(name)}", *overrides, "--force", "--quiet"]
    return _clocked(lambda: train.main(arguments))


def _parse(name: str) -> float:
    from gpuparse.commands import parse

    arguments = [_folder(name), "input.conllu", "--output", "out", "--force", "--threads", "1"]
    return _clocked(lambda: parse.main([*arguments, "--device", "cpu", "--quiet"]))


def _kernels(count: int, n: int) -> dict[str, Callable[[], float]]:
    """Public functions of the first and second order, and their sums."""
    import torch

    from gpuparse import inference

    generator = torch.Generator().manual_seed(7)
    made: dict[str, torch.Tensor] = {}

    def scores(axes: int) -> torch.Tensor:
        if str(axes) not in made:
            shape = [count, *[n + 1] * axes]
            made[str(axes)] = torch.randn(shape, generator=generator, dtype=torch.float64)
        return made[str(axes)]

    lengths = torch.full((count,), n)
    of_arcs = {
        "eisner": inference.eisner,
        "chu_liu_edmonds": inference.chu_liu_edmonds,
        "chu_liu_edmonds, single root": lambda *a: inference.chu_liu_edmonds(*a, single_root=True),
        "eisner_kbest, k = 5": lambda *a: inference.eisner_kbest(*a, 5),
        "chu_liu_edmonds_kbest, k = 5": lambda *a: inference.chu_liu_edmonds_kbest(*a, 5),
        "eisner_log_partition": inference.eisner_log_partition,
        "eisner_marginals": inference.eisner_marginals,
        "matrix_tree_log_partition": inference.matrix_tree_log_partition,
        "matrix_tree_marginals": inference.matrix_tree_marginals,
    }
    of_siblings = {
        "eisner_sibling": inference.eisner_sibling,
        "eisner_sibling_kbest, k = 5": lambda *a: inference.eisner_sibling_kbest(*a, 5),
        "eisner_sibling_marginals": inference.eisner_sibling_marginals,
        "hill_climb": inference.hill_climb,
        "multi_parent": inference.multi_parent,
    }
    found = {
        name: lambda call=call: _repeated(lambda: call(scores(2), lengths))
        for name, call in of_arcs.items()
    }
    return found | {
        name: lambda call=call: _repeated(lambda: call(scores(2), scores(3), lengths))
        for name, call in of_siblings.items()
    }


def _higher_kernels(count: int, n: int) -> dict[str, Callable[[], float]]:
    """Public functions beyond the second order, over all arcs."""
    import torch

    from gpuparse import inference

    generator = torch.Generator().manual_seed(7)
    arc, three, four = (
        torch.randn([count, *[n + 1] * axes], generator=generator, dtype=torch.float64)
        for axes in (2, 3, 4)
    )
    lengths = torch.full((count,), n)
    of_axes = dict.fromkeys(
        ("sibling_scores", "grandparent_scores", "inner_grandchild_scores"), three
    ) | dict.fromkeys(("grand_sibling_scores", "tri_sibling_scores"), four)
    calls: dict[str, Callable[[], object]] = {}
    for name in inference.__all__:  # older checkouts have no table of decoders
        function = getattr(inference, name)
        known = inspect.signature(function).parameters if inspect.isfunction(function) else {}
        scores = {key: of_axes[key] for key in known if key in of_axes}
        if len(scores) > 1 and "backend" in known and not name.endswith("_labelled"):
            calls[name] = partial(function, arc, lengths, **scores)
    return {name: lambda call=call: _repeated(call) for name, call in calls.items()}


def _repeated(call: Callable[[], object]) -> float:
    """Seconds of one call, called for at least a twentieth of a second."""
    import torch

    torch.set_num_threads(1)
    calls, total = 0, 0.0
    while total < 0.05:
        total += _clocked(call)
        calls += 1
    return total / calls


def _clocked(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def _serve() -> None:
    """Run tasks that are named on standard input, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tasks print does not mix with answers
    known = tasks()
    for line in sys.stdin:
        name = line.rstrip("\n")
        answers.write(json.dumps(list(known) if name == "names" else known[name]()) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
