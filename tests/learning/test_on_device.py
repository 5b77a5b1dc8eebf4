"""Learning in torch: the compiled learner's weights, to the bit where these are whole numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.config import RunConfig
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ResourceError
from gpuparse.features.templates import load_templates, parse_set
from gpuparse.learning import on_device
from gpuparse.learning.trainer import Trainer
from gpuparse.scorers.sizes import PartSize, sentence_cells
from tests.learning import test_guides as guided
from tests.learning.literal import (
    OPTIONS,
    templates_for,
    toy_treebank,
    with_random_weights,
    without_heads,
)
from tests.learning.test_same_model import assert_a_stop_after_any_epoch_changes_nothing
from tests.learning.test_trainer import LABELS
from tests.runs import changed
from tests.samples import Sentence, fingerprint, random_sentences, treebank_of
from tests.synthetic import generate
from tests.waits import listed_waits

DECODERS = inference.with_quantity("best", "torch")
every_decoder = pytest.mark.parametrize("decoder", DECODERS)
SENTENCES = random_sentences(3, 16, 9, projective=False)
ONE_ROOT = random_sentences(5, 16, 8)
PARTIAL = without_heads(random_sentences(6, 16, 7), 0.3, 1)
CPU = torch.device("cpu")


def trainer_of(
    sentences: list[Sentence], options: RunConfig, engine: str, device: torch.device, **given: Any
) -> Trainer:
    templates = given.pop("templates", None) or templates_for(options.decoder)
    return Trainer(
        treebank_of(sentences), templates, given.pop("labels", None),
        changed(options, engine=engine), device=str(device), **given,
    )  # fmt: skip


def learned(trainer: Trainer) -> tuple[dict[str, np.ndarray], list[int]]:
    """The state after all epochs, and the wrong words of each."""
    wrong = [event.wrong for event in trainer.learn() if event.epoch_is_over]
    return trainer.state(), wrong


def assert_equal_to_the_bit(
    sentences: list[Sentence], options: RunConfig, device: torch.device, **given: Any
) -> Trainer:
    ours, theirs = (
        trainer_of(sentences, options, name, device, **given) for name in ("torch", "native")
    )
    (state, wrong), (expected, expected_wrong) = learned(ours), learned(theirs)
    assert wrong == expected_wrong
    assert wrong[0] > 0
    assert state.keys() == expected.keys()
    for name, array in state.items():
        assert array.dtype == expected[name].dtype
        if not name.startswith("vectors."):  # their steps are rounded elsewhere
            assert array.tobytes() == expected[name].tobytes(), name
    assert np.count_nonzero(state["arcs.weights"]) > 50
    return ours


HARDER = {"cost_augmented": True}
ALIKE: dict[str, tuple[dict, list[Sentence]]] = {
    "one by one": ({"batch_size": 1, "epochs": 3} | HARDER, SENTENCES[:6]),
    "batches": ({"batch_size": 5, "epochs": 3}, SENTENCES),
    "one batch": ({"batch_size": 64, "epochs": 3} | HARDER, SENTENCES),
    "few rows": ({"map_rows": 1000}, SENTENCES),
    "order of the file": ({"shuffle": False}, SENTENCES),
    "out of reach": ({"unreachable": "none"}, SENTENCES),
    "one root": ({"single_root": True}, ONE_ROOT),
    "heads are missing": ({}, PARTIAL),
    "heads are missing, cost": (HARDER, PARTIAL),
}


@every_decoder
@pytest.mark.parametrize("name", ALIKE)
def test_the_perceptron_is_the_compiled_one_to_the_bit(
    decoder: str, name: str, device: torch.device
) -> None:
    """Its weights are whole numbers: ties, of which there are many, too."""
    change, sentences = ALIKE[name]
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", **({"batch_size": 8} | change))
    ours = assert_equal_to_the_bit(sentences, options, device)
    assert sentences is not SENTENCES or decoder == "chu_liu_edmonds" or ours.n_unreachable > 1


VECTORS_OF_SIBLINGS = parse_set(
    "arc: [{suffixes: [direction], templates: [h.form m.form, h.pos m.pos]}]\n"
    "word_vectors: {hidden: 16, arc: 8, label: 8, sibling: 8, templates: [w.form, w.pos]}\n",
    "siblings of vectors",
)


def test_so_it_is_where_vectors_alone_score_siblings(device: torch.device) -> None:
    """Templates are learned with the first order then."""
    options = changed(OPTIONS, decoder="eisner_sibling", rule="perceptron", batch_size=8)
    assert_equal_to_the_bit(SENTENCES, options, device, templates=VECTORS_OF_SIBLINGS)


@every_decoder
def test_so_it_is_with_guides(decoder: str, device: torch.device) -> None:
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", batch_size=8)
    templates = guided.SECOND_ORDER if decoder == "eisner_sibling" else guided.TEMPLATES
    assert_equal_to_the_bit(
        guided.SENTENCES, options, device, templates=templates,
        guides=guided.guides_of(guided.SENTENCES),
    )  # fmt: skip


@every_decoder
@pytest.mark.parametrize(
    ("batch_size", "change"),
    [
        (1, {}),
        (5, {}),
        (32, {"cost_augmented": True, "single_root": True}),
        (3, {"max_step": 0.01}),
        (1, {"k": 5}),
        (5, {"k": 3, "max_step": 0.1}),
        (3, {"k": 20, "cost_augmented": True}),
    ],
    ids=["one by one", "batches", "cost augmented", "capped", "5 best", "3 best", "20 best"],
)
def test_steps_of_any_size_are_the_compiled_ones_but_for_rounding(
    decoder: str, batch_size: int, change: dict, device: torch.device
) -> None:
    """From random weights on, no two words alike: no ties that rounding could break."""
    options = changed(OPTIONS, decoder=decoder, batch_size=batch_size, **change)
    lengths = [5, 9, 1, 7, 3, 8, 6, 2]
    sentences = toy_treebank(decoder, 2, lengths, single_root=bool(options.data.single_root))
    found = []
    for engine in ("torch", "native"):
        trainer = trainer_of(sentences, options, engine, device)
        start = with_random_weights(trainer, 4)["arcs.weights"]
        found.append(learned(trainer))
    (ours, wrong), (theirs, expected_wrong) = found
    assert wrong == expected_wrong
    assert np.count_nonzero(np.abs(theirs["arcs.weights"] - start) > 1e-4) > 60
    seen = options.learning.epochs * len(sentences)
    for name, count in (("arcs.weights", 1), ("arcs.weights_weighted", seen)):
        np.testing.assert_allclose(ours[name] / count, theirs[name] / count, atol=1e-5)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@every_decoder
def test_neither_memory_nor_threads_nor_another_run_change_a_byte(
    decoder: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = changed(OPTIONS, decoder=decoder, batch_size=8, cost_augmented=True)

    def model_bytes() -> dict[str, bytes]:
        trainer = trainer_of(SENTENCES, options, "torch", device)
        learned(trainer)
        return fingerprint(trainer.model(16))

    expected = model_bytes()
    for threads in (1, 2):
        with torch_threads(threads):
            assert model_bytes() == expected
    longest = max(map(len, SENTENCES))
    siblings = decoder == "eisner_sibling"
    cells = 3 * int(sentence_cells(np.array([longest]), PartSize(2 + siblings))[0])
    monkeypatch.setattr(on_device, "LEARNING_BUDGET", cells)
    monkeypatch.setattr(on_device, "ROWS_AT_ONCE", 100)
    parts = []
    compare = on_device.DeviceLearner._compare
    monkeypatch.setattr(
        on_device.DeviceLearner, "_compare",
        lambda learner, *given: parts.append(given) or compare(learner, *given),
    )  # fmt: skip
    assert model_bytes() == expected
    assert len(parts) > 4 * options.learning.epochs  # more than the mini-batches


@every_decoder
def test_a_resumed_run_ends_with_the_same_model(decoder: str, device: torch.device) -> None:
    """Stages of arcs and of labels are resumed."""
    options = changed(OPTIONS, decoder=decoder, batch_size=8)
    assert_a_stop_after_any_epoch_changes_nothing(
        lambda: trainer_of(SENTENCES, options, "torch", device, labels=LABELS)
    )


@every_decoder
def test_it_learns_as_well_and_parses_alike_everywhere(decoder: str, device: torch.device) -> None:
    """With real templates, labels in a second stage, and the ties of zero weights."""
    train, dev = (treebank_from_bytes(generate(*x), "text") for x in ((60, 1), (30, 2)))
    options = changed(
        OPTIONS, decoder=decoder, batch_size=16, epochs=2, cost_augmented=True, pos="auto"
    )
    templates, labels = load_templates("mcdonald-pereira-2006"), load_templates("labels")
    scores = []
    for engine in ("torch", "native"):
        trainer = Trainer(
            train, templates, labels, changed(options, engine=engine), device=str(device)
        )
        learned(trainer)
        model = trainer.model(16)
        found, again = model.parse(dev), model.parse(dev, device=str(device), engine="torch")
        scores.append(100 * (found.heads == dev.heads).mean())
        assert again.heads.tobytes() == found.heads.tobytes()
        assert again.labels.tobytes() == found.labels.tobytes()
    assert scores[1] > 60
    assert scores[0] == pytest.approx(scores[1], abs=2)


@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling"])
def test_a_step_reads_three_times_from_the_device(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of parts and of features, and the products that the steps follow from."""
    train = treebank_from_bytes(generate(256, 3), "text")
    options = changed(OPTIONS, decoder=decoder, batch_size=256, epochs=2, pos="auto")
    templates, waits = load_templates("mcdonald-pereira-2006"), []
    learn, states = on_device.DeviceLearner.learn, []

    def as_on_a_gpu(learner: on_device.DeviceLearner, *given: Any) -> int:
        learner._asks_for_sizes, learner._at_once = False, 256
        with listed_waits() as found:
            wrong = learn(learner, *given)
        waits.append(found)
        return wrong

    for method in (learn, as_on_a_gpu):
        monkeypatch.setattr(on_device.DeviceLearner, "learn", method)
        trainer = Trainer(train, templates, None, changed(options, engine="torch"), device="cpu")
        states.append(learned(trainer)[0]["arcs.weights"].tobytes())
    assert waits == [["tolist", "tolist", "cpu"]] * 2
    assert states[0] == states[1]


@pytest.mark.triton
@every_decoder
def test_triton_kernels_learn_the_same(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    if torch.cuda.is_available():
        pytest.skip("Triton's kernels are compiled for the GPU here, and learn on it above")
    by_kernels = partial(on_device.DeviceLearner, engine="triton")
    monkeypatch.setattr(on_device, "DeviceLearner", by_kernels)
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", batch_size=4, epochs=2)
    assert_equal_to_the_bit(random_sentences(3, 12, 6, projective=False), options, CPU)


@every_decoder
def test_without_memory_a_mini_batch_is_searched_in_more_parts(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single sentence that there is no memory for is an error."""
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", batch_size=16)
    most, refused = 3, []
    compare = on_device.DeviceLearner._compare

    def scarce(learner: on_device.DeviceLearner, batch, gold):
        if len(batch) > most:
            refused.append(len(batch))
            raise torch.OutOfMemoryError("no room")
        return compare(learner, batch, gold)

    monkeypatch.setattr(on_device.DeviceLearner, "_compare", scarce)
    assert_equal_to_the_bit(SENTENCES, options, CPU)
    assert refused
    most = 0
    with pytest.raises(ResourceError, match="no memory for a sentence of"):
        learned(trainer_of(SENTENCES, options, "torch", CPU))
