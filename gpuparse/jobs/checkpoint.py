"""The output folder of training: what may be replaced, and checkpoints to resume from."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpuparse import array_file
from gpuparse.errors import ConfigError, ModelError, one_line, plural
from gpuparse.files import check_folder, is_temporary, remove_folder, replace_file
from gpuparse.jobs.progress import program
from gpuparse.jobs.records import EVENTS, METRICS
from gpuparse.model_folder import UNFINISHED
from gpuparse.pipeline import STAGES as TABLE
from gpuparse.plain_yaml import parse_yaml

FOLDER = UNFINISHED  # in the output of an unfinished run, from its beginning to its end
STATE = "state.safetensors"  # in FOLDER: the state of the parser's trainer
CALIBRATION = "calibration.safetensors"  # that of the trainer of the second parser
STAGES = "stages"  # the folder in FOLDER of what was learned before the parser
FORMAT = 6
SHARE = 0.02  # of the time of learning that writing states may take
_SHOWN = 20  # keys of another config that are named


@dataclass(frozen=True)
class Origin:
    """What the model of a run depends on: runs of the same origin give the same bytes.

    config: the recorded config as YAML. treebank: SHA-256 of the training treebank, and of its
    guides and the lexicon if they are files, and of models that the run takes stages from or
    starts from. templates:
    SHA-256 of the arc and label templates.
    """

    config: str
    treebank: str
    templates: str


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: that of its trainer, and the CPU time of learning so far."""

    state: dict[str, np.ndarray]
    learning_seconds: float


def is_unfinished(folder: Path) -> bool:
    """Whether a folder has a run that has begun and not ended."""
    return (folder / FOLDER).exists()


def is_kept(folder: Path) -> bool:
    """Whether anything is kept of an unfinished run."""
    return any(path.is_file() for path in (folder / FOLDER).rglob("*.safetensors"))


def check_output(folder: Path, *, resume: bool, force: bool) -> None:
    """Make sure that a run may write into a folder.

    Args:
        folder: the folder of the model.
        resume: continue an unfinished run; where there is none, and no model, begin one.
        force: start again whatever the folder contains.
    Raises: ConfigError: the run may not write there, or there is a model and nothing to resume.
    """
    check_folder(folder)
    unfinished = is_unfinished(folder)
    finished = any((folder / row.file).exists() for row in TABLE.values()) and not unfinished
    if (folder / FOLDER).is_symlink():
        raise ConfigError(
            f"{folder / FOLDER}: is a link, which training does not follow; remove it"
        )
    if resume and finished:
        raise ConfigError(f"{folder}: holds a finished model; there is nothing to resume")
    if force or (resume and unfinished):
        return
    if unfinished:
        raise ConfigError(
            f"{folder}: holds an unfinished run; give --resume to continue it, or --force to start"
            " again"
        )
    if finished:
        raise ConfigError(
            f"{folder}: holds a finished model; give --force to replace it, or name another output;"
            f" to parse with it: {program('parse')} {folder} FILE"
        )
    if folder.exists() and any(
        file.name not in (".lock", FOLDER, METRICS, EVENTS) and not is_temporary(file.name)
        for file in folder.iterdir()
    ):
        raise ConfigError(
            f"{folder}: holds other files; name another output, or give --force to write among them"
        )


@contextmanager
def unfinished_run(output: Path, *, resume: bool) -> Iterator[None]:
    """Mark the output of a run as that of an unfinished one until the run ends.

    Args: resume: whether what is kept of an earlier run stays.
    Raises: OSError: the folder cannot be written to.
    """
    if not resume:
        remove_folder(output / FOLDER)
    (output / FOLDER).mkdir(exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # unless something is kept
            (output / FOLDER).rmdir()
        raise
    remove_folder(output / FOLDER)


def write_checkpoint(
    output: Path, origin: Origin, checkpoint: Checkpoint, name: str = STATE
) -> None:
    """Write the state of a trainer in place of an earlier one.

    Raises: OSError: the folder cannot be written to, or the disk is full.
    Cost: one copy of the weights to the disk.
    """
    (output / FOLDER).mkdir(exist_ok=True)
    _write(output / FOLDER / name, origin, checkpoint.learning_seconds, checkpoint.state)


class States:
    """The state of a trainer on the disk.

    After an epoch it is written, unless that would take more than SHARE of the time. So what a kill
    loses was learned in 1 / SHARE times the time that writing takes, and in the epoch at hand.

    Args: name: of the file.
    """

    def __init__(self, output: Path, origin: Origin, name: str = STATE) -> None:
        self._file = output, origin, name
        self._written, self._seconds = -math.inf, 0.0

    def read(self) -> Checkpoint | None:
        """As `read_checkpoint`."""
        return read_checkpoint(*self._file)

    def after_epoch(self, make: Callable[[], Checkpoint], *, is_last: bool) -> None:
        """Write the state that `make` returns if it is time, and after the last epoch."""
        began = time.monotonic()
        if is_last or began - self._written >= self._seconds / SHARE:
            output, origin, name = self._file
            write_checkpoint(output, origin, make(), name)
            self._written = time.monotonic()
            self._seconds = self._written - began


def read_checkpoint(output: Path, origin: Origin, name: str = STATE) -> Checkpoint | None:
    """What `write_checkpoint` kept, if it is of the same origin; None if nothing was kept.

    Raises:
        ModelError: a file is damaged, no file, or of another version.
        ConfigError: it is the state of another run; says what differs.
    """
    path = output / FOLDER / name
    if not os.path.lexists(path):
        for stage in sorted((output / FOLDER / STAGES).glob("*")):
            _read(stage, output, origin)
        return None
    seconds, state = _read(path, output, origin)
    return Checkpoint(state, seconds)


class KeptStages(NamedTuple):
    """What an unfinished run has learned before the parser, in a folder of its output."""

    output: Path
    origin: Origin

    def _path(self, name: str) -> Path:
        return self.output / FOLDER / STAGES / f"{name}.safetensors"

    def has(self, name: str) -> bool:
        """Whether something is kept under a name."""
        return self._path(name).exists()

    def arrays(
        self, name: str, learn: Callable[[], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """What was kept under a name, else what is learned now, which is kept.

        Raises: ModelError, ConfigError: as `read_checkpoint`. OSError: it cannot be written.
        """
        path = self._path(name)
        if path.exists():
            return _read(path, self.output, self.origin)[1]
        learned = learn()
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, self.origin, 0.0, learned)
        return learned


def _write(path: Path, origin: Origin, seconds: float, arrays: dict[str, np.ndarray]) -> None:
    facts = asdict(origin) | {"learning_seconds": seconds}
    with replace_file(path, force=True) as file:
        file.write(array_file.pack(facts, arrays, form=FORMAT))


def _read(path: Path, output: Path, origin: Origin) -> tuple[float, dict[str, np.ndarray]]:
    """The seconds and arrays of `_write`, if they are of the same origin."""
    try:
        facts, state = array_file.read(path, form=FORMAT, what="state")
        seconds = facts.pop("learning_seconds", None)
        are_texts = all(isinstance(fact, str) for fact in facts.values())
        is_time = isinstance(seconds, float) and 0 <= seconds < float("inf")
        if set(facts) != {field.name for field in fields(Origin)} or not are_texts or not is_time:
            raise ModelError(f"{path}: not a state of this version")
        other = Origin(**facts)
        different = [] if other == origin else differences(other, origin)
    except (ModelError, ConfigError) as error:
        raise ModelError(f"{error}; give --force to start again") from error
    if other != origin:
        lines = [f"cannot resume: {difference}" for difference in different]
        lines.append("give what the unfinished run had, or --force to start again")
        raise ConfigError("\n".join(f"{output}: {line}" for line in lines))
    return seconds, state


def differences(before: Origin, now: Origin) -> list[str]:
    """What differs between two origins, a line each, such as "seed was 1 and is now 2"."""
    old, new = (
        _flat(_table(before.config, "the unfinished run")), _flat(_table(now.config, "this run")),
    )  # fmt: skip
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    lines = [
        one_line(f"{key} was {old.get(key)!r} and is now {new.get(key)!r}")
        for key in changed[:_SHOWN]
    ]
    if len(changed) > _SHOWN:
        lines.append(plural(len(changed) - _SHOWN, "more key differs", "more keys differ"))
    if before.treebank != now.treebank:
        lines.append(
            "the training treebank (data.train) has other content, or its guides or lexicon have,"
            " or the model of init_from or of a stage"
        )
    if before.templates != now.templates:
        lines.append("the template sets (features, labels.features) have changed")
    return lines


def _table(config: str, source: str) -> dict:
    value = parse_yaml(config, source).value
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: its config is no table")
    return value


def _flat(tree: dict, prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
