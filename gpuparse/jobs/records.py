"""The records that training writes: a line of numbers per epoch, scores, seconds, versions.

Times differ between two runs that learn the same model, so they are in these files alone.
"""

import json
import os
import platform
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuparse.files import write_file
from gpuparse.jobs.version import described_version, package_version
from gpuparse.learning.events import LearningEvent
from gpuparse.learning.trainer import STAGES

METRICS, SCORES = "metrics.jsonl", "scores.json"

Epoch = dict[str, str | int | float]


class MetricsFile:
    """`metrics.jsonl` of a run that is going on, a line of JSON per epoch.

    A line is written before the state of its epoch is, so that no epoch is lost; a run that goes on
    drops the lines of epochs that its state does not have, so that none is there twice.

    Args:
        folder: of the model.
        done: epochs of each stage that the run has behind it, and parsers of pruning; None for a
            run that begins.
    Raises: OSError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, done: Mapping[str, int] | None) -> None:
        self._path = folder / METRICS
        kept = []
        if done is not None:
            kept = [
                line for line in read_metrics(folder) if line["epoch"] <= done.get(line["stage"], 0)
            ]
        write_file(self._path, "".join(map(_as_line, kept)).encode(), force=True)

    def add(self, epoch: Epoch) -> None:
        """Write the line of an epoch."""
        with self._path.open("ab") as file:
            file.write(_as_line(epoch).encode())
            file.flush()
            os.fsync(file.fileno())


def as_epoch(last: LearningEvent, seconds: float, cpu_seconds: float) -> Epoch:
    """The line of an epoch by its last event, without scores."""
    return {
        "stage": last.stage,
        "epoch": last.epoch,
        "sentences": last.total,
        "words": last.words,
        "wrong": last.wrong,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


def _as_line(epoch: Epoch) -> str:
    return json.dumps(epoch) + "\n"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The epochs of a run's `metrics.jsonl`; what is no line of an epoch is left out.

    Returns: Dicts with `stage` and `epoch`, from 1, and numbers; none without the file.
    """
    try:
        lines = (folder / METRICS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            epoch = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(epoch, dict) and _is_epoch(epoch):
            found.append(epoch)
    return found


def _is_epoch(epoch: dict[str, Any]) -> bool:
    stage, number = epoch.get("stage"), epoch.get("epoch")
    return stage in [kind.name for kind in STAGES] and type(number) is int and number > 0


def write_scores(folder: Path, about: dict[str, Any]) -> None:
    """Write `scores.json`, with versions and the peak memory of this process.

    Raises: OSError: the folder cannot be written to.
    """
    result = {
        "version": described_version(),
        "python": platform.python_version(),
        "torch": package_version("torch"),
        **about,
        "peak_memory_bytes": peak_memory(),
    }
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    write_file(folder / SCORES, text.encode(), force=True)


def peak_memory() -> int:
    """The largest main memory that this process has had, in bytes."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024  # it is in KiB on Linux


def read_scores(folder: Path) -> dict[str, Any]:
    """The content of `scores.json`; empty if there is no such file or it is no table."""
    try:
        found = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def remove_records(folder: Path) -> None:
    """Take away what an earlier run has written."""
    for name in (METRICS, SCORES):
        (folder / name).unlink(missing_ok=True)
