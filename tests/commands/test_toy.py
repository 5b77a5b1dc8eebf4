"""Models of generated sentences: they say what they are, and may be learned again."""

import pytest

import gpuparse
from gpuparse.commands import parse, train
from gpuparse.commands.console import run
from gpuparse.jobs import checkpoint
from gpuparse.jobs.toy import TOY
from tests.runs import model_files
from tests.synthetic import generate

SMALL = [
    "data.dev=null", "data.test=null", "learning.epochs=1",
    "labels.epochs=1", "feature_map.rows=65537", "labels.rows=16384", "calibration=none",
    "threads=1", "device=cpu",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch, capfd):
    """A working directory with the model of `quickstart`, which is small here."""
    monkeypatch.chdir(tmp_path)
    assert run(train.main, ["quickstart", *SMALL]) == 0
    assert capfd.readouterr().err.splitlines()[-1] == f"gpuparse: runs/quickstart: {TOY}"
    return tmp_path


def test_quickstart_may_be_run_again(folder, capfd):
    before = model_files(folder / "runs" / "quickstart")
    (folder / "runs" / "quickstart" / "scores.json").unlink()
    assert run(train.main, ["quickstart", *SMALL, "--quiet"]) == 0
    assert (folder / "runs" / "quickstart" / "scores.json").exists()
    assert model_files(folder / "runs" / "quickstart") == before
    keys = dict(word.replace("null", "").split("=") for word in SMALL)
    keys |= {"learning.epochs": 1, "labels.epochs": 1, "threads": 1, "feature_map.rows": 65537}
    keys |= {"labels.rows": 16384, "data.dev": None, "data.test": None}
    gpuparse.train("quickstart", keys, quiet=True)


def test_another_model_is_not_replaced(folder, capfd):
    before = model_files(folder / "runs" / "quickstart")
    code = run(train.main, ["quickstart", *SMALL, "seed=2"])
    error = capfd.readouterr().err.splitlines()[-1]
    assert (code, error) == (
        2,
        "gpuparse: error: runs/quickstart: holds a finished model; give --force to replace it, or"
        f" name another output; to parse with it: {checkpoint.program('parse')} runs/quickstart"
        " FILE",
    )
    assert model_files(folder / "runs" / "quickstart") == before


def test_a_model_of_a_treebank_is_not_replaced_by_itself(folder, capfd):
    (folder / "train.conllu").write_bytes(generate(30, 1))
    words = ["quickstart", *SMALL, "data.train=train.conllu", "output=other"]
    assert run(train.main, words) == 0
    assert TOY not in capfd.readouterr().err
    assert run(train.main, words) == 2
    assert "other: holds a finished model" in capfd.readouterr().err
    assert run(parse.main, ["other", "train.conllu"]) == 0
    assert TOY not in capfd.readouterr().err


def test_an_unfinished_run_is_not_replaced(folder, capfd):
    state = folder / "runs" / "quickstart" / checkpoint.FOLDER / checkpoint.STATE
    state.parent.mkdir()
    state.write_bytes(b"state")
    assert run(train.main, ["quickstart", *SMALL]) == 2
    assert "holds an unfinished run; give --resume" in capfd.readouterr().err
    assert state.read_bytes() == b"state"


def test_parsing_says_so(folder, capfd):
    (folder / "in.conllu").write_bytes(generate(3, 2))
    assert run(parse.main, ["runs/quickstart", "in.conllu"]) == 0
    assert f"gpuparse: runs/quickstart: {TOY}" in capfd.readouterr().err.splitlines()
    assert run(parse.main, ["runs/quickstart", "in.conllu", "--quiet"]) == 0
    assert capfd.readouterr().err == ""
