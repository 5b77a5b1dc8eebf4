"""From token ids to heads, compiled: the scores of one sentence, then its best tree or graph."""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.features.plan import Plan
from gpuparse.inference.kernels.cpu.search import (
    SearchScratch,
    make_search_scratch,
    search,
)
from gpuparse.scoring.cpu import RowMap, Scratch, make_scratch, score_sentence
from gpuparse.scoring.cpu_guides import GuideScratch, add_guides, make_guide_scratch
from gpuparse.scoring.cpu_siblings import (
    SiblingScoreScratch,
    make_sibling_score_scratch,
    score_siblings,
)


class ParseScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    sums: np.ndarray  # (N, N) sums of weights
    scores: np.ndarray  # (N, N) float64: exact for any sum of integer weights
    siblings: SiblingScoreScratch | None  # None for the first order
    guide: GuideScratch | None  # None without guide templates
    tree: SearchScratch


def make_parse_scratch(
    plan: Plan, rows: RowMap, decoder: str, n: int, weights: np.ndarray
) -> ParseScratch:
    """Working memory for sentences of up to n words; integer weights are summed as int32."""
    sums = np.dtype(np.float32 if weights.dtype.kind == "f" else np.int32)
    exact = rows.keys is not None
    siblings = None
    if plan.siblings:
        siblings = make_sibling_score_scratch(plan.siblings, n, exact, sums)
    guide = make_guide_scratch(plan.guide, n, exact, sums) if plan.guide else None
    return ParseScratch(
        make_scratch(plan.arcs, n, exact, sums),
        np.zeros((n + 1, n + 1), sums),
        np.zeros((n + 1, n + 1)),
        siblings,
        guide,
        make_search_scratch(decoder, n),
    )


def _siblings(values, start, n, plan, weights, rows, scratch):
    """The sibling scores of a sentence, None for a plan of the first order, which is None."""
    raise TypeError("only compiled code can call this")


@overload(_siblings)
def _choose_siblings(values, start, n, plan, weights, rows, scratch):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, weights, rows, scratch: None
    return lambda values, start, n, plan, weights, rows, scratch: score_siblings(
        values, start, n, plan, weights, rows, scratch
    )


@inlined
def _add_tree_cost(scores, n, gold, cost):
    """Raise every arc but those of the gold tree: each wrong head costs so much."""
    for h in range(n + 1):
        for m in range(1, n + 1):
            scores[h, m] += cost
    for m in range(1, n + 1):
        scores[gold[m], m] -= cost


@inlined
def _add_graph_cost(scores, n, gold, cost):
    """Raise arcs that are not in the gold graph and lower those that are.

    So each false positive costs so much, and, but for a constant, each false negative.
    """
    for h in range(n + 1):
        for m in range(1, n + 1):
            scores[h, m] += -cost if gold[h, m] else cost


def _add_cost(scores, n, gold, cost):
    raise TypeError("only compiled code can call this")


@overload(_add_cost)
def _choose_cost(scores, n, gold, cost):
    if isinstance(gold, types.NoneType):
        return lambda scores, n, gold, cost: None
    if gold.ndim == 1:
        return lambda scores, n, gold, cost: _add_tree_cost(scores, n, gold, cost)
    return lambda scores, n, gold, cost: _add_graph_cost(scores, n, gold, cost)


@inlined
def parse_sentence(
    values, start, n, plan, weights, rows, single_root, min_gain, gold, cost, scratch, heads
):  # fmt: skip
    """Fill heads[1:n+1] with the best tree of one sentence; return whether there is one.

    Args: gold: None for plain search; for search that adds what mistakes cost (cost-augmented), the
    heads gold[1 : n + 1] of the gold tree or the arcs gold[h, m] of the gold graph. Where graphs
    are searched for, the graph is in scratch.tree.arcs afterwards, and heads are its primary ones.
    """
    score_sentence(values, start, n, plan.arcs, weights, rows, scratch.parts, scratch.sums)
    add_guides(values, start, n, plan.guide, weights, rows, scratch.guide, scratch.sums)
    for h in range(n + 1):
        for m in range(1, n + 1):
            scratch.scores[h, m] = scratch.sums[h, m]
    _add_cost(scratch.scores, n, gold, cost)
    siblings = _siblings(values, start, n, plan.siblings, weights, rows, scratch.siblings)
    return search(scratch.scores, siblings, n, single_root, min_gain, scratch.tree, heads)


@compiled
def parse_sentences(
    values, starts, lengths, plan, weights, rows, single_root, min_gain, scratch, heads
):  # fmt: skip
    """Fill heads[start + 1 : start + n + 1] of every sentence with its best tree.

    Returns: the index of the first sentence without a tree, or -1.
    """
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        if not parse_sentence(
            values, start, n, plan, weights, rows, single_root, min_gain, None, 0.0, scratch,
            heads[start : start + n + 1],
        ):  # fmt: skip
            return b
    return -1


@compiled
def parse_graphs(
    values, starts, lengths, plan, weights, rows, single_root, min_gain, scratch, heads, firsts,
    arcs,
):  # fmt: skip
    """As `parse_sentences` for graphs, whose arcs are written beside their primary heads.

    arcs: (cells,) bool, the arc h -> m of sentence b at firsts[b] + h * (n + 1) + m.
    """
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        if not parse_sentence(
            values, start, n, plan, weights, rows, single_root, min_gain, None, 0.0, scratch,
            heads[start : start + n + 1],
        ):  # fmt: skip
            return b
        copy_arcs(scratch.tree.arcs, n, arcs[firsts[b] :])
    return -1


@compiled
def copy_arcs(arcs, n, cells):
    """Write the arcs of a graph, h -> m to h * (n + 1) + m."""
    for h in range(n + 1):
        for m in range(n + 1):
            cells[h * (n + 1) + m] = arcs[h, m]
