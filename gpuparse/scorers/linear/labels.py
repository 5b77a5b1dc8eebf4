"""Labels of finished trees and graphs, and the best labels of all arcs: native and torch forms."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import NO_NODE, NO_NODE_VALUE, ArcPlan, LabelPlan
from gpuparse.inference.backends import choose_engine
from gpuparse.parts import BY_NAME
from gpuparse.scorers.linear.arcs import TorchScorer
from gpuparse.scorers.linear.bags import bag_of, sum_bags
from gpuparse.scorers.linear.hashing import fold, mix
from gpuparse.scorers.linear.weights import Weights, label_map
from gpuparse.scorers.native import GraphHeads, sentences_of
from gpuparse.scorers.sizes import ROWS_AT_ONCE
from gpuparse.scorers.tensors import (
    AnyBatch,
    TensorBatch,
    as_arrays,
    as_tensors,
    device_of,
    first_best,
)

LABEL_ROLES = BY_NAME["label"].roles


def best_labels(
    batch: AnyBatch,
    heads: Tensor,
    plan: LabelPlan,
    weights: Weights,
    *,
    backend: str = "auto",
) -> Tensor:
    """The best label of every arc of finished trees.

    Args:
        batch: B sentences of at most N - 1 words.
        heads: (B, N) int64 trees, -1 at the root and in padding.
        plan, weights: the compiled templates, and one line of weights, a label each, per key.
        backend: "cpu" (native code), "torch" (any device), or "auto".
    Returns: (B, N) int64 label numbers, the first of equals; -1 at the root and in padding.
    Cost: O(templates * labels) a word.
    Source: McDonald, Lerman & Pereira (2006): labels as a second stage.
    """
    if choose_engine(backend, device_of(batch)) == "torch":
        scores = tree_label_scores(as_tensors(batch), heads, plan, weights)
        return torch.where(heads >= 0, first_best(scores), NO_NODE)
    words = heads >= 0
    ragged = torch.full((batch.values.shape[1],), NO_NODE, dtype=torch.int64)
    places = as_tensors(batch).places()
    ragged[places[words]] = heads[words]
    labels = np.full(len(ragged), NO_NODE, np.int64)
    label_ragged(as_arrays(batch), ragged.numpy(), plan, weights, labels)
    return torch.where(words, torch.from_numpy(labels)[places], NO_NODE)


def label_ragged(
    batch: Batch, heads: np.ndarray, plan: LabelPlan, weights: Weights, labels: np.ndarray,
) -> None:  # fmt: skip
    """As `best_labels`, in native code: fill `labels` (T,) from `heads` (T,), both by place."""
    native.call("label_batch", sentences_of(batch), plan, weights.array, None, heads, None, labels)


def best_graph_labels(
    batch: AnyBatch,
    heads: Tensor,
    arcs: Tensor,
    plan: LabelPlan,
    weights: Weights,
    may_be_primary: np.ndarray,
    *,
    backend: str = "auto",
) -> Tensor:
    """The best label of every arc of graphs in which words may have several heads.

    Each arc is labelled for itself. What templates see there is the tree of the primary arcs, and
    `o` for an arc that is not primary; so the label of a word's only head is as in `best_labels`,
    whatever heads other words have.

    Args:
        batch: B sentences of at most N - 1 words.
        heads: (B, N) int64 trees of the primary heads, -1 at the root and in padding.
        arcs: (B, N, N) bool, [b, h, m]; an arc is primary if heads[b, m] is h.
        plan, weights: the compiled templates, and one line of weights, a label each, per key.
        may_be_primary: (labels,) bool: the labels that primary arcs may have, one at least.
        backend: "cpu" (native code), "torch" (any device), or "auto".
    Returns:
        (B, N, N) int64 label numbers, [b, h, m], the first of equals; -1 where there is no arc.
    Raises: ValueError: no label may be primary.
    Cost: O(templates * labels) an arc, and O(N) more for each arc of a word with several heads.
    Source: McDonald, Lerman & Pereira (2006), the second stage; differs: there of trees only.
    """
    _require_primary(may_be_primary)
    labels = torch.full(arcs.shape, NO_NODE, dtype=torch.int64, device=arcs.device)
    # Sentence by sentence, words ascending, and for each word its heads.
    b, m, h = arcs.transpose(1, 2).nonzero(as_tuple=True)
    if choose_engine(backend, device_of(batch)) == "torch":
        permitted = torch.from_numpy(may_be_primary).to(arcs.device)
        labels[b, h, m] = graph_labels(
            as_tensors(batch), heads, (b, h, m), plan, weights, permitted
        )
        return labels
    n_places, places = batch.values.shape[1], as_tensors(batch).places()
    trees = torch.full((n_places,), NO_NODE, dtype=torch.int64)
    trees[places[heads >= 0]] = heads[heads >= 0]
    order = torch.argsort(places[b, m], stable=True)  # sentences need not lie in their order
    counts = torch.bincount(places[b, m], minlength=n_places).numpy()
    arc_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    found = np.full(len(order), NO_NODE, np.int64)
    label_ragged_graphs(
        as_arrays(batch),
        trees.numpy(),
        arc_starts,
        h[order].numpy(),
        plan,
        weights,
        may_be_primary,
        found,
    )
    labels[b[order], h[order], m[order]] = torch.from_numpy(found)
    return labels


def label_ragged_graphs(
    batch: Batch,
    heads: np.ndarray,
    arc_starts: np.ndarray,
    arc_heads: np.ndarray,
    plan: LabelPlan,
    weights: Weights,
    may_be_primary: np.ndarray,
    labels: np.ndarray,
) -> None:
    """As `best_graph_labels`, in native code: fill `labels` (A,), one for each of `arc_heads` (A,).

    Args:
        heads: (T,) int64 primary heads by place.
        arc_starts: (T + 1,) int64: the word at place t has the heads
            arc_heads[arc_starts[t] : arc_starts[t + 1]], int64.
    """
    _require_primary(may_be_primary)
    graphs = GraphHeads(arc_starts, arc_heads, may_be_primary)
    native.call(
        "label_batch", sentences_of(batch), plan, weights.array, None, heads, graphs, labels
    )


def _require_primary(may_be_primary: np.ndarray) -> None:
    if not may_be_primary.any():
        raise ValueError("no label may stand on a primary arc, so that no tree can be labelled")


def tree_label_scores(
    batch: TensorBatch, heads: Tensor, plan: LabelPlan, weights: Weights,
) -> Tensor:  # fmt: skip
    """(B, N, labels) scores of the labels of finished trees (B, N), 0 where there is no word."""
    lines = label_lines(
        batch,
        batch.starts.unsqueeze(1),
        tree_positions(heads),
        heads >= 0,
        plan,
        len(weights.array),
    )
    return sum_bags(bag_of(weights, heads.device, lines.shape[-1]), lines)


def graph_labels(
    batch: TensorBatch,
    heads: Tensor,
    arcs: tuple[Tensor, Tensor, Tensor],
    plan: LabelPlan,
    weights: Weights,
    may_be_primary: Tensor,
) -> Tensor:
    """(A,) labels of the arcs given as sentences, heads and modifiers (A,)."""
    b, h, m = arcs
    refused = (heads[b, m] == h).unsqueeze(1) & ~may_be_primary
    scores = arc_label_scores(batch, heads, arcs, plan, weights)
    return first_best(scores.masked_fill(refused, -torch.inf))


def arc_label_scores(
    batch: TensorBatch,
    heads: Tensor,
    arcs: tuple[Tensor, Tensor, Tensor],
    plan: LabelPlan,
    weights: Weights,
) -> Tensor:
    """(A, labels) scores of the labels of arcs of finished graphs, given as `graph_labels`."""
    b, h, _ = arcs
    everywhere = torch.ones_like(h, dtype=torch.bool)
    positions = arc_positions(heads, *arcs)
    lines = label_lines(batch, batch.starts[b], positions, everywhere, plan, len(weights.array))
    return sum_bags(bag_of(weights, h.device, lines.shape[-1]), lines)


def label_lines(
    batch: TensorBatch, starts: Tensor, positions: list[Tensor], on: Tensor, plan: LabelPlan,
    n_lines: int,
) -> Tensor:  # fmt: skip
    """(..., F) lines of the features of arcs; the number of lines for a feature that does not fire.

    Args:
        starts: places of the roots of the arcs' sentences.
        positions: the nodes of LABEL_ROLES, each (...).
        on: (...) bool, False for no features.
    """
    h, m = positions[LABEL_ROLES.index("h")], positions[LABEL_ROLES.index("m")]
    distance = (h - m).abs().clamp(min=1) - 1
    buckets = torch.from_numpy(plan.buckets).to(h.device)
    bucket = buckets[distance.clamp(max=len(plan.buckets) - 1)]
    rows = []
    for f in range(len(plan.direction)):
        key, fires = torch.zeros_like(h), on
        for atom in range(int(plan.start[f]), int(plan.start[f + 1])):
            position = positions[plan.role[atom]]
            place = (starts + position + int(plan.offset[atom])).clamp(0, batch.values.shape[1] - 1)
            value = batch.values[plan.row[atom]].long()[place]
            value = torch.where(position == NO_NODE, NO_NODE_VALUE, value)
            fires = fires & (value != 0)
            key = fold(key, value)
        if plan.direction[f]:
            key = fold(key, (h < m).long())
        if plan.distance[f]:
            key = fold(key, bucket)
        line = (mix(key, f + 1) * n_lines) >> 32
        rows.append(torch.where(fires, line, n_lines))
    return torch.stack(rows, -1) if rows else h.new_zeros(*h.shape, 0)


def tree_positions(heads: Tensor) -> list[Tensor]:
    """(B, N) the node of each of LABEL_ROLES for every word, or NO_NODE."""
    n_nodes = heads.shape[1]
    nodes = torch.arange(n_nodes, device=heads.device)
    word = heads >= 0
    # [B, N, N]: sister[b, m, k] for words m and k of one head; below[b, m, k] for k under m
    sister = (heads.unsqueeze(2) == heads.unsqueeze(1)) & word.unsqueeze(2) & word.unsqueeze(1)
    below = (heads.unsqueeze(1) == nodes.unsqueeze(1)) & word.unsqueeze(1)
    by_role = {
        "h": heads,
        "m": nodes.expand_as(heads),
        "g": torch.where(heads > 0, heads.gather(1, heads.clamp(min=0)), NO_NODE),
        "p": _last_true(sister & (nodes < nodes.unsqueeze(1))),
        "q": _first_true(sister & (nodes > nodes.unsqueeze(1))),
        "l": _first_true(below),
        "r": _last_true(below),
        "o": torch.full_like(heads, NO_NODE),
    }
    return [by_role[role] for role in LABEL_ROLES]


def arc_positions(heads: Tensor, b: Tensor, h: Tensor, m: Tensor) -> list[Tensor]:
    """(A,) the node of each of LABEL_ROLES for every arc, or NO_NODE; heads: the primary ones."""
    nodes = torch.arange(heads.shape[1], device=heads.device)
    # [A, N]: which nodes lie under the arc's head, and under its modifier
    under_head, under_modifier = (heads[b] == node.unsqueeze(1) for node in (h, m))
    primary = heads[b, m]
    by_role = {
        "h": h,
        "m": m,
        "g": torch.where(h > 0, heads[b, h], NO_NODE),
        "p": _last_true(under_head & (nodes < m.unsqueeze(1))),
        "q": _first_true(under_head & (nodes > m.unsqueeze(1))),
        "l": _first_true(under_modifier),
        "r": _last_true(under_modifier),
        "o": torch.where(primary == h, NO_NODE, primary),
    }
    return [by_role[role] for role in LABEL_ROLES]


def _first_true(mask: Tensor) -> Tensor:
    """The first number of the last dimension that is True, or NO_NODE."""
    nodes, far = torch.arange(mask.shape[-1], device=mask.device), mask.shape[-1]
    found = torch.where(mask, nodes, far).min(-1).values
    return torch.where(found == far, NO_NODE, found)


def _last_true(mask: Tensor) -> Tensor:
    """The last number of the last dimension that is True, or NO_NODE."""
    nodes = torch.arange(mask.shape[-1], device=mask.device)
    return torch.where(mask, nodes, NO_NODE).max(-1).values


def all_label_scores(
    batch: AnyBatch, plan: ArcPlan, weights: Weights, *, rows_at_once: int = ROWS_AT_ONCE
) -> Tensor:
    """The scores of all labels of every arc, whatever tree it may be in, by operations of torch.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan: of `compile_joint_labels`.
        weights: (lines, L), one column a label.
        rows_at_once: feature rows held in memory at a time, at least.
    Returns: (B, N, N, L), in the type of `arc_scores`. Column 0, the diagonal and padding hold
        nothing of use.
    Cost: O(templates * labels) an arc.
    Source: Carreras (2007), section 2: the best label of each dependency is chosen as its part is
        scored.
    """
    lines = label_map(len(weights.array))
    scorer = TorchScorer(as_tensors(batch), plan, lines, weights, rows_at_once)
    scores = scorer.scores()
    return scores.reshape(*scores.shape[:3], -1)  # those of a single label are (B, N, N)
