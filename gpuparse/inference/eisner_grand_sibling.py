"""Third-order Eisner with grand-sibling parts: the public function, and the batched torch form."""

import torch
from torch import Tensor

from gpuparse.inference.backends import choose_backend
from gpuparse.inference.higher_order_scores import (
    GRAND_SIBLING,
    Parts,
    check_parts,
    parts_of_trees,
    read_part_cells,
)
from gpuparse.inference.native_projective import search_projective
from gpuparse.inference.scores import read_cells, require_trees
from gpuparse.inference.third_order_charts import Halves, Items, follow, spans_of_width


def eisner_grand_sibling(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence under parts of a head, its head and two modifiers.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids, here as in all scores,
            and forbidden arcs cost no time. Column 0, the diagonal and padding are never read.
            Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1.
        sibling_scores: (B, N, N, N), [b, h, m, s]: s is the modifier of h just inside m on the same
            side; s == h: there is none. Only h < s < m, m < s < h and s == h are read.
        grandparent_scores: (B, N, N, N), [b, h, m, g]: g is the head of h. Only g outside the span
            of h and m is read, and for h == 0 only g == 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g], read where both are.
        end_scores: (B, N, N), [b, h, m]: m is the outermost modifier of h on its side. A side
            without modifiers scores 0. None, of these and the three before: zeros.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch" or "cpu" (compiled); both give the same trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum over words 1..n of
        ((arc + sibling) + grandparent) + grand-sibling score, and then the end's, one by one. Ties
        and the order of additions in the charts: as `reference_third_order` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: O(n^4) time; compiled, O(n^3) memory a sentence, and O(n^4) for the parts; with k heads a
    word left, and as many modifiers, O(n k^3 + n^2 k^2).
    Source: Koo & Collins 2010, Model 1; single root: Carreras 2007, section 2.1;
    differs: arcs, siblings and grandparents have scores of their own, an outermost modifier too.
    """
    chosen = choose_backend(backend, arc_scores.device)
    parts = check_parts(
        arc_scores,
        lengths,
        sibling_scores=sibling_scores,
        grandparent_scores=grandparent_scores,
        grand_sibling_scores=grand_sibling_scores,
        end_scores=end_scores,
    )
    if chosen == "cpu":
        heads, scores = search_projective(
            "eisner_grand_sibling_batch", parts, single_root=single_root
        )
    else:
        heads, scores = eisner_grand_sibling_torch(parts, single_root=single_root)
    require_trees(scores)
    return heads, scores


def eisner_grand_sibling_torch(parts: Parts, *, single_root: bool) -> tuple[Tensor, Tensor]:
    """`eisner_grand_sibling` on checked scores, all sentences and all spans of one width at once.

    Returns:
        As `eisner_grand_sibling`; a sentence without a tree gets the score -inf.
    """
    n_nodes, lengths = parts.arc.shape[1], parts.lengths
    whole = _whole_parts(parts)
    ends = parts.end.where(read_cells(lengths, n_nodes), -torch.inf)
    halves = Halves(parts.arc)
    rows = whole.new_full((*parts.arc.shape, n_nodes), -torch.inf)  # [b, h, m, g]
    outer = rows.clone()
    sibling = torch.zeros(rows.shape, dtype=torch.int64, device=rows.device)
    for w in range(1, n_nodes):
        halves.join(w)
        h, m, s = spans_of_width(n_nodes, w, rows.device)
        # I(h,m) = max(C(m,h+1) + part(none), max_s I(h,s) + (S(s,m) + part(s)))
        none = halves.inside(h, m)[..., None] + whole[:, h, m, h]
        inner = rows[:, h, s] + (halves.between(h, m, s)[..., None] + whole[:, h, m, s])
        best, choice = torch.cat([none[:, None], inner], 1).max(1)
        rows[:, h, m] = best
        sibling[:, h, m] = torch.where(
            choice == 0, h[:, None], torch.minimum(h, m)[:, None] + choice
        )
        outer[:, h, m] = best + ends[:, h, m][..., None]
        halves.close(w, outer)
    position = torch.arange(n_nodes, device=rows.device)
    of_root = whole[:, 0, :, 0, 0]
    best, root = halves.best(lengths, of_root + parts.end[:, 0] if single_root else None)

    def open_item(b: Tensor, g: Tensor, h: Tensor, m: Tensor) -> Items:
        return b, g, h, m

    def next_item(item: Items) -> tuple[Tensor, Items]:
        b, g, h, m = item
        s = sibling[b, h, m, g]
        return s, (b, g, h, s)

    is_tree = (best > -torch.inf) | (lengths == 0)
    heads = follow(halves, lengths, root, is_tree, open_item, next_item)
    h, s, _, g, is_outermost = parts_of_trees(heads)
    b = torch.arange(len(heads), device=heads.device)[:, None]
    last = parts.end[b, h, position].where(is_outermost, 0.0)
    total = parts.arc.new_zeros(len(heads))
    for part, end, has_head in zip(
        whole[b, h, position, s, g].unbind(1), last.unbind(1), (heads >= 0).unbind(1), strict=True
    ):
        total = torch.where(has_head, (total + part) + end, total)
    return heads, total.masked_fill(~is_tree, -torch.inf)


def _whole_parts(parts: Parts) -> Tensor:
    """(B, N, N, N, N): all scores of an arc with its sibling and grandparent; -inf if no part."""
    whole = (parts.arc[..., None] + parts.sibling)[..., None]
    if parts.grandparent is not None:
        whole = whole + parts.grandparent[:, :, :, None]
    if parts.grand_sibling is not None:
        whole = whole + parts.grand_sibling
    read = read_part_cells(parts.lengths, parts.arc.shape[1], GRAND_SIBLING)
    return whole.where(read, -torch.inf)
