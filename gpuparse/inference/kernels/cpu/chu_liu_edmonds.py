"""Chu-Liu/Edmonds in the path-growing form, compiled, dense O(n^2) for every input.

`inference/reference.py` explains the algorithm and its choices. Here the rows of super-nodes lie in
one buffer, `rows[k * stride + u]`, words first and then the super-nodes in the order of making.
Nothing is kept about which word an entering arc enters: taking apart finds it again by equality.
"""

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from gpuparse.inference.kernels.cpu.threads import run_in_threads
from gpuparse.tensors import NO_HEAD

VECTOR_BYTES = 64
FREE, ATTACHED = -1, -2  # what stands in `place` for words that are not on the path


def _address(context, builder, array_type, array, index):
    """Pointer to the vector that starts at element `index`, without bounds or sign checks."""
    element = context.get_data_type(array_type.dtype)
    lanes = VECTOR_BYTES // (array_type.dtype.bitwidth // 8)
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(element, lanes).as_pointer())


def _larger(builder, x, y):
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _fold(builder, vector, lanes):
    """Every lane becomes the largest lane."""
    shift = lanes // 2
    while shift:
        order = ir.Constant(
            ir.VectorType(ir.IntType(32), lanes), [(v + shift) % lanes for v in range(lanes)]
        )
        turned = builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), order)
        vector = _larger(builder, vector, turned)
        shift //= 2
    return vector


@intrinsic
def _first_max(typingctx, rows, start, blocks):
    """The smallest u with the largest rows[start + u], over blocks vectors; blocks > 0."""
    size = rows.dtype.bitwidth // 8
    lanes = VECTOR_BYTES // size

    def codegen(context, builder, signature, args):
        array, start, blocks = args
        index = start.type
        zero, one, step = (ir.Constant(index, value) for value in (0, 1, lanes))

        def load(offset):
            at = _address(context, builder, rows, array, builder.add(start, offset))
            return builder.load(at, align=size)

        first = load(zero)
        entry = builder.block
        head = builder.append_basic_block("max")
        body = builder.append_basic_block("max.body")
        folded = builder.append_basic_block("folded")
        search = builder.append_basic_block("search")
        onward = builder.append_basic_block("onward")
        done = builder.append_basic_block("found")
        stop = builder.mul(blocks, step)
        builder.branch(head)
        builder.position_at_end(head)
        u = builder.phi(index)
        best = builder.phi(first.type)
        builder.cbranch(builder.icmp_signed("<", u, stop), body, folded)
        builder.position_at_end(body)
        larger = _larger(builder, load(u), best)
        u_next = builder.add(u, step)
        builder.branch(head)
        u.add_incoming(step, entry)
        u.add_incoming(u_next, body)
        best.add_incoming(first, entry)
        best.add_incoming(larger, body)
        builder.position_at_end(folded)
        top = _fold(builder, best, lanes)
        builder.branch(search)
        builder.position_at_end(search)
        v = builder.phi(index)
        equal = builder.fcmp_ordered("==", load(v), top)
        mask = builder.bitcast(equal, ir.IntType(lanes))
        builder.cbranch(builder.icmp_unsigned("==", mask, ir.Constant(mask.type, 0)), onward, done)
        builder.position_at_end(onward)
        v_next = builder.add(v, step)
        builder.branch(search)
        v.add_incoming(zero, folded)
        v.add_incoming(v_next, onward)
        builder.position_at_end(done)
        lane = builder.cttz(mask, ir.Constant(ir.IntType(1), 1))
        return builder.add(v, builder.zext(lane, index))

    return types.int64(rows, types.int64, types.int64), codegen


@intrinsic
def _max_less(typingctx, rows, out, source, loss):
    """rows[out + v] = max(rows[out + v], rows[source + v] - loss) for each lane v."""
    size = rows.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        array, out, source, loss = args
        target = _address(context, builder, rows, array, out)
        old = builder.load(target, align=size)
        new = builder.load(_address(context, builder, rows, array, source), align=size)
        lanes = new.type.count
        one = builder.insert_element(
            ir.Constant(new.type, ir.Undefined), loss, ir.Constant(ir.IntType(32), 0)
        )
        order = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        all_lanes = builder.shuffle_vector(one, ir.Constant(new.type, ir.Undefined), order)
        builder.store(_larger(builder, builder.fsub(new, all_lanes), old), target, align=size)
        return context.get_dummy_value()

    return types.void(rows, types.int64, types.int64, rows.dtype), codegen


@njit(cache=True, nogil=True)
def _fill_rows(arc_scores, n, stride, rows, root):
    """Row of every word: rows[m * stride + h] = arc(h, m); the root's arcs apart, in root[m]."""
    rows[: (n + 1) * stride] = -np.inf
    first = arc_scores[0]
    for m in range(1, n + 1):
        root[m] = first[m]
    for h in range(1, n + 1):
        from_head = arc_scores[h]
        to = rows[h:]
        for m in range(1, n + 1):
            to[np.uint64(m * stride)] = from_head[np.uint64(m)]
    for m in range(1, n + 1):
        rows[m * stride + m] = -np.inf


@njit(cache=True, nogil=True)
def _contract(n, start, end, made, stride, rows, root, best, path, place, members):
    """Make path[start:end] one super-node: its row, its members, its place on the path."""
    blocks = stride * rows.itemsize // VECTOR_BYTES
    lanes = VECTOR_BYTES // rows.itemsize
    new = rows[made * stride : (made + 1) * stride]
    new[:] = -np.inf
    entering = -np.inf
    for p in range(start, end):
        k = path[p]
        members[p - start] = k
        for v in range(blocks):
            _max_less(rows, made * stride + v * lanes, k * stride + v * lanes, best[k])
        entering = max(entering, root[k] - best[k])
    root[made] = entering
    for u in range(1, n + 1):
        if place[u] >= start:
            place[u] = start
            new[u] = -np.inf
    path[start] = made


@njit(cache=True, nogil=True)
def _take_apart(made, n, stride, rows, root, best, source, members, bounds):
    """Pass the arc that enters each super-node on to the member that it enters."""
    for c in range(made - 1, n, -1):
        u = source[c]
        entered, highest = -1, -np.inf
        for i in range(bounds[c], bounds[c + 1]):
            k = members[i]
            value = (root[k] if u == 0 else rows[k * stride + u]) - best[k]
            if value > highest or (value == highest and k < entered):
                entered, highest = k, value
        source[entered] = u


@njit(cache=True, nogil=True)
def chu_liu_edmonds_sentence(arc_scores, n, single_root, rows, floats, ints, heads):
    """Best tree of one sentence, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1); scratch: rows of 2 (n+1) (n+1 rounded up to a vector) cells,
    floats (2, >= 2n+2), int64 ints (5, >= 2n+2); heads: filled at 1..n.
    Returns: whether there is a tree; if not, heads are left as they were.
    """
    lanes = VECTOR_BYTES // rows.itemsize
    blocks = (n + lanes) // lanes
    stride = blocks * lanes
    root, best = floats
    source, path, place, members, bounds = ints
    _fill_rows(arc_scores, n, stride, rows, root)
    place[: n + 1] = FREE
    made = n + 1
    bounds[made] = 0
    for first in range(1, n + 1):
        if place[first] == ATTACHED:
            continue
        path[0] = first
        place[first] = 0
        end = 1
        while end > 0:
            k = path[end - 1]
            u = _first_max(rows, k * stride, blocks)
            highest = rows[k * stride + u]
            if highest == -np.inf if single_root else root[k] >= highest:
                u, highest = 0, root[k]
            if highest == -np.inf:
                return False
            source[k], best[k] = u, highest
            if u == 0 or place[u] == ATTACHED:
                for m in range(1, n + 1):
                    place[m] = ATTACHED if place[m] >= 0 else place[m]
                end = 0
            elif place[u] == FREE:
                place[u] = end
                path[end] = u
                end += 1
            else:
                start = place[u]
                _contract(
                    n,
                    start,
                    end,
                    made,
                    stride,
                    rows,
                    root,
                    best,
                    path,
                    place,
                    members[bounds[made] :],
                )
                bounds[made + 1] = bounds[made] + end - start
                made += 1
                end = start + 1
    _take_apart(made, n, stride, rows, root, best, source, members, bounds)
    n_roots = 0
    for m in range(1, n + 1):
        n_roots += source[m] == 0
    if single_root and n_roots > 1:
        return False
    for m in range(1, n + 1):
        heads[m] = source[m]
    return True


@njit(cache=True, nogil=True)
def chu_liu_edmonds_batch(arc_scores, lengths, single_root, heads, scores):
    """Best trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores float (B, N, N), C order; lengths int64 (B,); heads int (B, N) and
    scores float (B,): filled. A sentence without a tree gets the score -inf and no heads.
    """
    nodes = 1
    for b in range(len(lengths)):
        nodes = max(nodes, lengths[b] + 1)
    lanes = VECTOR_BYTES // arc_scores.itemsize
    rows = np.empty(2 * nodes * ((nodes + lanes - 1) // lanes * lanes), arc_scores.dtype)
    floats = np.empty((2, 2 * nodes), arc_scores.dtype)
    ints = np.empty((5, 2 * nodes), np.int64)
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        total = rows.dtype.type(0)
        if chu_liu_edmonds_sentence(arc_scores[b], n, single_root, rows, floats, ints, heads[b]):
            for m in range(1, n + 1):
                total += arc_scores[b, heads[b, m], m]
        else:
            total = rows.dtype.type(-np.inf)
        scores[b] = total


def chu_liu_edmonds(
    arc_scores: torch.Tensor, lengths: torch.Tensor, *, single_root: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.chu_liu_edmonds` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets the score -inf.
    """
    arcs, words = arc_scores.numpy(), lengths.numpy()
    heads = np.empty(arcs.shape[:2], np.int64)
    scores = np.empty(len(arcs), arcs.dtype)

    def search(part: slice) -> None:
        chu_liu_edmonds_batch(arcs[part], words[part], single_root, heads[part], scores[part])

    run_in_threads(search, words, 2, torch.get_num_threads())
    return torch.from_numpy(heads), torch.from_numpy(scores)
