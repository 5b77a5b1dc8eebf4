"""The stage of word vectors: float32 weights, learned by gradients of a loss of trees and labels.

Native code on the CPU does the work, or torch on any device. A batch is cut into groups of
sentences whose gradients are added in order, and each row of the table has the gradients of its
nodes added in order, so the number of threads changes no bit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpuparse import native
from gpuparse.config.schema import WordVectorsConfig
from gpuparse.data.batch import Batch
from gpuparse.errors import ConfigError, ModelError, NoTreeError, plural
from gpuparse.features.word_vectors import FURTHER, VectorPlan, VectorTemplates, is_small
from gpuparse.learning.events import EpochCounts
from gpuparse.learning.stages.stage import BestEpoch, Shape, Stage
from gpuparse.scorers.native import make_search, sentences_of
from gpuparse.scorers.vectors.word_vectors import OCCURRENCES, VectorWeights, merged

GROUP, MOST_GROUPS = 4, 8  # sentences of a group; most groups of a batch
SLICE = 256  # sentences between two events
PASSIVE_AGGRESSIVE = "passive-aggressive"
LOSSES = ("hinge", "conditional", "heads")  # by their numbers in native/learn_vectors.h
OPTIMIZERS = ("adam", "adagrad", PASSIVE_AGGRESSIVE)
MOST_GRAND_WORDS = 80  # of a sentence whose grandparents are learned from: trees cost n^4
LAST_RATE = 0.1  # of the first one, which falls in a line
FIRST_DECAY, SECOND_DECAY = 0.9, 0.99  # of the moments of Adam
GRANDPARENT_SHARE = 0.5  # of the vectors' scores; templates have two kinds of parts with one
SNAPSHOTS = 4  # an epoch in the second half of training, whose mean is the result
_INITIAL, _DROPPED = 4, 5  # what is drawn for, beside the orders of stages


class VectorSizes(NamedTuple):
    """The struct of native/api/vectors.h, and the sizes of weights that follow from it."""

    hidden: int
    arc: int
    sibling: int
    grandparent: int
    label: int
    n_labels: int
    n_between: int
    n_buckets: int
    n_rows: int

    @property
    def columns(self) -> int:
        """Q: numbers of a vector."""
        return self.first_label + self.label

    @property
    def first_label(self) -> int:
        """The first of the columns that score labels; those of all pairs come before."""
        return sum(self.of_pairs)

    @property
    def of_pairs(self) -> list[int]:
        """Columns of arcs, and of each further kind of pairs."""
        return [self.arc, *(getattr(self, kind) for kind in FURTHER)]

    @property
    def width(self) -> int:
        """W: numbers of a row of the table."""
        return 2 * (self.hidden or self.columns)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arrays of `VectorWeights` but the table, as they follow each other in one."""
        matrix = (self.hidden, self.columns)
        pairs = [(2 * self.n_buckets if size else 0, 3 * size + 1) for size in self.of_pairs]
        labels = (self.n_labels, 3 * self.label + 1)
        between = (2 * OCCURRENCES * self.n_between, 2 * self.arc + 1)
        return [(self.width,), matrix, matrix, *pairs, labels, between]

    @property
    def of_tables(self) -> list[tuple[int, ...]]:
        """Of the arrays of `VectorTables`."""
        return [(self.n_rows, self.width), (self.n_dense,)]

    @property
    def n_dense(self) -> int:
        """Numbers of all these arrays."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def factor(self, number: int) -> tuple[slice, slice]:
        """Of the weights that a score without a hidden layer is linear in if others are fixed.

        Args: number: 0 vectors as heads, 1 as modifiers, 2 numbers of combinations and labels.
        Returns: their numbers of a row of the table, and of the array (n_dense,).
        """
        ends = [0, self.columns, self.width, self.n_dense]
        part = slice(*ends[number : number + 2])
        return (part if number < 2 else slice(0, 0)), part

    def parts(self, dense: Any) -> list[Any]:
        """Views of an array (n_dense,) of NumPy or torch, by `shapes`."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.shapes)]).tolist()
        cut = zip(pairwise(ends), self.shapes, strict=True)
        return [dense[first:last].reshape(shape) for (first, last), shape in cut]


class VectorGold(NamedTuple):
    """Gold heads and labels (T,) int64 by token index, -1 for none; labels None: none at all."""

    heads: np.ndarray
    labels: np.ndarray | None


class VectorTables(NamedTuple):
    """Weights as native/api/vectors.h has them, or other numbers of each of them."""

    table: np.ndarray  # (n_rows, width)
    dense: np.ndarray  # (n_dense,)


PARTS = VectorTables._fields


class VectorLearning(NamedTuple):
    """The struct of native/api/vectors.h."""

    loss: int
    cost: float
    label_loss: float
    dropout: float
    seed: int


class VectorStep(NamedTuple):
    """The struct of native/api/vectors.h."""

    optimizer: int
    rate: float
    first_decay: float
    second_decay: float
    steps: int

    def no_longer_than(self, loss: float, squares: float) -> "VectorStep":
        """The step that is just long enough for a loss, or as long as the rate allows.

        Args: squares: the squared length of the gradient, in which the loss is linear.
        """
        return self._replace(rate=min(self.rate, loss / squares) if squares > 0.0 else 0.0)


class VectorGradients(NamedTuple):
    """The struct of native/api/vectors.h."""

    nodes: np.ndarray
    dense: np.ndarray
    occurrences: np.ndarray
    first_node: int


class VectorTask(NamedTuple):
    """What word vectors are learned from.

    decoder: of arcs, finds trees under `loss: hinge`, and the sums of `loss: conditional`.
    """

    batch: Batch
    plan: VectorPlan
    sizes: VectorSizes
    gold: VectorGold
    decoder: str
    single_root: bool


class VectorEngine(Protocol):
    """Takes steps."""

    def step(self, mini: Batch, learning: VectorLearning, step: VectorStep) -> int:
        """Learn from some sentences together. Returns words with a wrong head; -1: no tree."""

    def average(self, count: int) -> None:
        """Make the weights of the moment one of `count` whose mean is kept."""

    def state(self) -> dict[str, np.ndarray]:
        """Weights, moments and means; arrays may be those that learning changes."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""


class VectorStage(Stage):
    """Learns word vectors, one network after the other.

    Args:
        templates: with sizes of vectors; plan: compiled from them.
        batch: training sentences; gold: their heads and labels.
        n_labels: labels, 0 for none.
        decoder, single_root: how trees are found.
        seed: of initial weights and of what is dropped.
        threads: the result is the same for any.
        device: where torch learns; None: native code does, or torch where there is none.
        start: the weights that each network begins with; None: random ones.
    Raises: ConfigError: passive-aggressive steps with a hidden layer, or siblings with another loss
        than the hinge.
    Source: the loss: Taskar et al. (2003); features with a hidden layer: Kiperwasser & Goldberg
        (2016), whose cost-augmented hinge this is, with siblings over the trees of McDonald &
        Pereira (2006); the scores, and passive-aggressive steps of one
        factor at a time: Lei et al. (2014); differs: a step is of a batch, and of labels too.
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
        device: str | None = None,
        start: list[VectorTables] | None = None,
    ) -> None:
        super().__init__(config.all_epochs)
        self.models = config.networks
        if config.optimizer == PASSIVE_AGGRESSIVE and templates.hidden:
            raise ConfigError(
                f"word_vectors.optimizer {PASSIVE_AGGRESSIVE}: scores must be linear in factors:"
                " choose a template set with hidden: 0, or another optimizer"
            )
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
        self._threads, self._device, self._start = threads, device, start
        self._loss = LOSSES.index(config.loss)
        if isinstance(config.batch_size, int):
            self._batch_size = config.batch_size
        else:  # "auto"
            self._batch_size = 2 if is_small(batch) else 8
        self.finished: list[VectorTables] = []  # the networks that are learned
        self._begin()

    def _begin(self) -> None:
        """Start on the next network, if there is one."""
        self._steps, self._snapshots = 0, 0
        is_over = len(self.finished) == self._config.networks
        self._engine = None if is_over else self._new_engine()

    @property
    def _network_seed(self) -> int:
        return self._seed + len(self.finished)

    def _new_engine(self) -> VectorEngine:
        """An engine with the weights before anything is learned."""
        if self._start is None:
            weights = initial_weights(self.sizes, self._network_seed)
        else:
            weights = VectorTables(*(a.copy() for a in self._start[len(self.finished)]))
        if self._device is None:
            return NativeVectorEngine(self._task, weights, self._threads)
        from gpuparse.learning.vectors_on_device import TorchVectorEngine

        return TorchVectorEngine(self._task, weights, self._device)

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
        """How many sentences a network is learned from, in all epochs."""
        return self._config.epochs * len(self._batch)

    def result(self) -> tuple[VectorTemplates, VectorWeights]:
        """One network that scores as the mean of those learned so far, and its sizes.

        The weights of each are the mean of those of the second half of its training; before that,
        those of now.
        """
        tables = list(self.finished)
        if self._engine is not None and (self._steps or not tables):
            tables.append(self._result_of_network())
        if self._start is not None:
            tables += self._start[len(tables) :]
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
        """Whether vectors score labels."""
        return bool(self.sizes.n_labels)

    def averages(self) -> list[np.ndarray]:
        """A copy of the result of the network that was learned last, after any epoch of it."""
        last = self._result_of_network() if self._steps else self.finished[-1]
        return [array.copy() for array in last]

    def average_sizes(self, done: int) -> list[tuple[int, ...]]:
        """Of the network at hand; of none between two networks."""
        return self.sizes.of_tables if done % self.epochs_of_model else []

    def choose(self, best: BestEpoch) -> BestEpoch:
        """Make the best epoch of the last network its result."""
        self.finished[-1] = VectorTables(*best.averages)
        return best._replace(averages=[], is_chosen=True)

    def learned(self) -> dict[str, np.ndarray]:
        """The networks that are learned."""
        return _named(self.finished)

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
        if self._engine is None:
            return
        steps, snapshots = map(int, state["counts"])
        if not 0 <= snapshots <= steps <= self._sentences:
            raise ModelError(f"a damaged state: {plural(steps, 'step')} of word vectors")
        self._steps, self._snapshots = steps, snapshots
        self._engine.restore(dict(self._engine.state()) | dict(state))

    def _step(self, mini: Batch, seen: int) -> int:
        config = self._config
        progress = seen / self._sentences - len(self.finished)
        rate = config.learning_rate * (1.0 - (1.0 - LAST_RATE) * progress)
        self._steps += 1
        learning = VectorLearning(
            self._loss, config.cost, config.label_loss, config.dropout,
            _drop_seed(self._network_seed, seen),
        )  # fmt: skip
        optimizer = OPTIMIZERS.index(config.optimizer)
        step = VectorStep(optimizer, rate, FIRST_DECAY, SECOND_DECAY, self._steps)
        assert self._engine is not None
        wrong = self._engine.step(mini, learning, step)
        if wrong < 0:
            raise NoTreeError(
                f"a training sentence has no tree: scores of word vectors are not finite, after"
                f" {plural(seen, 'sentence')}; choose a smaller word_vectors.learning_rate"
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


def vector_sizes(templates: VectorTemplates, plan: VectorPlan, n_labels: int) -> VectorSizes:
    """The sizes of a network.

    Args: templates: with sizes of vectors; plan: compiled from them. n_labels: 0 for none.
    """
    label = templates.label if n_labels else 0
    further = {kind: getattr(templates, kind) for kind in FURTHER}
    return VectorSizes(
        hidden=templates.hidden, arc=templates.arc, **further, label=label,
        n_labels=n_labels if label else 0, n_between=plan.n_between, n_buckets=plan.n_buckets,
        n_rows=plan.n_rows,
    )  # fmt: skip


def initial_weights(sizes: VectorSizes, seed: int) -> VectorTables:
    """Weights before anything is learned, drawn from the seed."""
    seeds = np.random.SeedSequence([seed, _INITIAL])
    random = np.random.Generator(np.random.PCG64(seeds))

    def draw(shape: tuple[int, ...], deviation: float) -> np.ndarray:
        numbers = random.random(shape, np.float32)
        numbers -= np.float32(0.5)
        numbers *= np.float32(12**0.5 * deviation)
        return numbers

    dense = np.zeros(sizes.n_dense, np.float32)
    _, heads, modifiers, *pairs, labels, _ = sizes.parts(dense)
    for matrix in (heads, modifiers):
        matrix[:] = draw(matrix.shape, (1.0 / max(sizes.hidden, 1)) ** 0.5)
    for numbers, size in zip(pairs, sizes.of_pairs, strict=True):
        numbers[:, :-1] = draw((len(numbers), 3 * size), 0.05)
        numbers[:, :size] *= 4
        numbers[:, :size] += np.float32(0.5)
    labels[:, :-1] = draw((len(labels), 3 * sizes.label), 0.1)
    return VectorTables(draw((sizes.n_rows, sizes.width), 0.05), dense)


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


class NativeVectorEngine:
    """Takes steps by native code on the CPU, the groups of a batch in several threads."""

    def __init__(self, task: VectorTask, weights: VectorTables, threads: int) -> None:
        self._task, self._weights, self._threads = task, weights, threads
        self._moments = VectorTables(*(np.zeros((2, *a.shape), np.float32) for a in weights))
        self._mean = VectorTables(*map(np.zeros_like, weights))
        self._map: Callable[..., Iterable[Any]] = (
            ThreadPoolExecutor(threads).map if threads > 1 else map
        )
        self._plan = native.struct("VectorPlan", task.plan)
        self._sizes = native.struct("VectorSizes", task.sizes)
        self._tables = native.struct("VectorTables", weights)
        self._gold = native.struct("VectorGold", task.gold)
        self._search = make_search(task.decoder, single_root=task.single_root, min_gain=0.0)
        self._dense = np.zeros((MOST_GROUPS, task.sizes.n_dense), np.float32)
        self._nodes = np.zeros((0, task.sizes.width), np.float32)
        self._occurrences = np.zeros(0, np.int64)

    def step(self, mini: Batch, learning: VectorLearning, step: VectorStep) -> int:
        """Learn from some sentences together. Returns words with a wrong head; -1: no tree."""
        ends = np.cumsum(mini.lengths + 1)
        n_nodes, n_templates = int(ends[-1]), len(self._task.plan.rows)
        if len(self._nodes) < n_nodes:
            self._nodes = np.empty((n_nodes, self._task.sizes.width), np.float32)
            self._occurrences = np.empty(n_nodes * n_templates, np.int64)
        n_groups = min(-(-len(mini) // GROUP), MOST_GROUPS)
        cuts = np.searchsorted(ends, n_nodes * np.arange(1, n_groups) / n_groups)
        groups = list(pairwise(np.unique([0, *cuts, len(mini)]).tolist()))
        counts = np.zeros((len(groups), 3))
        learned = native.struct("VectorLearning", learning)

        def find_gradients(index: int) -> int:
            first, last = groups[index]
            nodes = slice(int(ends[first] - mini.lengths[first] - 1), int(ends[last - 1]))
            gradients = VectorGradients(
                self._nodes[nodes],
                self._dense[index],
                self._occurrences[nodes.start * n_templates : nodes.stop * n_templates],
                nodes.start,
            )
            failed: int = native.call(
                "find_vector_gradients", sentences_of(mini.select(slice(first, last))), self._plan,
                self._sizes, self._tables, self._search, learned, self._gold, gradients,
                counts[index],
            )  # fmt: skip
            return failed

        if any(failed >= 0 for failed in list(self._map(find_gradients, range(len(groups))))):
            return -1
        occurrences = np.sort(self._occurrences[: n_nodes * n_templates])
        occurrences = occurrences[np.searchsorted(occurrences, 0) :]
        nodes, dense = self._nodes[:n_nodes], self._dense[: len(groups)]
        scale = 1.0 / (1.0 - learning.dropout)
        wrong, *losses = counts.sum(0).tolist()
        if OPTIMIZERS[step.optimizer] == PASSIVE_AGGRESSIVE:
            of_row, of_dense = self._task.sizes.factor(step.steps % 3)
            for gradients, part in ((nodes, of_row), (dense, of_dense)):
                gradients[:, : part.start] = 0.0
                gradients[:, part.stop :] = 0.0
            squares = native.call("measure_vector_rows", occurrences, nodes, scale)
            squares += float((dense.astype(np.float64).sum(0) ** 2).sum())
            step = step.no_longer_than(sum(losses), squares)
        self._change_weights(step, occurrences, nodes, dense, scale)
        return int(wrong)

    def _change_weights(
        self,
        step: VectorStep,
        occurrences: np.ndarray,
        nodes: np.ndarray,
        dense: np.ndarray,
        scale: float,
    ) -> None:
        """A step against the gradients of a batch, rows of the table divided over the threads."""
        runs = 4 * self._threads if self._threads > 1 and len(occurrences) else 1
        rows = occurrences[len(occurrences) * np.arange(1, runs) // runs] >> 32
        cuts = [0, *np.searchsorted(occurrences, rows << 32).tolist(), len(occurrences)]
        taken = native.struct("VectorStep", step)

        def change_dense() -> None:
            native.call(
                "step_vector_weights", taken, dense, 0, dense.shape[1], self._weights.dense,
                self._moments.dense,
            )  # fmt: skip

        def change_rows(run: tuple[int, int]) -> None:
            native.call(
                "step_vector_rows", taken, occurrences[slice(*run)], nodes, scale,
                self._weights.table, self._moments.table,
            )  # fmt: skip

        tasks = [change_dense, *(partial(change_rows, run) for run in pairwise(cuts))]
        list(self._map(lambda task: task(), tasks))

    def average(self, count: int) -> None:
        """Make the weights of the moment one of `count` whose mean is kept."""
        share = np.float32(1.0 / count)

        def add(block: tuple[np.ndarray, np.ndarray]) -> None:
            mean, weights = block
            mean += (weights - mean) * share

        for mean, weights in zip(self._mean, self._weights, strict=True):
            blocks = range(0, len(mean), 64 if mean.ndim > 1 else 1 << 14)
            size = blocks.step
            list(self._map(add, ((mean[i : i + size], weights[i : i + size]) for i in blocks)))

    def state(self) -> dict[str, np.ndarray]:
        """Weights, moments and means, the arrays themselves."""
        kinds = {"weights": self._weights, "moments": self._moments, "mean": self._mean}
        return {
            f"{part}_{kind}": getattr(arrays, part)
            for kind, arrays in kinds.items()
            for part in VectorTables._fields
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        for name, array in self.state().items():
            array[:] = state[name]
