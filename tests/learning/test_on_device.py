"""Learning in torch: the compiled learner's weights, to the bit where these are whole numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.config import RunConfig
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError, ResourceError
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.learning import on_device
from gpuparse.learning.config_checks import check_learning
from gpuparse.learning.stages import arcs
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
from tests.learning.test_trainer import LABELS
from tests.runs import changed
from tests.samples import Sentence, fingerprint, random_sentences, treebank_of
from tests.synthetic import generate

DECODERS = inference.with_quantity("best", "torch")
SENTENCES = random_sentences(3, 16, 9, projective=False)


def trainer_of(
    sentences: list[Sentence], options: RunConfig, backend: str, device: torch.device,
    labels: TemplateSet | None = None,
) -> Trainer:  # fmt: skip
    return Trainer(
        treebank_of(sentences), templates_for(options.decoder), labels,
        changed(options, backend=backend), device=str(device),
    )  # fmt: skip


def learned(trainer: Trainer) -> tuple[dict[str, np.ndarray], list[int]]:
    """The state after all epochs, and the wrong words of each."""
    wrong = [event.wrong for event in trainer.learn() if event.epoch_is_over]
    return trainer.state(), wrong


def assert_equal_to_the_bit(ours: Trainer, theirs: Trainer) -> None:
    (state, wrong), (expected, expected_wrong) = learned(ours), learned(theirs)
    assert wrong == expected_wrong
    assert wrong[0] > 0
    assert np.count_nonzero(state["arcs.weights"]) > 50
    assert state.keys() == expected.keys()
    for name, array in state.items():
        assert array.dtype == expected[name].dtype
        assert array.tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("batch_size", "cost_augmented"), [(1, True), (5, False), (64, True)])
def test_the_perceptron_is_the_compiled_one_to_the_bit(
    decoder: str, batch_size: int, cost_augmented: bool, device: torch.device
) -> None:
    """Its weights are whole numbers: ties, of which there are many, too."""
    options = changed(
        OPTIONS, decoder=decoder, rule="perceptron", batch_size=batch_size, epochs=3,
        cost_augmented=cost_augmented,
    )  # fmt: skip
    sentences = SENTENCES if batch_size > 1 else SENTENCES[:6]
    ours, theirs = (trainer_of(sentences, options, name, device) for name in ("torch", "cpu"))
    assert_equal_to_the_bit(ours, theirs)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    "change",
    [
        {"map_rows": 1000},
        {"shuffle": False},
        {"unreachable": "none"},
        {"single_root": True},
    ],
    ids=["few rows", "order of the file", "out of reach", "one root"],
)
def test_so_it_is_with_other_options(decoder: str, change: dict, device: torch.device) -> None:
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", batch_size=8, **change)
    one_root = bool(options.data.single_root)
    sentences = random_sentences(5, 16, 8, projective=one_root)
    ours, theirs = (trainer_of(sentences, options, name, device) for name in ("torch", "cpu"))
    assert one_root or decoder == "chu_liu_edmonds" or ours.n_unreachable > 3
    assert_equal_to_the_bit(ours, theirs)


def test_so_it_is_where_vectors_alone_score_siblings(device: torch.device) -> None:
    """Templates are learned with the first order then; steps of vectors are rounded elsewhere."""
    options = changed(OPTIONS, decoder="eisner_sibling", rule="perceptron", batch_size=8)
    templates = parse_set(
        "arc: [{suffixes: [direction], templates: [h.form m.form, h.pos m.pos]}]\n"
        "word_vectors: {hidden: 16, arc: 8, label: 8, sibling: 8, templates: [w.form, w.pos]}\n",
        "siblings of vectors",
    )
    ours, theirs = (
        Trainer(
            treebank_of(SENTENCES), templates, None, changed(options, backend=name),
            device=str(device),
        )
        for name in ("torch", "cpu")
    )  # fmt: skip
    (state, wrong), (expected, expected_wrong) = learned(ours), learned(theirs)
    assert wrong == expected_wrong
    for name in ("arcs.weights", "arcs.weights_weighted"):
        assert np.count_nonzero(state[name]) > 5
        assert state[name].tobytes() == expected[name].tobytes()


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("cost_augmented", [False, True])
def test_so_it_is_where_heads_are_missing(
    decoder: str, cost_augmented: bool, device: torch.device
) -> None:
    """Learning moves towards the completed tree; only words with a gold head cost."""
    options = changed(
        OPTIONS, decoder=decoder, rule="perceptron", batch_size=8, cost_augmented=cost_augmented
    )
    sentences = without_heads(random_sentences(6, 16, 7), 0.3, 1)
    ours, theirs = (trainer_of(sentences, options, name, device) for name in ("torch", "cpu"))
    assert_equal_to_the_bit(ours, theirs)


@pytest.mark.parametrize("decoder", DECODERS)
def test_so_it_is_with_guides(decoder: str, device: torch.device) -> None:
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", batch_size=8)
    templates = guided.SECOND_ORDER if decoder == "eisner_sibling" else guided.TEMPLATES
    ours, theirs = (
        Trainer(
            treebank_of(guided.SENTENCES), templates, None, changed(options, backend=name),
            guides=guided.guides_of(guided.SENTENCES), device=str(device),
        )
        for name in ("torch", "cpu")
    )  # fmt: skip
    assert_equal_to_the_bit(ours, theirs)


@pytest.mark.parametrize("decoder", DECODERS)
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
    states, wrong = [], []
    for backend in ("torch", "cpu"):
        trainer = trainer_of(sentences, options, backend, device)
        start = with_random_weights(trainer, 4)["arcs.weights"]
        state, of_epochs = learned(trainer)
        states.append(state)
        wrong.append(of_epochs)
    assert wrong[0] == wrong[1]
    ours, theirs = states
    assert np.count_nonzero(np.abs(theirs["arcs.weights"] - start) > 1e-4) > 60
    np.testing.assert_allclose(ours["arcs.weights"], theirs["arcs.weights"], atol=1e-5)
    seen = options.learning.epochs * len(sentences)
    np.testing.assert_allclose(
        ours["arcs.weights_weighted"] / seen, theirs["arcs.weights_weighted"] / seen, atol=1e-5
    )


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("decoder", DECODERS)
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


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_resumed_run_ends_with_the_same_model(decoder: str, device: torch.device) -> None:
    """From a state of arcs, and from the first of labels."""
    options = changed(OPTIONS, decoder=decoder, batch_size=8)
    whole, states = trainer_of(SENTENCES, options, "torch", device, LABELS), []
    for event in whole.learn():
        if event.epoch_is_over:
            states.append({name: array.copy() for name, array in whole.state().items()})
    for state in states[:-1]:
        again = trainer_of(SENTENCES, options, "torch", device, LABELS)
        again.restore(state)
        learned(again)
        assert fingerprint(again.model(16)) == fingerprint(whole.model(16))


@pytest.mark.parametrize("decoder", DECODERS)
def test_it_learns_as_well_and_parses_alike_everywhere(decoder: str, device: torch.device) -> None:
    """With real templates, labels in a second stage, and the ties of zero weights."""
    train, dev = (treebank_from_bytes(generate(*x), "text") for x in ((60, 1), (30, 2)))
    options = changed(
        OPTIONS, decoder=decoder, batch_size=16, epochs=2, cost_augmented=True, pos="auto"
    )
    arcs = load_templates("mcdonald-pereira-2006")
    labels = load_templates("labels")
    scores = []
    for backend in ("torch", "cpu"):
        trainer = Trainer(
            train, arcs, labels, changed(options, backend=backend), device=str(device)
        )
        learned(trainer)
        model = trainer.model(16)
        found = model.parse(dev)
        scores.append(100 * (found.heads == dev.heads).mean())
        again = model.parse(dev, device=str(device), backend="torch")
        assert again.heads.tobytes() == found.heads.tobytes()
        assert again.labels is not None
        assert found.labels is not None
        assert again.labels.tobytes() == found.labels.tobytes()
    assert scores[1] > 60
    assert scores[0] == pytest.approx(scores[1], abs=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": "mira-factored"}, "choose one of perceptron, mira, or l"),
        ({"rule": "conditional", "max_step": 0.1}, "learning.rule conditional"),
        ({"decoder": "hill_climb"}, "choose one of eisner, chu_liu_edmonds, eisner_sibling, or"),
        ({"decoder": "multi_parent"}, "decoder multi_parent"),
        ({"labels_kind": "joint"}, "labels.kind joint"),
    ],
)
def test_what_has_no_torch_form_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_learning(changed(OPTIONS, backend="torch", **change))
    assert message in str(caught.value)
    assert "learning.backend=cpu" in str(caught.value)
    check_learning(changed(OPTIONS, **change))


@pytest.mark.triton
@pytest.mark.parametrize("decoder", DECODERS)
def test_triton_kernels_learn_the_same(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    if torch.cuda.is_available():
        pytest.skip("Triton's kernels are compiled for the GPU here, and learn on it above")
    by_kernels = partial(on_device.DeviceLearner, backend="gpu")
    monkeypatch.setattr(arcs, "DeviceLearner", by_kernels)
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", batch_size=4, epochs=2)
    device = torch.device("cpu")
    sentences = random_sentences(3, 12, 6, projective=False)
    ours, theirs = (trainer_of(sentences, options, name, device) for name in ("torch", "cpu"))
    assert_equal_to_the_bit(ours, theirs)


@pytest.mark.parametrize("decoder", DECODERS)
def test_without_memory_a_mini_batch_is_searched_in_more_parts(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", batch_size=16)
    device, refused = torch.device("cpu"), []
    compare = on_device.DeviceLearner._compare

    def scarce(learner: on_device.DeviceLearner, batch, gold):
        if len(batch) > 3:
            refused.append(len(batch))
            raise torch.OutOfMemoryError("no room")
        return compare(learner, batch, gold)

    monkeypatch.setattr(on_device.DeviceLearner, "_compare", scarce)
    ours, theirs = (trainer_of(SENTENCES, options, name, device) for name in ("torch", "cpu"))
    assert_equal_to_the_bit(ours, theirs)
    assert refused


def test_a_sentence_that_no_device_has_memory_for_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scarce(*_: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(on_device.DeviceLearner, "_compare", scarce)
    ours = trainer_of(SENTENCES, changed(OPTIONS, batch_size=4), "torch", torch.device("cpu"))
    with pytest.raises(ResourceError, match="no memory for a sentence of"):
        learned(ours)
