"""Learning beyond the second order against the literal algorithm over all trees."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.trainer import Trainer
from tests.learning.literal import (
    FIRST_ORDER,
    OPTIONS,
    average_of,
    learned,
    toy_treebank,
    with_random_weights,
    without_heads,
)
from tests.learning.literal_larger import ALL, WITH_CHILDREN, Literal
from tests.runs import changed
from tests.samples import Sentence, fingerprint, random_sentences, treebank_of

LENGTHS = [4, 3, 4, 1, 4, 2, 4]
JOINTLY = {"labels_kind": "joint"}
GRANDCHILD, GRAND_SIBLING, TRI_SIBLING, DUAL = (
    "eisner_grandchild", "eisner_grand_sibling", "eisner_tri_sibling", "dual_decomposition",
)  # fmt: skip
CASES = [
    (GRANDCHILD, {"rule": "perceptron"}, 0.0),
    (GRANDCHILD, {"cost_augmented": True}, 0.0),
    (GRANDCHILD, {"rule": "perceptron", **JOINTLY}, 0.0),
    (GRANDCHILD, {"cost_augmented": True, **JOINTLY}, 0.0),
    (GRANDCHILD, {"cost_augmented": True, **JOINTLY}, 0.5),
    (GRAND_SIBLING, {"rule": "perceptron", "single_root": True}, 0.0),
    (GRAND_SIBLING, {"cost_augmented": True, "batch_size": 3, "max_step": 0.02}, 0.0),
    (TRI_SIBLING, {}, 0.0),
    (TRI_SIBLING, {"rule": "perceptron", "cost_augmented": True}, 0.0),
    (DUAL, {"rule": "perceptron"}, 0.0),
    (DUAL, {"cost_augmented": True}, 0.4),
]


def trainer_for(
    sentences: list[Sentence], change: dict, *, threads: int = 1, labels=None
) -> Trainer:
    options = changed(OPTIONS, map_rows=1 << 20, **change)
    labels = WITH_CHILDREN if options.labels.kind == "joint" else labels
    return Trainer(treebank_of(sentences), ALL, labels, options, threads)


@pytest.mark.parametrize(("decoder", "change", "share"), CASES)
def test_the_average_is_the_literal_one(decoder: str, change: dict, share: float) -> None:
    """Wrong labels cost as much as wrong heads; of words without a head nothing costs anything."""
    change = {"decoder": decoder, "min_gain": 0.0, **change}
    toys = "eisner" if DECODERS[decoder].is_projective else "chu_liu_edmonds"
    single_root = bool(change.get("single_root"))
    sentences = toy_treebank(toys, 5, LENGTHS, single_root=single_root)
    sentences = without_heads(sentences, share, 5)
    trainer = trainer_for(sentences, change)
    start = with_random_weights(trainer, 5)
    events = list(trainer.learn())
    literal = Literal(sentences, trainer.config, trainer.model(16))
    expected, mistakes = literal.learn(start)
    wrong = [event.wrong for event in events if event.epoch_is_over]
    found = average_of(trainer, wrong)
    np.testing.assert_allclose(found.arcs, expected["arcs"][:, 0], atol=2e-5)
    assert np.count_nonzero(np.abs(found.arcs - start["arcs"][:, 0]) > 1e-4) > 60
    if trainer.config.labels.kind == "joint":
        assert found.labels is not None
        np.testing.assert_allclose(found.labels, expected["labels"], atol=2e-5)
        assert np.count_nonzero(np.abs(found.labels - start["labels"]) > 1e-4) > 40
    compared = 1 if trainer.config.learning.cost_augmented else trainer.config.learning.epochs
    assert wrong[:compared] == mistakes[:compared]
    assert wrong[0] > 0


def test_threads_and_resuming_change_nothing() -> None:
    sentences = random_sentences(70, 30, 7)
    change = {"decoder": GRAND_SIBLING, "batch_size": 8, "epochs": 3, "cost_augmented": True}
    one = fingerprint(learned(trainer_for(sentences, change)).model(16))
    assert fingerprint(learned(trainer_for(sentences, change, threads=3)).model(16)) == one
    first, second = trainer_for(sentences, change), trainer_for(sentences, change)
    for progress in first.learn():
        if progress.epoch_is_over:
            break
    second.restore({name: array.copy() for name, array in first.state().items()})
    assert fingerprint(learned(second).model(16)) == one


def test_without_averaging_the_model_is_the_last_weights() -> None:
    sentences = toy_treebank("eisner", 5, LENGTHS)
    trainer = learned(trainer_for(sentences, {"decoder": GRANDCHILD, "averaged": False}))
    weights = trainer.state()["arcs"]
    array = trainer.model(16).arcs.array
    assert np.abs(array - weights * (32767 / np.abs(weights).max())).max() <= 1
    averaged = learned(trainer_for(sentences, {"decoder": GRANDCHILD}))
    assert np.array_equal(averaged.state()["arcs"], weights)
    assert not np.array_equal(averaged.model(16).arcs.array, array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 2}, "finds one tree only"),
        ({"backend": "torch"}, "only native code learns with"),
        ({"rule": "mira-factored"}, "is of the first order"),
        ({"rule": "conditional", "max_step": 0.1}, "is of the first order"),
    ],
)
@pytest.mark.parametrize("decoder", [GRANDCHILD, GRAND_SIBLING, TRI_SIBLING, DUAL])
def test_what_is_not_learned_with_them_is_refused(decoder: str, change: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trainer_for(random_sentences(1, 3, 4), {"decoder": decoder, **change})


@pytest.mark.parametrize(
    ("decoder", "missing"),
    [
        (GRANDCHILD, "head_child or inner_grandchild or outer_grandchild"),
        (GRAND_SIBLING, "grandparent or grand_sibling"),
        (TRI_SIBLING, "tri_sibling"),
        (DUAL, "sibling or grandparent or grand_sibling"),
    ],
)
def test_templates_must_be_there(decoder: str, missing: str) -> None:
    text = f"decoder {decoder} needs {missing} templates, and the set 'first' has none"
    first = replace(FIRST_ORDER, name="first")
    with pytest.raises(ConfigError, match=text):
        Trainer(
            treebank_of(random_sentences(1, 3, 4)), first, None, changed(OPTIONS, decoder=decoder)
        )


def test_dual_decomposition_learns_with_siblings_alone() -> None:
    templates = replace(ALL, grandparent=(), grand_sibling=())
    sentences = random_sentences(8, 12, 5, projective=False)
    options = changed(OPTIONS, decoder=DUAL, map_rows=1 << 16)
    model = learned(Trainer(treebank_of(sentences), templates, None, options)).model(16)
    found = model.parse(treebank_of(sentences))
    right = np.array([int(w[6]) for s in sentences for w in s])
    assert (found.heads == right).mean() > 0.8
