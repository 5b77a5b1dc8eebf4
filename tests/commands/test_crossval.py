"""Cross-validation: every fold is parsed by a parser of the other folds, and by that alone."""

import json

import pytest

from gpuparse.commands import compare, crossval, evaluate, parse, train
from gpuparse.commands.console import run
from gpuparse.jobs import train as train_job
from tests.synthetic import generate

N_SENTENCES, FOLDS = 40, 3
CONFIG = """
output: model
features: mcdonald-2005
threads: 1
data: {train: train.conllu, dev: not-there.conllu, test: nor-this.conllu}
feature_map: {rows: 65536}
learning: {epochs: 2}
labels: {rows: 16384, epochs: 1}
"""


@pytest.fixture
def folder(tmp_path):
    """A config and its treebank, with Windows line ends."""
    text = generate(N_SENTENCES, 1).replace(b"\n", b"\r\n")
    (tmp_path / "train.conllu").write_bytes(text)
    (tmp_path / "run.yaml").write_text(CONFIG)
    return tmp_path


def validated(folder, *words) -> int:
    words = [str(folder / "run.yaml"), *words]
    if "--output" not in words:
        words += ["--output", str(folder / "out")]
    return run(crossval.main, [*words, "--folds", str(FOLDS)])


def by_hand(folder) -> bytes:
    """The same with `train` on a file without the fold, and `parse` on a file of the fold."""
    sentences = (folder / "train.conllu").read_bytes().split(b"\r\n\r\n")[:-1]
    assert len(sentences) == N_SENTENCES
    texts = [sentence + b"\r\n\r\n" for sentence in sentences]
    found = []
    for i in range(FOLDS):
        first, last = i * N_SENTENCES // FOLDS, (i + 1) * N_SENTENCES // FOLDS
        files = [folder / f"{name}-{i}.conllu" for name in ("others", "fold", "parsed")]
        files[0].write_bytes(b"".join(texts[:first] + texts[last:]))
        files[1].write_bytes(b"".join(texts[first:last]))
        model = folder / f"model-{i}"
        words = [f"data.train={files[0]}", "data.dev=null", "data.test=null", f"output={model}"]
        assert run(train.main, [str(folder / "run.yaml"), *words, "--quiet"]) == 0
        words = [str(model), str(files[1]), "--output", str(files[2]), "--quiet"]
        assert run(parse.main, words) == 0
        found.append(files[2].read_bytes())
    return b"".join(found)


def test_folds_are_those_of_train_and_parse_by_hand(folder, capsys):
    expected = by_hand(folder)
    capsys.readouterr()
    assert validated(folder, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    out = folder / "out"
    assert sorted(path.name for path in out.iterdir()) == ["predicted.conllu", "scores.json"]
    assert (out / "predicted.conllu").read_bytes() == expected
    assert json.loads((out / "scores.json").read_text()) == result
    files = [str(folder / "train.conllu"), str(out / "predicted.conllu")]
    assert run(evaluate.main, [*files, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {name: result["all"][name] for name in scores} == scores
    assert run(compare.main, [*files, files[1]]) == 0
    for name in ("uas", "las"):
        right = [fold[name]["correct"] for fold in result["folds"]]
        assert sum(right) == scores[name]["correct"]
        percent = [fold[name]["percent"] for fold in result["folds"]]
        assert result["mean"][name] == pytest.approx(sum(percent) / FOLDS)
    assert [fold["sentences"] for fold in result["folds"]] == [13, 13, 14]


def test_threads_and_shared_folds_change_no_byte(folder, capsys):
    assert validated(folder, "--quiet") == 0
    table = capsys.readouterr().out
    one = (folder / "out" / "predicted.conllu").read_bytes()
    assert validated(folder, "threads=2", "--output", str(folder / "two"), "--quiet") == 0
    assert (folder / "two" / "predicted.conllu").read_bytes() == one
    assert capsys.readouterr().out == table
    for fold in (3, 1):
        words = ["--output", str(folder / "three"), "--fold", str(fold), "--quiet"]
        assert validated(folder, *words) == 0
        shown = capsys.readouterr().out.splitlines()
        assert shown == [
            line for line in table.splitlines() if line.split()[0] in ("fold", f"{fold}")
        ]
    assert not (folder / "three" / "scores.json").exists()
    assert validated(folder, "--output", str(folder / "three")) == 0
    said = capsys.readouterr()
    assert said.out == table
    assert said.err.count("already done") == 2
    assert (folder / "three" / "predicted.conllu").read_bytes() == one


def test_an_interrupted_run_continues_to_the_same_bytes(folder, capsys, monkeypatch):
    assert validated(folder, "--output", str(folder / "whole"), "--quiet") == 0
    table, left, save = capsys.readouterr().out, [1], train_job.save_parser

    def interrupted(*arguments) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        save(*arguments)

    monkeypatch.setattr(train_job, "save_parser", interrupted)
    assert validated(folder, "--quiet") == 130
    assert not (folder / "out" / "scores.json").exists()
    assert (folder / "out" / "fold-2" / "model" / "last").exists()
    monkeypatch.setattr(train_job, "save_parser", save)
    capsys.readouterr()
    assert validated(folder, "seed=2") == 2
    said = capsys.readouterr().err
    assert "seed was 1 and is now 2" in said
    assert "give what it was begun with" in said
    words = [str(folder / "run.yaml"), "--output", str(folder / "out"), "--folds", "4"]
    assert run(crossval.main, words) == 2
    assert "folds was 3 and is now 4" in capsys.readouterr().err
    assert validated(folder) == 0
    said = capsys.readouterr()
    assert said.out == table
    assert "fold 1: already done" in said.err
    predicted = [folder / name / "predicted.conllu" for name in ("out", "whole")]
    assert predicted[0].read_bytes() == predicted[1].read_bytes()
    assert validated(folder) == 2
    assert "holds this cross-validation, finished" in capsys.readouterr().err


def test_a_fold_does_not_depend_on_its_own_trees(folder, capsys):
    """With other trees in the first fold, the same trees are predicted there."""
    words = ["--fold", "1", "--quiet"]
    assert validated(folder, *words) == 0
    before = (folder / "out" / "fold-1.conllu").read_bytes()
    lines = (folder / "train.conllu").read_bytes().split(b"\r\n")
    end = [i for i, line in enumerate(lines) if not line][N_SENTENCES // FOLDS - 1]
    for i in range(end):
        columns = lines[i].split(b"\t")
        if columns[0].isdigit():  # a chain, of relations that no other fold has
            columns[6:8] = [b"%d" % (int(columns[0]) - 1), b"other"]
            lines[i] = b"\t".join(columns)
    (folder / "train.conllu").write_bytes(b"\r\n".join(lines))
    capsys.readouterr()
    assert validated(folder, *words) == 2
    assert "data.train: has other content" in capsys.readouterr().err
    assert validated(folder, *words, "--output", str(folder / "other")) == 0
    assert (folder / "other" / "fold-1.conllu").read_bytes() == before


def test_heads_alone_have_no_scores_of_relations(folder, capsys):
    assert validated(folder, "labels.kind=none", "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["mean"]) == {"uas", "complete"}
    assert "las" not in result["all"]


def test_graphs_are_scored_as_graphs(folder, capsys):
    text = generate(N_SENTENCES, 1).split(b"\n")
    for i, line in enumerate(text):
        columns = line.split(b"\t")
        if len(columns) == 10:
            text[i] = b"\t".join([*columns[:8], b":".join(columns[6:8]), b"_"])
    (folder / "train.conllu").write_bytes(b"\n".join(text))
    words = ["decoder=multi_parent", "features=mcdonald-pereira-2006", "--json", "--quiet"]
    assert validated(folder, *words) == 0
    result = json.loads(capsys.readouterr().out)
    files = [str(folder / "train.conllu"), str(folder / "out" / "predicted.conllu")]
    assert run(evaluate.main, [*files, "--graphs", "deps", "--json"]) == 0
    assert result["all"]["graphs"] == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--fold", "4"], 2, "--fold 4: expected a number from 1 to 3"),
        (["--folds", "41"], 2, "--folds 41: expected at least 2 and at most 40"),
        (["--output", "{folder}"], 2, "holds other files"),
        (["--output", "{folder}/run.yaml"], 2, "is not a folder"),
        (["data.partial=true"], 2, "data.partial: cross-validation scores need whole trees"),
        (["data.guide=run.yaml", "features=guided"], 2, "is a file, which folds are not cut from"),
        (["data.train=no.conllu"], 3, "no.conllu: no such file"),
    ],
)
def test_what_it_refuses_before_it_works(folder, capsys, words, code, said):
    before = sorted(path.name for path in folder.iterdir())
    words = [word.format(folder=folder) for word in words]
    if "--output" not in words:
        words += ["--output", str(folder / "out")]
    if "--folds" not in words:
        words += ["--folds", str(FOLDS)]
    assert run(crossval.main, [str(folder / "run.yaml"), *words]) == code
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before
