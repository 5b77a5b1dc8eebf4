"""Triton's kernels on a few small sentences; the tests marked `triton` do it at length."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.inference.engines import has_triton
from gpuparse.learning import on_device
from gpuparse.scorers.linear import arcs, siblings
from tests.inference.decoders import HAS_GPU
from tests.learning import test_guides as guided
from tests.learning.literal import OPTIONS, toy_treebank, with_random_weights
from tests.learning.test_on_device import CPU, learned, trainer_of
from tests.runs import changed
from tests.samples import random_sentences, treebank_of
from tests.strategies import integer_scores, integer_siblings
from tests.test_model import trained

pytestmark = [
    pytest.mark.skipif(not has_triton(), reason="Triton is not installed"),
    pytest.mark.skipif(HAS_GPU, reason="with a GPU, the tests marked gpu run all of it"),
]
LENGTHS = torch.tensor([1, 2, 3, 4])


@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
@pytest.mark.parametrize("name", inference.with_quantity("best", "triton"))
def test_search(name: str, single_root: bool) -> None:
    rng = np.random.default_rng(1)
    arcs = torch.from_numpy(integer_scores(rng, len(LENGTHS), 4))
    siblings = torch.from_numpy(integer_siblings(rng, len(LENGTHS), 4))
    scores = (arcs, siblings) if name == "eisner_sibling" else (arcs,)
    search = getattr(inference, name)
    found = search(*scores, LENGTHS, single_root=single_root, engine="triton")
    expected = search(*scores, LENGTHS, single_root=single_root, engine="torch")
    assert all(torch.equal(mine, its) for mine, its in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", inference.with_quantity("log_partition", "triton"))
def test_sums(name: str) -> None:
    """Log-partitions, their gradients and entropies are the native ones."""
    rng = np.random.default_rng(1)
    arcs = torch.from_numpy(rng.standard_normal((2, 4, 4)))
    scores = (arcs, torch.from_numpy(rng.standard_normal((2, 4, 4, 4))))[: 1 + (name != "eisner")]
    found = []
    for engine in ("native", "triton"):
        leaves = [part.clone().requires_grad_() for part in scores]
        options = {"single_root": True, "engine": engine}
        call = inference.DECODERS[name].function
        sums = call("log_partition")(*leaves, LENGTHS[1:3], **options)
        gradients = torch.autograd.grad(sums.sum(), leaves)
        found.append([sums, *gradients, call("entropy")(*leaves, LENGTHS[1:3], **options)])
    for expected, own in zip(*found, strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-12)


@contextmanager
def without_bags() -> Iterator[None]:
    """No bag sums the weights of arcs and siblings."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (arcs, siblings):
            patch.setattr(module, "sum_rows", None)
        yield


@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling"])
def test_parsing(decoder: str) -> None:
    model = trained(decoder=decoder)
    treebank = treebank_of([random_sentences(n, 1, n)[0] for n in (2, 4)])
    with without_bags():
        found = model.parse(treebank, engine="triton")
    expected = model.parse(treebank)
    np.testing.assert_array_equal(found.heads, expected.heads)
    np.testing.assert_array_equal(found.labels, expected.labels)
    with without_bags(), pytest.raises(TypeError):
        model.parse(treebank, engine="torch")


def test_parsing_with_guides() -> None:
    options = changed(guided.OPTIONS, decoder="eisner", epochs=1)
    training = random_sentences(50, 10, 6)
    model = guided.trained(options, guided.guides_of(training), training).model(16)
    sentences = random_sentences(4, 3, 4)
    treebank, guides = treebank_of(sentences), guided.guides_of(sentences)
    with without_bags():
        found = model.parse(treebank, guides=guides, engine="triton")
    np.testing.assert_array_equal(found.heads, model.parse(treebank, guides=guides).heads)


@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling"])
def test_an_epoch_of_learning(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees, and so the steps of MIRA, are those that are found under sums of bags."""
    options = changed(OPTIONS, decoder=decoder, epochs=1, batch_size=2, cost_augmented=True)
    sentences, found = toy_treebank(decoder, 2, [3, 1, 4, 5]), []
    learner = on_device.DeviceLearner
    for engine in ("torch", "triton"):
        monkeypatch.setattr(on_device, "DeviceLearner", partial(learner, engine=engine))
        trainer = trainer_of(sentences, options, "torch", CPU)
        start = with_random_weights(trainer, 4)["arcs.weights"]
        with without_bags() if engine == "triton" else nullcontext():
            found.append(learned(trainer))
    (state, wrong), (expected, expected_wrong) = found[1], found[0]
    assert wrong == expected_wrong
    assert state["arcs.weights"].tobytes() == expected["arcs.weights"].tobytes()
    assert np.count_nonzero(state["arcs.weights"] != start) > 20
