"""Conditional log-likelihood against gradients by automatic differentiation of its definition."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from gpuparse.config import RunConfig
from gpuparse.inference import eisner_log_partition, matrix_tree_log_partition
from gpuparse.learning.trainer import Trainer
from tests.learning.literal import (
    OPTIONS,
    Literal,
    average_of,
    toy_treebank,
    trainer_of,
    with_random_weights,
    without_heads,
)
from tests.runs import changed
from tests.samples import Sentence

PARTITIONS = {"eisner": eisner_log_partition, "chu_liu_edmonds": matrix_tree_log_partition}
LENGTHS = [6, 4, 1, 7, 3]
STEP = 0.2
SOFT = changed(OPTIONS, rule="conditional", max_step=STEP)


def log_likelihood(
    weights: torch.Tensor,
    rows: np.ndarray,
    gold: list[int],
    partition: Callable,
    options: RunConfig,
) -> torch.Tensor:
    """log p of all trees with the known heads; rows (N, N, weights) count features of arcs."""
    n = len(gold)
    scores = torch.from_numpy(rows) @ weights
    allowed = torch.zeros_like(scores)
    for m, right in enumerate(gold, start=1):
        for h in range(n + 1):
            if right >= 0 and h != right:
                allowed[h, m] = -torch.inf
                scores = scores.clone()
                scores[h, m] += float(options.learning.cost_augmented)
    lengths, single_root = torch.tensor([n]), bool(options.data.single_root)
    every = partition(scores[None], lengths, single_root=single_root)
    with_gold = partition((scores + allowed)[None], lengths, single_root=single_root)
    return (with_gold - every)[0]


def literal_average(
    sentences: list[Sentence], options: RunConfig, trainer: Trainer, start: dict[str, np.ndarray]
) -> np.ndarray:
    """(rows,) the mean of the weights after each sentence, by dense steps in double precision."""
    literal = Literal(sentences, options, trainer.model(16))
    names = list(literal.named(start))
    column = {name: k for k, name in enumerate(names)}
    weights = torch.from_numpy(start["arcs.weights"][names, 0]).double()
    total, seen = torch.zeros_like(weights), 0
    for order in literal.orders():
        for s in order:
            n, heads = len(sentences[s]), literal.gold_heads(s)
            rows = np.zeros((n + 1, n + 1, len(names)))
            for (h, m), found in literal.features[s].items():
                for name, times in found.items():
                    rows[h, m, column[name]] = times
            leaf = weights.clone().requires_grad_()
            log_likelihood(leaf, rows, heads, PARTITIONS[options.decoder], options).backward()
            assert leaf.grad is not None
            weights = weights + STEP * leaf.grad
            total, seen = total + weights, seen + 1
    expected = start["arcs.weights"][:, 0].astype(np.float64)
    expected[names] = (total / seen).numpy()
    return expected


@pytest.mark.parametrize("decoder", PARTITIONS)
@pytest.mark.parametrize("cost_augmented", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5], ids=["whole", "partial"])
def test_every_step_is_the_gradient(
    decoder: str, cost_augmented: bool, single_root: bool, share: float
) -> None:
    options = changed(SOFT, decoder=decoder, cost_augmented=cost_augmented, single_root=single_root)
    sentences = toy_treebank(decoder, 1, LENGTHS, single_root=single_root)
    sentences = without_heads(sentences, share, 1)
    trainer = trainer_of(sentences, options)
    start = with_random_weights(trainer, 3)
    expected = literal_average(sentences, options, trainer, start)
    events = list(trainer.learn())
    found = average_of(trainer, []).arcs
    assert np.count_nonzero(np.abs(expected - start["arcs.weights"][:, 0]) > 1e-4) > 100
    np.testing.assert_allclose(found, expected, atol=1e-5)
    known = sum(w[6] != "_" for s in sentences for w in s)
    assert 0 < events[0].wrong <= known


def test_sentences_of_which_nothing_is_known_teach_nothing() -> None:
    sentences = without_heads(toy_treebank("eisner", 2, [5, 3]), 2.0, 1)
    trainer = trainer_of(sentences, SOFT)
    start = with_random_weights(trainer, 1)["arcs.weights"]
    events = list(trainer.learn())
    np.testing.assert_allclose(trainer.state()["arcs.weights"], start, atol=1e-6)
    assert [event.wrong for event in events] == [0, 0]
