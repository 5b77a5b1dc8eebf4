"""Searches over settings, each of which is a cross-validation or is scored on data.dev."""

import json
import shlex
import sys
from xml.etree import ElementTree

import pytest

from gpuparse.commands import compare, crossval, evaluate, parse, train, tune
from gpuparse.commands.console import run
from gpuparse.config import load_config
from gpuparse.jobs.folds import Sample, read_split
from gpuparse.jobs.plots import Point, lines_of, tuning_plot
from gpuparse.jobs.settings import ALL, SENTENCES, KeyValues, drawn_settings, grid, parse_grid
from tests.graphs_by_place import deps_of_heads
from tests.synthetic import generate

CONFIG = """
output: model
features: mcdonald-2005
threads: 1
data: {train: train.conllu, test: not-there.conllu}
feature_map: {rows: 65536}
learning: {epochs: 1}
labels: {rows: 16384, epochs: 1}
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def folder(tmp_path):
    """A config, the treebank that it names, and another one."""
    for name, n, seed in (("train", 30, 1), ("dev", 12, 2)):
        (tmp_path / f"{name}.conllu").write_bytes(generate(n, seed))
    (tmp_path / "run.yaml").write_text(CONFIG)
    return tmp_path


def tuned(folder, *words) -> int:
    return run(tune.main, [str(folder / "run.yaml"), "--output", str(folder / "out"), *words])


def files_of(folder) -> dict[str, bytes]:
    """The files that a search leaves, without the times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name == "scores.json":
            scores = json.loads(path.read_bytes())
            for part in (scores, *scores["folds"]):
                del part["seconds"]
            scores["overrides"] = [x for x in scores["overrides"] if not x.startswith("threads")]
            found[str(path.relative_to(folder))] = json.dumps(scores).encode()
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_a_setting_on_folds_is_a_cross_validation(folder, capsys):
    words = ["--folds", "2", "--grid", "learning.epochs=1,3", "--grid", "seed=1,2"]
    assert tuned(folder, *words, "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    values = [trial["values"] for trial in result["settings"]]
    assert values == [{"learning.epochs": e, "seed": s} for e in "13" for s in "12"]
    last = result["settings"][3]
    assert last["folder"] == "learning.epochs=3,seed=2"
    by_hand = [str(folder / "run.yaml"), "learning.epochs=3", "seed=2", "--folds", "2"]
    assert run(crossval.main, [*by_hand, "--output", str(folder / "hand"), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert files_of(folder / "out" / last["folder"]) == files_of(folder / "hand")
    for name in ("mean", "standard_deviation"):
        assert last[name] == expected[name]
    means = [trial["mean"]["las"] for trial in result["settings"]]
    assert result["best"] == 1 + means.index(max(means))
    program, command, config, *overrides = result["train"]
    assert (program, command) == ("gpuparse", "train")
    best = load_config(config, overrides)
    chosen = result["settings"][result["best"] - 1]["values"]
    assert (str(best.learning.epochs), str(best.seed)) == tuple(chosen.values())
    # Each setting is tested against the first.
    files = [folder / "out" / result["settings"][k]["folder"] / "predicted.conllu" for k in (0, 2)]
    assert run(compare.main, [str(folder / "train.conllu"), *map(str, files), "--json"]) == 0
    [expected] = json.loads(capsys.readouterr().out)["comparisons"]
    assert result["settings"][0]["change"] is None
    assert result["settings"][2]["change"] == expected["bootstrap"]["las"]
    assert result["settings"][2]["change"]["difference"] > 0


def test_a_setting_on_dev_is_train_and_parse(folder, capsys):
    dev = folder / "dev.conllu"
    words = [f"data.dev={dev}", "--grid", "features=mcdonald-2005,extended", "--json", "--quiet"]
    assert tuned(folder, *words) == 0
    second = json.loads(capsys.readouterr().out)["settings"][1]
    by_hand = ["data.test=null", "features=extended", f"output={folder / 'hand'}", "--quiet"]
    assert run(train.main, [str(folder / "run.yaml"), *by_hand]) == 0
    assert run(parse.main, [str(folder / "hand"), str(dev), "--output", f"{folder}/p/"]) == 0
    predicted = folder / "p" / "dev.conllu"
    found = folder / "out" / "features=extended" / "predicted.conllu"
    assert found.read_bytes() == predicted.read_bytes()
    assert run(evaluate.main, [str(dev), str(predicted), "--json"]) == 0
    assert second["mean"]["las"] == json.loads(capsys.readouterr().out)["las"]["percent"]
    assert second["standard_deviation"]["las"] is None


def test_threads_and_shared_settings_change_no_byte(folder, capsys):
    words = ["--folds", "2", "--grid", "seed=1,2", "--sizes", "6,all", "--quiet"]
    assert tuned(folder, *words) == 0
    table = capsys.readouterr().out
    two = ["threads=2", "--output", str(folder / "two")]
    for number in (4, 2):
        assert tuned(folder, *words, *two, "--setting", str(number)) == 0
    assert len(list((folder / "two").iterdir())) == 2
    capsys.readouterr()
    assert tuned(folder, *words, *two, "--tsv") == 0
    assert files_of(folder / "two") == files_of(folder / "out")
    header, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == [
        "setting", "seed", "sentences", "uas", "uas_deviation", "las", "las_deviation", "change",
        "p", "seconds",
    ]  # fmt: skip
    shown = [line.split() for line in table.splitlines()[3:7]]
    assert [row[:3] for row in rows] == [row[:3] for row in shown]
    assert [f"{float(row[5]):.2f}" for row in rows] == [row[5] for row in shown]
    # Against the first setting with as many sentences.
    assert [bool(row[8]) for row in rows] == [False, False, True, True]


def test_an_interrupted_search_continues_to_the_same_bytes(folder, capsys, interrupted_after):
    words = ["--folds", "2", "--grid", "seed=1,2"]
    assert tuned(folder, *words, "--output", str(folder / "whole"), "--quiet") == 0
    with interrupted_after(3):
        assert tuned(folder, *words, "--quiet") == 130
    assert (folder / "out" / "seed=2" / "fold-2" / "model" / "last").exists()
    capsys.readouterr()
    assert tuned(folder, *words, "learning.epochs=2") == 2
    assert "learning.epochs was 1 and is now 2" in capsys.readouterr().err
    assert tuned(folder, *words) == 0
    table = capsys.readouterr().out
    assert files_of(folder / "out") == files_of(folder / "whole")
    # When all is done, the same command prints the same; more values are added.
    assert tuned(folder, *words) == 0
    said = capsys.readouterr()
    assert said.out == table
    assert said.err.count("already done") == 2
    assert tuned(folder, *words[:2], "--grid", "seed=1,2,3") == 0
    said = capsys.readouterr()
    assert said.err.count("already done") == 2
    assert said.out.splitlines()[2:5] == table.splitlines()[2:5]
    assert tuned(folder, *words, "learning.epochs=2") == 2
    assert "learning.epochs was 1 and is now 2" in capsys.readouterr().err


def test_sizes_are_samples_within_each_other(folder):
    config = load_config(str(folder / "run.yaml"), ["data.test=null"])
    split = read_split(config, 3, tell=print)
    text = (folder / "train.conllu").read_bytes()
    sentences = [part + b"\n\n" for part in text.split(b"\n\n")[:-1]]
    assert split.n_known == 20
    for fold in (1, 3):
        left_out = sentences[10 * (fold - 1) : 10 * fold]
        known = [each for each in sentences if each not in left_out]
        assert split.known(fold, Sample()) == b"".join(known)
        before: set[bytes] = set()
        for n in (1, 5, 20):
            found = split.known(fold, Sample(n, 7))
            kept = [each for each in known if each in found]
            assert b"".join(kept) == found
            assert len(kept) == n
            assert before <= set(kept)
            before = set(kept)
    assert split.known(1, Sample(5, 7)) != split.known(1, Sample(5, 8))


def test_a_learning_curve_ends_in_the_whole_treebank(folder, capsys):
    words = [f"data.dev={folder / 'dev.conllu'}", "--sizes", "3,30,all", "--json", "--quiet"]
    assert tuned(folder, *words, "--plot", str(folder / "curve.svg")) == 0
    result = json.loads(capsys.readouterr().out)
    few, every, whole = result["settings"]
    assert few["mean"]["las"] < whole["mean"]["las"]
    assert every["mean"] == whole["mean"]
    # Nothing to choose, and nothing to test.
    assert (result["best"], result["train"]) == (None, None)
    assert {trial["change"] for trial in result["settings"]} == {None}
    labels = [x.text for x in ElementTree.parse(folder / "curve.svg").iter(f"{SVG}text")]
    assert {"sentences", "3", "30"} <= set(labels)


def test_draws():
    axes = parse_grid(["learning.epochs=2..40", "learning.max_step=0.001..0.1", "seed=1,2"])
    found = drawn_settings(axes, 60, 5)
    assert found[:20] == drawn_settings(axes, 20, 5)
    assert found[:20] != drawn_settings(axes, 20, 6)
    assert len({tuple(setting.values()) for setting in found}) == 60
    epochs = [int(setting["learning.epochs"]) for setting in found]
    steps = sorted(float(setting["learning.max_step"]) for setting in found)
    assert min(epochs) >= 2
    assert max(epochs) <= 40
    assert steps[0] >= 0.001
    assert steps[-1] <= 0.1
    assert 0.004 < steps[30] < 0.025  # the middle of the logarithms is 0.01
    assert {setting["seed"] for setting in found} == {"1", "2"}
    assert len(drawn_settings(parse_grid(["seed=1,2,3"]), 3, 0)) == 3


def test_random_settings_have_all_sizes(folder, capsys):
    words = ["--folds", "2", "--grid", "learning.epochs=1..3", "--sizes", "4,8", "--quiet"]
    assert tuned(folder, *words, "--random", "2") == 0
    said = capsys.readouterr().out
    rows = [line.split()[:3] for line in said.splitlines()[3:7]]
    assert [row[2] for row in rows] == ["4", "8", "4", "8"]
    assert rows[0][1] == rows[1][1] != rows[2][1] == rows[3][1]
    command = shlex.split(said.splitlines()[-1])
    assert command[-1] in {f"learning.epochs={row[1]}" for row in rows}


def test_heads_alone_and_graphs(folder, capsys):
    words = ["--folds", "2", "--grid", "learning.epochs=1,2", "--quiet", "--json"]
    assert tuned(folder, *words, "labels.kind=none") == 0
    assert json.loads(capsys.readouterr().out)["measure"] == "uas"
    (folder / "train.conllu").write_bytes(deps_of_heads(generate(30, 1)))
    words += ["features=mcdonald-pereira-2006", "--output", str(folder / "graphs")]
    assert tuned(folder, *words, "decoder=multi_parent") == 0
    assert json.loads(capsys.readouterr().out)["measure"] == "labelled_arcs_f"
    mixed = ["--folds", "2", "--grid", "decoder=multi_parent,hill_climb"]
    assert tuned(folder, *mixed, "features=mcdonald-pereira-2006") == 2
    assert "settings that find trees and settings that find graphs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "nothing to try: give --grid"),
        (["--grid", "learning.epochs=1,2"], 2, "nothing to score on: give a number with --folds"),
        (["--folds", "2", "--grid", "learning.epoch=1"], 2, "did you mean learning.epochs?"),
        (["--folds", "2", "--grid", "learning.epochs=1,"], 2, "expected KEY=VALUE,VALUE"),
        (["--folds", "2", "--grid", "seed=1", "--grid", "seed=2"], 2, "seed is given twice"),
        (["--folds", "2", "--grid", "seed=1,x"], 2, "seed: expected an integer"),
        (["--folds", "2", "--grid", "seed=1..9"], 2, "seed: a range has too many values"),
        (["--folds", "2", "--grid", "seed=9..1", "--random", "1"], 2, "expected a range above 0"),
        (["--folds", "2", "--grid", "seed=1,2", "--random", "3"], 2, "no more than 2 settings"),
        (["--folds", "2", "--grid", "output=a,b"], 2, "output: is not searched over"),
        (["--folds", "2", "--grid", "data.train=a,b"], 2, "folds of different treebanks"),
        (["--folds", "2", "--sizes", "0,all"], 2, "--sizes 0,all: expected numbers of sentences"),
        (["--folds", "2", "--sizes", "16"], 2, "data.train has only 15 sentences to learn from"),
        (["--folds", "2", "--sizes", "5", "--setting", "2"], 2, "expected a number from 1 to 1"),
        (["--folds", "31", "--sizes", "5"], 2, "--folds 31: expected at least 2 and at most 30"),
        (["--folds", "2", "--sizes", "5", "--output", "{folder}/run.yaml"], 2, "is not a folder"),
        (["--folds", "2", "--sizes", "5", "--plot", "{folder}/run.yaml"], 2, "run.yaml: exists"),
        (["--sizes", "5", "data.dev=no.conllu"], 3, "data.dev: no.conllu: no such file"),
    ],
)
def test_what_it_refuses_before_it_works(folder, capsys, words, code, said):
    before = sorted(path.name for path in folder.iterdir())
    assert tuned(folder, *(word.format(folder=folder) for word in words)) == code
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before


def texts_of(picture) -> set[str]:
    return {text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")}


def test_a_plot_over_sizes_has_a_line_for_each_setting_of_the_other_keys():
    axes = [KeyValues("seed", ("1", "2")), KeyValues(SENTENCES, ("10", "100", ALL))]
    points = [
        Point({"seed": seed, SENTENCES: n}, 50.0 + 10 * k + int(seed), 1.0)
        for seed in "12"
        for k, n in enumerate(("10", "100", "1000"))
    ]
    assert lines_of(axes[1], points) == {"seed=1": [0, 1, 2], "seed=2": [3, 4, 5]}
    picture = tuning_plot(axes, points, "a title")
    assert {"a title", "seed=1", "seed=2", "10", "100", "1000"} < texts_of(picture)
    assert tuning_plot(axes, points, "a title") == picture


def test_a_plot_has_a_panel_for_each_key_and_a_line_along_the_best():
    axes = [KeyValues("learning.epochs", ("5", "10", "20")), KeyValues("features", ("$a$", "b"))]
    points = [Point(setting, 80.0 + k, None) for k, setting in enumerate(grid(axes))]
    assert [lines_of(axis, points) for axis in axes] == [{"": [1, 3, 5]}, {"": [4, 5]}]
    texts = texts_of(tuning_plot(axes, points, ""))
    assert {"learning.epochs", "features", "5", "10", "20", "$a$", "b"} < texts
    assert texts_of(tuning_plot([axes[0]], points[:1], ""))


def test_a_plot_without_matplotlib_is_refused_before_anything_is_learned(
    folder, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    words = ["--folds", "2", "--grid", "seed=1,2", "--plot", str(folder / "a.svg")]
    assert tuned(folder, *words) == 2
    assert "pip install 'gpuparse[plots]'" in capsys.readouterr().err
    assert not (folder / "out").exists()
