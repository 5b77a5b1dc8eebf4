"""The online learning step, compiled: predict, compare with gold, move the weights.

McDonald, Crammer & Pereira (2005), figure 3, and McDonald & Pereira (2006), figure 6, one sentence
after the other. The average is lazy: `weighted` gathers every change multiplied by the number of
sentences seen before it, so that the mean of the weights after each of T sentences is
weights - weighted / T, and a sentence costs nothing but its own changes.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.features.keys import SEED_SHIFT
from gpuparse.features.plan import HEAD, LINE, Plan
from gpuparse.learning.updates import step_size
from gpuparse.scoring.cpu import arc_rows, fill_parts, find_slot, max_rows
from gpuparse.scoring.cpu_guides import fill_guide_parts, guide_rows
from gpuparse.scoring.cpu_parse import copy_arcs, parse_sentence
from gpuparse.scoring.cpu_siblings import (
    NO_SIBLING,
    end_rows,
    fill_sibling_parts,
    max_sibling_rows,
    sibling_rows,
)

DONE, TABLE_FULL, DIFFERENCE_FULL, NO_TREE = 0, 1, 2, 3


class Course(NamedTuple):
    """What stays fixed while learning."""

    single_root: bool
    min_gain: float  # of a single change, in the searches that make them
    rule: int  # as in gpuparse.learning.updates
    cost: float  # what a mistake adds to the scores that are searched with; 0 for plain search
    cap: float  # largest step, infinity for none


class Trees(NamedTuple):
    """Gold trees and those found, by place; -1 for what is no word."""

    gold: np.ndarray  # (T,) int64 heads
    found: np.ndarray  # (T,) int64


class GraphCells(NamedTuple):
    """Gold graphs and those found: the arc h -> m of a sentence at its first + h * (n + 1) + m."""

    gold: np.ndarray  # (cells,) bool
    found: np.ndarray  # (cells,) bool
    firsts: np.ndarray  # (T,) int64 the first cell of each sentence, at the place of its root
    heads: np.ndarray  # (T,) int64 scratch


class Difference(NamedTuple):
    """A sparse vector of small whole numbers, gold minus predicted features, by weight row."""

    slots: np.ndarray  # (capacity,) int64: row + 1, or 0 where free; all free between updates
    counts: np.ndarray  # (capacity,) int32
    used: np.ndarray  # (capacity,) int64: the slots in use, in order
    found: np.ndarray  # rows of one part
    parts: np.ndarray  # (most, 5) int64: parts of one structure only: sign, kind, h, m, s
    inner: np.ndarray  # (2, N, N) int32: inner siblings of gold and found arcs, NO_ARC if no arc
    per_sibling_part: int  # most rows of a part that is no arc
    per_guide: int  # most rows of guide features of an arc


ARC, SIBLINGS, RIGHT_END, LEFT_END = range(4)  # kinds of parts; of ends, m is h for no modifier
NO_ARC = -1


def make_difference(plan: Plan, n: int, *, graphs: bool, capacity: int = 1 << 16) -> Difference:
    """Working memory for sentences of up to n words, each with one head or, in graphs, with any.

    capacity: a power of two; `learn_sentences` says when a sentence needs more.
    """
    arcs = n * (n + 1) // 2 if graphs else n
    nodes, per_sibling_part = 0, 0
    if plan.siblings:
        nodes, per_sibling_part = n + 1, max_sibling_rows(plan.siblings)
    per_guide = max_rows(plan.guide.arcs, 0) if plan.guide else 0
    return Difference(
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int32),
        np.empty(capacity, np.int64),
        np.empty(max(max_rows(plan.arcs, n) + per_guide, per_sibling_part), np.int64),
        np.empty((8 * arcs, 5), np.int64),
        np.empty((2, nodes, nodes), np.int32),
        per_sibling_part,
        per_guide,
    )


@compiled
def _count_rows(found, n_found, sign, slots, counts, used, n_used, mask):
    """Add `sign` at each of the found rows."""
    for k in range(n_found):
        row = found[k] + 1
        slot = (row * 0x9E3779B1 >> 7) & mask
        while slots[slot] != 0 and slots[slot] != row:
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            slots[slot] = row
            counts[slot] = 0
            used[n_used] = slot
            n_used += 1
        counts[slot] += sign
    return n_used


@compiled
def _add_part(parts, count, sign, kind, h, m, s):
    parts[count, 0], parts[count, 1] = sign, kind
    parts[count, 2], parts[count, 3], parts[count, 4] = h, m, s
    return count + 1


@compiled
def _arcs_that_differ(n, gold, found, parts):
    """List the arcs in which two trees differ: heads at 1..n."""
    count = 0
    for m in range(1, n + 1):
        if gold[m] != found[m]:
            count = _add_part(parts, count, 1, ARC, gold[m], m, 0)
            count = _add_part(parts, count, -1, ARC, found[m], m, 0)
    return count


@compiled
def _siblings_of_tree(n, heads, inner):
    """inner[h, m] = the inner sibling of each arc, h for none."""
    inner[: n + 1, : n + 1] = NO_ARC
    for m in range(1, n + 1):
        inner[heads[m], m] = heads[m]
    _siblings_of_arcs(n, inner)


@compiled
def _siblings_of_graph(n, arcs, inner):
    for h in range(n + 1):
        for m in range(n + 1):
            inner[h, m] = h if arcs[h * (n + 1) + m] else NO_ARC
    _siblings_of_arcs(n, inner)


@inlined
def _siblings_of_arcs(n, inner):
    """Replace h in inner[h, m], which stands for an arc, by the arc's inner sibling."""
    for h in range(n + 1):
        s = h
        for m in range(h + 1, n + 1):
            if inner[h, m] != NO_ARC:
                inner[h, m] = s
                s = m
        s = h
        for m in range(h - 1, 0, -1):
            if inner[h, m] != NO_ARC:
                inner[h, m] = s
                s = m


@compiled
def _parts_that_differ(n, inner, parts):
    """List the arcs and sibling parts that only one of two graphs has."""
    count = 0
    gold, found = inner[0], inner[1]
    for h in range(n + 1):
        for m in range(1, n + 1):
            of_gold, of_found = gold[h, m], found[h, m]
            if of_gold == of_found:
                continue
            if of_gold == NO_ARC:
                count = _add_part(parts, count, -1, ARC, h, m, 0)
            if of_found == NO_ARC:
                count = _add_part(parts, count, 1, ARC, h, m, 0)
            if of_gold != NO_ARC:
                count = _add_part(parts, count, 1, SIBLINGS, h, m, of_gold)
            if of_found != NO_ARC:
                count = _add_part(parts, count, -1, SIBLINGS, h, m, of_found)
    for h in range(n + 1):
        count = _add_ends(parts, count, RIGHT_END, h, gold[h], found[h], n)
        if h > 0:
            count = _add_ends(parts, count, LEFT_END, h, gold[h], found[h], 1)
    return count


@inlined
def _add_ends(parts, count, kind, h, gold, found, outermost):
    """List the ends of h on one side, if they differ."""
    step = 1 if kind == LEFT_END else -1
    of_gold, of_found, m = h, h, outermost
    while m != h and (of_gold == h or of_found == h):
        if of_gold == h and gold[m] != NO_ARC:
            of_gold = m
        if of_found == h and found[m] != NO_ARC:
            of_found = m
        m += step
    if of_gold != of_found:
        count = _add_part(parts, count, 1, kind, h, of_gold, 0)
        count = _add_part(parts, count, -1, kind, h, of_found, 0)
    return count


def _list_parts(structures, siblings, start, n, difference):
    """Fill difference.parts; returns how many there are, and what the mistakes cost."""
    raise TypeError("only compiled code can call this")


@overload(_list_parts)
def _choose_list_parts(structures, siblings, start, n, difference):
    def of_arcs(structures, siblings, start, n, difference):
        gold, found = structures.gold[start:], structures.found[start:]
        count = _arcs_that_differ(n, gold, found, difference.parts)
        return count, count // 2

    def of_trees(structures, siblings, start, n, difference):
        gold, found, wrong = structures.gold[start:], structures.found[start:], 0
        for m in range(1, n + 1):
            wrong += gold[m] != found[m]
        if wrong == 0:
            return 0, 0
        _siblings_of_tree(n, gold, difference.inner[0])
        _siblings_of_tree(n, found, difference.inner[1])
        return _parts_that_differ(n, difference.inner, difference.parts), wrong

    def of_graphs(structures, siblings, start, n, difference):
        first, wrong = structures.firsts[start], 0
        gold, found = structures.gold[first:], structures.found[first:]
        for cell in range((n + 1) * (n + 1)):
            wrong += gold[cell] != found[cell]
        if wrong == 0:
            return 0, 0
        _siblings_of_graph(n, gold, difference.inner[0])
        _siblings_of_graph(n, found, difference.inner[1])
        return _parts_that_differ(n, difference.inner, difference.parts), wrong

    if structures.instance_class is GraphCells:
        return of_graphs
    return of_arcs if isinstance(siblings, types.NoneType) else of_trees


@inlined
def _rows_of_part(values, start, n, part, plan, rows, scratch, found):
    """The weight rows of one listed part."""
    if part[1] == ARC:
        h, m = part[2], part[3]
        count = arc_rows(values, start, n, h, m, plan.arcs, rows, scratch.parts, found)
        return guide_rows(values, start, n, h, m, plan.guide, rows, scratch.guide, found, count)
    return _rows_of_siblings(values, start, n, part, plan.siblings, rows, scratch.siblings, found)


def _rows_of_siblings(values, start, n, part, plan, rows, scratch, found):
    raise TypeError("only compiled code can call this")


@overload(_rows_of_siblings)
def _choose_rows(values, start, n, part, plan, rows, scratch, found):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, part, plan, rows, scratch, found: 0

    def of_siblings(values, start, n, part, plan, rows, scratch, found):
        kind, h, m, s = part[1], part[2], part[3], part[4]
        if kind == SIBLINGS:
            return sibling_rows(values, start, n, h, m, s, plan, rows, scratch.parts, found)
        return end_rows(n, h, m, kind == RIGHT_END, plan, rows, scratch.end_parts, found)

    return of_siblings


@compiled
def _n_slots(parts, n_parts, arcs, of_guide, of_siblings):
    """Slots that leave half of them free, whatever fires: a power of two."""
    of_arc, places = 2 * (len(arcs.word) + len(arcs.pair)) + of_guide, 0
    for p in range(n_parts):
        if parts[p, 1] == ARC:
            places += of_arc + 2 * len(arcs.between) * abs(parts[p, 2] - parts[p, 3])
        else:
            places += of_siblings
    slots = 2
    while slots < 2 * places:
        slots *= 2
    return slots


@inlined
def update_sentence(
    values, start, n, n_parts, n_slots, cost, plan, weights, weighted, seen, rows, course, scratch,
    difference,
):  # fmt: skip
    """Move the weights along gold minus predicted features of one sentence.

    The parts in which the two differ have been listed, and the sentence's keys are in `scratch`.
    """
    slots, counts, used = difference.slots, difference.counts, difference.used
    mask, n_used = n_slots - 1, 0
    for p in range(n_parts):
        part = difference.parts[p]
        n_found = _rows_of_part(values, start, n, part, plan, rows, scratch, difference.found)
        n_used = _count_rows(difference.found, n_found, part[0], slots, counts, used, n_used, mask)
    margin, squared_norm = 0.0, 0.0
    for k in range(n_used):
        slot = used[k]
        count = np.float64(counts[slot])
        squared_norm += count * count
        margin += count * weights[slots[slot] - 1]
    step = step_size(course.rule, np.float64(cost), margin, squared_norm, course.cap)
    for k in range(n_used):
        slot = used[k]
        change = step * counts[slot]
        if change != 0.0:
            row = slots[slot] - 1
            weights[row] += change
            weighted[row] += seen * change
        slots[slot] = 0


def _predict(values, start, n, plan, weights, rows, course, scratch, structures):
    """Fill what is found for one sentence; returns whether there is a tree."""
    raise TypeError("only compiled code can call this")


@overload(_predict)
def _choose_predict(values, start, n, plan, weights, rows, course, scratch, structures):
    def of_trees(values, start, n, plan, weights, rows, course, scratch, structures):
        return parse_sentence(
            values, start, n, plan, weights, rows, course.single_root,
            course.min_gain, structures.gold[start : start + n + 1], course.cost, scratch,
            structures.found[start : start + n + 1],
        )  # fmt: skip

    def of_graphs(values, start, n, plan, weights, rows, course, scratch, structures):
        first = structures.firsts[start]
        gold = structures.gold[first : first + (n + 1) * (n + 1)].reshape(n + 1, n + 1)
        found = parse_sentence(
            values, start, n, plan, weights, rows, course.single_root, course.min_gain, gold,
            course.cost, scratch,
            structures.heads[start : start + n + 1],
        )  # fmt: skip
        copy_arcs(scratch.tree.arcs, n, structures.found[first:])
        return found

    return of_graphs if structures.instance_class is GraphCells else of_trees


@compiled
def predict_sentences(
    values, starts, lengths, plan, weights, rows, course, scratch, structures
):  # fmt: skip
    """Fill what is found for all sentences, with the same weights; returns as `parse_sentences`."""
    for b in range(len(starts)):
        if not _predict(
            values, starts[b], lengths[b], plan, weights, rows, course, scratch, structures
        ):  # fmt: skip
            return b
    return -1


def _fill_keys(values, start, n, plan, rows, scratch):
    """Fill the keys of a sentence that was not parsed just now."""
    raise TypeError("only compiled code can call this")


@overload(_fill_keys)
def _choose_fill(values, start, n, plan, rows, scratch):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, rows, scratch: None

    def fill(values, start, n, plan, rows, scratch):
        fill_sibling_parts(values, start, n, plan.pairs, rows, scratch.parts)
        fill_parts(values, start, n, plan.ends, rows, scratch.end_parts)

    return fill


@compiled
def learn_sentences(
    values, starts, lengths, structures, plan, weights, weighted, seen, rows, course, scratch,
    difference, predict, first,
):  # fmt: skip
    """Learn from the sentences first, first + 1, ... one after the other.

    Args:
        values, starts, lengths: a batch in its order of learning.
        structures: Trees or GraphCells; what is found is filled where `predict` is set, and
            otherwise there already.
        weights, weighted: (rows,) float32, changed in place; `seen` sentences came before.
    Returns:
        DONE, TABLE_FULL or DIFFERENCE_FULL (grow the exact map, or double the capacity of the
        difference, then go on) or NO_TREE; the sentence at which that happened; the cost of the
        mistakes in the sentences learned: wrong words, or for graphs wrong and missing arcs.
    """
    wrong = 0
    for b in range(first, len(starts)):
        start, n = starts[b], lengths[b]
        if predict and not _predict(
            values, start, n, plan, weights, rows, course, scratch, structures
        ):  # fmt: skip
            return NO_TREE, b, wrong
        n_parts, cost = _list_parts(structures, plan.siblings, start, n, difference)
        if cost > 0:
            n_slots = _n_slots(
                difference.parts, n_parts, plan.arcs, difference.per_guide,
                difference.per_sibling_part,
            )  # fmt: skip
            if n_slots > len(difference.slots):
                return DIFFERENCE_FULL, b, wrong
            if not predict:
                fill_parts(values, start, n, plan.arcs, rows, scratch.parts)
                _fill_keys(values, start, n, plan.siblings, rows, scratch.siblings)
                fill_guide_parts(values, start, n, plan.guide, rows, scratch.guide)
            if not _insert_parts(
                difference.parts, n_parts, plan, len(weights), rows.keys, rows.bases, rows.state,
                scratch,
            ) or not _insert_guides(
                values, start, difference.parts, n_parts, plan.guide, len(weights), rows.keys,
                rows.bases, rows.state, scratch.guide,
            ):  # fmt: skip
                return TABLE_FULL, b, wrong
            update_sentence(
                values, start, n, n_parts, n_slots, cost, plan, weights, weighted, seen + b, rows,
                course, scratch, difference,
            )  # fmt: skip
        wrong += cost
    return DONE, len(starts), wrong


def _insert_parts(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
    """Put the features of the listed parts into an exact map.

    Returns: whether there was room for all of them; if not, nothing is changed.
    """
    raise TypeError("only compiled code can call this")


@overload(_insert_parts)
def _choose_insert(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
    if isinstance(keys, types.NoneType):  # a hashed map has a row for every feature
        return lambda listed, n_parts, plan, n_weights, keys, bases, state, scratch: True
    has_siblings = not isinstance(plan.types[plan.fields.index("siblings")], types.NoneType)

    def of_arcs(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
        families = len(plan.arcs.word) + len(plan.arcs.pair)
        if not _has_room(n_parts * families, n_weights, keys, state):
            return False
        for p in range(n_parts):
            _insert_part(listed[p, 2], listed[p, 3], plan.arcs, scratch.parts, keys, bases, state)
        return True

    def of_siblings(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
        arcs, pairs, ends = plan.arcs, plan.siblings.pairs, plan.siblings.ends
        families = len(arcs.word) + len(arcs.pair) + len(pairs.word) + len(pairs.pair)
        families = max(families, len(ends.word) + len(ends.pair))
        if not _has_room(n_parts * families, n_weights, keys, state):
            return False
        for p in range(n_parts):
            kind, h, m, s = listed[p, 1], listed[p, 2], listed[p, 3], listed[p, 4]
            if kind == ARC:
                _insert_part(h, m, arcs, scratch.parts, keys, bases, state)
            elif kind == SIBLINGS:
                inner = NO_SIBLING if s == h else s
                _insert_part(inner, m, pairs, scratch.siblings.parts, keys, bases, state)
            else:
                last = NO_SIBLING if m == h else m
                _insert_part(h, last, ends, scratch.siblings.end_parts, keys, bases, state)
        return True

    return of_siblings if has_siblings else of_arcs


def _insert_guides(values, start, listed, n_parts, plan, n_weights, keys, bases, state, scratch):
    """Put the guide features of the listed parts into an exact map; returns as `_insert_parts`."""
    raise TypeError("only compiled code can call this")


@overload(_insert_guides)
def _choose_insert_guides(
    values, start, listed, n_parts, plan, n_weights, keys, bases, state, scratch
):
    def none(values, start, listed, n_parts, plan, n_weights, keys, bases, state, scratch):
        return True

    def of_guides(values, start, listed, n_parts, plan, n_weights, keys, bases, state, scratch):
        families = len(plan.arcs.word) + len(plan.arcs.pair)
        if not _has_room(n_parts * families, n_weights, keys, state):
            return False
        for p in range(n_parts):
            h, m = listed[p, 2], listed[p, 3]
            if listed[p, 1] == ARC and values[plan.row, start + m] == h + 1:
                _insert_part(h, m, plan.arcs, scratch.parts, keys, bases, state)
        return True

    is_absent = isinstance(plan, types.NoneType) or isinstance(keys, types.NoneType)
    return none if is_absent else of_guides


@inlined
def _has_room(values, n_weights, keys, state):
    return 2 * (state[0] + values) <= len(keys) and state[1] + values * LINE <= n_weights


@compiled
def _insert_part(h, m, plan, parts, keys, bases, state):
    """Put the features of one arc, or of two siblings, into an exact map."""
    for family in range(len(plan.word)):
        word = plan.word[family]
        i = h if word.role == HEAD else m
        if parts.side_on[word.side, i]:
            seed = np.uint64(word.seed) << np.uint64(SEED_SHIFT)
            key = parts.side_key[word.side, i] | seed
            _insert(key, word.slots, keys, bases, state)
    for family in range(len(plan.pair)):
        pair = plan.pair[family]
        if parts.side_on[pair.head_side, h] and parts.side_on[pair.modifier_side, m]:
            key = parts.head_part[family, h] ^ parts.modifier_part[family, m]
            _insert(key, pair.slots, keys, bases, state)


@compiled
def _insert(key, slots, keys, bases, state):
    """Give a key its base row, unless it has one: `slots` rows, aligned to their number."""
    slot = find_slot(key, keys)
    if keys[slot] == 0:
        keys[slot] = key
        base = (state[1] + slots - 1) // slots * slots
        bases[slot] = base
        state[0] += 1
        state[1] = base + slots
