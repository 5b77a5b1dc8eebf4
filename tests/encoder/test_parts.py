"""A step in parts, of one process or of several, has the gradients of the whole step."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import gpuparse
from gpuparse.config import make_config
from gpuparse.config.schema import EncoderConfig
from gpuparse.data.array_file import below
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError
from gpuparse.model.folder import load_parser
from tests.encoder.conftest import KEYS
from tests.synthetic import generate, treebank_file

DROPPING = ("hidden_dropout_prob", "attention_probs_dropout_prob")
SURE = {"weights__bits": 16, "encoder__loss": "local"}


@pytest.fixture
def sure(models, tmp_path, monkeypatch):
    """An encoder that drops nothing at random."""
    import shutil

    from gpuparse.learning.stages.encoder import trainer

    monkeypatch.setattr(trainer, "DROPOUT", 0.0)
    folder = shutil.copytree(models.encoder("bert"), tmp_path / "sure")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | dict.fromkeys(DROPPING, 0.0)))
    return folder


def stage_of(sure, device="cpu", **keys):
    """The stage of an encoder, and the lines that it tells."""
    from gpuparse.learning.stages.encoder.pretrained import read_pretrained
    from gpuparse.learning.stages.encoder.trainer import EncoderTrainer

    given = {k.replace("__", "."): v for k, v in (SURE | keys).items()}
    given |= {"encoder.model": str(sure), "features": "encoder", "output": "-"}
    config = make_config(KEYS | {"decoder": "chu_liu_edmonds"} | given)
    told: list[str] = []
    treebank = treebank_from_bytes(generate(30, 4), "gold")
    trainer = EncoderTrainer(treebank, config, read_pretrained(str(sure)), told.append, device)
    return trainer.stage("encoder"), told


@pytest.mark.parametrize(
    ("pieces", "epochs"),
    [(0, 30), (11_000, 30), (30_000, 20), (66_000, 10), (90_000, 9), (9**9, 9)],
)
def test_epochs_of_small_treebanks(pieces, epochs):
    from gpuparse.learning.stages.encoder.stage import epochs_of

    assert epochs_of(EncoderConfig(), pieces) == epochs
    assert epochs_of(EncoderConfig(epochs=3), pieces) == 3


def test_calibration_learns_for_as_many_epochs(models, tmp_path, monkeypatch):
    from gpuparse.learning.stages.encoder import stage

    made = []
    learn = stage.EncoderStage.learn

    def learned(self, order, seen):
        made.append((len(order), self.epochs))
        return learn(self, order, seen)

    monkeypatch.setattr(stage.EncoderStage, "learn", learned)
    monkeypatch.setattr(stage, "EPOCHS", 1)
    monkeypatch.setattr(stage, "MOST_EPOCHS", 4)
    monkeypatch.setattr(stage, "STEPS", 8)  # two epochs of 40 sentences, more of 12
    keys = {"encoder__epochs": "auto", "data__dev": None, "calibration": "held-out"}
    gpuparse.train("encoder", models.keys("bert", tmp_path / "model", **keys), quiet=True)
    assert {(size, epochs) for size, epochs in made} == {(40, 2), (12, 2)}


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing(smoothing):
    import torch

    from gpuparse.learning.stages.encoder.stage import cross_entropy

    scores = torch.randn(40, 9, generator=torch.Generator().manual_seed(1))
    gold = np.arange(40) % 10 - 1
    own = cross_entropy(scores, gold, smoothing)
    expected = torch.nn.functional.cross_entropy(
        scores, torch.from_numpy(gold), ignore_index=-1, reduction="sum", label_smoothing=smoothing
    )
    assert own.item() == pytest.approx(expected.item(), rel=1e-5)
    forbidden = torch.cat([scores, torch.full((40, 3), -torch.inf)], 1)
    assert cross_entropy(forbidden, gold, smoothing).item() == pytest.approx(own.item(), rel=1e-5)


def gradients(stage) -> dict[str, np.ndarray]:
    missed = stage._gradients(np.arange(30))
    found = {n: p.grad.numpy().copy() for n, p in stage._parameters() if p.grad is not None}
    return found | {"missed": missed.numpy()}


@pytest.mark.parametrize(
    ("loss", "decoder"),
    [(loss, "chu_liu_edmonds") for loss in ("local", "conditional", "hinge")]
    + [("local", "multi_parent")],
)
def test_gradients_of_parts_are_added(sure, loss, decoder):
    stage, _ = stage_of(sure, encoder__loss=loss, decoder=decoder)
    stage._at_once = 4000
    whole = gradients(stage)
    stage._at_once = 60
    for name, found in gradients(stage).items():
        np.testing.assert_allclose(found, whole[name], rtol=1e-3, atol=2e-6, err_msg=name)


def test_out_of_memory_halves_what_goes_through_at_once(sure, monkeypatch):
    import torch

    stage, told = stage_of(sure)
    stage._at_once = 4000
    whole, computed = gradients(stage), stage._loss

    def narrow(sentences, n_gold):
        if len(sentences) > 8:
            raise torch.OutOfMemoryError("no memory")
        return computed(sentences, n_gold)

    monkeypatch.setattr(stage, "_loss", narrow)
    for name, found in gradients(stage).items():
        np.testing.assert_allclose(found, whole[name], rtol=1e-3, atol=2e-6, err_msg=name)
    assert told
    assert all("out of memory" in line for line in told)
    n_told = len(told)
    gradients(stage)
    assert len(told) == n_told  # it stays so

    def none(sentences, n_gold):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(stage, "_loss", none)
    with pytest.raises(torch.OutOfMemoryError):
        gradients(stage)


def start_two(folder, words: list[str]) -> subprocess.CompletedProcess:
    """Train in two processes, as torchrun starts them, and drop nothing at random."""
    (folder / "sure.py").write_text(
        "import sys\n"
        "from gpuparse.__main__ import main\n"
        "from gpuparse.learning.stages.encoder import trainer\n"
        "from gpuparse.text import training\n"
        "trainer.DROPOUT, trainer.ARC_SIZE, trainer.LABEL_SIZE = 0.0, 32, 16\n"
        "training.LEARNING = training.LEARNING._replace(epochs=1, rows=1 << 16)\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    several = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    command = [sys.executable, *several, "--rdzv-endpoint", "localhost:0", "sure.py"]
    return subprocess.run(
        [*command, "train", *words], cwd=folder, capture_output=True, text=True, timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_several_processes_learn_what_one_learns(models, sure, tmp_path, monkeypatch):
    from gpuparse.learning.stages.encoder import stage

    monkeypatch.setattr(stage, "HEAD_RATE", 0.001)
    keys = SURE | {"encoder__model": str(sure), "encoder__epochs": 2, "tokenizer__learn": True}
    run = start_two(tmp_path, models.words("bert", tmp_path / "two", **keys))
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("is kept") == 1, run.stderr
    gpuparse.train("encoder", models.keys("bert", tmp_path / "one", **keys), quiet=True)
    one, two = (load_parser(tmp_path / name).scorers[0].arrays for name in ("one", "two"))
    for name, array in below(one, "body").items():
        other = two[f"body.{name}"]
        np.testing.assert_allclose(other.astype(float), array.astype(float), atol=2e-3)


def test_the_other_processes_end_where_nothing_is_left(sure):
    class One:
        rank, told = 0, []

        def begin(self, epoch=None):
            self.told.append(epoch)

    stage, _ = stage_of(sure, encoder__epochs=2)
    stage._group, stage.done = One(), 2
    stage.prepare()
    assert One.told == [None]


def test_one_process_learns_other_models(tmp_path, monkeypatch):
    keys = {"data.train": treebank_file(20, 1), "output": tmp_path / "model"}
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")  # as torchrun sets them
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = "torchrun: several processes learn models with an encoder alone"
    with pytest.raises(ConfigError, match=said):
        gpuparse.train("fast", keys | {"tokenizer.learn": False}, quiet=True)
