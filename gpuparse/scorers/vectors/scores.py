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
        columns = self.of.vectors.columns(kind)
        heads, modifiers = self.heads[..., columns], self.modifiers[..., columns]
        products, of_heads, of_modifiers, constants = self.of.terms[kind]
        scores = heads.new_zeros(*heads.shape[:2], heads.shape[1])
        of_head = heads @ of_heads.T + constants  # what depends on the head and the combination
        for combination, near, far in self._combinations():
            # Heads and modifiers that some pair of this distance has.
            first, last = slice(-abs(near)), slice(abs(near), None)
            h, m = (first, last) if near > 0 else (last, first)
            numbers = torch.addcmul(of_modifiers[combination], heads[:, h], products[combination])
            if near == far:
                found = numbers.mul_(modifiers[:, m]).sum(-1) + of_head[:, h, combination]
                scores.diagonal(near, 1, 2).copy_(found)
            else:
                found = numbers @ modifiers[:, m].transpose(1, 2)
                found += of_head[:, h, combination, None]
                low, high = sorted((0, far - near))
                scores[:, h, m] += found.triu_(low).tril_(high)
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

    def parts(self, kind: str, before: Tensor | None = None) -> Tensor | None:
        """(B, N, N, N) of parts as `parts_of_pairs`; those before if vectors do not score them."""
        if not self.of.vectors.scores(kind):
            return before
        return parts_of_pairs(kind, self.pairs(kind), before)

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

    def _combinations(self) -> Iterator[tuple[int, int, int]]:
        """The combinations of direction and bucket that occur: the smallest and largest distance.

        Distances are less than 0 to the left.
        """
        plan = self.of.vectors.plan
        distances = np.arange(1, self.heads.shape[1])
        buckets = plan.buckets[np.minimum(distances, len(plan.buckets)) - 1]
        for bucket in np.unique(buckets).tolist():
            of_bucket = distances[buckets == bucket].tolist()
            yield bucket, of_bucket[0], of_bucket[-1]
            yield bucket + plan.n_buckets, -of_bucket[0], -of_bucket[-1]


def added_vectors(nodes: NodeVectors, before: Scores | None) -> Scores:
    """The scores of a batch by its vectors, added to those before, which count for open arcs."""
    if before is None:
        found = Scores(nodes.arcs(), nodes.batch.lengths)
    else:
        found = replace(before, arc=nodes.with_templates(before.arc))
    more = {kind: nodes.parts(kind, getattr(found, kind)) for kind in FURTHER}
    return replace(found, **more)


def parts_of_pairs(kind: str, pairs: Tensor, before: Tensor | None = None) -> Tensor:
    """(B, N, N, N) scores [b, h, m, i] of parts of a further kind, added to those before.

    pairs: (B, N, N) of pairs [b, i, m], the same under every head; 0 without an inner sibling,
    i = h, or without a grandparent, h = 0. Cells of no part hold nothing of use.
    """
    of_heads = pairs.transpose(1, 2).unsqueeze(1)
    if before is None:
        before = pairs.new_zeros(()).expand(len(pairs), *pairs.shape[1:], pairs.shape[1])
    found = before + of_heads
    of_one, known = (
        parts.diagonal(dim1=1, dim2=3) if kind == "sibling" else parts[:, 0]
        for parts in (found, before)
    )
    of_one.copy_(known)
    return found


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
            an arc with that head, or that modifier: first those of arcs to the right.
    Cost: B N^2. One end of an arc sees the words in between one after the other, for every other
        end; so they add the sums of words from that end on.
    """
    n_nodes, n_values = scores.shape[1], of_heads.shape[2] // (2 * OCCURRENCES)
    is_value = values.unsqueeze(2) == torch.arange(n_values, device=scores.device)
    up_to = is_value.cumsum(1)
    # (B, ends, words): how many words with the value of the word stand up to the end, and before it
    value = values.clamp(min=0).unsqueeze(1).expand_as(scores)
    to_end, before_end = (x.gather(2, value) for x in (up_to, up_to - is_value.long()))
    to_word = to_end.diagonal(dim1=1, dim2=2).unsqueeze(1)
    end = torch.arange(n_nodes, device=scores.device)
    is_after = end > end.unsqueeze(1)
    # of them between the end and the word; -1 for the end itself
    nearer = torch.where(is_after, to_word - 1 - to_end, before_end - to_word)
    counts = (values >= 0).unsqueeze(1) & (nearer >= 0) & (nearer < OCCURRENCES)
    column = nearer.clamp_(0, OCCURRENCES - 1) * n_values + value
    for added, to_the_left in ((of_heads, ~is_after), (of_modifiers, is_after)):
        columns = column + (OCCURRENCES * n_values) * to_the_left
        of_words = added.gather(2, columns).masked_fill_(~counts, 0.0)
        sums = of_words.cumsum(2)
        here = sums.diagonal(dim1=1, dim2=2).unsqueeze(2)
        between = torch.where(is_after, sums - of_words - here, here - sums)
        scores += between if added is of_heads else between.transpose(1, 2)


def points(scores: Tensor, multiplier: int, shift: int) -> Tensor:
    """Whole scores times a fraction, cut to MOST_POINTS, float64."""
    return rounded(scores.long() * multiplier, shift).clamp(-MOST_POINTS, MOST_POINTS).double()


def rounded(numbers: Tensor, shift: Tensor | int) -> Tensor:
    """Numbers shifted to the right, rounded to the nearest, half up."""
    half = (1 << shift) >> 1 if isinstance(shift, int) else (torch.ones_like(shift) << shift) >> 1
    return (numbers + half) >> shift
