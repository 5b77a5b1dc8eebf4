"""Arcs that larger parts are searched over: those that a parser of the first order finds likely."""

from typing import NamedTuple

import numpy as np

from gpuparse.data.batch import Batch
from gpuparse.features.plan import Plan
from gpuparse.scoring.confidence import require_all
from gpuparse.scoring.cpu import RowMap
from gpuparse.scoring.cpu_confidence import make_sum_scratch
from gpuparse.scoring.cpu_parse import ParseScratch, make_parse_scratch
from gpuparse.scoring.cpu_pruning import prune_sentences
from gpuparse.scoring.weights import Weights


class Pruner(NamedTuple):
    """A parser of the first order, of the arc templates of another model, and what it leaves.

    scale: nats of one point of its scores. threshold, max_heads: as of `prune_sentences`.
    """

    weights: Weights  # (R, 1) whole numbers, in a table as long as the other model's
    decoder: str
    scale: float
    threshold: float
    max_heads: int


class Arcs(NamedTuple):
    """Arcs that are left: h -> m of a sentence at firsts[place of its root] + h * (n + 1) + m."""

    firsts: np.ndarray  # (T,) int64 by place
    cells: np.ndarray  # bool


def all_cells(batch: Batch, firsts: np.ndarray) -> Arcs:
    """Cells for the sentences of a batch, yet to be filled in, one after the other.

    Args:
        firsts: (T,) by place, changed for the sentences of the batch.
    """
    sizes = (batch.lengths + 1) ** 2
    firsts[batch.starts] = np.cumsum(sizes) - sizes
    return Arcs(firsts, np.zeros(int(sizes.sum()), np.bool_))


def with_arcs(scratch: ParseScratch, arcs: Arcs) -> ParseScratch:
    """Working memory for a search over these arcs alone."""
    assert scratch.larger is not None
    return scratch._replace(larger=scratch.larger._replace(firsts=arcs.firsts, cells=arcs.cells))


def prune(
    batch: Batch,
    plan: Plan,
    rows: RowMap,
    pruner: Pruner,
    known: np.ndarray,
    arcs: Arcs,
    *,
    single_root: bool,
) -> None:
    """Fill in which arcs of a batch's sentences are left.

    Args:
        plan: of the larger model; rows: its table's. known: as of `find_tree_marginals`.
    Raises:
        NoTreeError: no tree has what is known of a sentence.
    Cost: one scoring of all arcs, the sums over all trees and the best one.
    """
    first_order = plan.of_arcs
    weights, longest = pruner.weights.array[:, 0], int(batch.lengths.max())
    scratch = make_parse_scratch(first_order, rows, None, pruner.decoder, longest, weights)
    require_all(
        prune_sentences(
            batch.values, batch.starts, batch.lengths, first_order, weights,
            rows, single_root, known, pruner.scale, pruner.threshold, pruner.max_heads, scratch,
            make_sum_scratch(pruner.decoder, longest), *arcs,
        )
    )  # fmt: skip
