"""Second-order search by single changes of head, compiled; gains are kept from change to change."""

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.arc_gains import GainScratch, fill_gains
from gpuparse.inference.kernels.cpu.eisner_sibling import sibling_tree_score
from gpuparse.inference.kernels.cpu.siblings import DenseSiblings, Siblings


@inlined
def _is_below(heads: np.ndarray, word: int, m: int) -> bool:
    """Whether the word is m or hangs below it."""
    while word > 0 and word != m:
        word = heads[word]
    return word == m


@inlined
def _best_change(
    n: int, single_root: bool, min_gain: float, gains: np.ndarray, heads: np.ndarray
) -> tuple[int, int]:
    """The change (m, new head) with the highest gain; (0, 0) if none is above the least."""
    first = 1 if single_root else 0
    best, chosen, head = gains.dtype.type(min_gain), 0, 0
    for m in range(1, n + 1):
        h = heads[m]
        removal = gains[m, h]
        for k in range(first, n + 1):
            # Few changes get as far as to the climb.
            if removal + gains[m, k] > best and k != h and not _is_below(heads, k, m):
                best, chosen, head = removal + gains[m, k], m, k
    return chosen, head


@compiled
def hill_climb_sentence(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    single_root: bool,
    max_changes: int,
    min_gain: float,
    scratch: GainScratch,
    heads: np.ndarray,
) -> int:
    """Improve a tree by single changes, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1), n >= 1, in the type of the sibling scores and the scratch,
    which is from `make_gain_scratch(n)` or for more words; max_changes: -1 for no limit; min_gain:
    every change raises the score by more; heads: a tree without forbidden parts at 1..n, with a
    single modifier of the root if single_root; changed in place. `gpuparse.inference.hill_climb`
    says what is searched for.
    Returns: the number of changes.
    """
    gains, arcs = scratch.gains, scratch.arcs
    arcs[: n + 1, : n + 1] = False
    for m in range(1, n + 1):
        arcs[heads[m], m] = True
    fill_gains(arc_scores, siblings, n, 0, n, arcs, scratch)
    score, changes = gains.dtype.type(0), 0
    while changes != max_changes:
        m, k = _best_change(n, single_root, min_gain, gains, heads)
        if m == 0:
            break
        if changes == 0:
            score = sibling_tree_score(arc_scores, siblings, n, heads)
        h = heads[m]
        heads[m] = k
        raised = sibling_tree_score(arc_scores, siblings, n, heads)
        if (
            not raised > score + min_gain
        ):  # all that is left is rounding, which could go round in circles
            heads[m] = h
            break
        arcs[h, m], arcs[k, m] = False, True
        fill_gains(arc_scores, siblings, n, h, h, arcs, scratch)
        fill_gains(arc_scores, siblings, n, k, k, arcs, scratch)
        score = raised
        changes += 1
    return changes


@compiled
def hill_climb_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    max_changes: int,
    min_gain: float,
    scratch: GainScratch,
    heads: np.ndarray,
    scores: np.ndarray,
    changes: np.ndarray,
) -> None:
    """`hill_climb_sentence` for a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores, end_scores float (B, N, N), sibling_scores (B, N, N, N), C order; lengths
    int64 (B,);
    scratch for the longest sentence; heads int64 (B, N): changed; scores float (B,), changes int64
    (B,): filled. A sentence whose start has a forbidden part gets the score -inf.
    """
    for b in range(len(lengths)):
        n, siblings = lengths[b], DenseSiblings(sibling_scores[b], end_scores[b])
        changes[b] = 0
        scores[b] = sibling_tree_score(arc_scores[b], siblings, n, heads[b])
        if n > 0 and scores[b] > -np.inf:
            changes[b] = hill_climb_sentence(
                arc_scores[b], siblings, n, single_root, max_changes, min_gain, scratch, heads[b]
            )
            scores[b] = sibling_tree_score(arc_scores[b], siblings, n, heads[b])


@compiled
def first_bad_tree(heads: np.ndarray, lengths: np.ndarray, single_root: bool) -> int:
    """First sentence whose heads are no tree (or have several modifiers of the root), or -1.

    Args: heads int64 (B, N); lengths int64 (B,).
    """
    seen = np.empty(heads.shape[1], np.int64)
    for b in range(len(lengths)):
        n, n_roots = lengths[b], 0
        seen[:] = 0
        for m in range(1, n + 1):
            if not 0 <= heads[b, m] <= n:
                return b
            n_roots += heads[b, m] == 0
        if single_root and n_roots > 1:
            return b
        for m in range(1, n + 1):  # up to the root, or to where an earlier word came by
            word = m
            while word > 0 and seen[word] == 0:
                seen[word] = m
                word = heads[b, word]
            if word > 0 and seen[word] == m:
                return b
    return -1
