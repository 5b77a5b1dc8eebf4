"""Labels found with the trees, compiled: the best label of every arc, from a line of weights each.

A label template is conjoined with every label: its value finds a line of weights, one weight a
label, by the same keys as an arc template's. Templates of one word without the distance are summed
once a word and direction; all others once an arc. What an arc adds for its best label then takes
part in the arc's score, whatever the tree search (Carreras 2007, section 2).
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.plan import ArcPlan
from gpuparse.scoring.cpu import RowMap, Scratch, fill_parts, find_base, make_scratch, part_key


class JointLabels(NamedTuple):
    """What the labels of arcs are scored with."""

    plan: ArcPlan
    rows: RowMap  # of lines of weights
    weights: np.ndarray  # (lines * width,)
    width: int  # labels


class JointScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    words: np.ndarray  # (2, 2, N, width) sums of the templates of one word, by role and direction
    sums: np.ndarray  # (width,) of one arc
    lines: np.ndarray  # (pairs,) int64: first weights of one arc's lines
    best: np.ndarray  # (N, N) what the best label of each arc scores
    label: np.ndarray  # (N, N) int64: the best label, the first of equals


def make_joint_scratch(joint: JointLabels, n: int, sums: np.dtype) -> JointScratch:
    """Working memory for sentences of up to n words; `sums` is the type that weights sum to."""
    nodes, plan = n + 1, joint.plan
    return JointScratch(
        make_scratch(plan, n, False, sums),
        np.zeros((2, 2, nodes, joint.width), sums),
        np.zeros(joint.width, sums),
        np.zeros(2 * len(plan.pair), np.int64),
        np.zeros((nodes, nodes), sums),
        np.zeros((nodes, nodes), np.int64),
    )


@compiled
def _sum_words(n, plan, rows, weights, width, parts, words):
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
                    _add_line(
                        weights,
                        width,
                        base ^ plan.codes[record.first_codes, c],
                        words[role, direction, i],
                    )
                    if record.second_codes >= 0:
                        _add_line(
                            weights,
                            width,
                            base ^ plan.codes[record.second_codes, c],
                            words[role, direction, i],
                        )


@inlined
def _add_line(weights, width, row, sums):
    first = np.uint64(row) * np.uint64(width)
    for label in range(width):
        sums[label] += weights[first + np.uint64(label)]


@compiled
def sum_labels(h, m, n, plan, rows, weights, width, parts, words, lines, sums):
    """Fill sums[l] with the score of label l on the arc h -> m."""
    direction = 0 if h < m else 1
    c = parts.combination[n + m - h]
    count = 0
    for family in range(len(plan.pair)):
        record = plan.pair[family]
        if parts.side_on[record.head_side, h] and parts.side_on[record.modifier_side, m]:
            key = parts.head_part[family, h] ^ parts.modifier_part[family, m]
            base = find_base(key, rows.rows, rows.is_power, rows.keys, rows.bases)
            lines[count] = np.int64(base ^ plan.codes[record.first_codes, c]) * width
            count += 1
            if record.second_codes >= 0:
                lines[count] = np.int64(base ^ plan.codes[record.second_codes, c]) * width
                count += 1
    for label in range(width):
        sums[label] = words[0, direction, h, label] + words[1, direction, m, label]
    for k in range(count):
        first = np.uint64(lines[k])
        for label in range(width):
            sums[label] += weights[first + np.uint64(label)]


@inlined
def first_best(sums):
    """The number of the first of the largest sums."""
    best = 0
    for label in range(1, len(sums)):
        if sums[label] > sums[best]:
            best = label
    return best


@compiled
def score_labels(
    values, start, n, plan, rows, weights, width, parts, words, lines, sums, best, label
):
    """Fill best[h, m] and label[h, m] of every arc of one sentence.

    Cost: O(labels * families) an arc.
    """
    fill_parts(values, start, n, plan, rows, parts)
    _sum_words(n, plan, rows, weights, width, parts, words)
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m:
                sum_labels(h, m, n, plan, rows, weights, width, parts, words, lines, sums)
                chosen = first_best(sums)
                best[h, m], label[h, m] = sums[chosen], chosen
