"""Labels of finished trees: the compiled form and its torch twin."""

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.batch import Batch
from gpuparse.features.keys import fold_torch, mix_torch
from gpuparse.features.label_plan import ABSENT, NONE, LabelPlan
from gpuparse.features.templates import LABEL_ROLES
from gpuparse.inference.backends import choose_backend
from gpuparse.scoring.cpu_labels import label_sentences, make_label_scratch
from gpuparse.scoring.weights import Weights, sum_bags


def best_labels(
    batch: Batch, heads: Tensor, plan: LabelPlan, weights: Weights, *, backend: str = "auto"
) -> Tensor:
    """The best label of every arc of finished trees.

    Args:
        batch: B sentences of at most N - 1 words.
        heads: (B, N) int64 trees, -1 at the root and in padding.
        plan, weights: the compiled templates, and one line of weights, a label each, per key.
        backend: "cpu" (compiled), "torch" (any device), or "auto".
    Returns:
        (B, N) int64 label numbers, the first of equals; -1 at the root and in padding.
    Cost: O(templates * labels) a word.
    Source: McDonald, Lerman & Pereira (2006): labels as a second stage.
    """
    if choose_backend(backend, batch.values.device) == "torch":
        return _torch_labels(batch, heads, plan, weights)
    words = heads >= 0
    ragged = torch.full((batch.values.shape[1],), NONE, dtype=torch.int64)
    places = batch.places()
    ragged[places[words]] = heads[words]
    labels = np.full(len(ragged), NONE, np.int64)
    label_ragged(batch, ragged.numpy(), plan, weights, labels)
    return torch.where(words, torch.from_numpy(labels)[places], NONE)


def label_ragged(
    batch: Batch, heads: np.ndarray, plan: LabelPlan, weights: Weights, labels: np.ndarray
) -> None:
    """As `best_labels`, compiled: fill `labels` (T,) from `heads` (T,), both by place."""
    sums = np.dtype(np.int32 if weights.is_integer else np.float32)
    n_lines, n_labels = weights.array.shape
    longest = int(batch.lengths.max())
    label_sentences(
        batch.values.numpy(), batch.starts.numpy(), batch.lengths.numpy(), heads, plan,
        weights.array.reshape(-1), n_lines,
        make_label_scratch(len(plan.direction), n_labels, longest, sums), labels,
    )  # fmt: skip


def _torch_labels(batch: Batch, heads: Tensor, plan: LabelPlan, weights: Weights) -> Tensor:
    positions = _positions(heads)
    places = batch.starts.unsqueeze(1) + heads.new_zeros(heads.shape)
    nodes = torch.arange(heads.shape[1], device=heads.device).expand_as(heads)
    distance = (positions[0] - nodes).abs().clamp(min=1) - 1
    buckets = torch.from_numpy(plan.buckets).to(heads.device)
    bucket = buckets[distance.clamp(max=len(plan.buckets) - 1)]
    n_lines = len(weights.array)
    rows = []
    for f in range(len(plan.direction)):
        key = torch.zeros_like(heads)
        on = heads >= 0
        for atom in range(int(plan.start[f]), int(plan.start[f + 1])):
            position = positions[plan.role[atom]]
            place = (places + position + int(plan.offset[atom])).clamp(0, batch.values.shape[1] - 1)
            value = batch.values[plan.row[atom]].long()[place]
            value = torch.where(position == NONE, ABSENT, value)
            on = on & (value != 0)
            key = fold_torch(key, value)
        if plan.direction[f]:
            key = fold_torch(key, (positions[0] < nodes).long())
        if plan.distance[f]:
            key = fold_torch(key, bucket)
        line = (mix_torch(key, f + 1) * n_lines) >> 32
        rows.append(torch.where(on, line, n_lines))
    # [B, N, labels]
    scores = sum_bags(weights.bag(heads.device, len(rows)), torch.stack(rows, -1))
    best = scores.max(-1, keepdim=True).values
    numbers = torch.arange(scores.shape[-1], device=heads.device)
    first = torch.where(scores == best, numbers, scores.shape[-1]).min(-1).values
    return torch.where(heads >= 0, first, NONE)


def _positions(heads: Tensor) -> list[Tensor]:
    """(B, N) the node of each of LABEL_ROLES for every word, or NONE."""
    n_nodes = heads.shape[1]
    nodes = torch.arange(n_nodes, device=heads.device)
    word = heads >= 0
    # [B, N, N]: sister[b, m, k] for words m and k of one head; below[b, m, k] for k under m
    sister = (heads.unsqueeze(2) == heads.unsqueeze(1)) & word.unsqueeze(2) & word.unsqueeze(1)
    below = (heads.unsqueeze(1) == nodes.unsqueeze(1)) & word.unsqueeze(1)
    far = n_nodes

    def nearest_right(mask: Tensor) -> Tensor:
        found = torch.where(mask, nodes, far).min(-1).values
        return torch.where(found == far, NONE, found)

    def nearest_left(mask: Tensor) -> Tensor:
        return torch.where(mask, nodes, NONE).max(-1).values

    grand = torch.where(heads > 0, heads.gather(1, heads.clamp(min=0)), NONE)
    by_role = {
        "h": heads,
        "m": nodes.expand_as(heads),
        "g": grand,
        "p": nearest_left(sister & (nodes < nodes.unsqueeze(1))),
        "q": nearest_right(sister & (nodes > nodes.unsqueeze(1))),
        "l": nearest_right(below),
        "r": nearest_left(below),
    }
    return [by_role[role] for role in LABEL_ROLES]
