"""An encoder on devices: nothing waits for them, and states are those of the CPU but for rounding.

On the CPU the same code runs; `Waits` finds there what would wait for a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="an encoder needs the package torch")
from gpuparse.config import load_config  # noqa: E402
from gpuparse.data.conll import treebank_from_bytes  # noqa: E402
from gpuparse.errors import ScoreError  # noqa: E402
from gpuparse.jobs.train_checks import plan_of  # noqa: E402
from gpuparse.model.engines.dense import Dense  # noqa: E402
from gpuparse.model.folder import load_parser  # noqa: E402
from gpuparse.model.pipeline import NO_STAGES  # noqa: E402
from gpuparse.scorers.encoder.network import Heads, Network, is_bfloat16  # noqa: E402
from gpuparse.scorers.encoder.quantised import FAMILIES as QUANTISED  # noqa: E402
from gpuparse.scorers.encoder.quantised import QuantisedEncoder  # noqa: E402
from tests.encoder.test_parts import stage_of  # noqa: E402
from tests.encoders import arrays_of, config_of  # noqa: E402
from tests.tiny_encoders import FAMILIES, write_encoder  # noqa: E402
from tests.waits import Waits  # noqa: E402

READERS = ("numpy", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__")


@contextmanager
def no_waits(device: torch.device) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, Waits(_wait):
        for name in READERS:
            patch.setattr(torch.Tensor, name, _wait)
        if device.type != "cuda":
            yield
            return
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


def _wait(*_: object) -> None:
    raise AssertionError("a value of a tensor is read")


@pytest.mark.parametrize("what", ["item", "mask", "nonzero", "bool", "numpy"])
def test_waits_are_found(what: str) -> None:
    x = torch.arange(4.0)
    waiting = {
        "item": x.sum().item, "mask": lambda: x[x > 1], "nonzero": x.nonzero,
        "bool": lambda: bool(x.sum() > 1), "numpy": lambda: x.numpy(),
    }  # fmt: skip
    with pytest.raises(AssertionError), no_waits(x.device):
        waiting[what]()


@pytest.mark.parametrize(
    ("family", "decoder"),
    [*((family, "chu_liu_edmonds") for family in FAMILIES), ("bert", "multi_parent")],
)
def test_a_step(models, device: torch.device, family: str, decoder: str) -> None:
    keys = {"encoder__precision": "bfloat16", "decoder": decoder}
    stage, _ = stage_of(models.encoder(family), device.type, **keys)
    stage._step(np.arange(30))  # the optimizer makes its state
    before = stage.averages()
    with no_waits(device):
        missed = stage._step(np.arange(30))
    n_words = int(stage._batch.lengths.sum())
    assert 0 < int(missed) <= n_words * (2 if decoder == "multi_parent" else 1)
    assert any((a != b).any() for a, b in zip(before, stage.averages(), strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_parsing_up_to_heads(models, device: torch.device, family: str, monkeypatch) -> None:
    keys = {"weights__bits": 16, "decoder": "eisner", "encoder__precision": "bfloat16"}
    parser = load_parser(models.model(family, "waits", **keys))
    treebank = treebank_from_bytes(models.forms, "test")
    parser.scorers[0].fill(treebank, device.type, 1)  # kernels are compiled, weights sent
    wanted = parser.parse(treebank, device=device.type, engine="torch")
    run, runs = Dense._run, []

    def checked(self: Dense, *given: Any) -> Any:
        runs.append(self)
        with no_waits(device):
            return run(self, *given)

    monkeypatch.setattr(Dense, "_run", checked)
    again = treebank_from_bytes(models.forms, "test")  # whose states are not known
    found = parser.parse(again, device=device.type, engine="torch")
    assert len(runs) == 1
    assert np.array_equal(found.heads, wanted.heads)
    assert np.array_equal(found.labels, wanted.labels)


@pytest.mark.triton
@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
def test_kernels_find_the_same_trees(models, decoder):
    keys = {"weights__bits": 16, "decoder": decoder}
    parser = load_parser(models.model("bert", f"of-{decoder}", **keys))
    treebank = treebank_from_bytes(models.forms, "test").only(np.arange(20) < 6)
    wanted, found = (parser.parse(treebank, engine=each) for each in ("native", "triton"))
    assert np.array_equal(found.heads, wanted.heads)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_scores_that_are_not_finite(models, monkeypatch, number):
    """Nothing waits for them, but no tree is returned."""
    parser = load_parser(models.model("bert", "of-16-bits", weights__bits=16))
    treebank = treebank_from_bytes(models.forms, "test")
    score = Heads.arc_scores

    def broken(self: Heads, hidden: torch.Tensor) -> torch.Tensor:
        found = score(self, hidden)
        found[0, 0, 1] = number
        return found

    monkeypatch.setattr(Heads, "arc_scores", broken)
    monkeypatch.setattr("gpuparse.scorers.encoder.dense.whole_parts", lambda nats: nats)
    with pytest.raises(ScoreError, match="scores of arcs are not finite"):
        parser.parse(treebank, engine="torch")


def states(scorer, text: bytes, device: torch.device) -> np.ndarray:
    """The hidden states of all tokens."""
    encoded = scorer.encode(treebank_from_bytes(text, "test"))
    return scorer.in_torch().send(encoded, device).cpu().numpy()


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_train_says_where_an_encoder_is_learned(models, tmp_path, monkeypatch, wanted):
    monkeypatch.setattr("gpuparse.jobs.resources.cuda_trouble", lambda: "")
    told: list[str] = []
    words = models.words("bert", tmp_path / "model", device=wanted)
    plan_of(load_config(words[0], words[1:]), told.append)
    assert "the encoder is learned on cuda" in told
    assert not any("arcs are learned" in line or "on the CPU" in line for line in told)


def test_bfloat16_is_for_gpus():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [is_bfloat16("auto", each) for each in (cpu, gpu)] == [False, True]
    assert [is_bfloat16("float32", each) for each in (cpu, gpu)] == [False, False]
    assert [is_bfloat16("bfloat16", each) for each in (cpu, gpu)] == [True, True]


@pytest.mark.parametrize("family", FAMILIES)
def test_masks_are_those_of_the_package(models, family, monkeypatch):
    """Windows of several lengths, longer than those that ModernBERT looks at."""
    folder = models.folder / f"long-{family}"
    write_encoder(folder, family, positions=300, spread=0.5)
    keys = {"encoder__model": str(folder), "weights__bits": 16}
    [scorer] = load_parser(models.model(family, "long", **keys)).scorers
    rows = [f"{i}\tabcdefgh" + "\t_" * 8 for i in range(1, 31)]
    text = "".join("\n".join(rows[:n]) + "\n\n" for n in (30, 20, 5)).encode()
    own = states(scorer, text, torch.device("cpu"))
    monkeypatch.setattr(Network, "_mask", lambda self, mask: mask.long())
    assert relative(states(scorer, text, torch.device("cpu")), own) < 1e-6
    monkeypatch.setattr(Network, "_mask", lambda self, mask: None)
    assert relative(states(scorer, text, torch.device("cpu")), own) > 1e-3


@pytest.mark.parametrize("family", QUANTISED)
def test_weights_of_8_bits_as_floats(family):
    """They are those that were rounded, but for half of what a whole number stands for."""
    config, random = config_of(family), np.random.default_rng(2)
    arrays = arrays_of(config, random)
    casings = random.normal(0, 1, (5, config["hidden_size"])).astype(np.float32)
    encoder = QuantisedEncoder.of(config, arrays, casings)
    found, of_casings = encoder.floats(config)
    assert {n: a.shape for n, a in found.items()} == {n: a.shape for n, a in arrays.items()}
    types = "embeddings.token_type_embeddings.weight"
    sums = arrays[types][0] + casings
    np.testing.assert_allclose(found[types][0] + of_casings, sums, atol=1e-6)
    for name, array in arrays.items():
        most, first = 1e-6, 0
        if "position" in name:
            first = config["max_position_embeddings"] - len(encoder.positions)
        elif array.ndim == 2:
            most = np.abs(array).max(1, keepdims=True) / 62  # half of a quarter of 126
        if name != types:
            assert (np.abs(found[name] - array)[first:] <= most).all(), name


@pytest.mark.parametrize("family", QUANTISED)
def test_models_of_8_bits_on_devices_without_native_code(models, device, family):
    parser = load_parser(models.model(family, "of-8-bits", weights__bits=8))
    [native] = parser.scorers
    other = native.floats if device.type == "cpu" else native
    wanted = states(native, models.forms, torch.device("cpu"))
    assert relative(states(other, models.forms, device), wanted) < 0.05
    treebank = treebank_from_bytes(models.forms, "test")
    (tags, _), (expected, _) = (
        each.fill(treebank, place, 1) for each, place in ((other, device.type), (native, "cpu"))
    )
    for number, column in expected.items():
        assert np.mean(column.ids == tags[number].ids) > 0.9
    found = replace(parser, scorers=(other,)).parse(treebank, device=device.type, engine="torch")
    assert np.mean(found.heads == parser.parse(treebank).heads) > 0.8


@pytest.mark.parametrize("bits", [8, 16])
def test_tags_and_trees_come_from_one_pass(models, device, bits, monkeypatch):
    parser = load_parser(models.model("bert", f"of-{bits}-bits", weights__bits=bits))
    if device.type == "cpu":
        parser = replace(parser, scorers=(parser.scorers[0].floats,))
    sound, read = Network.states, []

    def counted(self, whole, windows):
        read.append(len(windows.roots))
        return sound(self, whole, windows)

    monkeypatch.setattr(Network, "states", counted)
    treebank = treebank_from_bytes(models.forms, "test")
    tagged = NO_STAGES.filled_by(parser, device.type).annotate(treebank)
    parser.parse(tagged, device=device.type, engine="torch")
    assert sum(read) == len(treebank)


def test_out_of_memory_halves_what_is_read_at_once(models, monkeypatch):
    [scorer] = load_parser(models.model("bert", "of-16-bits", weights__bits=16)).scorers
    device = torch.device("cpu")
    wanted = states(scorer, models.forms, device)
    sound, sizes = Network.states, []

    def narrow(self, whole, windows):
        sizes.append(len(windows.starts) - 1)
        if sizes[-1] > 6:
            raise torch.OutOfMemoryError("no memory")
        return sound(self, whole, windows)

    monkeypatch.setattr(Network, "states", narrow)
    np.testing.assert_allclose(states(scorer, models.forms, device), wanted, atol=1e-5)
    assert max(sizes) > 6 >= sizes[-1]

    def none(self, whole, windows):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(Network, "states", none)
    with pytest.raises(torch.OutOfMemoryError):
        states(scorer, models.forms, device)
