"""Learning of higher orders against the literal algorithm over all trees."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.trainer import Trainer
from tests.learning.literal import (
    ALL,
    FIRST_ORDER,
    OPTIONS,
    assert_the_average_is_literal,
    learned,
    toy_treebank,
    trainer_of,
    without_heads,
)
from tests.runs import changed
from tests.samples import Sentence, fingerprint, random_sentences, treebank_of

LENGTHS = [4, 3, 4, 1, 4, 2, 4]
HIGHER_ORDER = [name for name, decoder in DECODERS.items() if decoder.is_higher_order]
every_decoder = pytest.mark.parametrize("decoder", HIGHER_ORDER)
SMALL = changed(OPTIONS, map_rows=1 << 20)
CASES = {
    "perceptron": ({"rule": "perceptron"}, 0.0),
    "one root, batches": ({"single_root": True, "batch_size": 3, "max_step": 0.02}, 0.0),
    "cost, partial": ({"cost_augmented": True}, 0.4),
}
WITH_LABELS = {
    "labels": ({"labels_kind": "joint", "rule": "perceptron"}, 0.0),
    "labels, cost, partial": ({"labels_kind": "joint", "cost_augmented": True}, 0.5),
}


@pytest.mark.parametrize(
    ("change", "share"),
    [
        pytest.param({"decoder": decoder, **change}, share, id=f"{decoder}, {name}")
        for decoder in HIGHER_ORDER
        for name, (change, share) in [
            *CASES.items(), *(WITH_LABELS.items() if DECODERS[decoder].reads_children else ()),
        ]
    ],
)  # fmt: skip
def test_the_average_is_the_literal_one(change: dict, share: float) -> None:
    """Wrong labels cost as much as wrong heads; of words without a head nothing costs anything."""
    options = changed(SMALL, **change)
    single_root = bool(options.data.single_root)

    def draw(seed: int) -> list[Sentence]:
        sentences = toy_treebank(options.decoder, seed, LENGTHS, single_root=single_root)
        return without_heads(sentences, share, seed)

    assert_the_average_is_literal(options, draw)


def test_threads_and_resuming_change_nothing() -> None:
    sentences = random_sentences(70, 30, 7)
    options = changed(
        SMALL, decoder="eisner_grand_sibling", batch_size=8, epochs=3, cost_augmented=True
    )
    one = fingerprint(learned(trainer_of(sentences, options)).model(16))
    assert fingerprint(learned(trainer_of(sentences, options, threads=3)).model(16)) == one
    first, second = trainer_of(sentences, options), trainer_of(sentences, options)
    for progress in first.learn():
        if progress.epoch_is_over:
            break
    second.restore({name: array.copy() for name, array in first.state().items()})
    assert fingerprint(learned(second).model(16)) == one


def test_without_averaging_the_model_is_the_last_weights() -> None:
    sentences = toy_treebank("eisner", 5, LENGTHS)
    options = changed(SMALL, decoder="eisner_grandchild")
    trainer = learned(trainer_of(sentences, changed(options, averaged=False)))
    weights = trainer.state()["arcs.weights"]
    array = trainer.model(16).linear.arcs.array
    assert np.abs(array - weights * (32767 / np.abs(weights).max())).max() <= 1
    averaged = learned(trainer_of(sentences, options))
    assert np.array_equal(averaged.state()["arcs.weights"], weights)
    assert not np.array_equal(averaged.model(16).linear.arcs.array, array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 2}, "finds one tree only"),
        ({"backend": "torch"}, "only native code learns with"),
        ({"rule": "mira-factored"}, "is of the first order"),
        ({"rule": "conditional", "max_step": 0.1}, "is of the first order"),
    ],
)
@every_decoder
def test_what_is_not_learned_with_them_is_refused(decoder: str, change: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trainer_of(random_sentences(1, 3, 4), changed(SMALL, decoder=decoder, **change))


@every_decoder
def test_templates_must_be_there(decoder: str) -> None:
    missing = " or ".join(DECODERS[decoder].needs)
    text = f"the set 'first' has no {missing} templates, which decoder {decoder} needs"
    first = replace(FIRST_ORDER, name="first")
    with pytest.raises(ConfigError, match=text):
        Trainer(
            treebank_of(random_sentences(1, 3, 4)), first, None, changed(OPTIONS, decoder=decoder)
        )


def test_dual_decomposition_learns_with_siblings_alone() -> None:
    templates = replace(ALL, grandparent=(), grand_sibling=())
    sentences = random_sentences(8, 12, 5, projective=False)
    options = changed(OPTIONS, decoder="dual_decomposition", map_rows=1 << 16)
    model = learned(Trainer(treebank_of(sentences), templates, None, options)).model(16)
    found = model.parse(treebank_of(sentences))
    right = np.array([int(w[6]) for s in sentences for w in s])
    assert (found.heads == right).mean() > 0.8
