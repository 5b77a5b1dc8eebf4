"""Chu-Liu/Edmonds in Triton, in the path-growing form: one sentence per program, to its end.

`textbook/spanning_trees.py` explains the algorithm and its choices. A lane stands for a word, and
for a super-node, numbered from LANES on in the order of making; what is known of each stays in
registers, and a number is found by its lane. Only the path, the best scores and the rows of
super-nodes are in memory; the rows of words are read from the scores.
"""

import torch
import triton
import triton.language as tl

from gpuparse.inference.triton.launch import (
    add_in_order,
    count_programs,
    new_trees,
    on_device,
    row_length,
)

# Values of `place` for words that are not on the path, and of `parent` for non-members.
FREE, ATTACHED, NO_PARENT = tl.constexpr(-1), tl.constexpr(-2), tl.constexpr(-1)

LANES_A_WARP, MOST_WARPS = 128, 8  # one warp finds a number or a maximum without waiting


def chu_liu_edmonds(
    arc_scores: torch.Tensor, lengths: torch.Tensor, *, single_root: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.chu_liu_edmonds` on usable scores; does not synchronise.

    Returns: As `gpuparse.inference.chu_liu_edmonds`; a sentence without a tree gets the score -inf
        and no heads.
    """
    heads, scores = new_trees(arc_scores)
    n_batch, n_nodes = heads.shape
    if n_batch == 0 or n_nodes <= 1:
        return heads, scores
    device = arc_scores.device
    stride = row_length(n_nodes)
    lanes = triton.next_power_of_2(stride)
    # A row for each super-node, at most N - 2; the parts of the tree's score; the best scores.
    n_cells = n_nodes * stride + 2 * lanes
    n_programs = count_programs(n_batch, n_cells * arc_scores.itemsize, device)
    rows = arc_scores.new_empty((n_programs, n_cells))
    paths = torch.empty((n_programs, lanes), dtype=torch.int32, device=device)
    with on_device(device):
        chu_liu_edmonds_kernel[(n_programs,)](
            arc_scores.contiguous(),
            lengths.contiguous(),
            heads,
            scores,
            rows,
            paths,
            n_batch,
            n_nodes,
            SINGLE_ROOT=single_root,
            STRIDE=stride,
            LANES=lanes,
            num_warps=min(MOST_WARPS, max(1, lanes // LANES_A_WARP)),
            num_stages=1,
        )
    return heads, scores


@triton.jit(do_not_specialize=["n_batch", "n_nodes"])
def chu_liu_edmonds_kernel(
    arc_scores: tl.tensor,
    lengths: tl.tensor,
    heads: tl.tensor,
    scores: tl.tensor,
    rows: tl.tensor,
    paths: tl.tensor,
    n_batch: tl.tensor,
    n_nodes: tl.tensor,
    SINGLE_ROOT: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Best trees of the sentences program, program + programs, ...; arguments as above.

    rows: (programs, N x STRIDE + 2 x LANES); paths: (programs, LANES).
    """
    program = tl.program_id(0).to(tl.int64)
    rows += program * (n_nodes * STRIDE + 2 * LANES)
    best_scores = rows + n_nodes * STRIDE
    path = paths + program * LANES
    m = tl.arange(0, LANES)
    for sentence in range(tl.program_id(0), n_batch, tl.num_programs(0)):
        b = tl.cast(sentence, tl.int64)
        n = tl.load(lengths + b).to(tl.int32)
        arcs = arc_scores + b * n_nodes * n_nodes
        is_word = (m > 0) & (m <= n)
        best, source = _best_sources(arcs, n, n_nodes, SINGLE_ROOT, LANES)
        has_tree = tl.sum((is_word & (best == float("-inf"))).to(tl.int32), 0) == 0
        if has_tree & (n > 0):
            tl.store(best_scores + m, best)
            has_tree, source = _tree(
                arcs, n, n_nodes, source, rows, best_scores, path, SINGLE_ROOT, STRIDE, LANES
            )
        if SINGLE_ROOT:
            has_tree = has_tree & (tl.sum((is_word & (source == 0)).to(tl.int32), 0) <= 1)
        total = tl.full((), float("-inf"), tl.float64)
        if has_tree:
            # The best scores have served; the parts of the tree's score take their place.
            tl.debug_barrier()
            arc = tl.load(arcs + source * n_nodes + m, mask=is_word)
            tl.store(best_scores + m, arc, mask=is_word)
            tl.debug_barrier()
            total = add_in_order(best_scores, n)
        else:
            source = tl.full((LANES,), -1, tl.int32)
        tl.store(heads + b * n_nodes + m, tl.where(is_word, source, -1), mask=m < n_nodes)
        tl.store(scores + b, total)
        tl.debug_barrier()  # the next sentence overwrites the scratch


@triton.jit
def _best_sources(
    arcs: tl.tensor,
    n: tl.tensor,
    n_nodes: tl.tensor,
    SINGLE_ROOT: tl.constexpr,
    LANES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Best score into each word, and its source, the smallest; with a single root it comes last."""
    m = tl.arange(0, LANES)
    is_word = (m > 0) & (m <= n)
    from_root = tl.load(arcs + m, mask=is_word, other=float("-inf"))
    best = from_root
    if SINGLE_ROOT:
        best = tl.full((LANES,), float("-inf"), from_root.dtype)
    source = tl.zeros((LANES,), tl.int32)
    for h in tl.range(1, n + 1, loop_unroll_factor=4):
        is_arc = is_word & (m != h)
        score = tl.load(arcs + h * n_nodes + m, mask=is_arc, other=float("-inf"))
        source = tl.where(score > best, h, source)
        best = tl.where(score > best, score, best)
    return tl.where(best == float("-inf"), from_root, best), source


@triton.jit
def _tree(
    arcs: tl.tensor,
    n: tl.tensor,
    n_nodes: tl.tensor,
    source: tl.tensor,
    rows: tl.tensor,
    best_scores: tl.tensor,
    path: tl.tensor,
    SINGLE_ROOT: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Grow paths until all words are attached, then take the super-nodes apart.

    Returns: whether no super-node was left without a source; the heads of the words, by lane.
    """
    lane = tl.arange(0, LANES)
    place = tl.where((lane > 0) & (lane <= n), FREE, ATTACHED)
    parent = tl.full((LANES,), NO_PARENT, tl.int32)  # of words; of super-nodes:
    parent_above, source_above = parent, tl.zeros((LANES,), tl.int32)
    made = tl.full((), 0, tl.int32)
    # The first path begins at word 1.
    end = tl.full((), 1, tl.int32)
    place = tl.where(lane == 1, 0, place)
    tl.store(path, 1)
    u = _at(source, end)
    has_sources = n > 0
    is_growing = n > 0
    while is_growing:
        place_of_u = _at(place, u)
        if place_of_u == FREE:
            place = tl.where(lane == u, end, place)
            tl.store(path + end, u)
            end += 1
            u = _at(source, u)
        elif place_of_u == ATTACHED:
            place = tl.where(place >= 0, ATTACHED, place)
            word = tl.min(tl.where(place == FREE, lane, LANES), 0)
            place = tl.where(lane == word, 0, place)
            is_growing = word < LANES
            tl.store(path, word)
            end = tl.full((), 1, tl.int32)
            u = _at(source, word)
        else:
            tl.debug_barrier()  # path, best scores and rows are there
            row = tl.full((LANES,), float("-inf"), rows.dtype.element_ty)
            for p in range(place_of_u, end):
                k = tl.load(path + p)
                entering = _row(arcs, n, n_nodes, k, rows, STRIDE, LANES)
                row = tl.maximum(row, entering - tl.load(best_scores + k))
                parent = tl.where(lane == k, made, parent)
                parent_above = tl.where(lane == k - LANES, made, parent_above)
            tl.debug_barrier()  # path and rows have been read
            is_inside = place >= place_of_u
            row = tl.where(is_inside, float("-inf"), row)
            tl.store(rows + made * STRIDE + lane, row, mask=lane <= n)
            highest, u = _best_source(row, SINGLE_ROOT, LANES)
            tl.store(best_scores + LANES + made, highest)
            source_above = tl.where(lane == made, u, source_above)
            place = tl.where(is_inside, place_of_u, place)
            tl.store(path + place_of_u, LANES + made)
            end = place_of_u + 1
            made += 1
            has_sources = highest > float("-inf")
            is_growing = has_sources
    if has_sources & (made > 0):
        tl.debug_barrier()  # rows are there
        best = tl.load(best_scores + lane)
        best_above = tl.load(best_scores + LANES + lane, mask=lane < made, other=0)
        for younger in range(0, made):
            c = made - 1 - younger
            u = _at(source_above, c)
            is_member = parent == c
            value = tl.load(arcs + u * n_nodes + lane, mask=is_member, other=0)
            value = tl.where(is_member, value - best, float("-inf"))
            is_member = parent_above == c
            above = tl.load(rows + lane * STRIDE + u, mask=is_member, other=0)
            above = tl.where(is_member, above - best_above, float("-inf"))
            highest = tl.max(tl.maximum(value, above), 0)
            k = tl.where(above == highest, LANES + lane, 2 * LANES)
            k = tl.min(tl.where(value == highest, lane, k), 0)
            source = tl.where(lane == k, u, source)
            source_above = tl.where(lane == k - LANES, u, source_above)
    return has_sources, source


@triton.jit
def _at(numbers: tl.tensor, lane: tl.tensor) -> tl.tensor:
    """The number that stands in one lane; 0 if there is no such lane."""
    return tl.sum(tl.where(tl.arange(0, numbers.shape[0]) == lane, numbers, 0), 0)


@triton.jit
def _row(
    arcs: tl.tensor,
    n: tl.tensor,
    n_nodes: tl.tensor,
    k: tl.tensor,
    rows: tl.tensor,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> tl.tensor:
    """Best way into word or super-node k from each source; both loads are masked, not branched."""
    u = tl.arange(0, LANES)
    is_arc = (u <= n) & (u != k) & (k < LANES)
    of_word = tl.load(arcs + u * n_nodes + k, mask=is_arc, other=float("-inf"))
    is_made = (u <= n) & (k >= LANES)
    of_made = tl.load(rows + (k - LANES) * STRIDE + u, mask=is_made, other=float("-inf"))
    return tl.maximum(of_word, of_made)


@triton.jit
def _best_source(
    row: tl.tensor, SINGLE_ROOT: tl.constexpr, LANES: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Best score of a row and its source, the smallest; with a single root the root comes last."""
    u = tl.arange(0, LANES)
    if SINGLE_ROOT:
        from_word = tl.where(u > 0, row, float("-inf"))
        # Where no word is left as a source, only the root's score can be more than -inf.
        has_word = tl.max(from_word, 0) > float("-inf")
        row = tl.where(has_word, from_word, row)
    highest = tl.max(row, 0)
    return highest, tl.min(tl.where(row == highest, u, LANES), 0)
