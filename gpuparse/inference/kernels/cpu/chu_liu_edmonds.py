"""Chu-Liu/Edmonds in the path-growing form, compiled, dense O(n^2) for every input.

`inference/reference.py` explains the algorithm and its choices. Here the best sources of all words
are found at once before any path grows, and a word's row is only written out when the word is on a
cycle: where the best sources form a tree, which trained scores often have, nothing else is done.
Nothing is kept about which word an entering arc enters: taking apart finds it again.
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
    fold,
    lane_count,
    larger,
    splat,
    vector_lanes,
    whole_vectors,
)
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads
from gpuparse.tensors import NO_HEAD

FREE, ATTACHED = -1, -2  # what stands in `place` for words that are not on the path


@intrinsic
def _best_sources(typingctx, matrix, stride, n, single_root, best, source, word):  # type: ignore[no-untyped-def]
    """best[m] and source[m] of the words from `word` on, as many as a vector holds.

    Args: matrix[h * stride + m], -inf on the diagonal; best in the same type; source int32.
    """
    lanes = lane_count(matrix)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        matrix_data, stride, n, single_root, best_data, source_data, word = args
        scores = Lanes(context, builder, matrix, matrix_data, lanes)
        highest_of = Lanes(context, builder, best, best_data, lanes)
        source_of = Lanes(context, builder, source, source_data, lanes)
        one, nothing = ir.Constant(n.type, 1), constant(scores.type, -np.inf)
        from_root = scores.load(word)
        # The root is first among equals; with a single root it comes after all others.
        first = builder.select(single_root, nothing, from_root)
        begin = [builder.add(word, stride), first, constant(source_of.type, 0)]
        loop = Loop(builder, one, builder.add(n, one), one, begin)
        at, highest, u = loop.values
        score = scores.load(at)
        is_larger = builder.fcmp_ordered(">", score, highest)
        h = splat(builder, source_of.type, builder.trunc(loop.i, source_of.type.element))
        highest = builder.select(is_larger, score, highest)
        loop.turn([builder.add(at, stride), highest, builder.select(is_larger, h, u)])
        _, highest, u = loop.values
        has_none = builder.fcmp_ordered("==", highest, nothing)
        highest_of.store(word, builder.select(has_none, from_root, highest))
        source_of.store(word, u)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(matrix, integer, integer, types.boolean, best, source, integer), codegen


@intrinsic
def _first_max(typingctx, rows, start, count):  # type: ignore[no-untyped-def]
    """The smallest u with the largest rows[start + u], u < count, a multiple of the lanes, > 0."""
    lanes = lane_count(rows)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows_data, start, count = args
        row = Lanes(context, builder, rows, rows_data, lanes)
        step, zero = ir.Constant(start.type, lanes), ir.Constant(start.type, 0)
        loop = Loop(builder, step, count, step, [row.load(start)])
        best = larger(builder, row.load(builder.add(start, loop.i)), loop.values[0])
        loop.turn([best])
        top = fold(builder, loop.values[0])
        before = builder.block
        search = builder.append_basic_block("search")
        found = builder.append_basic_block("found")
        builder.branch(search)
        builder.position_at_end(search)
        u = builder.phi(start.type)
        equal = builder.fcmp_ordered("==", row.load(builder.add(start, u)), top)
        mask = builder.bitcast(equal, ir.IntType(lanes))
        u.add_incoming(zero, before)
        u.add_incoming(builder.add(u, step), search)
        is_here = builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))
        builder.cbranch(is_here, found, search)
        builder.position_at_end(found)
        lane = builder.cttz(mask, ir.Constant(ir.IntType(1), 1))
        return builder.add(u, builder.zext(lane, start.type))

    return types.int64(rows, types.int64, types.int64), codegen


@intrinsic
def _merge(typingctx, rows, stride, best, path, start, end, place, made, word):  # type: ignore[no-untyped-def]
    """row[made][u] = max over members k of row[k][u] - best[k], -inf for the words inside.

    For the sources u from `word` on, as many as a vector holds. The members are path[start:end],
    int32; the words inside, those at `start` or later on the path, come to stand at `start`.
    """
    lanes = lane_count(rows)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows_data, stride, best_data, path_data, start, end, place_data, made, word = args
        row = Lanes(context, builder, rows, rows_data, lanes)
        best_of = Lanes(context, builder, best, best_data, 1)
        super_node = Lanes(context, builder, path, path_data, 1)
        place_of = Lanes(context, builder, place, place_data, lanes)
        nothing = constant(row.type, -np.inf)
        loop = Loop(builder, start, end, ir.Constant(start.type, 1), [nothing])
        k = builder.sext(super_node.load_one(loop.i), start.type)
        entering = row.load(builder.add(builder.mul(k, stride), word))
        loss = splat(builder, row.type, best_of.load_one(k))
        loop.turn([larger(builder, builder.fsub(entering, loss), loop.values[0])])
        at_start = splat(builder, place_of.type, builder.trunc(start, place_of.type.element))
        where = place_of.load(word)
        is_inside = builder.icmp_signed(">=", where, at_start)
        place_of.store(word, builder.select(is_inside, at_start, where))
        merged = builder.select(is_inside, nothing, loop.values[0])
        row.store(builder.add(builder.mul(made, stride), word), merged)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(rows, integer, best, path, integer, integer, place, integer, integer), codegen


@compiled
def chu_liu_edmonds_scratch_sizes(n: int, itemsize: int) -> tuple[int, int]:
    """Elements of the two scratch arrays of `chu_liu_edmonds_sentence` for up to n words."""
    stride = whole_vectors(n + 1, itemsize)
    return (3 * (n + 1) + 4) * stride + VECTOR_BYTES // itemsize, 10 * stride


@inlined
def _copy_matrix(arc_scores: np.ndarray, n: int, stride: int, matrix: np.ndarray) -> None:
    """Rows at whole vectors, and -inf on the diagonal."""
    for h in range(n + 1):
        row = arc_scores[h]
        for m in range(n + 1):
            matrix[np.uint64(h * stride + m)] = row[np.uint64(m)]
        matrix[np.uint64(h * stride + h)] = -np.inf


@inlined
def _write_rows(
    path: np.ndarray,
    start: int,
    end: int,
    n: int,
    stride: int,
    matrix: np.ndarray,
    rows: np.ndarray,
    root: np.ndarray,
) -> None:
    """Rows of the words among path[start:end]; other members have theirs already."""
    for p in range(start, end):
        k = np.int64(path[p])
        if k > n:
            continue
        root[k] = matrix[k]
        row = k * stride
        rows[np.uint64(row)] = -np.inf
        for h in range(1, n + 1):
            rows[np.uint64(row + h)] = matrix[np.uint64(h * stride + k)]
        for h in range(n + 1, stride):
            rows[np.uint64(row + h)] = -np.inf


@inlined
def _take_apart(
    made: int,
    n: int,
    stride: int,
    rows: np.ndarray,
    root: np.ndarray,
    best: np.ndarray,
    source: np.ndarray,
    members: np.ndarray,
    bounds: np.ndarray,
) -> None:
    """Pass the arc that enters each super-node on to the member that it enters."""
    for c in range(made - 1, n, -1):
        u = np.int64(source[c])
        highest = -np.inf
        entered = np.int64(members[bounds[c]])
        for i in range(bounds[c], bounds[c + 1]):
            k = np.int64(members[i])
            value = (root[k] if u == 0 else rows[k * stride + u]) - best[k]
            if value > highest or (value == highest and k < entered):
                entered, highest = k, value
        source[entered] = u


@inlined
def _grow_paths(
    n: int,
    stride: int,
    single_root: bool,
    matrix: np.ndarray,
    rows: np.ndarray,
    root: np.ndarray,
    best: np.ndarray,
    source: np.ndarray,
    path: np.ndarray,
    place: np.ndarray,
    members: np.ndarray,
    bounds: np.ndarray,
) -> int:
    """Attach all words; the sources are those of words and super-nodes then.

    Returns: the number after the last super-node, n + 1 if there is none; -1 if there is no tree.
    """
    made = np.int64(n + 1)
    bounds[made] = 0
    for first in range(1, n + 1):
        if place[first] == ATTACHED:
            continue
        path[0] = first
        place[first] = 0
        k, end = np.int64(first), np.int64(1)
        while True:
            u = np.int64(source[k])
            start = np.int64(place[u])
            if start == FREE:
                place[u] = end
                path[end] = u
                k, end = u, end + 1
                continue
            if start == ATTACHED:
                break
            _write_rows(path, int(start), int(end), n, stride, matrix, rows, root)
            for word in range(0, stride, vector_lanes(rows)):
                _merge(rows, stride, best, path, start, end, place, made, word)
            from_root = rows.dtype.type(-np.inf)
            for p in range(start, end):
                k = np.int64(path[p])
                from_root = max(from_root, root[k] - best[k])
                members[bounds[made] + p - start] = k
            bounds[made + 1] = bounds[made] + end - start
            k, end = made, start + 1
            made += 1
            path[start] = k
            root[k] = from_root
            u = _first_max(rows, k * stride, stride)
            highest = rows[k * stride + u]
            if highest == -np.inf if single_root else from_root >= highest:
                u, highest = np.int64(0), from_root
            if highest == -np.inf:
                return -1
            source[k], best[k] = u, highest
        for m in range(1, n + 1):
            place[m] = ATTACHED if place[m] >= 0 else place[m]
    return int(made)


@compiled
def chu_liu_edmonds_sentence(
    arc_scores: np.ndarray,
    n: int,
    single_root: bool,
    floats: np.ndarray,
    ints: np.ndarray,
    heads: np.ndarray,
) -> bool:
    """Best tree of one sentence, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1); scratch of `chu_liu_edmonds_scratch_sizes(n, itemsize)`:
    floats in the type of the scores, ints int32; heads: filled at 1..n.
    Returns: whether there is a tree; if not, heads are left as they were.
    """
    stride = whole_vectors(n + 1, floats.itemsize)
    matrix = aligned(floats)
    rows = matrix[(n + 1) * stride :]
    best = rows[2 * (n + 1) * stride :]
    root = best[2 * stride :]
    source, path, place = ints, ints[2 * stride :], ints[4 * stride :]
    members, bounds = ints[6 * stride :], ints[8 * stride :]
    _copy_matrix(arc_scores, n, stride, matrix)
    for word in range(0, stride, vector_lanes(floats)):
        _best_sources(matrix, stride, n, single_root, best, source, word)
    for m in range(1, n + 1):
        if best[m] == -np.inf:
            return False
    place[:stride] = FREE
    place[0] = ATTACHED
    made = _grow_paths(
        n, stride, single_root, matrix, rows, root, best, source, path, place, members, bounds
    )
    if made < 0:
        return False
    _take_apart(made, n, stride, rows, root, best, source, members, bounds)
    path[0] = made  # for `super_nodes`
    n_roots = 0
    for m in range(1, n + 1):
        n_roots += source[m] == 0
    if single_root and n_roots > 1:
        return False
    for m in range(1, n + 1):
        heads[m] = source[m]
    return True


@inlined
def super_nodes(
    n: int, floats: np.ndarray, ints: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """What the last search with this scratch, which found a tree, leaves behind.

    Returns: best[k], what word or super-node k took; members and bounds: super-node c is made of
    members[bounds[c]:bounds[c + 1]]; the number after the last super-node, n + 1 if there is none.
    """
    stride = whole_vectors(n + 1, floats.itemsize)
    best = aligned(floats)[3 * (n + 1) * stride :]
    return best, ints[6 * stride :], ints[8 * stride :], int(ints[2 * stride])


@compiled
def chu_liu_edmonds_batch(
    arc_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Best trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores float (B, N, N), C order; lengths int64 (B,); heads int (B, N) and
    scores float (B,): filled. A sentence without a tree gets the score -inf and no heads.
    """
    longest = 0
    for b in range(len(lengths)):
        longest = max(longest, lengths[b])
    n_floats, n_ints = chu_liu_edmonds_scratch_sizes(longest, arc_scores.itemsize)
    floats, ints = np.empty(n_floats, arc_scores.dtype), np.empty(n_ints, np.int32)
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        total = floats.dtype.type(0)
        if chu_liu_edmonds_sentence(arc_scores[b], n, single_root, floats, ints, heads[b]):
            for m in range(1, n + 1):
                total += arc_scores[b, heads[b, m], m]
        else:
            total = floats.dtype.type(-np.inf)
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

    # A cell costs about sixteen times as much as a split does in Eisner's algorithm.
    run_in_threads(search, words, 2, torch.get_num_threads(), worth=WORTH_A_THREAD // 16)
    return torch.from_numpy(heads), torch.from_numpy(scores)
