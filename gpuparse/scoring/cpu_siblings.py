"""Compiled scoring of sibling parts: what second-order search reads, without n^3 numbers.

A part (h, s, m) has three kinds of features. Those of the two siblings are scored once a pair;
those of a modifier without an inner sibling once a head and modifier; and those of all three words
are left in the table of weights: search is given where in it to look.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.plan import LINE, NO_CODE, SiblingPlan
from gpuparse.inference.kernels.cpu.siblings import FactoredSiblings
from gpuparse.scoring.cpu import (
    Scratch,
    add_pairs,
    fill_parts,
    find_base,
    make_scratch,
    max_rows,
    pair_rows,
    put_rows,
    sum_words,
)

NO_SIBLING = 0  # stands for the sibling that is not there: the root is never one


class SiblingScoreScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    sums: np.ndarray  # (N, N) sums of weights, [s, m]
    alone: np.ndarray  # (N, LINE): sums for a modifier without a sibling, by combination
    first: np.ndarray  # (N, N) float64; this and the next as in FactoredSiblings
    pair: np.ndarray  # (N, N) float64
    places: np.ndarray  # (3, P, N) int64
    gaps: np.ndarray  # (P, 2N + 1) int64


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
        np.zeros((3, len(gaps), nodes), np.int64),
        gaps,
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


@compiled
def triple_place(value, size, stride):
    """What a word's value adds to the cell of a triple: its share of the line's number."""
    return np.int64(min(np.int64(value), size - 1)) * stride * LINE


@compiled
def _fill_places(values, start, n, triple, dense, places):
    """Where the triples of each node lie in the table of weights."""
    p = 0
    for family in range(len(triple)):
        record = triple[family]
        first = dense + record.line * LINE
        of_sibling = record.n_modifiers
        of_head = record.n_siblings * of_sibling
        for i in range(n + 1):
            head = values[record.head_row, start + i]
            sibling = values[record.sibling_row, start + i]
            modifier = values[record.modifier_row, start + i]
            places[0, p, i] = first + triple_place(head, record.n_heads, of_head)
            places[1, p, i] = triple_place(sibling, record.n_siblings, of_sibling)
            places[2, p, i] = triple_place(modifier, record.n_modifiers, 1)
        p += 1
        if record.second_codes >= 0:
            places[:, p, : n + 1] = places[:, p - 1, : n + 1]
            p += 1


@compiled
def _sum_alone(n, plan, weights, rows, scratch, alone):
    """Sum the features of two siblings for modifiers without one, for every combination."""
    on, codes = scratch.side_on, plan.codes
    alone[: n + 1] = 0
    for family in range(len(plan.pair)):
        record = plan.pair[family]
        if not on[record.head_side, NO_SIBLING]:
            continue
        first, second = record.first_codes, record.second_codes
        for m in range(1, n + 1):
            if on[record.modifier_side, m]:
                key = scratch.head_part[family, NO_SIBLING] ^ scratch.modifier_part[family, m]
                base = find_base(key, rows.rows, rows.is_power, rows.keys, rows.bases)
                for c in range(codes.shape[1]):
                    alone[m, c] += weights[base ^ codes[first, c]]
                if second >= 0:
                    for c in range(codes.shape[1]):
                        alone[m, c] += weights[base ^ codes[second, c]]
    for m in range(1, n + 1):
        for c in range(codes.shape[1]):
            alone[m, c] += scratch.word_sum[0, NO_SIBLING, c] + scratch.word_sum[1, m, c]


@inlined
def score_siblings(values, start, n, plan, weights, rows, scratch):
    """Score the sibling parts of one sentence.

    Returns: FactoredSiblings over the scratch, good until the next sentence.
    Cost: O(families n^2) gathers; the triples are gathered by search, n^3 / 3 of each suffix.
    """
    pairs, parts, sums = plan.pairs, scratch.parts, scratch.sums
    fill_parts(values, start, n, pairs, rows, parts)
    sum_words(n, pairs, weights, rows, parts)
    for s in range(1, n + 1):
        for m in range(1, n + 1):
            c = parts.combination[n + m - s]
            sums[s, m] = parts.word_sum[0, s, c] + parts.word_sum[1, m, c]
            for table in range(len(pairs.codes)):
                parts.code[table, m] = pairs.codes[table, c]
        add_pairs(s, n, pairs, weights, rows, parts, sums)
        for m in range(1, n + 1):
            scratch.pair[s, m] = sums[s, m]
    _sum_alone(n, pairs, weights, rows, parts, scratch.alone)
    _fill_places(values, start, n, plan.triple, rows.dense, scratch.places)
    first, places, middle = scratch.first, scratch.places, scratch.gaps.shape[1] // 2
    for h in range(n + 1):
        for m in range(1, n + 1):
            first[h, m] = scratch.alone[m, parts.combination[n + m - h]]
        for p in range(len(scratch.gaps)):
            line = places[0, p, h] + places[1, p, NO_SIBLING]
            for m in range(1, n + 1):
                cell = line + places[2, p, m] + scratch.gaps[p, middle + m - h]
                first[h, m] += weights[np.uint64(cell)]
    return FactoredSiblings(first, scratch.pair, weights, places, scratch.gaps)


@compiled
def sibling_rows(values, start, n, h, m, s, plan, rows, parts, found):
    """Write the weight rows of every feature of the part (h, s, m); return how many there are.

    s == h where there is no inner sibling. `fill_parts` of the pairs must have been called.
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
        if head != 0 and sibling != 0 and modifier != 0:
            of_head = record.n_siblings * record.n_modifiers
            base = rows.dense + record.line * LINE
            base += triple_place(head, record.n_heads, of_head)
            base += triple_place(sibling, record.n_siblings, record.n_modifiers)
            base += triple_place(modifier, record.n_modifiers, 1)
            first, second = record.first_codes, record.second_codes
            count = put_rows(base, first, second, pairs.codes, c, found, count)
    return count


def max_sibling_rows(plan: SiblingPlan) -> int:
    """No sibling part has more features than this."""
    return max_rows(plan.pairs, 0) + 2 * len(plan.triple)
