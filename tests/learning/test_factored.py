"""Factored constraints: what holds after a step, and that the step is the smallest."""

import numpy as np
import pytest
from scipy.optimize import nnls

from gpuparse.config import RunConfig
from tests.learning.literal import (
    OPTIONS,
    Literal,
    average_of,
    learned,
    toy_treebank,
    trainer_of,
    with_random_weights,
    without_heads,
)
from tests.oracles.tree_features import score_tables
from tests.runs import changed
from tests.samples import Sentence

FACTORED = changed(OPTIONS, rule="mira-factored")


def smallest_change(constraints: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """The shortest x with constraints @ x >= missing, by Lawson & Hanson's way to least distance.

    Non-negative least squares of E u = f, E the transposed constraints over what is missing and f
    the last unit vector, leaves the residual r, and x = -r / r[last] without the last.
    """
    stacked = np.vstack([constraints.T, missing])
    last = np.zeros(len(stacked))
    last[-1] = 1
    steps, _ = nnls(stacked, last, maxiter=100 * stacked.shape[1])
    residual = stacked @ steps - last
    return -residual[:-1] / residual[-1]


def literal_average(
    literal: Literal, names: list[int], weights: np.ndarray
) -> tuple[np.ndarray, list[int]]:
    """The mean of dense weights after each sentence, and in each epoch the wrong words."""
    column = {name: k for k, name in enumerate(names)}
    total, seen, wrong = np.zeros_like(weights), 0, []
    for order in literal.orders():
        wrong.append(0)
        for s in order:
            features, heads, rows, words = literal.features[s], literal.gold_heads(s), [], []
            for m, right in enumerate(heads, start=1):
                for h in range(len(heads) + 1):
                    if right >= 0 and h not in (m, right):
                        difference = np.zeros(len(names))
                        for sign, head in ((1, right), (-1, h)):
                            for name, times in features[head, m].items():
                                difference[column[name]] += sign * times
                        rows.append(difference)
                        words.append(m)
            constraints = np.array(rows).reshape(-1, len(names))
            missing = 1 - constraints @ weights
            if (missing > 1e-5).any():
                weights = weights + smallest_change(constraints, missing)
            wrong[-1] += len({m for m, each in zip(words, missing, strict=True) if each > 1e-4})
            total, seen = total + weights, seen + 1
    return total / seen, wrong


def compared(options: RunConfig, sentences: list[Sentence]) -> None:
    trainer = trainer_of(sentences, options)
    start = with_random_weights(trainer, 5)["arcs.weights"][:, 0].astype(np.float64)
    literal = Literal(sentences, options, trainer.model(16))
    names = list(literal.named({"arcs.weights": start[:, np.newaxis]}))
    average, wrong = literal_average(literal, names, start[names])
    events = list(trainer.learn())
    found = average_of(trainer, []).arcs
    expected = start.copy()
    expected[names] = average
    assert np.count_nonzero(np.abs(expected - start) > 1e-3) > 50
    np.testing.assert_allclose(found, expected, atol=1e-4)
    # Words count too whose arcs were overtaken while others were put right.
    assert events[0].wrong >= wrong[0] > 0


@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
@pytest.mark.parametrize("share", [0.0, 0.4], ids=["whole", "partial"])
def test_the_average_is_that_of_the_smallest_changes(decoder: str, share: float) -> None:
    sentences = toy_treebank(decoder, 1, [6, 4, 1, 5, 3])
    compared(changed(FACTORED, decoder=decoder), without_heads(sentences, share, 2))


@pytest.mark.parametrize("max_step", [None, 0.01])
def test_after_a_sentence_every_gold_arc_is_1_above_the_others(max_step: float | None) -> None:
    """Unless steps are capped: then none is longer."""
    for seed in range(6):
        options = changed(FACTORED, epochs=1, max_step=max_step)
        sentences = toy_treebank("eisner", 20 + seed, [8])
        trainer = trainer_of(sentences, options)
        start = with_random_weights(trainer, seed)
        learned(trainer)
        literal = Literal(sentences, options, trainer.model(16))
        arcs, _, _ = score_tables(literal.named(trainer.state()), literal.features[0], 8)
        margins = [
            arcs[right, m] - arcs[h, m]
            for m, right in enumerate(literal.gold_heads(0), start=1)
            for h in range(9)
            if h not in (m, right)
        ]
        moved = np.abs(trainer.state()["arcs.weights"] - start["arcs.weights"])
        assert moved.max() > 0
        if max_step is None:
            assert min(margins) >= 1 - 1e-4
        else:
            assert min(margins) < 0.9
            assert moved.max() <= max_step * len(margins) * 2
