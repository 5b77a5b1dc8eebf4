"""Compiled labelling: for every word of a finished tree, the label with the highest score."""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.features.keys import fold, mix
from gpuparse.features.label_plan import ABSENT, NONE
from gpuparse.features.templates import LABEL_ROLES

HEAD, MODIFIER, GRANDPARENT, BEFORE, AFTER, LEFTMOST, RIGHTMOST, OTHER = range(len(LABEL_ROLES))


class LabelScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    positions: np.ndarray  # (N, roles) int64: the node of each role for each word, or NONE
    lines: np.ndarray  # (F,) int64: first weight of the line of each feature of one word
    scores: np.ndarray  # (labels,)


def make_label_scratch(n_templates: int, n_labels: int, n: int, sums: np.dtype) -> LabelScratch:
    """Working memory for sentences of up to n words; `sums` is the type that weights sum to."""
    return LabelScratch(
        np.empty((n + 1, len(LABEL_ROLES)), np.int64),
        np.empty(n_templates, np.int64),
        np.empty(n_labels, sums),
    )


@compiled
def fill_positions(heads, start, n, positions):
    """The node of every role for every word of the tree heads[start + 1 : start + n + 1]."""
    for i in range(n + 1):
        positions[i] = NONE
    for m in range(1, n + 1):
        h = heads[start + m]
        positions[m, HEAD], positions[m, MODIFIER] = h, m
        if h > 0:
            positions[m, GRANDPARENT] = heads[start + h]
        # Going right, the rightmost modifier of h met so far is the one just before m.
        previous = positions[h, RIGHTMOST]
        if previous == NONE:
            positions[h, LEFTMOST] = m
        else:
            positions[m, BEFORE] = previous
            positions[previous, AFTER] = m
        positions[h, RIGHTMOST] = m


@compiled
def fill_lines(values, start, m, plan, n_lines, width, positions, lines):
    """First weights of the lines of word m's features; -1 for a silent one."""
    h = positions[m, HEAD]
    bucket = plan.buckets[min(abs(h - m) - 1, len(plan.buckets) - 1)]
    for f in range(len(plan.direction)):
        key, on = np.uint32(0), True
        for atom in range(plan.start[f], plan.start[f + 1]):
            position = positions[m, plan.role[atom]]
            value = ABSENT
            if position != NONE:
                value = values[plan.row[atom], start + position + plan.offset[atom]]
            on &= value != 0
            key = fold(key, np.uint32(value))
        if plan.direction[f]:
            key = fold(key, np.uint32(h < m))
        if plan.distance[f]:
            key = fold(key, np.uint32(bucket))
        key = mix(key, np.uint32(f + 1))
        line = np.int64((np.uint64(key) * np.uint64(n_lines)) >> np.uint64(32))
        lines[f] = line * width if on else -1


@compiled
def sum_lines(weights, lines, scores):
    """scores[l] = sum of the weights of label l over the lines."""
    scores[:] = 0
    n_labels = len(scores)
    for f in range(len(lines)):
        if lines[f] >= 0:
            base = np.uint64(lines[f])
            for label in range(n_labels):
                scores[label] += weights[base + np.uint64(label)]


@compiled
def label_sentences(values, starts, lengths, heads, plan, weights, n_lines, scratch, labels):
    """Fill labels[start + 1 : start + n + 1] of every sentence: the first of the best labels.

    weights: (n_lines * labels,), a line of one weight a label for each hash value.
    """
    width = len(scratch.scores)
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        fill_positions(heads, start, n, scratch.positions)
        for m in range(1, n + 1):
            fill_lines(values, start, m, plan, n_lines, width, scratch.positions, scratch.lines)
            sum_lines(weights, scratch.lines, scratch.scores)
            labels[start + m] = np.argmax(scratch.scores)
