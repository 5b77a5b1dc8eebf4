"""First-order Eisner in Triton: one sentence a program, all starts of one width at once.

The charts are stored by diagonal, `[width, plane, start]`, so that every operand of every split is
contiguous over `start`. One loop over the splits of a width finds the best of all items that end
there, in registers; the smallest best splits are stored for the back-trace, which marks the spans
of the tree from the widest to the narrowest.
"""

import torch
import triton
import triton.language as tl

from gpuparse.inference.triton.launch import (
    add_in_order,
    chart_scratch,
    new_trees,
    on_device,
)

# Planes of the charts: numbers, in the type of the scores.
I_R, I_L, C_R, C_L = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
PLANES = tl.constexpr(4)
# Planes of the splits, int16, and of the marks of the tree's spans beside them.
SPLIT_I, SPLIT_R, SPLIT_L = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
USED_I, USED_R, USED_L = tl.constexpr(3), tl.constexpr(4), tl.constexpr(5)
SPLIT_PLANES = tl.constexpr(6)
TO_RIGHT, TO_LEFT = tl.constexpr(1), tl.constexpr(2)  # marks of incomplete spans: their arc

LANES_A_WARP = 32


def eisner(
    arc_scores: torch.Tensor,
    lengths: torch.Tensor,
    *,
    single_root: bool,
    lanes: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner` on scores that are known to be usable; does not synchronise.

    Args:
        lanes: starts that a program computes at once; None: chosen by N.

    Returns:
        As `gpuparse.inference.eisner`; a sentence without a tree gets the score -inf and no heads.
    """
    heads, scores = new_trees(arc_scores)
    n_batch, n_nodes = heads.shape
    if n_batch == 0 or n_nodes <= 1:
        return heads, scores
    scratch = chart_scratch(arc_scores, PLANES.value, SPLIT_PLANES.value, 1, lanes)
    with on_device(arc_scores.device):
        eisner_kernel[(scratch.n_programs,)](
            arc_scores.contiguous(),
            lengths.contiguous(),
            heads,
            scores,
            scratch.charts,
            scratch.splits,
            n_batch,
            n_nodes,
            SINGLE_ROOT=single_root,
            STRIDE=scratch.stride,
            LANES=scratch.lanes,
            num_warps=max(1, scratch.lanes // LANES_A_WARP),
            num_stages=1,
        )
    return heads, scores


@triton.jit(do_not_specialize=["n_batch", "n_nodes"])
def eisner_kernel(
    arc_scores: tl.tensor,
    lengths: tl.tensor,
    heads: tl.tensor,
    scores: tl.tensor,
    charts: tl.tensor,
    splits: tl.tensor,
    n_batch: tl.tensor,
    n_nodes: tl.tensor,
    SINGLE_ROOT: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Best trees of the sentences program, program + programs, ...; arguments as in `eisner`.

    charts: (programs, N x PLANES x STRIDE, and STRIDE for the parts of the tree's score);
    splits: (programs, N x SPLIT_PLANES x STRIDE).
    """
    program = tl.program_id(0).to(tl.int64)
    charts += program * ((n_nodes * PLANES + 1) * STRIDE)
    splits += program * (n_nodes * SPLIT_PLANES * STRIDE)
    parts = charts + n_nodes * PLANES * STRIDE
    first: tl.constexpr = 1 if SINGLE_ROOT else 0
    for sentence in range(tl.program_id(0), n_batch, tl.num_programs(0)):
        b = tl.cast(sentence, tl.int64)
        n = tl.load(lengths + b).to(tl.int32)
        arcs = arc_scores + b * n_nodes * n_nodes
        words = heads + b * n_nodes
        total = tl.zeros((), charts.dtype.element_ty)
        if n > 0:
            last = n - first
            _fill_charts(arcs, n_nodes, last, charts, splits, first, STRIDE, LANES)
            if SINGLE_ROOT:
                best, root = _best_root(arcs, last, charts, STRIDE, LANES)
            else:
                best = tl.load(charts + (last * PLANES + C_R) * STRIDE)
                root = 0
            if best > float("-inf"):
                if SINGLE_ROOT:
                    tl.store(words + root + 1, 0)
                    tl.store(parts + root + 1, tl.load(arcs + root + 1))
                    tl.store(splits + (root * SPLIT_PLANES + USED_L) * STRIDE, 1)
                right = last - root
                tl.store(splits + (right * SPLIT_PLANES + USED_R) * STRIDE + root, 1)
                tl.debug_barrier()
                _trace(arcs, n_nodes, last, splits, words, parts, first, STRIDE, LANES)
                total = add_in_order(parts, n)
            else:
                total = best
        tl.store(scores + b, total)
        tl.debug_barrier()  # the next sentence overwrites the scratch


@triton.jit
def _fill_charts(
    arcs: tl.tensor,
    n_nodes: tl.tensor,
    last: tl.tensor,
    charts: tl.tensor,
    splits: tl.tensor,
    first: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """All maxima and splits of the spans over positions first .. first + last; marks at 0."""
    ROW: tl.constexpr = PLANES * STRIDE  # from one width to the next
    for start in range(0, last + 1, LANES):
        i = start + tl.arange(0, LANES)
        zero = tl.zeros((LANES,), charts.dtype.element_ty)
        tl.store(charts + C_R * STRIDE + i, zero, mask=i <= last)
        tl.store(charts + C_L * STRIDE + i, zero, mask=i <= last)
    tl.debug_barrier()
    for w in range(1, last + 1):
        for start in range(0, last + 1 - w, LANES):
            i = start + tl.arange(0, LANES)
            is_span = i <= last - w
            h = i + first
            to_right = tl.load(arcs + h * n_nodes + h + w, mask=is_span)
            # Nothing is a head of the root, and no cell says what that would score.
            to_left = tl.load(
                arcs + (h + w) * n_nodes + h, mask=is_span & (h > 0), other=float("-inf")
            )
            # S(i,j)   = max_{i<=r<j} C_R(i,r) + C_L(r+1,j);  r = i + d
            # C_R(i,j) = max_{i<r<=j} I_R(i,r) + C_R(r,j)
            # C_L(i,j) = max_{i<=r<j} C_L(i,r) + I_L(r,j)
            # The loop leaves out S at d = 0, C_R at d = w and C_L at d = 0.
            left = charts + ROW + i  # width d, start i
            right = charts + (w - 1) * ROW + i + 1  # width w - d, start i + d
            best = tl.load(right + C_L * STRIDE, mask=is_span)
            best_R = tl.full((LANES,), float("-inf"), charts.dtype.element_ty)
            best_L = best_R
            split = tl.zeros((LANES,), tl.int32)
            split_R, split_L = split, split
            for d in tl.range(1, w, loop_unroll_factor=4):
                x = tl.load(left + C_R * STRIDE, mask=is_span)
                x += tl.load(right + (C_L * STRIDE + 1 - ROW), mask=is_span)
                y = tl.load(left + I_R * STRIDE, mask=is_span)
                y += tl.load(right + C_R * STRIDE, mask=is_span)
                z = tl.load(left + C_L * STRIDE, mask=is_span)
                z += tl.load(right + I_L * STRIDE, mask=is_span)
                split = tl.where(x > best, d, split)
                best = tl.where(x > best, x, best)
                split_R = tl.where(y > best_R, d, split_R)
                best_R = tl.where(y > best_R, y, best_R)
                split_L = tl.where(z > best_L, d, split_L)
                best_L = tl.where(z > best_L, z, best_L)
                left += ROW
                right += 1 - ROW
            i_r, i_l = best + to_right, best + to_left
            split_R = tl.where(i_r > best_R, w, split_R)
            split_L = tl.where(i_l >= best_L, 0, split_L)
            out = charts + w * ROW + i
            tl.store(out + I_R * STRIDE, i_r, mask=is_span)
            tl.store(out + I_L * STRIDE, i_l, mask=is_span)
            tl.store(out + C_R * STRIDE, tl.where(i_r > best_R, i_r, best_R), mask=is_span)
            tl.store(out + C_L * STRIDE, tl.where(i_l >= best_L, i_l, best_L), mask=is_span)
            out = splits + w * (SPLIT_PLANES * STRIDE) + i
            tl.store(out + SPLIT_I * STRIDE, split, mask=is_span)
            tl.store(out + SPLIT_R * STRIDE, split_R, mask=is_span)
            tl.store(out + SPLIT_L * STRIDE, split_L, mask=is_span)
            tl.store(out + USED_I * STRIDE, 0, mask=is_span)
            tl.store(out + USED_R * STRIDE, 0, mask=is_span)
            tl.store(out + USED_L * STRIDE, 0, mask=is_span)
        tl.debug_barrier()


@triton.jit
def _best_root(
    arcs: tl.tensor,
    last: tl.tensor,
    charts: tl.tensor,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """max over m of C_L(1,m) + C_R(m,n) + arc(0,m): value, and m - 1, the smallest."""
    ROW: tl.constexpr = PLANES * STRIDE
    best = tl.full((), float("-inf"), charts.dtype.element_ty)
    root = tl.full((), 0, tl.int32)
    for start in range(0, last + 1, LANES):
        m = start + tl.arange(0, LANES)
        is_word = m <= last
        value = tl.load(charts + C_L * STRIDE + m * ROW, mask=is_word, other=float("-inf"))
        value += tl.load(charts + C_R * STRIDE + (last - m) * ROW + m, mask=is_word, other=0)
        value += tl.load(arcs + 1 + m, mask=is_word, other=0)
        highest = tl.max(value, 0)
        if highest > best:
            best = highest
            root = tl.min(tl.where(value == highest, m, start + LANES), 0)
    return best, root


@triton.jit
def _trace(
    arcs: tl.tensor,
    n_nodes: tl.tensor,
    last: tl.tensor,
    splits: tl.tensor,
    heads: tl.tensor,
    parts: tl.tensor,
    first: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Heads and arc scores of the words under the marked spans, by following the splits down.

    No span is marked twice, so no two threads write to one cell; those of width 0 are marked, and
    never looked at.
    """
    ROW: tl.constexpr = SPLIT_PLANES * STRIDE
    for narrower in range(0, last):
        w = last - narrower
        for start in range(0, last + 1 - w, LANES):
            i = start + tl.arange(0, LANES)
            is_span = i <= last - w
            at = splits + w * ROW + i
            is_right = tl.load(at + USED_R * STRIDE, mask=is_span, other=0) != 0
            is_left = tl.load(at + USED_L * STRIDE, mask=is_span, other=0) != 0
            arc = tl.load(at + USED_I * STRIDE, mask=is_span, other=0).to(tl.int32)
            split_R = tl.load(at + SPLIT_R * STRIDE, mask=is_span, other=0).to(tl.int32)
            split_L = tl.load(at + SPLIT_L * STRIDE, mask=is_span, other=0).to(tl.int32)
            split = tl.load(at + SPLIT_I * STRIDE, mask=is_span, other=0).to(tl.int32)
            # C_R(i,j) -> I_R(i,r), C_R(r,j);  C_L(i,j) -> C_L(i,r), I_L(r,j)
            d = split_R
            tl.store(splits + d * ROW + USED_I * STRIDE + i, TO_RIGHT, mask=is_right)
            tl.store(splits + (w - d) * ROW + USED_R * STRIDE + i + d, 1, mask=is_right)
            arc = tl.where(is_right & (d == w), TO_RIGHT, arc)  # of this width
            d = split_L
            tl.store(splits + d * ROW + USED_L * STRIDE + i, 1, mask=is_left)
            tl.store(splits + (w - d) * ROW + USED_I * STRIDE + i + d, TO_LEFT, mask=is_left)
            arc = tl.where(is_left & (d == 0), TO_LEFT, arc)
            # I(i,j) -> C_R(i,r), C_L(r+1,j)
            has_arc = arc != 0
            h = tl.where(arc == TO_RIGHT, i, i + w) + first
            m = tl.where(arc == TO_RIGHT, i + w, i) + first
            tl.store(heads + m, h, mask=has_arc)
            tl.store(parts + m, tl.load(arcs + h * n_nodes + m, mask=has_arc), mask=has_arc)
            d = split
            tl.store(splits + d * ROW + USED_R * STRIDE + i, 1, mask=has_arc)
            tl.store(splits + (w - 1 - d) * ROW + USED_L * STRIDE + i + d + 1, 1, mask=has_arc)
        tl.debug_barrier()
