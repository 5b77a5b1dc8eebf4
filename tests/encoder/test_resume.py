"""A run that is interrupted after an epoch and resumed writes the same bytes."""

import json
import shutil
from pathlib import Path

import pytest

from gpuparse.commands import train
from gpuparse.commands.console import run
from gpuparse.config import load_config
from gpuparse.jobs import train as train_job
from gpuparse.jobs.progress import silent
from gpuparse.jobs.train_checks import plan_of
from tests.runs import model_files

pytestmark = pytest.mark.usefixtures("states_of_all_epochs")
EPOCHS = 3


class Stopped(Exception):
    pass


def interrupt(words: list[str], epoch: int) -> None:
    """Stop the run when an epoch, whose state is written, is done."""

    def watch(event):
        if event.stage == "encoder" and event.epoch == epoch:
            raise Stopped

    config = load_config(words[0], words[1:])
    with pytest.raises(Stopped):
        train_job.train(plan_of(config, silent), resume=False, force=False, quiet=True, watch=watch)


@pytest.mark.parametrize(
    ("family", "keys"),
    [
        ("bert", {}),
        ("deberta-v2", {}),
        ("modernbert", {}),
        ("bert", {"encoder__train": False}),
        ("bert", {"decoder": "multi_parent"}),
        ("bert", {"encoder__read_tags": True, "weights__bits": 16}),
        ("roberta", {"encoder__loss": "conditional", "learning__keep": "last"}),
    ],
    ids=["bert", "deberta", "modernbert", "frozen", "graphs", "tags", "last"],
)
def test_a_resumed_run_writes_the_same_bytes(models, tmp_path, monkeypatch, capsys, family, keys):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    (whole).mkdir()
    (stopped).mkdir()
    # The name of the folder is in the config, so both runs write to the same relative one.
    monkeypatch.chdir(whole)
    words = [*models.words(family, Path("model"), encoder__epochs=EPOCHS, **keys), "--quiet"]
    assert run(train.main, words) == 0, capsys.readouterr().err
    once = model_files(whole / "model")
    for epoch in (1, 2):
        folder = stopped / str(epoch)
        folder.mkdir()
        monkeypatch.chdir(folder)
        interrupt(words[:-1], epoch)
        assert not (folder / "model" / "weights.safetensors").exists()
        assert run(train.main, [*words, "--resume"]) == 0, capsys.readouterr().err
        assert model_files(folder / "model") == once


def change(folder, what):
    """Another content of a file of an encoder that can still be read."""
    if what == "weights":
        from safetensors.numpy import load_file, save_file

        arrays = load_file(folder / "model.safetensors")
        name = next(name for name in arrays if name.endswith("word_embeddings.weight"))
        arrays[name] = arrays[name] + 1
        save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    elif what == "README.md":
        (folder / what).write_text("---\nlicense: mit\n---\n")
    else:
        file = folder / f"{what}.json"
        other = {"config": {"layer_norm_eps": 0.5}, "tokenizer": {"normalizer": {"type": "NFC"}}}
        file.write_text(json.dumps(json.loads(file.read_text()) | other[what]))


@pytest.mark.parametrize("what", ["weights", "config", "tokenizer", "README.md"])
def test_a_changed_pretrained_encoder_is_refused(models, tmp_path, monkeypatch, capsys, what):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(models.encoder("bert"), tmp_path / "pretrained")
    keys = {"encoder__model": "pretrained", "encoder__epochs": EPOCHS}
    words = models.words("bert", Path("model"), **keys)
    interrupt(words, 2)
    change(tmp_path / "pretrained", what)
    assert run(train.main, [*words, "--resume", "--quiet"]) == 2
    assert f"encoder.model, its {what}: has other content" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "pretrained")
    shutil.copytree(models.encoder("bert"), tmp_path / "pretrained")
    (tmp_path / "pretrained" / "more.md").write_text("Another text.\n")
    assert run(train.main, [*words, "--resume", "--quiet"]) == 0, capsys.readouterr().err
