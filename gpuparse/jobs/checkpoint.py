"""The output folder of training: what may be replaced, and checkpoints to resume from."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpuparse.data import array_file
from gpuparse.errors import ConfigError, ModelError, option
from gpuparse.files import check_folder, is_temporary, remove_folder, write_file
from gpuparse.jobs.progress import program
from gpuparse.jobs.receipts import Origin, Receipt
from gpuparse.jobs.records import METRICS
from gpuparse.model.installed import UNFINISHED
from gpuparse.model.pipeline import STAGES as TABLE

FOLDER = UNFINISHED  # in the output of an unfinished run, from its beginning to its end
STATE = "state.safetensors"  # in FOLDER: the state of the parser's trainer
CALIBRATION = "calibration.safetensors"  # that of the trainer of the second parser
STAGES = "stages"  # the folder in FOLDER of the stages before the parser
FORMAT = 7
_RECEIPT, _SECONDS = "receipt", "learning_seconds"  # facts of a state
SHARE = 0.02  # of the time of learning that writing states may take


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: that of its trainer, and the CPU time of learning so far."""

    state: dict[str, np.ndarray]
    learning_seconds: float


def is_unfinished(folder: Path) -> bool:
    """True if a folder has a run that has begun and not ended."""
    return (folder / FOLDER).exists()


def is_kept(folder: Path) -> bool:
    """True if anything is kept of an unfinished run."""
    return any(path.is_file() for path in (folder / FOLDER).rglob("*.safetensors"))


def check_output(folder: Path, *, resume: bool, force: bool) -> None:
    """Make sure that a run may write into a folder.

    Args:
        folder: the folder of the model.
        resume: continue an unfinished run; where there is none, and no model, begin one.
        force: start again, and replace what the folder contains.
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
            f"{folder}: holds an unfinished run; give {option('resume', True)} to continue it,"
            f" or {option('force', True)} to start again"
        )
    if finished:
        raise ConfigError(
            f"{folder}: holds a finished model; give {option('force', True)} to replace it, or"
            f" name another output; to parse with it: {program('parse')} {folder} FILE"
        )
    names: list[str] = []
    with suppress(FileNotFoundError):  # or another process takes it away just now
        names = os.listdir(folder)
    if any(name not in (".lock", FOLDER, METRICS) and not is_temporary(name) for name in names):
        raise ConfigError(
            f"{folder}: holds other files; name another output, or give {option('force', True)} to"
            " write among them"
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
    _write(output / FOLDER / name, origin, checkpoint)


class States:
    """The state of a trainer on the disk.

    After an epoch it is written, unless writing would take more than SHARE of the time. A kill
    loses the current epoch, and at most the seconds of writing divided by SHARE.

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
    """The state that `write_checkpoint` kept of the same origin; None if nothing was kept.

    Raises:
        ModelError: a file is damaged, no file, or of another version.
        ConfigError: it is the state of another run; says what differs.
    """
    path = output / FOLDER / name
    if not os.path.lexists(path):
        for stage in sorted((output / FOLDER / STAGES).glob("*")):
            _read(stage, output, origin)
        return None
    return _read(path, output, origin)


class KeptStages(NamedTuple):
    """The stages before the parser that an unfinished run has learned, in its output folder."""

    output: Path
    origin: Origin

    def _path(self, name: str) -> Path:
        return self.output / FOLDER / STAGES / f"{name}.safetensors"

    def has(self, name: str) -> bool:
        """True if something is kept under a name."""
        return self._path(name).exists()

    def arrays(
        self, name: str, learn: Callable[[], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """The arrays kept under a name, or those learned now, which are then kept.

        Raises: ModelError, ConfigError: as `read_checkpoint`. OSError: it cannot be written.
        """
        path = self._path(name)
        if path.exists():
            return _read(path, self.output, self.origin).state
        learned = learn()
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, self.origin, Checkpoint(learned, 0.0))
        return learned


def _write(path: Path, origin: Origin, kept: Checkpoint) -> None:
    receipt = Receipt(origin, {_SECONDS: kept.learning_seconds})
    content = array_file.pack({_RECEIPT: receipt.as_text()}, kept.state, form=FORMAT)
    write_file(path, content, force=True)


def _read(path: Path, output: Path, origin: Origin) -> Checkpoint:
    """The state that `_write` wrote, if it is of the same origin."""
    again = f"give {option('force', True)} to start again"
    try:
        facts, state = array_file.read(path, form=FORMAT, what="state")
        receipt = Receipt.of_text(facts.pop(_RECEIPT, ""), path, again)
        seconds = receipt.result.get(_SECONDS)
        if facts or not isinstance(seconds, float) or not 0 <= seconds < math.inf:
            raise ModelError(f"{path}: not a state of this version")
    except ModelError as error:
        raise ModelError(f"{error}; {again}") from error
    receipt.origin.check(origin, output, again)
    return Checkpoint(state, seconds)
