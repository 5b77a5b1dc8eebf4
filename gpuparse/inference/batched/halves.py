"""What both third-order searches have in common in their torch forms: halves, and the way back.

C[b, g, h, e] is the best half of h up to e while g is the head of h; S[b, h, i, j] the best pair of
halves between the modifiers i < j of h. Cells of g, h and e that no tree has are -inf or never
read. All spans of one width are filled at once: h and e (K,) are their two ends, once with the left
and once with the right one as the head.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gpuparse.inference.scores import NO_HEAD

Items = tuple[Tensor, ...]
"""Index vectors: sentence, one or more nodes that name an item, of which the last two are h, m."""


def spans_of_width(n_nodes: int, w: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Head, modifier (K,) and the nodes between them, ascending, (w - 1, K)."""
    i = torch.arange(n_nodes - w, device=device)
    d = torch.arange(1, w, device=device)[:, None]
    return torch.cat([i, i + w]), torch.cat([i + w, i]), torch.cat([i + d, i + d], 1)


class Halves:
    """The charts C and S with their choices, (B, N, N, N) each."""

    def __init__(self, arc_scores: Tensor) -> None:
        n_batch, self.n_nodes = arc_scores.shape[:2]
        shape = (n_batch, *[self.n_nodes] * 3)
        self.C = arc_scores.new_full(shape, -torch.inf)
        self.C.diagonal(0, 2, 3).fill_(0.0)
        self.S = arc_scores.new_full(shape, -torch.inf)
        self.last, self.split = torch.zeros((2, *shape), dtype=torch.int64, device=self.C.device)
        self.node = torch.arange(self.n_nodes, device=self.C.device)

    def join(self, w: int) -> None:
        """S(i,j) = max_{i<=r<j} C(i,r) + C(j,r+1), under every head, for all spans of width w."""
        i = self.node[: self.n_nodes - w]
        r = i + self.node[:w, None]
        best, choice = (self.C[:, :, i, r] + self.C[:, :, i + w, r + 1]).max(2)
        self.S[:, :, i, i + w] = best
        self.split[:, :, i, i + w] = i + choice

    def inside(self, h: Tensor, m: Tensor) -> Tensor:
        """C(m,h+1) or C(m,h-1), the half of m that looks at its head: (B, K)."""
        return self.C[:, h, m, torch.where(h < m, h + 1, h - 1)]

    def between(self, h: Tensor, m: Tensor, s: Tensor) -> Tensor:
        """S^h(s,m), (B, w - 1, K)."""
        return self.S[:, h, torch.minimum(s, m), torch.maximum(s, m)]

    def close(self, w: int, outer: Tensor) -> None:
        """C(h,e) = max_m outer(h,m) + C(m,e) for all halves of width w; outer (B, h, m, g)."""
        i = self.node[: self.n_nodes - w]
        d = self.node[:w, None]
        h, e = torch.cat([i, i + w]), torch.cat([i + w, i])
        m = torch.cat([i + 1 + d, i + d], 1)
        best, choice = (outer[:, h, m] + self.C[:, h, m, e][..., None]).max(1)
        self.C[:, :, h, e] = best.mT
        self.last[:, :, h, e] = (m[0][:, None] + choice).mT

    def best(self, lengths: Tensor, of_root: Tensor | None) -> tuple[Tensor, Tensor]:
        """Value of the best trees and their root words, 0 where the root may have several; (B,).

        Args: of_root: (B, N), what else the only modifier of the root scores; None: many.
        """
        b = torch.arange(len(lengths), device=lengths.device)
        if of_root is None:
            return self.C[b, 0, 0, lengths], torch.zeros_like(lengths)
        m = self.node[1:]
        halves = self.C[:, 0, 1:, 1] + self.C[b[:, None], 0, m, lengths[:, None]]
        values = halves + of_root[:, 1:]
        best, root = values.masked_fill(m > lengths[:, None], -torch.inf).max(1)
        return best, root + 1


def follow(
    halves: Halves,
    lengths: Tensor,
    root: Tensor,
    is_tree: Tensor,
    open_item: Callable[[Tensor, Tensor, Tensor, Tensor], Items],
    next_item: Callable[[Items], tuple[Tensor, Items]],
) -> Tensor:
    """Heads (B, N) of the best trees, all sentences at once, from the widest halves down.

    Args:
        root, is_tree: (B,), as `Halves.best` says, and whether there is a tree.
        open_item: b, g, h, m -> the item in which m is the outermost modifier of h.
        next_item: an item (b, ..., h, m) -> the inner sibling of m, h for none, and the item in
            which that is the modifier, read only where there is one.
    """
    n_batch, n_nodes = len(lengths), halves.n_nodes
    heads = torch.full((n_batch, n_nodes), NO_HEAD, dtype=torch.int64, device=lengths.device)
    b = (is_tree & (lengths > 0)).nonzero()[:, 0]
    has_root = b[root[b] > 0]
    heads[has_root, root[has_root]] = 0
    zeros = torch.zeros_like
    agenda = torch.stack([b, zeros(b), root[b], lengths[b]])
    to_left = torch.stack([has_root, zeros(has_root), root[has_root], zeros(has_root) + 1])
    agenda = torch.cat([agenda, to_left], 1)
    while agenda.shape[1]:
        b, g, h, e = agenda[:, agenda[2] != agenda[3]]
        m = halves.last[b, g, h, e]
        found = [torch.stack([b, h, m, e])]
        item = open_item(b, g, h, m)
        while len(item[0]):
            b, h, m = item[0], item[-2], item[-1]
            heads[b, m] = h
            s, inner = next_item(item)
            none = s == h
            inside = torch.where(h < m, h + 1, h - 1)
            found.append(torch.stack([b, h, m, inside])[:, none])
            b, h, m, s = b[~none], h[~none], m[~none], s[~none]
            i, j = torch.minimum(s, m), torch.maximum(s, m)
            r = halves.split[b, h, i, j]
            found += [torch.stack([b, h, i, r]), torch.stack([b, h, j, r + 1])]
            item = tuple(index[~none] for index in inner)
        agenda = torch.cat(found, 1)
    return heads
