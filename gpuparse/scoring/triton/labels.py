"""Labels of finished trees on the GPU: hash, gather, sum and the best label in one kernel."""

from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuparse.features.plan import NO_NODE, NO_NODE_VALUE, LabelPlan
from gpuparse.inference.triton.launch import as_laid_out, on_device
from gpuparse.parts import BY_NAME
from gpuparse.scoring.tensors import table_of
from gpuparse.scoring.triton.arcs import (
    ArcTables,
    combination_of,
    place_parts,
    score_type,
    sum_type,
)
from gpuparse.scoring.triton.keys import find_base, fold, is_off, mix, part_of, side_key
from gpuparse.scoring.weights import Weights

AT_ONCE = 16  # lines of weights that one program reads together, at most
HELD = 1024  # weights that it holds
_HEAD = tl.constexpr(BY_NAME["label"].roles.index("h"))
_LEAST = tl.constexpr(-(1 << 30))  # of whole numbers
_ABSENT = tl.constexpr(NO_NODE_VALUE)
_NONE = tl.constexpr(NO_NODE)


class LabelTables(NamedTuple):
    """A LabelPlan on a device; F templates."""

    atoms: Tensor  # (A, 3) int32: role, row, offset
    templates: Tensor  # (F, 4) int32: first atom, last atom + 1, direction, distance
    most_atoms: int
    buckets: Tensor  # (L,) int32


def label_tables(plan: LabelPlan, device: torch.device) -> LabelTables:
    """Put a plan onto a device."""
    atoms = np.stack([plan.role, plan.row, plan.offset], 1).astype(np.int32)
    counts = np.diff(plan.start)
    templates = np.stack([plan.start[:-1], plan.start[1:], plan.direction, plan.distance], 1)
    return LabelTables(
        torch.from_numpy(atoms).to(device),
        torch.from_numpy(templates.astype(np.int32)).to(device),
        int(counts.max(initial=0)),
        torch.from_numpy(plan.buckets.astype(np.int32)).to(device),
    )


def label_trees(
    values: Tensor,
    starts: Tensor,
    lengths: Tensor,
    positions: Tensor,
    tables: LabelTables,
    weights: Weights,
    more: Tensor | None = None,
) -> Tensor:
    """The best label of every arc of finished trees.

    Args:
        positions: (roles, B, N) int64: the node of each role for every word, or NO_NODE.
        more: (B, N, labels or more of them) what is added to the scores.
    Returns: (B, N) int64, the first of the best; -1 where there is no word.
    """
    values, starts, lengths, positions = as_laid_out(values, starts, lengths, positions)
    labels = torch.empty(positions.shape[1:], dtype=torch.int64, device=values.device)
    (added,) = as_laid_out(more if more is not None else labels)
    if labels.numel():
        n_lines, n_labels = weights.array.shape
        with on_device(values.device):
            _label_words[tuple(labels.shape)](
                values, starts, lengths, values.shape[1], labels.shape[1], positions,
                labels.numel(), tables.atoms, tables.templates, len(tables.templates),
                tables.most_atoms, tables.buckets, len(tables.buckets) - 1,
                table_of(weights, values.device), n_lines, n_labels, added, labels,
                0 if more is None else added.shape[2], lines_at_once(n_labels),
                triton.next_power_of_2(n_labels), num_warps=1,
            )  # fmt: skip
    return labels


def lines_at_once(n_labels: int) -> int:
    """Lines of weights that one program reads together: fewer where a line is long."""
    return max(1, min(AT_ONCE, HELD // triton.next_power_of_2(n_labels)))


# Specialised on sizes, n_cells would be no tensor where it is 1, and each size a kernel of its own.
@triton.jit(do_not_specialize=["n_places", "n_nodes", "n_cells"])
def _label_words(
    values, starts, lengths, n_places, n_nodes, positions, n_cells, atoms, templates, n_templates,
    most_atoms, buckets, last_bucket, weights, n_lines, n_labels, more, out,
    MORE: tl.constexpr, AT_ONCE: tl.constexpr, LABELS: tl.constexpr,
):  # fmt: skip
    """out[b, m] = the best label of the word m of sentence b, both of this program."""
    b, m = tl.program_id(0), tl.program_id(1)
    cell = b.to(tl.int64) * n_nodes + m
    label = tl.arange(0, LABELS)
    is_label = label < n_labels
    best = tl.full([], _NONE, tl.int64)
    is_word = (m >= 1) & (m <= tl.load(lengths + b))
    head = tl.load(positions + _HEAD * n_cells.to(tl.int64) + cell)
    if is_word & (head >= 0):
        start = tl.load(starts + b)
        distance = tl.minimum(tl.abs(head - m) - 1, last_bucket)
        bucket = tl.load(buckets + distance)
        least = -float("inf") if weights.dtype.element_ty == tl.float32 else _LEAST
        total = tl.where(is_label, 0, least)
        for first_template in range(0, n_templates, AT_ONCE):
            f = first_template + tl.arange(0, AT_ONCE)
            on = f < n_templates
            first = tl.load(templates + 4 * f, mask=on, other=0)
            last = tl.load(templates + 4 * f + 1, mask=on, other=0)
            key = tl.zeros([AT_ONCE], dtype=tl.uint32)
            for step in range(most_atoms):
                atom = first + step
                is_atom = atom < last
                role = tl.load(atoms + 3 * atom, mask=is_atom, other=0).to(tl.int64)
                row = tl.load(atoms + 3 * atom + 1, mask=is_atom, other=0).to(tl.int64)
                offset = tl.load(atoms + 3 * atom + 2, mask=is_atom, other=0)
                position = tl.load(positions + role * n_cells + cell, mask=is_atom, other=_NONE)
                is_node = is_atom & (position != _NONE)
                place = start + position + offset
                value = tl.load(values + row * n_places + place, mask=is_node, other=_ABSENT)
                on = on & ((value != 0) | ~is_atom)
                key = tl.where(is_atom, fold(key, value.to(tl.uint32)), key)
            has_direction = tl.load(templates + 4 * f + 2, mask=on, other=0) != 0
            is_right = (head < m).to(tl.int32).to(tl.uint32)
            key = tl.where(has_direction, fold(key, is_right), key)
            has_distance = tl.load(templates + 4 * f + 3, mask=on, other=0) != 0
            key = tl.where(has_distance, fold(key, bucket.to(tl.uint32)), key)
            key = mix(key, (f + 1).to(tl.uint32))
            line = (key.to(tl.int64) * n_lines) >> 32
            weight = tl.load(
                weights + line[:, None] * n_labels + label[None, :],
                mask=on[:, None] & is_label[None, :],
                other=0,
            )
            total += tl.sum(weight.to(total.dtype), axis=0)
        if MORE > 0:
            total += tl.load(more + cell * MORE + label, mask=is_label, other=0).to(total.dtype)
        most = tl.max(total, axis=0)
        best = tl.min(tl.where(is_label & (total == most), label, LABELS), axis=0).to(tl.int64)
    tl.store(out + cell, best)


PLACES = 4  # places that one program sums the word families of


class PlaceLines(NamedTuple):
    """What depends on one place of a batch alone."""

    parts: Tensor  # (2F, T), as in PlaceSums
    words: Tensor  # (2, T, 2, L) sums of the templates of one word, by role, place, direction


def place_lines(values: Tensor, tables: ArcTables, weights: Weights) -> PlaceLines:
    """Compute what depends on one place alone.

    Args:
        values: (C, T) int32 of a batch, on the device.
        tables: of a plan of `compile_joint_labels` and the map of the lines.
        weights: (lines, L), one column a label.
    """
    (values,) = as_laid_out(values)
    n_places, n_labels = values.shape[1], weights.array.shape[1]
    shape = 2, n_places, 2, n_labels
    words = torch.empty(shape, dtype=sum_type(weights), device=values.device)
    if n_places:
        with on_device(values.device):
            _sum_word_lines[triton.cdiv(n_places, PLACES), 2](
                values, n_places, tables.atoms, tables.words, tables.n_head_words,
                len(tables.words), tables.codes, tables.codes.shape[1], tables.n_buckets,
                table_of(weights, values.device), n_labels, words, *tables.map.search,
                tables.map.kind, PLACES, triton.next_power_of_2(n_labels), num_warps=2,
            )  # fmt: skip
    return PlaceLines(place_parts(values, tables), words)


def label_arcs(
    starts: Tensor,
    lengths: Tensor,
    n_nodes: int,
    tables: ArcTables,
    sums: PlaceLines,
    weights: Weights,
) -> tuple[Tensor, Tensor]:
    """What the best label of every arc scores and its number, (B, N, N) each with N = n_nodes."""
    starts, lengths = as_laid_out(starts, lengths)
    device, n_labels = starts.device, weights.array.shape[1]
    grid = len(lengths), n_nodes
    best = torch.zeros((*grid, n_nodes), dtype=score_type(weights), device=device)
    labels = torch.zeros((*grid, n_nodes), dtype=torch.int64, device=device)
    if best.numel():
        with on_device(device):
            _label_arcs[grid](
                starts, lengths, sums.parts.shape[1], n_nodes, sums.parts, len(sums.parts) // 2,
                sums.words, tables.codes, tables.codes.shape[1], tables.groups,
                len(tables.groups), tables.buckets, len(tables.buckets) - 1, tables.n_buckets,
                table_of(weights, device), n_labels, best, labels, *tables.map.search,
                tables.map.kind, lines_at_once(n_labels), triton.next_power_of_2(n_labels),
                num_warps=1,
            )  # fmt: skip
    return best, labels


@triton.jit(do_not_specialize=["n_places"])
def _sum_word_lines(
    values, n_places, atoms, words, n_head_words, n_words, codes, n_codes, n_buckets, weights,
    n_labels, out, mask, n_lines,
    KIND: tl.constexpr, BLOCK: tl.constexpr, LABELS: tl.constexpr,
):  # fmt: skip
    """out[role, t, direction, l] = sum of the role's word families at place t for label l."""
    role = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    label = tl.arange(0, LABELS)
    is_label = (label < n_labels)[None, :]
    begin = tl.where(role == 0, 0, n_head_words)
    end = tl.where(role == 0, n_head_words, n_words)
    for direction in range(2):
        total = tl.zeros([BLOCK, LABELS], dtype=out.dtype.element_ty)
        for w in range(begin, end):
            record = words + 5 * w
            first, last, salt = tl.load(record), tl.load(record + 1), tl.load(record + 2)
            key, on = side_key(values, n_places, place, atoms, first, last, False)
            part = part_of(key, on, salt, mask, KIND)
            base = find_base(part, n_lines, KIND)
            for suffix in range(3, 5):
                table = tl.load(record + suffix)
                if table >= 0:
                    row = base ^ tl.load(codes + table * n_codes + direction * n_buckets)
                    weight = tl.load(
                        weights + row.to(tl.int64)[:, None] * n_labels + label[None, :],
                        mask=(~is_off(part))[:, None] & is_label,
                        other=0,
                    )
                    total += weight.to(total.dtype)
        cell = ((role * n_places + place).to(tl.int64) * 2 + direction)[:, None] * n_labels
        tl.store(out + cell + label[None, :], total, mask=(place < n_places)[:, None] & is_label)


@triton.jit(do_not_specialize=["n_places", "n_nodes"])
def _label_arcs(
    starts, lengths, n_places, n_nodes, parts, n_families, words, codes, n_codes, groups, n_groups,
    buckets, last_bucket, n_buckets, weights, n_labels, best, labels,
    mask, n_lines,
    KIND: tl.constexpr, AT_ONCE: tl.constexpr, LABELS: tl.constexpr,
):  # fmt: skip
    """best[b, h, m] and labels[b, h, m] of every modifier of the head h of this program."""
    b, h = tl.program_id(0), tl.program_id(1)
    n = tl.load(lengths + b).to(tl.int32)
    start = tl.load(starts + b)
    label = tl.arange(0, LABELS)
    is_label = label < n_labels
    least = -float("inf") if words.dtype.element_ty == tl.float32 else _LEAST
    for m in range(1, tl.where(h <= n, n + 1, 0)):
        direction = tl.where(m < h, 1, 0)
        combination = combination_of(m - h, buckets, last_bucket, n_buckets)
        of_head = ((start + h) * 2 + direction) * n_labels
        of_modifier = ((n_places + start + m) * 2 + direction) * n_labels
        total = tl.load(words + of_head + label, mask=is_label, other=0)
        total += tl.load(words + of_modifier + label, mask=is_label, other=0)
        for g in range(n_groups):
            begin, end = tl.load(groups + 4 * g), tl.load(groups + 4 * g + 1)
            for f in range(begin, end, AT_ONCE):
                family = (f + tl.arange(0, AT_ONCE)).to(tl.int64)
                inside = family < end
                head = tl.load(parts + family * n_places + start + h, mask=inside, other=-1)
                modifier = tl.load(
                    parts + (n_families + family) * n_places + start + m, mask=inside, other=-1
                )
                on = ~is_off(head | modifier)
                base = find_base(head ^ modifier, n_lines, KIND)
                for suffix in range(2, 4):
                    table = tl.load(groups + 4 * g + suffix)
                    if table >= 0:
                        row = base ^ tl.load(codes + table * n_codes + combination)
                        weight = tl.load(
                            weights + row.to(tl.int64)[:, None] * n_labels + label[None, :],
                            mask=on[:, None] & is_label[None, :],
                            other=0,
                        )
                        total += tl.sum(weight.to(total.dtype), axis=0)
        most = tl.max(tl.where(is_label, total, least), axis=0)
        chosen = tl.min(tl.where(is_label & (total == most), label, LABELS), axis=0)
        arc = (b.to(tl.int64) * n_nodes + h) * n_nodes + m
        tl.store(best + arc, most.to(best.dtype.element_ty))
        tl.store(labels + arc, chosen.to(tl.int64))
