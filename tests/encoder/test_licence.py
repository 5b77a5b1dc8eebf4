"""The licence of a pretrained encoder goes into the models that are learned from it."""

import json
import shutil
import time

import pytest

from gpuparse.commands import train
from gpuparse.commands.console import run

CARDS = {
    "---\nlicense: apache-2.0\n---\nText.\n": "apache-2.0",
    "---\r\nlanguage: no\r\nlicense: mit\r\n---\r\n": "mit",
    "---\ntags:\n- x\nlicense: 'cc-by-4.0' # a comment\nmore: 1\n---": "cc-by-4.0",
    "---\nlicense:\n- mit\n- apache-2.0\n---\n": "mit, apache-2.0",
    "---\nlicense: [mit, apache-2.0]\n---\n": "mit, apache-2.0",
    "---\nlicense: other\nlicense_name: mine\n---\n": "other",
    "---\nlicense:\n---\n": None,
    "---\nlicense_name: mine\n---\n": None,
    "---\nmodel:\n  license: mit\n---\n": None,
    "license: mit\n": None,
    "Text.\n---\nlicense: mit\n---\n": None,
    "---\nlicense: mit\n": None,
    "": None,
}


@pytest.mark.parametrize("card", CARDS)
def test_licences_of_model_cards(card):
    pytest.importorskip("torch")
    from gpuparse.learning.stages.encoder.pretrained import licence_of

    assert licence_of(card) == CARDS[card]


@pytest.mark.parametrize("part", ["\n", "---", "--- \n", "- ", "license:\n", " " * 99, "a: b\n"])
def test_long_cards_take_no_long_time(part):
    pytest.importorskip("torch")
    from gpuparse.learning.stages.encoder.pretrained import licence_of

    began = time.process_time()
    for begin in ("", "---\n", "---\nlicense: "):
        licence_of(begin + part * (1_000_000 // len(part)))
        licence_of(begin + part * (1_000_000 // len(part)) + "\n---\n")
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "card", [b"---\nlicense: mit\n---\n", b"---\ntags: []\n---\n", b"\xff", None]
)
def test_a_model_and_its_card_have_the_licence_of_the_encoder(models, tmp_path, capsys, card):
    encoder = tmp_path / "pretrained"
    shutil.copytree(models.encoder("bert"), encoder)
    if card is not None:
        (encoder / "README.md").write_bytes(card)
    keys = {"encoder__model": encoder, "weights__bits": 16}
    capsys.readouterr()
    assert run(train.main, models.words("bert", tmp_path / "model", **keys)) == 0
    lines = capsys.readouterr().err.splitlines()
    warnings = [line for line in lines if "names no licence" in line]
    config = json.loads((tmp_path / "model" / "encoder.json").read_text())
    if card and b"mit" in card:
        assert (config["license"], warnings) == ("mit", [])
    else:
        assert "license" not in config
        assert len(warnings) == 1
        assert f"warning: encoder.model {encoder}" in warnings[0]
    written = json.loads((tmp_path / "model" / "card.json").read_text())
    assert (written["encoder"], written["encoder_licence"]) == ("pretrained", config.get("license"))
    assert (written["code"], written["licence"]) == (None, None)
    code, out = models.call(tmp_path / "model", models.forms)
    assert code == 0
    assert out
