"""One small model, trained once by the command itself, and ways to call the commands."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuparse.commands.console import as_option, run
from gpuparse.errors import options_named
from gpuparse.jobs import checkpoint
from tests.synthetic import generate, treebank_file

ROOT = Path(__file__).parents[2]
CONFIG = """
output: {folder}/model
features: mcdonald-2005
decoder: chu_liu_edmonds
threads: 1
device: cpu
data: {{train: train.conllu, dev: {dev}, test: test.conllu}}
feature_map: {{rows: 65537}}
learning: {{epochs: 3, cost_augmented: true}}
labels: {{rows: 16384, epochs: 2}}
"""


def program(*words: object, **kwargs) -> subprocess.CompletedProcess:
    """Run a command as users do: `program("train.py", ...)` or `program("-m", "gpuparse", ...)`."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, **kwargs)


@pytest.fixture(autouse=True)
def one_processor(monkeypatch) -> None:
    """Commands in this process take one thread, where none are asked for: other tests run too."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)


@pytest.fixture(autouse=True)
def options_of_commands() -> Iterator[None]:
    """Messages name the options of commands, as under `console.run`."""
    with options_named(as_option):
        yield


@pytest.fixture(autouse=True)
def states_of_all_epochs(monkeypatch) -> None:
    """The state of a run is written after every epoch, however long that takes."""
    monkeypatch.setattr(checkpoint, "SHARE", float("inf"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> SimpleNamespace:
    """A trained model with its config, its gold test file, and what training said."""
    folder = tmp_path_factory.mktemp("trained")
    config = folder / "run.yaml"
    config.write_text(CONFIG.format(folder=folder, dev=treebank_file(60, 2)))
    (folder / "train.conllu").write_bytes(generate(300, 1))
    (folder / "test.conllu").write_bytes(generate(100, 3))
    done = program("train.py", config)
    assert done.returncode == 0, done.stderr.decode()
    return SimpleNamespace(
        folder=folder,
        config=config,
        model=folder / "model",
        test=folder / "test.conllu",
        out=done.stdout.decode(),
        err=done.stderr.decode(),
    )


def exit_code(main, words: list[str]) -> int:
    """The exit code of a command, of wrong options too."""
    try:
        return run(main, words)
    except SystemExit as caught:
        return caught.code
