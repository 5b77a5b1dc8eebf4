"""Third-order Eisner with tri-sibling parts in torch: all spans of one width at once."""

import torch
from torch import Tensor

from gpuparse.inference.batched.halves import Halves, Items, follow, spans_of_width
from gpuparse.inference.higher_order_scores import read_part_cells
from gpuparse.inference.scores import NO_HEAD, Scores, read_cells
from gpuparse.inference.tree_parts import part_tree_scores


def eisner_tri_sibling_torch(parts: Scores, *, single_root: bool) -> tuple[Tensor, Tensor, Tensor]:
    """`eisner_tri_sibling` on checked scores, all sentences and all spans of one width at once.

    Returns:
        As `eisner_tri_sibling`; a sentence without a tree gets the score -inf.
    """
    n_nodes, lengths = parts.arc.shape[1], parts.lengths
    whole, outermost = _whole_parts(parts), _outermost_parts(parts)
    end_scores = torch.zeros_like(parts.arc) if parts.end is None else parts.end
    ends = end_scores.where(read_cells(lengths, n_nodes), -torch.inf)
    halves = Halves(parts.arc)
    J = whole.new_full((*parts.arc.shape, n_nodes), -torch.inf)  # [b, h, m, s]
    outer = J.clone()  # [b, h, m, g]
    inner_of, sibling = torch.zeros((2, *J.shape), dtype=torch.int64, device=J.device)
    for w in range(1, n_nodes):
        halves.join(w)
        h, m, s = spans_of_width(n_nodes, w, J.device)
        # J(h,m,none) = C(m,h+1) + part(none)
        J[:, h, m, h] = halves.inside(h, m) + whole[:, h, m, h, h]
        # J(h,m,s) = max_t (J(h,s,t) + part(s,t)) + S(s,m)
        best, t = _best_sibling(J[:, h, s] + whole[:, h, m, s], h)
        J[:, h, m, s] = best + halves.between(h, m, s)
        inner_of[:, h, m, s] = t
        # I(h,m) = max_s J(h,m,s) + outermost(s)
        items = J[:, h, m][..., None] + outermost[:, h, m]
        best, sibling[:, h, m] = _best_sibling(items.transpose(2, 3), h[:, None])
        outer[:, h, m] = best + ends[:, h, m][..., None]
        halves.close(w, outer)
    of_root = whole[:, 0, :, 0, 0]
    best, root = halves.best(
        lengths, (of_root + outermost[:, 0, :, 0, 0]) + end_scores[:, 0] if single_root else None
    )

    def open_item(b: Tensor, g: Tensor, h: Tensor, m: Tensor) -> Items:
        return b, sibling[b, h, m, g], h, m

    def next_item(item: Items) -> tuple[Tensor, Items]:
        b, s, h, m = item
        return s, (b, inner_of[b, h, m, s], h, s)

    is_tree = (best > -torch.inf) | (lengths == 0)
    heads = follow(halves, lengths, root, is_tree, open_item, next_item)
    scores = part_tree_scores(parts, heads)
    return heads, torch.full_like(heads, NO_HEAD), scores.masked_fill(~is_tree, -torch.inf)


def _best_sibling(values: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """The highest of the last axis (.., N) and its place; among equals h comes first, for none."""
    none = h.expand(values.shape[:-1])[..., None]
    best, choice = values.max(-1)
    return best, torch.where(values.gather(-1, none)[..., 0] == best, none[..., 0], choice)


def _whole_parts(parts: Scores) -> Tensor:
    """(B, N, N, N, N): all scores of an arc with two inner siblings; -inf if no part."""
    whole = parts.arc[..., None]
    if parts.sibling is not None:
        whole = whole + parts.sibling
    whole = whole[..., None]
    if parts.tri_sibling is not None:
        whole = whole + parts.tri_sibling
    read = read_part_cells(parts.lengths, parts.arc.shape[1], "tri_sibling")
    return whole.where(read, -torch.inf)


def _outermost_parts(parts: Scores) -> Tensor:
    """(B, N, N, N, N): scores of outermost pairs, 0 if none were given; -inf if no part."""
    read = read_part_cells(parts.lengths, parts.arc.shape[1], "grand_sibling")
    scores = parts.arc.new_zeros(()) if parts.outermost is None else parts.outermost
    return scores.where(read, -torch.inf)
