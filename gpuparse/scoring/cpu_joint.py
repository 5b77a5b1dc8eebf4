"""Labels found with the trees, compiled: the best label of every arc, from a line of weights each.

A label template is conjoined with every label: its value finds a line of weights, one weight a
label, by the same keys as an arc template's. Templates of one word without the distance are summed
once a word and direction; all others once an arc. What an arc adds for its best label then takes
part in the arc's score, whatever the tree search (Carreras 2007, section 2).
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.features.plan import ArcPlan
from gpuparse.scoring.cpu import RowMap, Scratch, fill_parts, find_base, make_scratch, part_key

LANES = 16  # labels of one line are made up to a multiple of so many


class JointLabels(NamedTuple):
    """What the labels of arcs are scored with."""

    plan: ArcPlan
    rows: RowMap  # of lines of weights
    weights: np.ndarray  # (lines * stride,): a line of one weight a label, then zeros
    stride: int
    width: int  # labels


class JointScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    words: np.ndarray  # (2, 2, N, stride) sums of the templates of one word, by role and direction
    sums: np.ndarray  # (stride,) of one arc
    lines: np.ndarray  # (pairs,) int64: first weights of one arc's lines
    best: np.ndarray  # (N, N) what the best label of each arc scores


def make_joint_scratch(joint: JointLabels, n: int, sums: np.dtype) -> JointScratch:
    """Working memory for sentences of up to n words; `sums` is the type that weights sum to."""
    nodes, plan = n + 1, joint.plan
    return JointScratch(
        make_scratch(plan, n, False, sums),
        np.zeros((2, 2, nodes, joint.stride), sums),
        np.zeros(joint.stride, sums),
        np.zeros(2 * len(plan.pair) + 1, np.int64),
        np.zeros((nodes, nodes), sums),
    )


def stride_of(width: int) -> int:
    """Weights of a line of so many labels, so that vectors fill it."""
    return -(-width // LANES) * LANES


@compiled
def _sum_words(n, plan, rows, weights, stride, parts, words):
    """Sum the families of one word, for arcs to the right and to the left."""
    words[:, :, : n + 1] = 0
    for family in range(len(plan.word)):
        record = plan.word[family]
        role, side = record.role, record.side
        for i in range(role, n + 1):
            if parts.side_on[side, i]:
                key = part_key(parts.side_key[side, i], record.seed, 0, rows.mask, rows.keys)
                base = find_base(key, rows.rows, rows.is_power, rows.keys, rows.bases)
                for direction in range(2):
                    c = direction * plan.n_buckets
                    for codes in (record.first_codes, record.second_codes):
                        if codes >= 0:
                            first = np.uint64(base ^ plan.codes[codes, c]) * np.uint64(stride)
                            for k in range(stride):
                                words[role, direction, i, k] += weights[first + np.uint64(k)]


@compiled
def sum_labels(h, m, n, plan, rows, weights, stride, parts, words, lines, sums):
    """Fill sums[l] with the score of label l on the arc h -> m."""
    direction = 0 if h < m else 1
    c = parts.combination[n + m - h]
    on, heads, modifiers = parts.side_on, parts.head_part, parts.modifier_part
    count = 0
    for family in range(len(plan.pair)):
        record = plan.pair[family]
        if on[record.head_side, h] and on[record.modifier_side, m]:
            key = heads[family, h] ^ modifiers[family, m]
            base = find_base(key, rows.rows, rows.is_power, rows.keys, rows.bases)
            lines[count] = np.int64(base ^ plan.codes[record.first_codes, c]) * stride
            count += 1
            if record.second_codes >= 0:
                lines[count] = np.int64(base ^ plan.codes[record.second_codes, c]) * stride
                count += 1
    for k in range(stride):
        sums[k] = words[0, direction, h, k] + words[1, direction, m, k]
    line = 0
    while line + 1 < count:  # two at a time: half as many loads and stores of the sums
        first, second = np.uint64(lines[line]), np.uint64(lines[line + 1])
        for k in range(stride):
            sums[k] += weights[first + np.uint64(k)] + weights[second + np.uint64(k)]
        line += 2
    if line < count:
        first = np.uint64(lines[line])
        for k in range(stride):
            sums[k] += weights[first + np.uint64(k)]


@compiled
def _largest(sums, width):
    most = sums[0]
    for k in range(1, width):
        most = max(most, sums[k])
    return most


@compiled
def best_label(sums, width, right, cost):
    """The first of the labels that score highest, and that score.

    Every label but `right` scores `cost` more than its sum.
    """
    chosen, most = 0, -np.inf
    for label in range(width):
        value = np.float64(sums[label]) + (cost if label != right else 0.0)
        if value > most:
            chosen, most = label, value
    return chosen, most


@compiled
def score_labels(
    values, start, n, plan, rows, weights, stride, width, parts, words, lines, sums, best
):  # fmt: skip
    """Fill best[h, m] of every arc of one sentence with what its best label scores.

    Cost: O(labels * families) an arc.
    """
    fill_parts(values, start, n, plan, rows, parts)
    _sum_words(n, plan, rows, weights, stride, parts, words)
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m:
                sum_labels(h, m, n, plan, rows, weights, stride, parts, words, lines, sums)
                best[h, m] = _largest(sums, width)
