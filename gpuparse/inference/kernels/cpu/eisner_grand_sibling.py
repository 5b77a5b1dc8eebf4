"""Third-order Eisner with grand-sibling parts, compiled: Model 1 of Koo & Collins 2010.

Halves and incomplete items are rows as `arc_halves` has them. Starts of spans run from the last
word to the first; when start i begins, everything about later starts is known. There are no
back-pointers: the back-trace looks for the first best choice again.
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
)
from gpuparse.inference.kernels.cpu.eisner_sibling import inner_sibling, is_outermost
from gpuparse.inference.kernels.cpu.grand_blocks import (
    gather_ends,
    gather_grand_siblings,
    given_or_empty,
)
from gpuparse.inference.kernels.cpu.lanes import pointer_to, vector_lanes
from gpuparse.inference.kernels.cpu.row_maxima import raise_row
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
    end: float,
    rows: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    lanes: int,
    n_parts: int,
    spare: int,
) -> None:
    """The items of the arc a = (h, m) with every head of h: rows, and with the end: outer.

    Args: first_place: of the arcs of h on this side; width: how many heads of h there are; block:
    where the parts of the arc begin; spare: where in `outer` there is room for a number
    of each modifier.
    """
    m = modifier[a]
    for t in range(rank):
        b = arcs[first_place + t]
        s = modifier[b]
        if h < m:
            outer[spare + t] = best_between(right, left, s, b, m, a, n)
        else:
            outer[spare + t] = best_between(right, left, m, a, s, b, n)
    # I(h,m) = C(m,h+1) + part(none)
    inside = left[a * (n + 1) + h + 1] if h < m else right[a * (n + 1) + h - 1]
    at, of_first = (first_place + rank) * row_size, first_place * row_size
    for q in range(width):
        rows[at + q] = inside + blocks[block + q]
    # I(h,m) = max_s I(h,s) + (S(s,m) + part(s))
    parts = block + width
    if block + (rank + 1) * width + lanes <= n_parts:
        for q in range(0, width, lanes):
            raise_row(
                rows, at + q, of_first + q, row_size, outer, spare, blocks, parts + q, width, rank
            )
    else:  # too near the end of the blocks to load whole vectors
        for t in range(rank):
            for q in range(width):
                value = outer[spare + t] + blocks[parts + t * width + q]
                value = rows[of_first + t * row_size + q] + value
                rows[at + q] = value if value > rows[at + q] else rows[at + q]
    for q in range(width):
        outer[at + q] = rows[at + q] + end


@compiled
def _fill_chart(
    modifier: np.ndarray,
    head: np.ndarray,
    rank: np.ndarray,
    first: np.ndarray,
    side: np.ndarray,
    blocks: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    first_start: int,
    arcs: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    rows: np.ndarray,
    outer: np.ndarray,
    row_size: int,
    lanes: int,
    n_parts: int,
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
                    blocks, starts[a], ends[a], rows, outer, row_size, lanes, n_parts, spare,
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
    ends: np.ndarray,
    n: int,
    arcs: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
) -> int:
    """The first best arc of a root with one modifier, 0 if there is none.

    max over m of ((C_L(1,m) + C_R(m,n)) + part(0,-,m)) + end(0,m)
    """
    best, root = -np.inf, 0
    for p in range(n_arcs):
        a = arcs[p]
        value = left[a * (n + 1) + 1] + right[a * (n + 1) + n]
        value = (value + blocks[starts[a]]) + ends[a]
        if value > best:
            best, root = value, a
    return root


@compiled
def eisner_grand_sibling_sentence(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    single_root: bool,
    heads: np.ndarray,
) -> bool:
    """Fill heads[1:n+1] with the best projective tree over the candidates.

    Args: blocks, starts: scores of parts in blocks that begin as `grand_sibling_blocks` says, each
    with all scores that belong to it; ends (A,): of the modifier of each arc being the outermost of
    its head on that side; n >= 1. One float type, contiguous; -inf
    is forbidden.
    Returns: whether there is a tree; if not, heads are left as they were.
    Cost: O(n^4) without pruning, O(n k^3 + n^2 k^2) with k heads a word and as many modifiers.
    """
    modifier, first, side = candidates.modifier, candidates.first, candidates.side
    row_size = size_of_rows(first, n, blocks.itemsize)
    arcs = arcs_by_head(candidates.number, side, candidates.beyond, n)
    right, left = new_halves(modifier, n, blocks), new_halves(modifier, n, blocks)
    rows = np.empty(len(arcs) * row_size, blocks.dtype)
    outer = new_outer(len(arcs), row_size, n, blocks)
    _fill_chart(
        pointer_to(modifier), pointer_to(candidates.head), pointer_to(candidates.rank),
        pointer_to(first), pointer_to(side), pointer_to(blocks), pointer_to(starts),
        pointer_to(ends), n, 1 if single_root else 0, pointer_to(arcs), pointer_to(right),
        pointer_to(left), pointer_to(rows), pointer_to(outer), row_size, vector_lanes(blocks),
        len(blocks), len(arcs) * row_size,
    )  # fmt: skip
    stack, depth = np.empty((2 * n + 4, 2), np.int64), 0
    if single_root:
        root = _best_of_root(side[0, 1], blocks, starts, ends, n, arcs, right, left)
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
                a, e, n, arcs, modifier, first, side, blocks,
                starts, right, left, rows, outer, row_size, stack, depth, heads,
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
    right: np.ndarray,
    left: np.ndarray,
    rows: np.ndarray,
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
    depth = push(stack, depth, arcs[place + t], e)
    while True:
        b = arcs[place + t]
        heads[modifier[b]] = h
        inside = left[b * (n + 1) + h + 1] if is_right else right[b * (n + 1) + h - 1]
        best, sibling = inside + blocks[starts[b] + q], -1
        for k in range(t):
            u = k if is_right else t - 1 - k
            c = arcs[place + u]
            i, j = (c, b) if is_right else (b, c)
            between = best_between(right, left, modifier[i], i, modifier[j], j, n)
            part = between + blocks[starts[b] + (u + 1) * width + q]
            if rows[(place + u) * row_size + q] + part > best:
                best, sibling = rows[(place + u) * row_size + q] + part, u
        if sibling < 0:
            return push(stack, depth, b, h + 1 if is_right else h - 1)
        depth = push_between(stack, depth, right, left, modifier, b, arcs[place + sibling], n)
        t = sibling


@compiled
def grand_sibling_tree_score(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    heads: np.ndarray,
) -> float:
    """Sum over words 1, 2, ..., n of the part of its arc, then of its end if it is outermost.

    Args: heads: of a tree over the candidates, the root's not read.
    """
    total = blocks.dtype.type(0)
    number, first, rank = candidates.number, candidates.first, candidates.rank
    for m in range(1, n + 1):
        h = heads[m]
        a, s = number[h, m], inner_sibling(heads, m)
        row = 0 if s == h else rank[number[h, s]] + 1
        q = number[heads[h], h] - first[h] if h > 0 else 0
        total += blocks[starts[a] + row * (first[h + 1] - first[h]) + q]
        if is_outermost(heads, n, m):
            total += ends[a]
    return total


@compiled
def eisner_grand_sibling_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    grandparent_scores: np.ndarray,
    grand_sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Best projective trees of a batch, unchecked, on arrays that the caller provides.

    Args: scores as the public function has them, C order, one type; (B, 0, ...) where none were
    given; lengths int64 (B,); heads int64 (B, N) and scores (B,): filled. A sentence without a tree
    gets the score -inf and no heads.
    """
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        scores[b] = 0
        if n == 0:
            continue
        found = find_candidates(allowed_arcs(arc_scores[b], ALL_ARCS, n), n)
        starts = grand_sibling_blocks(found.head, found.first, found.rank)
        blocks = gather_grand_siblings(
            found, starts, arc_scores[b], sibling_scores[b], grandparent_scores[b],
            grand_sibling_scores[b],
        )  # fmt: skip
        ends = gather_ends(found, end_scores[b])
        if eisner_grand_sibling_sentence(found, blocks, starts, ends, n, single_root, heads[b]):
            scores[b] = grand_sibling_tree_score(found, blocks, starts, ends, n, heads[b])
        else:
            scores[b] = -np.inf


def eisner_grand_sibling(parts: Parts, *, single_root: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner_grand_sibling` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets the score -inf.
    """
    arcs, siblings, ends, words = (
        part.numpy() for part in (parts.arc, parts.sibling, parts.end, parts.lengths)
    )
    grandparents = given_or_empty(parts.grandparent, arcs, 4)
    grand_siblings = given_or_empty(parts.grand_sibling, arcs, 5)
    heads = np.empty(arcs.shape[:2], np.int64)
    scores = np.empty(len(arcs), arcs.dtype)

    def search(part: slice) -> None:
        eisner_grand_sibling_batch(
            arcs[part], siblings[part], grandparents[part], grand_siblings[part], ends[part],
            words[part], single_root, heads[part], scores[part],
        )  # fmt: skip

    run_in_threads(search, words, 4, torch.get_num_threads(), WORTH_A_THREAD // 4)
    return torch.from_numpy(heads), torch.from_numpy(scores)
