"""Exact second-order trees, crossing arcs allowed, as integer programs: the public function.

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

There are 2^n sets C; those that are broken are found by minimum cuts and added until none is. First
the relaxation, with x in [0, 1], is solved so: in most sentences its x is whole already. In the
others the cuts found are kept and the program is solved with whole x, again until no cycle is left.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuparse.errors import ConfigError, GpuparseError, NoTreeError
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.scores import (
    check_scores,
    check_sibling_scores,
    sibling_tree_scores,
    tree_scores,
)
from gpuparse.tensors import NO_HEAD

LARGEST_COST = 1024.0  # of a variable, all scaled alike; the solver's tolerances are absolute, 1e-6
FRACTION = 1e-5  # x is whole if no variable is further from 0 and 1
CAPACITY = 10**6  # of an arc with x = 1, where cuts are looked for
SOLVED, OUT_OF_TIME, INFEASIBLE = 0, 1, 2  # the solver's marks


def integer_program(
    arc_scores: Tensor,
    sibling_scores: Tensor | None,
    lengths: Tensor,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    time_limit: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The best tree of every sentence of a batch, crossing arcs allowed: exact and slow.

    It measures how far approximate searches are from the optimum. Which one of several best trees
    comes back is left to the solver.

    Args:
        arc_scores, lengths: as `chu_liu_edmonds` reads them, in main memory.
        sibling_scores, end_scores: as `eisner_sibling` reads them; None: first order, no ends.
        single_root: exactly one modifier of the root; otherwise one or more.
        time_limit: seconds on the clock for each sentence; None: no limit.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), as of `eisner_sibling`, or
        of `chu_liu_edmonds` without sibling scores; optimal bool (B,): the tree is the best one.
        Where the time ran out it is merely some tree, which may even have forbidden parts and the
        score -inf. Trees whose scores differ by less than about 1e-8 of the largest difference
        between two parts of one word may be taken for equally good.

    Raises:
        ConfigError: scipy is not installed.
        ScoreError: as the decoders named; tensors on another device.
        NoTreeError: forbidden parts leave a sentence without any tree.

    Cost: exponential at worst; O(n^3) variables, O(n^2) constraints besides the cycles. Most often
    one relaxation is enough, in time of about n^2: a twentieth of a second for 40 words. Sentences
    whose relaxation has fractions can take seconds.
    Source: the slides name Riedel & Clarke 2006 (cycles forbidden as met) and Martins, Smith & Xing
    2009 (sibling variables, relaxation); differs: chains of siblings as flows, minimum cuts.
    """
    choose_backend("cpu", arc_scores.device)
    _require_scipy()
    siblings, ends = None, None
    if sibling_scores is None:
        checked = check_scores(arc_scores, lengths)
        arcs, words = checked.arc, checked.lengths
    else:
        arcs, siblings, ends, words = check_sibling_scores(
            arc_scores, sibling_scores, lengths, end_scores
        )
    heads = torch.full(arcs.shape[:2], NO_HEAD)
    optimal = torch.ones(len(arcs), dtype=torch.bool)
    for b, n in enumerate(words.tolist()):
        inside = slice(n + 1)
        of_arcs = arcs[b, inside, inside].numpy()
        if siblings is None or ends is None:
            program = _build(of_arcs, None, None, single_root)
        else:
            of_siblings = siblings[b, inside, inside, inside].numpy()
            of_ends = ends[b, inside, inside].numpy()
            program = _build(of_arcs, of_siblings, of_ends, single_root)
        found, optimal[b] = _solve(program, single_root, time_limit)
        if found is None:
            raise NoTreeError(
                f"sentence {b} of the batch has no tree: too many of its parts are forbidden (-inf)"
            )
        heads[b, 1 : n + 1] = torch.from_numpy(found[1:])
    if siblings is None or ends is None:
        return heads, tree_scores(arcs, heads, words), optimal
    return heads, sibling_tree_scores(arcs, siblings, ends, heads, words), optimal


def _require_scipy() -> None:
    try:
        import scipy.optimize  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "integer_program needs scipy 1.13 or later, which is not installed: pip install scipy"
        ) from error


@dataclass
class _Program:
    """Minimise costs @ v subject to low <= rows @ v <= high and 0 <= v <= 1.

    h, m: of the arcs (A,), whose x are the first A of the variables v; the z follow.
    arc: [h, m] -> number of its variable, -1 for a forbidden one. rows: sparse.
    """

    h: np.ndarray
    m: np.ndarray
    arc: np.ndarray
    costs: np.ndarray
    rows: Any
    low: np.ndarray
    high: np.ndarray


def _build(
    arcs: np.ndarray, siblings: np.ndarray | None, ends: np.ndarray | None, single_root: bool
) -> _Program:
    """The program of one sentence, but for the cycles.

    Args:
        arcs: (N, N). siblings: (N, N, N) and ends: (N, N), or None.
    """
    n_nodes = len(arcs)
    allowed = np.isfinite(arcs) & ~np.eye(n_nodes, dtype=bool)
    allowed[:, 0] = False
    h, m = np.nonzero(allowed)
    arc = np.full(arcs.shape, -1)
    arc[h, m] = np.arange(len(h))
    variables = np.arange(len(h))
    scores, modifiers = arcs[h, m].astype(np.float64), [m]
    rows = [(m - 1, variables, 1.0)]
    low, high = [np.ones(n_nodes - 1)], [np.ones(n_nodes - 1)]
    if siblings is not None and ends is not None:
        part_h, part_m, s = _parts(siblings, allowed)
        parts = len(h) + np.arange(len(s))
        modifiers = [m, part_m]
        inner = s != part_h
        # The end of an arc is scored with the arc, and taken back from what makes it an inner
        # sibling; a forbidden end takes no slack instead.
        may_end = np.isfinite(ends[h, m])
        of_end = np.where(may_end, ends[h, m], 0.0)
        of_parts = scores[arc[part_h, part_m]] + siblings[part_h, part_m, s]
        of_parts[inner] -= of_end[arc[part_h, s][inner]]
        scores = np.concatenate([of_end, of_parts])
        # Rows: of an arc's predecessor, of its modifier's successor, of a head's first modifiers.
        predecessor = n_nodes - 1 + variables
        successor = predecessor + len(h)
        first = n_nodes - 1 + 2 * len(h) + 2 * part_h + (part_m > part_h)
        rows += [(predecessor, variables, -1.0), (predecessor[arc[part_h, part_m]], parts, 1.0)]
        rows += [(successor, variables, -1.0)]
        rows += [(successor[arc[part_h, s][inner]], parts[inner], 1.0)]
        rows += [(first[~inner], parts[~inner], 1.0)]
        low += [np.zeros(len(h)), np.where(may_end, -np.inf, 0.0), np.full(2 * n_nodes, -np.inf)]
        high += [np.zeros(2 * len(h)), np.ones(2 * n_nodes)]
    lows, highs = np.concatenate(low), np.concatenate(high)
    if single_root:
        of_root = variables[h == 0]
        rows += [(np.full(len(of_root), len(lows)), of_root, 1.0)]
        lows, highs = np.append(lows, 1.0), np.append(highs, 1.0)
    costs = _costs(scores, modifiers)
    return _Program(h, m, arc, costs, _sparse(rows, len(lows), len(costs)), lows, highs)


def _parts(siblings: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """h, m, s of all sibling parts that are not forbidden, nor one of their arcs."""
    h, m, s = np.ogrid[tuple(slice(size) for size in siblings.shape)]
    between = ((h < s) & (s < m)) | ((m < s) & (s < h))
    is_part = (s == h) | (between & allowed[:, None, :])
    found = np.nonzero(is_part & allowed[:, :, None] & np.isfinite(siblings))
    return found[0], found[1], found[2]


def _costs(scores: np.ndarray, modifiers: list[np.ndarray]) -> np.ndarray:
    """What each variable loses against the best one of its kind and modifier, scaled.

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
    from scipy.sparse import csr_array

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
        status, x = _optimum(program, is_whole, deadline)
        if status == INFEASIBLE:
            return None, True
        met = met if x is None else x
        if status == OUT_OF_TIME or x is None:
            return _tree_near(program, met, single_root), False
        cycles = _broken_cuts(program, x)
        if cycles:
            _forbid(program, cycles)
        elif is_whole or np.abs(x - np.round(x)).max() <= FRACTION:
            heads = np.full(n_nodes, NO_HEAD)
            chosen = x > 0.5
            heads[program.m[chosen]] = program.h[chosen]
            return heads, True
        else:
            is_whole = True


def _optimum(program: _Program, is_whole: bool, deadline: float) -> tuple[int, np.ndarray | None]:
    """The solver's mark and x (A,); None if it met none.

    Raises:
        GpuparseError: the solver gave up.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    # No gap between the best tree and the bound: the solver would stop at 1e-4 of the score.
    # Simplifying the relaxation beforehand takes three times as long as solving it.
    options: dict[str, Any] = {"mip_rel_gap": 0.0, "presolve": is_whole}
    if deadline < math.inf:
        options["time_limit"] = deadline - time.perf_counter()
        if options["time_limit"] <= 0:
            return OUT_OF_TIME, None
    needs_whole = np.zeros(len(program.costs))
    needs_whole[: len(program.h)] = is_whole
    found = milp(
        program.costs,
        integrality=needs_whole,
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(program.rows, program.low, program.high),
        options=options,
    )
    if found.status not in (SOLVED, OUT_OF_TIME, INFEASIBLE):
        raise GpuparseError(f"the solver of integer programs gave up: {found.message}")
    return found.status, None if found.x is None else found.x[: len(program.h)]


def _broken_cuts(program: _Program, x: np.ndarray) -> list[np.ndarray]:
    """Sets of words into which less than one arc leads, one for each word that is in any.

    The cut closest to the word is taken: a small set has a short constraint.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

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
    from scipy.sparse import vstack

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
            torch.from_numpy(weights),
            torch.tensor([len(program.arc) - 1]),
            single_root=single_root,
        )
    except NoTreeError:
        return None
    return heads[0].numpy()
