"""Training from Python, by the code of the command `train`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuparse.api.parsing import SentenceParser, load
from gpuparse.config import RunConfig, load_config, make_config
from gpuparse.data.cached import cached_property
from gpuparse.data.formats.objects import shown
from gpuparse.errors import ConfigError
from gpuparse.jobs import train as job
from gpuparse.jobs.gold import with_fitting_decoder
from gpuparse.jobs.progress import say, silent
from gpuparse.jobs.train_checks import check_output_of, plan_of
from gpuparse.jobs.train_scores import key_of


@dataclass(frozen=True)
class TrainedRun:
    """A finished training run.

    Args:
        folder: the model's folder, which `gpuparse.load` and the command `parse` read.
        config: all keys as they were used.
        metrics: scores in percent: `test_uas`, `test_las`, `test_label_accuracy` and
            `test_complete` on data.test, `dev_uas` and `dev_las` on data.dev with 16-bit weights;
            of graphs also `test_arcs_f` and `test_labelled_arcs_f`, and on data.dev only
            `dev_arcs_f` and `dev_labelled_arcs_f`. `learning_seconds`: CPU time.
    """

    folder: Path
    config: RunConfig
    metrics: dict[str, float]

    @cached_property
    def parser(self) -> SentenceParser:
        """The trained parser, loaded when it is first asked for."""
        return load(self.folder)


def train(
    config: str | os.PathLike[str] | Mapping[str, object],
    overrides: Mapping[str, object] | None = None,
    *,
    force: bool = False,
    resume: bool = False,
    quiet: bool = False,
) -> TrainedRun:
    """Train a parser as the command `train` does: the same config writes the same model.

    Args:
        config: a YAML file, the name of a config that `gpuparse config list` lists, or a dict of
            keys, in sections or dotted; a dict must have `output`, the model's folder.
        overrides: other values of keys, by dotted key.
        force: whether to replace an existing model. resume: whether to continue an interrupted run.
        quiet: whether to write no messages and progress on stderr.
    Raises: ConfigError, DataError, ModelError: as the command.
    Cost: as the command, which needs as much memory.

    >>> run = gpuparse.train(
    ...     "quickstart", {"output": "runs/short", "learning.epochs": 1}, quiet=True
    ... )
    >>> run.folder.name, run.metrics["test_uas"] > 80
    ('short', True)
    """
    if not isinstance(config, (str, os.PathLike, Mapping)):
        raise ConfigError(f"train() takes a file, a name or a dict, and not {shown(config)}")
    given = overrides or {}
    if isinstance(config, Mapping):
        complete = make_config(config, given)
    else:
        complete = load_config(os.fspath(config), given)
    with _same_torch_threads():
        check_output_of(complete, resume=resume, force=force)
        complete = with_fitting_decoder(complete)
        plan = plan_of(complete, silent if quiet else say)
        trained = job.train(plan, resume=resume, force=force, quiet=quiet)
    return TrainedRun(plan.output, complete, _metrics(trained))


def _metrics(trained: job.Trained) -> dict[str, float]:
    """The scores that there are."""
    found: dict[str, float | None] = {"learning_seconds": trained.learning_seconds}
    on_dev, tested = trained.scores, trained.tested
    if on_dev.dev_scores is not None:
        named = zip(on_dev.names_of_scores, on_dev.dev_scores, strict=True)
        found |= {f"dev_{key_of(name)}": score for name, score in named}
    if tested is not None:
        scores = tested.scores
        found |= {"test_uas": scores.uas.percent, "test_complete": scores.complete.percent}
        if trained.plan.is_labelled:
            found |= {
                "test_las": scores.las.percent,
                "test_label_accuracy": scores.label_accuracy.percent,
            }
        if tested.graphs is not None:
            found |= {
                "test_arcs_f": tested.graphs.unlabelled.f,
                "test_labelled_arcs_f": tested.graphs.labelled.f,
            }
    return {name: score for name, score in found.items() if score is not None}


@contextmanager
def _same_torch_threads() -> Iterator[None]:
    """Restore torch's number of threads at the end; training sets another."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)
