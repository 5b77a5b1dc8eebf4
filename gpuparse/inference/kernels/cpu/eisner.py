"""First-order Eisner, compiled: one sentence at a time, a vector of starts of one width at once.

The charts are stored by diagonal, `chart[width * stride + start]`, so that every operand of every
split is contiguous over `start`, and the maxima stay in registers while a loop runs over the
splits. There are no back-pointers: the maxima are stored, and the back-trace looks for the first
split that reaches the stored maximum, O(n) for each of the O(n) spans of the tree.
"""

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
    vector_lanes,
    whole_vectors,
)
from gpuparse.inference.kernels.cpu.threads import run_in_threads
from gpuparse.tensors import NO_HEAD


@intrinsic
def _best_spans(typingctx, chart, last, stride, width, start):  # type: ignore[no-untyped-def]
    """The five maxima of the spans of this width from `start` on, as many as a vector holds.

    One loop runs over the splits of all: three independent chains keep the processor busy, and
    there is one loop end to mispredict. The splits with a part C(i,i) or C(j,j) = 0 stand outside.
    """
    lanes = lane_count(chart)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        array, last, stride, width, start = args
        cell = Lanes(context, builder, chart, array, lanes)
        add, sub, mul = builder.add, builder.sub, builder.mul
        one = ir.Constant(last.type, 1)
        I_R = mul(last, stride)
        C_R = add(add(I_R, I_R), stride)
        C_L = add(C_R, add(I_R, stride))
        S = add(C_L, add(I_R, stride))
        out = add(mul(width, stride), start)
        # One split on, the right part is one narrower and starts one further on.
        back = sub(one, stride)
        I_L = add(S, add(I_R, stride))
        # d = width - 1 .. 1: the parts that were stored last are read last as right-hand parts,
        # where the misaligned load of a fresh store would have to wait.
        left_part, right_part = sub(out, stride), add(out, mul(sub(width, one), back))
        nothing = constant(cell.type, -np.inf)
        loop = Loop(builder, one, width, one, [left_part, right_part] + [nothing] * 3)
        a, b, split, right, left = loop.values
        x = builder.fadd(cell.load(add(C_R, a)), cell.load(add(C_L, add(b, back))))
        y = builder.fadd(cell.load(add(I_R, a)), cell.load(add(C_R, b)))
        z = builder.fadd(cell.load(add(C_L, a)), cell.load(add(I_L, b)))
        maxima = [larger(builder, x, split), larger(builder, y, right), larger(builder, z, left)]
        loop.turn([sub(a, stride), sub(b, back), *maxima])
        _, _, split, right, left = loop.values
        split = larger(builder, cell.load(add(C_L, add(out, back))), split)
        i_r = builder.fadd(split, cell.load(add(I_R, out)))  # where the arcs are until now
        i_l = builder.fadd(split, cell.load(add(add(I_R, start), mul(width, back))))
        cell.store(add(S, out), split)
        cell.store(add(I_R, out), i_r)
        cell.store(add(I_L, out), i_l)
        cell.store(add(C_R, out), larger(builder, i_r, right))
        cell.store(add(C_L, out), larger(builder, i_l, left))
        return context.get_dummy_value()

    return types.void(chart, *[types.int64] * 4), codegen


@compiled
def eisner_scratch_size(n: int, itemsize: int) -> int:
    """Elements of scratch that `eisner_sentence` needs for up to n words."""
    # Two vectors more than the charts: to begin at a multiple of a vector, and because the last
    # loads reach beyond the last row.
    return 6 * (n + 1) * whole_vectors(n + 1, itemsize) + 2 * VECTOR_BYTES // itemsize


@inlined
def fill_chart(
    arc_scores: np.ndarray, first: int, last: int, stride: int, chart: np.ndarray
) -> None:
    """All maxima of the spans over positions first .. first + last.

    First lies the score matrix, its diagonals turned into rows: arc(j,i) at [last - width, j] and
    arc(i,j) at [last + width, i]. I_R takes the place of the latter; C_R, C_L, S and I_L follow,
    each at [width, i].
    """
    nodes = last + 1
    for h in range(nodes):
        row = arc_scores[h + first, first : first + nodes]
        column = chart[(last - h) * stride + h :]
        for m in range(nodes):
            column[np.uint64(m * stride)] = row[np.uint64(m)]
    C_R = (2 * last + 1) * stride
    C_L = C_R + nodes * stride
    zero = chart[C_R : C_R + stride]
    zero[:] = 0
    zero = chart[C_L : C_L + stride]
    zero[:] = 0
    lanes = vector_lanes(chart)
    for w in range(1, nodes):
        for i in range(0, nodes - w, lanes):
            # S(i,j)   = max_{i<=r<j} C_R(i,r) + C_L(r+1,j)
            # I_R(i,j) = S(i,j) + arc(i,j);  I_L(i,j) = S(i,j) + arc(j,i)
            # C_R(i,j) = max_{i<r<=j} I_R(i,r) + C_R(r,j)
            # C_L(i,j) = max_{i<=r<j} C_L(i,r) + I_L(r,j)
            _best_spans(chart, last, stride, w, i)


@inlined
def _first_split(chart: np.ndarray, target: float, left: int, right: int, stride: int) -> int:
    """The smallest d with chart[left + d * stride] + chart[right + d * (1 - stride)] == target."""
    d = 0
    while chart[np.uint64(left)] + chart[np.uint64(right)] != target:
        left += stride
        right += 1 - stride
        d += 1
    return d


@inlined
def _trace(
    chart: np.ndarray,
    first: int,
    last: int,
    stride: int,
    stack: np.ndarray,
    depth: int,
    heads: np.ndarray,
) -> None:
    """Heads of the best tree under the complete spans on the stack, as (i, j, is right)."""
    I_R = last * stride
    C_R = I_R + I_R + stride
    C_L = C_R + I_R + stride
    S = C_L + I_R + stride
    I_L = S + I_R + stride
    back = 1 - stride
    while depth > 0:
        depth -= 1
        i, j, is_right = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        while i < j:
            at = (j - i) * stride + i
            if is_right:  # C_R(i,j) -> I_R(i,r) + C_R(r,j)
                r = i + 1
                r += _first_split(chart, chart[C_R + at], I_R + stride + i, C_R + at + back, stride)
                heads[r + first] = i + first
                start, end, i = i, r, r
            else:  # C_L(i,j) -> C_L(i,r) + I_L(r,j)
                r = i + _first_split(chart, chart[C_L + at], C_L + i, I_L + at, stride)
                heads[r + first] = j + first
                start, end, j = r, j, r
            # I(i,j) -> C_R(i,r) + C_L(r+1,j)
            at = (end - start) * stride + start
            r = start + _first_split(chart, chart[S + at], C_R + start, C_L + at + back, stride)
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = start, r, 1
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = r + 1, end, 0
            depth += 2


@compiled
def eisner_sentence(
    arc_scores: np.ndarray,
    n: int,
    single_root: bool,
    scratch: np.ndarray,
    stack: np.ndarray,
    heads: np.ndarray,
) -> bool:
    """Best projective tree of one sentence, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1), n >= 1; scratch of `eisner_scratch_size(n, itemsize)` in the
    type of the scores; stack: int64 scratch (>= 2n+4, 3); heads: filled at 1..n.
    Returns: whether there is a tree; if not, heads are left as they were.
    """
    first = 1 if single_root else 0
    last = n - first
    stride = whole_vectors(last + 1, scratch.itemsize)
    chart = aligned(scratch)
    fill_chart(arc_scores, first, last, stride, chart)
    C_R = (2 * last + 1) * stride
    C_L = C_R + (last + 1) * stride
    if single_root:
        # max over m of C_L(1,m) + C_R(m,n) + arc(0,m)
        best, m = -np.inf, 0
        for r in range(n):
            value = chart[C_L + r * stride] + chart[C_R + (last - r) * stride + r]
            value += arc_scores[0, r + 1]
            if value > best:
                best, m = value, r
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, m, 0
        stack[1, 0], stack[1, 1], stack[1, 2] = m, last, 1
    else:
        best, m = chart[C_R + last * stride], -1
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, last, 1
    if best == -np.inf:
        return False
    if single_root:
        heads[m + 1] = 0
    _trace(chart, first, last, stride, stack, 1 + first, heads)
    return True


@compiled
def eisner_batch(
    arc_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Best projective trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores float (B, N, N), C order; lengths int64 (B,); heads int (B, N) and
    scores float (B,): filled. A sentence without a tree gets the score -inf and no heads.
    """
    longest = 0
    for b in range(len(lengths)):
        longest = max(longest, lengths[b])
    chart = np.empty(eisner_scratch_size(longest, arc_scores.itemsize), arc_scores.dtype)
    stack = np.empty((2 * longest + 4, 3), np.int64)
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        total = chart.dtype.type(0)
        if n > 0:
            if eisner_sentence(arc_scores[b], n, single_root, chart, stack, heads[b]):
                for m in range(1, n + 1):
                    total += arc_scores[b, heads[b, m], m]
            else:
                total = chart.dtype.type(-np.inf)
        scores[b] = total


def eisner(
    arc_scores: torch.Tensor, lengths: torch.Tensor, *, single_root: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets the score -inf.
    """
    arcs, words = arc_scores.numpy(), lengths.numpy()
    heads = np.empty(arcs.shape[:2], np.int64)
    scores = np.empty(len(arcs), arcs.dtype)

    def search(part: slice) -> None:
        eisner_batch(arcs[part], words[part], single_root, heads[part], scores[part])

    run_in_threads(search, words, 3, torch.get_num_threads())
    return torch.from_numpy(heads), torch.from_numpy(scores)
