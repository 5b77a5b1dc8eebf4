"""The scores that word vectors add to arcs and labels, in torch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gpuparse.features.word_vectors import FURTHER, VectorPlan
from gpuparse.inference.scores import Scores, read_cells
from gpuparse.scorers.tensors import EXACT_BELOW, TensorBatch
from gpuparse.scorers.vectors.word_vectors import (
    BETWEEN_TERMS,
    MOST_POINTS,
    OCCURRENCES,
    TERMS,
    WordVectors,
)

_MOST_HIDDEN = EXACT_BELOW // 127**2  # numbers whose products with 8 bits float32 sums exactly
_MOST_SCALED = EXACT_BELOW // (128 * 255)  # numbers of rows times scales that it sums exactly
# Numbers of float64 that are held before they are summed: 128 MiB; on a CPU what its caches hold.
_CELLS_AT_ONCE, _CPU_CELLS_AT_ONCE = 1 << 24, 1 << 18


class DeviceVectors:
    """Word vectors on one device."""

    def __init__(self, vectors: WordVectors, device: torch.device) -> None:
        self.vectors, self.device = vectors, device
        self.has_labels = vectors.scores("label")
        plan = vectors.plan
        self.first_label = vectors.columns("label").start
        self._rows, self._offsets, self._starts, self._sizes = (
            self._on_device(part) for part in (plan.rows, plan.offsets, plan.starts, plan.sizes)
        )
        n_rows, width = vectors.table.shape
        of_sums = torch.float32 if len(plan.rows) <= _MOST_SCALED else torch.float64
        # Rows times scales: more memory than 8 bits, summed by one operation. The last row is 0,
        # for values without a row, and for those not known.
        self._table = torch.zeros((n_rows + 1, width), dtype=of_sums, device=device)
        torch.mul(
            self._on_device(vectors.table),
            self._on_device(vectors.scales).to(of_sums).unsqueeze(1),
            out=self._table[:n_rows],
        )
        places = np.append(np.where(plan.places < 0, n_rows, plan.places), n_rows)
        self._places = self._on_device(places).long()
        self._bias = self._on_device(vectors.bias)
        hidden = vectors.heads.shape[0] * vectors.heads.shape[2]
        exact = torch.float32 if hidden <= _MOST_HIDDEN else torch.float64
        self._matrices = [
            self._on_device(matrix).permute(0, 2, 1).reshape(hidden, matrix.shape[1]).to(exact)
            for matrix in (vectors.heads, vectors.modifiers)
        ]
        self._shifts = [
            self._on_device(shifts) for shifts in (vectors.head_shifts, vectors.modifier_shifts)
        ]
        given = {kind: TERMS[kind] for kind in ("arc", *FURTHER)} | {"between": BETWEEN_TERMS}
        self.terms = {
            kind: [self._on_device(getattr(vectors, name)).double() for name in names]
            for kind, names in given.items()
        }
        of_labels = (vectors.labels, vectors.label_heads, vectors.label_modifiers)
        by_label = (self._on_device(term).double().permute(1, 0, 2) for term in of_labels)
        self.label_terms = [
            *(term.flatten(1) for term in by_label),
            self._on_device(vectors.label_constants).double(),
        ]

    def _on_device(self, array: np.ndarray) -> Tensor:
        return torch.tensor(array, device=self.device)  # a copy

    def nodes(self, batch: TensorBatch) -> "NodeVectors":
        """The vectors of all nodes of a batch on the device."""
        places = batch.places()
        at = places.unsqueeze(-1) + self._offsets  # (B, N, F)
        values = batch.values[self._rows, at.clamp(0, batch.values.shape[1] - 1)].long()
        known = (values >= 0) & (values < self._sizes)
        found = self._places[torch.where(known, self._starts + values, len(self._places) - 1)]
        sums = functional.embedding_bag(found.flatten(0, 1), self._table, mode="sum").int()
        sums = sums.view(*places.shape, len(self._bias)) + self._bias  # (B, N, W)
        halves = sums.split(sums.shape[-1] // 2, -1)
        found_vectors = []
        for half, matrix, shifts in zip(halves, self._matrices, self._shifts, strict=True):
            numbers = half
            if len(matrix):
                active = rounded(half, self.vectors.shift).clamp(0, 127)
                numbers = (active.to(matrix.dtype) @ matrix).int()
            found_vectors.append(rounded(numbers, shifts).clamp(-127, 127).double())
        return NodeVectors(self, batch, *found_vectors)


@dataclass(frozen=True, eq=False)
class NodeVectors:
    """The vectors of the nodes of a batch, as heads and as modifiers: (B, N, Q) float64, whole."""

    of: DeviceVectors
    batch: TensorBatch
    heads: Tensor
    modifiers: Tensor

    def arcs(self) -> Tensor:
        """The scores of all arcs.

        Returns: (B, N, N): [b, h, m] is the arc h -> m, whole numbers of float64, the same as in
            native code. Column 0, the diagonal and padding hold nothing of use.
        Cost: P multiplications per arc, beside the words' vectors.
        Source: Lei, Xin, Zhang, Barzilay & Jaakkola (2014), section 4; differs: a product has
            numbers of direction and distance besides, and words' vectors may come from a hidden
            layer.
        """
        scores, vectors = self._whole_pairs("arc"), self.of.vectors
        columns = vectors.columns("arc")
        if vectors.plan.n_between:
            of_heads, of_modifiers, constants = self.of.terms["between"]
            values = values_in_between(vectors.plan, self.batch.values, self.batch.places())
            add_between(
                scores, values, self.heads[..., columns] @ of_heads.T + constants,
                self.modifiers[..., columns] @ of_modifiers.T,
            )  # fmt: skip
        return self.as_scores(scores, "arc")

    def pairs(self, kind: str) -> Tensor:
        """The scores of all pairs of a further kind, one of FURTHER that the vectors score.

        Returns: (B, N, N): of "sibling", [b, s, m] is the modifier m with the inner sibling s, of
            any head; of "grandparent", [b, g, m] that with g as the head of its head. Types and
            unused cells as in `arcs`; of siblings, row 0 holds nothing of use either.
        """
        return self.as_scores(self._whole_pairs(kind), kind)

    def _whole_pairs(self, kind: str) -> Tensor:
        """(B, N, N) scores of pairs of words, by columns of a kind; no words in between."""
        columns, terms = self.of.vectors.columns(kind), self.of.terms[kind]
        heads = self.heads[..., columns]
        modifiers = self.modifiers[..., columns].transpose(1, 2)
        used, which = self._combinations()
        products, of_heads, of_modifiers, constants = (term[used] for term in terms)
        # What depends on the head and the combination alone.
        scores = (heads @ of_heads.T + constants).gather(2, which.expand(len(heads), -1, -1))
        n_nodes, n_used = len(which), len(used)
        cells = n_used * (heads.shape[2] + n_nodes) * len(heads)
        for some in _runs(n_nodes, cells, scores.device):
            chosen = which[some].expand(len(heads), 1, -1, -1)
            numbers = torch.addcmul(  # (B, combinations, heads, numbers)
                of_modifiers.unsqueeze(1), heads[:, some].unsqueeze(1), products.unsqueeze(1)
            )
            found = (numbers.flatten(1, 2) @ modifiers).unflatten(1, (n_used, -1))
            scores[:, some] += found.gather(1, chosen).squeeze(1)
        return scores

    def with_templates(self, templates: Tensor) -> Tensor:
        """(B, N, N) of all arcs: the sums of scores of vectors and templates.

        templates: (B, N, N), which count for the arcs that vectors leave open; these are scored at
            most `arc_margin` less than the best arc into their word, and are not alone there.
        """
        scores = self.arcs()
        if self.of.vectors.arc_margin >= 0:
            templates = torch.where(self.are_open(scores), templates, 0)
        return templates + scores

    def are_open(self, scores: Tensor) -> Tensor:
        """(B, N, N) bool: the arcs that vectors leave open to templates; scores: of the vectors."""
        vectors, lengths = self.of.vectors, self.batch.lengths
        is_arc = read_cells(lengths, scores.shape[1])
        if vectors.arc_margin < 0:
            return is_arc
        margin = torch.tensor(vectors.arc_margin)  # in main memory: one number needs no kernels
        scores = scores.masked_fill(~is_arc, -torch.inf)
        lowest = scores.amax(1, keepdim=True) - self.as_scores(margin, "arc")
        is_close = is_arc & (scores >= lowest)
        return is_close & (is_close.sum(1, keepdim=True) > 1)

    def have_open_labels(self, scores: Tensor) -> Tensor:
        """(...) bool: the arcs of trees whose labels templates score; scores: (..., labels)."""
        margin = self.of.vectors.label_margin
        if margin < 0:
            return scores.new_ones(scores.shape[:-1], dtype=torch.bool)
        lowest = -self.as_scores(torch.tensor(margin), "label")  # of the best label: 0
        return (scores >= lowest).sum(-1) > 1

    def as_scores(self, whole: Tensor, kind: str) -> Tensor:
        """The points that whole sums of a kind of scores count."""
        vectors = self.of.vectors
        return points(
            whole, getattr(vectors, f"{kind}_multiplier"), getattr(vectors, f"{kind}_shift")
        )

    def parts(self, kind: str) -> Tensor | None:
        """(B, N, N, N) of parts as `parts_of_pairs`; None: vectors do not score this kind."""
        if not self.of.vectors.scores(kind):
            return None
        return parts_of_pairs(kind, self.pairs(kind))

    def labels(self, b: Tensor, h: Tensor, m: Tensor) -> Tensor:
        """(..., labels) of the arcs h -> m of sentences b, each (...); padded as those frozen."""
        n = self.of.first_label
        head, modifier = self.heads[b, h][..., n:], self.modifiers[b, m][..., n:]
        products, of_heads, of_modifiers, constants = self.of.label_terms
        scores = (head * modifier) @ products.T + head @ of_heads.T + modifier @ of_modifiers.T
        return self._as_label_scores(scores + constants)

    def with_labels(self, before: Tensor, own: Tensor) -> Tensor:
        """(..., labels) what templates score where vectors leave the label open, and vectors."""
        are_open = self.have_open_labels(own)
        return before.to(own.dtype).masked_fill(~are_open.unsqueeze(-1), 0) + own

    def all_labels(self) -> Tensor:
        """(B, N, N, labels) of all arcs."""
        n_sentences, n_nodes = self.heads.shape[:2]
        arcs = torch.arange(n_sentences * n_nodes, device=self.heads.device)
        found = self.labels_of_heads(arcs // n_nodes, arcs % n_nodes)
        return found.reshape(n_sentences, n_nodes, *found.shape[1:])

    def labels_of_heads(self, b: Tensor, h: Tensor) -> Tensor:
        """(G, N, labels) of all arcs from the heads h of sentences b, each (G,)."""
        n = self.of.first_label
        head, modifiers = self.heads[b, h][:, n:], self.modifiers[b][..., n:]
        products, of_heads, of_modifiers, constants = self.of.label_terms
        scores = modifiers @ (head.unsqueeze(1) * products + of_modifiers).transpose(1, 2)
        scores += (head @ of_heads.T + constants).unsqueeze(1)
        return self._as_label_scores(scores)

    def _as_label_scores(self, scores: Tensor) -> Tensor:
        return self.as_scores(scores - scores.amax(-1, keepdim=True), "label")

    def _combinations(self) -> tuple[Tensor, Tensor]:
        """The combinations of direction and distance bucket that occur, and which each arc has.

        Returns: (combinations,); (N, N), indices into these. Those that occur are found in main
            memory, so that nothing waits for the device.
        """
        plan, n_nodes, device = self.of.vectors.plan, self.heads.shape[1], self.heads.device
        gaps = torch.arange(1 - n_nodes, n_nodes)
        bucket = torch.from_numpy(plan.buckets)[(gaps.abs() - 1).clamp(0, len(plan.buckets) - 1)]
        used, of_gaps = (bucket + plan.n_buckets * (gaps < 0)).unique(return_inverse=True)
        nodes = torch.arange(n_nodes, device=device)
        which = nodes - nodes.unsqueeze(1) + n_nodes - 1  # the number of the gap
        used, of_gaps = (part.to(device, non_blocking=True) for part in (used, of_gaps))
        return used, of_gaps[which]


def added_vectors(nodes: NodeVectors, before: Scores | None) -> Scores:
    """The scores of a batch by its vectors, added to those before, which count for open arcs."""
    if before is None:
        found = Scores(nodes.arcs(), nodes.batch.lengths)
    else:
        found = replace(before, arc=nodes.with_templates(before.arc))
    for kind in FURTHER:
        more = nodes.parts(kind)
        if more is not None:
            known = getattr(found, kind)
            found = replace(found, **{kind: more if known is None else known + more})
    return found


def parts_of_pairs(kind: str, pairs: Tensor) -> Tensor:
    """(B, N, N, N) scores [b, h, m, i] of parts of a further kind by those of pairs (B, N, N).

    pairs: [b, i, m], the same under every head; 0 without an inner sibling, i = h, or without a
    grandparent, h = 0. Cells of no part hold nothing of use.
    """
    nodes = torch.arange(pairs.shape[1], device=pairs.device)
    h = nodes.view(-1, 1, 1)
    is_none = nodes == h if kind == "sibling" else h == 0
    return pairs.transpose(1, 2).unsqueeze(1).masked_fill(is_none, 0.0)


def values_in_between(plan: VectorPlan, values: Tensor, places: Tensor) -> Tensor:
    """The numbers of values that words in between are told apart by, -1 for none.

    values: (fields, tokens) of a batch; places: token indices of any shape, that of the result.
    """
    numbers = torch.from_numpy(plan.between_places).to(values.device).long()
    found = values[plan.between_row][places].long()
    is_known = (found >= 0) & (found < len(numbers))
    return torch.where(is_known, numbers[torch.where(is_known, found, 0)], -1)


def add_between(scores: Tensor, values: Tensor, of_heads: Tensor, of_modifiers: Tensor) -> None:
    """Add what words in between do to the scores of arcs (B, N, N).

    Args:
        values: (B, N) numbers of values, -1 for none.
        of_heads, of_modifiers: (B, N, 2 OCCURRENCES T), what each combination adds to the score of
            an arc with that head, or that modifier.
    Cost: T times B N^2.
    """
    n_sentences, n_nodes, n_added = of_heads.shape
    n_values = n_added // (2 * OCCURRENCES)
    numbers = torch.arange(n_values, device=scores.device)
    occurrences = torch.arange(OCCURRENCES, device=scores.device).unsqueeze(1)
    # (B, N, T) words with each value, up to this one
    up_to = (values.unsqueeze(2) == numbers).cumsum(1, dtype=torch.int32)
    m = torch.arange(n_nodes, device=scores.device)
    h = m.unsqueeze(1)
    first, before_last = torch.minimum(h, m), (torch.maximum(h, m) - 1).clamp(min=0)
    is_other = torch.stack((m < h, m >= h), -1).view(n_nodes, n_nodes, 2, 1, 1)  # direction
    for some in _runs(n_nodes, n_sentences * n_nodes * n_added, scores.device):
        count = up_to[:, before_last[some]] - up_to[:, first[some]]
        is_absent = is_other[some] | (count[:, :, :, None, None] <= occurrences)
        sums = of_heads[:, some].unsqueeze(2) + of_modifiers.unsqueeze(1)
        scores[:, some] += sums.masked_fill_(is_absent.flatten(3), 0.0).sum(-1)


def _runs(count: int, cells: int, device: torch.device) -> Iterator[slice]:
    """Runs of things that hold `cells` numbers each, no more than are held at once, or one."""
    at_once = _CPU_CELLS_AT_ONCE if device.type == "cpu" else _CELLS_AT_ONCE
    step = max(1, at_once // max(1, cells))
    return (slice(first, first + step) for first in range(0, count, step))


def points(scores: Tensor, multiplier: int, shift: int) -> Tensor:
    """Whole scores times a fraction, cut to MOST_POINTS, float64."""
    return rounded(scores.long() * multiplier, shift).clamp(-MOST_POINTS, MOST_POINTS).double()


def rounded(numbers: Tensor, shift: Tensor | int) -> Tensor:
    """Numbers shifted to the right, rounded to the nearest, half up."""
    half = (1 << shift) >> 1 if isinstance(shift, int) else (torch.ones_like(shift) << shift) >> 1
    return (numbers + half) >> shift
