"""metrics.jsonl and scores.json: what training writes beside a model."""

import json

import pytest

from gpuparse.commands import evaluate
from gpuparse.jobs import records
from tests.synthetic import treebank_file


@pytest.fixture
def learned(train_run, tmp_path):
    """Train the small model with other overrides; its folder."""

    def learned(*words):
        assert train_run("--quiet", *words)[0] == 0
        return tmp_path / "model"

    return learned


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


def test_the_scores_are_those_of_evaluate(trained, parse_run, tmp_path, call):
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
    system.write_bytes(parse_run(trained.test, "--quiet")[1])
    expected = json.loads(call(evaluate.main, trained.test, system, "--json")[1])
    tested = found["test"]
    assert (tested["sentences"], tested["seconds"] > 0) == (100, True)
    assert {name: tested[name] for name in expected} == expected
    assert tested["uas"]["percent"] > 80
    assert tested["las"]["percent"] > 75


def test_without_labels_and_treebanks_there_are_no_scores_of_them(learned):
    folder = learned("labels.kind=none", "data.dev=null", "learning.epochs=1")
    found = records.read_scores(folder)
    assert "las" not in found["test"]
    assert "relations" not in found["test"]
    assert "dev" not in found
    assert not any("dev" in key for key in records.read_metrics(folder)[0])


@pytest.mark.parametrize("bits", ["8", "auto"])
def test_the_dev_scores_are_of_the_written_model(learned, trained, bits):
    folder = learned(f"weights.bits={bits}", f"data.dev={trained.test}")
    found = records.read_scores(folder)
    found["test"].pop("seconds")
    assert found["dev"] == found["test"]


def test_joint_labels_are_scored_after_each_epoch_of_arcs(learned):
    folder = learned("labels.kind=joint", "labels.features=joint-labels", "learning.epochs=1")
    assert [line["stage"] for line in records.read_metrics(folder)] == ["arcs"]
    assert records.read_metrics(folder)[0]["dev_las"] > 0


def test_another_run_leaves_nothing_of_the_first(learned):
    folder = learned()
    before = records.read_scores(folder)
    learned("--force", "learning.epochs=1", "data.test=null")
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
