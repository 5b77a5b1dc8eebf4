"""The native functions of this folder in Python, NumPy and torch, for machines without native code.

Each has the name and the arguments of the function that native/api/exact_trees.h, higher.h or
single_changes.h declares, and writes to the same arrays; `native.call` calls it where there is no
native code. Most searches have torch forms, which public functions choose before they come here:
here is what has none.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import NoTreeError
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.support import CROSSING
from gpuparse.inference.textbook import projective, spanning_trees

SAMPLES_AT_ONCE = 64


def find_trees_batch(
    decoder: int, arc: Any, sibling: np.ndarray | None, end: Any, lengths: np.ndarray,
    single_root: bool, heads: np.ndarray, totals: np.ndarray,
) -> int:  # fmt: skip
    """The best trees by the torch form of a decoder, or the k best by the textbook form."""
    siblings, row = _by_sentence(sibling, arc), list(DECODERS.values())[decoder]
    heads[:], totals[:] = NO_HEAD, -np.inf
    if heads.shape[1] == 1:
        parts = [
            torch.from_numpy(part) for part in (arc, siblings, end, lengths) if part is not None
        ]
        found = row.tensor_function("torch")(*parts, single_root=single_root)
        heads[:, 0], totals[:, 0] = (x.numpy() for x in found)
        return _first_without_tree(totals[:, 0])
    search = getattr(projective if row.is_projective else spanning_trees, f"{row.name}_kbest")
    for b, n in enumerate(lengths.tolist()):
        nodes = slice(n + 1)
        parts = [arc[b, nodes, nodes], heads.shape[1]]
        if siblings is not None:
            parts[1:] = siblings[b, nodes, nodes, nodes], heads.shape[1], end[b, nodes, nodes]
        try:
            trees, scores = search(*parts, single_root=single_root)
        except NoTreeError:
            continue
        heads[b, : len(trees), : n + 1], totals[b, : len(trees)] = trees, scores
    return _first_without_tree(totals[:, 0])


def _first_without_tree(totals: np.ndarray) -> int:
    """What the native functions return: the first sentence without a tree, or -1."""
    missing = np.flatnonzero(totals == -np.inf)
    return int(missing[0]) if len(missing) else -1


def _by_sentence(sibling: np.ndarray | None, arc: np.ndarray) -> Any:
    """Sibling scores (B N, N, N) as (B, N, N, N)."""
    return None if sibling is None else sibling.reshape(*arc.shape, arc.shape[1])


def draw_trees_batch(
    decoder: int, arc: np.ndarray, sibling: np.ndarray | None, end: Any, lengths: np.ndarray,
    single_root: bool, seeds: np.ndarray, heads: np.ndarray, log_partitions: np.ndarray,
) -> int:  # fmt: skip
    """Random trees; log-partitions are 0, or -inf without a tree."""
    siblings, row = _by_sentence(sibling, arc), list(DECODERS.values())[decoder]

    def marginals(b: int, n: int, arcs: Tensor) -> Tensor:
        words, others, options = torch.full((len(arcs),), n), [], {}
        if siblings is not None:
            others, options["end_scores"] = (
                [torch.from_numpy(siblings[b][(slice(n + 1),) * 3]).expand(len(arcs), -1, -1, -1)],
                torch.from_numpy(end[b, : n + 1, : n + 1]).expand(len(arcs), -1, -1),
            )
        search = row.function("marginals")
        found: Tensor = search(
            arcs, *others, words, single_root=single_root, backend="torch", **options
        )
        return found

    log_partitions[:] = 0.0
    _sample(arc, lengths, seeds, marginals, heads, log_partitions)
    return _first_without_tree(log_partitions)


def _sample(
    arc: np.ndarray,
    lengths: np.ndarray,
    seeds: np.ndarray,
    marginals: Callable[[int, int, Tensor], Tensor],
    heads: np.ndarray,
    log_partitions: np.ndarray,
) -> None:
    """Draw a head for one word after the other, by the marginals of trees with the heads drawn.

    Args:
        marginals: of sentence b of n words, under arc scores (S, N, N).
        log_partitions: -inf where there is no tree; others are left as they are.
    """
    heads[:] = NO_HEAD
    for b, n in enumerate(lengths.tolist()):
        given, nodes = torch.from_numpy(arc[b, : n + 1, : n + 1]), torch.arange(n + 1)
        try:
            first = marginals(b, n, given[None])
        except NoTreeError:
            log_partitions[b] = -np.inf
            continue
        draws = [_uniform(seeds[b], s, n) for s in range(heads.shape[1])]
        for low in range(0, len(draws), SAMPLES_AT_ONCE):
            of_part = torch.from_numpy(np.array(draws[low : low + SAMPLES_AT_ONCE]))
            arcs, found = given.repeat(len(of_part), 1, 1), first.expand(len(of_part), -1, -1)
            for m in range(1, n + 1):
                found = marginals(b, n, arcs) if m > 1 else found
                below = found[:, :, m].cumsum(1)
                drawn = (below <= of_part[:, m - 1, None] * below[:, -1:]).sum(1).clamp(max=n)
                heads[b, low : low + len(drawn), m] = drawn.numpy()
                arcs[:, :, m].masked_fill_(nodes != drawn[:, None], -torch.inf)


def _uniform(seed: int, s: int, n: int) -> np.ndarray:
    """Numbers from 0 to 1 for the n words of sample s."""
    return np.random.default_rng([int(seed) % (1 << 64), s]).random(n)


def hill_climb_batch(
    arc: np.ndarray, sibling: np.ndarray, end: np.ndarray, lengths: np.ndarray, limits: Any,
    heads: np.ndarray, totals: np.ndarray, changes: np.ndarray,
) -> int:  # fmt: skip
    """Improve trees by single changes of head; as native/hill_climb.h, one gain at a time."""
    for b, parts in enumerate(_sentences(arc, sibling, end, lengths)):
        tree = heads[b, : len(parts[0])].tolist()
        changes[b] = 0
        score = totals[b] = projective.sibling_tree_score(parts[0], parts[1], tree, parts[2])
        while score > -np.inf and changes[b] != limits.max_changes:
            change = _best_change_of_tree(_gains(*parts, _arcs_of(tree)), tree, limits)
            if change is None:
                break
            m, h = change
            changed = [*tree[:m], h, *tree[m + 1 :]]
            raised = projective.sibling_tree_score(parts[0], parts[1], changed, parts[2])
            if not raised > score + limits.min_gain:
                break  # all that is left is rounding, which could go round in circles
            tree, score = changed, raised
            changes[b] += 1
        heads[b, : len(tree)], totals[b] = tree, score
    return native.OK


def multi_parent_batch(
    arc: np.ndarray, sibling: np.ndarray, end: np.ndarray, lengths: np.ndarray, limits: Any,
    heads: np.ndarray, arcs: np.ndarray, totals: np.ndarray,
) -> int:  # fmt: skip
    """From trees to graphs by single changes; as native/multi_parent.h, one gain at a time."""
    arcs[:] = False
    for b, parts in enumerate(_sentences(arc, sibling, end, lengths)):
        graph = _arcs_of(heads[b, : len(parts[0])].tolist())
        score, n_changes = _graph_score(parts, graph), 0
        while score > -np.inf and n_changes != limits.max_changes:
            changed = _best_change_of_graph(_gains(*parts, graph), graph, limits)
            if changed is None:
                break
            raised = _graph_score(parts, changed)
            if not raised > score + limits.min_gain:
                break
            graph, score, n_changes = changed, raised, n_changes + 1
        arcs[b, : len(graph), : len(graph)], totals[b] = graph, score
    return native.OK


Parts = tuple[Any, Any, Any]
"""Scores of a sentence of N - 1 words: arcs (N, N), siblings (N, N, N), ends (N, N)."""


def _sentences(
    arc: np.ndarray, sibling: np.ndarray, end: np.ndarray, lengths: np.ndarray
) -> Iterator[Parts]:
    siblings = _by_sentence(sibling, arc)
    for b, n in enumerate(lengths.tolist()):
        nodes = slice(n + 1)
        yield arc[b, nodes, nodes], siblings[b, nodes, nodes, nodes], end[b, nodes, nodes]


def _arcs_of(tree: list[int]) -> np.ndarray:
    """(N, N) bool, [h, m]."""
    arcs = np.zeros((len(tree), len(tree)), np.bool_)
    arcs[tree[1:], np.arange(1, len(tree))] = True
    return arcs


def _graph_score(parts: Parts, graph: np.ndarray) -> Any:
    arcs = {(h, m) for h, m in np.argwhere(graph).tolist()}
    return spanning_trees.sibling_graph_score(parts[0], parts[1], arcs, parts[2])


def _gains(arc: np.ndarray, sibling: np.ndarray, end: np.ndarray, graph: np.ndarray) -> np.ndarray:
    """(N, N), [h, m]: what an absent arc adds to the score, what the removal of a present one adds.

    -inf on the diagonal and in column 0. Only the chain of modifiers of that head on that side is
    different afterwards: as native/arc_gains.h.
    """
    n_nodes = len(graph)
    node, h = np.arange(n_nodes), np.arange(n_nodes)[:, None]
    is_right = node > h
    right = graph & is_right
    left = graph & (node < h)
    # The modifier of h just inside m, or h, and just beyond m, or -1
    inner_right = _shifted(np.maximum.accumulate(np.where(right, node, -1), 1), 1, -1)
    inner_left = _shifted(_from_right(np.minimum, np.where(left, node, n_nodes)), -1, n_nodes)
    inner = np.where(is_right, inner_right, np.where(inner_left < n_nodes, inner_left, -1))
    inner = np.where(inner < 0, h, inner)
    next_right = _shifted(_from_right(np.minimum, np.where(right, node, n_nodes)), -1, n_nodes)
    next_left = _shifted(np.maximum.accumulate(np.where(left, node, -1), 1), 1, -1)
    beyond = np.where(is_right, np.where(next_right < n_nodes, next_right, -1), next_left)
    has_next = beyond >= 0
    following = np.where(has_next, beyond, h)
    zero = arc.dtype.type(0)
    with np.errstate(invalid="ignore"):  # cells that no tree has may hold anything
        of_end = np.where(inner == h, zero, end[h, inner])
        instead = np.where(has_next, sibling[h, following, inner], of_end)
        afterwards = np.where(has_next, sibling[h, following, node], end)
        at = sibling[h, node, inner]
        gains = np.where(
            graph, (-arc - at) + (instead - afterwards), (arc + at) + (afterwards - instead)
        )
    gains[(node == h) | (node == 0)] = -np.inf
    return gains


def _from_right(function: np.ufunc, values: np.ndarray) -> np.ndarray:
    return function.accumulate(values[:, ::-1], 1)[:, ::-1]


def _shifted(values: np.ndarray, by: int, first: int) -> np.ndarray:
    """Values one place to the right or left."""
    moved = np.full_like(values, first)
    if by > 0:
        moved[:, 1:] = values[:, :-1]
    else:
        moved[:, :-1] = values[:, 1:]
    return moved


def _by_gain(gains: np.ndarray, min_gain: float) -> Iterator[tuple[int, int]]:
    """(m, h) of the gains [h, m] above the least one: the highest first, then by m and h."""
    at = np.argwhere(gains.dtype.type(min_gain) < gains.T)
    order = np.argsort(-gains.T[at[:, 0], at[:, 1]], kind="stable")
    yield from ((m, h) for m, h in at[order].tolist())


def _best_change_of_tree(gains: np.ndarray, tree: list[int], limits: Any) -> tuple[int, int] | None:
    """The word and its new head of the highest gain, without a cycle; None if there is none."""
    node = np.arange(1, len(tree))
    total = gains.copy()
    total[:, 1:] += gains[tree[1:], node]
    total[tree[1:], node] = -np.inf
    if limits.single_root:
        total[0] = -np.inf
    for m, h in _by_gain(total, limits.min_gain):
        above = h
        while above > 0 and above != m:
            above = tree[above]
        if above != m:
            return m, h
    return None


def _best_change_of_graph(gains: np.ndarray, graph: np.ndarray, limits: Any) -> np.ndarray | None:
    """The graph after the change of the highest gain, without a cycle; None if there is none."""
    n_heads, removals = graph.sum(0), np.where(graph, gains, -np.inf)
    old = removals.argmax(0)
    replacing = gains + removals.max(0).astype(gains.dtype)
    total = np.maximum(replacing, gains)
    total[0] = replacing[0]
    total[0, n_heads != (0 if limits.single_root else 1)] = -np.inf
    total[graph] = -np.inf
    for m, h in _by_gain(total, limits.min_gain):
        above, todo = {h}, [h]
        while todo and m not in above:
            further = set(np.flatnonzero(graph[:, todo.pop()]).tolist()) - above
            above |= further
            todo += further
        if m in above:
            continue
        changed = graph.copy()
        changed[h, m] = True
        if h == 0 or not gains[h, m] > replacing[h, m]:
            changed[old[m], m] = False
        return changed
    return None


def find_tree_faults(
    heads: np.ndarray, lengths: np.ndarray, single_root: bool, is_projective: bool,
    is_partial: bool, faults: np.ndarray, words: np.ndarray,
) -> int:  # fmt: skip
    """The first fault of each tree, and its word."""
    for r, n in enumerate(lengths.tolist()):
        tree = heads[r, 1 : n + 1]
        one = np.array([0, n]), np.zeros(1, np.int32), np.zeros(1, np.int32)
        native.call(
            "check_sentences", tree.clip(-2, n + 1).astype(np.int32), one[0], single_root,
            is_partial, *one[1:],
        )  # fmt: skip
        faults[r], words[r] = one[1][0], one[2][0]
        if not faults[r] and is_projective and (tree >= 0).all():
            marks = np.zeros(n, np.bool_)
            native.call("mark_nonprojective", tree.astype(np.int32), one[0], marks)
            if marks.any():
                faults[r], words[r] = CROSSING, marks.argmax() + 1
    return native.OK


def find_bad_tree(heads: np.ndarray, lengths: np.ndarray, single_root: bool) -> int:
    """The first sentence whose heads are no tree, -1 if there is none."""
    for b, n in enumerate(lengths.tolist()):
        tree = heads[b, 1 : n + 1].tolist()
        is_bad = any(not 0 <= h <= n for h in tree) or (single_root and tree.count(0) > 1)
        if is_bad or spanning_trees.has_cycle({(h, m) for m, h in enumerate(tree, 1)}):
            return b
    return -1


FUNCTIONS: dict[str, Callable[..., int]] = {
    function.__name__: function
    for function in (
        find_trees_batch, draw_trees_batch, hill_climb_batch, multi_parent_batch, find_bad_tree,
        find_tree_faults,
    )
}  # fmt: skip
