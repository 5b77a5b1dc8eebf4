"""Eisner's algorithm in Triton, first order and sibling parts: one sentence per program.

All starts of one width are computed at once. The charts are stored by diagonal, `[width, plane,
start]`, so that every operand of every split is contiguous over `start`. One loop over the splits
of a width finds the best of all items that end there, in registers; the smallest best splits are
stored for the back-trace, which marks the spans of the tree from the widest to the narrowest. Split
0 of an incomplete span with siblings means that its arc has no inner sibling.
"""

import torch
import triton
import triton.language as tl

from gpuparse.inference.triton.launch import WARP, add_in_order, chart_scratch, new_trees, on_device

# Planes of the charts: numbers, in the type of the scores. With siblings there are also S and
# E: incomplete spans with the end of the modifiers on that side.
I_R, I_L, C_R, C_L = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
S, E_R, E_L = tl.constexpr(4), tl.constexpr(5), tl.constexpr(6)
# Planes of the splits, int16, and of the marks of the tree's spans beside them; the last three with
# siblings only.
SPLIT_S, SPLIT_R, SPLIT_L = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
USED_I, USED_R, USED_L = tl.constexpr(3), tl.constexpr(4), tl.constexpr(5)
SPLIT_I_R, SPLIT_I_L, USED_S = tl.constexpr(6), tl.constexpr(7), tl.constexpr(8)
# Marks of incomplete spans: where their arc leads; OUTERMOST more if its modifier is.
TO_RIGHT, TO_LEFT, OUTERMOST = tl.constexpr(1), tl.constexpr(2), tl.constexpr(4)
# By whether there are siblings: planes of the charts, of the splits, and parts of a tree's score to
# each word: arc, sibling, end.
PLANES, SPLIT_PLANES, PARTS = tl.constexpr((4, 7)), tl.constexpr((6, 9)), tl.constexpr((1, 3))


def eisner(
    arc_scores: torch.Tensor, lengths: torch.Tensor, *, single_root: bool, lanes: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner` on scores that are known to be usable; does not synchronise.

    Args: lanes: starts that a program computes at once; None: chosen by N.
    Returns:
        As `gpuparse.inference.eisner`; a sentence without a tree gets the score -inf and no heads.
    """
    return _search(arc_scores, None, None, lengths, single_root, lanes)


def eisner_sibling(
    arc_scores: torch.Tensor,
    sibling_scores: torch.Tensor,
    end_scores: torch.Tensor,
    lengths: torch.Tensor,
    *,
    single_root: bool,
    lanes: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner_sibling` on usable scores of one type; otherwise as `eisner`."""
    return _search(arc_scores, sibling_scores, end_scores, lengths, single_root, lanes)


def _search(
    arc_scores: torch.Tensor,
    sibling_scores: torch.Tensor | None,
    end_scores: torch.Tensor | None,
    lengths: torch.Tensor,
    single_root: bool,
    lanes: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel; siblings and ends are None in the first order."""
    heads, scores = new_trees(arc_scores)
    n_batch, n_nodes = heads.shape
    if n_batch == 0 or n_nodes <= 1:
        return heads, scores
    order = int(sibling_scores is not None)
    planes, split_planes, parts = (sizes.value[order] for sizes in (PLANES, SPLIT_PLANES, PARTS))
    scratch = chart_scratch(arc_scores, planes, split_planes, parts, lanes)
    arcs = arc_scores.contiguous()
    with on_device(arc_scores.device):
        eisner_kernel[(scratch.n_programs,)](
            arcs,
            arcs if sibling_scores is None else sibling_scores.contiguous(),
            arcs if end_scores is None else end_scores.contiguous(),
            lengths.contiguous(),
            heads,
            scores,
            scratch.charts,
            scratch.splits,
            n_batch,
            n_nodes,
            SIBLINGS=order,
            SINGLE_ROOT=single_root,
            STRIDE=scratch.stride,
            LANES=scratch.lanes,
            num_warps=max(1, scratch.lanes // WARP),
            num_stages=1,
        )
    return heads, scores


@triton.jit(do_not_specialize=["n_batch", "n_nodes"])
def eisner_kernel(
    arc_scores: tl.tensor,
    sibling_scores: tl.tensor,
    end_scores: tl.tensor,
    lengths: tl.tensor,
    heads: tl.tensor,
    scores: tl.tensor,
    charts: tl.tensor,
    splits: tl.tensor,
    n_batch: tl.tensor,
    n_nodes: tl.tensor,
    SIBLINGS: tl.constexpr,
    SINGLE_ROOT: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Best trees of the sentences program, program + programs, ...; arguments as in `_search`.

    charts: (programs, N x planes x STRIDE, and as many STRIDE as the tree's score has parts);
    splits: (programs, N x split planes x STRIDE). SIBLINGS: 0 or 1.
    """
    ROW: tl.constexpr = PLANES[SIBLINGS] * STRIDE  # from one width to the next
    SPLIT_ROW: tl.constexpr = SPLIT_PLANES[SIBLINGS] * STRIDE
    program = tl.program_id(0).to(tl.int64)
    charts += program * (n_nodes * ROW + PARTS[SIBLINGS] * STRIDE)
    splits += program * (n_nodes * SPLIT_ROW)
    parts = charts + n_nodes * ROW
    first: tl.constexpr = 1 if SINGLE_ROOT else 0
    for sentence in range(tl.program_id(0), n_batch, tl.num_programs(0)):
        b = tl.cast(sentence, tl.int64)
        n = tl.load(lengths + b).to(tl.int32)
        arcs = arc_scores + b * n_nodes * n_nodes
        siblings = sibling_scores + b * n_nodes * n_nodes * n_nodes
        ends = end_scores + b * n_nodes * n_nodes
        words = heads + b * n_nodes
        total = tl.zeros((), tl.float64)
        if n > 0:
            last = n - first
            _fill_charts(
                arcs, siblings, ends, n_nodes, last, charts, splits, first, SIBLINGS, STRIDE, LANES
            )
            if SINGLE_ROOT:
                best, root = _best_root(
                    arcs, siblings, ends, n_nodes, last, charts, SIBLINGS, STRIDE, LANES
                )
            else:
                best = tl.load(charts + last * ROW + C_R * STRIDE)
                root = 0
            if best > float("-inf"):
                if SINGLE_ROOT:
                    m = root + 1
                    tl.store(words + m, 0)
                    tl.store(parts + m, tl.load(arcs + m))
                    if SIBLINGS:
                        tl.store(parts + STRIDE + m, tl.load(siblings + m * n_nodes))
                        tl.store(parts + 2 * STRIDE + m, tl.load(ends + m))
                    tl.store(splits + root * SPLIT_ROW + USED_L * STRIDE, 1)
                tl.store(splits + (last - root) * SPLIT_ROW + USED_R * STRIDE + root, 1)
                tl.debug_barrier()
                _trace(
                    arcs,
                    siblings,
                    ends,
                    n_nodes,
                    last,
                    splits,
                    words,
                    parts,
                    first,
                    SIBLINGS,
                    STRIDE,
                    LANES,
                )
                total = add_in_order(parts, n, PARTS[SIBLINGS], STRIDE)
            else:
                total = best.to(tl.float64)
        tl.store(scores + b, total)
        tl.debug_barrier()  # the next sentence overwrites the scratch


@triton.jit
def _fill_charts(
    arcs: tl.tensor,
    siblings: tl.tensor,
    ends: tl.tensor,
    n_nodes: tl.tensor,
    last: tl.tensor,
    charts: tl.tensor,
    splits: tl.tensor,
    first: tl.constexpr,
    SIBLINGS: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """All maxima and splits of the spans over positions first .. first + last; marks at 0."""
    ROW: tl.constexpr = PLANES[SIBLINGS] * STRIDE  # from one width to the next
    SPLIT_ROW: tl.constexpr = SPLIT_PLANES[SIBLINGS] * STRIDE
    UNROLL: tl.constexpr = 2 if SIBLINGS else 4
    OUT_R: tl.constexpr = E_R if SIBLINGS else I_R  # spans of an outermost modifier
    OUT_L: tl.constexpr = E_L if SIBLINGS else I_L
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
            at_right, at_left = h * n_nodes + h + w, (h + w) * n_nodes + h
            to_right = tl.load(arcs + at_right, mask=is_span)
            # Nothing is a head of the root, and no cell says what that would score.
            is_left = is_span & (h > 0)
            to_left = tl.load(arcs + at_left, mask=is_left, other=float("-inf"))
            # S(i,j)   = max_{i<=r<j} C_R(i,r) + C_L(r+1,j);  r = k = i + d
            # C_R(i,j) = max_{i<r<=j} E_R(i,r) + C_R(r,j)
            # C_L(i,j) = max_{i<=r<j} C_L(i,r) + E_L(r,j)
            # of the first order
            # I_R(i,j) = E_R(i,j) = S(i,j) + arc(i,j)
            # I_L(i,j) = E_L(i,j) = S(i,j) + arc(j,i)
            # with siblings
            # I_R(i,j) = max(C_L(i+1,j) + sib(i,-,j),
            #                max_{i<k<j} I_R(i,k) + (S(k,j) + sib(i,k,j))) + arc(i,j)
            # I_L(i,j) = max(C_R(i,j-1) + sib(j,-,i),
            #                max_{i<k<j} (S(i,k) + sib(j,k,i)) + I_L(k,j)) + arc(j,i)
            # E_R(i,j) = I_R(i,j) + end(i,j)
            # E_L(i,j) = I_L(i,j) + end(j,i)
            # The loop leaves out d = 0, and C_R at d = w.
            left = charts + ROW + i  # width d, start i
            right = charts + (w - 1) * ROW + i + 1  # width w - d, start i + d
            best = tl.load(right + C_L * STRIDE, mask=is_span)
            best_R = tl.full((LANES,), float("-inf"), charts.dtype.element_ty)
            best_L = best_R
            split = tl.zeros((LANES,), tl.int32)
            split_R, split_L = split, split
            if SIBLINGS:
                of_right = siblings + at_right.to(tl.int64) * n_nodes + h
                of_left = siblings + at_left.to(tl.int64) * n_nodes + h
                i_r = best + tl.load(of_right, mask=is_span)
                i_l = tl.load(charts + (w - 1) * ROW + C_R * STRIDE + i, mask=is_span)
                i_l += tl.load(of_left + w, mask=is_left, other=float("-inf"))
                split_i_r, split_i_l = split, split
            for d in tl.range(1, w, loop_unroll_factor=UNROLL):
                x = tl.load(left + C_R * STRIDE, mask=is_span)
                x += tl.load(right + (C_L * STRIDE + 1 - ROW), mask=is_span)
                split = tl.where(x > best, d, split)
                best = tl.where(x > best, x, best)
                if SIBLINGS:
                    inner = tl.load(right + S * STRIDE, mask=is_span)
                    inner += tl.load(of_right + d, mask=is_span)
                    inner += tl.load(left + I_R * STRIDE, mask=is_span)
                    split_i_r = tl.where(inner > i_r, d, split_i_r)
                    i_r = tl.where(inner > i_r, inner, i_r)
                    inner = tl.load(left + S * STRIDE, mask=is_span)
                    inner += tl.load(of_left + d, mask=is_left, other=float("-inf"))
                    inner += tl.load(right + I_L * STRIDE, mask=is_span)
                    split_i_l = tl.where(inner > i_l, d, split_i_l)
                    i_l = tl.where(inner > i_l, inner, i_l)
                y = tl.load(left + OUT_R * STRIDE, mask=is_span)
                y += tl.load(right + C_R * STRIDE, mask=is_span)
                split_R = tl.where(y > best_R, d, split_R)
                best_R = tl.where(y > best_R, y, best_R)
                z = tl.load(left + C_L * STRIDE, mask=is_span)
                z += tl.load(right + OUT_L * STRIDE, mask=is_span)
                split_L = tl.where(z > best_L, d, split_L)
                best_L = tl.where(z > best_L, z, best_L)
                left += ROW
                right += 1 - ROW
            out = charts + w * ROW + i
            to_split = splits + w * SPLIT_ROW + i
            if SIBLINGS:
                i_r += to_right
                i_l += to_left
                e_r = i_r + tl.load(ends + at_right, mask=is_span)
                e_l = i_l + tl.load(ends + at_left, mask=is_left, other=float("-inf"))
                tl.store(out + S * STRIDE, best, mask=is_span)
                tl.store(out + E_R * STRIDE, e_r, mask=is_span)
                tl.store(out + E_L * STRIDE, e_l, mask=is_span)
                tl.store(to_split + SPLIT_I_R * STRIDE, split_i_r, mask=is_span)
                tl.store(to_split + SPLIT_I_L * STRIDE, split_i_l, mask=is_span)
                tl.store(to_split + USED_S * STRIDE, 0, mask=is_span)
            else:
                i_r, i_l = best + to_right, best + to_left
                e_r, e_l = i_r, i_l
            split_R = tl.where(e_r > best_R, w, split_R)
            split_L = tl.where(e_l >= best_L, 0, split_L)
            tl.store(out + I_R * STRIDE, i_r, mask=is_span)
            tl.store(out + I_L * STRIDE, i_l, mask=is_span)
            tl.store(out + C_R * STRIDE, tl.where(e_r > best_R, e_r, best_R), mask=is_span)
            tl.store(out + C_L * STRIDE, tl.where(e_l >= best_L, e_l, best_L), mask=is_span)
            tl.store(to_split + SPLIT_S * STRIDE, split, mask=is_span)
            tl.store(to_split + SPLIT_R * STRIDE, split_R, mask=is_span)
            tl.store(to_split + SPLIT_L * STRIDE, split_L, mask=is_span)
            tl.store(to_split + USED_I * STRIDE, 0, mask=is_span)
            tl.store(to_split + USED_R * STRIDE, 0, mask=is_span)
            tl.store(to_split + USED_L * STRIDE, 0, mask=is_span)
        tl.debug_barrier()


@triton.jit
def _best_root(
    arcs: tl.tensor,
    siblings: tl.tensor,
    ends: tl.tensor,
    n_nodes: tl.tensor,
    last: tl.tensor,
    charts: tl.tensor,
    SIBLINGS: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """max over m of C_L(1,m) + C_R(m,n) + the parts of the root: value, and m - 1, the smallest."""
    ROW: tl.constexpr = PLANES[SIBLINGS] * STRIDE
    best = tl.full((), float("-inf"), charts.dtype.element_ty)
    root = tl.full((), 0, tl.int32)
    for start in range(0, last + 1, LANES):
        m = start + tl.arange(0, LANES)
        is_word = m <= last
        value = tl.load(charts + C_L * STRIDE + m * ROW, mask=is_word, other=float("-inf"))
        value += tl.load(charts + C_R * STRIDE + (last - m) * ROW + m, mask=is_word, other=0)
        if SIBLINGS:
            of_root = tl.load(siblings + (m + 1) * n_nodes, mask=is_word, other=0)
            of_root += tl.load(ends + 1 + m, mask=is_word, other=0)
            value += of_root
        value += tl.load(arcs + 1 + m, mask=is_word, other=0)
        highest = tl.max(value, 0)
        if highest > best:
            best = highest
            root = tl.min(tl.where(value == highest, m, start + LANES), 0)
    return best, root


@triton.jit
def _trace(
    arcs: tl.tensor,
    siblings: tl.tensor,
    ends: tl.tensor,
    n_nodes: tl.tensor,
    last: tl.tensor,
    splits: tl.tensor,
    heads: tl.tensor,
    parts: tl.tensor,
    first: tl.constexpr,
    SIBLINGS: tl.constexpr,
    STRIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Heads and score parts of the words under the marked spans, by following the splits down.

    No span is marked twice, so no two threads write to one cell; those of width 0 are marked, and
    never looked at.
    """
    ROW: tl.constexpr = SPLIT_PLANES[SIBLINGS] * STRIDE
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
            split_S = tl.load(at + SPLIT_S * STRIDE, mask=is_span, other=0).to(tl.int32)
            # C_R(i,j) -> I_R(i,r), C_R(r,j);  C_L(i,j) -> C_L(i,r), I_L(r,j)
            d = split_R
            to_right = TO_RIGHT + OUTERMOST
            tl.store(splits + d * ROW + USED_I * STRIDE + i, to_right, mask=is_right)
            tl.store(splits + (w - d) * ROW + USED_R * STRIDE + i + d, 1, mask=is_right)
            arc = tl.where(is_right & (d == w), to_right, arc)  # of this width
            d = split_L
            to_left = TO_LEFT + OUTERMOST
            tl.store(splits + d * ROW + USED_L * STRIDE + i, 1, mask=is_left)
            tl.store(splits + (w - d) * ROW + USED_I * STRIDE + i + d, to_left, mask=is_left)
            arc = tl.where(is_left & (d == 0), to_left, arc)
            # The word, and its parts
            has_arc = arc != 0
            is_right = (arc & TO_RIGHT) != 0
            h = tl.where(is_right, i, i + w) + first
            m = tl.where(is_right, i + w, i) + first
            tl.store(heads + m, h, mask=has_arc)
            cell = h * n_nodes + m
            tl.store(parts + m, tl.load(arcs + cell, mask=has_arc), mask=has_arc)
            is_pair = has_arc
            if SIBLINGS:
                is_pair = tl.load(at + USED_S * STRIDE, mask=is_span, other=0) != 0
                split_i_r = tl.load(at + SPLIT_I_R * STRIDE, mask=is_span, other=0).to(tl.int32)
                split_i_l = tl.load(at + SPLIT_I_L * STRIDE, mask=is_span, other=0).to(tl.int32)
                # I_R(i,j) -> C_L(i+1,j), or I_R(i,k), S(k,j)
                d = split_i_r
                is_inner = is_right & (d > 0)
                none = splits + (w - 1) * ROW + i  # width w - 1, start i
                tl.store(none + USED_L * STRIDE + 1, 1, mask=is_right & (d == 0))
                tl.store(splits + d * ROW + USED_I * STRIDE + i, TO_RIGHT, mask=is_inner)
                tl.store(splits + (w - d) * ROW + USED_S * STRIDE + i + d, 1, mask=is_inner)
                # I_L(i,j) -> C_R(i,j-1), or S(i,k), I_L(k,j)
                is_left = (arc & TO_LEFT) != 0
                d = split_i_l
                is_inner = is_left & (d > 0)
                tl.store(none + USED_R * STRIDE, 1, mask=is_left & (d == 0))
                tl.store(splits + d * ROW + USED_S * STRIDE + i, 1, mask=is_inner)
                tl.store(splits + (w - d) * ROW + USED_I * STRIDE + i + d, TO_LEFT, mask=is_inner)
                d = tl.where(is_right, split_i_r, split_i_l)
                s = tl.where(d == 0, h, i + d + first)
                sibling = tl.load(siblings + cell.to(tl.int64) * n_nodes + s, mask=has_arc)
                tl.store(parts + STRIDE + m, sibling, mask=has_arc)
                end = tl.load(ends + cell, mask=has_arc & ((arc & OUTERMOST) != 0), other=0)
                tl.store(parts + 2 * STRIDE + m, end, mask=has_arc)
            # S(i,j), or an arc of the first order -> C_R(i,r), C_L(r+1,j)
            d = split_S
            tl.store(splits + d * ROW + USED_R * STRIDE + i, 1, mask=is_pair)
            tl.store(splits + (w - 1 - d) * ROW + USED_L * STRIDE + i + d + 1, 1, mask=is_pair)
        tl.debug_barrier()
