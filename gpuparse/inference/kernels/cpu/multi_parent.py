"""Search for graphs with several heads a word by single changes, compiled."""

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.arc_gains import GainScratch, fill_gains
from gpuparse.inference.kernels.cpu.eisner_sibling import sibling_tree_score
from gpuparse.inference.kernels.cpu.siblings import (
    DenseSiblings,
    Siblings,
    sibling_score,
)

ADDITION = -1  # in the place of the head that is replaced


@inlined
def _is_above(
    arcs: np.ndarray, n: int, m: int, word: int, stack: np.ndarray, seen: np.ndarray
) -> bool:
    """Whether m is the word or one of its ancestors."""
    if m == word:
        return True
    seen[: n + 1] = 0
    stack[0], depth = word, 1
    while depth > 0:
        depth -= 1
        child = stack[depth]
        for h in range(1, n + 1):
            if arcs[h, child] and seen[h] == 0:
                if h == m:
                    return True
                seen[h] = 1
                stack[depth] = h
                depth += 1
    return False


@inlined
def _best_change(
    n: int, single_root: bool, min_gain: float, arcs: np.ndarray, scratch: GainScratch
) -> tuple[int, int, int]:
    """The change (m, new head, replaced head or `ADDITION`) that gains most; m = 0 if none does."""
    gains = scratch.gains
    best = gains.dtype.type(min_gain)
    chosen, head, replaced = 0, 0, ADDITION
    for m in range(1, n + 1):
        n_heads, removal, old = 0, gains.dtype.type(-np.inf), 0
        for h in range(n + 1):
            if arcs[h, m]:
                n_heads += 1
                if gains[m, h] > removal:
                    removal, old = gains[m, h], h
        first = 0 if n_heads == 1 and not single_root else 1
        for k in range(first, n + 1):
            if arcs[k, m]:
                continue
            gain, instead = removal + gains[m, k], old
            if k > 0 and gains[m, k] > gain:
                gain, instead = gains[m, k], ADDITION
            if gain > best and not _is_above(arcs, n, m, k, scratch.stack, scratch.seen):
                best, chosen, head, replaced = gain, m, k, instead
    return chosen, head, replaced


@compiled
def sibling_graph_score(
    arc_scores: np.ndarray, siblings: Siblings, n: int, arcs: np.ndarray
) -> float:
    """Sum of arc, sibling and end score of all arcs h -> m, one by one, by m and then by h."""
    total = arc_scores.dtype.type(0)
    for m in range(1, n + 1):
        for h in range(n + 1):
            if arcs[h, m]:
                step = 1 if h > m else -1
                s = m + step
                while s != h and not arcs[h, s]:
                    s += step
                total += arc_scores[h, m]
                total += sibling_score(siblings, h, m, s)
                o = m - step
                while 1 <= o <= n and not arcs[h, o]:
                    o -= step
                if not 1 <= o <= n:
                    total += siblings.ends[h, m]
    return total


@compiled
def multi_parent_sentence(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    single_root: bool,
    max_changes: int,
    min_gain: float,
    scratch: GainScratch,
    heads: np.ndarray,
    arcs: np.ndarray,
) -> int:
    """From a tree to a graph by single changes, for other compiled code to call.

    Args: as `hill_climb_sentence`, but heads are left as they are; arcs: bool (>= n+1, >= n+1),
    [h, m], filled. `gpuparse.inference.multi_parent` says what is searched for.
    Returns: the number of changes.
    """
    gains = scratch.gains
    arcs[: n + 1, : n + 1] = False
    for m in range(1, n + 1):
        arcs[heads[m], m] = True
    fill_gains(arc_scores, siblings, n, 0, n, arcs, scratch)
    score, changes = gains.dtype.type(0), 0
    while changes != max_changes:
        m, k, h = _best_change(n, single_root, min_gain, arcs, scratch)
        if m == 0:
            break
        if changes == 0:
            score = sibling_graph_score(arc_scores, siblings, n, arcs)
        arcs[k, m] = True
        if h != ADDITION:
            arcs[h, m] = False
        raised = sibling_graph_score(arc_scores, siblings, n, arcs)
        if (
            not raised > score + min_gain
        ):  # all that is left is rounding, which could go round in circles
            arcs[k, m] = False
            if h != ADDITION:
                arcs[h, m] = True
            break
        fill_gains(arc_scores, siblings, n, k, k, arcs, scratch)
        if h != ADDITION:
            fill_gains(arc_scores, siblings, n, h, h, arcs, scratch)
        score = raised
        changes += 1
    return changes


@compiled
def fill_primary_heads(n: int, arcs: np.ndarray, heads: np.ndarray) -> None:
    """`gpuparse.inference.multi_parent.primary_heads` of one graph; heads: filled at 1..n."""
    for m in range(1, n + 1):
        nearest = n + 1
        for h in range(n + 1):
            if arcs[h, m] and abs(h - m) < nearest:
                nearest, heads[m] = abs(h - m), h


@compiled
def multi_parent_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    max_changes: int,
    min_gain: float,
    scratch: GainScratch,
    heads: np.ndarray,
    arcs: np.ndarray,
    scores: np.ndarray,
) -> None:
    """`multi_parent_sentence` for a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores, end_scores float (B, N, N), sibling_scores (B, N, N, N), C order; lengths
    int64 (B,);
    scratch for the longest sentence; heads int64 (B, N); arcs bool (B, N, N), scores float (B,):
    filled. A sentence whose start has a forbidden part gets the score -inf.
    """
    for b in range(len(lengths)):
        n, siblings = lengths[b], DenseSiblings(sibling_scores[b], end_scores[b])
        arcs[b] = False
        scores[b] = sibling_tree_score(arc_scores[b], siblings, n, heads[b])
        if n > 0 and scores[b] > -np.inf:
            multi_parent_sentence(
                arc_scores[b],
                siblings,
                n,
                single_root,
                max_changes,
                min_gain,
                scratch,
                heads[b],
                arcs[b],
            )
            scores[b] = sibling_graph_score(arc_scores[b], siblings, n, arcs[b])
