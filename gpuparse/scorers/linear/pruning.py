"""Arcs for higher-order decoders: those that a first-order parser finds likely."""

from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import Plan
from gpuparse.scorers.linear.weights import RowMap, Weights
from gpuparse.scorers.native import make_scorer, make_search, require_all, sentences_of


class Pruner(NamedTuple):
    """A first-order parser with the arc templates of another model, and what it leaves.

    scale: nats a point of its scores. threshold, max_heads: as in `prune_batch` in
    native/api/parsing.h.
    """

    weights: Weights  # (R, 1) integers, in a table as long as the other model's
    decoder: str
    scale: float
    threshold: float
    max_heads: int


class KeptArcs(NamedTuple):
    """Arcs that are left: h -> m of a sentence at firsts[token of its root] + h * (n + 1) + m."""

    firsts: np.ndarray  # (T,) int64 by token
    cells: np.ndarray  # bool


def all_cells(batch: Batch, firsts: np.ndarray) -> KeptArcs:
    """Cells for the sentences of a batch, one after the other, to be filled in.

    Args: firsts: (T,) by token, changed for the sentences of the batch.
    """
    sizes = (batch.lengths + 1) ** 2
    firsts[batch.starts] = np.cumsum(sizes) - sizes
    return KeptArcs(firsts, np.zeros(int(sizes.sum()), np.bool_))


def prune(
    batch: Batch,
    plan: Plan,
    rows: RowMap,
    pruner: Pruner,
    known: np.ndarray,
    arcs: KeptArcs,
    *,
    single_root: bool,
) -> None:
    """Fill in which arcs of a batch's sentences are left.

    Args:
        plan: of the higher-order model; rows: its table's. known: (T,) heads by token, -1 for none.
    Raises: NoTreeError: no tree has what is known of a sentence.
    Cost: one scoring of all arcs, the sums over all trees and the best one.
    """
    scorer = make_scorer(plan.of_arcs, pruner.weights, rows)
    require_all(
        native.call(
            "prune_batch", sentences_of(batch, known), scorer,
            make_search(pruner.decoder, single_root=single_root), pruner.scale, pruner.threshold,
            pruner.max_heads, *arcs,
        )
    )  # fmt: skip
