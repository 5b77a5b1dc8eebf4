"""What a parser with an encoder cannot do, and keys that do not fit it."""

import pytest

import gpuparse
from gpuparse.commands import blend
from gpuparse.errors import ConfigError
from tests.tiny_encoders import write_encoder

KEYS = {"data.train": "synthetic:20:1", "data.dev": "synthetic:5:2", "tokenizer.learn": False}


@pytest.mark.parametrize(
    ("config", "more", "said"),
    [
        ("encoder", {"encoder.model": None}, "encoder.model: missing"),
        ("fast", {}, "give features=encoder"),
        ("encoder", {"decoder": "eisner_sibling"}, "choose decoder=eisner"),
        ("encoder", {"encoder.model": "no/such-encoder-here"}, "cannot be read"),
        ("encoder", {"init_from": "runs/other"}, "init_from: a parser with an encoder"),
        ("encoder", {"data.guide": "misc:Guide"}, r"data\.guide: a parser with an encoder"),
        ("encoder", {"learning.keep_state": True}, r"learning\.keep_state: a parser with"),
        ("encoder", {"learning.unreachable": "reorder"}, "choose projectivise or skip"),
    ],
)
def test_keys_that_do_not_fit(tmp_path, config, more, said, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encoder = write_encoder(tmp_path / "encoder")
    keys = KEYS | {"encoder.model": str(encoder), "output": str(tmp_path / "model")}
    with pytest.raises(ConfigError, match=said):
        gpuparse.train(config, keys | more, quiet=True)
    assert not (tmp_path / "model").exists()


def test_what_needs_templates_is_said(tmp_path):
    encoder = write_encoder(tmp_path / "encoder")
    keys = KEYS | {"encoder.model": str(encoder), "output": str(tmp_path / "model")}
    model = gpuparse.train("encoder", keys | {"encoder.epochs": 1}, quiet=True).folder
    with pytest.raises(ConfigError, match="no templates"):
        blend.main([str(tmp_path / "blend"), str(model), str(model)])
