"""First-order Eisner, compiled: one sentence at a time, all starts of one span width at once.

The charts are stored by diagonal, `chart[width * stride + start]`, so that every operand of every
split is contiguous over `start`. One 64-byte vector of starts is kept in a register while the loop
runs over the splits. There are no back-pointers: the maxima are stored, and the back-trace looks
for the first split that reaches the stored maximum, O(n) for each of the O(n) spans of the tree.
"""

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from gpuparse.inference.kernels.cpu.threads import run_in_threads
from gpuparse.tensors import NO_HEAD

VECTOR_BYTES = 64


def _address(context, builder, array_type, array, index):
    """Pointer to the vector that starts at element `index`, without bounds or sign checks."""
    element = context.get_data_type(array_type.dtype)
    lanes = VECTOR_BYTES // (array_type.dtype.bitwidth // 8)
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(element, lanes).as_pointer())


@intrinsic
def _max_plus(typingctx, chart, out, left, left_step, right, right_step, count):
    """chart[out + v] = max over d < count of
    chart[left + d * left_step + v] + chart[right + d * right_step + v], for each lane v; count > 0.

    numba vectorises neither maxima nor loops whose slices may overlap, so the loop is emitted here.
    """
    size = chart.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        array, out, left, left_step, right, right_step, count = args
        index = left.type
        zero, one = ir.Constant(index, 0), ir.Constant(index, 1)

        def term(a, b):
            x = builder.load(_address(context, builder, chart, array, a), align=size)
            y = builder.load(_address(context, builder, chart, array, b), align=size)
            return builder.fadd(x, y)

        first = term(left, right)
        entry = builder.block
        head = builder.append_basic_block("splits")
        body = builder.append_basic_block("split")
        done = builder.append_basic_block("done")
        builder.branch(head)
        builder.position_at_end(head)
        d, a, b = (builder.phi(index) for _ in range(3))
        best = builder.phi(first.type)
        builder.cbranch(builder.icmp_signed("<", d, count), body, done)
        builder.position_at_end(body)
        a_next, b_next = builder.add(a, left_step), builder.add(b, right_step)
        value = term(a_next, b_next)
        larger = builder.select(builder.fcmp_ordered(">", value, best), value, best)
        d_next = builder.add(d, one)
        builder.branch(head)
        for phi, start, step in (
            (d, one, d_next),
            (a, left, a_next),
            (b, right, b_next),
            (best, first, larger),
        ):
            phi.add_incoming(start, entry)
            phi.add_incoming(step, body)
        builder.position_at_end(done)
        builder.store(best, _address(context, builder, chart, array, out), align=size)
        return context.get_dummy_value()

    return types.void(chart, *[types.int64] * 6), codegen


@intrinsic
def _add_to(typingctx, chart, out, source):
    """chart[out + v] += chart[source + v] for each lane v."""
    size = chart.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        array, out, source = args
        target = _address(context, builder, chart, array, out)
        x = builder.load(target, align=size)
        y = builder.load(_address(context, builder, chart, array, source), align=size)
        builder.store(builder.fadd(y, x), target, align=size)
        return context.get_dummy_value()

    return types.void(chart, types.int64, types.int64), codegen


@njit(cache=True, nogil=True)
def eisner_scratch_size(n, itemsize):
    """Elements of scratch that `eisner_sentence` needs for up to n words."""
    lanes = VECTOR_BYTES // itemsize
    stride = (n + 1 + lanes - 1) // lanes * lanes
    return 5 * (n + 1) * stride + lanes


@njit(cache=True, nogil=True)
def _fill_chart(arc_scores, first, n, stride, size, chart):
    """All maxima of the spans over positions first..n; charts S, I_R, I_L, C_R, C_L in a row."""
    S, IR, IL, CR, CL = 0, size, 2 * size, 3 * size, 4 * size
    lanes = VECTOR_BYTES // chart.itemsize
    width_0 = chart[CR : CR + stride]
    width_0[:] = 0
    width_0 = chart[CL : CL + stride]
    width_0[:] = 0
    # I_R and I_L hold the arcs of their span until its best split is added.
    nodes = n + 1 - first
    for h in range(nodes):
        row = arc_scores[h + first, first : n + 1]
        right = chart[IR + h : IR + size]
        for w in range(1, nodes - h):
            right[np.uint64(w * stride)] = row[np.uint64(h + w)]
        left = chart[IL:CR]
        for w in range(1, h + 1):
            left[np.uint64(w * stride + h - w)] = row[np.uint64(h - w)]
    for w in range(1, nodes):
        row = w * stride
        for i in range(0, nodes - w, lanes):
            # S(i,j) = max_{i<=r<j} C_R(i,r) + C_L(r+1,j);  I_R = S + arc(i,j);  I_L = S + arc(j,i)
            _max_plus(chart, S + row + i, CR + i, stride, CL + row - stride + i + 1, 1 - stride, w)
            _add_to(chart, IR + row + i, S + row + i)
            _add_to(chart, IL + row + i, S + row + i)
            # C_R(i,j) = max_{i<r<=j} I_R(i,r) + C_R(r,j)
            _max_plus(
                chart,
                CR + row + i,
                IR + stride + i,
                stride,
                CR + row - stride + i + 1,
                1 - stride,
                w,
            )
            # C_L(i,j) = max_{i<=r<j} C_L(i,r) + I_L(r,j)
            _max_plus(chart, CL + row + i, CL + i, stride, IL + row + i, 1 - stride, w)


@njit(cache=True, nogil=True)
def _first_split(chart, target, left, right, stride):
    """The smallest d with chart[left + d * stride] + chart[right + d * (1 - stride)] == target."""
    d = 0
    while chart[np.uint64(left)] + chart[np.uint64(right)] != target:
        left += stride
        right += 1 - stride
        d += 1
    return d


@njit(cache=True, nogil=True)
def _trace(chart, first, stride, size, stack, depth, heads):
    """Heads of the best tree under the complete spans on the stack, as (i, j, is right)."""
    S, IR, IL, CR, CL = 0, size, 2 * size, 3 * size, 4 * size
    while depth > 0:
        depth -= 1
        i, j, is_right = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        while i < j:
            at = (j - i) * stride + i
            if is_right:  # C_R(i,j) -> I_R(i,r) + C_R(r,j)
                r = (
                    i
                    + 1
                    + _first_split(
                        chart, chart[CR + at], IR + stride + i, CR + at - stride + 1, stride
                    )
                )
                heads[r + first] = i + first
                start, end, i = i, r, r
            else:  # C_L(i,j) -> C_L(i,r) + I_L(r,j)
                r = i + _first_split(chart, chart[CL + at], CL + i, IL + at, stride)
                heads[r + first] = j + first
                start, end, j = r, j, r
            at = (end - start) * stride + start
            r = start + _first_split(chart, chart[S + at], CR + start, CL + at - stride + 1, stride)
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = start, r, 1
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = r + 1, end, 0
            depth += 2


@njit(cache=True, nogil=True)
def eisner_sentence(arc_scores, n, single_root, chart, stack, heads):
    """Best projective tree of one sentence, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1); chart: scratch of `eisner_scratch_size(n, itemsize)`;
    stack: int64 scratch (>= 2n+4, 3); heads: filled at 1..n.
    Returns: whether there is a tree; if not, heads are left as they were.
    """
    lanes = VECTOR_BYTES // chart.itemsize
    first = 1 if single_root else 0
    nodes = n + 1 - first
    stride = (nodes + lanes - 1) // lanes * lanes
    size = nodes * stride
    CR, CL = 3 * size, 4 * size
    _fill_chart(arc_scores, first, n, stride, size, chart)
    if not single_root:
        if chart[CR + n * stride] == -np.inf:
            return False
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, 1
        _trace(chart, first, stride, size, stack, 1, heads)
        return True
    # max over m of C_L(1,m) + C_R(m,n) + arc(0,m)
    best, root = -np.inf, -1
    for m in range(n):
        value = chart[CL + m * stride] + chart[CR + (n - 1 - m) * stride + m]
        value += arc_scores[0, m + 1]
        if value > best:
            best, root = value, m
    if root < 0:
        return False
    heads[root + 1] = 0
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, root, 0
    stack[1, 0], stack[1, 1], stack[1, 2] = root, n - 1, 1
    _trace(chart, first, stride, size, stack, 2, heads)
    return True


@njit(cache=True, nogil=True)
def eisner_batch(arc_scores, lengths, single_root, heads, scores):
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
