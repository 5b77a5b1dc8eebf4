"""Third-order Eisner with tri-sibling parts, compiled: Model 2 of Koo & Collins 2010.

As `eisner_grand_sibling`, but an incomplete item of the arc (h, m) knows the inner sibling of m in
place of the head of h, which is read only where m turns out to be the outermost modifier: so
incomplete items are a row for each arc, over inner siblings by rank, no sibling first.
"""

import numpy as np
import torch

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.higher_order_scores import Parts
from gpuparse.inference.kernels.cpu.arc_halves import (
    arcs_by_head,
    best_between,
    fill_left_halves,
    fill_right_halves,
    new_halves,
    new_outer,
    outermost_modifier,
    push,
    push_between,
    size_of_rows,
)
from gpuparse.inference.kernels.cpu.candidates import (
    ALL_ARCS,
    Candidates,
    allowed_arcs,
    find_candidates,
    grand_sibling_blocks,
    sibling_blocks,
    tri_sibling_blocks,
)
from gpuparse.inference.kernels.cpu.eisner_sibling import inner_sibling, is_outermost
from gpuparse.inference.kernels.cpu.grand_blocks import (
    gather_ends,
    gather_outermost,
    gather_tri_siblings,
    given_or_empty,
)
from gpuparse.inference.kernels.cpu.lanes import pointer_to, vector_lanes
from gpuparse.inference.kernels.cpu.row_maxima import best_row, largest_sum
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads
from gpuparse.tensors import NO_HEAD


@inlined
def _fill_incomplete(
    a: int,
    h: int,
    first_place: int,
    rank: int,
    width: int,
    n: int,
    arcs: np.ndarray,
    modifier: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    blocks: np.ndarray,
    block: int,
    outermost: np.ndarray,
    outermost_block: int,
    end: float,
    items: np.ndarray,
    of_arc: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    lanes: int,
    n_parts: int,
    n_outermost: int,
) -> None:
    """The items of the arc a = (h, m) with every inner sibling, and as the outermost one.

    Args: first_place: of the arcs of h on this side; width: how many heads of h there are; block,
    outermost_block: where the parts of the arc begin.
    """
    m = modifier[a]
    # J(h,m,none) = C(m,h+1) + part(none)
    inside = left[a * (n + 1) + h + 1] if h < m else right[a * (n + 1) + h - 1]
    own = of_arc[a]
    items[own] = inside + blocks[block]
    # J(h,m,s) = max_t (J(h,s,t) + part(s,t)) + S(s,m)
    block += 1
    for t in range(rank):
        b = arcs[first_place + t]
        s, of_s = modifier[b], of_arc[b]
        if block + t + lanes < n_parts:
            item = largest_sum(items, of_s, blocks, block, t + 1)
        else:  # too near the end of the blocks to load whole vectors
            item = items[of_s] + blocks[block]
            for x in range(1, t + 1):
                item = max(item, items[of_s + x] + blocks[block + x])
        block += t + 1
        if h < m:
            item += best_between(right, left, s, b, m, a, n)
        else:
            item += best_between(right, left, m, a, s, b, n)
        items[own + t + 1] = item
    # I(h,m) = max_s J(h,m,s) + outermost(s), then the end
    at = (first_place + rank) * row_size
    if outermost_block + (rank + 1) * width + lanes <= n_outermost:
        for q in range(0, width, lanes):
            best_row(items, own, outermost, outermost_block + q, width, rank + 1, outer, at + q)
    else:
        for q in range(width):
            outer[at + q] = items[own] + outermost[outermost_block + q]
            for t in range(1, rank + 1):
                value = items[own + t] + outermost[outermost_block + t * width + q]
                outer[at + q] = value if value > outer[at + q] else outer[at + q]
    for q in range(width):
        outer[at + q] += end


@compiled
def _fill_chart(
    modifier: np.ndarray,
    head: np.ndarray,
    rank: np.ndarray,
    first: np.ndarray,
    side: np.ndarray,
    blocks: np.ndarray,
    starts: np.ndarray,
    outermost: np.ndarray,
    outermost_starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    first_start: int,
    arcs: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    items: np.ndarray,
    of_arc: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    lanes: int,
    n_parts: int,
    n_outermost: int,
    spare: int,
) -> None:
    """All items whose spans begin at `first_start` or later; pointers, as in `arc_halves`."""
    for i in range(n, first_start - 1, -1):
        # The arcs from i to the right, then those from later words to i.
        for to_left in range(2):
            begin = first[i] if to_left else side[i]
            stop = first[i + 1] if to_left else side[i + 1]
            for p in range(begin, stop if i > 0 or not to_left else begin):
                a = p if to_left else arcs[p]
                h = head[a]
                if to_left and h < i:
                    continue
                place = side[n + 1] + side[n + 2 + h] if to_left else side[h]
                _fill_incomplete(
                    a, h, place, rank[a], first[h + 1] - first[h], n, arcs, modifier, right, left,
                    blocks, starts[a], outermost, outermost_starts[a], ends[a], items, of_arc,
                    outer, row_size, lanes, n_parts, n_outermost,
                )  # fmt: skip
            if not to_left:
                fill_right_halves(
                    i, n, arcs, modifier, first, side, right, outer, row_size, lanes, spare
                )
        if i > 0:
            fill_left_halves(i, n, arcs, modifier, first, side, left, outer, row_size, lanes, spare)


@compiled
def _best_of_root(
    n_arcs: int,
    blocks: np.ndarray,
    starts: np.ndarray,
    outermost: np.ndarray,
    outermost_starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    arcs: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
) -> int:
    """The first best arc of a root with one modifier, 0 if there is none.

    max over m of (((C_L(1,m) + C_R(m,n)) + part(0,-,m)) + outermost(0,-,m)) + end(0,m)
    """
    best, root = -np.inf, 0
    for p in range(n_arcs):
        a = arcs[p]
        value = left[a * (n + 1) + 1] + right[a * (n + 1) + n]
        value = ((value + blocks[starts[a]]) + outermost[outermost_starts[a]]) + ends[a]
        if value > best:
            best, root = value, a
    return root


@compiled
def eisner_tri_sibling_sentence(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    outermost: np.ndarray,
    outermost_starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    single_root: bool,
    heads: np.ndarray,
) -> bool:
    """Fill heads[1:n+1] with the best projective tree over the candidates.

    Args: blocks, starts: scores of tri-sibling parts as `tri_sibling_blocks` says, each with the
    arc and all else that belongs to it; outermost, outermost_starts: scores of grand-sibling parts
    as `grand_sibling_blocks` says, read where the modifier is the outermost of its head on that
    side; ends (A,): of the modifier of each arc being the outermost; n >= 1. One float type,
    contiguous; -inf is forbidden.
    Returns: whether there is a tree; if not, heads are left as they were.
    Cost: as `eisner_grand_sibling_sentence`.
    """
    modifier, first, side = candidates.modifier, candidates.first, candidates.side
    row_size = size_of_rows(first, n, blocks.itemsize)
    arcs = arcs_by_head(candidates.number, side, candidates.beyond, n)
    of_arc = sibling_blocks(candidates.rank)
    right, left = new_halves(modifier, n, blocks), new_halves(modifier, n, blocks)
    outer = new_outer(len(arcs), row_size, n, blocks)
    items = np.empty(of_arc[len(arcs)] + vector_lanes(blocks), blocks.dtype)
    _fill_chart(
        pointer_to(modifier), pointer_to(candidates.head), pointer_to(candidates.rank),
        pointer_to(first), pointer_to(side), pointer_to(blocks), pointer_to(starts),
        pointer_to(outermost), pointer_to(outermost_starts), pointer_to(ends), n,
        1 if single_root else 0, pointer_to(arcs), pointer_to(right), pointer_to(left),
        pointer_to(items), pointer_to(of_arc), pointer_to(outer), row_size, vector_lanes(blocks),
        len(blocks), len(outermost), len(arcs) * row_size,
    )  # fmt: skip
    stack, depth = np.empty((2 * n + 4, 2), np.int64), 0
    if single_root:
        root = _best_of_root(
            side[0, 1], blocks, starts, outermost, outermost_starts, ends, n, arcs, right, left
        )
        if root == 0:
            return False
        heads[modifier[root]] = 0
        depth = push(stack, push(stack, depth, root, 1), root, n)
    elif right[n] == -np.inf:
        return False
    else:
        depth = push(stack, depth, 0, n)
    while depth > 0:
        depth -= 1
        a, e = stack[depth, 0], stack[depth, 1]
        if e != modifier[a]:
            depth = _follow(
                a, e, n, arcs, modifier, first, side, blocks, starts, outermost, outermost_starts,
                right, left, items, of_arc, outer, row_size, stack, depth, heads,
            )  # fmt: skip
    return True


@compiled
def _follow(
    a: int,
    e: int,
    n: int,
    arcs: np.ndarray,
    modifier: np.ndarray,
    first: np.ndarray,
    side: np.ndarray,
    blocks: np.ndarray,
    starts: np.ndarray,
    outermost: np.ndarray,
    outermost_starts: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    items: np.ndarray,
    of_arc: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    stack: np.ndarray,
    depth: int,
    heads: np.ndarray,
) -> int:
    """Heads of all modifiers in the half under the arc a to e; notes the halves that are left."""
    h, q = modifier[a], a - first[modifier[a]]
    is_right = h < e
    place = side[0, h] if is_right else side[0, n + 1] + side[1, h]
    width = first[h + 1] - first[h]
    t = outermost_modifier(
        a, e, n, arcs, modifier, first, side, right if is_right else left, outer, row_size
    )
    b = arcs[place + t]
    depth = push(stack, depth, b, e)
    # sibling: rank of the inner sibling, plus 1
    best, sibling = items[of_arc[b]] + outermost[outermost_starts[b] + q], 0
    for k in range(t):
        j = k + 1 if is_right else t - k
        value = items[of_arc[b] + j] + outermost[outermost_starts[b] + j * width + q]
        if value > best:
            best, sibling = value, j
    while sibling > 0:
        b, c = arcs[place + t], arcs[place + sibling - 1]
        heads[modifier[b]] = h
        depth = push_between(stack, depth, right, left, modifier, b, c, n)
        t = sibling - 1
        block = starts[b] + 1 + t * (t + 1) // 2
        best, sibling = items[of_arc[c]] + blocks[block], 0
        for k in range(t):
            j = k + 1 if is_right else t - k
            value = items[of_arc[c] + j] + blocks[block + j]
            if value > best:
                best, sibling = value, j
    b = arcs[place + t]
    heads[modifier[b]] = h
    return push(stack, depth, b, h + 1 if is_right else h - 1)


@compiled
def tri_sibling_tree_score(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    outermost: np.ndarray,
    outermost_starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    heads: np.ndarray,
) -> float:
    """Sum over words 1, 2, ..., n of the part of its arc, and if it is outermost, of that and end.

    Args: heads: of a tree over the candidates, the root's not read.
    """
    total = blocks.dtype.type(0)
    number, first, rank = candidates.number, candidates.first, candidates.rank
    for m in range(1, n + 1):
        h = heads[m]
        a, s = number[h, m], inner_sibling(heads, m)
        row, cell = 0, 0
        if s != h:
            row, t = rank[number[h, s]] + 1, inner_sibling(heads, s)
            cell = 1 + row * (row - 1) // 2 + (0 if t == h else rank[number[h, t]] + 1)
        total += blocks[starts[a] + cell]
        if is_outermost(heads, n, m):
            q = number[heads[h], h] - first[h] if h > 0 else 0
            total += outermost[outermost_starts[a] + row * (first[h + 1] - first[h]) + q]
            total += ends[a]
    return total


@compiled
def eisner_tri_sibling_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    tri_sibling_scores: np.ndarray,
    outermost_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Best projective trees of a batch, unchecked; arguments as `eisner_grand_sibling_batch`."""
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        scores[b] = 0
        if n == 0:
            continue
        found = find_candidates(allowed_arcs(arc_scores[b], ALL_ARCS, n), n)
        starts = tri_sibling_blocks(found.rank)
        blocks = gather_tri_siblings(
            found, starts, arc_scores[b], sibling_scores[b], tri_sibling_scores[b]
        )
        outer_starts = grand_sibling_blocks(found.head, found.first, found.rank)
        outermost = gather_outermost(found, outer_starts, outermost_scores[b])
        ends = gather_ends(found, end_scores[b])
        if eisner_tri_sibling_sentence(
            found, blocks, starts, outermost, outer_starts, ends, n, single_root, heads[b]
        ):
            scores[b] = tri_sibling_tree_score(
                found, blocks, starts, outermost, outer_starts, ends, n, heads[b]
            )
        else:
            scores[b] = -np.inf


def eisner_tri_sibling(parts: Parts, *, single_root: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner_tri_sibling` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets the score -inf.
    """
    arcs, siblings, ends, words = (
        part.numpy() for part in (parts.arc, parts.sibling, parts.end, parts.lengths)
    )
    tri_siblings = given_or_empty(parts.tri_sibling, arcs, 5)
    outermost = given_or_empty(parts.outermost, arcs, 5)
    heads = np.empty(arcs.shape[:2], np.int64)
    scores = np.empty(len(arcs), arcs.dtype)

    def search(part: slice) -> None:
        eisner_tri_sibling_batch(
            arcs[part], siblings[part], tri_siblings[part], outermost[part], ends[part],
            words[part], single_root, heads[part], scores[part],
        )  # fmt: skip

    run_in_threads(search, words, 4, torch.get_num_threads(), WORTH_A_THREAD // 4)
    return torch.from_numpy(heads), torch.from_numpy(scores)
