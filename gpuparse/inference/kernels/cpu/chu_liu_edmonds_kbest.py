"""The k best trees, crossing arcs allowed, by splitting and bounding; compiled.

`reference_chu_liu_edmonds_kbest.py` says which parts the set of all trees is split into. Here the
best tree of a part is searched for only when no other part can hold a better one. The bound of a
part comes from the tree that it was split from, whose search leaves a price for every word and
super-node, `best`: the score of any tree is at most the sum of all prices, less the reduced costs
of its arcs, rc[h -> m] = (prices of the sets with m inside and h outside) - score >= 0. For the
best tree equality holds. A tree without its arc e has another arc into every set that e enters, so
it loses at least the second smallest rc into any of them. The bound is rounded up by more than all
rounding errors, so it decides how much work is done, never what comes out.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.chu_liu_edmonds import (
    chu_liu_edmonds_scratch_sizes,
    chu_liu_edmonds_sentence,
    super_nodes,
)
from gpuparse.inference.kernels.cpu.threads import run_in_threads
from gpuparse.tensors import NO_HEAD

EMPTY, BOUND, EXACT = 0, 1, 2  # what is known about a part: nothing better in it, at most, at best


class ChuLiuEdmondsKBestScratch(NamedTuple):
    """Working memory for k trees of sentences of up to n words; contents do not matter.

    floats, ints: of the single search. part: (N, N), the scores of one part, -inf where forbidden.
    reduced: float64 (N, N), [m, h]; losses: float64 (N,). tree, top: int64 (N,); parent: (2N,).
    values: float64 (k N,), by part: rank * N + word; known: int64 (k N,). made_from: int64 (k,),
    the part in which each rank was found.
    """

    floats: np.ndarray
    ints: np.ndarray
    part: np.ndarray
    reduced: np.ndarray
    losses: np.ndarray
    tree: np.ndarray
    top: np.ndarray
    parent: np.ndarray
    values: np.ndarray
    known: np.ndarray
    made_from: np.ndarray


def make_chu_liu_edmonds_kbest_scratch(
    n: int, k: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> ChuLiuEdmondsKBestScratch:
    """Working memory for scores of this type, k trees, and sentences of up to n words."""
    n_floats, n_ints = chu_liu_edmonds_scratch_sizes(n, np.dtype(dtype).itemsize)
    n_nodes = n + 1
    return ChuLiuEdmondsKBestScratch(
        floats=np.empty(n_floats, dtype),
        ints=np.empty(n_ints, np.int32),
        part=np.empty((n_nodes, n_nodes), dtype),
        reduced=np.empty((n_nodes, n_nodes)),
        losses=np.empty(n_nodes),
        tree=np.empty(n_nodes, np.int64),
        top=np.empty(n_nodes, np.int64),
        parent=np.empty(2 * n_nodes, np.int64),
        values=np.empty(k * n_nodes),
        known=np.empty(k * n_nodes, np.int64),
        made_from=np.empty(k, np.int64),
    )


@inlined
def _fill_part(
    arc_scores: np.ndarray,
    n: int,
    rank: int,
    word: int,
    heads: np.ndarray,
    made_from: np.ndarray,
    part: np.ndarray,
) -> None:
    """Scores of the trees that share heads[rank] before `word`, and not there.

    Nor may the head of `word` be one that an earlier split of the same part has taken.
    """
    for h in range(n + 1):
        for m in range(1, n + 1):
            part[h, m] = arc_scores[h, m]
    for m in range(1, word):
        for h in range(n + 1):
            if h != heads[rank, m]:
                part[h, m] = -np.inf
    part[heads[rank, word], word] = -np.inf
    while rank > 0 and made_from[rank] % (n + 1) == word:
        rank = made_from[rank] // (n + 1)
        part[heads[rank, word], word] = -np.inf


@inlined
def _fill_reduced(
    part: np.ndarray,
    n: int,
    best: np.ndarray,
    members: np.ndarray,
    bounds: np.ndarray,
    made: int,
    top: np.ndarray,
    parent: np.ndarray,
    reduced: np.ndarray,
) -> None:
    """reduced[m, h]: the reduced cost of h -> m; parent[k] of words and super-nodes, or 0."""
    for m in range(1, n + 1):
        parent[m], top[m] = 0, m
        for h in range(n + 1):
            reduced[m, h] = best[m] - part[h, m] if h != m else np.inf
    top[0] = 0
    for c in range(n + 1, made):
        parent[c] = 0
        for i in range(bounds[c], bounds[c + 1]):
            parent[members[i]] = c
        for m in range(1, n + 1):
            top[m] = c if parent[top[m]] == c else top[m]
        for m in range(1, n + 1):
            if top[m] == c:
                for h in range(n + 1):
                    if top[h] != c:
                        reduced[m, h] += best[c]


@compiled
def _fill_losses(
    part: np.ndarray,
    n: int,
    single_root: bool,
    floats: np.ndarray,
    ints: np.ndarray,
    tree: np.ndarray,
    top: np.ndarray,
    parent: np.ndarray,
    reduced: np.ndarray,
    losses: np.ndarray,
) -> None:
    """losses[m]: what a tree of this part loses at least if tree[m] is not the head of m."""
    best, members, bounds, made = super_nodes(n, floats, ints)
    _fill_reduced(part, n, best, members, bounds, made, top, parent, reduced)
    at_root = 0
    for m in range(1, n + 1):
        at_root = top[m] if tree[m] == 0 else at_root
    for m in range(1, n + 1):
        if single_root and top[m] != at_root:
            # Two words at the root: then something else had no other head than the root.
            reduced[m, 0] = np.inf
        losses[m] = np.inf
        for h in range(n + 1):
            if h != tree[m]:
                losses[m] = min(losses[m], reduced[m, h])
    for m in range(1, n + 1):
        top[m] = m
    for c in range(n + 1, made):
        least, entered = np.inf, 0
        for m in range(1, n + 1):
            top[m] = c if parent[top[m]] == c else top[m]
        for m in range(1, n + 1):
            if top[m] == c:
                for h in range(n + 1):
                    if h == tree[m] and top[h] != c:
                        entered = m
                    elif top[h] != c:
                        least = min(least, reduced[m, h])
        losses[entered] = max(losses[entered], least)


@inlined
def _rounding(arc_scores: np.ndarray, n: int) -> float:
    """More than all rounding errors of a search and its reduced costs."""
    largest = 0.0
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m and arc_scores[h, m] > -np.inf:
                largest = max(largest, abs(float(arc_scores[h, m])))
    return 8.0 * (n + 2) * float(np.finfo(arc_scores.dtype).eps) * largest


@compiled
def _best_part(values: np.ndarray, known: np.ndarray, count: int) -> int:
    """The first part with the highest value, -1 if all are empty."""
    chosen, highest = -1, -np.inf
    for i in range(count):
        if known[i] != EMPTY and values[i] > highest:
            chosen, highest = i, values[i]
    return chosen


@compiled
def chu_liu_edmonds_kbest_sentence(
    arc_scores: np.ndarray,
    n: int,
    single_root: bool,
    k: int,
    scratch: ChuLiuEdmondsKBestScratch,
    heads: np.ndarray,
    scores: np.ndarray,
) -> int:
    """The k best trees of one sentence, best first, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1) in the type of the scratch; scratch of
    `make_chu_liu_edmonds_kbest_scratch(n, k, dtype)` or more words or trees; heads int
    (>= k, >= n+1), scores (>= k): filled at [:count, 1:n+1] and [:count].
    Returns: count, the number of trees: k or, if fewer exist, all of them.
    """
    floats, ints, part, reduced, losses, tree, top, parent, values, known, made_from = scratch
    if n == 0:
        scores[0] = 0.0
        return min(k, 1)
    n_nodes = n + 1
    for h in range(n_nodes):
        for m in range(1, n_nodes):
            part[h, m] = arc_scores[h, m]
    if k == 0 or not chu_liu_edmonds_sentence(part, n, single_root, floats, ints, tree):
        return 0
    slack = _rounding(arc_scores, n)
    highest, found_in, first = np.inf, -1, 1
    count, searched = 0, -1
    while True:
        # The tree of the part `found_in` is in `tree`, and its search in the scratch.
        scores[count] = min(_tree_score(arc_scores, n, tree), highest)
        for m in range(1, n_nodes):
            heads[count, m] = tree[m]
        made_from[count] = found_in
        count += 1
        if count == k:
            return count
        _fill_losses(part, n, single_root, floats, ints, tree, top, parent, reduced, losses)
        for m in range(n_nodes):
            i = (count - 1) * n_nodes + m
            known[i] = BOUND if m >= first and losses[m] < np.inf else EMPTY
            values[i] = scores[count - 1] - max(losses[m] - slack, 0.0)
        while True:
            found_in = _best_part(values, known, count * n_nodes)
            if found_in < 0:
                return count
            rank, first = found_in // n_nodes, found_in % n_nodes
            if found_in != searched:
                _fill_part(arc_scores, n, rank, first, heads, made_from, part)
                has_tree = chu_liu_edmonds_sentence(part, n, single_root, floats, ints, tree)
                searched = found_in
                if not has_tree:
                    known[found_in] = EMPTY
                    continue
            if known[found_in] == EXACT:
                break
            known[found_in] = EXACT
            values[found_in] = min(_tree_score(arc_scores, n, tree), scores[rank])
        highest = values[found_in]
        known[found_in] = EMPTY


@inlined
def _tree_score(arc_scores: np.ndarray, n: int, tree: np.ndarray) -> float:
    total = arc_scores.dtype.type(0)
    for m in range(1, n + 1):
        total += arc_scores[tree[m], m]
    return float(total)


@compiled
def chu_liu_edmonds_kbest_batch(
    arc_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    k: int,
    scratch: ChuLiuEdmondsKBestScratch,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """The k best trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores float (B, N, N); lengths int64 (B,); heads int (B, k, N) and scores float
    (B, k): filled, with -1 and -inf where there are no more trees.
    """
    for b in range(len(lengths)):
        heads[b] = NO_HEAD
        scores[b] = -np.inf
        chu_liu_edmonds_kbest_sentence(
            arc_scores[b], lengths[b], single_root, k, scratch, heads[b], scores[b]
        )


def search_kbest(
    arcs: np.ndarray, lengths: np.ndarray, k: int, threads: int, *, single_root: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Heads (B, k, N) and scores (B, k) of checked scores, in up to `threads` threads."""
    heads = np.empty((len(arcs), k, arcs.shape[1]), np.int64)
    scores = np.empty((len(arcs), k), arcs.dtype)

    def search(piece: slice) -> None:
        longest = int(lengths[piece].max(initial=0))
        scratch = make_chu_liu_edmonds_kbest_scratch(longest, k, arcs.dtype.type)
        chu_liu_edmonds_kbest_batch(
            arcs[piece], lengths[piece], single_root, k, scratch, heads[piece], scores[piece]
        )

    # About two searches of 30 operations a cell for each tree.
    run_in_threads(search, lengths, 2, threads, worth=80_000 // max(k, 1))
    return heads, scores
