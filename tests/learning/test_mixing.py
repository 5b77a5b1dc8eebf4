"""Mixing the weights of shards: against the definition, and in any number of processes."""

import threading
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from gpuparse.config import RunConfig
from gpuparse.errors import ConfigError
from gpuparse.features.templates import parse_set
from gpuparse.learning.mixing import ALONE, Counts, Mixing, Processes, Table
from gpuparse.learning.stages.arcs import learn_arcs
from gpuparse.learning.trainer import Trainer
from tests.runs import changed, run_config
from tests.samples import random_sentences, template_set_text, treebank_of

WIDTH = 5
OPTIONS = run_config(
    decoder="eisner", single_root=False, pos="coarse", map_rows=1 << 12,
    rule="mira", epochs=2, batch_size=1, cost_augmented=False, max_step=None, shuffle=True,
    unreachable="projectivise", seed=1, label_rows=1 << 10, label_epochs=2, shards=3,
)  # fmt: skip
ARC = ["h.form m.form", "h.pos m.pos direction distance", "h.form", "m.form direction"]
SIBLING = ["h.pos s.pos m.pos direction"]
TEMPLATES = parse_set(template_set_text(arc=ARC, sibling=SIBLING), "both orders")
LABELS = parse_set(template_set_text(label=["m.form direction", "h.pos m.pos", "g.pos"]), "labels")
JOINT = parse_set(template_set_text(label=["m.form direction", "h.pos m.pos"]), "joint")
SENTENCES = random_sentences(9, 31, 6)


def shards_of(n: int, shards: int, seed: int | None) -> list[set[int]]:
    """The deal by its definition: runs, as long as each other, of one permutation."""
    dealt = np.arange(n)
    if seed is not None:
        seeds = np.random.SeedSequence([seed, 2, 0])
        dealt = np.random.Generator(np.random.PCG64(seeds)).permutation(n)
    return [{int(dealt[i]) for i in range(n) if i * shards // n == s} for s in range(shards)]


def change(sentence: int, weights: np.ndarray) -> np.ndarray:
    """What a sentence changes depends on the weights, as in learning; exact in float32."""
    drawn = np.random.default_rng(sentence).integers(-8, 9, WIDTH)
    return np.where(drawn > weights, drawn, np.rint(-weights / 2)).astype(np.float32)


class Learner:
    """Learns from one sentence after the other, with lazy sums."""

    def __init__(self) -> None:
        self.table = Table(np.zeros(WIDTH, np.float32), np.zeros(WIDTH, np.float32))

    def learn(self, order: np.ndarray, seen: int):
        for done, sentence in enumerate(order.tolist()):
            delta = change(sentence, self.table.weights)
            self.table.weights[:] += delta
            self.table.weighted[:] += (seen + done) * delta
            yield Counts(done + 1, 2 * done, 3 * done)


def learned(mixing: Mixing, orders: list[np.ndarray], learner: Learner) -> list[Counts]:
    told = []
    for epoch, order in enumerate(orders):
        told += mixing.epoch(order, epoch, [learner.table], learner.learn)
    return told


def orders_of(n: int, epochs: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.permutation(n) for _ in range(epochs)]


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("n", "shards"), [(6, 1), (6, 2), (7, 3), (12, 5), (9, 9)])
def test_weights_and_averages_are_those_of_the_definition(n, shards, seed):
    epochs, learner = 3, Learner()
    told = learned(Mixing(n, shards, seed), orders_of(n, epochs), learner)
    mixed, means = np.zeros(WIDTH), []
    for order in orders_of(n, epochs):
        ends = []
        for members in shards_of(n, shards, seed):
            weights, seen = mixed.astype(np.float32), []
            for sentence in [s for s in order.tolist() if s in members]:
                weights = weights + change(sentence, weights)
                seen.append(weights.astype(np.float64))
            ends.append(weights.astype(np.float64))
            means.append(np.mean(seen, 0))
        mixed = np.mean(ends, 0)
    assert learner.table.weights == pytest.approx(mixed, rel=1e-6)
    average = learner.table.weights - learner.table.weighted / np.float32(n * epochs)
    # `weighted` counts a change from the sentence before which it was made.
    assert average == pytest.approx(np.mean(means, 0), rel=1e-4, abs=1e-4)
    assert [c.done for c in told if c.done == n] == [n] * epochs
    assert all(a.done < b.done or a.done == n for a, b in pairwise(told))


@dataclass(frozen=True)
class Threads(Processes):
    """Threads in the place of processes."""

    barrier: threading.Barrier = field(kw_only=True)
    board: dict = field(kw_only=True)

    def share(self, array, source):
        if self.rank == source:
            self.board["array"] = array.copy()
        self.barrier.wait()
        array[:] = self.board["array"]
        self.barrier.wait()

    def total(self, counts):
        self.board[self.rank] = counts
        self.barrier.wait()
        total = Counts(*np.sum([self.board[rank] for rank in range(self.count)], 0).tolist())
        self.barrier.wait()
        return total


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_number_of_processes_changes_no_bit(count):
    n, shards, orders = 23, 5, orders_of(23, 4)
    alone = Learner()
    counts = learned(Mixing(n, shards, 1), orders, alone)
    board, learners = {}, [Learner() for _ in range(count)]
    barrier, told = threading.Barrier(count, timeout=60), [[] for _ in range(count)]

    def run(rank):
        processes = Threads(rank, count, barrier=barrier, board=board)
        told[rank] = learned(Mixing(n, shards, 1, processes), orders, learners[rank])

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for learner, events in zip(learners, told, strict=True):
        assert learner.table.weights.tobytes() == alone.table.weights.tobytes()
        assert learner.table.weighted.tobytes() == alone.table.weighted.tobytes()
        assert [c for c in events if c.done == n] == [c for c in counts if c.done == n]
        assert max(c.done for c in events) == n


def trained(options: RunConfig, labels=LABELS) -> Trainer:
    trainer = Trainer(treebank_of(SENTENCES), TEMPLATES, labels, options)
    for _ in trainer.learn():
        pass
    return trainer


def test_an_epoch_is_the_mean_of_what_each_shard_learns():
    mixed = trained(changed(OPTIONS, epochs=1), None)
    trainer = Trainer(treebank_of(SENTENCES), TEMPLATES, None, changed(OPTIONS, shards=1))
    engine, ends = trainer.arc_engine(), []
    for members in shards_of(len(SENTENCES), 3, OPTIONS.seed):
        trainer.weights.array[:] = 0
        order = np.array([s for s in trainer.order("arcs", 0).tolist() if s in members])
        for _ in learn_arcs(engine, trainer.gold.arc_batch, order, 0, batch_size=1):
            pass
        ends.append(trainer.weights.array[:, 0].copy())
    assert any((end != ends[0]).any() for end in ends)
    wanted = np.sum(np.array(ends, np.float64), 0) / 3
    assert (mixed.weights.array[:, 0] == wanted.astype(np.float32)).all()


KINDS = {
    "second order": ({"decoder": "eisner_sibling"}, LABELS),
    "batches": ({"batch_size": 4}, LABELS),
    "joint": ({"labels_kind": "joint"}, JOINT),
    "conditional": ({"rule": "conditional", "max_step": 0.05}, LABELS),
    "factored": ({"rule": "mira-factored"}, LABELS),
    "3 best": ({"k": 3}, LABELS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_learns_repeats_and_differs_from_learning_in_one_piece(kind):
    changes, labels = KINDS[kind]
    options = changed(OPTIONS, **changes)
    models = [trained(options, labels).model(16) for _ in range(2)]
    other = trained(changed(options, shards=1), labels).model(16)
    for part in ("arcs", "label_weights"):
        arrays = [getattr(model, part).array for model in (*models, other)]
        assert (arrays[0] == arrays[1]).all()
        assert (arrays[0] != arrays[2]).any()


def test_a_restored_trainer_goes_on_the_same():
    whole = trained(OPTIONS)
    first = Trainer(treebank_of(SENTENCES), TEMPLATES, LABELS, OPTIONS)
    for event in first.learn():
        if event.epoch_is_over and (event.stage, event.epoch) == ("arcs", 1):
            break
    second = Trainer(treebank_of(SENTENCES), TEMPLATES, LABELS, OPTIONS)
    second.restore({name: array.copy() for name, array in first.state().items()})
    for _ in second.learn():
        pass
    for name, array in whole.state().items():
        assert (second.state()[name] == array).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shards": 32}, "learning.shards is 32, but the treebank has 31 sentences"),
    ],
)
def test_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        trained(changed(OPTIONS, **changes))


def test_more_processes_than_shards_are_refused():
    with pytest.raises(ConfigError, match="3 processes need at least as many shards"):
        Mixing(10, 2, None, Processes(0, 3))
    assert Mixing(10, 1, None, ALONE)
