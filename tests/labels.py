"""The best labels of trees and graphs, from the same calls and scores as in the engines."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import LabelPlan
from gpuparse.scorers.linear.labels import arc_label_scores
from gpuparse.scorers.linear.weights import Weights
from gpuparse.scorers.native import GraphHeads, sentences_of
from gpuparse.scorers.tensors import first_best
from tests.scoring.forms import AnyBatch, as_arrays, as_tensors


def tree_label_scores(batch: AnyBatch, heads: Tensor, plan: LabelPlan, weights: Weights) -> Tensor:
    """(B, N, labels) scores of the labels of finished trees (B, N), 0 where there is no word."""
    b, m = (heads >= 0).nonzero(as_tuple=True)
    found = arc_label_scores(as_tensors(batch), heads, (b, heads[b, m], m), plan, weights)
    scores = found.new_zeros(*heads.shape, found.shape[-1])
    scores[b, m] = found
    return scores


def best_labels(
    batch: AnyBatch, heads: Tensor, plan: LabelPlan, weights: Weights, *, engine: str = "native"
) -> Tensor:
    """(B, N) int64 labels of finished trees, the first of equals; -1 where there is no word.

    Args:
        heads: (B, N) int64 trees, -1 at the root and in padding.
        engine: "native" (native code) or "torch" (any device).
    """
    words = heads >= 0
    if engine == "torch":
        return torch.where(words, first_best(tree_label_scores(batch, heads, plan, weights)), -1)
    labels = np.full(batch.values.shape[1], -1, np.int64)
    label_by_place(as_arrays(batch), heads_by_place(batch, heads), None, plan, weights, labels)
    return torch.where(words, torch.from_numpy(labels)[as_tensors(batch).places()], -1)


def best_graph_labels(
    batch: AnyBatch, heads: Tensor, arcs: Tensor, plan: LabelPlan, weights: Weights,
    may_be_primary: np.ndarray, *, engine: str = "native",
) -> Tensor:  # fmt: skip
    """(B, N, N) int64 labels of the arcs of graphs, [b, h, m]; -1 where there is no arc.

    Args:
        heads: (B, N) int64 trees of the primary heads, -1 at the root and in padding.
        arcs: (B, N, N) bool; an arc is primary if heads[b, m] is h.
        may_be_primary: (labels,) bool: the labels that primary arcs may have.
        engine: as `best_labels`.
    """
    labels = torch.full(arcs.shape, -1, device=arcs.device)
    # Sentence by sentence, words ascending, and for each word its heads.
    b, m, h = arcs.transpose(1, 2).nonzero(as_tuple=True)
    if engine == "torch":
        refused = (heads[b, m] == h).unsqueeze(1) & ~torch.from_numpy(may_be_primary).to(h.device)
        scores = arc_label_scores(as_tensors(batch), heads, (b, h, m), plan, weights)
        labels[b, h, m] = first_best(scores.masked_fill(refused, -torch.inf))
        return labels
    at = as_tensors(batch).places()[b, m]
    order = torch.argsort(at, stable=True)  # sentences need not lie in their order
    counts = torch.bincount(at, minlength=batch.values.shape[1]).numpy()
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    graphs = GraphHeads(starts, h[order].numpy(), may_be_primary)
    found = np.full(len(order), -1, np.int64)
    label_by_place(as_arrays(batch), heads_by_place(batch, heads), graphs, plan, weights, found)
    labels[b[order], h[order], m[order]] = torch.from_numpy(found)
    return labels


def heads_by_place(batch: AnyBatch, heads: Tensor) -> np.ndarray:
    """(T,) heads of words by place, from those by sentence (B, N)."""
    found = torch.full((batch.values.shape[1],), -1)
    found[as_tensors(batch).places()[heads >= 0]] = heads[heads >= 0]
    return found.numpy()


def label_by_place(
    batch: Batch, heads: np.ndarray, graphs: GraphHeads | None, plan: LabelPlan, weights: Weights,
    labels: np.ndarray,
) -> None:  # fmt: skip
    """Fill `labels` in native code: (T,) of trees, or (A,) of the arcs of graphs."""
    native.call(
        "label_batch", sentences_of(batch), plan, weights.array, None, heads, graphs, labels
    )
