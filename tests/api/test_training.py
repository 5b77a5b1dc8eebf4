"""Training from Python: the model and the scores of the command."""

import json

import pytest
import torch

import gpuparse
from gpuparse.commands import crossval, evaluate, jackknife, report, train
from gpuparse.commands.console import run as called
from gpuparse.config import load_config, make_config
from gpuparse.errors import ConfigError
from tests.synthetic import generate, treebank_file

KEYS = {
    "features": "mcdonald-2005", "decoder": "eisner", "threads": 1, "device": "cpu",
    "feature_map.rows": 65537, "learning.epochs": 1, "labels.rows": 16384, "labels.epochs": 1,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "\n".join(f"{key}: {value}" for key, value in KEYS.items() if "." not in key)
    (tmp_path / "run.yaml").write_text(
        f"{words}\nfeature_map: {{rows: 65537}}\nlearning: {{epochs: 1}}\n"
        f"labels: {{rows: 16384, epochs: 1}}\ndata: {{train: {treebank_file(40, 1)},"
        f" dev: {treebank_file(9, 2)}, test: {treebank_file(20, 3)}}}\n"
    )
    return tmp_path


def test_it_scores_as_evaluate_does(folder, capsys):
    """In tests/test_doors.py it learns what the command learns."""
    run = gpuparse.train("run.yaml", quiet=True)
    assert capsys.readouterr() == ("", "")
    gold = generate(20, 3)
    written = gpuparse.load("runs/run").parse(gold).to_conllu()
    assert run.parser.parse(gold).to_conllu() == written
    (folder / "gold").write_bytes(gold)
    (folder / "system").write_text(run.parser.parse(gold).to_conllu())
    assert evaluate.main(["gold", "system", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    for name in ("uas", "las", "label_accuracy", "complete"):
        assert run.metrics[f"test_{name}"] == scores[name]["percent"]
    assert run.metrics["learning_seconds"] > 0
    assert {"dev_uas", "dev_las"} < set(run.metrics)
    assert run.folder == folder.joinpath("runs", "run").relative_to(folder)
    assert run.config == load_config("run.yaml")


def test_a_dict_is_a_config_in_sections_or_dotted(folder):
    data = {"train": treebank_file(40, 1), "dev": None, "test": folder / "none.conllu"}
    nested = make_config({"output": folder / "x", "decoder": "eisner", "data": data})
    dotted = make_config(
        {"output": "y", "base": folder / "run.yaml"},
        {"output": folder / "x"} | {f"data.{name}": value for name, value in data.items()},
    )
    assert nested.data == dotted.data
    assert nested.output == dotted.output == str(folder / "x")
    assert dotted.learning.epochs == 1
    assert make_config({"base": "fast", "output": "x"}, {"data.train": "t"}).features == "fast"


@pytest.mark.parametrize(
    ("config", "overrides", "said"),
    [
        ({"output": "x"}, {}, "config: data.train is missing"),
        ({"data.train": "t"}, {}, "config: output: missing"),
        ({"output": "x", "data.train": "t", "epochs": 3}, {}, "did you mean learning.epochs"),
        ({"output": "x", "data": "t"}, {}, "config: data: a section; expected one of its keys"),
        ("run.yaml", {"learning.epochs": "many"}, "overrides: learning.epochs: expected"),
        ("run.yaml", {"learning.epoch": 3}, "did you mean learning.epochs"),
        ("nowhere.yaml", {}, "nowhere.yaml: no such file"),
        ("defualt", {}, "did you mean default"),
    ],
)
def test_wrong_configs_are_told_what_is_expected(folder, config, overrides, said):
    with pytest.raises(ConfigError, match=said):
        gpuparse.train(config, overrides, quiet=True)


def test_a_model_is_replaced_only_if_asked_and_torch_keeps_its_threads(folder):
    torch.set_num_threads(2)
    (folder / "train.conllu").write_bytes(generate(40, 1))
    overrides = {"data.dev": None, "data.test": None, "learning.epochs": 1}
    overrides["data.train"] = "train.conllu"
    run = gpuparse.train("run.yaml", overrides, quiet=True)
    assert torch.get_num_threads() == 2
    assert list(run.metrics) == ["learning_seconds"]
    with pytest.raises(ConfigError, match="holds a finished model; give force=True to replace it"):
        gpuparse.train("run.yaml", overrides, quiet=True)
    gpuparse.train("run.yaml", overrides, force=True, quiet=True)


def test_the_package_offers_what_it_says():
    for name in gpuparse.__all__:
        assert getattr(gpuparse, name) is not None
    assert dir(gpuparse) == gpuparse.__all__
    with pytest.raises(AttributeError, match="no attribute 'parse_all'"):
        gpuparse.parse_all  # noqa: B018


def test_several_files_are_learned_from_as_one(folder, capsys):
    """By train, crossval, tune, jackknife and report; errors name the file and its line."""
    texts = [generate(n, n) for n in (25, 15, 9)]
    names = ["a.conllu", "b.conllu", "c.conllu"]
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_bytes(text)
    (folder / "whole.conllu").write_bytes(texts[0] + texts[1])
    joined = {"data.train": names[:2], "data.dev": "c.conllu", "data.test": None}
    runs = [
        gpuparse.train("run.yaml", joined | {"output": "joined"}, quiet=True),
        gpuparse.train(
            "run.yaml", joined | {"data.train": "whole.conllu", "output": "whole"}, quiet=True
        ),
    ]
    assert len({run.parser.parse(texts[2]).to_conllu() for run in runs}) == 1
    assert (
        "| train | a.conllu,b.conllu: 40 sentences, "
        in (folder / "joined" / "README.md").read_text()
    )
    outputs = {}
    for files in ("a.conllu,b.conllu", "whole.conllu"):
        words = ["run.yaml", f"data.train={files}"]
        assert crossval.main([*words, "--folds", "2", "--output", f"cv-{files}", "--quiet"]) == 0
        assert jackknife.main([*words, "--folds", "2", "--output", f"jk-{files}", "--quiet"]) == 0
        outputs[files] = [
            (folder / f"cv-{files}" / "predicted.conllu").read_bytes(),
            (folder / f"jk-{files}").read_bytes(),
        ]
    assert outputs["a.conllu,b.conllu"] == outputs["whole.conllu"]
    words = ["run.yaml", "data.train=a.conllu", "data.dev=c.conllu,b.conllu", "output=two"]
    assert train.main([*words, "data.test=null", "--quiet"]) == 0
    assert report.main(["two", "--output", "two.html"]) == 0
    assert called(train.main, [*words, "data.test=none,c.conllu", "--force"]) == 3
    assert "data.test: none: no such file" in capsys.readouterr().err
    (folder / "b.conllu").write_bytes(texts[1].replace(b"\t0\troot", b"\t99\troot", 1))
    assert called(train.main, ["run.yaml", "data.train=a.conllu,b.conllu", "output=x"]) == 3
    line = texts[1].split(b"\t0\troot")[0].count(b"\n") + 1
    assert f"error: b.conllu:{line}: " in capsys.readouterr().err
    words = ["run.yaml", "data.train=a.conllu,c.conllu", "--output", "c.conllu", "--force"]
    assert called(jackknife.main, words) == 2
    assert "would be replaced by its own output" in capsys.readouterr().err
