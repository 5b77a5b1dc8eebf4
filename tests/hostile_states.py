"""Hostile states of unfinished runs (`last/`), the sums of all their parts right.

    python -m tests.hostile_states [WORD ...]        # entries whose names have all the words

Each must be refused in one line, with the exit code of a damaged state (4) or of another run (2);
or learning continues from it to the end, or ends with an error of ours in one line.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gpuparse.data.array_file import sha256
from gpuparse.errors import ConfigError, GpuparseError, ModelError
from gpuparse.jobs.checkpoint import FOLDER, FORMAT, STATE, read_checkpoint
from gpuparse.jobs.receipts import Origin, Receipt
from gpuparse.learning.trainer import STAGES, Trainer
from tests.hostile_files import Arrays, pack, print_outcomes, try_entries
from tests.hostile_models import (
    BASES,
    FACTS,
    FILES,
    HEADERS,
    OPTIONS,
    PACKED,
    SENTENCES,
    SHAPES,
    TYPES,
    VALUES,
    YAMLS,
)
from tests.runs import changed
from tests.samples import treebank_of

KINDS = ("first", "joint", "grand-sibling", "vectors", "vectors alone")
ORIGIN = Origin({"seed": 1}, {"data.train": "0" * 64})


@dataclass
class State:
    """A state's facts and arrays; `packed` is the file as it is, `make` makes it of its path."""

    facts: dict[str, Any]
    arrays: Arrays
    form: Any = FORMAT
    packed: bytes | None = None
    make: Callable[[Path], object] | None = None


class Entry(NamedTuple):
    """A hostile state: the kind of the run and what is changed."""

    name: str
    kind: str
    change: Callable[[State], object]


@cache
def trainer_of(kind: str) -> tuple[Trainer, dict[str, np.ndarray]]:
    """A trainer of two epochs, and its state after the first."""
    decoder, templates, labels, keys, _ = BASES[kind]
    keys = {"epochs": 2, "label_epochs": 1, "map_rows": 1 << 10, "label_rows": 1 << 8} | keys
    options = changed(OPTIONS, decoder=decoder, **keys)
    trainer = Trainer(treebank_of(SENTENCES), templates, labels, options)
    stage = "arcs" if templates.arc else "vectors"
    for event in trainer.learn():
        if event.stage == stage and event.epoch_is_over:
            return trainer, {name: array.copy() for name, array in trainer.state().items()}
    raise AssertionError("there is no first epoch")


def array(name: str, value: Any) -> Callable[[State], object]:
    """value: an array or Raw, or a function of the array that is there."""
    return lambda state: state.arrays.update(
        {name: value(state.arrays[name]) if callable(value) else value}
    )


def fact(name: str, value: Any) -> Callable[[State], object]:
    return lambda state: state.facts.update({name: value})


def receipt(parts: dict[str, Any]) -> Callable[[State], object]:
    """A receipt with other parts, under a checksum that is right."""

    def change(state: State) -> None:
        facts = json.loads(state.facts["receipt"]) | parts
        del facts["sha256"]
        facts["sha256"] = sha256(json.dumps(facts, sort_keys=True).encode())
        state.facts["receipt"] = json.dumps(facts)

    return change


def _filled(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda found: np.full_like(found, value)


def entries() -> Iterator[Entry]:
    """All hostile states, and one unchanged of each kind."""
    of_sizes = {k: v for k, v in SHAPES.items() if "numbers" not in k}
    for kind in KINDS:
        yield Entry("unchanged", kind, lambda state: None)
        for name, found in trainer_of(kind)[1].items():
            yield Entry(f"{name}: missing", kind, lambda s, name=name: s.arrays.pop(name))
            for what, value in (of_sizes | TYPES | HEADERS).items():
                if found.ndim == 2 or what not in of_sizes:
                    yield Entry(f"{name}: {what}", kind, array(name, value))
            for what in ("no rows", "one row", "one row less", "one row more", "twice the rows"):
                if found.ndim == 1:
                    yield Entry(f"{name}: {what}", kind, array(name, of_sizes[what]))
            if found.dtype.kind == "f":
                for value in (np.nan, np.inf, -np.inf, 1e308, 3e38, -3e38, 1e-40, 0.0, -1.0):
                    with np.errstate(over="ignore"):
                        yield Entry(f"{name}: {value}", kind, array(name, _filled(value)))
            else:
                limits = np.iinfo(found.dtype)
                for value in (limits.min, limits.max, 0, 1):
                    yield Entry(f"{name}: {value}", kind, array(name, _filled(value)))
        for stage in STAGES:
            for done in ([-1], [0], [1], [2], [3], [1 << 62], [1, 0], [], 1):
                name = f"{stage.name}.done"
                yield Entry(f"{name}: {done}", kind, array(name, np.array(done, np.int64)))
        yield Entry("no arrays", kind, lambda s: s.arrays.clear())
        yield Entry("an unknown array", kind, array("bases", np.zeros(3)))
        for other in KINDS:
            yield Entry(f"the arrays of {other}", kind, lambda s, other=other: setattr(
                s, "arrays", trainer_of(other)[1]
            ))  # fmt: skip
        for names in (
            ("arcs.weights", "arcs.weights_weighted"),
            ("arcs.labels", "arcs.labels_weighted"),
        ):
            yield Entry(f"{names[0]} of one row, both", kind, lambda s, names=names: (
                s.arrays.update({name: s.arrays[name][:1] for name in names})
            ))  # fmt: skip
    yield from of_facts()


def of_facts() -> Iterator[Entry]:
    """Facts, and files that are no states."""
    yield Entry("receipt: missing", "first", lambda s: s.facts.pop("receipt"))
    for what, value in VALUES.items():
        yield Entry(f"receipt: {what}", "first", fact("receipt", value))
        for name in ("origin", "result"):
            yield Entry(f"{name}: {what}", "first", receipt({name: value}))
        for name in ("options", "contents", "version", "author"):
            origin = asdict(ORIGIN) | {name: value}
            yield Entry(f"{name}: {what}", "first", receipt({"origin": origin}))
        seconds = {"learning_seconds": value}
        yield Entry(f"learning_seconds: {what}", "first", receipt({"result": seconds}))
    yield Entry("result: empty", "first", receipt({"result": {}}))
    for what, text in YAMLS.items():
        yield Entry(f"receipt: {what}", "first", fact("receipt", text))
    yield Entry("an unknown fact", "first", fact("author", "x"))
    for value in (0, 3, 5, 4.0, "4", None, True):
        yield Entry(f"format: {value!r}", "first", lambda s, value=value: setattr(s, "form", value))
    for what, text in FACTS.items():
        yield Entry(f"facts: {what}", "first", lambda s, text=text: setattr(
            s, "packed", pack(text.replace("5", str(FORMAT)), s.arrays)
        ))  # fmt: skip
    for what, content in PACKED.items():
        yield Entry(what, "first", lambda s, content=content: setattr(s, "packed", content))
    for what, make in FILES.items():
        yield Entry(what, "first", lambda s, make=make: setattr(s, "make", make))


def try_entry(entry: Entry) -> str:
    """Read and continue from one hostile state: "refused", "learned" or "ended"."""
    trainer, arrays = trainer_of(entry.kind)
    facts = {"receipt": Receipt(ORIGIN, {"learning_seconds": 1.0}).as_text()}
    state = State(facts, dict(arrays))
    entry.change(state)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FOLDER / STATE
        path.parent.mkdir()
        if state.make is not None:
            state.make(path)
        else:
            path.write_bytes(state.packed or pack(state.facts, state.arrays, form=state.form))
        outcome, lines = _outcome(trainer, Path(folder))
    assert all(line.isprintable() for line in lines), lines
    return outcome


def _outcome(trainer: Trainer, folder: Path) -> tuple[str, list[str]]:
    """The outcome of reading a state, and the message."""
    try:
        trainer.restore(read_checkpoint(folder, ORIGIN).state)
    except ModelError as error:
        return "refused", [str(error)]
    except ConfigError as error:  # a line for each difference from the other run
        return "refused", str(error).splitlines()
    try:
        for _ in trainer.learn():
            pass
        trainer.model(16)
    except GpuparseError as error:
        return "ended", [str(error)]
    return "learned", []


def try_all(words: list[str], step: int = 1) -> tuple[Counter[str], list[str]]:
    """Try every `step`-th entry whose name has all the words: outcomes, and what failed."""
    named = ((f"{entry.kind}: {entry.name}", partial(try_entry, entry)) for entry in entries())
    return try_entries(named, words, step)


def main(arguments: list[str]) -> int:
    """The command."""
    torch.set_num_threads(1)
    return print_outcomes("states", *try_all(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
