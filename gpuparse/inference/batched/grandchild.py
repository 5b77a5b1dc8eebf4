"""Eisner with siblings and grandchildren in torch: all spans of one width at once."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.inference.higher_order_scores import read_part_cells
from gpuparse.inference.scores import NO_HEAD, Scores
from gpuparse.inference.tree_parts import part_tree_scores

KINDS = ("sibling", "inner_grandchild", "outer_grandchild")


class _Parts(NamedTuple):
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

    Returns:
        As `eisner_grandchild_labelled`; a sentence without a tree gets the score -inf.
    """
    if scores.arc.dim() == 3:
        return eisner_grandchild_torch(_with_one_label(scores), single_root=single_root)
    arcs, lengths = scores.arc, scores.lengths
    heads = torch.full_like(arcs[..., 0, 0], NO_HEAD, dtype=torch.int64)
    labels = heads.clone()
    if arcs.shape[1] == 1 or len(arcs) == 0:  # no word at all
        return heads, labels, arcs.new_zeros(len(arcs))
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


def _parts_by_distance(scores: Scores, single_root: bool) -> _Parts:
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
    return _Parts(*(torch.stack(directions) for directions in found))


def _fill(parts: _Parts) -> _Charts:
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


def _follow(parts: _Parts, charts: _Charts, agenda: Tensor, heads: Tensor, labels: Tensor) -> None:
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
