"""Eisner with siblings and grandchildren, compiled: a row of the chart for each candidate arc.

The row of the arc h -> m holds Closed(h,e,m) for all span ends e, so both maxima inside an open
span, over the sibling and over the inner grandchild, are taken for a vector of splits at once: a
row times a number for each, where max stands for the sum and + for the product. Rows of one head
and side stand one after the other, the nearest modifier first, and before them one for the half
without modifiers, so that "none" is a choice like the others.

Spans are filled from the last start to the first. Everything to the right of a start is known then,
so the rows of arcs to the right are filled whole; those to the left get one more end each time,
by a maximum along a row of those that end there. There are no back-pointers: the back-trace looks
for the first best choice again.
"""

from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.candidates import Candidates, find_candidates
from gpuparse.inference.kernels.cpu.grandchild_blocks import fill_grandchild_blocks
from gpuparse.inference.kernels.cpu.lanes import (
    Lanes,
    Loop,
    constant,
    fold,
    lane_count,
    larger,
    splat,
    vector_lanes,
    whole_vectors,
)
from gpuparse.inference.kernels.cpu.threads import run_in_threads
from gpuparse.tensors import NO_HEAD


class _Splits:
    """Sums of a row of i and a row of m, for as many splits as a vector holds; i < m."""

    def __init__(self, context: Any, builder: Any, chart: Any, args: Any) -> None:
        self.context, self.builder = context, builder
        array, self.stride, self.i_row, self.m_row, self.width, self.n_i, self.n_m = args[:7]
        self.cell = Lanes(context, builder, chart, array, lane_count(chart))
        self.zero, self.one = (ir.Constant(self.width.type, k) for k in (0, 1))
        self.nothing = constant(self.cell.type, -np.inf)

    def scores(self, array_type: Any, array: Any, first: Any) -> tuple[Lanes, Any]:
        """The scores of the rows of an arc, from the first on."""
        return Lanes(self.context, self.builder, array_type, array, 1), first

    def smaller(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

    def counts(self, d: Any) -> tuple[Any, Any]:
        """How many rows of i and of m have anything at the splits from the d-th on.

        The j-th candidate of i stands at least j to the right of it, that of m to the left.
        """
        n_lanes = ir.Constant(d.type, self.cell.type.count)
        of_i = self.smaller(self.n_i, self.builder.add(d, n_lanes))
        return of_i, self.smaller(self.n_m, self.builder.sub(self.width, d))

    def take(self, row: Any, place: Any, scores: list[tuple[Lanes, Any]], best: Any) -> list[Any]:
        """The maxima with a row more; its scores stand `place` after the first."""
        builder, span, values = self.builder, self.cell.load(row), []
        for (array, first), most in zip(scores, best, strict=True):
            score = splat(builder, self.cell.type, array.load_one(builder.add(first, place)))
            values.append(larger(builder, builder.fadd(span, score), most))
        return values

    def best(
        self, row: Any, begin: Any, stop: Any, step: Any, scores: list[tuple[Lanes, Any]], best: Any
    ) -> list[Any]:
        """The maxima over rows begin .. stop - 1; `row`: where `begin` is."""
        place = self.builder.mul(begin, step)
        loop = Loop(self.builder, begin, stop, self.one, [row, place, *best])
        row, place, *values = loop.values
        values = self.take(row, place, scores, values)
        next_row, next_place = self.builder.add(row, self.stride), self.builder.add(place, step)
        loop.turn([next_row, next_place, *values])
        return loop.values[2:]


@intrinsic
def _best_split(typingctx, chart, stride, i_row, m_row, width, n_i, n_m, of_i, i, of_m, m, step):  # type: ignore[no-untyped-def]
    """Open(h,m,l): the largest sum of a span of i and a span of m over all splits.

    Args: i_row, m_row: cells of the halves without modifiers at the first split; width: splits;
    n_i, n_m: rows of each; of_i, of_m: scores of the rows, from i and m on, each `step` further.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        splits = _Splits(context, builder, chart, args)
        i_scores = [splits.scores(of_i, args[7], args[8])]
        m_scores = [splits.scores(of_m, args[9], args[10])]
        step, zero, nothing = args[11], splits.zero, splits.nothing
        lanes = ir.Constant(step.type, splits.cell.type.count)
        loop = Loop(builder, zero, splits.width, lanes, [nothing])
        rows_i, rows_m = splits.counts(loop.i)
        i_row, m_row = builder.add(splits.i_row, loop.i), builder.add(splits.m_row, loop.i)
        (i_best,) = splits.best(i_row, zero, rows_i, step, i_scores, [nothing])
        (m_best,) = splits.best(m_row, zero, rows_m, step, m_scores, [nothing])
        loop.turn([larger(builder, builder.fadd(i_best, m_best), loop.values[0])])
        most = fold(builder, loop.values[0])
        return builder.extract_element(most, ir.Constant(ir.IntType(32), 0))

    n = types.int64
    return chart.dtype(chart, n, n, n, n, n, n, of_i, n, of_m, n, n), codegen


@intrinsic
def _best_splits(  # type: ignore[no-untyped-def]
    typingctx, chart, stride, i_row, m_row, width, n_i, n_m, sibling, s, t, inner, c, d
):
    """Open of the arcs i -> m and m -> i with one label each, which read the same rows.

    Args: as of `_best_split`; s, t: sibling scores of i -> m and of m -> i; c, d: inner scores.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        splits = _Splits(context, builder, chart, args)
        siblings, s, t, inners, c, d = args[7:]
        i_scores = [splits.scores(sibling, siblings, s), splits.scores(inner, inners, d)]
        m_scores = [splits.scores(inner, inners, c), splits.scores(sibling, siblings, t)]
        zero, one, nothing = splits.zero, splits.one, [splits.nothing] * 2
        lanes = ir.Constant(s.type, splits.cell.type.count)
        loop = Loop(builder, zero, splits.width, lanes, nothing)
        rows_i, rows_m = splits.counts(loop.i)
        i_row, m_row = builder.add(splits.i_row, loop.i), builder.add(splits.m_row, loop.i)
        both = splits.smaller(rows_i, rows_m)
        rows = Loop(builder, zero, both, one, [i_row, m_row, *nothing, *nothing])
        i_row, m_row, *best = rows.values
        i_best = splits.take(i_row, rows.i, i_scores, best[:2])
        m_best = splits.take(m_row, rows.i, m_scores, best[2:])
        next_rows = builder.add(i_row, splits.stride), builder.add(m_row, splits.stride)
        rows.turn([*next_rows, *i_best, *m_best])
        i_row, m_row, *best = rows.values
        i_best = splits.best(i_row, both, rows_i, one, i_scores, best[:2])
        m_best = splits.best(m_row, both, rows_m, one, m_scores, best[2:])
        sums = [builder.fadd(x, y) for x, y in zip(i_best, m_best, strict=True)]
        loop.turn([larger(builder, x, y) for x, y in zip(sums, loop.values, strict=True)])
        return context.make_tuple(builder, signature.return_type, _fold_two(builder, *loop.values))

    n = types.int64
    pair = types.UniTuple(chart.dtype, 2)
    return pair(chart, n, n, n, n, n, n, sibling, n, n, inner, n, n), codegen


def _fold_two(builder: Any, x: Any, y: Any) -> list[Any]:
    """The largest lane of each."""
    lanes = x.type.count
    half = lanes // 2
    integers = ir.VectorType(ir.IntType(32), lanes)

    def shuffled(x, y, lanes_taken):  # type: ignore[no-untyped-def]
        return builder.shuffle_vector(x, y, ir.Constant(integers, lanes_taken))

    lower = [*range(half), *range(lanes, lanes + half)]
    most = shuffled(x, y, lower), shuffled(x, y, [lane + half for lane in lower])
    both, shift = larger(builder, *most), half // 2
    while shift:
        turn = [v // half * half + (v + shift) % half for v in range(lanes)]
        both = larger(builder, both, shuffled(both, both, turn))
        shift //= 2
    places = (ir.Constant(ir.IntType(32), place) for place in (0, half))
    return [builder.extract_element(both, place) for place in places]


@intrinsic
def _close(typingctx, chart, stride, out, m_row, width, weights, w, count):  # type: ignore[no-untyped-def]
    """Fill the row of an arc: at each end the best sum of a weight and of the same end of a row.

    Args: out: the first cell; m_row: the first cell of the first row; width: ends; w: the first
    weight; count: rows.
    """
    lanes = lane_count(chart)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        array, stride, out, m_row, width, weight_array, w, count = args
        cell = Lanes(context, builder, chart, array, lanes)
        weight = Lanes(context, builder, weights, weight_array, lanes)
        add, zero, one = builder.add, ir.Constant(width.type, 0), ir.Constant(width.type, 1)
        nothing = constant(cell.type, -np.inf)
        ends = Loop(builder, zero, width, ir.Constant(width.type, lanes), [])
        rows = Loop(builder, zero, count, one, [add(m_row, ends.i), nothing])
        row, most = rows.values
        added = splat(builder, cell.type, weight.load_one(add(w, rows.i)))
        value = builder.fadd(cell.load(row), added)
        rows.turn([add(row, stride), larger(builder, value, most)])
        cell.store(add(out, ends.i), rows.values[1])
        ends.turn([])
        return context.get_dummy_value()

    i = types.int64
    return types.void(chart, i, i, i, i, weights, i, i), codegen


@intrinsic
def _best_pair(typingctx, weights, w, ends, e, count):  # type: ignore[no-untyped-def]
    """The largest weights[w + j] + ends[e + j] over j < count; `ends` is -inf up to a vector on."""
    lanes = lane_count(ends)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        weight_array, w, end_array, e, count = args
        weight = Lanes(context, builder, weights, weight_array, lanes)
        end = Lanes(context, builder, ends, end_array, lanes)
        zero, step = ir.Constant(count.type, 0), ir.Constant(count.type, lanes)
        loop = Loop(builder, zero, count, step, [constant(end.type, -np.inf)])
        there = builder.add(w, loop.i), builder.add(e, loop.i)
        value = builder.fadd(weight.load(there[0]), end.load(there[1]))
        loop.turn([larger(builder, value, loop.values[0])])
        most = fold(builder, loop.values[0])
        return builder.extract_element(most, ir.Constant(ir.IntType(32), 0))

    i = types.int64
    return ends.dtype(weights, i, ends, i, i), codegen


@compiled
def _group_rows(side: np.ndarray, n: int) -> np.ndarray:
    """Row of the half of h without modifiers on a side, int64 (2, n + 1), [side, h].

    The rows of its candidates follow, by rank.
    """
    rows = np.empty((2, n + 1), np.int64)
    row = 0
    for away in range(2):
        for h in range(n + 1):
            rows[away, h] = row
            row += 1 + side[away, h + 1] - side[away, h]
    return rows


@inlined
def _weigh(
    opened: np.ndarray,
    first: int,
    outer: np.ndarray,
    o: int,
    n_labels: int,
    count: int,
    weights: np.ndarray,
    w: int,
) -> None:
    """weights[w + j]: the best label of an open span with the outer grandchild j."""
    if n_labels == 1:
        only = opened[first]
        for j in range(count):
            weights[np.uint64(w + j)] = only + outer[np.uint64(o + j)]
        return
    for j in range(count):
        best = -np.inf
        for label in range(n_labels):
            value = opened[np.uint64(first + label)] + outer[np.uint64(o + j * n_labels + label)]
            best = value if value > best else best
        weights[np.uint64(w + j)] = best


@compiled
def _fill(
    number: np.ndarray,
    head: np.ndarray,
    modifier: np.ndarray,
    first: np.ndarray,
    side: np.ndarray,
    beyond: np.ndarray,
    rank: np.ndarray,
    label_first: np.ndarray,
    sibling: np.ndarray,
    sibling_start: np.ndarray,
    inner: np.ndarray,
    inner_start: np.ndarray,
    outer: np.ndarray,
    outer_start: np.ndarray,
    n: int,
    single_root: bool,
    rows: np.ndarray,
    stride: int,
    chart: np.ndarray,
    opened: np.ndarray,
    weights: np.ndarray,
    weight_start: np.ndarray,
) -> None:
    """Fill chart (-inf before), Open by label, and the best of labels for each outer grandchild.

    The chart has the end e of an arc to the right in column e, that of one to the left in column
    e - 1: so the two spans of a split stand in one column.
    """
    # What ends at the start at hand: [m, rank of its modifier].
    lanes = vector_lanes(chart)
    ends_stride = whole_vectors(n + lanes, chart.itemsize)
    ends = np.full((n + 1) * ends_stride, -np.inf, chart.dtype)
    reach = np.zeros(n + 1, np.int64)  # how many candidates to the left stand at or after the start
    # By place in `beyond`: the weight of the arc to the left with its nearest outer grandchild.
    left_modifier, weight_of_left = beyond[1], np.empty(side[1, n + 1], np.int64)
    for a in range(1, len(head)):
        if head[a] > modifier[a]:
            weight_of_left[side[1, head[a]] + rank[a]] = weight_start[a] + 1
    for h in range(n + 1):
        chart[rows[0, h] * stride + h] = 0
        if h > 0:
            chart[rows[1, h] * stride + h - 1] = 0
    for i in range(n, -1, -1):
        n_i = 1  # rows of i up to the modifier at hand
        for m in range(i + 1, n + 1):
            right, left = np.int64(number[i, m]), np.int64(number[m, i])
            if right < 0 and left < 0:
                continue
            i_row, m_row = rows[0, i] * stride + i, rows[1, m] * stride + i
            width, n_m = m - i, reach[m] + 1
            right_labels = left_labels = np.int64(0)
            if right >= 0:
                right_labels = np.int64(label_first[right + 1]) - np.int64(label_first[right])
            if left >= 0:
                left_labels = np.int64(label_first[left + 1]) - np.int64(label_first[left])
            if right_labels == 1 and left_labels == 1:
                opened[label_first[right]], opened[label_first[left]] = _best_splits(
                    chart, stride, i_row, m_row, width, n_i, n_m,
                    sibling, sibling_start[right], sibling_start[left],
                    inner, inner_start[right], inner_start[left],
                )  # fmt: skip
            else:
                for label in range(right_labels):
                    opened[label_first[right] + label] = _best_split(
                        chart, stride, i_row, m_row, width, n_i, n_m,
                        sibling, sibling_start[right] + label,
                        inner, inner_start[right] + label, right_labels,
                    )  # fmt: skip
                for label in range(left_labels):
                    opened[label_first[left] + label] = _best_split(
                        chart, stride, i_row, m_row, width, n_i, n_m,
                        inner, inner_start[left] + label,
                        sibling, sibling_start[left] + label, left_labels,
                    )  # fmt: skip
            for turn in range(2):
                arc = left if turn == 0 else right
                if arc >= 0:
                    n_labels = label_first[arc + 1] - label_first[arc]
                    w = weight_start[arc]
                    _weigh(
                        opened, label_first[arc], outer, outer_start[arc], n_labels,
                        weight_start[arc + 1] - w, weights, w,
                    )  # fmt: skip
            if right >= 0:
                w = weight_start[right]
                _close(
                    chart, stride, (rows[0, i] + 1 + rank[right]) * stride + m,
                    rows[0, m] * stride + m, n + 1 - m, weights, w, weight_start[right + 1] - w,
                )  # fmt: skip
                n_i += 0 if single_root and i == 0 else 1
        if i == 0:
            break
        for j in range(i + 1, n + 1):
            begin, count, end = side[1, j], reach[j], j * ends_stride
            cell = (rows[1, j] + 1) * stride + i - 1
            if number[j, i] >= 0:
                value = weights[weight_of_left[begin + count] - 1]
                ends[end + count] = value
                chart[cell + count * stride] = value
                reach[j] += 1
            for p in range(count - 1, -1, -1):
                last = left_modifier[np.uint64(begin + p)]
                w = weight_of_left[np.uint64(begin + p)]
                value = _best_pair(weights, w, ends, last * ends_stride, reach[last])
                ends[np.uint64(end + p)] = value
                chart[np.uint64(cell + p * stride)] = value


@compiled
def _trace(
    number: np.ndarray,
    head: np.ndarray,
    modifier: np.ndarray,
    side: np.ndarray,
    beyond: np.ndarray,
    rank: np.ndarray,
    label_first: np.ndarray,
    sibling: np.ndarray,
    sibling_start: np.ndarray,
    inner: np.ndarray,
    inner_start: np.ndarray,
    outer: np.ndarray,
    outer_start: np.ndarray,
    single_root: bool,
    rows: np.ndarray,
    stride: int,
    chart: np.ndarray,
    opened: np.ndarray,
    weights: np.ndarray,
    weight_start: np.ndarray,
    stack: np.ndarray,
    depth: int,
    heads: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Heads and labels under the closed spans on the stack, as (arc, column of its end)."""
    while depth > 0:
        depth -= 1
        a, column = stack[depth, 0], stack[depth, 1]
        h, m = head[a], modifier[a]
        away = 0 if h < m else 1
        n_labels = label_first[a + 1] - label_first[a]
        heads[m] = h
        # Closed(h,e,m) -> Open(h,m,l) + out(h,m,c,l) + Closed(m,e,c)
        w, end = weight_start[a], weight_start[a + 1]
        m_row = rows[away, m] * stride + column
        c = _first_best(chart, m_row, stride, weights, w, 1, end - w)
        if c > 0:
            stack[depth, 0] = number[m, beyond[away, side[away, m] + c - 1]]
            stack[depth, 1] = column
            depth += 1
        chosen, best = 0, -np.inf
        for label in range(n_labels):
            value = opened[label_first[a] + label] + outer[outer_start[a] + c * n_labels + label]
            if value > best:
                chosen, best = label, value
        labels[m] = chosen
        # Open(h,m,l) -> Closed(h,r,s) + sib(h,m,s,l), Closed(m,r+1,c) + in(h,m,c,l)
        n_siblings = 1 if single_root and h == 0 else rank[a] + 1
        n_inner = (inner_start[a + 1] - inner_start[a]) // n_labels
        of_h, of_m = sibling_start[a] + chosen, inner_start[a] + chosen
        h_row, m_row = rows[away, h] * stride, rows[1 - away, m] * stride
        r = s = 0
        for split in range(min(h, m), max(h, m)):
            r = split
            # The j-th candidate of either stands at least j away from it.
            from_h = r - h + 1 if h < m else h - r
            from_m = m - r if h < m else r - m + 1
            n_s, n_c = min(n_siblings, from_h), min(n_inner, from_m)
            s = _first_best(chart, h_row + r, stride, sibling, of_h, n_labels, n_s)
            c = _first_best(chart, m_row + r, stride, inner, of_m, n_labels, n_c)
            value = chart[h_row + s * stride + r] + sibling[of_h + s * n_labels]
            value += chart[m_row + c * stride + r] + inner[of_m + c * n_labels]
            if value == opened[label_first[a] + chosen]:
                break
        if s > 0:
            stack[depth, 0] = number[h, beyond[away, side[away, h] + s - 1]]
            stack[depth, 1] = r
            depth += 1
        if c > 0:
            stack[depth, 0] = number[m, beyond[1 - away, side[1 - away, m] + c - 1]]
            stack[depth, 1] = r
            depth += 1


@inlined
def _first_best(
    chart: np.ndarray,
    cell: int,
    stride: int,
    scores: np.ndarray,
    first: int,
    step: int,
    count: int,
) -> int:
    """The first j < count with the largest chart[cell + j * stride] + scores[first + j * step]."""
    best, chosen = -np.inf, 0
    for j in range(count):
        value = chart[np.uint64(cell + j * stride)] + scores[np.uint64(first + j * step)]
        if value > best:
            best, chosen = value, j
    return chosen


@compiled
def eisner_grandchild_sentence(
    candidates: Candidates,
    label_first: np.ndarray,
    sibling: np.ndarray,
    sibling_start: np.ndarray,
    inner: np.ndarray,
    inner_start: np.ndarray,
    outer: np.ndarray,
    outer_start: np.ndarray,
    n: int,
    single_root: bool,
    heads: np.ndarray,
    labels: np.ndarray,
) -> bool:
    """Best projective tree of one sentence with its labels, for other compiled code to call.

    Args: blocks of the candidates, as `grandchild_blocks` says; n >= 1; heads, labels: filled at
    1..n, a label counted from the first one of its arc.
    Returns: whether there is a tree; if not, heads and labels are left as they were.
    """
    number, head, modifier = candidates.number, candidates.head, candidates.modifier
    side, beyond, rank = candidates.side, candidates.beyond, candidates.rank
    n_arcs, dtype = len(head), sibling.dtype
    rows = _group_rows(side, n)
    lanes = vector_lanes(sibling)
    stride = n + lanes
    chart = np.full((n_arcs + 2 * n + 2) * stride, -np.inf, dtype)
    opened = np.empty(label_first[n_arcs], dtype)
    weight_start = np.zeros(n_arcs + 1, np.int64)
    for a in range(1, n_arcs):
        away, m = 0 if head[a] < modifier[a] else 1, modifier[a]
        weight_start[a + 1] = weight_start[a] + 1 + side[away, m + 1] - side[away, m]
    weights = np.empty(weight_start[n_arcs] + lanes, dtype)
    _fill(
        number, head, modifier, candidates.first, side, beyond, rank,
        label_first, sibling, sibling_start, inner, inner_start, outer, outer_start,
        n, single_root, rows, stride, chart, opened, weights, weight_start,
    )  # fmt: skip
    best, last = -np.inf, 0
    for j in range(side[0, 1]):
        value = chart[(rows[0, 0] + 1 + j) * stride + n]
        if value > best:
            best, last = value, number[0, beyond[0, j]]
    if best == -np.inf:
        return False
    stack = np.empty((n + 2, 2), np.int64)
    stack[0, 0], stack[0, 1] = last, n
    _trace(
        number, head, modifier, side, beyond, rank,
        label_first, sibling, sibling_start, inner, inner_start, outer, outer_start,
        single_root, rows, stride, chart, opened, weights, weight_start, stack, 1, heads, labels,
    )  # fmt: skip
    return True


@inlined
def _furthest(heads: np.ndarray, m: int, begin: int, stop: int, step: int) -> int:
    """The last modifier of m on the way from `begin` to `stop`, which does not count; 0 if none."""
    found, c = 0, begin
    while c != stop:
        if heads[c] == m:
            found = c
        c += step
    return found


@compiled
def grandchild_tree_score(
    candidates: Candidates,
    label_first: np.ndarray,
    sibling: np.ndarray,
    sibling_start: np.ndarray,
    inner: np.ndarray,
    inner_start: np.ndarray,
    outer: np.ndarray,
    outer_start: np.ndarray,
    n: int,
    heads: np.ndarray,
    labels: np.ndarray,
) -> float:
    """Sum over words 1, 2, ..., n of sibling (with arc), inner and outer score, one by one."""
    number, rank = candidates.number, candidates.rank
    total = sibling.dtype.type(0)
    for m in range(1, n + 1):
        h = heads[m]
        a, step = number[h, m], 1 if h < m else -1
        n_labels, label = label_first[a + 1] - label_first[a], labels[m]
        c = _furthest(heads, h, h + step, m, step)
        total += sibling[sibling_start[a] + (rank[number[h, c]] + 1 if c else 0) * n_labels + label]
        c = _furthest(heads, m, m - step, h, -step)
        total += inner[inner_start[a] + (rank[number[m, c]] + 1 if c else 0) * n_labels + label]
        c = _furthest(heads, m, m + step, n + 1 if step > 0 else 0, step)
        total += outer[outer_start[a] + (rank[number[m, c]] + 1 if c else 0) * n_labels + label]
    return total


@compiled
def eisner_grandchild_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    inner_scores: np.ndarray,
    outer_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    heads: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Best projective trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores float (B, N, N, L), the others (B, N, N, N, L), C order; lengths int64 (B,);
    heads, labels int (B, N) and scores float (B,): filled. A sentence without a tree gets the score
    -inf, no heads and no labels.
    """
    n_labels = arc_scores.shape[3]
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b], labels[b] = NO_HEAD, NO_HEAD
        scores[b] = 0
        if n == 0:
            continue
        arcs = arc_scores[b]
        allowed = np.zeros((n + 1, n + 1), np.bool_)
        for h in range(n + 1):
            for m in range(1, n + 1):
                for label in range(n_labels):
                    allowed[h, m] |= arcs[h, m, label] > -np.inf
        candidates = find_candidates(allowed, n)
        blocks = fill_grandchild_blocks(
            candidates, arcs, sibling_scores[b], inner_scores[b], outer_scores[b]
        )
        label_first, sibling, sibling_start, inner, inner_start, outer, outer_start = blocks
        found = eisner_grandchild_sentence(
            candidates, label_first, sibling, sibling_start, inner, inner_start, outer, outer_start,
            n, single_root, heads[b], labels[b],
        )  # fmt: skip
        if found:
            scores[b] = grandchild_tree_score(
                candidates, label_first, sibling, sibling_start, inner, inner_start, outer,
                outer_start, n, heads[b], labels[b],
            )  # fmt: skip
        else:
            scores[b] = -np.inf


def eisner_grandchild(
    arc_scores: torch.Tensor,
    sibling_scores: torch.Tensor,
    inner_scores: torch.Tensor,
    outer_scores: torch.Tensor,
    lengths: torch.Tensor,
    *,
    single_root: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner_grandchild_labelled` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets the score -inf.
    """
    arcs, siblings, words = arc_scores.numpy(), sibling_scores.numpy(), lengths.numpy()
    inner, outer = inner_scores.numpy(), outer_scores.numpy()
    heads, labels = np.empty((2, *arcs.shape[:2]), np.int64)
    scores = np.empty(len(words), arcs.dtype)

    def search(part: slice) -> None:
        eisner_grandchild_batch(
            arcs[part], siblings[part], inner[part], outer[part], words[part], single_root,
            heads[part], labels[part], scores[part],
        )  # fmt: skip

    run_in_threads(search, words, 4, torch.get_num_threads())
    return torch.from_numpy(heads), torch.from_numpy(labels), torch.from_numpy(scores)
