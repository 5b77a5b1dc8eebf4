"""The online learning step, compiled: predict, compare with gold, move the weights.

McDonald, Crammer & Pereira (2005), figure 3, and McDonald & Pereira (2006), figure 6, one sentence
after the other. The average is lazy: `weighted` gathers every change multiplied by the number of
sentences seen before it, so that the mean of the weights after each of T sentences is
weights - weighted / T, and a sentence costs nothing but its own changes.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.keys import SEED_SHIFT
from gpuparse.features.plan import HEAD, LINE, ArcPlan
from gpuparse.learning.updates import step_size
from gpuparse.scoring.cpu import arc_rows, fill_parts, find_slot, max_rows
from gpuparse.scoring.cpu_parse import parse_sentence

DONE, TABLE_FULL, NO_TREE = 0, 1, 2


class Course(NamedTuple):
    """What stays fixed while learning."""

    single_root: bool
    rule: int  # as in gpuparse.learning.updates
    cost_augmented: bool  # predict the tree that violates the margin most
    cap: float  # largest step, infinity for none


class Difference(NamedTuple):
    """A sparse vector of small whole numbers, gold minus predicted features, by weight row."""

    slots: np.ndarray  # (capacity,) int64: row + 1, or 0 where free; all free between updates
    counts: np.ndarray  # (capacity,) int32
    used: np.ndarray  # (capacity,) int64: the slots in use, in order
    found: np.ndarray  # rows of one arc


def make_difference(plan: ArcPlan, n: int) -> Difference:
    """Working memory for sentences of up to n words."""
    per_arc = max_rows(plan, n)
    capacity = 1 << (4 * n * per_arc).bit_length()
    return Difference(
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int32),
        np.empty(capacity, np.int64),
        np.empty(per_arc, np.int64),
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
def _subtract(values, start, n, gold, heads, plan, rows, parts, difference):
    """Collect the features of gold arcs minus those of the arcs in `heads`.

    Returns: wrong words; slots in use.
    """
    wrong, places = 0, 0
    for m in range(1, n + 1):
        if gold[start + m] != heads[start + m]:
            wrong += 1
            gap = abs(gold[start + m] - m) + abs(heads[start + m] - m)
            places += 4 * len(plan.pair) + 4 * len(plan.word)
            places += 2 * len(plan.between) * gap
    mask = 1
    while mask < 2 * places:
        mask *= 2
    mask -= 1
    n_used = 0
    slots, counts, used, found = difference
    for m in range(1, n + 1):
        if gold[start + m] != heads[start + m]:
            for sign in (1, -1):
                h = gold[start + m] if sign > 0 else heads[start + m]
                n_found = arc_rows(values, start, n, h, m, plan, rows, parts, found)
                n_used = _count_rows(found, n_found, sign, slots, counts, used, n_used, mask)
    return wrong, n_used


@inlined
def update_sentence(
    values, start, n, gold, heads, plan, weights, weighted, seen, rows, course, parts, difference
):  # fmt: skip
    """Move the weights along gold minus predicted features of one sentence.

    `fill_parts` must have been called for it. Returns the number of wrong words.
    """
    wrong, n_used = _subtract(values, start, n, gold, heads, plan, rows, parts, difference)
    margin, squared_norm = 0.0, 0.0
    for k in range(n_used):
        slot = difference.used[k]
        count = np.float64(difference.counts[slot])
        squared_norm += count * count
        margin += count * weights[difference.slots[slot] - 1]
    step = step_size(course.rule, np.float64(wrong), margin, squared_norm, course.cap)
    for k in range(n_used):
        slot = difference.used[k]
        change = step * difference.counts[slot]
        if change != 0.0:
            row = difference.slots[slot] - 1
            weights[row] += change
            weighted[row] += seen * change
        difference.slots[slot] = 0
    return wrong


@compiled
def learn_sentences(
    values, starts, lengths, gold, plan, weights, weighted, seen, rows, course, scratch,
    difference, heads, predict, first,
):  # fmt: skip
    """Learn from the sentences first, first + 1, ... one after the other.

    Args:
        values, starts, lengths: a batch in its order of learning.
        gold, heads: (T,) trees by place; heads is filled where `predict` is set, and otherwise
            holds the predictions already.
        weights, weighted: (rows,) float32, changed in place; `seen` sentences came before.
    Returns:
        DONE, TABLE_FULL (grow the exact map, then go on) or NO_TREE; the sentence at which that
        happened; wrong words of the sentences learned.
    """
    wrong = 0
    cost = gold if course.cost_augmented else gold[:0]
    for b in range(first, len(starts)):
        start, n = starts[b], lengths[b]
        if predict and not parse_sentence(
            values, start, n, plan, weights, rows, course.single_root,
            cost, scratch, heads[start : start + n + 1],
        ):  # fmt: skip
            return NO_TREE, b, wrong
        wrong_here = 0
        for m in range(1, n + 1):
            wrong_here += gold[start + m] != heads[start + m]
        if wrong_here > 0:
            if not predict:
                fill_parts(values, start, n, plan, rows, scratch.parts)
            if not insert_arcs(
                start, n, gold, heads, plan, wrong_here, len(weights), rows.keys, rows.bases,
                rows.state, scratch.parts,
            ):  # fmt: skip
                return TABLE_FULL, b, wrong
            update_sentence(
                values, start, n, gold, heads, plan, weights, weighted, seen + b, rows, course,
                scratch.parts, difference,
            )  # fmt: skip
        wrong += wrong_here
    return DONE, len(starts), wrong


@compiled
def insert_arcs(start, n, gold, heads, plan, wrong, n_weights, keys, bases, state, parts):
    """Put the features of the arcs in which gold and prediction differ into an exact map.

    Returns: whether there was room for all of them; if not, nothing is changed.
    """
    if keys is None:  # a hashed map has a row for every feature
        return True
    values = 2 * wrong * (len(plan.word) + len(plan.pair))
    if 2 * (state[0] + values) > len(keys) or state[1] + values * LINE > n_weights:
        return False
    for m in range(1, n + 1):
        if gold[start + m] == heads[start + m]:
            continue
        for h in (gold[start + m], heads[start + m]):
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
    return True


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
