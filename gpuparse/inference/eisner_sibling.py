"""Eisner with sibling parts: the public function, and the batched form in torch for any device."""

from collections.abc import Callable

import torch
from torch import Tensor

from gpuparse.inference import native_charts
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.eisner import Trace, best_root, staircase
from gpuparse.inference.scores import (
    check_sibling_scores,
    require_trees,
    sibling_tree_scores,
)
from gpuparse.tensors import NO_HEAD


def eisner_sibling(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Tensor,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence of a batch, under scores of arcs and siblings.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Integers are computed with as float64.
        sibling_scores: (B, N, N, N), [b, h, m, s]: s is the modifier of h just inside m on the same
            side; s == h: there is none. Only h < s < m, m < s < h and s == h are read.
        lengths: words of each sentence, int (B,), 0..N-1.
        end_scores: (B, N, N), [b, h, m]: m is the outermost modifier of h on its side, read like
            arc_scores; None: zeros. A side without modifiers scores 0.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch", "cpu" (compiled) or "gpu" (Triton kernels); all give the same
            trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum of arc, sibling
        and end score of each word, added one by one in the order of the words. Ties and the order
        of additions in the charts: as `gpuparse.charts.eisner_sibling` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: O(n^3) time; compiled, O(n^2) memory a sentence beside the scores.
    Source: McDonald & Pereira 2006, sections 2.1 and 2.2 and figure 3 (Eisner 1996); single root:
    Carreras 2007, section 2.1; differs: arc scores are kept apart and added, and a modifier may
    have a score for being the last one.
    """
    search = _search_of(choose_backend(backend, arc_scores.device, has_kernels=True))
    checked = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    heads, scores = search(*checked, single_root=single_root)
    require_trees(scores)
    return heads, scores


def _search_of(backend: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The form of the search on checked scores."""
    if backend == "gpu":
        from gpuparse.inference.kernels.gpu import eisner_sibling as kernels  # imports Triton

        return kernels.eisner_sibling
    return native_charts.find_best if backend == "cpu" else eisner_sibling_torch


def eisner_sibling_torch(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    end_scores: Tensor,
    lengths: Tensor,
    *,
    single_root: bool,
) -> tuple[Tensor, Tensor]:
    """`eisner_sibling` on checked scores, all sentences and all starts of one width at once.

    Charts are stored as those of `eisner_torch`. Split 0 of an incomplete span means that the arc
    has no inner sibling.

    Returns:
        As `eisner_sibling`; a sentence without a tree gets the score -inf.
    """
    if arc_scores.numel() == 0 or arc_scores.shape[1] == 1:  # no word at all
        no_heads = torch.full_like(arc_scores[:, 0], NO_HEAD, dtype=torch.int64)
        return no_heads, arc_scores.new_zeros(len(arc_scores))
    first = 1 if single_root else 0
    n_batch, n_nodes = arc_scores.shape[0], arc_scores.shape[1] - first
    arcs, siblings = arc_scores[:, first:, first:], sibling_scores[:, first:, first:, first:]
    ends = end_scores[:, first:, first:]
    shape = (n_batch, n_nodes + 1, n_nodes)
    # E: incomplete spans with the end of the modifiers on that side
    I_R, E_R, C_R, C_L, S = arc_scores.new_zeros((5, *shape))
    I_L_flipped, E_L_flipped, C_R_flipped, C_L_flipped, S_flipped = arc_scores.new_zeros(
        (5, *shape)
    )
    split_S, split_I_R, split_I_L, split_R, split_L = [], [], [], [], []
    for w in range(1, n_nodes):
        starts = slice(0, n_nodes - w)
        up = n_nodes - w
        to_right, to_left = _sibling_parts(siblings, w)
        # S(i,j) = max_{i<=r<j} C_R(i,r) + C_L(r+1,j)
        best, split = (C_R[:, :w, starts] + staircase(C_L_flipped, w, 1)).max(1)
        split_S.append(split)
        S[:, w, starts] = S_flipped[:, up, starts] = best
        # I_R(i,j) = max(C_L(i+1,j) + sib(i,-,j),
        #                max_{i<k<j} I_R(i,k) + (S(k,j) + sib(i,k,j))) + arc(i,j)
        none = C_L[:, w - 1, 1 : n_nodes - w + 1] + to_right[:, 0]
        inner = I_R[:, 1:w, starts] + (staircase(S_flipped, w, 0)[:, 1:] + to_right[:, 1:])
        best, split = torch.cat([none[:, None], inner], 1).max(1)
        split_I_R.append(split)
        I_R[:, w, starts] = best + arcs.diagonal(w, 1, 2)
        E_R[:, w, starts] = I_R[:, w, starts] + ends.diagonal(w, 1, 2)
        # I_L(i,j) = max(C_R(i,j-1) + sib(j,-,i),
        #                max_{i<k<j} (S(i,k) + sib(j,k,i)) + I_L(k,j)) + arc(j,i)
        none = C_R[:, w - 1, starts] + to_left[:, 0]
        inner = (S[:, 1:w, starts] + to_left[:, 1:]) + staircase(I_L_flipped, w, 0)[:, 1:]
        best, split = torch.cat([none[:, None], inner], 1).max(1)
        split_I_L.append(split)
        I_L_flipped[:, up, starts] = best + arcs.diagonal(-w, 1, 2)
        E_L_flipped[:, up, starts] = I_L_flipped[:, up, starts] + ends.diagonal(-w, 1, 2)
        # C_R(i,j) = max_{i<r<=j} I_R(i,r) + end(i,r) + C_R(r,j)
        best, split = (E_R[:, 1 : w + 1, starts] + staircase(C_R_flipped, w, 1)).max(1)
        split_R.append(split + 1)
        C_R[:, w, starts] = C_R_flipped[:, up, starts] = best
        # C_L(i,j) = max_{i<=r<j} C_L(i,r) + I_L(r,j) + end(j,r)
        best, split = (C_L[:, :w, starts] + staircase(E_L_flipped, w, 0)).max(1)
        split_L.append(split)
        C_L[:, w, starts] = C_L_flipped[:, up, starts] = best
    trace = Trace(n_batch, n_nodes, arc_scores.device)
    if single_root:
        of_root = sibling_scores[:, 0, 1:, 0] + end_scores[:, 0, 1:], arc_scores[:, 0, 1:]
        best, root = best_root(lengths, C_L, C_R, *of_root)
        trace.mark(trace.left, root, 0)
        trace.mark(trace.right, lengths - 1 - root, root)
    else:
        best = C_R[:, :, 0].gather(1, lengths[:, None])[:, 0]
        trace.mark(trace.right, lengths, 0)
    heads = _follow(trace, (split_S, split_I_R, split_I_L, split_R, split_L), first)
    if single_root:
        word = torch.arange(n_nodes + 1, device=heads.device)
        heads = torch.where(word == root[:, None] + 1, 0, heads)
    heads = heads.masked_fill((best == -torch.inf)[:, None] | (lengths == 0)[:, None], NO_HEAD)
    scores = sibling_tree_scores(arc_scores, sibling_scores, end_scores, heads, lengths)
    return heads, scores.masked_fill((best == -torch.inf) & (lengths > 0), -torch.inf)


def _sibling_parts(siblings: Tensor, w: int) -> tuple[Tensor, Tensor]:
    """Sibling scores of all arcs of width w as (B, w, starts), to the right and to the left.

    At d = 0 without a sibling, else with the sibling k = i + d.
    """
    by_batch, by_head, by_modifier, by_sibling = siblings.stride()
    n_batch, n_nodes = siblings.shape[:2]
    diagonal = by_head + by_modifier + by_sibling
    start, shape = siblings.storage_offset(), (n_batch, w + 1, n_nodes - w)
    strides = (by_batch, by_sibling, diagonal)
    to_right = siblings.as_strided(shape, strides, start + w * by_modifier)
    to_left = siblings.as_strided(shape, strides, start + w * by_head)
    return to_right[:, :w], torch.cat([to_left[:, w:], to_left[:, 1:w]], 1)


def _follow(trace: Trace, splits: tuple[list[Tensor], ...], first: int) -> Tensor:
    """Heads (B, N) of all spans marked in the trace, by following the splits down."""
    siblings = torch.zeros_like(trace.right)
    heads = trace.no_heads(first)
    for w in range(trace.n_nodes - 1, 0, -1):
        split_S, split_I_R, split_I_L, split_R, split_L = (split[w - 1] for split in splits)
        trace.split_complete(w, split_R, split_L)
        trace.write_heads(w, heads, first)
        start = trace.start[: trace.n_nodes - w]
        # I_R(i,j) -> C_L(i+1,j), or I_R(i,k), S(k,j)
        used, d = trace.cells(trace.arc_right, w), split_I_R
        trace.spread(used & (d == 0), w - 1, start + 1, trace.left)
        trace.spread(used & (d > 0), d, start, trace.arc_right)
        trace.spread(used & (d > 0), w - d, start + d, siblings)
        # I_L(i,j) -> C_R(i,j-1), or S(i,k), I_L(k,j)
        used, d = trace.cells(trace.arc_left, w), split_I_L
        trace.spread(used & (d == 0), w - 1, start, trace.right)
        trace.spread(used & (d > 0), d, start, siblings)
        trace.spread(used & (d > 0), w - d, start + d, trace.arc_left)
        # S(i,j) -> C_R(i,r), C_L(r+1,j)
        trace.split_halves(w, trace.cells(siblings, w), split_S)
    return heads
