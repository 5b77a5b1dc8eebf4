"""Third-order Eisner with grand-sibling parts in torch: all spans of one width at once."""

import torch
from torch import Tensor

from gpuparse.inference.batched.halves import Halves, Items, follow, spans_of_width
from gpuparse.inference.higher_order_scores import read_part_cells
from gpuparse.inference.scores import NO_HEAD, Scores, read_cells
from gpuparse.inference.tree_parts import part_tree_scores


def eisner_grand_sibling_torch(
    parts: Scores, *, single_root: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """`eisner_grand_sibling` on checked scores, all sentences and all spans of one width at once.

    Returns:
        As `eisner_grand_sibling`; a sentence without a tree gets the score -inf.
    """
    n_nodes, lengths = parts.arc.shape[1], parts.lengths
    whole = _whole_parts(parts)
    end_scores = torch.zeros_like(parts.arc) if parts.end is None else parts.end
    ends = end_scores.where(read_cells(lengths, n_nodes), -torch.inf)
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
    of_root = whole[:, 0, :, 0, 0]
    best, root = halves.best(lengths, of_root + end_scores[:, 0] if single_root else None)

    def open_item(b: Tensor, g: Tensor, h: Tensor, m: Tensor) -> Items:
        return b, g, h, m

    def next_item(item: Items) -> tuple[Tensor, Items]:
        b, g, h, m = item
        s = sibling[b, h, m, g]
        return s, (b, g, h, s)

    is_tree = (best > -torch.inf) | (lengths == 0)
    heads = follow(halves, lengths, root, is_tree, open_item, next_item)
    scores = part_tree_scores(parts, heads)
    return heads, torch.full_like(heads, NO_HEAD), scores.masked_fill(~is_tree, -torch.inf)


def _whole_parts(parts: Scores) -> Tensor:
    """(B, N, N, N, N): all scores of an arc with its sibling and grandparent; -inf if no part."""
    whole = parts.arc[..., None]
    if parts.sibling is not None:
        whole = whole + parts.sibling
    whole = whole[..., None]
    if parts.grandparent is not None:
        whole = whole + parts.grandparent[:, :, :, None]
    if parts.grand_sibling is not None:
        whole = whole + parts.grand_sibling
    read = read_part_cells(parts.lengths, parts.arc.shape[1], "grand_sibling")
    return whole.where(read, -torch.inf)
