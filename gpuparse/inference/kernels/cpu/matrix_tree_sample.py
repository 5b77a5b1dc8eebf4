"""Exact random trees, crossing arcs allowed, from the elimination of `matrix_tree`; compiled.

Words n, n-1, ..., 2 are eliminated, then put back one by one, 2 first, each into a random tree over
the words before it. Every arc h -> m of that tree stands for the arc itself or for a way through an
eliminated word: w[h, m] + sum over e of w[h, e] w[e, m] / T[e], e > max(h, m). One term is drawn by
its share when the arc is made. Now e comes back. Where a way through e was drawn, m hangs on e. The
head of e is then drawn, by w[h, e], from the words that still hang on the root: all of them if
nothing hangs on e. That is exact: over the ways in which the words below e can have been attached
to the rest and to each other, the products of w[h, e] / T[e] sum to the share of T[e] that leads to
the root's part (the same identity that makes the determinant a sum over trees). Each new arc stands
for sums in turn.

Unlike walks that erase their loops (Wilson 1996), it takes O(n^2) draws at the worst, even where
some cycle outweighs every tree. Numbers are logarithms; powers of t as in `matrix_tree`.
"""

import numpy as np
import torch

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.matrix_tree import (
    fill_shifts,
    fill_weights,
    log_of_sum,
    log_total,
    pass_on_in_logs,
)
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads
from gpuparse.tensors import NO_HEAD


@inlined
def _mixed(state: np.uint64) -> np.uint64:
    """The finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def _uniform(state: np.ndarray) -> float:
    """The next number in [0, 1) of SplitMix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(_mixed(state[0]) >> np.uint64(11)) * 2.0**-53


@compiled
def _draw(terms: np.ndarray, late: np.ndarray, count: int, state: np.ndarray) -> int:
    """An index below `count` by exp(terms), among those with the lowest power of t."""
    total, is_late = -np.inf, True
    for i in range(count):
        if terms[i] > -np.inf and (total == -np.inf or (is_late and not late[i])):
            total, is_late = terms[i], late[i]
        elif late[i] == is_late:
            total = log_of_sum(total, terms[i])
    left, chosen = _uniform(state), -1
    for i in range(count):
        if terms[i] > -np.inf and late[i] == is_late:
            chosen = i
            left -= np.exp(terms[i] - total)
            if left < 0.0:
                break
    return chosen


@compiled
def _eliminate_all(
    weights: np.ndarray, late: np.ndarray, n: int, totals: np.ndarray, pull_late: np.ndarray
) -> bool:
    """Eliminate words n..2, each where it stands; False if there is no tree."""
    for e in range(n - 1, 0, -1):
        total, is_late = log_total(weights, late, e)
        if total == -np.inf:
            return False
        totals[e], pull_late[e] = total, late[e] and not is_late
        pass_on_in_logs(weights, late, e, total, pull_late[e])
    return bool(weights[0, 0] > -np.inf)


@compiled
def _draw_way(
    h: int,
    m: int,
    n: int,
    original: np.ndarray,
    weights: np.ndarray,
    totals: np.ndarray,
    pull_late: np.ndarray,
    single_root: bool,
    terms: np.ndarray,
    late: np.ndarray,
    state: np.ndarray,
) -> int:
    """What the arc h -> m stands for: the word that it leads through, or 0 for the arc itself."""
    first = max(h, m)
    terms[0], late[0] = original[h, m - 1], h == 0 and single_root
    for e in range(first + 1, n + 1):
        way = weights[h, e - 1] + weights[e, m - 1]
        terms[e - first] = way - totals[e - 1] if way > -np.inf else -np.inf
        late[e - first] = h == 0 and pull_late[e - 1]
    chosen = _draw(terms, late, n - first + 1, state)
    return first + chosen if chosen > 0 else 0


@inlined
def _mark_cut_off(heads: np.ndarray, way: np.ndarray, e: int, cut: np.ndarray) -> bool:
    """cut[m] of the words before e: 1 if m, or a word above it, has a way through e, 2 if not."""
    any_cut = False
    for m in range(1, e):
        cut[m] = 1 if way[m] == e else 0
        any_cut |= way[m] == e
    cut[0] = 2
    for m in range(1, e):
        u = m
        while cut[u] == 0:
            u = heads[u]
        found, u = cut[u], m
        while cut[u] == 0:
            cut[u] = found
            u = heads[u]
    return any_cut


@compiled
def _put_back(
    n: int,
    single_root: bool,
    original: np.ndarray,
    weights: np.ndarray,
    totals: np.ndarray,
    late: np.ndarray,
    pull_late: np.ndarray,
    way: np.ndarray,
    cut: np.ndarray,
    terms: np.ndarray,
    terms_late: np.ndarray,
    state: np.ndarray,
    heads: np.ndarray,
) -> None:
    """One random tree from the eliminated weights."""
    for e in range(1, n + 1):
        any_cut = _mark_cut_off(heads, way, e, cut)
        for h in range(e):
            terms[h] = weights[h, e - 1] if cut[h] == 2 else -np.inf
            terms_late[h] = h == 0 and late[e - 1]
        h = _draw(terms, terms_late, e, state)
        if any_cut:
            for m in range(1, e):
                if way[m] == e:
                    heads[m] = e
                    way[m] = _draw_way(
                        e, m, n, original, weights, totals, pull_late, single_root, terms,
                        terms_late, state,
                    )  # fmt: skip
        heads[e] = h
        way[e] = _draw_way(
            h, e, n, original, weights, totals, pull_late, single_root, terms, terms_late, state
        )


@compiled
def _sample_batch(
    scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    seeds: np.ndarray,
    heads: np.ndarray,
    has_tree: np.ndarray,
) -> None:
    n_nodes = scores.shape[1]
    original, weights = np.empty((n_nodes, n_nodes)), np.empty((n_nodes, n_nodes))
    shifts, totals, terms = np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)
    late, pull_late, terms_late = (
        np.empty(n_nodes, np.bool_), np.empty(n_nodes, np.bool_), np.empty(n_nodes, np.bool_)
    )  # fmt: skip
    places, way, cut = (
        np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    )  # fmt: skip
    state = np.empty(1, np.uint64)
    for b in range(len(lengths)):
        n = lengths[b]
        has_tree[b] = True
        if n == 0:
            continue
        width, _ = fill_shifts(scores[b], n, single_root, shifts)
        has_tree[b] = width < np.inf
        if not has_tree[b]:
            continue
        fill_weights(scores[b], n, shifts, True, single_root, original, places, late)
        weights[:] = original
        has_tree[b] = _eliminate_all(weights, late, n, totals, pull_late)
        for s in range(heads.shape[1] if has_tree[b] else 0):
            state[0] = _mixed(np.uint64(seeds[b]) + np.uint64(s) * np.uint64(0xD1342543DE82EF95))
            tree = heads[b, s]
            way[: n + 1] = 0
            _put_back(
                n, single_root, original, weights, totals, late, pull_late, way, cut, terms,
                terms_late, state, tree,
            )  # fmt: skip
            n_roots = 0
            for m in range(1, n + 1):
                n_roots += tree[m] == 0
            if single_root and n_roots > 1:
                has_tree[b] = False
                break


def sample_batch(
    scores: np.ndarray,
    lengths: np.ndarray,
    n_samples: int,
    seeds: np.ndarray,
    *,
    single_root: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Heads int64 (B, n_samples, N) of random trees, and whether a sentence has any (B,).

    Args:
        scores: float64 (B, N, N), C order, checked; lengths: int64 (B,).
        seeds: int64 (B,): sample s of sentence b depends on its scores, seeds[b] and s alone.
    """
    heads = np.full((len(scores), n_samples, scores.shape[1]), NO_HEAD, np.int64)
    has_tree = np.empty(len(scores), np.bool_)

    def work(part: slice) -> None:
        _sample_batch(
            scores[part], lengths[part], single_root, seeds[part], heads[part], has_tree[part]
        )

    run_in_threads(work, lengths, 3, torch.get_num_threads(), worth=WORTH_A_THREAD // 10)
    return heads, has_tree
