"""Exact trees with higher-order parts, crossing arcs allowed, by integer programs.

A variable x[h, m] in {0, 1} says that h is the head of m. z[h, m, s] in [0, 1] says besides that s
is the inner sibling of m, or that there is none (s == h). The sum of all parts that hold is highest
subject to

    sum over h of x[h, m] = 1                  every word has one head
    sum over s of z[h, m, s] = x[h, m]         every arc has one predecessor
    sum over m of z[h, m, s] <= x[h, s]        a modifier has at most one successor
    sum over m of z[h, m, h] <= 1              so has the head itself, on each side
    sum over h, m in C of x[h, m] <= |C| - 1   no cycle, for every set C of words

The k modifiers of a head on one side then have k predecessors further inside, among themselves and
the head, no two the same: the nearest must have the head, the next the nearest, and so on. So z is
the chain of siblings whenever x is whole, and x alone needs to be.

Grandparents: y[g, h, m] in [0, 1] says that g is the head of h and h that of m; for h = 0 there is
one pseudo head.

    sum over g of y[g, h, m] = x[h, m]         every arc has one grandparent
    y[g, h, m] <= x[g, h]                      which is the head of its head

Grand-siblings: z[h, m, s, g] stands for z[h, m, s] and y[g, h, m] together, their sum over s being
y[g, h, m], and there is a chain of siblings for every g: with y[g, h, s] and x[g, h] on the right
of the third and the fourth line.

Labels: l[h, m, d] in {0, 1} says that the arc has a label of class d, see `search.py`.

    sum over d of l[h, m, d] = x[h, m]                       every arc has one label
    sum over m and d under the limit of l[h, m, d] <= 1      for every head and limit

There are 2^n sets C; those that are broken are found by minimum cuts and added until none is. First
the relaxation, with x in [0, 1], is solved so: in most sentences its x is whole already. In the
others the cuts found are kept and the program is solved with whole x, again until no cycle is left.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from torch import Tensor

from gpuparse.errors import GpuparseError, NoTreeError
from gpuparse.inference.best_trees import chu_liu_edmonds
from gpuparse.inference.higher_order_scores import check_label_scores, check_parts
from gpuparse.inference.scores import Scores, sibling_tree_scores, tree_scores
from gpuparse.inference.search import NO_HEAD, classes_of_labels
from gpuparse.inference.tree_parts import part_tree_scores

LARGEST_COST = 1024.0  # of a variable, all scaled alike; the solver's tolerances are absolute, 1e-6
FRACTION = 1e-5  # x is whole if no variable is further from 0 and 1
CAPACITY = 10**6  # of an arc with x = 1, where cuts are looked for
SOLVED, OUT_OF_TIME, INFEASIBLE = 0, 1, 2  # the solver's states


def integer_program(
    arc_scores: Tensor,
    sibling_scores: Tensor | None,
    lengths: Tensor,
    *,
    end_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    single_root: bool = False,
    time_limit: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The best tree of every sentence of a batch, crossing arcs allowed: exact and slow.

    It measures how far approximate searches are from the optimum. Which one of several best trees
    comes back is left to the solver.

    Args:
        arc_scores, lengths: as `chu_liu_edmonds` reads them, in main memory.
        sibling_scores, end_scores: as `eisner_sibling` reads them; None: zeros.
        grandparent_scores, grand_sibling_scores: as `dual_decomposition` reads them; None: zeros.
        single_root: exactly one modifier of the root; otherwise one or more.
        time_limit: seconds on the clock for each sentence; None: no limit.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; scores (B,), as from
        `eisner_sibling`, `chu_liu_edmonds` without other parts, or `dual_decomposition` with
        grandparents; optimal bool (B,): the tree is the best one. Where the time ran out it is
        merely some tree, which may even have forbidden parts and the score -inf. Trees whose scores
        differ by less than about 1e-8 of the largest difference between two parts of one word may
        be taken for equally good.
    Raises:
        ScoreError: as the decoders named.
        NoTreeError: forbidden parts leave a sentence without any tree.
    Cost: exponential at worst; O(n^3) variables, O(n^2) constraints besides the cycles; with
    grandparents O(n^3) of both, with grand-siblings O(n^4) and O(n^3). Most often one relaxation is
    enough, in time of about n^2 for the second order: a twentieth of a second for 40 words.
    Sentences whose relaxation has fractions can take seconds.
    Source: the slides name Riedel & Clarke 2006 (cycles forbidden as met) and Martins, Smith & Xing
    2009 (sibling variables, relaxation); differs: chains of siblings as flows, minimum cuts.
    """
    given = {
        "sibling": sibling_scores, "grandparent": grandparent_scores,
        "grand_sibling": grand_sibling_scores, "end": end_scores,
    }  # fmt: skip
    parts = check_parts(arc_scores, lengths, given, may_cross=True)
    heads, optimal = _solve_all(parts, None, (), single_root, time_limit)
    if parts.grandparent is not None or parts.grand_sibling is not None:
        return heads, part_tree_scores(parts, heads), optimal
    arcs, words = parts.arc, parts.lengths
    if parts.sibling is None and parts.end is None:
        return heads, tree_scores(arcs, heads, words), optimal
    siblings, ends = parts.sibling, torch.zeros_like(arcs) if parts.end is None else parts.end
    siblings = arcs.new_zeros(*arcs.shape, arcs.shape[1]) if siblings is None else siblings
    return heads, sibling_tree_scores(arcs, siblings, ends, heads, words), optimal


def integer_program_labelled(
    arc_scores: Tensor,
    label_scores: Tensor,
    lengths: Tensor,
    *,
    limits: Sequence[Sequence[int] | set[int] | frozenset[int]],
    sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    single_root: bool = False,
    time_limit: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`integer_program` with labels, and sets of labels that a head may give at most once.

    Args:
        label_scores, limits: as in `dual_decomposition_labelled`; other arguments as in
            `integer_program`.
    Returns: heads; labels int64 (B, N), -1 at position 0, in padding, and everywhere where the time
        ran out and the limits leave the tree no labels; scores, as from
        `dual_decomposition_labelled`; optimal.
    Raises: As `integer_program` and `dual_decomposition_labelled`.
    """
    given = {
        "sibling": sibling_scores, "grandparent": grandparent_scores,
        "grand_sibling": grand_sibling_scores, "end": end_scores,
    }  # fmt: skip
    parts = check_parts(arc_scores, lengths, given, may_cross=True)
    of_labels = check_label_scores(label_scores, parts)
    class_of, masks = classes_of_labels(limits, of_labels.shape[3])
    heads, optimal = _solve_all(parts, of_labels, (class_of, masks), single_root, time_limit)
    labels, sums = torch.full_like(heads, NO_HEAD), torch.zeros(len(heads), dtype=torch.float64)
    for b, n in enumerate(parts.lengths.tolist()):
        tree = heads[b, : n + 1].tolist()
        scores = of_labels[b].tolist()
        found, sums[b] = _best_labels(scores, masks[class_of].tolist(), tree)
        for m, label in found.items():
            labels[b, m] = label
    return heads, labels, part_tree_scores(parts, heads) + sums, optimal


def _best_labels(
    scores: list[list[list[float]]], limits: list[int], heads: list[int]
) -> tuple[dict[int, int], float]:
    """The best labels of the words of a tree, each modifier tried after the others of its head.

    Args: scores: [h][m][l]. limits: of each label, as bits.
    Returns: The labels and their sum; nothing and -inf where the limits leave none.
    """
    labels: dict[int, int] = {}
    total = 0.0
    for h in range(len(heads)):
        best: dict[int, tuple[float, dict[int, int]]] = {0: (0.0, {})}  # by limits in use
        for m in (m for m in range(1, len(heads)) if heads[m] == h):
            longer: dict[int, tuple[float, dict[int, int]]] = {}
            for used, (value, chosen) in best.items():
                for label, limit in enumerate(limits):
                    new = value + scores[h][m][label]
                    old, _ = longer.get(used | limit, (-np.inf, {}))
                    if not used & limit and new > old:
                        longer[used | limit] = new, chosen | {m: label}
            best = longer
        if not best:
            return {}, -np.inf
        value, chosen = max(best.values(), key=lambda found: found[0])
        labels |= chosen
        total += value
    return labels, total


def _solve_all(
    parts: Scores,
    label_scores: Tensor | None,
    classes: tuple[np.ndarray, ...],
    single_root: bool,
    time_limit: float | None,
) -> tuple[Tensor, Tensor]:
    """Heads (B, N), and whether they are the best ones (B,)."""
    heads = torch.full(parts.arc.shape[:2], NO_HEAD)
    optimal = torch.ones(len(heads), dtype=torch.bool)
    for b, n in enumerate(parts.lengths.tolist()):
        program = _build(_of_sentence(parts, label_scores, classes, b, n), single_root)
        found, optimal[b] = _solve(program, single_root, time_limit)
        if found is None:
            raise NoTreeError(
                f"sentence {b} of the batch has no tree: too many of its parts are forbidden (-inf)"
            )
        heads[b, 1 : n + 1] = torch.from_numpy(found[1:])
    return heads, optimal


@dataclass
class _Sentence:
    """Scores of one sentence, float64; None for those that there are not.

    arcs, ends: (N, N); siblings, grandparents: (N, N, N); grand_siblings: (N, N, N, N), siblings
    and arcs included. of_classes: (N, N, D), masks: (D,), of labels.
    """

    arcs: np.ndarray
    siblings: np.ndarray | None
    ends: np.ndarray
    grandparents: np.ndarray | None
    grand_siblings: np.ndarray | None
    of_classes: np.ndarray | None
    masks: np.ndarray


def _of_sentence(
    parts: Scores, label_scores: Tensor | None, classes: tuple[np.ndarray, ...], b: int, n: int
) -> _Sentence:
    def cut(scores: Tensor | None) -> np.ndarray | None:
        if scores is None:
            return None
        inside = (slice(n + 1),) * (scores.dim() - 1)
        return scores[b][inside].numpy().astype(np.float64)

    arcs, siblings, ends = cut(parts.arc), cut(parts.sibling), cut(parts.end)
    grandparents, grand_siblings = cut(parts.grandparent), cut(parts.grand_sibling)
    assert arcs is not None
    if siblings is None and (ends is not None or grand_siblings is not None):
        siblings = np.zeros((n + 1,) * 3)
    ends = np.zeros_like(arcs) if ends is None else ends
    of_classes, masks = None, np.zeros(0, np.int64)
    if label_scores is not None:
        class_of, masks = classes
        of_labels = label_scores[b, : n + 1, : n + 1].numpy().astype(np.float64)
        of_classes = np.full((n + 1, n + 1, len(masks)), -np.inf)
        for label, d in enumerate(class_of):
            of_classes[:, :, d] = np.maximum(of_classes[:, :, d], of_labels[:, :, label])
    return _Sentence(arcs, siblings, ends, grandparents, grand_siblings, of_classes, masks)


@dataclass
class _Program:
    """Minimise costs @ v subject to low <= rows @ v <= high and 0 <= v <= 1.

    h, m: of the arcs (A,), whose x are the first A of the variables v; those of labels follow, up
    to n_whole, and then all others.
    arc: [h, m] -> number of its variable, -1 for a forbidden one. rows: sparse.
    """

    h: np.ndarray
    m: np.ndarray
    arc: np.ndarray
    n_whole: int
    costs: np.ndarray
    rows: Any
    low: np.ndarray
    high: np.ndarray


class _Rows:
    """Constraints in the making: entries (row, variable, value), and the bounds of each row."""

    def __init__(self) -> None:
        self.entries: list[tuple[np.ndarray, np.ndarray, float]] = []
        self.low: list[np.ndarray] = []
        self.high: list[np.ndarray] = []
        self.count = 0

    def add(self, low: np.ndarray, high: np.ndarray, *entries: Any) -> None:
        """Rows with these bounds; entries (row, variable, value), rows counted from 0 on."""
        self.entries += [
            (self.count + rows, variables, value) for rows, variables, value in entries
        ]
        self.low.append(low)
        self.high.append(high)
        self.count += len(low)


@dataclass
class _Variables:
    """Scores and modifiers of the variables, by kind."""

    scores: list[np.ndarray]
    modifiers: list[np.ndarray]

    def add(self, scores: np.ndarray, modifiers: np.ndarray) -> np.ndarray:
        """One more kind; the numbers of its variables."""
        first = sum(len(of_kind) for of_kind in self.scores)
        self.scores.append(scores)
        self.modifiers.append(modifiers)
        return first + np.arange(len(scores))


def _build(sentence: _Sentence, single_root: bool) -> _Program:
    """The program of one sentence, but for the cycles."""
    arcs = sentence.arcs
    n_nodes = len(arcs)
    allowed = np.isfinite(arcs) & ~np.eye(n_nodes, dtype=bool)
    allowed[:, 0] = False
    h, m = np.nonzero(allowed)
    arc = np.full(arcs.shape, -1)
    arc[h, m] = np.arange(len(h))
    ends = sentence.ends[h, m]
    has_chains = sentence.siblings is not None
    of_arcs = np.where(np.isfinite(ends), ends, 0.0) if has_chains else arcs[h, m]
    variables, rows = _Variables([], []), _Rows()
    x = variables.add(of_arcs, m)
    one = np.ones(n_nodes - 1)
    rows.add(one, one, (m - 1, x, 1.0))
    if single_root:
        rows.add(np.ones(1), np.ones(1), (np.zeros((h == 0).sum(), np.int64), x[h == 0], 1.0))
    if sentence.of_classes is not None:
        _add_labels(sentence, h, m, arc, variables, rows)
    n_whole = sum(len(of_kind) for of_kind in variables.scores)
    if sentence.grand_siblings is not None:
        _add_grand_chains(sentence, allowed, arc, variables, rows)
    else:
        if has_chains:
            _add_chains(sentence, allowed, arc, variables, rows)
        if sentence.grandparents is not None:
            _add_grandparents(sentence.grandparents, allowed, arc, variables, rows)
    scores = np.concatenate(variables.scores)
    costs = _costs(scores, variables.modifiers)
    matrix = _sparse(rows.entries, rows.count, len(costs))
    low, high = np.concatenate(rows.low), np.concatenate(rows.high)
    return _Program(h, m, arc, n_whole, costs, matrix, low, high)


def _add_labels(
    sentence: _Sentence,
    h: np.ndarray,
    m: np.ndarray,
    arc: np.ndarray,
    variables: _Variables,
    rows: _Rows,
) -> None:
    """l of every arc and class."""
    assert sentence.of_classes is not None
    of_arcs = sentence.of_classes[h, m]
    a, d = np.nonzero(np.isfinite(of_arcs))
    labels = variables.add(of_arcs[a, d], m[a])
    none = np.zeros(len(h))
    rows.add(none, none, (np.arange(len(h)), np.arange(len(h)), -1.0), (a, labels, 1.0))
    for k in range(int(sentence.masks.max(initial=0)).bit_length()):
        is_under = (sentence.masks[d] >> k) & 1 == 1
        at_most = np.full(len(arc), -np.inf), np.ones(len(arc))
        rows.add(*at_most, (h[a[is_under]], labels[is_under], 1.0))


def _add_grandparents(
    grandparents: np.ndarray,
    allowed: np.ndarray,
    arc: np.ndarray,
    variables: _Variables,
    rows: _Rows,
) -> None:
    """y of every arc and head of its head."""
    _, m, g = np.ogrid[tuple(slice(size) for size in grandparents.shape)]
    above = _heads_of_heads(allowed)
    part_h, part_m, part_g = np.nonzero(
        allowed[:, :, None] & above[:, None, :] & (g != m) & np.isfinite(grandparents)
    )
    y = variables.add(grandparents[part_h, part_m, part_g], part_m)
    n_arcs = arc.max() + 1
    x, none = np.arange(n_arcs), np.zeros(n_arcs)
    rows.add(none, none, (x, x, -1.0), (arc[part_h, part_m], y, 1.0))
    below = part_h > 0
    row = np.arange(below.sum())
    over = arc[part_g[below], part_h[below]]
    at_most = np.full(len(row), -np.inf), np.zeros(len(row))
    rows.add(*at_most, (row, y[below], 1.0), (row, over, -1.0))


def _heads_of_heads(allowed: np.ndarray) -> np.ndarray:
    """bool [h, g]: whether g may be the head of h; for h = 0 only g = 0 is."""
    above = allowed.T.copy()
    above[0] = False
    above[0, 0] = True
    return above


def _add_chains(
    sentence: _Sentence, allowed: np.ndarray, arc: np.ndarray, variables: _Variables, rows: _Rows
) -> None:
    """z of every arc and inner sibling; the arcs' own scores are with them."""
    assert sentence.siblings is not None
    h, m, s = _parts(sentence.siblings, allowed)
    inner = s != h
    # The end of an arc is scored with the arc, and taken back from what makes it an inner
    # sibling; a forbidden end takes no slack instead.
    may_end = np.isfinite(sentence.ends)
    scores = sentence.arcs[h, m] + sentence.siblings[h, m, s]
    scores[inner] -= np.where(may_end, sentence.ends, 0.0)[h[inner], s[inner]]
    z = variables.add(scores, m)
    n_arcs, n_nodes = arc.max() + 1, len(arc)
    x, none = np.arange(n_arcs), np.zeros(n_arcs)
    rows.add(none, none, (x, x, -1.0), (arc[h, m], z, 1.0))
    least = np.where(may_end[arc >= 0], -np.inf, 0.0)
    rows.add(least, none, (x, x, -1.0), (arc[h[inner], s[inner]], z[inner], 1.0))
    first = 2 * h + (m > h)
    at_most = np.full(2 * n_nodes, -np.inf), np.ones(2 * n_nodes)
    rows.add(*at_most, (first[~inner], z[~inner], 1.0))


def _add_grand_chains(
    sentence: _Sentence, allowed: np.ndarray, arc: np.ndarray, variables: _Variables, rows: _Rows
) -> None:
    """y of every arc and head of its head, z of both with an inner sibling."""
    assert sentence.siblings is not None
    assert sentence.grand_siblings is not None
    n_arcs = arc.max() + 1
    grandparents = sentence.grandparents
    if grandparents is None:
        grandparents = np.zeros_like(sentence.siblings)
    before = sum(len(of_kind) for of_kind in variables.scores)
    _add_grandparents(grandparents, allowed, arc, variables, rows)
    n_pairs = len(variables.scores[-1])
    # The number of y by h, m and g, found again as _add_grandparents put them: in order.
    _, m, g = np.ogrid[tuple(slice(size) for size in grandparents.shape)]
    is_pair = allowed[:, :, None] & _heads_of_heads(allowed)[:, None, :] & (g != m)
    is_pair &= np.isfinite(grandparents)
    pair = np.full(is_pair.shape, -1)
    pair[is_pair] = np.arange(n_pairs)
    part_h, part_m, part_s = _parts(sentence.siblings, allowed)
    scores = sentence.grand_siblings[part_h, part_m, part_s]  # by g
    has_part = np.isfinite(scores) & (pair[part_h, part_m] >= 0)
    inner = part_s != part_h
    has_part[inner] &= pair[part_h, part_s][inner] >= 0
    part, part_g = np.nonzero(has_part)
    part_h, part_m, part_s, inner = part_h[part], part_m[part], part_s[part], inner[part]
    may_end = np.isfinite(sentence.ends)
    of_parts = scores[part, part_g] + sentence.arcs[part_h, part_m]
    of_parts = of_parts + sentence.siblings[part_h, part_m, part_s]
    of_parts[inner] -= np.where(may_end, sentence.ends, 0.0)[part_h[inner], part_s[inner]]
    z = variables.add(of_parts, part_m)
    y, none = np.arange(n_pairs), np.zeros(n_pairs)
    rows.add(none, none, (y, before + y, -1.0), (pair[part_h, part_m, part_g], z, 1.0))
    least = np.where(np.broadcast_to(may_end[:, :, None], is_pair.shape)[is_pair], -np.inf, 0.0)
    successor = pair[part_h[inner], part_s[inner], part_g[inner]]
    rows.add(least, none, (y, before + y, -1.0), (successor, z[inner], 1.0))
    # The first modifiers of each side: at most one, and only under the head that h has.
    of_root = part_h == 0
    first = 2 * np.where(of_root, n_arcs, arc[part_g, part_h]) + (part_m > part_h)
    at_most = np.append(np.zeros(2 * n_arcs), np.ones(2))
    x = np.arange(2 * n_arcs)
    rows.add(
        np.full(len(at_most), -np.inf), at_most, (first[~inner], z[~inner], 1.0), (x, x // 2, -1.0)
    )


def _parts(siblings: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """h, m, s of all sibling parts that are not forbidden, nor one of their arcs."""
    h, m, s = np.ogrid[tuple(slice(size) for size in siblings.shape)]
    between = ((h < s) & (s < m)) | ((m < s) & (s < h))
    is_part = (s == h) | (between & allowed[:, None, :])
    found = np.nonzero(is_part & allowed[:, :, None] & np.isfinite(siblings))
    return found[0], found[1], found[2]


def _costs(scores: np.ndarray, modifiers: list[np.ndarray]) -> np.ndarray:
    """The loss of each variable against the best one of its kind and modifier, scaled.

    A word has exactly one variable of each kind, so a constant for each modifier changes nothing.
    """
    costs, first = np.zeros(len(scores)), 0
    for of_kind in modifiers:
        kind = slice(first, first + len(of_kind))
        best = np.full(of_kind.max(initial=0) + 1, -np.inf)
        np.maximum.at(best, of_kind, scores[kind])
        costs[kind] = best[of_kind] - scores[kind]
        first += len(of_kind)
    largest = costs.max(initial=0.0)
    return costs * LARGEST_COST / largest if largest > 0 else costs


def _sparse(
    entries: list[tuple[np.ndarray, np.ndarray, float]], n_rows: int, n_columns: int
) -> Any:
    rows = np.concatenate([rows for rows, _, _ in entries])
    columns = np.concatenate([columns for _, columns, _ in entries])
    values = np.concatenate([np.full(len(rows), value) for rows, _, value in entries])
    return csr_array((values, (rows, columns)), shape=(n_rows, n_columns))


def _solve(
    program: _Program, single_root: bool, time_limit: float | None
) -> tuple[np.ndarray | None, bool]:
    """heads (N,) or None if there is no tree; whether the tree is the best one."""
    n_nodes = len(program.arc)
    if not len(program.h):
        return (None if n_nodes > 1 else np.full(1, NO_HEAD)), True
    deadline = math.inf if time_limit is None else time.perf_counter() + time_limit
    met = np.zeros(len(program.h))  # the last x
    is_whole = False
    while True:
        status, wanted = _optimum(program, is_whole, deadline)
        if status == INFEASIBLE:
            return None, True
        x = None if wanted is None else wanted[: len(program.h)]
        met = met if x is None else x
        if status == OUT_OF_TIME or x is None or wanted is None:
            return _tree_near(program, met, single_root), False
        cycles = _broken_cuts(program, x)
        if cycles:
            _forbid(program, cycles)
        elif is_whole or np.abs(wanted - np.round(wanted)).max() <= FRACTION:
            heads = np.full(n_nodes, NO_HEAD)
            chosen = x > 0.5
            heads[program.m[chosen]] = program.h[chosen]
            return heads, True
        else:
            is_whole = True


def _optimum(program: _Program, is_whole: bool, deadline: float) -> tuple[int, np.ndarray | None]:
    """The solver's state and the variables that must be whole; None if it met none.

    Raises: GpuparseError: the solver gave up.
    """
    # No gap between the best tree and the bound: the solver would stop at 1e-4 of the score.
    # Simplifying the relaxation beforehand takes three times as long as solving it.
    options: dict[str, Any] = {"mip_rel_gap": 0.0, "presolve": is_whole}
    if deadline < math.inf:
        options["time_limit"] = deadline - time.perf_counter()
        if options["time_limit"] <= 0:
            return OUT_OF_TIME, None
    needs_whole = np.zeros(len(program.costs))
    needs_whole[: program.n_whole] = is_whole
    found = milp(
        program.costs,
        integrality=needs_whole,
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(program.rows, program.low, program.high),
        options=options,
    )
    if found.status not in (SOLVED, OUT_OF_TIME, INFEASIBLE):
        raise GpuparseError(f"the solver of integer programs gave up: {found.message}")
    return found.status, None if found.x is None else found.x[: program.n_whole]


def _broken_cuts(program: _Program, x: np.ndarray) -> list[np.ndarray]:
    """Sets of words into which less than one arc leads, one for each word that is in any.

    The cut closest to the word is taken: a small set has a short constraint.
    """
    n_nodes = len(program.arc)
    capacity = np.zeros((n_nodes, n_nodes), np.int32)
    capacity[program.h, program.m] = np.round(CAPACITY * x)
    graph = csr_array(capacity)
    found: dict[bytes, np.ndarray] = {}
    for m in range(1, n_nodes):
        flow = maximum_flow(graph, 0, m)
        # Rounding loses less than one unit for each arc of the cut.
        if flow.flow_value < CAPACITY - n_nodes * n_nodes:
            has_room = capacity > flow.flow.toarray()
            inside = breadth_first_order(csr_array(has_room.T), m, return_predecessors=False)
            words = np.sort(inside)
            found[words.tobytes()] = words
    return list(found.values())


def _forbid(program: _Program, cycles: list[np.ndarray]) -> None:
    """Add a row for each set of words: fewer arcs within it than words."""
    within = [program.arc[np.ix_(words, words)] for words in cycles]
    entries = [
        (np.full((numbers >= 0).sum(), row), numbers[numbers >= 0], 1.0)
        for row, numbers in enumerate(within)
    ]
    added = _sparse(entries, len(cycles), len(program.costs))
    program.rows = vstack([program.rows, added], format="csr")
    program.low = np.append(program.low, np.full(len(cycles), -np.inf))
    program.high = np.append(program.high, [len(words) - 1.0 for words in cycles])


def _tree_near(program: _Program, x: np.ndarray, single_root: bool) -> np.ndarray | None:
    """heads (N,) of the tree with the largest sum of x; None if its arcs allow no tree."""
    weights = np.full((1, *program.arc.shape), -np.inf)
    weights[0, program.h, program.m] = x
    try:
        heads, _ = chu_liu_edmonds(
            torch.from_numpy(weights), torch.tensor([len(program.arc) - 1]), single_root=single_root
        )
    except NoTreeError:
        return None
    return heads[0].numpy()
