"""Learning what to prune: a parser of the first order, and the arcs it leaves of trees unseen.

A parser is surer of trees that it has learned from than of any others. So the arcs of the training
sentences that a larger model learns from are those left by parsers that have not seen these
sentences: one for each fold, learned from all others. How much a point of score is worth is fitted
to the same sentences. The pruner that the model keeps is learned from all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from gpuparse.data.batch import Batch, incomplete
from gpuparse.errors import ConfigError
from gpuparse.features.plan import Plan
from gpuparse.parser import Parser
from gpuparse.scoring.cpu import RowMap
from gpuparse.scoring.pruning import Arcs, Pruner, all_cells, prune
from gpuparse.scoring.weights import Weights

if TYPE_CHECKING:
    from gpuparse.learning.trainer import Progress, Trainer

NOTHING_KNOWN = np.zeros(0, np.int64)


@dataclass(frozen=True)
class PruningOptions:
    """How to prune; every field is a key of the config's section `pruning`."""

    threshold: float
    max_heads: int
    epochs: int
    folds: int


@dataclass(frozen=True, eq=False)
class Pruned:
    """A pruner, and what pruners that had not seen them left of the training sentences.

    lost: gold arcs that were not left, of `known` ones; arcs: how many were left to all `words`. In
    the cells, the gold arcs stand all the same, and where gold is open, those of a tree that has
    them.
    """

    pruner: Pruner
    cells: np.ndarray
    lost: int
    known: int
    arcs: int
    words: int


def check_folds(n_sentences: int, folds: int) -> None:
    """Make sure that there is a sentence for every fold.

    Raises:
        ConfigError: there is not.
    """
    if folds > n_sentences:
        raise ConfigError(
            f"pruning.folds is {folds}, and there are {n_sentences} sentences to learn from: choose"
            " fewer folds, or pruning.max_heads=null"
        )


def learn_pruning(
    batch: Batch,
    plan: Plan,
    rows: RowMap,
    gold: np.ndarray,
    options: PruningOptions,
    decoder: str,
    make: Callable[[np.ndarray], tuple[Trainer, Callable[[Parser], Parser]]],
    keep: Callable[[Pruned], None],
) -> Iterator[Progress]:
    """Learn a pruner and prune the training sentences; say now and then how far it is.

    Args:
        batch: the sentences to prune; plan, rows: of the larger model, as of `prune`.
        gold: (T,) heads by place that are to stay, -1 for none.
        decoder: of the first order.
        make: from the (S,) bool of the sentences to learn from, a trainer of the first order, and
            what fits a model's units to the other sentences.
        keep: is given what was found.
    """
    n, is_open = len(batch), incomplete(batch, gold)
    cuts = [k * n // options.folds for k in range(options.folds + 1)]
    arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
    completing = Arcs(arcs.firsts, np.zeros_like(arcs.cells))
    ratios: list[float] = []
    for number, (low, high) in enumerate([*pairwise(cuts), (0, 0)]):
        learned = np.ones(n, np.bool_)
        learned[low:high] = False
        trainer, fit = make(learned)
        for event in trainer.learn():
            yield event.of_stage("pruning", number, options.epochs)
        model = trainer.model(16)
        if high > low:
            fitted = fit(model)
            ratios.append(fitted.arc_scale / model.arc_scale)
            model = fitted
        else:
            unit = model.arc_scale * exp(sum(map(log, ratios)) / len(ratios))
            model = model.with_scales(unit, 1.0)
        pruner = Pruner(model.arcs, decoder, model.arc_scale, options.threshold, options.max_heads)
        if high > low:
            single_root = bool(trainer.single_root)
            for known, some, left in (
                (NOTHING_KNOWN, np.ones(high - low, np.bool_), arcs),
                (gold, is_open[low:high], completing),
            ):
                if some.any():
                    part = batch.select(low + np.flatnonzero(some))
                    prune(part, plan, rows, pruner, known, left, single_root=single_root)
    n_left = int(arcs.cells.sum())
    lost, n_gold = _keep_gold(batch, gold, arcs)
    arcs.cells[completing.cells] = True
    keep(Pruned(pruner, arcs.cells, lost, n_gold, n_left, int(batch.lengths.sum())))


def as_state(pruned: Pruned) -> dict[str, np.ndarray]:
    """What `from_state` needs to have it again."""
    pruner = pruned.pruner
    counts = [pruned.lost, pruned.known, pruned.arcs, pruned.words, len(pruned.cells)]
    return {
        "pruner": pruner.weights.array,
        "pruner_unit": np.array([pruner.scale]),
        "pruned_cells": np.packbits(pruned.cells),
        "pruned_counts": np.array(counts, np.int64),
    }


def from_state(state: dict[str, np.ndarray], options: PruningOptions, decoder: str) -> Pruned:
    """What `as_state` was given, with the decoder of the pruner."""
    *counts, n_cells = state["pruned_counts"].tolist()
    unit = float(state["pruner_unit"][0])
    pruner = Pruner(Weights(state["pruner"]), decoder, unit, options.threshold, options.max_heads)
    cells = np.unpackbits(state["pruned_cells"], count=n_cells).astype(np.bool_)
    return Pruned(pruner, cells, *counts)


def _keep_gold(batch: Batch, gold: np.ndarray, arcs: Arcs) -> tuple[int, int]:
    """Put the gold arcs among those left; how many were not, of how many."""
    lost = words = 0
    for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        modifiers = np.flatnonzero(gold[start + 1 : start + n + 1] >= 0) + 1
        at = arcs.firsts[start] + gold[start + modifiers] * (n + 1) + modifiers
        words += len(at)
        lost += int((~arcs.cells[at]).sum())
        arcs.cells[at] = True
    return lost, words
