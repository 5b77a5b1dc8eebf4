"""Learning from the k best trees against the literal algorithm, and what must not change it."""

import numpy as np
import pytest

from gpuparse.inference.decoders import with_quantity
from gpuparse.learning.mira import find_steps, update_rule
from tests.learning.literal import (
    OPTIONS,
    Literal,
    assert_the_average_is_literal,
    learned,
    toy_treebank,
    trainer_of,
    with_random_weights,
)
from tests.runs import changed
from tests.samples import fingerprint, random_sentences

DECODERS = with_quantity("k_best")
LENGTHS = [4, 3, 5, 1, 4, 2, 5, 3]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    ("k", "change"),
    [
        (2, {}),
        (5, {}),
        (3, {"cost_augmented": True}),
        (5, {"cost_augmented": True, "batch_size": 4}),
        (4, {"max_step": 0.02, "single_root": True}),
    ],
    ids=["2", "5", "cost", "cost, batches", "capped, one root"],
)
def test_the_average_is_the_literal_one(decoder: str, k: int, change: dict) -> None:
    options = changed(OPTIONS, decoder=decoder, k=k, **change)
    single_root = bool(options.data.single_root)
    assert_the_average_is_literal(
        options, lambda seed: toy_treebank(decoder, seed, LENGTHS, single_root=single_root)
    )


@pytest.mark.parametrize("decoder", DECODERS)
def test_where_there_are_fewer_than_k_trees_all_are_learned_from(decoder: str) -> None:
    options = changed(OPTIONS, decoder=decoder, k=20, epochs=1)
    assert_the_average_is_literal(
        options, lambda seed: toy_treebank(decoder, seed, [2, 1, 2, 3, 1, 2]), moved=20
    )


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("k", "max_step"), [(5, None), (20, None), (5, 0.05)])
def test_after_a_step_the_margins_of_all_k_trees_are_at_least_their_costs(
    decoder: str, k: int, max_step: float | None
) -> None:
    """And no change is larger than it need be: the conditions of Karush, Kuhn and Tucker."""
    moved = 0
    for seed in range(6):
        options = changed(OPTIONS, decoder=decoder, k=k, epochs=1, max_step=max_step)
        sentences = toy_treebank(decoder, 40 + seed, [5])
        trainer = trainer_of(sentences, options)
        start = with_random_weights(trainer, seed)
        learned(trainer)
        literal = Literal(sentences, options, trainer.model(16))
        weights = literal.named(start)
        gold, trees = literal.find(weights, 0)
        costs = np.array([literal.cost_of(0, tree) for tree in trees], float)
        names = list(weights)
        features = np.zeros((k, len(names)))
        for j, tree in enumerate(trees):
            if costs[j] > 0:
                for sign, each in ((1, gold), (-1, tree)):
                    for name, times in literal.features_of(0, each).items():
                        features[j, names.index(name)] += sign * times
        before = start["arcs.weights"][names, 0].astype(float)
        gram, margins = features @ features.T, features @ before
        # The step meets all constraints, in the precision that it is found in.
        cap, steps = max_step or np.inf, find_steps(update_rule(options), costs, margins, gram)
        unmet = costs - margins - gram @ steps
        counts = costs > 0
        assert ((steps >= 0) & (steps <= cap)).all()
        assert not steps[~counts].any()
        assert (unmet[counts & (steps < cap)] < 1e-6).all()
        assert (np.abs(unmet[counts & (steps > 0) & (steps < cap)]) < 1e-6).all()
        # And the weights have moved by it, in the precision of weights.
        after = trainer.state()["arcs.weights"][names, 0].astype(float)
        np.testing.assert_allclose(after - before, steps @ features, atol=1e-6)
        if max_step is None:
            assert (features @ after >= costs - 1e-4).all()
        moved += np.count_nonzero(steps) > 1
    assert moved > 3


@pytest.mark.parametrize("decoder", DECODERS)
def test_threads_and_the_way_to_a_batch_change_nothing(decoder: str) -> None:
    sentences = random_sentences(70, 60, 10, projective=False)
    options = changed(OPTIONS, decoder=decoder, k=5, batch_size=16)
    one = fingerprint(learned(trainer_of(sentences, options)).model(16))
    for threads in (2, 5):
        assert (
            fingerprint(learned(trainer_of(sentences, options, threads=threads)).model(16)) == one
        )
    # A single sentence at a time, though found beforehand.
    alone = changed(options, batch_size=8, epochs=4)
    prints = [
        fingerprint(learned(trainer_of(sentences[:1], changed(alone, batch_size=size))).model(16))
        for size in (1, 8)
    ]
    assert prints[0] == prints[1]
