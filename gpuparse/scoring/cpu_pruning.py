"""Which arcs are worth a look: those with enough probability under a parser of the first order."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.search import search
from gpuparse.scoring.cpu_confidence import sum_trees
from gpuparse.scoring.cpu_parse import forbid_others, score_parts


@compiled
def _keep_likely(marginals, heads, n, threshold, max_heads, cells):
    """Mark the arcs that are kept: at most so many heads a word, the likeliest ones."""
    for h in range(n + 1):
        for m in range(n + 1):
            cells[h * (n + 1) + m] = False
    for m in range(1, n + 1):
        likeliest = 0.0
        for h in range(n + 1):
            if h != m:
                likeliest = max(likeliest, marginals[h, m])
        cells[heads[m] * (n + 1) + m] = True
        for _ in range(max_heads - 1):
            best, chosen = 0.0, -1
            for h in range(n + 1):
                if h != m and marginals[h, m] > best and not cells[h * (n + 1) + m]:
                    best, chosen = marginals[h, m], h
            if chosen < 0 or best < threshold * likeliest:
                break
            cells[chosen * (n + 1) + m] = True


@compiled
def prune_sentences(
    values, starts, lengths, plan, weights, rows, single_root, known, unit, threshold, max_heads,
    scratch, sums, firsts, cells,
):  # fmt: skip
    """Mark the arcs of every sentence that are left.

    Args:
        plan: of the first order; weights, rows: of the pruning parser, one point of whose scores is
            worth `unit` nats.
        known: as of `forbid_others`: no other arcs are left for these words.
        threshold: what an arc's probability must be at least, times that of the likeliest head.
        max_heads: most heads of a word, at least 1. The arcs of the best tree always stay, so that
            there is a tree.
        firsts: (T,) int64 by place; cells: bool: the arc h -> m of the sentence at `start` goes to
            firsts[start] + h * (n + 1) + m.
    Returns: the index of the first sentence without a tree, or -1.
    Source: Koo & Collins (2010): marginals of a first-order model, a threshold relative to the
    likeliest head; differs: the best tree stays, and there may be a limit of heads.
    """
    marginals = sums.marginals
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        score_parts(values, start, n, plan, weights, rows, None, scratch)
        forbid_others(scratch.scores, n, start, known)
        heads = np.empty(n + 1, np.int64)
        if not search(scratch.scores, None, n, single_root, 0.0, scratch.tree, heads):
            return b
        sum_trees(scratch.scores, None, n, single_root, unit, sums)
        first = firsts[start]
        _keep_likely(marginals, heads, n, threshold, max_heads, cells[first:])
        for m in range(1, n + 1):
            if len(known) > 0 and known[start + m] >= 0:
                for h in range(n + 1):
                    cells[first + h * (n + 1) + m] = h == heads[m]
    return -1
