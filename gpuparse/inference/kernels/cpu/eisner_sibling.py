"""Eisner with sibling parts, compiled: one span start at a time, a vector of span ends at once.

The rows of all charts are filled from the last word to the first. When row i begins, everything
about later starts is known, and each recurrence is a product of a row and a triangular matrix in
which max stands for the sum and + for the product: the number at (i,k) is added to all of row k.
So nothing is reduced across a vector, and nothing is stored twice. There are no back-pointers: the
back-trace looks for the first best split again, O(n) for each of the O(n) spans of the tree.

Nothing of size n^3 is kept. The part of a sibling pair is added to the sibling item, once; parts of
three words are spread into rows (see `siblings.py`) that stay in the cache.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.lanes import (
    VECTOR_BYTES,
    Lanes,
    Loop,
    aligned,
    constant,
    lane_count,
    larger,
    splat,
    vector_lanes,
    whole_vectors,
)
from gpuparse.inference.kernels.cpu.siblings import (
    ROWS,
    DenseSiblings,
    Siblings,
    copy_ends,
    copy_parts_of_two,
    end_score,
    part_of_three,
    sibling_score,
    spread_parts_of_three,
)
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads
from gpuparse.tensors import NO_HEAD

# Planes of the chart, each (n + 2) rows over j. Until row i is filled, the arcs stand in I_R and
# I_L, and the pair parts in S_R and S_L: the item S(i,j) plus the part of the modifier j with the
# sibling i, and of the modifier i with the sibling j. E_R and E_L are I_R and I_L with the end of
# the modifiers on that side, which stand there alone until row i is filled.
I_R, I_L, C_R, C_L, S_R, S_L, FIRST_R, FIRST_L, E_R, E_L, N_PLANES = range(11)


class _Ends:
    """Row i of all planes at a vector of ends from j on, while it is filled."""

    def __init__(self, context: Any, builder: Any, chart: Any, args: Any) -> None:
        self.builder = builder
        self.plane, self.stride, self.i, self.j = args[1:5]
        self.cell = Lanes(context, builder, chart, args[0], lane_count(chart))

    def row(self, plane: int, k: Any) -> Any:
        """Index of the cell (k, j)."""
        start = self.builder.mul(self.plane, ir.Constant(self.plane.type, plane))
        start = self.builder.add(start, self.builder.mul(k, self.stride))
        return self.builder.add(start, self.j)

    def load(self, plane: int, k: Any) -> Any:
        return self.cell.load(self.row(plane, k))

    def store(self, plane: int, vector: Any) -> None:
        self.cell.store(self.row(plane, self.i), vector)

    def everywhere(self, plane: int, k: Any) -> Any:
        """What stands at (i, k), in every lane."""
        cell = self.builder.sub(self.row(plane, self.i), self.j)
        one = self.cell.load_one(self.builder.add(cell, k))
        return splat(self.builder, self.cell.type, one)

    def parts_of_three(self, rows: Any, k: Any) -> Any:
        """The row of the sibling k."""
        start = self.builder.add(rows, self.builder.mul(k, self.stride))
        return self.cell.load(self.builder.add(start, self.j))

    def only_at(self, k: Any, vector: Any) -> Any:
        """The vector at the end k, -inf at all others."""
        builder, lanes = self.builder, self.cell.type.count
        integers = ir.VectorType(ir.IntType(32), lanes)
        lane = splat(builder, integers, builder.trunc(builder.sub(k, self.j), integers.element))
        is_here = builder.icmp_signed("==", lane, ir.Constant(integers, list(range(lanes))))
        return builder.select(is_here, vector, constant(self.cell.type, -np.inf))


@intrinsic
def _fill_ends(typingctx, chart, plane, stride, i, j, n, right, left):  # type: ignore[no-untyped-def]
    """Fill row i of all planes at the ends from j on, as many as a vector holds.

    Args: plane: its size; right, left: where the rows of parts of three begin. Cells that are no
    spans get -inf or NaN, which are never larger than anything.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        i, j, n, right, left = args[3:]
        ends = _Ends(context, builder, chart, args)
        add, fadd, one = builder.add, builder.fadd, ir.Constant(i.type, 1)
        nothing = constant(ends.cell.type, -np.inf)
        arcs_R, arcs_L = ends.load(I_R, i), ends.load(I_L, i)
        pairs_R, pairs_L = ends.load(S_R, i), ends.load(S_L, i)
        first_L = ends.load(FIRST_L, i)
        ends_R, ends_L = ends.load(E_R, i), ends.load(E_L, i)

        def smaller(x, y, operator="<"):  # type: ignore[no-untyped-def]
            return builder.select(builder.icmp_signed(operator, x, y), x, y)

        def take(k, values):  # type: ignore[no-untyped-def]
            """The maxima with the split, or the inner sibling, k."""
            i_R, c_R, s, i_L, c_L = values
            to_k, last_k, with_k, before = (ends.everywhere(p, k) for p in (I_R, E_R, C_R, C_L))
            sibling_R = fadd(ends.load(S_R, k), ends.parts_of_three(right, k))
            sibling_L = fadd(ends.everywhere(S_L, k), ends.parts_of_three(left, k))
            from_k = ends.load(I_L, k)
            return [
                larger(builder, fadd(to_k, sibling_R), i_R),
                larger(builder, fadd(last_k, ends.load(C_R, k)), c_R),
                larger(builder, fadd(with_k, ends.load(C_L, add(k, one))), s),
                larger(builder, fadd(sibling_L, from_k), i_L),
                larger(builder, fadd(before, ends.load(E_L, k)), c_L),
            ]

        def take_first(k, i_L):  # type: ignore[no-untyped-def]
            """I_L(i,k+1) without a sibling: C_R(i,k) + sib(k+1,-,i)."""
            first = fadd(ends.everywhere(C_R, k), first_L)
            return larger(builder, ends.only_at(add(k, one), first), i_L)

        def store(values):  # type: ignore[no-untyped-def]
            i_R, c_R, s, i_L, c_L = values
            i_R, i_L = fadd(i_R, arcs_R), fadd(i_L, arcs_L)
            ends.store(I_R, i_R)
            ends.store(I_L, i_L)
            ends.store(S_R, fadd(s, pairs_R))
            ends.store(S_L, fadd(s, pairs_L))
            e_R, e_L = fadd(i_R, ends_R), fadd(i_L, ends_L)
            ends.store(E_R, e_R)
            ends.store(E_L, e_L)
            ends.store(C_R, larger(builder, e_R, c_R))
            ends.store(C_L, larger(builder, e_L, c_L))

        next_L = ends.load(C_L, add(i, one))
        values = [fadd(next_L, ends.load(FIRST_R, i)), nothing, next_L, nothing, nothing]
        # The splits to the left of these ends, whose numbers in row i are all known ...
        loop = Loop(builder, add(i, one), j, one, values)
        loop.turn(take(loop.i, loop.values))
        values = loop.values
        values[3] = take_first(smaller(i, builder.sub(j, one), ">"), values[3])
        store(values)
        # ... and those among them, of which one more is known in every round.
        last = smaller(n, add(j, ir.Constant(j.type, ends.cell.type.count - 1)))
        loop = Loop(builder, smaller(add(i, one), j, ">"), last, one, values)
        values = take(loop.i, loop.values)
        values[3] = take_first(loop.i, values[3])
        store(values)
        loop.turn(values)
        return context.get_dummy_value()

    return types.void(chart, *[types.int64] * 7), codegen


class SiblingScratch(NamedTuple):
    """Working memory of `eisner_sibling_sentence`; contents do not matter."""

    floats: np.ndarray
    ints: np.ndarray


@compiled
def sibling_scratch_sizes(n: int, itemsize: int) -> tuple[int, int]:
    """Elements of the two arrays of `SiblingScratch` for up to n words."""
    rows = N_PLANES * (n + 2) + ROWS * (n + 1)
    floats = rows * whole_vectors(n + 1, itemsize) + 2 * VECTOR_BYTES // itemsize
    return floats, 6 * (n + 1)


def make_sibling_scratch(
    n: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> SiblingScratch:
    """Working memory for scores of this type and sentences of up to n words."""
    n_floats, n_ints = sibling_scratch_sizes(n, np.dtype(dtype).itemsize)
    return SiblingScratch(np.empty(n_floats, dtype), np.empty(n_ints, np.int64))


@inlined
def fill_sibling_chart(
    arc_scores: np.ndarray,
    siblings: Siblings,
    first: int,
    n: int,
    stride: int,
    chart: np.ndarray,
) -> None:
    """All maxima of the spans over positions first .. n; planes as their names say, [i, j]."""
    plane = (n + 2) * stride
    for p in (I_R, I_L, S_R, E_R, E_L):
        beyond = chart[p * plane : (p + 1) * plane]
        beyond[:] = -np.inf
    beyond = chart[C_L * plane + (n + 1) * stride : (C_L + 1) * plane]
    beyond[:] = -np.inf
    for h in range(n + 1):
        row, to_right, to_left = arc_scores[h], chart[h * stride :], chart[I_L * plane + h :]
        for m in range(h + 1, n + 1):
            to_right[np.uint64(m)] = row[np.uint64(m)]
        for m in range(1, h):
            to_left[np.uint64(m * stride)] = row[np.uint64(m)]
    copy_ends(siblings, n, stride, chart[E_R * plane :], chart[E_L * plane :])
    copy_parts_of_two(
        siblings, n, stride, chart[FIRST_R * plane :], chart[FIRST_L * plane :],
        chart[S_R * plane :], chart[S_L * plane :],
    )  # fmt: skip
    right = N_PLANES * plane
    left = right + (n + 1) * stride
    for i in range(n, first - 1, -1):
        # S(i,j)   = max_{i<=r<j} C_R(i,r) + C_L(r+1,j)
        # I_R(i,j) = max(C_L(i+1,j) + sib(i,-,j),
        #                max_{i<k<j} I_R(i,k) + (S(k,j) + sib(i,k,j))) + arc(i,j)
        # I_L(i,j) = max(C_R(i,j-1) + sib(j,-,i),
        #                max_{i<k<j} (S(i,k) + sib(j,k,i)) + I_L(k,j)) + arc(j,i)
        # C_R(i,j) = max_{i<r<=j} I_R(i,r) + end(i,r) + C_R(r,j)
        # C_L(i,j) = max_{i<=r<j} C_L(i,r) + I_L(r,j) + end(j,r)
        spread_parts_of_three(siblings, i, n, stride, chart[right:])
        diagonal = C_R * plane + i * stride + i
        chart[diagonal] = 0
        lanes = vector_lanes(chart)
        for j in range(i // lanes * lanes, n + 1, lanes):
            _fill_ends(chart, plane, stride, i, j, n, right, left)
            chart[diagonal] = 0
        chart[diagonal + (C_L - C_R) * plane] = 0


@inlined
def _trace(
    siblings: Siblings,
    n: int,
    stride: int,
    chart: np.ndarray,
    stack: np.ndarray,
    depth: int,
    heads: np.ndarray,
) -> None:
    """Heads of the best tree under the complete spans on the stack, as (i, j, is right)."""
    plane = (n + 2) * stride
    i_R, i_L, c_R, c_L = chart[:plane], chart[plane:], chart[C_R * plane :], chart[C_L * plane :]
    s_R, s_L = chart[S_R * plane :], chart[S_L * plane :]
    e_R, e_L = chart[E_R * plane :], chart[E_L * plane :]
    first_R, first_L = chart[FIRST_R * plane :], chart[FIRST_L * plane :]
    while depth > 0:
        depth -= 1
        i, j, is_right = stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2]
        if i == j:
            continue
        best, r = -np.inf, i
        if is_right:  # C_R(i,j) -> I_R(i,r) + end(i,r) + C_R(r,j)
            for k in range(i + 1, j + 1):
                value = e_R[i * stride + k] + c_R[k * stride + j]
                if value > best:
                    best, r = value, k
            depth = _push(stack, depth, r, j, 1)
            h, m = i, r
        else:  # C_L(i,j) -> C_L(i,r) + I_L(r,j) + end(j,r)
            for k in range(i, j):
                value = c_L[i * stride + k] + e_L[k * stride + j]
                if value > best:
                    best, r = value, k
            depth = _push(stack, depth, i, r, 0)
            h, m = j, r
        while True:
            heads[m] = h
            # I(h,m) -> I(h,s) and S(s,m), or a span without modifiers of h
            s = h
            if h < m:
                best = c_L[(h + 1) * stride + m] + first_R[h * stride + m]
                for k in range(h + 1, m):
                    value = s_R[k * stride + m] + part_of_three(siblings, h, m, k)
                    value = i_R[h * stride + k] + value
                    if value > best:
                        best, s = value, k
            else:
                best = c_R[m * stride + h - 1] + first_L[m * stride + h]
                for k in range(m + 1, h):
                    value = s_L[m * stride + k] + part_of_three(siblings, h, m, k)
                    value = value + i_L[k * stride + h]
                    if value > best:
                        best, s = value, k
            if s == h:
                break
            # S(i,j) -> C_R(i,r) + C_L(r+1,j)
            i, j = min(s, m), max(s, m)
            best, r = -np.inf, i
            for k in range(i, j):
                value = c_R[i * stride + k] + c_L[(k + 1) * stride + j]
                if value > best:
                    best, r = value, k
            depth = _push(stack, depth, i, r, 1)
            depth = _push(stack, depth, r + 1, j, 0)
            m = s
        if h < m:
            depth = _push(stack, depth, h + 1, m, 0)
        else:
            depth = _push(stack, depth, m, h - 1, 1)


@inlined
def _push(stack: np.ndarray, depth: int, i: int, j: int, is_right: int) -> int:
    """Put a complete span on the stack; return how many are on it."""
    stack[3 * depth], stack[3 * depth + 1], stack[3 * depth + 2] = i, j, is_right
    return depth + 1


@compiled
def eisner_sibling_sentence(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    single_root: bool,
    scratch: SiblingScratch,
    heads: np.ndarray,
) -> bool:
    """Best projective tree of one sentence, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1), n >= 1, in the type of the sibling scores and the scratch,
    which is from `make_sibling_scratch(n)` or for more words; heads: filled at 1..n.
    Returns: whether there is a tree; if not, heads are left as they were.
    """
    first = 1 if single_root else 0
    chart = aligned(scratch.floats)
    stride = whole_vectors(n + 1, scratch.floats.itemsize)
    stack = scratch.ints
    fill_sibling_chart(arc_scores, siblings, first, n, stride, chart)
    plane = (n + 2) * stride
    depth = 0
    if single_root:
        # max over m of C_L(1,m) + C_R(m,n) + sib(0,-,m) + end(0,m) + arc(0,m)
        best, root = -np.inf, 0
        for m in range(1, n + 1):
            value = chart[C_L * plane + stride + m] + chart[C_R * plane + m * stride + n]
            value += chart[FIRST_R * plane + m] + end_score(siblings, 0, m)
            value += arc_scores[0, m]
            if value > best:
                best, root = value, m
        if best == -np.inf:
            return False
        heads[root] = 0
        depth = _push(stack, depth, 1, root, 0)
        depth = _push(stack, depth, root, n, 1)
    else:
        if chart[C_R * plane + n] == -np.inf:
            return False
        depth = _push(stack, depth, 0, n, 1)
    _trace(siblings, n, stride, chart, stack, depth, heads)
    return True


@inlined
def inner_sibling(heads: np.ndarray, m: int) -> int:
    """The modifier of m's head just inside m; the head itself if there is none."""
    h = heads[m]
    step = 1 if h > m else -1
    s = m + step
    while s != h and heads[s] != h:
        s += step
    return s


@inlined
def is_outermost(heads: np.ndarray, n: int, m: int) -> bool:
    """Whether m's head has no modifier beyond m."""
    step = 1 if heads[m] < m else -1
    o = m + step
    while 1 <= o <= n and heads[o] != heads[m]:
        o += step
    return not 1 <= o <= n


@compiled
def sibling_tree_score(
    arc_scores: np.ndarray, siblings: Siblings, n: int, heads: np.ndarray
) -> float:
    """Sum over words 1, 2, ..., n of arc, sibling and end score, one by one from the left."""
    total = arc_scores.dtype.type(0)
    for m in range(1, n + 1):
        total += arc_scores[heads[m], m]
        total += sibling_score(siblings, heads[m], m, inner_sibling(heads, m))
        if is_outermost(heads, n, m):
            total += end_score(siblings, heads[m], m)
    return total


@compiled
def eisner_sibling_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    scratch: SiblingScratch,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Best projective trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores, end_scores float (B, N, N), sibling_scores (B, N, N, N), C order; lengths
    int64 (B,); scratch for the longest sentence; heads int (B, N) and scores float (B,): filled. A
    sentence without a tree gets the score -inf and no heads.
    """
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        scores[b] = 0
        if n > 0:
            siblings = DenseSiblings(sibling_scores[b], end_scores[b])
            if eisner_sibling_sentence(arc_scores[b], siblings, n, single_root, scratch, heads[b]):
                scores[b] = sibling_tree_score(arc_scores[b], siblings, n, heads[b])
            else:
                scores[b] = -np.inf


def eisner_sibling(
    arc_scores: torch.Tensor,
    sibling_scores: torch.Tensor,
    end_scores: torch.Tensor,
    lengths: torch.Tensor,
    *,
    single_root: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner_sibling` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets the score -inf.
    """
    arcs, siblings, ends, words = (
        part.numpy() for part in (arc_scores, sibling_scores, end_scores, lengths)
    )
    heads = np.empty(arcs.shape[:2], np.int64)
    scores = np.empty(len(arcs), arcs.dtype)

    def search(part: slice) -> None:
        scratch = make_sibling_scratch(int(words[part].max(initial=0)), arcs.dtype.type)
        eisner_sibling_batch(
            arcs[part], siblings[part], ends[part], words[part], single_root, scratch, heads[part],
            scores[part],
        )  # fmt: skip

    # Each of the n^3 steps costs about three times as much as one of the first order.
    run_in_threads(search, words, 3, torch.get_num_threads(), WORTH_A_THREAD // 3)
    return torch.from_numpy(heads), torch.from_numpy(scores)
