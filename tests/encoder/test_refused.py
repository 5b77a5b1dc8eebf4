"""Requests that a parser with an encoder refuses, and keys that do not fit it."""

import json
import shutil
from contextlib import nullcontext

import pytest

import gpuparse
from gpuparse.errors import ConfigError, DataError
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.folder import load_parser
from tests.synthetic import generate, treebank_file
from tests.tiny_encoders import write_encoder

KEYS = {
    "data.train": treebank_file(20, 1),
    "data.dev": treebank_file(5, 2),
    "tokenizer.learn": False,
}


@pytest.mark.parametrize(
    ("config", "more", "said"),
    [
        ("encoder", {"encoder.model": None}, "encoder.model: missing"),
        ("fast", {}, "give features=encoder"),
        ("encoder", {"features": "mcdonald-2005"}, "encoder.model"),
        *(
            ("encoder", {"decoder": name}, "choose decoder=(eisner|chu_liu_edmonds)")
            for name, decoder in DECODERS.items() if decoder.needs and not decoder.gives_graphs
        ),
        ("encoder", {"encoder.model": "no/such-encoder-here"}, "cannot be read"),
        ("encoder", {"encoder.model": "."}, "encoder.model .: cannot be read"),
        ("encoder", {"decoder": "multi_parent", "encoder.loss": "hinge"}, "encoder.loss=local"),
        ("encoder", {"decoder": "multi_parent", "data.partial": True}, "data.partial=false"),
        ("encoder", {"data.guide": "misc:Guide"}, r"data\.guide: a parser with an encoder"),
    ],
)  # fmt: skip
def test_keys_that_do_not_fit(tmp_path, config, more, said, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encoder = write_encoder(tmp_path / "encoder")
    keys = KEYS | {"encoder.model": str(encoder), "output": str(tmp_path / "model")}
    with pytest.raises(ConfigError, match=said):
        gpuparse.train(config, keys | more, quiet=True)
    assert not (tmp_path / "model").exists()


def test_data_dev_can_be_left_out(models, tmp_path, capsys):
    keys = {"data.dev": None, "lemmatizer.learn": False}
    trained = gpuparse.train("encoder", models.keys("bert", tmp_path / "model") | keys)
    assert "learning.keep best: without data.dev, the last epoch is kept" in capsys.readouterr().err
    assert len(trained.parser.parse(generate(2, 1))) == 2


@pytest.mark.parametrize("length", [1_000, 1_001])
@pytest.mark.parametrize("column", [3, 7], ids=["upos", "deprel"])
def test_texts_that_are_too_long(tmp_path, column, length):
    encoder = write_encoder(tmp_path / "encoder")
    lines = [["1", "a", *"_" * 4, "0", "root", "_", "_"], ["2", "b", *"_" * 4, "1", "x", "_", "_"]]
    lines[1][column] = "x" * length
    text = "".join("\t".join(line) + "\n" for line in lines) + "\n"
    (tmp_path / "train.conllu").write_text(30 * text)
    keys = {"encoder.model": str(encoder), "output": str(tmp_path / "model"),
            "data.train": str(tmp_path / "train.conllu"), "learning.keep": "last",
            "data.dev": str(tmp_path / "train.conllu"), "encoder.epochs": 1, "threads": 1,
            "tokenizer.learn": False, "encoder.read_tags": True}  # fmt: skip
    said = pytest.raises(DataError, match="more than 1,000 characters")
    with said if length > 1_000 else nullcontext():
        gpuparse.train("encoder", keys, quiet=True)
        load_parser(tmp_path / "model")


FAULTS = {
    "truncated": "its weights cannot be read",
    "no weights": "its weights cannot be read",
    "deberta-v2": "its weights are of another encoder than its config",
    "modernbert": "its weights are of another encoder than its config",
    "roberta": "its weights are of another encoder than its config",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_of_pretrained_encoders(tmp_path, fault):
    """No weight is drawn at random where the file has none."""
    encoder = write_encoder(tmp_path / "encoder")
    weights = encoder / "model.safetensors"
    if fault == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif fault == "no weights":
        weights.unlink()
    else:
        other = write_encoder(tmp_path / "other", fault)
        shutil.copy(other / "model.safetensors", weights)
    keys = KEYS | {"encoder.model": str(encoder), "output": str(tmp_path / "model")}
    with pytest.raises(ConfigError, match=FAULTS[fault]) as caught:
        gpuparse.train("encoder", keys, quiet=True)
    assert "\n" not in str(caught.value)
    assert "random" not in str(caught.value)
    assert not (tmp_path / "model" / "weights.safetensors").exists()


def test_a_strange_expression_of_a_pretrained_tokenizer(tmp_path):
    encoder = write_encoder(tmp_path / "encoder")
    content = json.loads((encoder / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}
    (encoder / "tokenizer.json").write_text(json.dumps(content))
    keys = KEYS | {"encoder.model": str(encoder), "output": str(tmp_path / "model")}
    with pytest.raises(ConfigError, match=r"encoder\.model .*normalizer: a regular expression"):
        gpuparse.train("encoder", keys, quiet=True)
    assert not (tmp_path / "model").exists()
