"""Steps of word vectors by native code: float32 weights, gradients of a loss of trees and labels.

A batch is cut into groups of sentences whose gradients are added in order, and each row of the
table has the gradients of its nodes added in order, so the number of threads changes no bit.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.word_vectors import FURTHER, VectorPlan, VectorTemplates
from gpuparse.native import mapped_in
from gpuparse.scorers.native import make_search, sentences_of
from gpuparse.scorers.vectors.word_vectors import OCCURRENCES

GROUP, MOST_GROUPS = 4, 8  # sentences of a group; most groups of a batch
LOSSES = ("hinge", "conditional")  # by their numbers in native/learn_vectors.h
_INITIAL = 4  # what initial weights are drawn for, beside the orders of stages


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
        """The shapes of the arrays of `VectorWeights` but the table, in order."""
        matrix = (self.hidden, self.columns)
        pairs = [(2 * self.n_buckets if size else 0, 3 * size + 1) for size in self.of_pairs]
        labels = (self.n_labels, 3 * self.label + 1)
        between = (2 * OCCURRENCES * self.n_between, 2 * self.arc + 1)
        return [(self.width,), matrix, matrix, *pairs, labels, between]

    @property
    def of_tables(self) -> list[tuple[int, ...]]:
        """The shapes of the arrays of `VectorTables`."""
        return [(self.n_rows, self.width), (self.n_dense,)]

    @property
    def n_dense(self) -> int:
        """Numbers of all these arrays."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def parts(self, dense: np.ndarray) -> list[np.ndarray]:
        """Views of an array (n_dense,), by `shapes`."""
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

    rate: float
    first_decay: float
    second_decay: float
    steps: int


class VectorGradients(NamedTuple):
    """The struct of native/api/vectors.h."""

    nodes: np.ndarray
    dense: np.ndarray
    occurrences: np.ndarray
    first_node: int


class VectorTask(NamedTuple):
    """The data that word vectors are learned from.

    decoder: of arcs, finds trees under `loss: hinge`, and the sums of `loss: conditional`.
    """

    batch: Batch
    plan: VectorPlan
    sizes: VectorSizes
    gold: VectorGold
    decoder: str
    single_root: bool


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


class VectorEngine:
    """Takes steps, the groups of a batch in several threads."""

    def __init__(self, task: VectorTask, weights: VectorTables, threads: int) -> None:
        self._task, self._weights, self._threads = task, weights, threads
        self._moments = VectorTables(*(np.zeros((2, *a.shape), np.float32) for a in weights))
        self._mean = VectorTables(*map(np.zeros_like, weights))
        self._map: Callable[..., Iterable[Any]] = (
            partial(mapped_in, ThreadPoolExecutor(threads)) if threads > 1 else map
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
        self._change_weights(step, occurrences, nodes, dense, scale)
        return int(counts[:, 0].sum())

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
