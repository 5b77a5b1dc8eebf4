"""Self-tests: a device that gives other trees, or none, is found out; work goes on elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse.commands import parse, train
from gpuparse.errors import SelfTestError
from gpuparse.jobs.resources import working_device
from gpuparse.model.folder import save_parser
from gpuparse.model.parser import Parser
from gpuparse.model.self_test import LENGTHS, device_difference, with_random_weights
from tests.test_device import KINDS
from tests.test_model import trained

EVERY_KIND = [kind for kind in KINDS if kind != "heads only"]


class FakeDevice:
    """An engine in place of a GPU: native code, with one head changed or an error."""

    def __init__(self, parser: Parser, trouble: str) -> None:
        self.parser, self.trouble = parser, trouble

    def send(self, batch):
        return object()

    def best(self, batch, known, how):
        if self.trouble == "raises":
            raise RuntimeError("no kernel image\nis available")
        found = self.parser.host.best(batch, known, how)
        is_wrong = self.trouble == "wrong" or (
            self.trouble == "wrong first order" and self.parser.search_decoder == "eisner"
        )
        if is_wrong:
            heads = found.heads.copy()
            heads[batch.starts[3] + 2] += 1
            found = replace(found, heads=heads)
        return found


@pytest.fixture
def fake(monkeypatch, request):
    """CUDA is there, and what runs on it has the trouble that the test names."""
    searcher = Parser.searcher

    def faked(self, device="cpu", engine="auto"):
        return (
            FakeDevice(self, request.param) if device == "cuda" else searcher(self, device, engine)
        )

    monkeypatch.setattr(Parser, "searcher", faked)
    monkeypatch.setattr("gpuparse.jobs.resources.cuda_trouble", lambda: "")
    return request.param


with_trouble = pytest.mark.parametrize("fake", ["wrong", "raises"], indirect=True)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_torch_engine_passes(kind):
    parser = trained(**KINDS[kind])
    assert device_difference(parser, "cpu", "torch") == ""
    drawn = with_random_weights(parser)
    assert device_difference(drawn, "cpu", "torch", only_known=True) == ""
    heads = drawn.search(drawn.generated(LENGTHS, only_known=True)).heads
    assert len(np.unique(heads)) > 9  # trees that are not all alike


@pytest.mark.triton
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_kernels_pass(kind):
    assert device_difference(trained(**KINDS[kind]), "cpu", "triton") == ""


@with_trouble
def test_the_first_difference_is_said(fake):
    said = device_difference(trained(), "cuda", keep_heads=True)
    if fake == "raises":
        assert said == "RuntimeError: no kernel image is available"
    else:
        assert said.startswith("generated sentence 4 of 5 words, word 2: head ")


def test_devices_that_pass_are_used():
    assert working_device("cpu", "auto", lambda: pytest.fail("nothing to test")) == "cpu"
    assert working_device("cuda", "auto", lambda: "") == "cuda"
    with pytest.raises(SelfTestError, match='fails: X; use device="cpu"'):
        working_device("cuda", "auto", lambda: "X", can_fall_back=False)


@with_trouble
def test_parsing_goes_on_on_the_cpu(fake, tmp_path, capfdbinary):
    (tmp_path / "model").mkdir()
    save_parser(trained(), tmp_path / "model")
    text = tmp_path / "input.conllu"
    text.write_bytes(b"1\tA\t_\tD\tD\t_\t_\t_\t_\t_\n2\tb\t_\tN\tN\t_\t_\t_\t_\t_\n\n")
    outputs = []
    for device in ("cpu", "auto"):
        assert parse.main([str(tmp_path / "model"), str(text), "--quiet", "--device", device]) == 0
        outputs.append(capfdbinary.readouterr())
    assert outputs[0].out == outputs[1].out
    assert outputs[0].err == b""
    assert outputs[1].err.count(b"\n") == 1
    assert b"device cuda: its self-test fails: " in outputs[1].err
    assert outputs[1].err.endswith(b"; the work is done on the CPU\n")
    with pytest.raises(SelfTestError, match="its self-test fails") as raised:
        parse.main([str(tmp_path / "model"), str(text), "--device", "cuda"])
    assert raised.value.exit_code == 7


@pytest.mark.parametrize("fake", ["wrong first order"], indirect=True)
def test_what_parses_long_sentences_is_tested_too(fake, tmp_path, capfdbinary):
    (tmp_path / "model").mkdir()
    save_parser(trained(decoder="eisner_sibling"), tmp_path / "model")
    text = tmp_path / "input.conllu"
    text.write_bytes(b"1\tA\t_\tD\tD\t_\t_\t_\t_\t_\n\n")
    assert parse.main([str(tmp_path / "model"), str(text), "--quiet"]) == 0
    assert b"; the work is done on the CPU" in capfdbinary.readouterr().err


@with_trouble
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_training_goes_on_on_the_cpu(fake, engine, tmp_path, monkeypatch, capsys):
    from tests.samples import random_sentences, treebank_of

    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.conllu").write_bytes(treebank_of(random_sentences(6, 20, 1)).data.tobytes())
    (tmp_path / "c.yaml").write_text(
        "{output: m, data: {train: t.conllu, dev: t.conllu}, labels: {epochs: 1},"
        f" learning: {{epochs: 1, engine: {engine}}}, feature_map: {{rows: 1024}}}}"
    )
    assert train.main(["c.yaml", "--quiet"]) == 0
    assert "self-test fails" in capsys.readouterr().err
    with pytest.raises(SelfTestError):
        train.main(["c.yaml", "--force", "--quiet", "device=cuda"])
