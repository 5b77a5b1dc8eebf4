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
from gpuparse.scoring.triton.keys import fold, mix
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
) -> Tensor:
    """The best label of every arc of finished trees.

    Args:
        positions: (roles, B, N) int64: the node of each role for every word, or NO_NODE.
    Returns:
        (B, N) int64, the first of the best; -1 where there is no word.
    """
    values, starts, lengths, positions = as_laid_out(values, starts, lengths, positions)
    labels = torch.empty(positions.shape[1:], dtype=torch.int64, device=values.device)
    if labels.numel():
        n_lines, n_labels = weights.array.shape
        with on_device(values.device):
            _label_words[tuple(labels.shape)](
                values, starts, lengths, values.shape[1], labels.shape[1], positions,
                labels.numel(), tables.atoms, tables.templates, len(tables.templates),
                tables.most_atoms, tables.buckets, len(tables.buckets) - 1,
                table_of(weights, values.device), n_lines, n_labels, labels,
                lines_at_once(n_labels), triton.next_power_of_2(n_labels), num_warps=1,
            )  # fmt: skip
    return labels


def lines_at_once(n_labels: int) -> int:
    """Lines of weights that one program reads together: fewer where a line is long."""
    return max(1, min(AT_ONCE, HELD // triton.next_power_of_2(n_labels)))


# Specialised on sizes, n_cells would be no tensor where it is 1, and each size a kernel of its own.
@triton.jit(do_not_specialize=["n_places", "n_nodes", "n_cells"])
def _label_words(
    values, starts, lengths, n_places, n_nodes, positions, n_cells, atoms, templates, n_templates,
    most_atoms, buckets, last_bucket, weights, n_lines, n_labels, out,
    AT_ONCE: tl.constexpr, LABELS: tl.constexpr,
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
        most = tl.max(total, axis=0)
        best = tl.min(tl.where(is_label & (total == most), label, LABELS), axis=0).to(tl.int64)
    tl.store(out + cell, best)
