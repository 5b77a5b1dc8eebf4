"""Conditional log-likelihood against gradients by automatic differentiation of its definition."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError
from gpuparse.features.templates import parse_set
from gpuparse.inference import eisner_log_partition, matrix_tree_log_partition
from gpuparse.learning.trainer import Options, Trainer
from tests.learning.literal import (
    OPTIONS,
    Literal,
    learned,
    toy_treebank,
    trainer_of,
    with_random_weights,
    without_heads,
)
from tests.samples import Sentence, fingerprint, random_sentences, row, template_set_text

PARTITIONS = {"eisner": eisner_log_partition, "chu_liu_edmonds": matrix_tree_log_partition}
LENGTHS = [6, 4, 1, 7, 3]
STEP = 0.2
SOFT = replace(OPTIONS, rule="conditional", max_step=STEP)


def log_likelihood(
    weights: torch.Tensor, rows: np.ndarray, gold: list[int], partition: Callable, options: Options
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
                scores[h, m] += float(options.cost_augmented)
    lengths, single_root = torch.tensor([n]), bool(options.single_root)
    every = partition(scores[None], lengths, single_root=single_root)
    with_gold = partition((scores + allowed)[None], lengths, single_root=single_root)
    return (with_gold - every)[0]


def literal_average(
    sentences: list[Sentence], options: Options, trainer: Trainer, start: dict[str, np.ndarray]
) -> np.ndarray:
    """(rows,) the mean of the weights after each sentence, by dense steps in double precision."""
    literal = Literal(sentences, options)
    names = literal.rows_in(trainer.model(16))
    column = {name: k for k, name in enumerate(names)}
    weights = torch.from_numpy(start["arcs"][list(names.values()), 0]).double()
    total, seen = torch.zeros_like(weights), 0
    for order in literal.orders():
        for s in order:
            sentence = literal.sentences[s]
            rows = np.zeros((sentence.n + 1, sentence.n + 1, len(names)))
            for (h, m), found in sentence.features.items():
                for name, times in found.items():
                    rows[h, m, column[name]] = times
            leaf = weights.clone().requires_grad_()
            log_likelihood(
                leaf, rows, list(sentence.gold.heads), PARTITIONS[options.decoder], options
            ).backward()
            assert leaf.grad is not None
            weights = weights + STEP * leaf.grad
            total, seen = total + weights, seen + 1
    expected = start["arcs"][:, 0].astype(np.float64)
    expected[list(names.values())] = (total / seen).numpy()
    return expected


@pytest.mark.parametrize("decoder", PARTITIONS)
@pytest.mark.parametrize("cost_augmented", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5], ids=["whole", "partial"])
def test_every_step_is_the_gradient(
    decoder: str, cost_augmented: bool, single_root: bool, share: float
) -> None:
    options = replace(SOFT, decoder=decoder, cost_augmented=cost_augmented, single_root=single_root)
    sentences = toy_treebank(decoder, 1, LENGTHS, single_root=single_root)
    sentences = without_heads(sentences, share, 1)
    trainer = trainer_of(sentences, options)
    start = with_random_weights(trainer, 3)
    expected = literal_average(sentences, options, trainer, start)
    events = list(trainer.learn())
    state, seen = trainer.state(), options.epochs * len(sentences)
    found = state["arcs"][:, 0] - state["arcs_weighted"] / seen
    assert np.count_nonzero(np.abs(expected - start["arcs"][:, 0]) > 1e-4) > 100
    np.testing.assert_allclose(found, expected, atol=1e-5)
    known = sum(w[6] != "_" for s in sentences for w in s)
    assert 0 < events[0].wrong <= known


def test_sentences_of_which_nothing_is_known_teach_nothing() -> None:
    sentences = without_heads(toy_treebank("eisner", 2, [5, 3]), 2.0, 1)
    trainer = trainer_of(sentences, SOFT)
    start = with_random_weights(trainer, 1)["arcs"]
    events = list(trainer.learn())
    np.testing.assert_allclose(trainer.state()["arcs"], start, atol=1e-6)
    assert [event.wrong for event in events] == [0, 0]


@pytest.mark.parametrize("decoder", PARTITIONS)
def test_hashed_without_collisions_equals_exact(decoder: str) -> None:
    sentences = random_sentences(71, 25, 9, projective=False)
    options = replace(SOFT, decoder=decoder, max_step=0.05)
    hashed, exact = (
        learned(trainer_of(sentences, replace(options, map_kind=kind))).model(16)
        for kind in ("hashed", "exact")
    )
    ours, theirs = (np.sort(m.arcs.array[m.arcs.array != 0]) for m in (hashed, exact))
    assert len(ours) > 200
    assert np.array_equal(ours, theirs)
    assert fingerprint(hashed) != fingerprint(exact)


def test_weights_that_are_not_finite_are_an_error() -> None:
    sentences = toy_treebank("eisner", 4, [5, 5])
    trainer = trainer_of(sentences, SOFT)
    with_random_weights(trainer, 1)
    state = trainer.state()
    trainer.restore(state | {"arcs": np.full_like(state["arcs"], -np.inf)})
    with pytest.raises(NoTreeError, match="scores are not finite"):
        learned(trainer)


def test_labels_are_learned_by_the_softmax_gradient() -> None:
    """Second-stage labels under the rule: log p of each gold label, one arc after the other."""
    labels = parse_set(template_set_text(label=["m.form", "h.pos"]), "labels")
    draw = np.random.default_rng(1)
    sentences = [
        [
            row(m, f"w{m}", m - 1, str(draw.choice(list("abc"))), cpos=str(draw.choice(list("NV"))))
            for m in range(1, 6)
        ]
        for _ in range(4)
    ]
    options = replace(SOFT, epochs=1, shuffle=False)
    trainer = learned(trainer_of(sentences, options, labels=labels))
    names = trainer.label_names
    weights = torch.zeros(2, 6, len(names), dtype=torch.float64)  # by template and value
    total = torch.zeros_like(weights)
    for sentence in sentences:
        for m, word in enumerate(sentence, start=1):
            of_head = 0 if m == 1 else 1 + "NV".index(sentence[m - 2][3])
            leaf = weights.clone().requires_grad_()
            scores = leaf[0, m] + leaf[1, of_head]
            torch.log_softmax(scores, 0)[names.index(word[7])].backward()
            weights = weights + STEP * leaf.grad
        total += weights
    state = trainer.state()
    found = state["labels"] - state["labels_weighted"].reshape(state["labels"].shape) / 4
    lines = np.array([line for line in found if line.any()])
    expected = np.array([v for v in (total / 4).reshape(-1, len(names)).numpy() if v.any()])
    assert len(lines) == len(expected) == 5 + 3
    order, other = np.lexsort(lines.T), np.lexsort(expected.T)
    np.testing.assert_allclose(lines[order], expected[other], atol=1e-6)
