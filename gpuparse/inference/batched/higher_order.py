"""Projective trees of higher order in torch, all sentences and all spans of one width at once.

C[b, g, h, e] is the best half of h up to e while g is the head of h; S[b, h, i, j] the best pair of
halves between the modifiers i < j of h. Cells of g, h and e that no tree has are -inf or never
read. All spans of one width are filled at once: h and e (K,) are their two ends, once with the left
and once with the right one as the head.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.inference.higher_order_scores import read_part_cells
from gpuparse.inference.scores import Scores, read_cells
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.tree_parts import part_tree_scores

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
        if of_root is None or self.n_nodes == 1:
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


def eisner_grand_sibling_torch(
    parts: Scores, *, single_root: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """`eisner_grand_sibling` on checked scores, all sentences and all spans of one width at once.

    Returns: As `eisner_grand_sibling`; a sentence without a tree gets the score -inf.
    """
    n_nodes, lengths = parts.arc.shape[1], parts.lengths
    whole = _grand_sibling_parts(parts)
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


def _grand_sibling_parts(parts: Scores) -> Tensor:
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


def eisner_tri_sibling_torch(parts: Scores, *, single_root: bool) -> tuple[Tensor, Tensor, Tensor]:
    """`eisner_tri_sibling` on checked scores, all sentences and all spans of one width at once.

    Returns: As `eisner_tri_sibling`; a sentence without a tree gets the score -inf.
    """
    n_nodes, lengths = parts.arc.shape[1], parts.lengths
    whole, outermost = _tri_sibling_parts(parts), _outermost_parts(parts)
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


def _tri_sibling_parts(parts: Scores) -> Tensor:
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


KINDS = ("sibling", "inner_grandchild", "outer_grandchild")


class _ScoresByDistance(NamedTuple):
    """Scores by direction (0: to the right) and by distance, -inf for what is no part.

    Each (2, B, N, N, N, L), [direction, b, h, m, d, l]: sibling, with the arc, for c = h + d or
    h - d; inner, outer for c = m - d and m + d, or the other way round; d = 0 for none.
    """

    sibling: Tensor
    inner: Tensor
    outer: Tensor


class _Charts(NamedTuple):
    """closed (2, B, N, N, N), [direction, b, h, d, r]: the modifier furthest from h is d away, 0
    for none, and the span ends at r, to the left at r + 1; so the spans of a split have one r.

    opened (2, B, N, N, L), [direction, b, h, d, l]. weights (2, B, N, N, N), [direction, b, h, d,
    c]: the best of all labels with an outer grandchild c away from the modifier.
    """

    closed: Tensor
    opened: Tensor
    weights: Tensor


def eisner_grandchild_torch(scores: Scores, *, single_root: bool) -> tuple[Tensor, Tensor, Tensor]:
    """`eisner_grandchild_labelled` on checked scores: all spans of one width at once.

    Returns: As `eisner_grandchild_labelled`; a sentence without a tree gets the score -inf.
    """
    if scores.arc.dim() == 3:
        return eisner_grandchild_torch(_with_one_label(scores), single_root=single_root)
    arcs, lengths = scores.arc, scores.lengths
    heads = torch.full_like(arcs[..., 0, 0], NO_HEAD, dtype=torch.int64)
    labels = heads.clone()
    if arcs.shape[1] == 1 or len(arcs) == 0:  # no word at all
        return heads, labels, arcs.new_zeros(len(arcs), dtype=torch.float64)
    parts = _parts_by_distance(scores, single_root)
    charts = _fill(parts)
    sentence = torch.arange(len(heads), device=heads.device)
    best, d = charts.closed[0, sentence, 0, :, lengths].max(1)
    there = ((best > -torch.inf) & (lengths > 0)).nonzero()[:, 0]
    agenda = torch.stack([there, torch.zeros_like(there), d[there], lengths[there]])
    _follow(parts, charts, agenda, heads, labels)
    totals = part_tree_scores(scores, heads, labels)
    return heads, labels, totals.masked_fill((best == -torch.inf) & (lengths > 0), -torch.inf)


def _with_one_label(scores: Scores) -> Scores:
    added = {
        name: part[..., None]
        for name, part in vars(scores).items()
        if name != "lengths" and part is not None
    }
    return replace(scores, **added)


def _parts_by_distance(scores: Scores, single_root: bool) -> _ScoresByDistance:
    arcs, lengths = scores.arc, scores.lengths
    n_nodes = arcs.shape[1]
    position = torch.arange(n_nodes, device=arcs.device)
    h, m, d = position[:, None, None], position[:, None], position
    last = lengths[:, None, None, None]
    is_arc = (m > 0) & (h <= last) & (m <= last)
    found: list[list[Tensor]] = []
    for kind in KINDS:
        cells = getattr(scores, kind)
        if cells is None:
            cells = arcs.new_zeros(1, 1, 1, 1, 1).expand(*arcs.shape[:3], *arcs.shape[2:])
        is_part = read_part_cells(lengths, n_nodes, kind)
        found.append([])
        for step, is_direction in ((1, h < m), (-1, h > m)):
            first, away = {KINDS[0]: (h, step), KINDS[1]: (m, -step), KINDS[2]: (m, step)}[kind]
            c = (first + away * d).expand(n_nodes, n_nodes, n_nodes)
            there = is_arc & is_direction & (c >= 0) & (c <= last)
            c = c.clamp(0, n_nodes - 1)
            there = there & is_part.gather(3, c.expand(is_part.shape))
            if single_root and kind == KINDS[0]:
                there = there & ((h > 0) | (d == 0))
            by_distance = cells[:, h, m, c]
            if kind == KINDS[0]:
                by_distance = arcs[:, :, :, None] + by_distance
            found[-1].append(by_distance.masked_fill(~there[..., None], -torch.inf))
    return _ScoresByDistance(*(torch.stack(directions) for directions in found))


def _fill(parts: _ScoresByDistance) -> _Charts:
    _, n_batch, n_nodes, _, _, n_labels = parts.sibling.shape
    position = torch.arange(n_nodes, device=parts.sibling.device)
    closed = parts.sibling.new_full((2, n_batch, n_nodes, n_nodes, n_nodes), -torch.inf)
    closed[0, :, position, 0, position] = 0
    closed[1, :, position[1:], 0, position[:-1]] = 0
    opened = parts.sibling.new_full((2, n_batch, n_nodes, n_nodes, n_labels), -torch.inf)
    weights = torch.full_like(closed, -torch.inf)
    for w in range(1, n_nodes):
        i = position[: n_nodes - w]
        j, inside = i + w, position[:w]
        # Open(h,m,l) = max_r [ max_s Closed(h,r,s) + (arc(h,m,l) + sib(h,m,s,l))
        #                     + max_c Closed(m,r+1,c) + in(h,m,c,l) ]
        r = i[:, None, None] + inside
        halves = (
            closed[0][:, i[:, None, None], inside[:, None], r],
            closed[1][:, j[:, None, None], inside[:, None], r],
        )
        for direction, (h, m) in enumerate(((i, j), (j, i))):
            siblings = parts.sibling[direction][:, h, m, :w, None]
            inner = parts.inner[direction][:, h, m, :w, None]
            of_h = (halves[direction][..., None] + siblings).amax(2)
            of_m = (halves[1 - direction][..., None] + inner).amax(2)
            best = (of_h + of_m).amax(2)
            opened[direction][:, h, w] = best
            outer = parts.outer[direction][:, h, m]
            weights[direction][:, h, w] = (best[:, :, None] + outer).amax(3)
        # Closed(h,e,m) = max_c (max_l Open(h,m,l) + out(h,m,c,l)) + Closed(m,e,c)
        for direction, step in enumerate((1, -1)):
            h, r = (i, j) if direction == 0 else (j[1:], i[1:] - 1)
            d = position[1 : w + 1]
            m = h[:, None] + step * d
            beyond = closed[direction][:, m[..., None], inside, r[:, None, None]]
            weight = weights[direction][:, h[:, None, None], d[:, None], inside]
            closed[direction][:, h[:, None], d, r[:, None]] = (weight + beyond).amax(3)
    return _Charts(closed, opened, weights)


def _follow(
    parts: _ScoresByDistance, charts: _Charts, agenda: Tensor, heads: Tensor, labels: Tensor
) -> None:
    """Write heads and labels of the closed spans on the agenda, (4, K): b, h, signed d, r.

    All spans on the agenda are taken apart at once, into those of the next round.
    """
    closed, opened, weights = charts
    while agenda.shape[1] > 0:
        b, h, signed, r = agenda
        m, d = h + signed, signed.abs()
        direction = (signed < 0).long()
        step = signed.sign()
        beyond = weights[direction, b, h, d] + closed[direction, b, m, :, r]
        outer = beyond.max(1).indices
        of_labels = opened[direction, b, h, d] + parts.outer[direction, b, h, m, outer]
        label = of_labels.max(1).indices
        heads[b, m], labels[b, m] = h, label
        # (K, d, r): over the siblings and over the inner grandchildren at every split
        siblings = parts.sibling[direction, b, h, m, :, label][..., None]
        of_h = (closed[direction, b, h] + siblings).max(1)
        inner = parts.inner[direction, b, h, m, :, label][..., None]
        of_m = (closed[1 - direction, b, m] + inner).max(1)
        split = (of_h.values + of_m.values).max(1).indices
        sibling = of_h.indices.gather(1, split[:, None])[:, 0]
        inside = of_m.indices.gather(1, split[:, None])[:, 0]
        spans = (
            torch.stack([b, m, step * outer, r]),
            torch.stack([b, h, step * sibling, split]),
            torch.stack([b, m, -step * inside, split]),
        )
        agenda = torch.cat([span[:, span[2] != 0] for span in spans], 1)
