"""States of unfinished runs (`last/`) as `tests/hostile_files.py` damages them.

A state is refused as damaged or as that of another run; or learning continues from it to the end,
or ends with an error of ours in one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.data.array_file import sha256
from gpuparse.errors import GpuparseError, ModelError
from gpuparse.jobs.checkpoint import FOLDER, FORMAT, STATE, read_checkpoint
from gpuparse.jobs.receipts import Origin, Receipt
from gpuparse.learning.trainer import STAGES, Trainer
from tests.hostile_files import YAMLS, Entry, Kind, Parts, array, at, check_message, other
from tests.hostile_models import BASES, OPTIONS, SENTENCES
from tests.runs import changed
from tests.samples import treebank_of

NAMES = ("first", "joint", "grand-sibling", "vectors", "vectors alone")
ORIGIN = Origin({"seed": 1}, {"data.train": "0" * 64})
RECEIPT = Receipt(ORIGIN, {"learning_seconds": 1.0})


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


def parts_of(name: str) -> Parts:
    """The parts of a state, which may be changed; the receipt is data."""
    receipt = asdict(RECEIPT)
    return Parts({"receipt": receipt}, dict(trainer_of(name)[1]), FORMAT)


def seal(parts: Parts) -> Any:
    """The facts of a state; the receipt is a text with its own sum, if it is data."""
    receipt = parts.facts.get("receipt")
    if not isinstance(receipt, dict):
        return parts.facts
    receipt["sha256"] = sha256(json.dumps(receipt, sort_keys=True).encode())
    return parts.facts | {"receipt": json.dumps(receipt)}


def use(name: str, folder: Path) -> str:
    """Continue from a state. Raises: ModelError, ConfigError: it is refused."""
    trainer, _ = trainer_of(name)
    kept = read_checkpoint(folder, ORIGIN)
    if kept is None:
        return "begun"
    try:
        trainer.restore(kept.state)
    except ModelError as error:  # whose file the caller names
        raise ModelError(f"{folder}: {error}") from None
    try:
        for _ in trainer.learn():
            pass
        trainer.model(16)
    except GpuparseError as error:
        check_message(error, Path())
        return "ended"
    return "learned"


def others() -> Iterator[Entry]:
    """Epochs that are done, arrays of other runs, and receipts that are none."""
    for name, kind in KINDS.items():
        for stage in STAGES:
            for done in ([-1], [0], [1], [2], [3], [1 << 62], [1, 0], [], 1):
                change = array(f"{stage.name}.done", np.array(done, np.int64))
                yield Entry(f"{name}: {stage.name}.done: {done}", kind, change)
        for of in NAMES:
            yield Entry(f"{name}: the arrays of {of}", kind, other("arrays", trainer_of(of)[1]))
        for of in ("arcs.weights", "arcs.labels"):
            yield Entry(f"{name}: one row of {of}", kind, lambda parts, of=of: parts.arrays.update(
                {each: a[:1] for each, a in parts.arrays.items() if each.startswith(of)}
            ))  # fmt: skip
    for what, text in YAMLS.items():
        yield Entry(f"receipt: {what}", KINDS["first"], at("receipt", text))


KINDS = {
    name: Kind(partial(parts_of, name), partial(use, name), f"{FOLDER}/{STATE}", "learned",
               is_whole=name in ("first", "vectors"), seal=seal)
    for name in NAMES
}  # fmt: skip
