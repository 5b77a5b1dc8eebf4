"""Scores of trees whose parts stand in blocks, and their repair by single changes of head."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.candidates import Candidates
from gpuparse.inference.kernels.cpu.label_limits import LabelLimits, label_head


@compiled
def block_tree_score(
    n: int,
    columns: np.ndarray,
    has_grandparents: bool,
    number: np.ndarray,
    rank: np.ndarray,
    starts: np.ndarray,
    blocks: np.ndarray,
    ends: np.ndarray,
    heads: np.ndarray,
    inner: np.ndarray,
    outermost: np.ndarray,
) -> float:
    """Sum over words 1, 2, ..., n of the part of a word and its end, one by one from the left.

    Args: columns (N + 1,): see `head_automata.py`; number, rank: of the candidates; starts, blocks,
    ends; heads: a tree of candidates at 1..n; inner int64 (>= N,), outermost int64 (2, >= N):
    filled with the row of each word in its block, and the outermost modifiers, 0 for none.
    Returns: the score, in float64.
    """
    for h in range(n + 1):
        outermost[0, h] = outermost[1, h] = 0
    for m in range(1, n + 1):
        h = heads[m]
        if h < m:
            s = outermost[0, h]
            inner[m] = rank[number[h, s]] + 1 if s > 0 else 0
            outermost[0, h] = m
    for m in range(n, 0, -1):
        h = heads[m]
        if h > m:
            s = outermost[1, h]
            inner[m] = rank[number[h, s]] + 1 if s > 0 else 0
            outermost[1, h] = m
    total = 0.0
    for m in range(1, n + 1):
        h = heads[m]
        a = number[h, m]
        width = columns[h + 1] - columns[h]
        q = 0
        if has_grandparents and h > 0:
            q = number[heads[h], h] - columns[h]
        total += np.float64(blocks[starts[a] + inner[m] * width + q])
        if outermost[0 if h < m else 1, h] == m:
            total += np.float64(ends[a])
    return total


@compiled
def score_block_tree(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    has_grandparents: bool,
    ends: np.ndarray,
    n: int,
    heads: np.ndarray,
) -> float:
    """`block_tree_score` of one tree of candidates, heads[1 : n + 1]."""
    columns = candidates.first if has_grandparents else np.arange(n + 2).astype(np.int32)
    inner, outermost = np.empty(n + 1, np.int64), np.empty((2, n + 1), np.int64)
    return block_tree_score(
        n, columns, has_grandparents, candidates.number, candidates.rank, starts, blocks, ends,
        heads, inner, outermost,
    )  # fmt: skip


@compiled
def climb_block_tree(
    candidates: Candidates,
    n: int,
    single_root: bool,
    columns: np.ndarray,
    has_grandparents: bool,
    starts: np.ndarray,
    blocks: np.ndarray,
    ends: np.ndarray,
    limits: LabelLimits,
    heads: np.ndarray,
) -> float:
    """Take every change of head that raises the score and keeps a tree, until there is none.

    Words and heads are gone through in order, again and again. With a single root its modifier
    stays.

    Args: as of `block_tree_score`; limits: on labels, whose scores count too; heads: changed in
    place.
    Returns: the score.
    """
    first, head, number, rank = (
        candidates.first, candidates.head, candidates.number, candidates.rank,
    )  # fmt: skip
    has_labels = len(limits.masks) > 0
    inner, outermost = np.empty(n + 1, np.int64), np.empty((2, n + 1), np.int64)
    of_labels = np.zeros(n + 1)
    score = block_tree_score(
        n, columns, has_grandparents, number, rank, starts, blocks, ends, heads, inner, outermost
    )
    if has_labels:
        for h in range(n + 1):
            of_labels[h] = label_head(limits, n, number, heads, h)
            score += of_labels[h]
    unchanged, m = 0, 0
    while unchanged < n:
        m = m + 1 if m < n else 1
        unchanged += 1
        if single_root and heads[m] == 0:
            continue
        for a in range(first[m], first[m + 1]):
            h, old = int(head[a]), int(heads[m])
            if h == old or (single_root and h == 0):
                continue
            word = h
            while word > 0 and word != m:
                word = heads[word]
            if word == m:
                continue
            heads[m] = h
            raised = block_tree_score(
                n, columns, has_grandparents, number, rank, starts, blocks, ends, heads, inner,
                outermost,
            )  # fmt: skip
            if has_labels and raised > -np.inf:
                of_old = label_head(limits, n, number, heads, old)
                of_new = label_head(limits, n, number, heads, h)
                for other in range(n + 1):
                    if other == old:
                        raised += of_old
                    elif other == h:
                        raised += of_new
                    else:
                        raised += of_labels[other]
                if raised > score:
                    of_labels[old], of_labels[h] = of_old, of_new
            if raised > score:
                score, unchanged = raised, 0
            else:
                heads[m] = old
    return score
