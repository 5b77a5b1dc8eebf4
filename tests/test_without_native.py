"""Everything runs without the compiled library, and gives what it gives with it."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch

from gpuparse import inference, native
from gpuparse.data import plain as plain_data
from gpuparse.inference import plain as plain_inference
from tests.inference.decoders import decode_parts, draw_parts

LENGTHS = [5, 3, 0, 1, 2]
PLAIN = {**plain_data.FUNCTIONS, **plain_inference.FUNCTIONS}


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
    if name == "dual_decomposition" and kind != "ties":
        pytest.skip("no certificates")
    parts = draw_parts(name, np.random.default_rng(3), len(LENGTHS), max(LENGTHS), kind)
    expected = decode_parts(name, parts, LENGTHS, single_root)
    no_library()
    found = decode_parts(name, parts, LENGTHS, single_root)
    if name == "dual_decomposition":  # each form returns the first best tree that it meets
        assert torch.equal(found.scores, expected.scores)
    else:
        assert same(found, expected)


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
    decoder, lengths, n = inference.DECODERS[name], torch.tensor([4, 2]), 2000
    generator = torch.Generator().manual_seed(1)
    drawn = decoder.function("samples")(*tensors[:2], lengths, n, generator, **ends)
    marginals = decoder.function("marginals")(*tensors[:2], lengths, **ends)
    counts = torch.nn.functional.one_hot(drawn.clamp(min=0), 5).sum(1).mT[:, :, 1:]
    assert (counts[0] / n - marginals[0, :, 1:]).abs().max() < 0.05
    assert (counts[1, :, :2] / n - marginals[1, :, 1:3]).abs().max() < 0.05
    again = torch.Generator().manual_seed(1)
    few = decoder.function("samples")(*tensors[:2], lengths, 5, again, **ends)
    assert torch.equal(few, drawn[:, :5])
