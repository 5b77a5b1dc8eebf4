"""Learning from the k best trees against the literal algorithm, and what must not change it."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse.inference.decoders import with_quantity
from gpuparse.learning import trainer as trainer_module
from gpuparse.learning.difference import Difference, make_difference
from tests.learning.literal import (
    OPTIONS,
    Literal,
    assert_the_average_is_literal,
    learned,
    toy_treebank,
    trainer_of,
    with_random_weights,
)
from tests.oracles.online_k_best import cost_of, features_of, find
from tests.samples import fingerprint, random_sentences, treebank_of

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
        (3, {"rule": "passive-aggressive", "max_step": 0.1}),
        (4, {"rule": "passive-aggressive", "max_step": 1.0, "batch_size": 3}),
    ],
    ids=["2", "5", "cost", "cost, batches", "capped, one root", "passive", "passive, batches"],
)
def test_the_average_is_the_literal_one(decoder: str, k: int, change: dict) -> None:
    options = replace(OPTIONS, decoder=decoder, k=k, **change)
    single_root = bool(options.single_root)
    assert_the_average_is_literal(
        options, lambda seed: toy_treebank(decoder, seed, LENGTHS, single_root=single_root)
    )


@pytest.mark.parametrize("decoder", DECODERS)
def test_where_there_are_fewer_than_k_trees_all_are_learned_from(decoder: str) -> None:
    options = replace(OPTIONS, decoder=decoder, k=20, epochs=1)
    assert_the_average_is_literal(
        options, lambda seed: toy_treebank(decoder, seed, [2, 1, 2, 3, 1, 2]), moved=20
    )


def captured(monkeypatch: pytest.MonkeyPatch) -> list[Difference]:
    """The working memory of all learning from now on, which keeps what was last in it."""
    made: list[Difference] = []

    def keep(*args: object, **named: object) -> Difference:
        made.append(make_difference(*args, **named))
        return made[-1]

    monkeypatch.setattr(trainer_module, "make_difference", keep)
    return made


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("k", "max_step"), [(5, None), (20, None), (5, 0.05)])
def test_after_a_step_the_margins_of_all_k_trees_are_at_least_their_costs(
    decoder: str, k: int, max_step: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no change is larger than it need be: the conditions of Karush, Kuhn and Tucker."""
    made, moved = captured(monkeypatch), 0
    for seed in range(6):
        options = replace(OPTIONS, decoder=decoder, k=k, epochs=1, max_step=max_step)
        sentences = toy_treebank(decoder, 40 + seed, [5])
        trainer = trainer_of(sentences, options)
        start = with_random_weights(trainer, seed)
        learned(trainer)
        literal = Literal(sentences, options)
        (sentence,), model = literal.sentences, trainer.model(16)
        gold, trees = find(literal.named(model, start), sentence, literal.search)
        costs = np.array([cost_of(sentence.gold, tree) for tree in trees], float)
        memory = made[-1]
        assert memory.listed.costs.tolist() == costs.tolist()
        # What the step was found from is what the k trees say.
        names = literal.rows_in(model)
        features = np.zeros((k, len(names)))
        for j, tree in enumerate(trees):
            if costs[j] > 0:
                for sign, each in ((1, gold), (-1, tree)):
                    for name, times in features_of(sentence, each).items():
                        features[j, list(names).index(name)] += sign * times
        before = start["arcs"][list(names.values()), 0].astype(float)
        np.testing.assert_allclose(memory.gram, features @ features.T)
        np.testing.assert_allclose(memory.margins, features @ before, atol=1e-5)
        # The step meets all constraints, in the precision that it is found in.
        cap, steps = max_step or np.inf, memory.steps
        unmet = costs - memory.margins - memory.gram @ steps
        counts = costs > 0
        assert ((steps >= 0) & (steps <= cap)).all()
        assert not steps[~counts].any()
        assert (unmet[counts & (steps < cap)] < 1e-6).all()
        assert (np.abs(unmet[counts & (steps > 0) & (steps < cap)]) < 1e-6).all()
        # And the weights have moved by it, in the precision of weights.
        after = trainer.state()["arcs"][list(names.values()), 0].astype(float)
        np.testing.assert_allclose(after - before, steps @ features, atol=1e-6)
        if max_step is None:
            assert (features @ after >= costs - 1e-4).all()
        moved += np.count_nonzero(steps) > 1
    assert moved > 3


@pytest.mark.parametrize("decoder", DECODERS)
def test_one_tree_among_k_columns_changes_the_same_bytes(
    decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only the best of the k trees is kept, k is 1."""
    sentences = toy_treebank(decoder, 5, LENGTHS)
    options = replace(OPTIONS, decoder=decoder, batch_size=4)
    one = trainer_of(sentences, options)
    with_random_weights(one, 1)
    predict = trainer_module.predict_sentences

    def keep_the_first(*args: object) -> int:
        failed = predict(*args)
        args[-1].found[1:] = -1
        return failed

    several = trainer_of(sentences, replace(options, k=3))
    with_random_weights(several, 1)
    learned(one)
    monkeypatch.setattr(trainer_module, "predict_sentences", keep_the_first)
    learned(several)
    for name in ("arcs", "arcs_weighted"):
        assert one.state()[name].tobytes() == several.state()[name].tobytes()
    assert one.state()["arcs_weighted"].any()


@pytest.mark.parametrize("decoder", DECODERS)
def test_threads_and_the_way_to_a_batch_change_nothing(decoder: str) -> None:
    sentences = random_sentences(70, 60, 10, projective=False)
    options = replace(OPTIONS, decoder=decoder, k=5, batch_size=16)
    one = fingerprint(learned(trainer_of(sentences, options)).model(16))
    for threads in (2, 5):
        assert (
            fingerprint(learned(trainer_of(sentences, options, threads=threads)).model(16)) == one
        )
    # A single sentence at a time, though found beforehand.
    alone = replace(options, batch_size=8, epochs=4)
    prints = [
        fingerprint(learned(trainer_of(sentences[:1], replace(alone, batch_size=size))).model(16))
        for size in (1, 8)
    ]
    assert prints[0] == prints[1]


@pytest.mark.parametrize("decoder", DECODERS)
def test_hashed_without_collisions_equals_exact(decoder: str) -> None:
    sentences = random_sentences(71, 30, 9, projective=False)
    options = replace(OPTIONS, decoder=decoder, k=4)
    hashed, exact = (
        learned(trainer_of(sentences, replace(options, map_kind=kind))).model(16)
        for kind in ("hashed", "exact")
    )
    ours, theirs = (np.sort(m.arcs.array[m.arcs.array != 0]) for m in (hashed, exact))
    assert len(ours) > 200
    assert np.array_equal(ours, theirs)
    fresh = treebank_of(random_sentences(72, 30, 10))
    assert hashed.parse(fresh).heads.tolist() == exact.parse(fresh).heads.tolist()


def test_a_difference_that_must_grow_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = random_sentences(73, 20, 9)
    options = replace(OPTIONS, k=5)
    whole = fingerprint(learned(trainer_of(sentences, options)).model(16))
    capacities = []

    def small_at_first(*args: object, capacity: int, **named: object) -> Difference:
        capacities.append(capacity >> 15)
        return make_difference(*args, capacity=capacities[-1], **named)

    monkeypatch.setattr(trainer_module, "make_difference", small_at_first)
    assert fingerprint(learned(trainer_of(sentences, options)).model(16)) == whole
    assert capacities[:6] == [2 << k for k in range(6)]
