"""Scores by word vectors on the GPU: Triton kernels whose products run in the matrix units.

Three kernels: one makes the vectors of all nodes, and what each node adds to scores by itself; one
scores pairs of words; one scores labels of arcs. Matrix units multiply 8 bits and sum in 32. Where
one factor has 16 bits, it is split into two numbers x, y of 8 bits, 256 x + y + 128: two products,
and 128 times the sum of the other factor, which belongs to what a node adds by itself.

What a node adds by itself are its *terms*: products of its vector with rows of numbers, one row for
each combination, value in between, and label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuparse.features.word_vectors import FURTHER
from gpuparse.inference.triton.launch import as_laid_out, on_device
from gpuparse.scoring.tensors import TensorBatch
from gpuparse.scoring.triton.arcs import combination_of
from gpuparse.scoring.vector_scores import DeviceVectors, NodeVectors
from gpuparse.scoring.word_vectors import (
    BETWEEN_TERMS,
    MOST_POINTS,
    OCCURRENCES,
    TERMS,
    WordVectors,
    by_hidden,
    by_label,
)

NODES = 32  # that one program makes the vectors of
TEMPLATES = 32  # whose rows it finds together
SUMS = 128  # numbers of their rows that it sums together
COLUMNS = 64  # numbers of vectors that it computes together
ROWS = 32  # of terms, likewise; each kind of term begins at a multiple
HIDDEN = 64  # hidden numbers that it multiplies with a matrix at a time
TILE = 32  # heads, and modifiers, whose pairs one program scores
ARCS = 32  # that one program scores the labels of
LABELS = 32  # that it scores together
FACTORS = 32  # numbers of two vectors that are multiplied at a time
WARPS = 8
STAGES = 1  # loops are too short to read ahead
_MOST_POINTS = tl.constexpr(MOST_POINTS)
_OCCURRENCES = tl.constexpr(OCCURRENCES)
_LEAST = tl.constexpr(-(2**31))  # of 32 bits


class Unit(NamedTuple):
    """From scores of vectors to what they add to other scores."""

    fraction: Tensor  # (3,) int64: multiplier, shift, and the half of 1 that is shifted away
    cost: Tensor  # (1,) float64


class PairTables(NamedTuple):
    """What scores pairs of words: numbers of C combinations."""

    first: int  # column of the vectors
    products: Tensor  # (C, size) int8
    linear: Tensor  # (C, size) int16: of modifiers
    first_term: int  # of the node; of a modifier the first one is 128 times its sum
    unit: Unit
    n_between: int  # values of words in between, whose terms follow at `first_between`
    first_between: int


class LabelTables(NamedTuple):
    """What scores labels of arcs."""

    first: int  # column of the vectors
    products: Tensor  # (L, PL) int8
    first_term: int  # of the node, by label
    unit: Unit


class _Rows(NamedTuple):
    """Rows of terms of one kind: R of them."""

    columns: slice  # of the vectors
    heads: np.ndarray  # (R, columns) int16
    modifiers: np.ndarray  # the same
    constants: np.ndarray  # (R,) int32, of heads


class KernelVectors(DeviceVectors):
    """Word vectors on one device, whose scores come from kernels."""

    def __init__(self, vectors: WordVectors, device: torch.device) -> None:
        super().__init__(vectors, device)
        plan, n_columns = vectors.plan, vectors.heads.shape[1]
        templates = np.stack([plan.rows, plan.offsets, plan.starts, plan.sizes], 1)
        self._templates, self._places = self.on_device(templates), self.on_device(plan.places)
        self._table, self._bias = self.on_device(vectors.table), self.on_device(vectors.bias)
        self._scales = self.on_device(np.append(vectors.scales, np.uint8(0)))  # at least one
        self._shifts = self.on_device(np.stack([vectors.head_shifts, vectors.modifier_shifts]))
        both = vectors.heads, vectors.modifiers
        matrices = [np.ascontiguousarray(by_hidden(matrix).T) for matrix in both]
        self._matrices = self.on_device(np.stack(matrices))
        self._spans = self.on_device(_hidden_spans(matrices))
        self.buckets = self.on_device(plan.buckets.astype(np.int32))
        self._between_places = self.on_device(plan.between_places)
        self.of_pairs, self.of_labels, rows = self._scoring()
        firsts = np.cumsum([0, *(_whole(len(each.heads)) for each in rows)])
        terms = np.zeros((2, firsts[-1], n_columns), np.int16)
        constants = np.zeros((2, firsts[-1]), np.int32)
        spans = np.zeros((firsts[-1] // ROWS, 2), np.int32)
        for first, each in zip(firsts.tolist(), rows, strict=False):
            some, columns = slice(first, first + len(each.heads)), each.columns
            terms[0, some, columns], terms[1, some, columns] = each.heads, each.modifiers
            constants[0, some] = each.constants
            of_rows = slice(first // ROWS, (some.stop + ROWS - 1) // ROWS)
            spans[of_rows] = columns.start // FACTORS, columns.stop // FACTORS
        self._terms, self._term_spans = self.on_device(terms), self.on_device(spans)
        self._constants = self.on_device(constants)

    def _scoring(self) -> tuple[dict[str, PairTables], LabelTables | None, list[_Rows]]:
        """What scores pairs and labels, and the rows of their terms in their order."""
        vectors, rows = self.vectors, list[_Rows]()
        pairs, first_term = {}, 0
        for kind in ("arc", *FURTHER):
            products, of_heads, linear, constants = (getattr(vectors, name) for name in TERMS[kind])
            if not vectors.scores(kind):
                continue
            columns = vectors.columns(kind)
            sums = np.zeros_like(of_heads)
            sums[:1] = 128
            rows.append(_Rows(columns, of_heads, sums, constants))
            n_between = vectors.plan.n_between if kind == "arc" else 0
            first_between = first_term + _whole(len(of_heads))
            pairs[kind] = PairTables(
                columns.start, self.on_device(products), self.on_device(linear), first_term,
                self._unit(kind), n_between, first_between,
            )  # fmt: skip
            first_term = first_between
            if n_between:
                rows.append(_Rows(columns, *(getattr(vectors, name) for name in BETWEEN_TERMS)))
                first_term += _whole(len(vectors.between_heads))
        if not self.has_labels:
            return pairs, None, rows
        products, of_heads, of_modifiers = (
            by_label(blocks)
            for blocks in (vectors.labels, vectors.label_heads, vectors.label_modifiers)
        )
        constants = vectors.label_constants + 128 * products.sum(1, dtype=np.int32)
        columns, unit = vectors.columns("label"), self._unit("label")
        rows.append(_Rows(columns, of_heads, of_modifiers, constants))
        of_labels = LabelTables(columns.start, self.on_device(products), first_term, unit)
        return pairs, of_labels, rows

    def _unit(self, kind: str) -> Unit:
        vectors = self.vectors
        multiplier, shift, unit = (
            getattr(vectors, f"{kind}_{name}") for name in ("multiplier", "shift", "unit")
        )
        fraction = np.array([multiplier, shift, (1 << shift) >> 1], np.int64)
        return Unit(self.on_device(fraction), self.on_device(np.array([unit])))

    def nodes(self, batch: TensorBatch) -> "KernelNodes":
        """The vectors of all nodes of a batch on the device, and their terms."""
        values, starts, lengths = as_laid_out(batch.values, batch.starts, batch.lengths)
        shape, device = (2, len(batch), batch.n_nodes), values.device
        n_hidden, n_terms = self._matrices.shape[2], self._terms.shape[1]
        hidden = torch.empty((*shape, n_hidden), dtype=torch.int8, device=device)
        vectors = torch.empty((*shape, self._matrices.shape[1]), dtype=torch.int8, device=device)
        terms = torch.empty((*shape, n_terms), dtype=torch.int32, device=device)
        of_rows = (*shape[:2], len(self._templates), shape[2])
        rows = torch.empty(of_rows, dtype=torch.int64, device=device)
        if terms.numel():
            with on_device(device):
                _fill_vectors[shape[1], triton.cdiv(shape[2], NODES), 2](
                    values, starts, lengths, values.shape[1], *shape[1:], self._templates,
                    len(self._templates), self._places, rows, self._table, self._scales, self._bias,
                    self.vectors.shift, hidden, self._matrices, self._spans, self._shifts, vectors,
                    self._terms, self._term_spans, self._constants, terms,
                    self._bias.shape[0] // 2, n_hidden, vectors.shape[3], n_terms,
                    TEMPLATES, NODES, SUMS, COLUMNS, HIDDEN, ROWS, FACTORS,
                    num_warps=WARPS, num_stages=STAGES,
                )  # fmt: skip
        return KernelNodes(self, batch, vectors, terms)

    def counts(self, batch: TensorBatch) -> Tensor:
        """(B, T, N) int32: nodes up to each one that have each value of words in between."""
        plan, n_known = self.vectors.plan, len(self._between_places)
        if not n_known:
            return torch.zeros(0, dtype=torch.int32, device=self.device)
        found = batch.values[plan.between_row][batch.places()].long()
        is_known = (found >= 0) & (found < n_known)
        numbers = torch.where(is_known, self._between_places[found.clamp(0, n_known - 1)], -1)
        each = torch.arange(plan.n_between, device=numbers.device).unsqueeze(1)
        return (numbers.unsqueeze(1) == each).cumsum(2, dtype=torch.int32)


@dataclass(frozen=True, eq=False)
class KernelNodes(NodeVectors):
    """The vectors of the nodes of a batch.

    vectors: (2, B, N, Q) int8, as heads and as modifiers. terms: (2, B, N, Z) int32.
    """

    of: KernelVectors
    batch: TensorBatch
    vectors: Tensor
    terms: Tensor

    def arcs(self, is_learned: bool = False) -> Tensor:
        """(B, N, N) of all arcs."""
        return self._pairs(self.of.of_pairs["arc"], is_learned)

    def pairs(self, kind: str, is_learned: bool = False) -> Tensor:
        """(B, N, N) of all pairs of a further kind."""
        return self._pairs(self.of.of_pairs[kind], is_learned)

    def _pairs(self, tables: PairTables, is_learned: bool) -> Tensor:
        _, n_batch, n_nodes, n_columns = self.vectors.shape
        device, size, plan = self.vectors.device, tables.products.shape[1], self.of.vectors.plan
        dtype = torch.float32 if is_learned else torch.float64
        out = torch.empty((n_batch, n_nodes, n_nodes), dtype=dtype, device=device)
        if not out.numel():
            return out
        counts = self.of.counts(self.batch) if tables.n_between else self.of.buckets
        (lengths,), tiles = as_laid_out(self.batch.lengths), triton.cdiv(n_nodes, TILE)
        with on_device(device):
            _score_pairs[n_batch, tiles, tiles](
                lengths, n_nodes, *self.vectors, *self.terms, tables.products, tables.linear,
                self.of.buckets, len(self.of.buckets) - 1, plan.n_buckets, counts,
                tables.n_between, *tables.unit, out,
                n_columns, self.terms.shape[3], tables.first, tables.first_term,
                tables.first_between, size, TILE, FACTORS,
                num_warps=WARPS, num_stages=STAGES,
            )  # fmt: skip
        return out

    def labels(self, b: Tensor, h: Tensor, m: Tensor, is_learned: bool = False) -> Tensor:
        """(..., labels) of the arcs h -> m of sentences b, each (...); padded as those frozen."""
        tables, (_, _, n_nodes, n_columns) = self.of.of_labels, self.vectors.shape
        assert tables
        heads, modifiers = torch.broadcast_tensors(b * n_nodes + h, b * n_nodes + m)
        n_labels, size = tables.products.shape
        dtype = torch.float32 if is_learned else torch.float64
        whole = torch.empty((*heads.shape, n_labels), dtype=torch.int32, device=heads.device)
        out = torch.empty_like(whole, dtype=dtype)
        if out.numel():
            heads, modifiers = as_laid_out(heads, modifiers)
            with on_device(heads.device):
                _score_labels[(triton.cdiv(heads.numel(), ARCS),)](
                    heads, modifiers, heads.numel(), *self.vectors, *self.terms, tables.products,
                    *tables.unit, whole, out,
                    n_columns, self.terms.shape[3], tables.first, tables.first_term, size, n_labels,
                    ARCS, LABELS, FACTORS, num_warps=WARPS, num_stages=STAGES,
                )  # fmt: skip
        return out

    def labels_of_heads(self, b: Tensor, h: Tensor, is_learned: bool = False) -> Tensor:
        """(G, N, labels) of all arcs from the heads h of sentences b, each (G,)."""
        m = torch.arange(self.vectors.shape[2], device=h.device)
        return self.labels(b.unsqueeze(1), h.unsqueeze(1), m, is_learned)


def _whole(count: int) -> int:
    """Rows of terms, rounded up to whole blocks."""
    return -(-count // ROWS) * ROWS


def _hidden_spans(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """(blocks of COLUMNS, 2) int32: which blocks of hidden numbers matter; first, last + 1.

    A block of columns is of few networks, and the matrices (Q, H) are 0 for all others.
    """
    spans = []
    for first in range(0, len(matrices[0]), COLUMNS):
        some = [matrix[first : first + COLUMNS] for matrix in matrices]
        found = np.flatnonzero(np.any([block.any(0) for block in some], 0))
        blocks = found // HIDDEN
        last = int(blocks.max(initial=-1)) + 1
        spans.append((int(blocks.min(initial=last)), last))
    return np.array(spans, np.int32)


@triton.jit
def _digits(numbers):
    """Numbers of 16 bits as x and y of 8 bits: 256 x + y + 128."""
    return (numbers >> 8).to(tl.int8), ((numbers & 255) - 128).to(tl.int8)


@triton.jit
def _converted(scores, fraction, cost, type: tl.constexpr):
    """Scores in points, cut to MOST_POINTS; or in units of cost where `type` is float32."""
    if type == tl.float32:
        return (scores.to(tl.float64) * tl.load(cost)).to(tl.float32)
    else:
        found = scores.to(tl.int64) * tl.load(fraction) + tl.load(fraction + 2)
        found = found >> tl.load(fraction + 1)
        return tl.maximum(tl.minimum(found, _MOST_POINTS), -_MOST_POINTS).to(type)


@triton.jit
def _rounded(numbers, shift):
    """Numbers shifted to the right, rounded to the nearest, half up."""
    return (numbers + ((1 << shift) >> 1)) >> shift


@triton.jit(do_not_specialize=["n_places", "n_batch", "n_nodes", "shift"])
def _fill_vectors(
    values, starts, lengths, n_places, n_batch, n_nodes, templates, n_templates, places, rows,
    table, scales, bias, shift, hidden, matrices, spans, shifts, vectors, terms, term_spans,
    constants, out,
    WIDTH: tl.constexpr, N_HIDDEN: tl.constexpr, N_COLUMNS: tl.constexpr, N_TERMS: tl.constexpr,
    TEMPLATES: tl.constexpr, NODES: tl.constexpr, SUMS: tl.constexpr, COLUMNS: tl.constexpr,
    HIDDEN: tl.constexpr, ROWS: tl.constexpr, FACTORS: tl.constexpr,
):  # fmt: skip
    """vectors[role, b, i] and out[role, b, i], the terms, of some nodes i of the sentence b."""
    b, role = tl.program_id(0), tl.program_id(2)
    n = tl.load(lengths + b).to(tl.int32)
    first_node = tl.program_id(1) * NODES
    if first_node <= n:
        i = first_node + tl.arange(0, NODES)
        is_node = i <= n
        of_node = is_node[:, None]
        start = tl.load(starts + b) + i
        node = ((role * n_batch + b).to(tl.int64) * n_nodes + i)[:, None]
        # All rows are found before any is read, so that reading them waits for nothing else.
        of_rows = (role * n_batch + b).to(tl.int64) * n_templates * n_nodes
        for first_template in range(0, n_templates, TEMPLATES):
            k = first_template + tl.arange(0, TEMPLATES)
            is_template = (k < n_templates)[None, :]
            record = (templates + 4 * k)[None, :]
            row = tl.load(record, mask=is_template, other=0)
            offset = tl.load(record + 1, mask=is_template, other=0)
            first = tl.load(record + 2, mask=is_template, other=0)
            size = tl.load(record + 3, mask=is_template, other=0)
            at = tl.minimum(tl.maximum(start[:, None] + offset, 0), n_places - 1)
            value = tl.load(values + row * n_places + at, mask=of_node & is_template, other=-1)
            is_known = (value >= 0) & (value < size)
            found = tl.load(places + first + value, mask=is_known, other=-1).to(tl.int64)
            scale = tl.load(scales + tl.maximum(found, 0)).to(tl.int64)
            found = tl.where(found < 0, 0, found * 256 + scale)
            at = of_rows + k[None, :] * n_nodes + i[:, None]
            tl.store(rows + at, found, mask=of_node & is_template)
        tl.debug_barrier()
        for first_sum in range(0, WIDTH, SUMS):
            j = first_sum + tl.arange(0, SUMS)
            in_row = (j < WIDTH)[None, :]
            column = role * WIDTH + j
            total = tl.zeros([NODES, SUMS], dtype=tl.int32)
            total += tl.load(bias + column, mask=j < WIDTH, other=0)[None, :]
            for k in tl.range(0, n_templates, loop_unroll_factor=4):
                row = tl.load(rows + of_rows + k * n_nodes + i, mask=is_node, other=0)[:, None]
                numbers = tl.load(
                    table + (row >> 8) * (2 * WIDTH) + column[None, :],
                    mask=(row > 0) & in_row, other=0,
                )  # fmt: skip
                total += numbers.to(tl.int32) * (row & 255).to(tl.int32)
            if N_HIDDEN > 0:
                active = tl.maximum(tl.minimum(_rounded(total, shift), 127), 0).to(tl.int8)
                tl.store(hidden + node * N_HIDDEN + j[None, :], active, mask=of_node & in_row)
            else:
                of_column = tl.load(shifts + column, mask=j < WIDTH, other=0)[None, :]
                number = tl.maximum(tl.minimum(_rounded(total, of_column), 127), -127).to(tl.int8)
                tl.store(vectors + node * N_COLUMNS + j[None, :], number, mask=of_node & in_row)
        tl.debug_barrier()
        if N_HIDDEN > 0:
            for first_column in range(0, N_COLUMNS, COLUMNS):
                q = first_column + tl.arange(0, COLUMNS)
                in_vector = (q < N_COLUMNS)[None, :]
                column = (role * N_COLUMNS + q)[None, :].to(tl.int64)
                span = spans + 2 * (first_column // COLUMNS)
                total = tl.zeros([NODES, COLUMNS], dtype=tl.int32)
                for block in range(tl.load(span), tl.load(span + 1)):
                    j = block * HIDDEN + tl.arange(0, HIDDEN)
                    active = tl.load(
                        hidden + node * N_HIDDEN + j[None, :],
                        mask=of_node & (j < N_HIDDEN)[None, :], other=0,
                    )  # fmt: skip
                    numbers = tl.load(
                        matrices + column * N_HIDDEN + j[:, None],
                        mask=in_vector & (j < N_HIDDEN)[:, None], other=0,
                    )  # fmt: skip
                    total = tl.dot(active, numbers, total, out_dtype=tl.int32)
                of_column = tl.load(shifts + column, mask=in_vector, other=0)
                number = tl.maximum(tl.minimum(_rounded(total, of_column), 127), -127).to(tl.int8)
                tl.store(vectors + node * N_COLUMNS + q[None, :], number, mask=of_node & in_vector)
            tl.debug_barrier()
        for first_row in range(0, N_TERMS, ROWS):
            z = first_row + tl.arange(0, ROWS)
            row = (role * N_TERMS + z)[None, :].to(tl.int64)
            span = term_spans + 2 * (first_row // ROWS)
            high = tl.zeros([NODES, ROWS], dtype=tl.int32)
            low = tl.zeros([NODES, ROWS], dtype=tl.int32)
            sums = tl.zeros([NODES], dtype=tl.int32)
            for block in range(tl.load(span), tl.load(span + 1)):
                q = block * FACTORS + tl.arange(0, FACTORS)
                vector = tl.load(vectors + node * N_COLUMNS + q[None, :], mask=of_node, other=0)
                x, y = _digits(tl.load(terms + row * N_COLUMNS + q[:, None]).to(tl.int32))
                high = tl.dot(vector, x, high, out_dtype=tl.int32)
                low = tl.dot(vector, y, low, out_dtype=tl.int32)
                sums += tl.sum(vector.to(tl.int32), axis=1)
            total = high * 256 + low + sums[:, None] * 128 + tl.load(constants + row)
            tl.store(out + node * N_TERMS + z[None, :], total, mask=of_node)


@triton.jit(do_not_specialize=["n_nodes"])
def _score_pairs(
    lengths, n_nodes, heads, modifiers, head_terms, modifier_terms, products, linear, buckets,
    last_bucket, n_buckets, counts, n_between, fraction, cost, out,
    N_COLUMNS: tl.constexpr, N_TERMS: tl.constexpr, COLUMN: tl.constexpr, TERM: tl.constexpr,
    BETWEEN: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr, FACTORS: tl.constexpr,
):  # fmt: skip
    """out[b, h, m] of a tile of heads h and modifiers m of the sentence b."""
    b = tl.program_id(0)
    n = tl.load(lengths + b).to(tl.int32)
    first_head, first_modifier = tl.program_id(1) * TILE, tl.program_id(2) * TILE
    if (first_head <= n) & (first_modifier <= n):
        h, m = first_head + tl.arange(0, TILE), first_modifier + tl.arange(0, TILE)
        is_head, is_modifier = h <= n, m <= n
        sentence = b.to(tl.int64) * n_nodes
        head, modifier = sentence + h, sentence + m
        of_head, of_modifier = head_terms + head * N_TERMS, modifier_terms + modifier * N_TERMS
        gap = m[None, :] - h[:, None]
        combination = combination_of(gap, buckets, last_bucket, n_buckets)
        last_head = tl.minimum(first_head + TILE - 1, n)
        last_modifier = tl.minimum(first_modifier + TILE - 1, n)
        total = tl.zeros([TILE, TILE], dtype=tl.int32)
        for direction in range(2):
            near = tl.where(direction == 0, first_modifier - last_head, first_head - last_modifier)
            far = tl.where(direction == 0, last_modifier - first_head, last_head - first_modifier)
            near = tl.maximum(near, 1)
            sign = 1 - 2 * direction
            begin = combination_of(sign * near, buckets, last_bucket, n_buckets)
            end = combination_of(sign * tl.maximum(far, 1), buckets, last_bucket, n_buckets) + 1
            for c in range(begin, tl.where(far >= near, end, begin)):
                high = tl.zeros([TILE, TILE], dtype=tl.int32)
                low = tl.zeros([TILE, TILE], dtype=tl.int32)
                for first in range(0, SIZE, FACTORS):
                    k = first + tl.arange(0, FACTORS)
                    u = tl.load(
                        heads + head[:, None] * N_COLUMNS + COLUMN + k[None, :],
                        mask=is_head[:, None], other=0,
                    )  # fmt: skip
                    v = tl.load(
                        modifiers + modifier[None, :] * N_COLUMNS + COLUMN + k[:, None],
                        mask=is_modifier[None, :], other=0,
                    )  # fmt: skip
                    factor = tl.load(products + c * SIZE + k).to(tl.int32)[None, :]
                    more = tl.load(linear + c * SIZE + k).to(tl.int32)[None, :]
                    x, y = _digits(u.to(tl.int32) * factor + more)
                    high = tl.dot(x, v, high, out_dtype=tl.int32)
                    low = tl.dot(y, v, low, out_dtype=tl.int32)
                alone = tl.load(of_head + TERM + c, mask=is_head, other=0)
                found = high * 256 + low + alone[:, None]
                total = tl.where(combination == c, found, total)
        total += tl.load(of_modifier + TERM, mask=is_modifier, other=0)[None, :]
        is_left = gap < 0
        for t in range(n_between):
            up_to = counts + (b.to(tl.int64) * n_between + t) * n_nodes
            if tl.load(up_to + n) > 0:
                before_head = tl.load(up_to + h - 1, mask=is_head & (h > 0), other=0)
                before_modifier = tl.load(up_to + m - 1, mask=is_modifier & (m > 0), other=0)
                to_head = tl.load(up_to + h, mask=is_head, other=0)
                to_modifier = tl.load(up_to + m, mask=is_modifier, other=0)
                count = tl.where(
                    is_left, before_head[:, None] - to_modifier[None, :],
                    before_modifier[None, :] - to_head[:, None],
                )  # fmt: skip
                for occurrence in tl.static_range(_OCCURRENCES):
                    right = BETWEEN + occurrence * n_between + t
                    left = right + _OCCURRENCES * n_between
                    term = tl.where(is_left, left, right)
                    on = (count > occurrence) & is_head[:, None] & is_modifier[None, :]
                    total += tl.load(of_head[:, None] + term, mask=on, other=0)
                    total += tl.load(of_modifier[None, :] + term, mask=on, other=0)
        cell = head[:, None] * n_nodes + m[None, :]
        score = _converted(total, fraction, cost, out.dtype.element_ty)
        tl.store(out + cell, score, mask=is_head[:, None] & is_modifier[None, :])


@triton.jit(do_not_specialize=["n_arcs"])
def _score_labels(
    heads_of, modifiers_of, n_arcs, heads, modifiers, head_terms, modifier_terms, products,
    fraction, cost, whole, out,
    N_COLUMNS: tl.constexpr, N_TERMS: tl.constexpr, COLUMN: tl.constexpr, TERM: tl.constexpr,
    SIZE: tl.constexpr, N_LABELS: tl.constexpr, ARCS: tl.constexpr, LABELS: tl.constexpr,
    FACTORS: tl.constexpr,
):  # fmt: skip
    """out[a, l] of all labels l of some arcs a; whole: the scores before they are converted."""
    arc = tl.program_id(0).to(tl.int64) * ARCS + tl.arange(0, ARCS)
    is_arc = arc < n_arcs
    head = tl.load(heads_of + arc, mask=is_arc, other=0)[:, None]
    modifier = tl.load(modifiers_of + arc, mask=is_arc, other=0)[:, None]
    most = tl.full([ARCS], _LEAST, tl.int32)
    for first_label in range(0, N_LABELS, LABELS):
        label = first_label + tl.arange(0, LABELS)
        is_cell = is_arc[:, None] & (label < N_LABELS)[None, :]
        high = tl.zeros([ARCS, LABELS], dtype=tl.int32)
        low = tl.zeros([ARCS, LABELS], dtype=tl.int32)
        for first in range(0, SIZE, FACTORS):
            k = first + tl.arange(0, FACTORS)
            column = COLUMN + k[None, :]
            u = tl.load(heads + head * N_COLUMNS + column, mask=is_arc[:, None], other=0)
            v = tl.load(modifiers + modifier * N_COLUMNS + column, mask=is_arc[:, None], other=0)
            numbers = tl.load(
                products + label[None, :] * SIZE + k[:, None],
                mask=(label < N_LABELS)[None, :], other=0,
            )  # fmt: skip
            x, y = _digits(u.to(tl.int32) * v.to(tl.int32))
            high = tl.dot(x, numbers, high, out_dtype=tl.int32)
            low = tl.dot(y, numbers, low, out_dtype=tl.int32)
        term = TERM + label[None, :]
        total = high * 256 + low
        total += tl.load(head_terms + head * N_TERMS + term, mask=is_cell, other=0)
        total += tl.load(modifier_terms + modifier * N_TERMS + term, mask=is_cell, other=0)
        most = tl.maximum(most, tl.max(tl.where(is_cell, total, _LEAST), axis=1))
        tl.store(whole + arc[:, None] * N_LABELS + label[None, :], total, mask=is_cell)
    tl.debug_barrier()
    for first_label in range(0, N_LABELS, LABELS):
        label = first_label + tl.arange(0, LABELS)
        is_cell = is_arc[:, None] & (label < N_LABELS)[None, :]
        cell = arc[:, None] * N_LABELS + label[None, :]
        total = tl.load(whole + cell, mask=is_cell, other=0) - most[:, None]
        tl.store(out + cell, _converted(total, fraction, cost, out.dtype.element_ty), mask=is_cell)
