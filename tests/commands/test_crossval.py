"""Cross-validation, and jackknifing, whose guides are its heads: every fold is parsed by a parser
of the other folds, and by that alone.
"""

import json
import re

import numpy as np
import pytest

from gpuparse.commands import compare, crossval, evaluate, jackknife, parse, train
from gpuparse.commands.console import run
from gpuparse.data.conll import read_treebank, treebank_from_bytes, with_misc
from gpuparse.data.guides import read_guides
from tests.graphs_by_place import deps_of_heads
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
    """A config and its treebank, with items in MISC and Windows line ends."""
    treebank = treebank_from_bytes(generate(N_SENTENCES, 1), "generated")
    items = {"Keep": ["x" if w % 3 else "" for w in range(treebank.n_words)]}
    (tmp_path / "train.conllu").write_bytes(with_misc(treebank, items).replace(b"\n", b"\r\n"))
    (tmp_path / "run.yaml").write_text(CONFIG)
    return tmp_path


def validated(folder, *words) -> int:
    given = [str(folder / "run.yaml"), "--folds", str(FOLDS), "--output", str(folder / "out")]
    return run(crossval.main, [*given, *words])


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


def test_an_interrupted_run_continues_to_the_same_bytes(folder, capsys, interrupted_after):
    assert validated(folder, "--output", str(folder / "whole"), "--quiet") == 0
    table = capsys.readouterr().out
    with interrupted_after(1):
        assert validated(folder, "--quiet") == 130
    assert not (folder / "out" / "scores.json").exists()
    assert (folder / "out" / "fold-2" / "model" / "last").exists()
    capsys.readouterr()
    assert validated(folder, "seed=2") == 2
    said = capsys.readouterr().err
    assert "seed was 1 and is now 2" in said
    assert "give what it was begun with" in said
    assert validated(folder, "--folds", "4") == 2
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
    (folder / "train.conllu").write_bytes(deps_of_heads(generate(N_SENTENCES, 1)))
    words = ["decoder=multi_parent", "features=mcdonald-pereira-2006", "--json", "--quiet"]
    assert validated(folder, *words) == 0
    result = json.loads(capsys.readouterr().out)
    files = [str(folder / "train.conllu"), str(folder / "out" / "predicted.conllu")]
    assert run(evaluate.main, [*files, "--graphs", "deps", "--json"]) == 0
    assert result["all"]["graphs"] == json.loads(capsys.readouterr().out)


def jackknifed(folder, *words) -> int:
    given = [str(folder / "run.yaml"), "--output", str(folder / "guides.conllu")]
    return run(jackknife.main, [*given, "--folds", str(FOLDS), *words])


def test_guides_are_the_heads_of_cross_validation(folder, capsys):
    assert validated(folder, "labels.kind=none", "--quiet") == 0
    treebank = read_treebank(folder / "train.conllu")
    expected = read_treebank(folder / "out" / "predicted.conllu").heads
    capsys.readouterr()
    assert jackknifed(folder, "--key", "PARSED") == 0
    out = (folder / "guides.conllu").read_bytes()
    assert out == with_misc(treebank, {"PARSED": expected.astype("S")})
    assert np.array_equal(read_guides(treebank_from_bytes(out, "out"), "misc:PARSED"), expected)
    right = 100 * (expected == treebank.heads).mean()
    assert f"{right:.2f}% of these heads are right" in capsys.readouterr().err
    # Without the items just written, it is the file that was read.
    untouched = re.sub(rb"PARSED=\d+", b"_", re.sub(rb"\|PARSED=\d+", b"", out))
    assert untouched == (folder / "train.conllu").read_bytes()
    assert jackknifed(folder, "--key", "PARSED", "threads=2", "--force", "--quiet") == 0
    assert (folder / "guides.conllu").read_bytes() == out
    assert capsys.readouterr().err == ""
    words = ["features=guided", "data.guide=misc:PARSED", f"output={folder / 'model'}", "--quiet"]
    words += [f"data.train={folder / 'guides.conllu'}", "labels.kind=none", "data.dev=null"]
    assert run(train.main, [str(folder / "run.yaml"), *words, "data.test=null"]) == 0


def test_an_interrupted_jackknife_leaves_no_file(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(jackknife, "with_misc", interrupted)
    before = sorted(path.name for path in folder.iterdir())
    assert jackknifed(folder, "--quiet") == 130
    assert sorted(path.name for path in folder.iterdir()) == before


REFUSED = [  # the command, what follows its usual words, the exit code, and what is said
    (validated, "--fold 4", 2, "--fold 4: expected a number from 1 to 3"),
    (validated, "--folds 41", 2, "--folds 41: expected at least 2 and at most 40"),
    (validated, "--output {folder}", 2, "holds other files"),
    (validated, "--output {folder}/run.yaml", 2, "is not a folder"),
    (validated, "data.partial=true", 2, "data.partial: cross-validation scores need whole trees"),
    (validated, "data.guide=run.yaml features=guided", 2,
     "is a file, which folds are not cut from"),
    (validated, "data.train=no.conllu", 3, "no.conllu: no such file"),
    (jackknifed, "--folds 1", 2, "--folds 1: expected at least 2 and at most 40"),
    (jackknifed, "--folds 41", 2, "--folds 41: expected at least 2"),
    (jackknifed, "--key a=b", 2, "--key: 'a=b': expected a key"),
    (jackknifed, "--output {folder}", 2, "is a folder"),
    (jackknifed, "--output {folder}/no/file", 2, "the folder is missing"),
    (jackknifed, "--output {folder}/train.conllu --force", 2, "would be replaced by its own"),
    (jackknifed, "--output {folder}/run.yaml", 2, "exists; give --force"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "words", "code", "said"), REFUSED, ids=[r[1] for r in REFUSED])
def test_what_is_refused_before_anything_is_learned(folder, capsys, command, words, code, said):
    before = sorted(path.name for path in folder.iterdir())
    assert command(folder, *words.format(folder=folder).split()) == code
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before
