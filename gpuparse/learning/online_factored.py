"""Factored MIRA, compiled: every gold arc is to score 1 more than any other arc into its modifier.

McDonald, Crammer & Pereira (2005), section 2.3.1. There are n^2 constraints a sentence and no tree
is searched for. Those that are violated are listed, the smallest change that meets all of the list
is found, and what the changed weights violate is added to the list until there is nothing to add:
so the change is the smallest that meets all n^2.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.plan import Plan
from gpuparse.learning.difference import (
    all_arc_rows,
    find_slot_of_row,
    insert_all_arcs,
    max_arc_rows,
)
from gpuparse.learning.hildreth import hildreth_rows
from gpuparse.learning.online import DIFFERENCE_FULL, DONE, TABLE_FULL
from gpuparse.scoring.cpu_parse import score_arcs

TOLERANCE = 1e-5  # of a margin: single precision weights cannot promise more


class Constraints(NamedTuple):
    """The constraints of one sentence over its own rows, and the change that meets them."""

    slots: np.ndarray  # (capacity,) int64: row + 1, or 0 where free; all free between sentences
    before: np.ndarray  # (capacity,) float32: weights before the sentence, by slot
    change: np.ndarray  # (capacity,) float64
    used: np.ndarray  # (capacity,) int64: the slots in use, in order
    counts: np.ndarray  # (capacity,) int32: of one constraint; zero between constraints
    starts: np.ndarray  # (N * N + 1,) int64: constraint j has the entries starts[j]:starts[j + 1]
    entry_slots: np.ndarray  # (capacity,) int64
    entry_counts: np.ndarray  # (capacity,) int32
    missing: np.ndarray  # (N * N,) float64: 1 less the margin before the sentence
    steps: np.ndarray  # (N * N,) float64
    is_listed: np.ndarray  # (N, N) bool
    found: np.ndarray  # (2, most rows of an arc) int64


def make_constraints(plan: Plan, n: int, capacity: int) -> Constraints:
    """Working memory for sentences of up to n words; capacity: a power of two."""
    most = (n + 1) * (n + 1)
    return Constraints(
        np.zeros(capacity, np.int64),
        np.empty(capacity, np.float32),
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.zeros(capacity, np.int32),
        np.zeros(most + 1, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int32),
        np.empty(most),
        np.empty(most),
        np.zeros((n + 1, n + 1), np.bool_),
        np.empty((2, max_arc_rows(plan, n)), np.int64),
    )


@compiled
def _enter(found, n_found, sign, weights, constraints, n_used):
    """Count rows of an arc; returns how many slots are in use."""
    slots, counts = constraints.slots, constraints.counts
    mask = len(slots) - 1
    for k in range(n_found):
        slot = find_slot_of_row(found[k] + 1, slots, mask)
        if slots[slot] == 0:
            slots[slot] = found[k] + 1
            constraints.before[slot] = weights[found[k]]
            constraints.change[slot] = 0.0
            constraints.used[n_used] = slot
            n_used += 1
        counts[slot] += sign
    return n_used


@compiled
def _leave(found, n_found, constraints, n_entries):
    """Move the counts of an arc's rows to the entries; returns how many entries there are."""
    slots, counts = constraints.slots, constraints.counts
    mask = len(slots) - 1
    for k in range(n_found):
        slot = find_slot_of_row(found[k] + 1, slots, mask)
        if counts[slot] != 0:
            constraints.entry_slots[n_entries] = slot
            constraints.entry_counts[n_entries] = counts[slot]
            n_entries += 1
            counts[slot] = 0
    return n_entries


@compiled
def _list_violated(
    values, start, n, gold, plan, weights, rows, scratch, constraints, listed, n_used
):  # fmt: skip
    """List the constraints that the weights violate and the list lacks.

    Returns: how many are listed, how many slots are in use; -1 for the first if there is no room.
    """
    starts, room, sums = constraints.starts, len(constraints.slots) // 2, scratch.sums
    of_gold, of_other = constraints.found[0], constraints.found[1]
    for m in range(1, n + 1):
        right, n_gold = gold[start + m], -1
        if right < 0:
            continue
        for h in range(n + 1):
            margin = np.float64(sums[right, m]) - np.float64(sums[h, m])
            if h in (m, right) or constraints.is_listed[h, m] or margin >= 1.0 - TOLERANCE:
                continue
            if n_gold < 0:
                n_gold = all_arc_rows(values, start, n, right, m, plan, rows, scratch, of_gold)
            n_other = all_arc_rows(values, start, n, h, m, plan, rows, scratch, of_other)
            if max(n_used, starts[listed]) + n_gold + n_other > room:
                return -1, n_used
            n_used = _enter(of_gold, n_gold, 1, weights, constraints, n_used)
            n_used = _enter(of_other, n_other, -1, weights, constraints, n_used)
            end = _leave(of_gold, n_gold, constraints, starts[listed])
            end = _leave(of_other, n_other, constraints, end)
            before = 0.0
            for e in range(starts[listed], end):
                slot = constraints.entry_slots[e]
                before += constraints.entry_counts[e] * np.float64(constraints.before[slot])
            constraints.missing[listed] = 1.0 - before
            constraints.steps[listed] = 0.0
            constraints.is_listed[h, m] = True
            listed += 1
            starts[listed] = end
    return listed, n_used


@inlined
def _learn_sentence(
    values, start, n, gold, plan, weights, weighted, seen, rows, cap, scratch, constraints
):  # fmt: skip
    """Move the weights; returns whether there was room for all constraints."""
    n_used, listed, has_all = 0, 0, True
    constraints.is_listed[: n + 1, : n + 1] = False
    while True:
        score_arcs(values, start, n, plan, weights, rows, scratch)
        now, n_used = _list_violated(
            values, start, n, gold, plan, weights, rows, scratch, constraints, listed, n_used
        )  # fmt: skip
        has_all = now >= 0
        if now <= listed:
            break
        listed = now
        hildreth_rows(
            constraints.starts, constraints.entry_slots, constraints.entry_counts,
            constraints.missing[:listed], cap, TOLERANCE / 10, constraints.steps,
            constraints.change,
        )  # fmt: skip
        for e in range(n_used):
            slot = constraints.used[e]
            weights[constraints.slots[slot] - 1] = np.float32(
                constraints.before[slot] + constraints.change[slot]
            )
    for e in range(n_used):
        slot = constraints.used[e]
        row = constraints.slots[slot] - 1
        if has_all:
            weighted[row] += seen * (weights[row] - constraints.before[slot])
        else:
            weights[row] = constraints.before[slot]
        constraints.slots[slot] = 0
    return has_all


@compiled
def learn_factored(
    values, starts, lengths, gold, plan, weights, weighted, seen, rows, course, scratch,
    constraints, first,
):  # fmt: skip
    """As `learn_sentences` of `online`, by factored constraints.

    Args:
        gold: (T,) heads by place; -1 for words that nothing is learned from.
        constraints: working memory; its capacity is what DIFFERENCE_FULL asks to double.
    Returns:
        As there; of what was wrong, the words with an arc that was not 1 below the gold arc.
    """
    wrong = 0.0
    for b in range(first, len(starts)):
        start, n = starts[b], lengths[b]
        if not insert_all_arcs(values, start, n, plan, len(weights), rows, scratch):
            return TABLE_FULL, b, wrong
        has_room_for_all = _learn_sentence(
            values, start, n, gold, plan, weights, weighted, seen + b, rows, course.cap,
            scratch, constraints,
        )  # fmt: skip
        if not has_room_for_all:
            return DIFFERENCE_FULL, b, wrong
        for m in range(1, n + 1):
            is_wrong = False
            for h in range(n + 1):
                is_wrong |= constraints.is_listed[h, m]
            wrong += is_wrong
    return DONE, len(starts), wrong
