"""The stage of word vectors: networks learned one after the other, from whole trees and labels."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpuparse.config.schema import WordVectorsConfig
from gpuparse.data.batch import Batch
from gpuparse.errors import ConfigError, ModelError, NoTreeError, plural
from gpuparse.features.templates import TemplateSet
from gpuparse.features.word_vectors import (
    FURTHER,
    VectorPlan,
    VectorTemplates,
    is_small,
)
from gpuparse.learning.events import EpochCounts
from gpuparse.learning.stages.stage import BestEpoch, Shape, Stage
from gpuparse.learning.stages.vectors.engine import (
    LOSSES,
    PARTS,
    VectorEngine,
    VectorGold,
    VectorLearning,
    VectorStep,
    VectorTables,
    VectorTask,
    initial_weights,
    vector_sizes,
)
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.vectors.scorer import VectorScorer
from gpuparse.scorers.vectors.word_vectors import (
    VectorWeights,
    WordVectors,
    frozen,
    merged,
)

SLICE = 256  # sentences between two events
# Chosen on Danish and English development parts: "Word vectors" in benchmarks/book.md.
BATCHES = (2, 8)  # sentences of a step, of small treebanks and of others
RATE = 0.003  # first step size
DROPOUT = 0.3  # share of the values of a word's templates that are left out at random
COST = 1.0  # of a wrong head in the search for the worst tree; the unit of scores
LABEL_LOSS = 0.3  # factor of the loss of labels beside that of trees
LABEL_WEIGHT = 0.25  # factor of the scores of labels beside those of templates
LAST_RATE = 0.1  # of the first one, which falls in a line
FIRST_DECAY, SECOND_DECAY = 0.9, 0.99  # of the moments of Adam
GRANDPARENT_SHARE = 0.5  # of the vectors' scores; templates have two kinds of parts with one
SNAPSHOTS = 4  # an epoch in the second half of training, whose mean is the result
_DROPPED = 5  # what is drawn for, beside the orders of stages


class Whole(NamedTuple):
    """The rounding of learned vectors to whole numbers.

    margin: as `WordVectors.with_margin`. factors: of the scores of arcs and of labels.
    """

    margin: float | None
    factors: tuple[float, float]


class VectorStage(Stage):
    """Learns word vectors, one network after the other.

    Args:
        templates: with sizes of vectors; plan: compiled from them.
        batch: training sentences; gold: their heads and labels.
        n_labels: labels, 0 for none.
        decoder, single_root: how trees are found.
        seed: of initial weights and of what is dropped.
        threads: the result is the same for any.
        whole: how scorers are made of them; None: none is.
    Raises: ConfigError: siblings or grandparents with another loss than the hinge.
    Source: the loss: Taskar et al. (2003); features with a hidden layer: Kiperwasser & Goldberg
        (2016), whose cost-augmented hinge this is, with siblings over the trees of McDonald &
        Pereira (2006); the scores: Lei et al. (2014).
    """

    name = "vectors"
    drawn_for = 3

    def __init__(
        self,
        templates: VectorTemplates,
        plan: VectorPlan,
        batch: Batch,
        gold: VectorGold,
        config: WordVectorsConfig,
        *,
        n_labels: int,
        decoder: str,
        single_root: bool,
        seed: int = 0,
        threads: int = 1,
        whole: Whole | None = None,
    ) -> None:
        super().__init__(config.all_epochs)
        self.models = config.networks
        for kind in FURTHER:
            if getattr(templates, kind) and config.loss != LOSSES[0]:
                raise ConfigError(
                    f"word_vectors.loss {config.loss}: {kind}s are learned by {LOSSES[0]}: choose"
                    f" that, or a template set without word_vectors.{kind}"
                )
        templates.times(config.networks)  # refuses too many
        self.sizes = vector_sizes(templates, plan, n_labels)
        if not self.sizes.label:
            gold = gold._replace(labels=None)
        self._templates = templates if self.sizes.label else replace(templates, label=0)
        self._task = VectorTask(batch, plan, self.sizes, gold, decoder, single_root)
        self._config, self._batch, self._seed = config, batch, seed
        self._threads, self._whole = threads, whole
        # The vectors after some epochs, which are the best or not, their sizes, and whole numbers.
        self._made: tuple[tuple[int, bool], VectorTemplates, WordVectors] | None = None
        self._batch_size = BATCHES[0] if is_small(batch) else BATCHES[1]
        self.finished: list[VectorTables] = []  # the networks that are learned
        self._begin()

    def _begin(self) -> None:
        """Start on the next network, if there is one."""
        self._steps, self._snapshots = 0, 0
        is_over = len(self.finished) == self._config.networks
        self._engine = None
        if not is_over:
            weights = initial_weights(self.sizes, self._network_seed)
            self._engine = VectorEngine(self._task, weights, self._threads)

    @property
    def _network_seed(self) -> int:
        return self._seed + len(self.finished)

    def learn(self, order: np.ndarray, seen: int) -> Iterator[EpochCounts]:
        """Learn from sentences in their order; `seen` came before.

        Raises: NoTreeError: scores are not finite.
        """
        ordered, size = self._batch.select(order), self._batch_size
        done, wrong, words = 0, 0, 0
        for first in range(0, len(order), size):
            mini = ordered.select(np.arange(first, min(first + size, len(order))))
            wrong += self._step(mini, seen + first)
            words += int(mini.lengths.sum())
            before, done = done, done + len(mini)
            self._average(seen + before, seen + done)
            if seen + done == (len(self.finished) + 1) * self._sentences:
                self._finish()
            if done == len(order) or before // SLICE != done // SLICE:
                yield EpochCounts(done, len(order), wrong, words)

    @property
    def _sentences(self) -> int:
        """The number of sentences that a network is learned from, in all epochs."""
        return self._config.epochs * len(self._batch)

    def result(self) -> tuple[VectorTemplates, VectorWeights]:
        """One network that scores as the mean of those learned so far, and its sizes.

        The weights of each are the mean of those of the second half of its training; before that,
        those of now.
        """
        tables = list(self.finished)
        if self._engine is not None and (self._steps or not tables):
            tables.append(self._result_of_network())
        weights = [VectorWeights(t.table, *self.sizes.parts(t.dense)) for t in tables]
        return self._templates.times(len(weights)), merged(weights)

    def _result_of_network(self) -> VectorTables:
        """The result of the network at hand so far: the arrays themselves."""
        assert self._engine is not None
        state = self._engine.state()
        kind = "mean" if self._snapshots else "weights"
        return VectorTables(state[f"table_{kind}"], state[f"dense_{kind}"])

    @property
    def has_labels(self) -> bool:
        """True if vectors score labels."""
        return bool(self.sizes.n_labels)

    def averages(self) -> list[np.ndarray]:
        """A copy of the result of the network that was learned last, after any epoch of it."""
        last = self._result_of_network() if self._steps else self.finished[-1]
        return [array.copy() for array in last]

    def average_sizes(self, done: int) -> list[tuple[int, ...]]:
        """The sizes of the network that is being learned; none between two networks."""
        return self.sizes.of_tables if done % self.epochs_of_model else []

    def choose(self, best: BestEpoch) -> BestEpoch:
        """Make the best epoch of the last network its result."""
        self.finished[-1] = VectorTables(*best.averages)
        return best._replace(averages=[], is_chosen=True)

    def _finish(self) -> None:
        """Keep the result of a network alone, in memory and in states, and begin the next one."""
        self.finished.append(self._result_of_network())
        self._begin()

    def state(self) -> dict[str, np.ndarray]:
        """All that learning goes on from between two epochs: results, and the network at hand.

        The mean of the network's weights is left out before there is one.
        """
        kept = _named(self.finished)
        if self._engine is None:
            return kept
        state = self._engine.state()
        if not self._snapshots:
            state = {name: a for name, a in state.items() if not name.endswith("_mean")}
        return kept | state | {"counts": np.array([self._steps, self._snapshots])}

    def shapes(self, done: int, state: Mapping[str, np.ndarray]) -> dict[str, Shape]:
        """As `Stage.shapes`."""
        epochs = self._config.epochs
        finished = min(done // epochs, self._config.networks)
        of_network = done % epochs
        has_mean = of_network > 0 and SNAPSHOTS * of_network >= SNAPSHOTS * epochs // 2
        shapes: dict[str, Shape] = {}
        for part, sizes in zip(PARTS, self.sizes.of_tables, strict=True):
            shapes |= {f"{part}_{i}": Shape(np.float32, sizes) for i in range(finished)}
            if finished < self._config.networks:
                if has_mean:
                    shapes[f"{part}_mean"] = Shape(np.float32, sizes)
                shapes[f"{part}_weights"] = Shape(np.float32, sizes)
                shapes[f"{part}_moments"] = Shape(np.float32, (2, *sizes))
        if finished == self._config.networks:
            return shapes
        return shapes | {"counts": Shape(np.int64, (2,))}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state of the same task.

        Raises: ModelError: it says that there were more steps than there can be.
        """
        count = sum(f"table_{i}" in state for i in range(self._config.networks))
        self.finished = [
            VectorTables(*(state[f"{part}_{i}"] for part in PARTS)) for i in range(count)
        ]
        self._begin()
        self._made = None
        if self._engine is None:
            return
        steps, snapshots = map(int, state["counts"])
        if not 0 <= snapshots <= steps <= self._sentences:
            raise ModelError(f"a damaged state: {plural(steps, 'step')} of word vectors")
        self._steps, self._snapshots = steps, snapshots
        self._engine.restore(dict(self._engine.state()) | dict(state))

    def _step(self, mini: Batch, seen: int) -> int:
        progress = seen / self._sentences - len(self.finished)
        rate = RATE * (1.0 - (1.0 - LAST_RATE) * progress)
        self._steps += 1
        loss, dropped = LOSSES.index(self._config.loss), _drop_seed(self._network_seed, seen)
        learning = VectorLearning(loss, COST, LABEL_LOSS, DROPOUT, dropped)
        step = VectorStep(rate, FIRST_DECAY, SECOND_DECAY, self._steps)
        assert self._engine is not None
        wrong = self._engine.step(mini, learning, step)
        if wrong < 0:
            raise NoTreeError(
                f"a training sentence has no tree: scores of word vectors are not finite, after"
                f" {plural(seen, 'sentence')}; give another seed"
            )
        return wrong

    def _average(self, before: int, now: int) -> None:
        """Keep the weights if a part of an epoch in the second half has ended."""
        n, half = len(self._batch), SNAPSHOTS * self._config.epochs // 2
        half += len(self.finished) * SNAPSHOTS * self._config.epochs
        ended = SNAPSHOTS * now // n
        if ended > SNAPSHOTS * before // n and ended >= half:
            self._snapshots += 1
            assert self._engine is not None
            self._engine.average(self._snapshots)

    def templates(self, arcs: TemplateSet) -> TemplateSet:
        """The templates of a run with the sizes of the networks learned so far."""
        return replace(arcs, word_vectors=self._whole_vectors()[0])

    def scorer(self, linear: LinearScorer, points: tuple[float, float]) -> VectorScorer:
        """The scorer so far; points: of a unit of cost, for arcs and for labels."""
        return VectorScorer.after(linear, self._whole_vectors()[1].with_points(*points))

    def _whole_vectors(self) -> tuple[VectorTemplates, WordVectors]:
        """The vectors so far as whole numbers, with the weight of their scores, and their sizes."""
        assert self._whole is not None
        state = self.done, self.best is not None and self.best.is_chosen
        if self._made is None or self._made[0] != state:
            templates, weights = self.result()
            share = np.float32(GRANDPARENT_SHARE)
            weights = weights._replace(grandparents=weights.grandparents * share)
            made = frozen(weights, self._task.plan, self._batch)
            made = made.with_margin(self._whole.margin).with_units(*self._whole.factors)
            self._made = state, templates, made
        return self._made[1:]


def _named(networks: list[VectorTables]) -> dict[str, np.ndarray]:
    """The tables of networks by name and number."""
    return {
        f"{part}_{i}": array
        for i, tables in enumerate(networks)
        for part, array in zip(PARTS, tables, strict=True)
    }


def _drop_seed(seed: int, seen: int) -> int:
    state = np.random.SeedSequence([seed, _DROPPED, seen]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))
