"""The card of a model: what it says, who writes and reads it, and what it does not disturb."""

import errno
import json
import shutil
from pathlib import Path

import pytest

import gpuparse
from gpuparse.commands import parse, train
from gpuparse.commands.console import run
from gpuparse.errors import ModelError
from gpuparse.jobs.card import CARD, README, _stages, markdown, read_card, write_card
from gpuparse.model.pipeline import STAGES, sum_of_stages
from tests.runs import model_files
from tests.synthetic import generate

pytestmark = pytest.mark.usefixtures("small_stages")
KEYS = {
    "decoder": "eisner",
    "tagger.learn": True,
    "tagger.folds": 2,
    "lemmatizer.learn": True,
    "tokenizer.learn": True,
    "feature_map.rows": 65536,
    "labels.rows": 65536,
    "labels.epochs": 1,
    "learning.epochs": 1,
    "word_vectors.networks": 1,
    "word_vectors.epochs": 1,
    "word_vectors.min_count": 2,
}
QUICK = {"decoder": "eisner", "learning.epochs": 1} | {
    key: value for key, value in KEYS.items() if key.startswith("word_vectors")
}  # fmt: skip
README_OF_TREEBANK = """# Summary

=== Machine-readable metadata (DO NOT REMOVE!) ================================
Data available since: UD v2.0
License: CC BY-SA 4.0
Genre: grammar-examples
Contributors: Doe, Jane; <script>
===============================================================================
"""


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebanks") / "UD_English-Toy"
    folder.mkdir()
    for part, size, seed in (("train", 60, 1), ("dev", 20, 2), ("test", 20, 3)):
        (folder / f"en_toy-ud-{part}.conllu").write_bytes(generate(size, seed))
    (folder / README).write_text(README_OF_TREEBANK)
    return folder


@pytest.fixture(scope="module")
def model(treebank, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "of python"
    keys = {"output": folder, "data.treebank": treebank, "threads": 1}
    gpuparse.train("fast", KEYS | keys, quiet=True)
    return folder


@pytest.fixture
def card(model):
    return json.loads((model / CARD).read_text())


def test_a_card_says_what_the_model_was_learned_from(card, model):
    facts = ("treebank", "language", "code", "release", "since", "licence", "attribution", "genre")
    assert [card[name] for name in facts] == [
        "UD_English-Toy", "English", "en", None, "UD v2.0", "CC BY-SA 4.0", "Doe, Jane; <script>",
        "grammar-examples",
    ]  # fmt: skip
    assert card["parts"]["dev"]["file"] == "en_toy-ud-dev.conllu"
    assert [card["parts"][part]["sentences"] for part in ("train", "dev", "test")] == [60, 20, 20]
    assert card["stages"] == ["tokenizer", "tagger", "lemmatizer", "parser"]
    assert (card["decoder"], card["graphs"], card["text"]) == ("eisner", False, True)
    assert card["needs"] == []
    assert card["fills"] == ["LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL"]
    assert card["model"] == sum_of_stages(model)
    assert card["files"] == {name: (model / name).stat().st_size for name in card["files"]}
    others = {CARD, README, "metrics.jsonl", "scores.json"}
    assert set(card["files"]) == {path.name for path in model.iterdir()} - others
    assert read_card(model) == card


def test_the_scores_are_those_of_the_run(card, model):
    scores = json.loads((model / "scores.json").read_text())
    assert [(each["part"], each["from"]) for each in card["scores"]] == [
        ("dev", "words"), ("dev", "text"), ("test", "words"), ("test", "text"),
    ]  # fmt: skip
    for each in card["scores"]:
        assert each["given"] == []
        part, measures = each["part"], each["measures"]
        if each["from"] == "text":
            expected = scores["from_text"][part]
            assert measures == {name: round(value, 2) for name, value in expected.items()}
        else:
            assert measures["LAS"] == round(scores[part]["las"]["percent"], 2)
            assert measures["UPOS"] == round(scores[part]["UPOS"], 2)
    assert "Words" in card["scores"][1]["measures"]


def test_the_command_of_a_card_trains_the_same_model(model, card, treebank, tmp_path, monkeypatch):
    monkeypatch.chdir(treebank.parent)
    program, verb, *rest = card["command"].split(" ")
    assert (program, verb) == ("gpuparse", "train")
    assert card["command"].startswith("gpuparse train pipeline data.treebank=UD_English-Toy ")
    assert run(train.main, [*rest, f"output={tmp_path / 'x'}", "threads=2", "--quiet"]) == 0
    assert model_files(tmp_path / "x") == model_files(model)


def test_there_are_no_paths_and_nothing_of_the_machine(model, treebank):
    import platform

    text = (model / CARD).read_text() + (model / README).read_text()
    for word in (str(treebank.parent), str(model.parent), platform.node(), "seconds"):
        assert word not in text


def test_the_readme_says_what_the_card_says(card, model):
    text = (model / README).read_text()
    assert text.startswith("# UD_English-Toy\n")
    assert "| By | Doe, Jane; \\<script\\> |" in text
    assert "Release" not in text  # unknown
    assert "| train | en_toy-ud-train.conllu: 60 sentences, " in text
    assert f"| LAS | {card['scores'][0]['measures']['LAS']:.2f} | " in text
    assert card["command"] in text


def test_files_alone_have_no_language(tmp_path):
    keys = QUICK | {"data.train": "toy-train", "labels.kind": "none"}
    gpuparse.train("fast", keys | {"output": tmp_path / "x"}, quiet=True)
    found = read_card(tmp_path / "x")
    assert [found[name] for name in ("treebank", "language", "code", "licence")] == [None] * 4
    assert found["parts"]["test"] is None
    assert found["scores"] == []
    assert (found["text"], found["needs"]) == (False, ["LEMMA", "UPOS", "XPOS", "FEATS"])
    keys |= {"data.train": "toy-train.conllu"}
    assert set(found["command"].split()) == {
        "gpuparse", "train", "fast", *(f"{key}={value}" for key, value in keys.items()),
    }  # fmt: skip
    text = (tmp_path / "x" / README).read_text()
    assert "Language" not in text
    assert "# toy-train.conllu\n" in text
    assert "None were measured." in text
    assert "| Columns it needs | LEMMA, UPOS, XPOS, FEATS |\n" in text
    assert "| Columns it fills | HEAD |\n" in text


def test_the_command_leaves_out_what_a_config_has(tmp_path):
    keys = {"data.dev": None, "learning.epochs": 1}
    gpuparse.train("quickstart", {**keys, "output": tmp_path / "x"}, quiet=True)
    assert read_card(tmp_path / "x")["command"] == (
        "gpuparse train quickstart data.dev=null learning.epochs=1"
    )


def test_names_that_cannot_be_printed_make_a_card_that_can_be_read(tmp_path):
    name = "a\u2028b\u202e\nc\x1b[1m"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "train.conllu").write_bytes(generate(20, 1))
    (tmp_path / f"{name}.conllu").write_bytes(generate(20, 1))
    keys = QUICK | {"labels.epochs": 1, "data.dev": None}
    for number, treebank in enumerate(
        ({"data.treebank": folder}, {"data.train": tmp_path / f"{name}.conllu"})
    ):
        output = tmp_path / str(number)
        gpuparse.train("fast", {**keys, **treebank, "output": output}, quiet=True)
        card = read_card(output)
        assert card is not None
        assert "?" in card["command"]
        assert all(map(str.isprintable, (output / README).read_text().split("\n")))


def test_parts_that_are_left_out_are_in_the_command(treebank, tmp_path):
    keys = {"data.treebank": treebank, "data.dev": None, "data.test": None, "parser": False}
    keys |= {"tagger.learn": True, "tagger.folds": 1}
    gpuparse.train("fast", QUICK | keys | {"output": tmp_path / "x"}, quiet=True)
    found = read_card(tmp_path / "x")
    assert (found["stages"], found["decoder"]) == (["tagger"], None)
    assert found["fills"] == ["UPOS", "XPOS", "FEATS"]
    assert " data.dev=null data.test=null " in found["command"]


def test_a_new_model_takes_the_card_away_until_it_has_its_own(treebank, tmp_path, monkeypatch):
    from gpuparse.jobs import train as job

    keys = ["fast", f"data.train={treebank}/en_toy-ud-train.conllu", f"output={tmp_path / 'x'}"]
    keys += ["labels.epochs=1", "calibration=none", "--quiet"]
    keys += [f"{key}={value}" for key, value in QUICK.items()]
    assert run(train.main, keys) == 0
    assert read_card(tmp_path / "x") is not None

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(job, "write_card", fail)
        assert run(train.main, [*keys, "seed=2", "--force"]) == 5
    assert read_card(tmp_path / "x") is None
    assert not (tmp_path / "x" / README).exists()
    assert run(train.main, [*keys, "seed=2", "--resume"]) == 0
    assert "seed=2" in read_card(tmp_path / "x")["command"].split()


def test_a_readme_of_others_is_not_replaced(treebank, tmp_path, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / README).write_text("# Mine\n")
    keys = ["fast", f"data.treebank={treebank}", f"output={folder}", "--force", "--quiet"]
    assert run(train.main, keys) == 2
    assert f"{folder / README}: would be replaced by the card" in capsys.readouterr().err
    assert (folder / README).read_text() == "# Mine\n"


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"])
def test_a_model_is_read_whatever_its_card_is(model, treebank, tmp_path, capfdbinary, content):
    copy, source = tmp_path / "copy", Path(treebank) / "en_toy-ud-test.conllu"
    shutil.copytree(model, copy)
    (copy / README).unlink()
    (copy / CARD).unlink()
    if content is not None:
        (copy / CARD).write_bytes(content)
    outputs = []
    for folder in (model, copy):
        assert parse.main([str(folder), str(source), "--quiet"]) == 0
        outputs.append(capfdbinary.readouterr().out)
    assert outputs[0] == outputs[1]


def damaged():
    """Changes of a card that make it none, by name."""
    changes = {
        "format": 2, "model": 5, "treebank": "", "language": "a\x1b[31m", "licence": ["a"],
        "parts": {}, "stages": "tagger", "decoder": 1, "graphs": 0, "text": None,
        "needs": ["WORDS"], "fills": None, "command": None, "files": [1], "gpuparse": None,
    }  # fmt: skip
    return [*changes.items(), ("files", {"x": -1}), ("files", {"x": True}), ("files", {"../x": 1}),
            ("files", {"..": 1}), ("stages", ["x"]), ("stages", []),
            ("stages", ["tagger", "tagger"])]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), damaged())
def test_a_wrong_card_is_refused(card, tmp_path, name, value):
    for change in ({name: value}, {}):
        text = json.dumps({**{key: card[key] for key in card if key != name}, **change})
        (tmp_path / CARD).write_text(text)
        with pytest.raises(ModelError, match=r"card\.json: not a card of this version: "):
            read_card(tmp_path)


@pytest.mark.parametrize("score", [-1, 101, "90", True, float("nan"), None])
def test_wrong_scores_are_refused(card, tmp_path, score):
    card["scores"][0]["measures"]["UAS"] = score
    (tmp_path / CARD).write_text(json.dumps(card))
    with pytest.raises(ModelError, match="missing or wrong: scores"):
        read_card(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "[" * 100_000, '{"format": 1, "format": 1}', "x" * (1 << 20) + "x", "{}"]
)
def test_what_is_no_card_is_refused(tmp_path, text):
    (tmp_path / CARD).write_text(text)
    with pytest.raises(ModelError, match=r"card\.json: "):
        read_card(tmp_path)
    (tmp_path / CARD).unlink()
    assert read_card(tmp_path) is None
    (tmp_path / CARD).mkdir()
    with pytest.raises(ModelError, match="a folder, pipe or device"):
        read_card(tmp_path)


def test_other_keys_of_a_card_are_passed_over(card, tmp_path):
    (tmp_path / CARD).write_text(json.dumps(card | {"more": 1}))
    assert read_card(tmp_path) == card


def test_markdown_keeps_what_a_stranger_wrote_as_text(card, tmp_path):
    card |= {"treebank": "a|b <i>`c`", "command": "```\u2026"}
    write_card(tmp_path, card)
    assert read_card(tmp_path) == card
    text = markdown(card)
    assert text == (tmp_path / README).read_text()
    assert text.startswith("# a\\|b \\<i\\>\\`c\\`\n")
    assert "\n````sh\n```\u2026\n````\n" in text


def test_a_parser_that_fills_tags_is_a_tagger(tmp_path):
    of_encoder = ["tokenizer", "lemmatizer", "parser"]
    for name in of_encoder:
        (tmp_path / STAGES[name].file).touch()
    assert _stages(tmp_path, ["UPOS", "HEAD"]) == ["tokenizer", "tagger", "lemmatizer", "parser"]
    assert _stages(tmp_path, ["HEAD", "DEPREL"]) == of_encoder
