"""Compiled scoring of sibling parts and ends: what second-order search reads, not n^3 numbers.

A sibling part (h, s, m) has three kinds of features. Those of the two siblings are scored once a
pair; those of a modifier without an inner sibling once a head and modifier; and those of all three
words are left in the table of weights: search is given where in it to look.

The end (h, m) says that m is the outermost modifier of h on its side. What its features score for
no modifier at all is taken from those of all modifiers: search takes it to be 0.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.keys import fold, mix
from gpuparse.features.plan import LINE, NO_CODE, SiblingPlan
from gpuparse.inference.kernels.cpu.siblings import FactoredSiblings
from gpuparse.scoring.cpu import (
    Scratch,
    fill_parts,
    find_base,
    make_scratch,
    max_rows,
    pair_rows,
    put_rows,
    score_pairs,
    sum_words,
)

NO_SIBLING = 0  # stands for the sibling, or modifier, that is not there: the root is never one


class SiblingScoreScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    sums: np.ndarray  # (N, N) sums of weights, [s, m]
    alone: np.ndarray  # (N, LINE): sums for a modifier without a sibling, by combination
    first: np.ndarray  # (N, N) float64; this and the next as in FactoredSiblings
    pair: np.ndarray  # (N, N) float64
    firsts: np.ndarray  # (P,) int64
    places: np.ndarray  # (3, P, N) int64
    masks: np.ndarray  # (3, P, N) int64
    gaps: np.ndarray  # (P, 2N + 1) int64
    end_parts: Scratch  # of heads and outermost modifiers
    ends: np.ndarray  # (N, N) float64


def make_sibling_score_scratch(
    plan: SiblingPlan, n: int, exact: bool, sums: np.dtype
) -> SiblingScoreScratch:
    """Working memory for sentences of up to n words; `sums` is the type that weights sum to."""
    nodes = n + 1
    gaps = _gaps(plan, nodes)
    return SiblingScoreScratch(
        make_scratch(plan.pairs, n, exact, sums),
        np.zeros((nodes, nodes), sums),
        np.zeros((nodes, LINE), sums),
        np.zeros((nodes, nodes)),
        np.zeros((nodes, nodes)),
        np.zeros(len(gaps), np.int64),
        np.zeros((3, len(gaps), nodes), np.int64),
        np.zeros((3, len(gaps), nodes), np.int64),
        gaps,
        make_scratch(plan.ends, n, exact, sums),
        np.zeros((nodes, nodes)),
    )


def _gaps(plan: SiblingPlan, middle: int) -> np.ndarray:
    """(P, 2 middle + 1) the code of every difference m - s, one row a suffix of a triple family."""
    pairs = plan.pairs
    gap = np.arange(-middle, middle + 1)
    bucket = pairs.buckets[(np.abs(gap) - 1).clip(0, len(pairs.buckets) - 1)]
    combination = bucket + pairs.n_buckets * (gap < 0)
    tables = [
        record[name]
        for record in plan.triple
        for name in ("first_codes", "second_codes")
        if record[name] != NO_CODE
    ]
    codes = [pairs.codes[table][combination].astype(np.int64) for table in tables]
    return np.array(codes, np.int64).reshape(len(tables), len(gap))


@inlined
def _triple_place(value, role, shift, record):
    """The place of one word's value in the region of a triple family."""
    if record.is_hashed == 0:
        return np.int64(value) << shift
    key = mix(fold(np.uint32(0), np.uint32(value)), np.uint32(3 * record.seed + role))
    return np.int64(key) * record.slots & (record.cells - 1)


@compiled
def _fill_places(values, start, n, triple, dense, firsts, places, masks):
    """Where the triples of each node lie in the table of weights."""
    p = 0
    for family in range(len(triple)):
        record = triple[family]
        rows = (record.head_row, record.sibling_row, record.modifier_row)
        shifts = (record.head_shift, record.sibling_shift, record.modifier_shift)
        firsts[p] = dense + record.line * LINE
        for role in range(3):
            for i in range(n + 1):
                value = values[rows[role], start + i]
                places[role, p, i] = _triple_place(value, role, shifts[role], record)
                masks[role, p, i] = -1 if value != 0 else 0
        p += 1
        if record.second_codes >= 0:
            firsts[p] = firsts[p - 1]
            places[:, p, : n + 1] = places[:, p - 1, : n + 1]
            masks[:, p, : n + 1] = masks[:, p - 1, : n + 1]
            p += 1


@compiled
def fill_sibling_parts(values, start, n, pairs, rows, parts):
    """`fill_parts` for two siblings: what stands beside a sibling that is not there is no value."""
    fill_parts(values, start, n, pairs, rows, parts)
    for side in range(len(pairs.side_start) - 1):
        for atom in range(pairs.side_start[side], pairs.side_start[side + 1]):
            parts.side_on[side, NO_SIBLING] &= pairs.atoms[atom].offset == 0


@compiled
def _sum_alone(head, m, plan, weights, rows, parts, alone):
    """Sum the features of two nodes for every combination of direction and distance."""
    on, codes = parts.side_on, plan.codes
    for c in range(codes.shape[1]):
        alone[c] = parts.word_sum[0, head, c] + parts.word_sum[1, m, c]
    for family in range(len(plan.pair)):
        record = plan.pair[family]
        if on[record.head_side, head] and on[record.modifier_side, m]:
            first, second = record.first_codes, record.second_codes
            key = parts.head_part[family, head] ^ parts.modifier_part[family, m]
            base = find_base(key, rows.rows, rows.is_power, rows.keys, rows.bases)
            for c in range(codes.shape[1]):
                alone[c] += weights[base ^ codes[first, c]]
            if second >= 0:
                for c in range(codes.shape[1]):
                    alone[c] += weights[base ^ codes[second, c]]


@compiled
def _score_ends(values, start, n, plan, weights, rows, parts, sums, alone, ends):
    """Score the ends of one sentence, less what no modifier would score."""
    if len(plan.word) + len(plan.pair) == 0:
        ends[: n + 1, : n + 1] = 0
        return
    fill_parts(values, start, n, plan, rows, parts)
    sum_words(n, plan, weights, rows, parts)
    score_pairs(0, n, plan, weights, rows, parts, sums)
    for h in range(n + 1):
        # Without a modifier there is a direction, and no distance: the first bucket.
        _sum_alone(h, NO_SIBLING, plan, weights, rows, parts, alone)
        for m in range(1, n + 1):
            ends[h, m] = sums[h, m] - alone[0 if h < m else plan.n_buckets]


@inlined
def score_siblings(values, start, n, plan, weights, rows, scratch):
    """Score the sibling parts and ends of one sentence.

    Returns: FactoredSiblings over the scratch, good until the next sentence.
    Cost: O(families n^2) gathers; the triples are gathered by search, n^3 / 3 of each suffix.
    """
    pairs, parts = plan.pairs, scratch.parts
    fill_sibling_parts(values, start, n, pairs, rows, parts)
    sum_words(n, pairs, weights, rows, parts)
    score_pairs(1, n, pairs, weights, rows, parts, scratch.sums)
    for m in range(1, n + 1):
        for s in range(1, n + 1):
            scratch.pair[s, m] = scratch.sums[s, m]
        _sum_alone(NO_SIBLING, m, pairs, weights, rows, parts, scratch.alone[m])
    _score_ends(
        values, start, n, plan.ends, weights, rows, scratch.end_parts, scratch.sums,
        scratch.alone[0], scratch.ends,
    )  # fmt: skip
    _fill_places(
        values, start, n, plan.triple, rows.dense, scratch.firsts, scratch.places, scratch.masks
    )
    first, places, masks, gaps = scratch.first, scratch.places, scratch.masks, scratch.gaps
    middle = gaps.shape[1] // 2
    for h in range(n + 1):
        for m in range(1, n + 1):
            first[h, m] = scratch.alone[m, parts.combination[n + m - h]]
        for p in range(len(gaps)):
            fixed = places[0, p, h] ^ places[1, p, NO_SIBLING]
            mask = masks[0, p, h] & masks[1, p, NO_SIBLING]
            for m in range(1, n + 1):
                place = fixed ^ places[2, p, m] ^ gaps[p, middle + m - h]
                first[h, m] += weights[
                    np.uint64(scratch.firsts[p] + (place & mask & masks[2, p, m]))
                ]
    return FactoredSiblings(
        first, scratch.pair, scratch.ends, weights, scratch.firsts, places, masks, gaps
    )


@compiled
def sibling_rows(values, start, n, h, m, s, plan, rows, parts, found):
    """Write the weight rows of every feature of the part (h, s, m); return how many there are.

    s == h where there is no inner sibling. `fill_sibling_parts` must have been called.
    """
    pairs = plan.pairs
    inner = NO_SIBLING if s == h else s
    c = parts.combination[n + m - s]
    count = pair_rows(inner, m, c, pairs, rows, parts, found)
    for family in range(len(plan.triple)):
        record = plan.triple[family]
        head = values[record.head_row, start + h]
        sibling = values[record.sibling_row, start + inner]
        modifier = values[record.modifier_row, start + m]
        place = _triple_place(head, 0, record.head_shift, record)
        place ^= _triple_place(sibling, 1, record.sibling_shift, record)
        place ^= _triple_place(modifier, 2, record.modifier_shift, record)
        # The first line is where words without a value are sent.
        if head != 0 and sibling != 0 and modifier != 0 and place >= LINE:
            base = rows.dense + record.line * LINE + place
            first, second = record.first_codes, record.second_codes
            count = put_rows(base, first, second, pairs.codes, c, found, count)
    return count


@compiled
def end_rows(n, h, m, is_right, plan, rows, parts, found):
    """Write the weight rows of every feature of the end (h, m); return how many there are.

    m == h where h has no modifier on that side. `fill_parts` of the ends must have been called.
    """
    if m == h:
        c = 0 if is_right else plan.ends.n_buckets
        return pair_rows(h, NO_SIBLING, c, plan.ends, rows, parts, found)
    return pair_rows(h, m, parts.combination[n + m - h], plan.ends, rows, parts, found)


def max_sibling_rows(plan: SiblingPlan) -> int:
    """No sibling part or end has more features than this."""
    pairs = max_rows(plan.pairs, 0) + 2 * len(plan.triple)
    return max(pairs, max_rows(plan.ends, 0))
