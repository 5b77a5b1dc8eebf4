"""The pruning stage: a first-order parser, and the candidate arcs it keeps of unseen trees.

A parser is more confident about trees that it has learned from. The candidate arcs of a training
sentence are therefore those kept by a parser that has not seen the sentence: one parser for each
fold, learned from all other folds. The scale of its scores is fitted to the same fold. The pruner
that the model keeps is learned from all sentences.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Protocol

import numpy as np

from gpuparse.config.schema import PruningConfig
from gpuparse.data.batch import Batch, incomplete
from gpuparse.errors import ConfigError, ModelError, plural
from gpuparse.features.plan import LINE, Plan
from gpuparse.learning.events import EpochCounts, LearningEvent
from gpuparse.learning.stages.stage import Shape, Stage
from gpuparse.model.parser import Parser, are_scales
from gpuparse.scorers.linear.pruning import KeptArcs, Pruner, all_cells, prune
from gpuparse.scorers.linear.weights import RowMap, Weights

EPOCHS, FOLDS = 5, 4  # of a pruner; parsers that prune the training sentences
NO_KNOWN_HEADS = np.zeros(0, np.int64)


class FirstOrder(Protocol):
    """Learns first-order parsers from parts of the training treebank."""

    def learn(self, is_learned: np.ndarray) -> Generator[LearningEvent, None, Parser]:
        """Learn from the sentences (S,) for which `is_learned`; returns the parser."""

    def calibrated(self, model: Parser, is_learned: np.ndarray) -> Parser:
        """The model with the scale of its scores fitted to the other sentences."""


@dataclass(frozen=True, eq=False)
class Pruned:
    """A pruner, and the training arcs kept by pruners that had not seen them.

    cells: the candidate arcs. All gold arcs are among them, and where gold lacks heads, the arcs of
    a tree with all known heads.
    lost: gold arcs that the pruners did not keep, of `known` ones; arcs: how many they kept for all
    `words`.
    """

    pruner: Pruner
    cells: np.ndarray
    lost: int
    known: int
    arcs: int
    words: int


class PruningStage(Stage):
    """Learns the pruner and finds the candidate arcs of the training sentences.

    Its epochs are parsers: one of each fold, and that of all sentences, which the model keeps.

    Args:
        batch: the sentences; plan, rows: of the higher-order model, as in `prune`.
        gold: (T,) heads by token index that stay candidates, -1 for none.
        decoder: of the first order.
        first_order: what learns the parsers.
    Attributes:
        arcs: the candidate arcs of the folds that are done; of others, all arcs.
        completing: the arcs that complete partial trees.
        ratios: of the folds that are done, by how much calibration changed the scale.
        result: the result, when the last parser is learned.
    Raises: ConfigError: fewer sentences than folds.
    """

    name = "pruning"
    drawn_for = 2  # nothing: each parser draws the orders of its own stages
    unit = "parser"
    is_scored = False

    def __init__(
        self,
        batch: Batch,
        plan: Plan,
        rows: RowMap,
        gold: np.ndarray,
        thresholds: PruningConfig,
        decoder: str,
        first_order: FirstOrder,
        *,
        single_root: bool,
    ) -> None:
        super().__init__(FOLDS + 1)
        if len(batch) < FOLDS:
            raise ConfigError(
                f"pruning.max_heads: a pruner needs {FOLDS} sentences or more, and the treebank"
                f" has {plural(len(batch), 'sentence')}: give pruning.max_heads=null"
            )
        self._batch, self._plan, self._rows, self._gold = batch, plan, rows, gold
        self._thresholds, self._decoder, self._first_order = thresholds, decoder, first_order
        self._single_root = single_root
        self._begin()

    def _begin(self) -> None:
        batch = self._batch
        self.arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
        self.completing = KeptArcs(self.arcs.firsts, np.zeros_like(self.arcs.cells))
        self.ratios: list[float] = []
        self.result: Pruned | None = None

    @property
    def candidates(self) -> KeptArcs | None:
        """The candidate arcs, when all is learned."""
        return KeptArcs(self.arcs.firsts, self.result.cells) if self.result else None

    @property
    def summary(self) -> str | None:
        """The numbers of arcs left and of gold arcs lost, in words."""
        pruned = self.result
        if pruned is None:
            return None
        lost = 100 * pruned.lost / max(1, pruned.known)
        heads = pruned.arcs / max(1, pruned.words)
        return (
            f"pruning: {heads:.1f} candidate heads per word; {lost:.2f}% of the gold heads are not"
            " candidates (in trees that the pruning parser has not seen)"
        )

    def learn(self, order: np.ndarray, seen: int) -> Iterator[EpochCounts]:
        """Learn the next parser, in any order.

        The last counts come when all that was learned from the parser is kept.
        """
        n = len(self._batch)
        low, high = (fold * n // FOLDS for fold in (self.done, self.done + 1))
        if self.done == FOLDS:
            low = high = 0
        is_learned = np.ones(n, np.bool_)
        is_learned[low:high] = False
        model, last = yield from _as_one_epoch(self._first_order.learn(is_learned))
        if high > low:
            fitted = self._first_order.calibrated(model, is_learned)
            self._prune(low, high, self._pruner(fitted))
            self.ratios.append(fitted.scales.arc / model.scales.arc)
        else:
            scale = model.scales.arc * exp(sum(map(log, self.ratios)) / len(self.ratios))
            self._finish(self._pruner(model.with_scales(scale, 1.0)))
        yield last

    def _pruner(self, model: Parser) -> Pruner:
        threshold, max_heads = self._thresholds.threshold, self._thresholds.max_heads
        assert max_heads is not None
        return Pruner(model.linear.arcs, self._decoder, model.scales.arc, threshold, max_heads)

    def _prune(self, first: int, last: int, pruner: Pruner) -> None:
        """Prune the arcs of sentences first : last, and find those that complete partial trees."""
        is_open = incomplete(self._batch, self._gold)[first:last]
        for known, sentences, kept in (
            (NO_KNOWN_HEADS, np.arange(first, last), self.arcs),
            (self._gold, first + np.flatnonzero(is_open), self.completing),
        ):
            if len(sentences):
                part = self._batch.select(sentences)
                prune(
                    part, self._plan, self._rows, pruner, known, kept,
                    single_root=self._single_root,
                )  # fmt: skip

    def _finish(self, pruner: Pruner) -> None:
        """Count the arcs that are left; add the gold ones and those that complete trees."""
        n_kept = int(self.arcs.cells.sum())
        lost, n_gold = _keep_gold(self._batch, self._gold, self.arcs)
        self.arcs.cells[self.completing.cells] = True
        n_words = int(self._batch.lengths.sum())
        self.result = Pruned(pruner, self.arcs.cells, lost, n_gold, n_kept, n_words)

    def averages(self) -> list[np.ndarray]:
        """None: models have the last parser."""
        return []

    def average_sizes(self, done: int) -> list[tuple[int, ...]]:
        """None."""
        return []

    def state(self) -> dict[str, np.ndarray]:
        """As `Stage.state`; nothing before the first parser is learned."""
        if self.result is not None:
            return as_state(self.result)
        if not self.ratios:
            return {}
        return {
            "arcs": np.packbits(self.arcs.cells),
            "completing": np.packbits(self.completing.cells),
            "ratios": np.array(self.ratios),
        }

    def shapes(self, done: int, state: Mapping[str, np.ndarray]) -> dict[str, Shape]:
        """As `Stage.shapes`."""
        cells = Shape(np.uint8, (-(-len(self.arcs.cells) // 8),))
        if done < self.epochs:
            if not done:
                return {}
            return {"arcs": cells, "completing": cells, "ratios": Shape(np.float64, (done,))}
        n_rows = self._rows.rows + self._plan.arcs.dense_lines * LINE
        return {
            "weights": Shape(np.int16, (n_rows, 1)),
            "scale": Shape(np.float64, (1,)),
            "cells": cells,
            "counts": Shape(np.int64, (5,)),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state.

        Raises: ModelError: it was another run's.
        """
        self._begin()
        if "weights" in state:
            self.result = from_state(
                state, self._thresholds, self._decoder, self._batch, self._gold
            )
        elif "ratios" in state:
            ratios = state["ratios"].tolist()
            if not all(map(are_scales, ratios)):
                raise ModelError("its candidate arcs are of another run")
            self.ratios = ratios
            for name, arcs in (("arcs", self.arcs), ("completing", self.completing)):
                arcs.cells[:] = np.unpackbits(state[name], count=len(arcs.cells))


def _as_one_epoch(
    events: Generator[LearningEvent, None, Parser],
) -> Generator[EpochCounts, None, tuple[Parser, EpochCounts]]:
    """The epochs of one first-order parser as one epoch of the pruning stage.

    Returns: the parser, and the last counts.
    """
    counts = EpochCounts(0, 0, 0, 0)
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            return end.value, counts
        before = (event.epoch - 1) * event.total
        counts = EpochCounts(before + event.done, EPOCHS * event.total, event.wrong, event.words)
        if counts.done < counts.total:
            yield counts


def as_state(pruned: Pruned) -> dict[str, np.ndarray]:
    """Arrays from which `from_state` makes it again."""
    pruner = pruned.pruner
    counts = [pruned.lost, pruned.known, pruned.arcs, pruned.words, len(pruned.cells)]
    return {
        "weights": pruner.weights.array,
        "scale": np.array([pruner.scale]),
        "cells": np.packbits(pruned.cells),
        "counts": np.array(counts, np.int64),
    }


def from_state(
    state: Mapping[str, np.ndarray], thresholds: PruningConfig, decoder: str, batch: Batch,
    gold: np.ndarray,
) -> Pruned:  # fmt: skip
    """The pruned arcs that `as_state` was given.

    Args:
        state: arrays with the types and shapes of `PruningStage.shapes`.
        decoder: of the pruner; batch, gold: as in `PruningStage`.
    Raises: ModelError: it was another run's.
    """
    assert thresholds.max_heads is not None
    *counts, n_cells = state["counts"].tolist()
    scale = float(state["scale"][0])
    arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
    if n_cells != len(arcs.cells) or min(counts) < 0 or not are_scales(scale):
        raise ModelError("its candidate arcs are of another run")
    arcs.cells[:] = np.unpackbits(state["cells"], count=n_cells)
    cells = arcs.cells.copy()
    if _keep_gold(batch, gold, arcs)[0]:
        raise ModelError("its candidate arcs are of another run: gold arcs are not among them")
    weights = Weights(state["weights"])
    pruner = Pruner(weights, decoder, scale, thresholds.threshold, thresholds.max_heads)
    return Pruned(pruner, cells, *counts)


def _keep_gold(batch: Batch, gold: np.ndarray, arcs: KeptArcs) -> tuple[int, int]:
    """Make the gold arcs candidates; returns how many were not, and how many there are."""
    lost = words = 0
    for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        modifiers = np.flatnonzero(gold[start + 1 : start + n + 1] >= 0) + 1
        at = arcs.firsts[start] + gold[start + modifiers] * (n + 1) + modifiers
        words += len(at)
        lost += int((~arcs.cells[at]).sum())
        arcs.cells[at] = True
    return lost, words
