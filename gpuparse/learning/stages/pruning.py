"""The pruning stage: a first-order parser, and the candidate arcs it keeps of unseen trees.

A parser is more confident about trees that it has learned from. The candidate arcs of a training
sentence are therefore those kept by a parser that has not seen the sentence: one parser for each
fold, learned from all other folds. The scale of its scores is fitted to the same fold. The pruner
that the model keeps is learned from all sentences.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import Protocol

import numpy as np

from gpuparse.data.batch import Batch, incomplete
from gpuparse.errors import ConfigError, ModelError, plural
from gpuparse.features.plan import Plan
from gpuparse.learning.events import Progress
from gpuparse.learning.states import Shape
from gpuparse.parser import Parser, are_scales
from gpuparse.scorers.linear.pruning import Arcs, Pruner, all_cells, prune
from gpuparse.scorers.linear.weights import RowMap, Weights

NO_KNOWN_HEADS = np.zeros(0, np.int64)


class Thresholds(Protocol):
    """Which arcs are kept, and how the pruner is learned: the section `pruning` of the config."""

    @property
    def threshold(self) -> float: ...
    @property
    def max_heads(self) -> int | None: ...
    @property
    def epochs(self) -> int: ...
    @property
    def folds(self) -> int: ...


class FirstOrder(Protocol):
    """Learns first-order parsers from parts of the training treebank."""

    def learn(self, is_learned: np.ndarray) -> Generator[Progress, None, Parser]:
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


class PrunersSoFar:
    """How far learning of the pruner has come: all that it goes on from after any of its parsers.

    Args: batch: the training sentences.
    Attributes:
        arcs: the candidate arcs of the folds that are done; of others, all arcs.
        completing: the arcs that complete partial trees.
        ratios: of the folds that are done, by how much calibration changed the scale.
        result: the result, when the last parser is learned.
    """

    def __init__(self, batch: Batch) -> None:
        self.arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
        self.completing = Arcs(self.arcs.firsts, np.zeros_like(self.arcs.cells))
        self.ratios: list[float] = []
        self.result: Pruned | None = None

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which `restore` makes it again; none before the first parser is learned."""
        if self.result is not None:
            return as_state(self.result)
        if not self.ratios:
            return {}
        return {
            "pruning_arcs": np.packbits(self.arcs.cells),
            "pruning_completing": np.packbits(self.completing.cells),
            "pruning_ratios": np.array(self.ratios),
        }

    def restore(self, state: Mapping[str, np.ndarray], folds: int) -> None:
        """Go on from arrays of `state` whose shapes are those of `pruning_shapes`.

        Raises: ModelError: a ratio of scales that cannot be.
        """
        ratios = state["pruning_ratios"].tolist()
        if not 0 < len(ratios) <= folds or not all(map(are_scales, ratios)):
            raise ModelError("its candidate arcs are of another run")
        self.ratios = ratios
        for name, arcs in (("pruning_arcs", self.arcs), ("pruning_completing", self.completing)):
            arcs.cells[:] = np.unpackbits(state[name], count=len(arcs.cells))


def check_folds(n_sentences: int, folds: int) -> None:
    """Check that there is a sentence for every fold.

    Raises: ConfigError: there is not.
    """
    if folds > n_sentences:
        raise ConfigError(
            f"pruning.folds is {folds}, and the treebank has {plural(n_sentences, 'sentence')}:"
            " choose fewer folds, or pruning.max_heads=null"
        )


def learn_pruning(
    batch: Batch,
    plan: Plan,
    rows: RowMap,
    gold: np.ndarray,
    thresholds: Thresholds,
    decoder: str,
    first_order: FirstOrder,
    so_far: PrunersSoFar,
    *,
    single_root: bool,
) -> Iterator[Progress]:
    """Learn the pruner and find the candidate arcs of the training sentences.

    The event that ends a parser comes when `so_far` has all that was learned from it.

    Args:
        batch: the sentences; plan, rows: of the higher-order model, as in `prune`.
        gold: (T,) heads by token index that stay candidates, -1 for none.
        decoder: of the first order.
        first_order: what learns the parsers.
        so_far: what is done, at first nothing, and where the result is put.
    """
    assert thresholds.max_heads is not None
    n, is_open, folds = len(batch), incomplete(batch, gold), thresholds.folds
    cuts = [k * n // folds for k in range(folds + 1)]
    arcs, completing, ratios = so_far.arcs, so_far.completing, so_far.ratios
    for number, (low, high) in list(enumerate([*pairwise(cuts), (0, 0)]))[len(ratios) :]:
        is_learned = np.ones(n, np.bool_)
        is_learned[low:high] = False
        events = first_order.learn(is_learned)
        model, last = yield from _as_pruning(events, number, thresholds.epochs)
        if high > low:
            fitted = first_order.calibrated(model, is_learned)
            ratio, model = fitted.scales.arc / model.scales.arc, fitted
        else:
            scale = model.scales.arc * exp(sum(map(log, ratios)) / len(ratios))
            model = model.with_scales(scale, 1.0)
        pruner = Pruner(
            model.linear.arcs, decoder, model.scales.arc, thresholds.threshold, thresholds.max_heads
        )
        if high > low:
            for known, some, kept in (
                (NO_KNOWN_HEADS, np.ones(high - low, np.bool_), arcs),
                (gold, is_open[low:high], completing),
            ):
                if some.any():
                    part = batch.select(low + np.flatnonzero(some))
                    prune(part, plan, rows, pruner, known, kept, single_root=single_root)
            ratios.append(ratio)
        else:
            so_far.result = _pruned(batch, gold, pruner, arcs, completing)
        yield last


def known_pruning(
    batch: Batch, plan: Plan, rows: RowMap, gold: np.ndarray, pruner: Pruner, *, single_root: bool
) -> Pruned:
    """The candidate arcs of training sentences that a pruner has not been learned from.

    Args: as `learn_pruning`.
    """
    arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
    completing = Arcs(arcs.firsts, np.zeros_like(arcs.cells))
    is_open = incomplete(batch, gold)
    prune(batch, plan, rows, pruner, NO_KNOWN_HEADS, arcs, single_root=single_root)
    if is_open.any():
        part = batch.select(np.flatnonzero(is_open))
        prune(part, plan, rows, pruner, gold, completing, single_root=single_root)
    return _pruned(batch, gold, pruner, arcs, completing)


def _pruned(batch: Batch, gold: np.ndarray, pruner: Pruner, arcs: Arcs, completing: Arcs) -> Pruned:
    """The arcs that were kept, counted, with the gold ones and those that complete trees."""
    n_kept = int(arcs.cells.sum())
    lost, n_gold = _keep_gold(batch, gold, arcs)
    arcs.cells[completing.cells] = True
    return Pruned(pruner, arcs.cells, lost, n_gold, n_kept, int(batch.lengths.sum()))


def _as_pruning(
    events: Generator[Progress, None, Parser], number: int, epochs: int
) -> Generator[Progress, None, tuple[Parser, Progress]]:
    """The events of one first-order parser as those of one epoch of the pruning stage.

    Returns: the parser, and its last event.
    """
    while True:
        try:
            event = next(events).as_part_of("pruning", number, epochs)
        except StopIteration as end:
            return end.value, event
        if not event.epoch_is_over:
            yield event


def as_state(pruned: Pruned) -> dict[str, np.ndarray]:
    """Arrays from which `from_state` makes it again."""
    pruner = pruned.pruner
    counts = [pruned.lost, pruned.known, pruned.arcs, pruned.words, len(pruned.cells)]
    return {
        "pruner": pruner.weights.array,
        "pruner_unit": np.array([pruner.scale]),
        "pruned_cells": np.packbits(pruned.cells),
        "pruned_counts": np.array(counts, np.int64),
    }


def pruning_shapes(batch: Batch, n_rows: int, state: Mapping[str, np.ndarray]) -> dict[str, Shape]:
    """The types and shapes of what `PrunersSoFar.state` makes.

    Args: batch: the training sentences. n_rows: weights of the pruner. state: says how far it is.
    """
    n_cells = int(((batch.lengths + 1) ** 2).sum())
    if "pruner" not in state:
        ratios = state.get("pruning_ratios")
        if ratios is None:
            return {}
        bits = Shape(np.uint8, (-(-n_cells // 8),))
        return {
            "pruning_arcs": bits,
            "pruning_completing": bits,
            "pruning_ratios": Shape(np.float64, (ratios.size,)),
        }
    return {
        "pruner": Shape(np.int16, (n_rows, 1)),
        "pruner_unit": Shape(np.float64, (1,)),
        "pruned_cells": Shape(np.uint8, (-(-n_cells // 8),)),
        "pruned_counts": Shape(np.int64, (5,)),
    }


def from_state(
    state: dict[str, np.ndarray], thresholds: Thresholds, decoder: str, batch: Batch,
    gold: np.ndarray,
) -> Pruned:  # fmt: skip
    """What `as_state` was given.

    Args:
        state: arrays with the types and shapes of `pruning_shapes`.
        decoder: of the pruner; batch, gold: as `learn_pruning`.
    Raises: ModelError: it was another run's.
    """
    assert thresholds.max_heads is not None
    *counts, n_cells = state["pruned_counts"].tolist()
    scale = float(state["pruner_unit"][0])
    arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
    if n_cells != len(arcs.cells) or min(counts) < 0 or not are_scales(scale):
        raise ModelError("its candidate arcs are of another run")
    arcs.cells[:] = np.unpackbits(state["pruned_cells"], count=n_cells)
    cells = arcs.cells.copy()
    if _keep_gold(batch, gold, arcs)[0]:
        raise ModelError("its candidate arcs are of another run: gold arcs are not among them")
    weights = Weights(state["pruner"])
    pruner = Pruner(weights, decoder, scale, thresholds.threshold, thresholds.max_heads)
    return Pruned(pruner, cells, *counts)


def _keep_gold(batch: Batch, gold: np.ndarray, arcs: Arcs) -> tuple[int, int]:
    """Make the gold arcs candidates; returns how many were not, and how many there are."""
    lost = words = 0
    for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        modifiers = np.flatnonzero(gold[start + 1 : start + n + 1] >= 0) + 1
        at = arcs.firsts[start] + gold[start + modifiers] * (n + 1) + modifiers
        words += len(at)
        lost += int((~arcs.cells[at]).sum())
        arcs.cells[at] = True
    return lost, words
