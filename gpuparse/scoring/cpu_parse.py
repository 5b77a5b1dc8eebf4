"""From token ids to heads, compiled: the scores of one sentence, then its best tree."""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.plan import ArcPlan
from gpuparse.inference.kernels.cpu.search import (
    SearchScratch,
    make_search_scratch,
    search,
)
from gpuparse.scoring.cpu import RowMap, Scratch, make_scratch, score_sentence


class ParseScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    sums: np.ndarray  # (N, N) sums of weights
    scores: np.ndarray  # (N, N) float64: exact for any sum of integer weights
    tree: SearchScratch


def make_parse_scratch(
    plan: ArcPlan, rows: RowMap, decoder: str, n: int, weights: np.ndarray
) -> ParseScratch:
    """Working memory for sentences of up to n words; integer weights are summed as int32."""
    sums = np.dtype(np.float32 if weights.dtype.kind == "f" else np.int32)
    return ParseScratch(
        make_scratch(plan, n, rows.keys is not None, sums),
        np.zeros((n + 1, n + 1), sums),
        np.zeros((n + 1, n + 1)),
        make_search_scratch(decoder, n),
    )


@inlined
def parse_sentence(
    values, start, n, plan, weights, rows, single_root, gold, scratch, heads
):  # fmt: skip
    """Fill heads[1:n+1] with the best tree of one sentence; return whether there is one.

    gold: heads at gold[start + 1 : start + n + 1] whose arcs cost nothing while every other
    arc's score rises by one (cost-augmented search); an empty array for plain search.
    """
    score_sentence(values, start, n, plan, weights, rows, scratch.parts, scratch.sums)
    cost = 1.0 if len(gold) > 0 else 0.0
    for h in range(n + 1):
        for m in range(1, n + 1):
            scratch.scores[h, m] = scratch.sums[h, m] + cost
    if len(gold) > 0:
        for m in range(1, n + 1):
            scratch.scores[gold[start + m], m] -= cost
    return search(scratch.scores, n, single_root, scratch.tree, heads)


@compiled
def parse_sentences(
    values, starts, lengths, plan, weights, rows, single_root, gold, scratch, heads
):  # fmt: skip
    """Fill heads[start + 1 : start + n + 1] of every sentence with its best tree.

    Returns: the index of the first sentence without a tree, or -1.
    """
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        if not parse_sentence(
            values, start, n, plan, weights, rows, single_root, gold, scratch,
            heads[start : start + n + 1],
        ):  # fmt: skip
            return b
    return -1
