"""Everything runs without the compiled library, and gives what it gives with it."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from benchmarks.freeze import BASE, CASES
from gpuparse import inference, native
from gpuparse.commands import parse, train
from gpuparse.data import plain as plain_data
from gpuparse.data.synthetic import generate
from gpuparse.errors import NativeError
from gpuparse.inference import plain as plain_inference
from gpuparse.inference.textbook import chains as plain_chains
from gpuparse.learning import plain as plain_learning
from gpuparse.scoring import plain as plain_scoring
from gpuparse.sequences import plain as plain_sequences
from tests.inference.decoders import decode_parts, draw_parts

LENGTHS = [5, 3, 0, 1, 2]
ROOMS = (
    plain_data, plain_inference, plain_chains, plain_scoring, plain_learning, plain_sequences,
)  # fmt: skip
PLAIN = {name: function for room in ROOMS for name, function in room.FUNCTIONS.items()}


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Switches native code off, until the end of the test."""
    return lambda: monkeypatch.setattr(native, "is_available", lambda: False)


def test_every_plain_form_has_the_arguments_that_are_declared():
    declared = native.library().declarations.functions
    for name, function in PLAIN.items():
        arguments = [argument.name for argument in declared[name][1]]
        given = function.__code__.co_varnames[: function.__code__.co_argcount]
        assert list(given) == arguments, name


def same(one: object, two: object) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(two, f.name)) for f in fields(one))
    return one == two


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("kind", ["ties", "float32"])
@pytest.mark.parametrize("name", inference.DECODERS)
def test_every_decoder_finds_the_same(name, kind, single_root, no_library):
    if name == "dual_decomposition":
        pytest.skip("each form returns the first best tree that it meets")
    parts = draw_parts(name, np.random.default_rng(3), len(LENGTHS), max(LENGTHS), kind)
    expected = decode_parts(name, parts, LENGTHS, single_root)
    no_library()
    assert same(decode_parts(name, parts, LENGTHS, single_root), expected)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("name", inference.with_quantity("k_best"))
def test_every_k_best_list_is_the_same(name, single_root, no_library):
    parts = draw_parts(name, np.random.default_rng(4), len(LENGTHS), max(LENGTHS), "ties")
    scores = [torch.from_numpy(part) for part in parts.values()]
    ends = {"end_scores": scores[2]} if len(scores) > 1 else {}

    def search() -> tuple:
        function = inference.DECODERS[name].function("k_best")
        given = *scores[:2], torch.tensor(LENGTHS)
        return function(*given, 7, single_root=single_root, **ends)

    heads, values = search()
    no_library()
    assert all(map(torch.equal, search(), (heads, values)))


@pytest.mark.parametrize("name", inference.with_quantity("samples"))
def test_samples_have_the_probabilities_of_the_marginals(name, no_library):
    no_library()
    parts = draw_parts(name, np.random.default_rng(5), 2, 4, "float64")
    tensors = [torch.from_numpy(part) for part in parts.values()]
    ends = {"end_scores": tensors[2]} if len(tensors) > 1 else {}
    decoder, lengths, n = inference.DECODERS[name], torch.tensor([4, 2]), 600
    generator = torch.Generator().manual_seed(1)
    drawn = decoder.function("samples")(*tensors[:2], lengths, n, generator, **ends)
    marginals = decoder.function("marginals")(*tensors[:2], lengths, **ends)
    counts = torch.nn.functional.one_hot(drawn.clamp(min=0), 5).sum(1).mT[:, :, 1:]
    assert (counts[0] / n - marginals[0, :, 1:]).abs().max() < 0.08
    assert (counts[1, :, :2] / n - marginals[1, :, 1:3]).abs().max() < 0.08
    again = torch.Generator().manual_seed(1)
    few = decoder.function("samples")(*tensors[:2], lengths, 5, again, **ends)
    assert torch.equal(few, drawn[:, :5])


EXACT = {
    "cle-joint": [[], ["--probabilities"], ["--kbest", "2"]],
    "eisner-reorder": [[], ["--probabilities"], ["--mbr"], ["--keep-heads"]],
    "eisner-factored": [],
    "eisner-batches": [],
    "sibling-k-best": [[], ["--kbest", "3", "--probabilities"], ["--mbr"]],
    "hill-climb": [[], ["--keep-heads"]],
    "multi-parent": [[]],
    "grandchild-joint": [[]],
    "grand-sibling": [[]],
    "tri-sibling-joint": [[]],
}
"""Systems whose models are equal to the byte, and the options to parse with."""
CLOSE = {"cle-conditional": [[]], "dual-decomposition-joint": [["--at-most-one", "nsubj,obj"]]}
"""Systems whose sums are added in another order, or whose search goes another way."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a config and short sentences to learn from and to parse."""
    sentences = generate(60, 1).decode().split("\n\n")
    short = [s for s in sentences if 3 < sum(line[0].isdigit() for line in s.splitlines()) < 8]
    for name, some in (("treebank", short[:3]), ("input", short[3:5])):
        (tmp_path / f"{name}.conllu").write_text("".join(f"{s}\n\n" for s in some))
    (tmp_path / "base.yaml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(name: str, output: str) -> dict[str, np.ndarray]:
    """The tensors of a model."""
    epochs = ["learning.epochs=1", "labels.epochs=1", "learning.shuffle=false"]
    assert train.main(["base.yaml", f"output={output}", *CASES[name][0], *epochs, "--quiet"]) == 0
    return load_file(f"{output}/weights.safetensors")


def parsed(model: str, options: list[str]) -> bytes:
    how = ["--quiet", "--force", "--threads=1", "--device=cpu", "--output=out.conllu"]
    assert parse.main([model, "input.conllu", *how, *options]) in (0, 1)
    return Path("out.conllu").read_bytes()


@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_every_system_is_learned_and_parses_the_same(name, folder, no_library):
    ways = (EXACT | CLOSE)[name]
    expected = trained(name, "model")
    texts = [parsed("model", options) for options in ways]
    no_library()
    if name in EXACT:
        assert [parsed("model", options) for options in ways] == texts
    found = trained(name, "plain")
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        if name in EXACT:
            assert np.array_equal(found[key], tensor)
        elif name == "cle-conditional":
            assert np.abs(found[key].astype(int) - tensor.astype(int)).max() <= 1
    assert all(parsed("plain", options) for options in ways)


def test_all_decoders_are_among_the_systems():
    decoders = {
        override.removeprefix("decoder=")
        for name in (*EXACT, *CLOSE)
        for override in CASES[name][0]
        if override.startswith("decoder=")
    }
    assert decoders == set(inference.DECODERS)


def test_what_has_no_plain_form_is_named(no_library):
    no_library()
    with pytest.raises(NativeError, match=r"^count_true runs in native code alone: .*build\.py"):
        native.call("count_true", np.zeros(1, np.bool_))
