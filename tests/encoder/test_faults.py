"""Training of an encoder that is killed, runs out of disk space or meets NaN; many threads."""

import os
import random
import resource
from pathlib import Path

import pytest

from gpuparse.commands import train
from gpuparse.commands.console import run
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.model.folder import load_parser
from gpuparse.model.pipeline import NO_STAGES
from tests.campaign.kills import is_finished, wait_and_kill
from tests.campaign.running import Child, check_end, contents
from tests.runs import model_files
from tests.samples import without
from tests.synthetic import generate
from tests.test_threads import THREADS, compare_with_one_thread

pytestmark = pytest.mark.usefixtures("states_of_all_epochs")
KILLS = 20
EPOCHS = 3


def words_of(models, **keys: object) -> list[str]:
    return [*models.words("bert", Path("model"), encoder__epochs=EPOCHS, **keys), "--quiet"]


def start(words: list[str], folder: Path) -> Child:
    """Training in a process of its own, whose model is `folder`/model; resumed if it is begun."""
    resume = ["--resume"] if (folder / "model").exists() else []
    return Child(train.main, [*words, *resume], folder)


@pytest.fixture(scope="module")
def whole(models, tmp_path_factory) -> tuple[dict[str, bytes], float]:
    """The files of a model that is learned without faults, and the seconds that it took.

    The name of the folder is in the config, so all runs write to the same relative one.
    """
    folder = tmp_path_factory.mktemp("whole")

    def there(words: list[str]) -> int:
        os.chdir(folder)
        return train.main(words)

    child = Child(there, words_of(models), folder)
    check_end(child.wait(), [0])
    return model_files(folder / "model"), child.seconds


def test_kills_at_random_moments(models, whole, tmp_path, monkeypatch, pytestconfig):
    """Twenty of them in a thorough run."""
    words, draw, (files, seconds) = words_of(models), random.Random(5), whole
    wanted = KILLS if pytestconfig.getoption("thorough") else KILLS // 4
    kills, runs = 0, 0
    while kills < wanted:
        runs += 1
        folder = tmp_path / str(runs)
        folder.mkdir()
        monkeypatch.chdir(folder)
        while kills < wanted and not is_finished(folder / "model"):
            kills += wait_and_kill(start(words, folder), draw.uniform(0, seconds))
        if not is_finished(folder / "model"):
            check_end(start(words, folder).wait(), [0])
        assert model_files(folder / "model") == files


@pytest.mark.parametrize("n_states", [0, 1, EPOCHS])
def test_a_full_disk(models, whole, tmp_path, monkeypatch, n_states):
    """The disk is full after some states: at the next one, or at the model."""
    words = words_of(models)
    folder, (files, _) = tmp_path / "full", whole
    folder.mkdir()
    monkeypatch.chdir(folder)
    model, state = folder / "model", folder / "model" / "last" / "state.safetensors"
    replace, written = os.replace, [0]

    def fill():
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(files["weights.safetensors"]) - 1, most))

    def counted(*given):
        replace(*given)
        written[0] += Path(given[1]).name == state.name
        if written[0] == n_states:
            fill()

    def on_a_full_disk(given):
        os.replace = counted  # of this process alone
        return train.main(given)

    ended = Child(on_a_full_disk, words, folder).wait()
    check_end(ended, [5])
    assert len(ended.err.strip().splitlines()) == 1
    assert not (model / "weights.safetensors").exists()
    assert [name for name in contents(model) if name.endswith(".part")] == []
    assert state.exists() is (n_states > 0)
    check_end(start(words, folder).wait(), [0])
    assert model_files(model) == files


@pytest.mark.parametrize("of", ["loss", "gradient"])
def test_nan_stops_before_anything_is_changed(models, whole, tmp_path, monkeypatch, capsys, of):
    import torch

    from gpuparse.learning.stages.encoder.stage import EncoderStage

    words = words_of(models)
    sound_loss, sound_step = EncoderStage._loss, EncoderStage._step
    steps, same = [0, 0], []

    def wrong_loss(self, sentences, n_gold):
        loss, missed = sound_loss(self, sentences, n_gold)
        steps[self.done == 2] += 1
        if steps[1] != 1:  # nor is anything learned from sound ones after it
            return loss, missed
        if of == "loss":
            return loss * float("nan"), missed
        return loss + torch.sqrt((self.network.mix * 0).sum()), missed  # its gradient is NaN

    def checked_step(self, sentences):
        before = {name: p.detach().clone() for name, p in self._parameters()}
        missed = sound_step(self, sentences)
        if self.done == 2:
            same.extend([torch.equal(before[name], p) for name, p in self._parameters()])
        return missed

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(EncoderStage, "_loss", wrong_loss)
        patched.setattr(EncoderStage, "_step", checked_step)
        capsys.readouterr()
        assert run(train.main, words) == 4
    said = capsys.readouterr().err
    assert "gradient of a step is no longer finite: give another seed" in said
    assert len(said.strip().splitlines()) == 1
    assert all(same)
    assert same
    assert min(steps) > 1
    assert (Path("model") / "last" / "state.safetensors").exists()
    assert run(train.main, [*words, "--resume"]) == 0, capsys.readouterr().err
    assert model_files(Path("model")) == whole[0]


@pytest.mark.parametrize(("family", "bits"), [("bert", 8), ("bert", 16), ("deberta-v2", 16)])
def test_threads_parse_as_one_does(models, family, bits, frequent_switches, pytestconfig):
    folder = models.model(family, f"of-{bits}-bits", weights__bits=bits)
    texts = [
        treebank_from_bytes(without(generate(6, seed), *range(2, 9)), "test")
        for seed in range(THREADS)
    ]

    def parsed(parser, text):
        filled = NO_STAGES.filled_by(parser).annotate(text)
        found = parser.parse(filled)
        return [found.heads.tobytes(), found.labels.tobytes(), filled.data.tobytes()]

    rounds = int(pytestconfig.getoption("rounds"))
    compare_with_one_thread(lambda: load_parser(folder), parsed, texts, rounds)
