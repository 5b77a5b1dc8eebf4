"""metrics.jsonl and scores.json: what training writes beside a model."""

import json

import pytest

from gpuparse.commands import evaluate, train
from gpuparse.commands.console import run
from gpuparse.jobs import checkpoint, records
from tests.commands.conftest import program
from tests.runs import model_files
from tests.synthetic import treebank_file


@pytest.fixture
def train_run(trained, tmp_path, capsys, monkeypatch):
    """Train the small model in this process with other overrides; its folder."""
    monkeypatch.chdir(trained.folder)

    def call(*words):
        words = [str(trained.config), f"output={tmp_path / 'model'}", "--quiet", *words]
        assert run(train.main, words) == 0
        capsys.readouterr()
        return tmp_path / "model"

    return call


def epochs(folder):
    return [(line["stage"], line["epoch"]) for line in records.read_metrics(folder)]


ALL = [("arcs", 1), ("arcs", 2), ("arcs", 3), ("labels", 1), ("labels", 2)]


def test_there_is_a_line_for_each_epoch(trained):
    text = (trained.model / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert epochs(trained.model) == ALL == [(line["stage"], line["epoch"]) for line in lines]
    assert {line["sentences"] for line in lines} == {300}
    assert all(0 <= line["wrong"] <= line["words"] for line in lines)
    assert lines[0]["wrong"] > lines[2]["wrong"]
    assert all(line["seconds"] > 0 and line["cpu_seconds"] >= 0 for line in lines)
    assert ["dev_las" in line for line in lines] == [False] * 3 + [True] * 2
    for line in (lines[2], lines[4]):  # the last ones of their stages
        assert f", dev UAS {line['dev_uas']:.2f}" in trained.err


def test_the_scores_are_those_of_evaluate(trained, tmp_path, capsys):
    found = json.loads((trained.model / "scores.json").read_text())
    assert found["files"] == {
        "train": str(trained.folder / "train.conllu"),
        "dev": treebank_file(60, 2),
        "test": str(trained.test),
    }
    assert (found["seed"], found["threads"], found["device"]) == (1, 1, "cpu")
    assert found["decoder"] == "chu_liu_edmonds"
    assert {"version", "python", "torch"} <= set(found)
    assert found["seconds"] > found["learning_seconds"] > 0
    assert found["peak_memory_bytes"] > 1 << 24
    system = tmp_path / "system.conllu"
    system.write_bytes(program("parse.py", trained.model, trained.test, "--quiet").stdout)
    assert evaluate.main([str(trained.test), str(system), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    tested = found["test"]
    assert (tested["sentences"], tested["seconds"] > 0) == (100, True)
    assert {name: tested[name] for name in expected} == expected


def test_without_labels_and_treebanks_there_are_no_scores_of_them(train_run):
    folder = train_run("labels.kind=none", "data.dev=null", "learning.epochs=1")
    found = records.read_scores(folder)
    assert "las" not in found["test"]
    assert "relations" not in found["test"]
    assert "dev" not in found
    assert not any("dev" in key for key in records.read_metrics(folder)[0])


@pytest.mark.parametrize("bits", ["8", "auto"])
def test_the_dev_scores_are_of_the_written_model(train_run, trained, bits):
    folder = train_run(f"weights.bits={bits}", f"data.dev={trained.test}")
    found = records.read_scores(folder)
    found["test"].pop("seconds")
    assert found["dev"] == found["test"]


def test_joint_labels_are_scored_after_each_epoch_of_arcs(train_run):
    folder = train_run("labels.kind=joint", "labels.features=joint-labels", "learning.epochs=1")
    assert [line["stage"] for line in records.read_metrics(folder)] == ["arcs"]
    assert records.read_metrics(folder)[0]["dev_las"] > 0


class Cut(Exception):
    """Where a process would be killed."""


@pytest.mark.parametrize("n_epochs", [1, 4])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_run_that_goes_on_has_each_epoch_once(
    train_run, trained, tmp_path, monkeypatch, n_epochs, is_written
):
    count, write = 0, checkpoint.write_checkpoint

    def cut(*given):
        nonlocal count
        count += 1
        if is_written or count < n_epochs:
            write(*given)
        if count == n_epochs:
            raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_checkpoint", cut)
        with pytest.raises(Cut):
            train_run()
    folder = tmp_path / "model"
    assert epochs(folder) == ALL[:n_epochs]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "labels", "epo')  # as a full disk may leave it
    train_run(*(["--resume"] if is_written or n_epochs > 1 else []))
    assert epochs(folder) == ALL
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == len(ALL)
    assert model_files(folder) == model_files(trained.model)
    found, expected = (records.read_scores(each) for each in (folder, trained.model))
    assert found["dev"] == expected["dev"]


def test_the_epochs_of_pruning_are_kept_with_the_state(train_run, tmp_path, monkeypatch):
    words = ["decoder=dual_decomposition", "features=extended", "data.dev=null"]
    words += [f"data.train={treebank_file(40, 1)}", "data.test=null"]
    words += ["learning.epochs=1", "labels.kind=none"]
    monkeypatch.setattr("gpuparse.learning.stages.pruning.FOLDS", 2)
    expected = [("pruning", 1), ("pruning", 2), ("pruning", 3), ("arcs", 1)]
    whole = model_files(train_run(*words))
    assert epochs(tmp_path / "model") == expected
    write = checkpoint.write_checkpoint

    def cut(*given):
        write(*given)
        raise Cut

    for n_epochs in range(1, 5):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "write_checkpoint", cut)
            with pytest.raises(Cut):
                train_run(*words, "--force" if n_epochs == 1 else "--resume")
        assert epochs(tmp_path / "model") == expected[:n_epochs]
    assert epochs(train_run(*words, "--resume")) == expected
    assert model_files(tmp_path / "model") == whole


def test_another_run_leaves_nothing_of_the_first(train_run):
    folder = train_run()
    before = records.read_scores(folder)
    train_run("--force", "learning.epochs=1", "data.test=null")
    assert epochs(folder) == [("arcs", 1), ("labels", 1), ("labels", 2)]
    after = records.read_scores(folder)
    assert "test" in before
    assert "test" not in after
    assert before["dev"] != after["dev"]


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", "[" * 100_000, '{"stage": 1, "epoch": 2}', "\xff"]
)
def test_what_is_no_record_is_left_out(tmp_path, text):
    for name in (records.METRICS, records.SCORES):
        (tmp_path / name).write_text(text, encoding="latin-1")
    assert records.read_metrics(tmp_path) == []
    assert records.read_scores(tmp_path) in ({}, {"stage": 1, "epoch": 2})
