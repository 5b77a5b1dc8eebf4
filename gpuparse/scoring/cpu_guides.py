"""Compiled scoring of guides: what is added to the arcs that another parser proposes."""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled
from gpuparse.features.plan import GuidePlan
from gpuparse.scoring.cpu import Scratch, fill_parts, make_scratch, max_rows, pair_rows


class GuideScratch(NamedTuple):
    """Working memory of one thread."""

    parts: Scratch
    found: np.ndarray  # rows of one arc


def make_guide_scratch(plan: GuidePlan, n: int, exact: bool, sums: np.dtype) -> GuideScratch:
    """Working memory for sentences of up to n words; `sums` is the type that weights sum to."""
    return GuideScratch(
        make_scratch(plan.arcs, n, exact, sums), np.empty(max_rows(plan.arcs, 0), np.int64)
    )


def add_guides(values, start, n, plan, weights, rows, scratch, out):
    """Add the guide features of one sentence to out[h, m]; nothing where the plan is None."""
    raise TypeError("only compiled code can call this")


@overload(add_guides)
def _choose_add(values, start, n, plan, weights, rows, scratch, out):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, weights, rows, scratch, out: None
    return lambda values, start, n, plan, weights, rows, scratch, out: _add(
        values, start, n, plan.arcs, plan.row, weights, rows, scratch.parts, scratch.found, out
    )


@compiled
def _add(values, start, n, arcs, row, weights, rows, parts, found, out):
    fill_parts(values, start, n, arcs, rows, parts)
    for m in range(1, n + 1):
        h = np.int64(values[row, start + m]) - 1
        if h >= 0:
            n_found = pair_rows(h, m, parts.combination[n + m - h], arcs, rows, parts, found)
            for k in range(n_found):
                out[h, m] += weights[found[k]]


@compiled
def add_guides_to_sentences(values, starts, lengths, plan, weights, rows, scratch, sums, out):
    """Fill out[b, 0:n+1, 1:n+1], of zeros, with guide scores; `sums` is (N, N) scratch."""
    for b in range(len(starts)):
        n = lengths[b]
        sums[: n + 1, : n + 1] = 0
        add_guides(values, starts[b], n, plan, weights, rows, scratch, sums)
        for h in range(n + 1):
            for m in range(1, n + 1):
                out[b, h, m] = sums[h, m]


def fill_guide_parts(values, start, n, plan, rows, scratch):
    """`fill_parts` of the guide templates; nothing where the plan is None."""
    raise TypeError("only compiled code can call this")


@overload(fill_guide_parts)
def _choose_fill(values, start, n, plan, rows, scratch):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, rows, scratch: None
    return lambda values, start, n, plan, rows, scratch: fill_parts(
        values, start, n, plan.arcs, rows, scratch.parts
    )


def guide_rows(values, start, n, h, m, plan, rows, scratch, found, count):
    """Append the rows of an arc's guide features to found[:count]; returns how many there are then.

    The parts must have been filled. None where the plan is None or no guide proposes the arc.
    """
    raise TypeError("only compiled code can call this")


@overload(guide_rows)
def _choose_rows(values, start, n, h, m, plan, rows, scratch, found, count):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, h, m, plan, rows, scratch, found, count: count

    def of_guide(values, start, n, h, m, plan, rows, scratch, found, count):
        if values[plan.row, start + m] != h + 1:
            return count
        c = scratch.parts.combination[n + m - h]
        return count + pair_rows(h, m, c, plan.arcs, rows, scratch.parts, found[count:])

    return of_guide
