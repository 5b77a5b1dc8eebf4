"""The arc stage: the weights of arcs, other parts and joint labels, learned sentence by sentence.

Two engines do the work: native code on the CPU, and torch on any device.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from gpuparse import native
from gpuparse.config import RunConfig
from gpuparse.data.batch import Batch, incomplete
from gpuparse.errors import NoTreeError, plural
from gpuparse.features.plan import Plan
from gpuparse.learning.averaged import AveragedWeights
from gpuparse.learning.events import EpochCounts
from gpuparse.learning.gold import GoldGraphs, GoldTrees
from gpuparse.learning.mira import update_rule
from gpuparse.learning.stages.stage import TableStage
from gpuparse.native import mapped_in
from gpuparse.scorers.linear.pruning import KeptArcs
from gpuparse.scorers.linear.weights import FeatureMap, JointLabels, Weights
from gpuparse.scorers.native import make_scorer, make_search, sentences_of

SLICE = 256  # sentences between two events


@dataclass(eq=False)
class ArcModel:
    """The model that finds trees during learning.

    labels: the weights of labels that are found with the trees, and `joint`, which scores with
    these very weights; None where labels are learned later.
    candidates: the arcs that higher-order parts are searched over; None: all.
    """

    plan: Plan
    features: FeatureMap
    weights: AveragedWeights
    joint: JointLabels | None = None
    labels: AveragedWeights | None = None
    candidates: KeptArcs | None = None

    def scorer(self, *, with_labels: bool) -> native.Struct:
        """The scorer of native code; it sees all changes of the weights."""
        joint = self.joint if with_labels else None
        return make_scorer(self.plan, self.weights.weights, self.features.rows, joint)

    def allowed(self) -> native.Struct | None:
        """The candidate arcs for native code."""
        return native.struct("ArcCells", self.candidates) if self.candidates else None


class EpochLearner(Protocol):
    """Learns one epoch."""

    def learn(self, part: Batch, seen: int) -> int:
        """Learn from sentences in their order; `seen` came before. Returns wrong words."""

    def finish(self) -> None:
        """Bring the weights back to the model, if they were elsewhere."""


class ArcStage(TableStage):
    """Learns the table `weights` of arcs and other parts, and `labels` where there are joint ones.

    Args:
        gold: what is learned from.
        tables: of zeros.
        joint_labels: of their weights, where labels are found with the trees; None: they are not.
        labels: (T,) gold labels by token index, for these.
        candidates: the arcs that are searched over once the stages before are learned; None: all.
        threads: that predict the sentences of a batch. device: where torch learns.
    Source: McDonald, Crammer & Pereira (2005), figure 3; McDonald & Pereira (2006), figure 6.
    """

    name = "arcs"
    drawn_for = 0

    def __init__(
        self,
        plan: Plan,
        features: FeatureMap,
        gold: GoldTrees,
        config: RunConfig,
        tables: dict[str, np.ndarray],
        *,
        epochs: int,
        joint_labels: Callable[[Weights], JointLabels] | None,
        labels: np.ndarray | None,
        candidates: Callable[[], KeptArcs | None],
        threads: int,
        device: str,
    ) -> None:
        super().__init__(epochs, tables, len(gold.batch), config)
        self._plan, self._features, self._gold, self._config = plan, features, gold, config
        self._candidates, self._threads, self._device = candidates, threads, device
        self._joint = joint_labels and joint_labels(self.tables["labels"].weights)
        self._labels = labels if joint_labels else None

    @property
    def has_labels(self) -> bool:
        """True if labels are found with the trees."""
        return self._joint is not None

    def _model(self) -> ArcModel:
        return ArcModel(
            self._plan, self._features, self.tables["weights"], self._joint,
            self.tables.get("labels"), self._candidates(),
        )  # fmt: skip

    def _engine(self) -> EpochLearner:
        """The engine that learns an epoch."""
        if self._config.engine == "torch":
            return TorchEngine(self._model(), self._gold, self._config, self._device)
        return NativeEngine(self._model(), self._gold, self._labels, self._config, self._threads)

    def learn(self, order: np.ndarray, seen: int) -> Iterator[EpochCounts]:
        """Learn from sentences in their order; `seen` came before.

        Raises: NoTreeError: the scores are not finite.
        """
        engine, ordered = self._engine(), self._gold.batch.select(order)
        words, wrong, done = 0, 0, 0
        size = self._config.learning.batch_size
        step = max(SLICE // size, 1) * size
        for first in range(0, len(order), step):
            part = ordered.select(np.arange(first, min(first + step, len(order))))
            wrong += engine.learn(part, seen + first)
            words += int(part.lengths.sum())
            done += len(part)
            if done == len(order):
                engine.finish()
            yield EpochCounts(done, len(order), wrong, words)

    def complete_heads(self) -> np.ndarray:
        """(T,) gold heads, completed by the best tree that has all known ones.

        Raises: NoTreeError: the scores are not finite.
        """
        gold, config, model = self._gold, self._config, self._model()
        partial = np.flatnonzero(incomplete(gold.batch, gold.heads))
        heads = gold.heads.copy()
        if len(partial) == 0:
            return heads
        search = make_search(config.decoder, single_root=gold.single_root, min_gain=config.min_gain)
        sentences = sentences_of(gold.batch.select(partial), gold.arc_heads)
        scorer = model.scorer(with_labels=False)
        no_labels, no_marks = np.zeros(0, np.int64), np.zeros((2, 0), np.int64)
        failed = native.call(
            "parse_batch", sentences, scorer, search, model.allowed(), heads, no_labels, no_marks
        )
        _require_tree(failed)
        return heads


class NativeEngine:
    """Learns one epoch by native code on the CPU.

    Args:
        gold: what is learned from; labels: (T,) gold labels by token index, where the labels are
            found with the trees.
        threads: threads that predict the sentences of a batch.
    """

    def __init__(
        self,
        model: ArcModel,
        gold: GoldTrees,
        labels: np.ndarray | None,
        config: RunConfig,
        threads: int,
    ) -> None:
        self._size, self._threads = config.learning.batch_size, threads
        self._pool = ThreadPoolExecutor(threads)
        self._rule = native.struct("UpdateRule", update_rule(config))
        self._search = make_search(
            config.decoder, single_root=gold.single_root, min_gain=config.min_gain
        )
        self._scorer = model.scorer(with_labels=True)
        self._tables = native.struct("LearnedTables", _learned_tables(model))
        self._allowed = model.allowed()
        self._trees = self._graphs = None
        if gold.graphs:
            self._graphs = native.struct("GoldGraphs", _graphs_to_find(gold.graphs))
        else:
            self._trees = native.struct("GoldTrees", _trees_to_find(gold, labels, config))

    def learn(self, part: Batch, seen: int) -> int:
        """Learn from sentences in their order; `seen` came before. Returns wrong words."""
        if self._size == 1:
            return self._update(part, seen, is_predicted=False)
        wrong = 0
        for first in range(0, len(part), self._size):
            mini = part.select(np.arange(first, min(first + self._size, len(part))))
            self._predict(mini, seen + first)
            wrong += self._update(mini, seen + first, is_predicted=True)
        return wrong

    def finish(self) -> None:
        """Nothing: the weights of the model themselves have been changed."""

    def _predict(self, mini: Batch, seen: int) -> None:
        """Find the trees of a batch, all with the same weights, one run of it in each thread."""
        work = np.cumsum((mini.lengths + 1) ** 2)
        shares = work[-1] * np.arange(1, self._threads) / self._threads
        cuts = np.searchsorted(work, shares).tolist()

        def predict(run: tuple[int, int]) -> int:
            sentences = sentences_of(mini.select(np.arange(*run)))
            failed: int = native.call(
                "predict_batch", sentences, self._scorer, self._search, self._rule, self._trees,
                self._graphs, self._allowed,
            )  # fmt: skip
            return failed

        for failed in mapped_in(self._pool, predict, pairwise([0, *cuts, len(mini)])):
            _require_tree(failed, seen)

    def _update(self, part: Batch, seen: int, *, is_predicted: bool) -> int:
        wrong = np.zeros(1)
        failed = native.call(
            "learn_batch", sentences_of(part), self._scorer, self._search, self._rule,
            self._trees, self._graphs, self._allowed, self._tables, seen, is_predicted, wrong,
        )  # fmt: skip
        _require_tree(failed, seen if is_predicted else seen + failed)
        return int(wrong[0])


def _require_tree(failed: int, seen: int = 0) -> None:
    """Raise NoTreeError for a sentence that was found to have no tree, -1 for none.

    Args: seen: number of sentences that were learned from before.
    """
    if failed >= 0:
        raise NoTreeError(
            f"a training sentence has no tree: its scores are not finite, after"
            f" {plural(seen, 'sentence')} of learning; choose a smaller learning.max_step"
        )


class _TreesToFind(NamedTuple):
    """The struct GoldTrees of native/api/learning.h."""

    gold: np.ndarray
    found: np.ndarray
    gold_labels: np.ndarray | None
    found_labels: np.ndarray | None
    target: np.ndarray
    target_labels: np.ndarray | None
    is_partial: bool


class _GraphsToFind(NamedTuple):
    """The struct GoldGraphs of native/api/learning.h."""

    gold: np.ndarray
    found: np.ndarray
    firsts: np.ndarray


class _LearnedTables(NamedTuple):
    """The struct LearnedTables of native/api/learning.h."""

    weights: np.ndarray
    sums: np.ndarray
    label_weights: np.ndarray | None
    label_sums: np.ndarray | None


def _trees_to_find(gold: GoldTrees, labels: np.ndarray | None, config: RunConfig) -> _TreesToFind:
    heads, is_partial = gold.arc_heads, gold.is_partial
    found = np.full((config.learning.k, len(heads)), -1, np.int64)
    target = heads.copy() if is_partial else heads
    if labels is None:
        return _TreesToFind(heads, found, None, None, target, None, is_partial)
    target_labels = labels.copy() if is_partial else labels
    return _TreesToFind(
        heads, found, labels, np.full_like(found, -1), target, target_labels, is_partial
    )


def _graphs_to_find(graphs: GoldGraphs) -> _GraphsToFind:
    return _GraphsToFind(graphs.cells, np.zeros_like(graphs.cells), graphs.firsts)


def _learned_tables(model: ArcModel) -> _LearnedTables:
    if model.labels is None:
        return _LearnedTables(*model.weights.arrays, None, None)
    return _LearnedTables(*model.weights.arrays, *model.labels.arrays)


class TorchEngine:
    """Learns one epoch in torch, on any device."""

    def __init__(self, model: ArcModel, gold: GoldTrees, config: RunConfig, device: str) -> None:
        self._size = config.learning.batch_size
        from gpuparse.learning.on_device import DeviceLearner  # native code needs no torch

        self._learner = DeviceLearner(
            gold.batch, gold.arc_heads, model.plan, model.features, model.weights,
            config=config, single_root=gold.single_root, device=device,
        )  # fmt: skip

    def learn(self, part: Batch, seen: int) -> int:
        """Learn from sentences in their order; `seen` came before. Returns wrong words."""
        numbers = np.arange(len(part))
        return sum(
            self._learner.learn(part.select(numbers[first : first + self._size]), seen + first)
            for first in range(0, len(part), self._size)
        )

    def finish(self) -> None:
        """Bring the weights back to the model."""
        self._learner.finish()
