"""Labels found with the trees, compiled: the best label of every arc, from a line of weights each.

A label template is conjoined with every label: its value finds a line of weights, one weight a
label, by the same keys as an arc template's. Templates of one word without the distance are summed
once a word and direction; all others once an arc. What an arc adds for its best label then takes
part in the arc's score, whatever the tree search (Carreras 2007, section 2).
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gpuparse.compiled import compiled
from gpuparse.features.larger_plan import LargerPlan
from gpuparse.features.plan import ArcPlan
from gpuparse.inference.kernels.cpu.lanes import Lanes, Loop, constant, prefetch
from gpuparse.scoring.cpu import RowMap, Scratch, fill_parts, find_base, make_scratch, part_key
from gpuparse.scoring.cpu_larger import LargerScratch, make_larger_scratch

LANES = 16  # labels of one line are made up to a multiple of so many
CACHE_LINE = 64  # bytes
LITTLE = -(1 << 30)


class JointLabels(NamedTuple):
    """What the labels of arcs are scored with."""

    plan: ArcPlan
    rows: RowMap  # of lines of weights
    weights: np.ndarray  # (lines * stride,): a line of one weight a label, then zeros
    stride: int
    width: int  # labels
    larger: LargerPlan | None = None  # templates of children, where their labels are found too


class JointScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    words: np.ndarray  # (2, 2, N, stride) sums of the templates of one word, by role and direction
    sums: np.ndarray  # (stride,) of one arc
    lines: np.ndarray  # (N, pairs) int64: first weights of the lines of one head's arcs
    counts: np.ndarray  # (N,) int64: how many lines each of them has
    best: np.ndarray  # (N, N) what the best label of each arc scores
    arcs: np.ndarray | None  # (N, N, stride) what every label of each arc scores, with children
    larger: LargerScratch | None  # of children
    gold: np.ndarray  # (N,) int64 gold heads and labels, and the cost of other labels, while
    labels: np.ndarray  # (N,) int64 learning with children; no heads otherwise
    cost: np.ndarray  # (1,) float64


def make_joint_scratch(joint: JointLabels, n: int, sums: np.dtype) -> JointScratch:
    """Working memory for sentences of up to n words; `sums` is the type that weights sum to."""
    nodes, plan = n + 1, joint.plan
    return JointScratch(
        make_scratch(plan, n, False, sums),
        np.zeros((2, 2, nodes, joint.stride), sums),
        np.zeros(joint.stride, sums),
        np.zeros((nodes, 2 * len(plan.pair) + 1), np.int64),
        np.zeros(nodes, np.int64),
        np.zeros((nodes, nodes), sums),
        np.zeros((nodes, nodes, joint.stride), sums) if joint.larger else None,
        make_larger_scratch(joint.larger, n) if joint.larger else None,
        np.full(nodes, -1, np.int64),
        np.full(nodes, -1, np.int64),
        np.zeros(1),
    )


def stride_of(width: int) -> int:
    """Weights of a line of so many labels, so that vectors fill it."""
    return -(-width // LANES) * LANES


@compiled
def _sum_words(n, plan, rows, weights, stride, width, parts, words):
    """Sum the families of one word, for arcs to the right and to the left.

    What makes up a line beyond the labels gets so little that it is never the largest.
    """
    words[:, :, : n + 1] = 0
    words[0, :, : n + 1, width:] = LITTLE
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
def _find_lines(h, m, c, plan, rows, stride, parts, lines):
    """Fill lines[m] with the first weights of the lines of the arc h -> m; returns how many."""
    on, heads, modifiers = parts.side_on, parts.head_part, parts.modifier_part
    count = 0
    for family in range(len(plan.pair)):
        record = plan.pair[family]
        if on[record.head_side, h] and on[record.modifier_side, m]:
            key = heads[family, h] ^ modifiers[family, m]
            base = find_base(key, rows.rows, rows.is_power, rows.keys, rows.bases)
            lines[m, count] = np.int64(base ^ plan.codes[record.first_codes, c]) * stride
            count += 1
            if record.second_codes >= 0:
                lines[m, count] = np.int64(base ^ plan.codes[record.second_codes, c]) * stride
                count += 1
    return count


@compiled
def sum_labels(h, m, n, plan, rows, weights, stride, parts, words, lines, sums):
    """Fill sums[l] with the score of label l on the arc h -> m."""
    direction = 0 if h < m else 1
    count = _find_lines(h, m, parts.combination[n + m - h], plan, rows, stride, parts, lines)
    for k in range(stride):
        sums[k] = words[0, direction, h, k] + words[1, direction, m, k]
    for line in range(count):
        first = np.uint64(lines[m, line])
        for k in range(stride):
            sums[k] += weights[first + np.uint64(k)]


@compiled
def sum_all_labels(
    values, start, n, plan, rows, weights, stride, width, parts, words, lines, allowed, arcs
):  # fmt: skip
    """Fill arcs[h, m, l] with the score of every label of the arcs that are allowed.

    allowed: bool (N, N), or empty: all arcs.
    """
    fill_parts(values, start, n, plan, rows, parts)
    _sum_words(n, plan, rows, weights, stride, width, parts, words)
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m and (len(allowed) == 0 or allowed[h, m]):
                sum_labels(h, m, n, plan, rows, weights, stride, parts, words, lines, arcs[h, m])


@intrinsic
def _largest_sum(typingctx, words, weights, lines, head, modifier, first_line, n_lines, stride):
    """The largest sum of any label: of words[head:] and words[modifier:] and of the lines.

    Labels by the vector, its sum in a register while a loop runs over the lines.
    """
    is_whole = isinstance(words.dtype, types.Integer)

    def codegen(context, builder, signature, args):
        words_array, weights_array, lines_array, head, modifier, first_line, n_lines, stride = args
        of_words = Lanes(context, builder, words, words_array, LANES)
        of_weights = Lanes(context, builder, weights, weights_array, LANES)
        of_lines = Lanes(context, builder, lines, lines_array, 1)
        add = builder.add if is_whole else builder.fadd
        zero, one = ir.Constant(stride.type, 0), ir.Constant(stride.type, 1)
        lanes = ir.Constant(stride.type, LANES)
        least = constant(of_words.type, 2 * LITTLE)
        blocks = Loop(builder, zero, stride, lanes, [least])
        total = add(
            of_words.load(builder.add(head, blocks.i)),
            of_words.load(builder.add(modifier, blocks.i)),
        )
        each = Loop(builder, zero, n_lines, one, [total])
        line = of_lines.load_one(builder.add(first_line, each.i))
        weight = of_weights.load(builder.add(line, blocks.i))
        if is_whole:
            weight = builder.sext(weight, total.type)
        each.turn([add(each.values[0], weight)])
        blocks.turn([_larger(builder, each.values[0], blocks.values[0], is_whole)])
        return _fold(builder, blocks.values[0], is_whole)

    return words.dtype(words, weights, lines, *[types.int64] * 5), codegen


def _larger(builder: Any, x: Any, y: Any, is_whole: bool) -> Any:
    compare = builder.icmp_signed if is_whole else builder.fcmp_ordered
    return builder.select(compare(">", x, y), x, y)


def _fold(builder: Any, vector: Any, is_whole: bool) -> Any:
    """The largest lane."""
    zero = ir.Constant(ir.IntType(32), 0)
    undefined = ir.Constant(vector.type, ir.Undefined)
    shift = LANES // 2
    while shift:
        turn = [(lane + shift) % LANES for lane in range(LANES)]
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), turn)
        vector = _larger(
            builder, vector, builder.shuffle_vector(vector, undefined, order), is_whole
        )
        shift //= 2
    return builder.extract_element(vector, zero)


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
    values, start, n, plan, rows, weights, stride, width, parts, words, lines, counts, best
):  # fmt: skip
    """Fill best[h, m] of every arc of one sentence with what its best label scores.

    The lines of all arcs of a head are asked for before any is read.

    Cost: O(labels * families) an arc.
    """
    fill_parts(values, start, n, plan, rows, parts)
    _sum_words(n, plan, rows, weights, stride, width, parts, words)
    flat_words, flat_lines = words.reshape(-1), lines.reshape(-1)
    nodes, per_line = words.shape[2], CACHE_LINE // weights.itemsize
    for h in range(n + 1):
        for m in range(1, n + 1):
            counts[m] = 0
            if h != m:
                c = parts.combination[n + m - h]
                counts[m] = _find_lines(h, m, c, plan, rows, stride, parts, lines)
            for line in range(counts[m]):
                for k in range(0, stride, per_line):
                    prefetch(weights, lines[m, line] + k)
        for m in range(1, n + 1):
            if h != m:
                direction = 0 if h < m else 1
                best[h, m] = _largest_sum(
                    flat_words, weights, flat_lines, (direction * nodes + h) * stride,
                    ((2 + direction) * nodes + m) * stride, m * lines.shape[1], counts[m], stride,
                )  # fmt: skip
