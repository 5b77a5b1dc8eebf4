"""`init_from`: learning on from a model, resuming to the same bytes, and what is refused."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import gpuparse
from gpuparse.commands import crossval, jackknife, train
from gpuparse.commands.console import run
from gpuparse.config import load_config
from gpuparse.jobs import train as train_job
from gpuparse.learning.start import FILE
from gpuparse.model_folder import WEIGHTS, load_parser
from tests.commands.conftest import ROOT, program
from tests.runs import model_files
from tests.synthetic import generate


@pytest.fixture
def more(trained, tmp_path) -> Path:
    """A treebank with a new relation and a new word."""
    path = tmp_path / "more.conllu"
    text = generate(60, 9).decode()
    path.write_text(
        text.replace("\tnsubj\t", "\tactor\t") + "1\tMondfisch\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    )
    return path


@pytest.fixture(scope="module")
def kept(trained, tmp_path_factory) -> Path:
    """The model of `trained` with what it was rounded from."""
    model = tmp_path_factory.mktemp("kept") / "model"
    done = program(
        "train.py", trained.config, f"output={model}", "learning.keep_state=true", "--quiet",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return model


@pytest.fixture
def words(trained, kept, more, tmp_path, monkeypatch) -> list[str]:
    """Arguments of a run that learns on."""
    monkeypatch.chdir(trained.folder)
    return [
        str(trained.config), f"output={tmp_path / 'model'}", f"init_from={kept}",
        f"data.train={more}", "learning.epochs=2", "labels.epochs=1", "learning.keep_state=true",
    ]  # fmt: skip


def test_a_model_is_the_same_with_what_it_was_rounded_from(trained, kept):
    one, other = load_parser(trained.model), load_parser(kept)
    assert np.array_equal(one.linear.arcs.array, other.linear.arcs.array)
    assert one.linear.points == other.linear.points
    assert not (trained.model / FILE).exists()
    assert (kept / FILE).exists()


def test_train_learns_on(trained, kept, words, more, tmp_path, capsys):
    assert run(train.main, words) == 0
    said = capsys.readouterr().err
    assert f"starts from {kept}: " in said
    old, new = load_parser(trained.model), load_parser(tmp_path / "model")
    assert "Mondfisch" in new.linear.vocabularies.values["form"]
    assert "Mondfisch" not in old.linear.vocabularies.values["form"]
    assert new.labels[: len(old.labels)] == old.labels
    assert new.scales.is_calibrated
    scores = json.loads((tmp_path / "model" / "scores.json").read_text())
    assert scores["init_from"] == str(kept)
    assert scores["test"]["uas"]["percent"] > 80
    assert "init_from: model\n" in new.config
    # The new model can be learned on again, by its own config.
    again = [word for word in words if not word.startswith(("output", "init_from"))]
    again += [f"output={tmp_path / 'again'}", f"init_from={tmp_path / 'model'}"]
    assert run(train.main, again) == 0
    capsys.readouterr()


def test_python_learns_on(trained, kept, words, more, tmp_path):
    keys = {
        "init_from": str(kept), "data.train": str(more), "learning.epochs": 2,
        "labels.epochs": 1, "learning.keep_state": True, "output": str(tmp_path / "python"),
    }  # fmt: skip
    gpuparse.train(str(trained.config), keys, quiet=True)
    assert run(train.main, [*words, "--quiet"]) == 0
    assert model_files(tmp_path / "python") == model_files(tmp_path / "model")


def test_without_dev_probabilities_are_calibrated_on_held_out_sentences(words, tmp_path, capsys):
    assert run(train.main, [*words, "data.dev=null", "data.test=null"]) == 0
    assert "calibration: " in capsys.readouterr().err
    assert load_parser(tmp_path / "model").scales.is_calibrated


def test_an_interrupted_run_is_resumed_to_the_same_bytes(trained, words, more, tmp_path, capsys):
    assert run(train.main, words) == 0
    once = model_files(tmp_path / "model")

    class Stopped(Exception):
        pass

    def watch(event):
        if event.stage == "arcs" and event.epoch == 2:
            raise Stopped

    given = [f"output={tmp_path / 'stopped'}", *(w for w in words[1:] if "output" not in w)]
    config = load_config(words[0], given)
    with pytest.raises(Stopped):
        train_job.Run(config, lambda line: None, quiet=True, watch=watch).train(
            resume=False, force=False
        )
    other = tmp_path / "model"  # another model than the run started from
    capsys.readouterr()
    changed = [w for w in given if "init_from" not in w]
    assert run(train.main, [words[0], *changed, f"init_from={other}", "--resume"]) == 2
    assert "init_from: has other content" in capsys.readouterr().err
    assert run(train.main, [words[0], *changed, "--resume"]) == 2
    assert 'init_from was "model" and is now null' in capsys.readouterr().err
    assert run(train.main, [words[0], *given, "--resume"]) == 0
    assert model_files(tmp_path / "stopped") == once


def test_wrong_models_are_refused(trained, kept, words, tmp_path, capsys):
    def error_of(*more: str) -> tuple[int, str]:
        code = run(train.main, [*words, *more])
        return code, capsys.readouterr().err

    code, said = error_of(f"init_from={tmp_path / 'none'}")
    assert code == 4, said
    assert "no such folder" in said
    code, said = error_of(f"init_from={trained.model}")
    assert code == 2, said
    assert "learn that model with learning.keep_state=true" in said
    damaged = tmp_path / "damaged"
    shutil.copytree(kept, damaged)
    content = bytearray((damaged / WEIGHTS).read_bytes())
    content[-5] ^= 1
    (damaged / WEIGHTS).write_bytes(content)
    code, said = error_of(f"init_from={damaged}")
    assert code == 4, said
    assert "changed or damaged" in said
    shutil.copy(trained.model / WEIGHTS, damaged / WEIGHTS)
    content = bytearray((kept / FILE).read_bytes())
    content[-5] ^= 1
    (damaged / FILE).write_bytes(content)
    code, said = error_of(f"init_from={damaged}")
    assert code == 4, said
    assert "changed or damaged" in said
    code, said = error_of(f"output={kept}", "--force")
    assert code == 2, said
    assert "is init_from too" in said
    code, said = error_of("feature_map.rows=4096")
    assert code == 2, said
    assert "give feature_map.rows=65537" in said
    assert not (tmp_path / "model" / WEIGHTS).exists()
    code = run(jackknife.main, [words[0], *words[2:], "--output", str(tmp_path / "guides")])
    assert code == 2
    assert "init_from" in capsys.readouterr().err


def test_folds_learn_on(words, tmp_path, capsys):
    keys = [word for word in words[1:] if "output" not in word]
    keys += ["data.dev=null", "data.test=null", "calibration=none"]
    folds = ["--folds", "2", "--output", str(tmp_path / "folds")]
    assert run(crossval.main, [words[0], *keys, *folds]) == 0
    said = capsys.readouterr()
    assert "starts from" in said.err
    assert "UAS" in said.out
