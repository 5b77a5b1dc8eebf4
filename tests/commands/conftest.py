"""Small models, trained once by the command itself, and ways to call the commands."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuparse.commands import parse, train
from gpuparse.commands.console import as_option, run
from gpuparse.data.formats import arrow_tables
from gpuparse.errors import options_named
from gpuparse.jobs import train as train_job
from tests.samples import without
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
SMALL_STAGES = """
import sys
from gpuparse.commands import train
from gpuparse.commands.console import run_and_exit
from tests.small_stages import small_stages
with small_stages():
    run_and_exit(train.main, sys.argv[1:])
"""
STAGES = "tokenizer: {learn: true}\ntagger: {learn: true, folds: 3}\nlemmatizer: {learn: true}\n"


def program(*words: object, **kwargs) -> subprocess.CompletedProcess:
    """Run a command as users do: `program("train.py", ...)` or `program("-m", "gpuparse", ...)`."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, **kwargs)


@pytest.fixture(autouse=True)
def one_processor(monkeypatch) -> None:
    """Commands in this process take one thread, where none are asked for: other tests run too."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)


@pytest.fixture(autouse=True)
def options_of_commands(states_of_all_epochs) -> Iterator[None]:
    """Messages name the options of commands, as under `console.run`."""
    with options_named(as_option):
        yield


def trained_in(folder: Path, n_test: int, more: str = "") -> SimpleNamespace:
    """A trained model with its config, its gold test file, and what training said."""
    config = folder / "run.yaml"
    config.write_text(CONFIG.format(folder=folder, dev=treebank_file(60, 2)) + more)
    (folder / "train.conllu").write_bytes(generate(300, 1))
    (folder / "test.conllu").write_bytes(generate(n_test, 3))
    done = program("-c", SMALL_STAGES, config)
    assert done.returncode == 0, done.stderr.decode()
    return SimpleNamespace(
        folder=folder,
        config=config,
        model=folder / "model",
        test=folder / "test.conllu",
        out=done.stdout.decode(),
        err=done.stderr.decode(),
    )


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> SimpleNamespace:
    """A parser alone."""
    return trained_in(tmp_path_factory.mktemp("trained"), 100)


@pytest.fixture(scope="session")
def staged(tmp_path_factory) -> SimpleNamespace:
    """A model with all stages, its test file as words, and as text with a sentence per line."""
    made = trained_in(tmp_path_factory.mktemp("staged"), 60, STAGES)
    made.words = without(made.test.read_bytes(), 2, 3, 4, 5, 6, 7, 8)
    made.raw = made.folder / "raw.txt"
    comments = re.findall("(?m)^# text = (.*)", made.test.read_text())
    made.raw.write_text("\n\n".join(comments) + "\n")
    return made


@pytest.fixture(scope="session")
def heads_alone(trained, tmp_path_factory) -> Path:
    """A model without relations, which is not calibrated."""
    words = ["labels.kind=none", "learning.epochs=1", "data.dev=null", "data.test=null"]
    model = tmp_path_factory.mktemp("heads") / "model"
    done = program("train.py", trained.config, f"output={model}", "calibration=none", *words)
    assert done.returncode == 0, done.stderr
    return model


def columns(text: bytes) -> list[list[bytes]]:
    return [line.split(b"\t") for line in text.split(b"\n")]


def words_of(text: bytes) -> list[list[bytes]]:
    return [row for row in columns(text) if row[0].isdigit()]


@pytest.fixture
def call(capfdbinary, monkeypatch):
    """Run a command in this process; (exit code, bytes on stdout, stderr)."""

    def called(main, *words, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        code = exit_code(main, [str(word) for word in words])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return code, captured.out, captured.err.decode()

    return called


@pytest.fixture
def parse_run(trained, call):
    """Parse in this process; (exit code, bytes on stdout, lines of stderr)."""

    def parse_run(*words, stdin=b"", model=trained.model):
        code, out, err = call(parse.main, model, *words, stdin=stdin)
        return code, out, err.splitlines()

    return parse_run


@pytest.fixture
def train_run(trained, call, tmp_path, monkeypatch):
    """Train in this process with other overrides; (exit code, stdout, lines of stderr)."""
    monkeypatch.chdir(ROOT)  # a model's config has paths as they are seen from there

    def train_run(*words):
        code, out, err = call(train.main, trained.config, f"output={tmp_path / 'model'}", *words)
        return code, out.decode(), err.splitlines()

    return train_run


@pytest.fixture
def parsed(call, staged):
    """The output of the model with all stages for a file; no error is expected."""

    def parsed(file, *words, stdin=b""):
        code, out, err = call(parse.main, staged.model, file, "--quiet", *words, stdin=stdin)
        assert (code, err) == (0, "")
        return out

    return parsed


@pytest.fixture
def short_runs(monkeypatch) -> None:
    """Runs of seven rows, so that a small table has several."""
    monkeypatch.setattr(arrow_tables, "MOST_ROWS", 7)


@pytest.fixture
def interrupted_after(monkeypatch):
    """A block in which training is interrupted when it has written a number of models."""

    @contextmanager
    def block(number):
        left, save = [1] * number, train_job.save_parser

        def interrupted(*arguments) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop()
            save(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(train_job, "save_parser", interrupted)
            yield

    return block


class Clock:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def exit_code(main, words: list[str]) -> int:
    """The exit code of a command, of wrong options too."""
    try:
        return run(main, words)
    except SystemExit as caught:
        return caught.code
