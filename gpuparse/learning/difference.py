"""Gold minus found features as sparse vectors, and the step of the weights along them.

Weights of arcs, siblings and ends come first in the numbering of rows; those of labels found with
the trees follow, label by label in each line.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.features.keys import SEED_SHIFT
from gpuparse.features.plan import HEAD, LINE, Plan
from gpuparse.inference.kernels.cpu.larger_parts import (
    GRAND_SIBLING,
    GRANDPARENT,
    NOBODY,
    TRI_SIBLING,
)
from gpuparse.learning.parts import (
    ARC,
    HEAD_WORD,
    KIND,
    LABEL,
    LABELLED,
    LARGER,
    MODIFIER_WORD,
    OTHER_WORD,
    RIGHT_END,
    SIBLINGS,
    THIRD,
    PartList,
    make_part_list,
)
from gpuparse.learning.updates import find_steps
from gpuparse.scoring.cpu import arc_rows, fill_parts, find_slot, max_rows, pair_rows
from gpuparse.scoring.cpu_guides import guide_rows
from gpuparse.scoring.cpu_joint import JointLabels
from gpuparse.scoring.cpu_larger import larger_rows, max_larger_rows
from gpuparse.scoring.cpu_parse import labels_children
from gpuparse.scoring.cpu_siblings import NO_SIBLING, end_rows, max_sibling_rows, sibling_rows


class Difference(NamedTuple):
    """K sparse vectors of small whole numbers, gold minus found features, by weight row."""

    listed: PartList  # what they are made of
    slots: np.ndarray  # (capacity,) int64: row + 1, or 0 where free; all free between updates
    counts: np.ndarray  # (capacity, K) int32
    used: np.ndarray  # (capacity,) int64: the slots in use, in order
    found: np.ndarray  # (most rows of a part,) int64
    gram: np.ndarray  # (K, K) float64
    margins: np.ndarray  # (K,) float64
    steps: np.ndarray  # (K,) float64
    per_other_part: int  # most rows of a part that is no arc
    per_guide: int  # most rows of the guide features of an arc


def make_difference(
    plan: Plan, joint: JointLabels | None, n: int, k: int, *, graphs: bool, capacity: int
) -> Difference:
    """Working memory for sentences of up to n words and k found structures of each.

    capacity: a power of two; `n_slots_needed` says what a sentence needs.
    """
    per_other_part = max_sibling_rows(plan.siblings) if plan.siblings else 0
    if plan.larger:
        per_other_part = max(per_other_part, max_larger_rows(plan.larger))
    if joint:
        per_other_part = max(per_other_part, max_rows(joint.plan, 0))
        if joint.larger:
            per_other_part = max(per_other_part, max_larger_rows(joint.larger))
    return Difference(
        make_part_list(
            n, k, graphs=graphs, siblings=plan.siblings is not None, larger=plan.larger is not None
        ),
        np.zeros(capacity, np.int64),
        np.zeros((capacity, k), np.int32),
        np.empty(capacity, np.int64),
        np.empty(max(max_arc_rows(plan, n), per_other_part), np.int64),
        np.empty((k, k)),
        np.empty(k),
        np.empty(k),
        per_other_part,
        max_rows(plan.guide.arcs, 0) if plan.guide else 0,
    )


@inlined
def _rows_of_part(values, start, n, part, n_weights, plan, rows, joint, scratch, found):
    """The weight rows of one listed part."""
    kind, h, m = part[KIND], part[HEAD_WORD], part[MODIFIER_WORD]
    if kind == ARC:
        return all_arc_rows(values, start, n, h, m, plan, rows, scratch, found)
    if kind == LABEL:
        return _rows_of_label(n, h, m, part[THIRD], n_weights, joint, scratch.labels, found)
    if kind >= LABELLED:
        return _rows_of_labelled(part, n_weights, joint, scratch.labels, found)
    if kind >= LARGER:
        return _rows_of_larger(part, plan.larger, scratch.larger, rows.rows, found)
    return _rows_of_siblings(values, start, n, part, plan.siblings, rows, scratch.siblings, found)


@inlined
def all_arc_rows(values, start, n, h, m, plan, rows, scratch, found):
    """The weight rows of an arc, guide features included."""
    count = arc_rows(values, start, n, h, m, plan.arcs, rows, scratch.parts, found)
    return guide_rows(values, start, n, h, m, plan.guide, rows, scratch.guide, found, count)


def max_arc_rows(plan: Plan, n: int) -> int:
    """No arc of a sentence of n words has more rows, guide features included."""
    return max_rows(plan.arcs, n) + (max_rows(plan.guide.arcs, 0) if plan.guide else 0)


def _rows_of_label(n, h, m, label, n_weights, joint, scratch, found):
    raise TypeError("only compiled code can call this")


@overload(_rows_of_label)
def _choose_label_rows(n, h, m, label, n_weights, joint, scratch, found):
    if isinstance(joint, types.NoneType):
        return lambda n, h, m, label, n_weights, joint, scratch, found: 0

    def of_label(n, h, m, label, n_weights, joint, scratch, found):
        c = scratch.parts.combination[n + m - h]
        count = pair_rows(h, m, c, joint.plan, joint.rows, scratch.parts, found)
        for k in range(count):
            found[k] = n_weights + found[k] * joint.stride + label
        return count

    return of_label


def _rows_of_larger(part, plan, scratch, cells, found):
    raise TypeError("only compiled code can call this")


@overload(_rows_of_larger)
def _choose_larger_rows(part, plan, scratch, cells, found):
    if isinstance(plan, types.NoneType):
        return lambda part, plan, scratch, cells, found: 0

    def of_larger(part, plan, scratch, cells, found):
        kind, h, m = part[KIND] - LARGER, part[HEAD_WORD], part[MODIFIER_WORD]
        one, other = part[THIRD] % OTHER_WORD, part[THIRD] // OTHER_WORD
        if kind == GRANDPARENT:
            return larger_rows(kind, one, h, m, NOBODY, plan, scratch, cells, found)
        if kind == GRAND_SIBLING:
            return larger_rows(kind, one, h, other, m, plan, scratch, cells, found)
        if kind == TRI_SIBLING:
            return larger_rows(kind, h, one, other, m, plan, scratch, cells, found)
        return larger_rows(kind, h, m, one, NOBODY, plan, scratch, cells, found)

    return of_larger


def _rows_of_labelled(part, n_weights, joint, scratch, found):
    raise TypeError("only compiled code can call this")


@overload(_rows_of_labelled)
def _choose_labelled_rows(part, n_weights, joint, scratch, found):
    if not labels_children(joint):
        return lambda part, n_weights, joint, scratch, found: 0

    def of_labelled(part, n_weights, joint, scratch, found):
        h, m, child = part[HEAD_WORD], part[MODIFIER_WORD], part[THIRD] % OTHER_WORD
        lines = len(joint.weights) // joint.stride
        count = larger_rows(
            part[KIND] - LABELLED, h, m, child, NOBODY, joint.larger, scratch.larger, lines, found
        )
        for k in range(count):
            found[k] = n_weights + found[k] * joint.stride + part[THIRD] // OTHER_WORD
        return count

    return of_labelled


def _rows_of_siblings(values, start, n, part, plan, rows, scratch, found):
    raise TypeError("only compiled code can call this")


@overload(_rows_of_siblings)
def _choose_rows(values, start, n, part, plan, rows, scratch, found):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, part, plan, rows, scratch, found: 0

    def of_siblings(values, start, n, part, plan, rows, scratch, found):
        kind, h, m = part[KIND], part[HEAD_WORD], part[MODIFIER_WORD]
        if kind == SIBLINGS:
            return sibling_rows(
                values, start, n, h, m, part[THIRD], plan, rows, scratch.parts, found
            )
        return end_rows(n, h, m, kind == RIGHT_END, plan, rows, scratch.end_parts, found)

    return of_siblings


@compiled
def n_slots_needed(parts, n_parts, arcs, per_guide, per_other_part):
    """Slots that leave half of them free, whatever fires: a power of two."""
    of_arc, places = 2 * (len(arcs.word) + len(arcs.pair)) + per_guide, 0
    for p in range(n_parts):
        if parts[p, KIND] == ARC:
            gap = abs(parts[p, HEAD_WORD] - parts[p, MODIFIER_WORD])
            places += of_arc + 2 * len(arcs.between) * gap
        else:
            places += per_other_part
    slots = 2
    while slots < 2 * places:
        slots *= 2
    return slots


@inlined
def find_slot_of_row(row, slots, mask):
    """The slot of a row, or the free one for it."""
    slot = (row * 0x9E3779B1 >> 7) & mask
    while slots[slot] != 0 and slots[slot] != row:
        slot = (slot + 1) & mask
    return slot


@compiled
def _count_rows(found, n_found, signs, slots, counts, used, n_used, mask):
    """Add `signs` at each of the found rows."""
    for k in range(n_found):
        row = found[k] + 1
        slot = find_slot_of_row(row, slots, mask)
        if slots[slot] == 0:
            slots[slot] = row
            for j in range(len(signs)):
                counts[slot, j] = 0
            used[n_used] = slot
            n_used += 1
        for j in range(len(signs)):
            counts[slot, j] += signs[j]
    return n_used


@inlined
def update_sentence(
    values, start, n, n_parts, n_slots, plan, weights, weighted, seen, rows, joint, labels_weighted,
    course, scratch, difference,
):  # fmt: skip
    """Move the weights along gold minus found features of one sentence.

    The parts in which they differ have been listed, and the sentence's keys are in `scratch`.
    """
    listed, slots, counts = difference.listed, difference.slots, difference.counts
    used, mask, n_used = difference.used, n_slots - 1, 0
    for p in range(n_parts):
        n_found = _rows_of_part(
            values, start, n, listed.parts[p], len(weights), plan, rows, joint, scratch,
            difference.found,
        )  # fmt: skip
        n_used = _count_rows(
            difference.found, n_found, listed.signs[p], slots, counts, used, n_used, mask
        )
    margins, gram, steps = difference.margins, difference.gram, difference.steps
    k = len(margins)
    margins[:] = 0.0
    gram[:] = 0.0
    for e in range(n_used):
        slot = used[e]
        weight = _weight(slots[slot] - 1, weights, joint)
        for j in range(k):
            count = np.float64(counts[slot, j])
            margins[j] += count * weight
            for i in range(j + 1):
                gram[j, i] += count * counts[slot, i]
    for j in range(k):
        for i in range(j):
            gram[i, j] = gram[j, i]
    find_steps(course.rule, listed.costs, margins, gram, course.cap, steps)
    for e in range(n_used):
        slot = used[e]
        change = 0.0
        for j in range(k):
            change += steps[j] * counts[slot, j]
        if change != 0.0:
            change_weight(slots[slot] - 1, change, seen, weights, weighted, joint, labels_weighted)
        slots[slot] = 0


def _weight(row, weights, joint):
    raise TypeError("only compiled code can call this")


@overload(_weight)
def _choose_weight(row, weights, joint):
    if isinstance(joint, types.NoneType):
        return lambda row, weights, joint: weights[row]

    def weight(row, weights, joint):
        return weights[row] if row < len(weights) else joint.weights[row - len(weights)]

    return weight


def change_weight(row, change, seen, weights, weighted, joint, labels_weighted):
    """Move one weight; `seen` sentences came before."""
    raise TypeError("only compiled code can call this")


@overload(change_weight)
def _choose_change(row, change, seen, weights, weighted, joint, labels_weighted):
    def of_arcs(row, change, seen, weights, weighted, joint, labels_weighted):
        weights[row] += change
        weighted[row] += seen * change

    def of_both(row, change, seen, weights, weighted, joint, labels_weighted):
        if row < len(weights):
            weights[row] += change
            weighted[row] += seen * change
        else:
            joint.weights[row - len(weights)] += change
            labels_weighted[row - len(weights)] += seen * change

    return of_arcs if isinstance(joint, types.NoneType) else of_both


def insert_parts(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
    """Put the features of the listed parts into an exact map.

    Returns: whether there was room for all of them; if not, nothing is changed.
    """
    raise TypeError("only compiled code can call this")


@overload(insert_parts)
def _choose_insert(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
    if isinstance(keys, types.NoneType):  # a hashed map has a row for every feature
        return lambda listed, n_parts, plan, n_weights, keys, bases, state, scratch: True
    has_siblings = not isinstance(plan.types[plan.fields.index("siblings")], types.NoneType)

    def of_arcs(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
        families = len(plan.arcs.word) + len(plan.arcs.pair)
        if not _has_room(n_parts * families, n_weights, keys, state):
            return False
        for p in range(n_parts):
            if listed[p, KIND] == ARC:
                h, m = listed[p, HEAD_WORD], listed[p, MODIFIER_WORD]
                _insert_part(h, m, plan.arcs, scratch.parts, keys, bases, state)
        return True

    def of_siblings(listed, n_parts, plan, n_weights, keys, bases, state, scratch):
        arcs, pairs, ends = plan.arcs, plan.siblings.pairs, plan.siblings.ends
        families = len(arcs.word) + len(arcs.pair) + len(pairs.word) + len(pairs.pair)
        families = max(families, len(ends.word) + len(ends.pair))
        if not _has_room(n_parts * families, n_weights, keys, state):
            return False
        for p in range(n_parts):
            kind, h, m = listed[p, KIND], listed[p, HEAD_WORD], listed[p, MODIFIER_WORD]
            if kind == ARC:
                _insert_part(h, m, arcs, scratch.parts, keys, bases, state)
            elif kind == SIBLINGS:
                inner = NO_SIBLING if listed[p, THIRD] == h else listed[p, THIRD]
                _insert_part(inner, m, pairs, scratch.siblings.parts, keys, bases, state)
            elif kind != LABEL:
                last = NO_SIBLING if m == h else m
                _insert_part(h, last, ends, scratch.siblings.end_parts, keys, bases, state)
        return True

    return of_siblings if has_siblings else of_arcs


def insert_guides(values, start, listed, n_parts, plan, n_weights, keys, bases, state, scratch):
    """Put the guide features of the listed arcs into an exact map; returns as `insert_parts`."""
    raise TypeError("only compiled code can call this")


@overload(insert_guides)
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
            h, m = listed[p, HEAD_WORD], listed[p, MODIFIER_WORD]
            if listed[p, KIND] == ARC and values[plan.row, start + m] == h + 1:
                _insert_part(h, m, plan.arcs, scratch.parts, keys, bases, state)
        return True

    is_absent = isinstance(plan, types.NoneType) or isinstance(keys, types.NoneType)
    return none if is_absent else of_guides


def insert_all_arcs(values, start, n, plan, n_weights, rows, scratch):
    """Put the features of every arc of a sentence into an exact map; returns as `insert_parts`."""
    raise TypeError("only compiled code can call this")


@overload(insert_all_arcs)
def _choose_insert_all(values, start, n, plan, n_weights, rows, scratch):
    if isinstance(rows.types[rows.fields.index("keys")], types.NoneType):
        return lambda values, start, n, plan, n_weights, rows, scratch: True

    def insert_all(values, start, n, plan, n_weights, rows, scratch):
        families = len(plan.arcs.word) + len(plan.arcs.pair)
        if not _has_room(n * n * families, n_weights, rows.keys, rows.state):
            return False
        fill_parts(values, start, n, plan.arcs, rows, scratch.parts)
        for h in range(n + 1):
            for m in range(1, n + 1):
                if h != m:
                    _insert_part(h, m, plan.arcs, scratch.parts, rows.keys, rows.bases, rows.state)
        return _insert_guided_arcs(values, start, n, plan.guide, n_weights, rows, scratch.guide)

    return insert_all


def _insert_guided_arcs(values, start, n, plan, n_weights, rows, scratch):
    raise TypeError("only compiled code can call this")


@overload(_insert_guided_arcs)
def _choose_insert_guided(values, start, n, plan, n_weights, rows, scratch):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, n_weights, rows, scratch: True

    def insert(values, start, n, plan, n_weights, rows, scratch):
        families = len(plan.arcs.word) + len(plan.arcs.pair)
        if not _has_room(n * families, n_weights, rows.keys, rows.state):
            return False
        fill_parts(values, start, n, plan.arcs, rows, scratch.parts)
        for m in range(1, n + 1):
            h = np.int64(values[plan.row, start + m]) - 1
            if h >= 0:
                _insert_part(h, m, plan.arcs, scratch.parts, rows.keys, rows.bases, rows.state)
        return True

    return insert


@inlined
def _has_room(values, n_weights, keys, state):
    """Whether an exact map and its weights have room for so many more values."""
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
