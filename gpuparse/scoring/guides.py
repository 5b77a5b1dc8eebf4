"""Scores of guides: what is added to the arcs of a batch that another parser proposes."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import GuidePlan, Plan
from gpuparse.inference.backends import choose_backend
from gpuparse.scoring.arcs import ROWS_AT_ONCE, TorchScorer
from gpuparse.scoring.native import make_scorer, sentences_of
from gpuparse.scoring.tensors import AnyBatch, TensorBatch, as_arrays, as_tensors, device_of
from gpuparse.scoring.weights import FeatureMap, Weights


def guide_scores(
    batch: AnyBatch,
    plan: GuidePlan,
    features: FeatureMap,
    weights: Weights,
    *,
    backend: str = "auto",
    rows_at_once: int = ROWS_AT_ONCE,
) -> Tensor:
    """What guide features add to the scores of all arcs of all sentences.

    Args:
        batch: B sentences of at most N - 1 words with a row of guides, on the device that is to do
            the work.
        plan, features, weights: as in `gpuparse.scoring.arcs.arc_scores`.
        backend: "cpu" (native code), "torch" (any device), or "auto".
        rows_at_once: feature rows that the torch form holds in memory at a time, at least.
    Returns:
        (B, N, N): [b, h, m] of the arc h -> m, 0 for arcs without a guide; dtypes as in arc_scores.
    Cost: families times n gathers a sentence (torch: times n^2).
    Source: McDonald, Crammer & Pereira (2005), section 3.1: "a feature [...] that indicates for
        given edge, whether the Collins parser believed this dependency actually exists".
    """
    if choose_backend(backend, device_of(batch)) == "cpu":
        return _by_native(as_arrays(batch), plan, features, weights)
    tensors = as_tensors(batch)
    scores = TorchScorer(tensors, plan.arcs, features, weights, rows_at_once).scores()
    return torch.where(is_guide(tensors, plan), scores, 0)


def is_guide(batch: TensorBatch, plan: GuidePlan) -> Tensor:
    """(B, N, N) bool: whether h is the guide head of m."""
    nodes = torch.arange(batch.n_nodes, device=batch.values.device)
    heads = batch.values[plan.row].long()[batch.places()]
    return heads.unsqueeze(1) == nodes.unsqueeze(1) + 1


def _by_native(batch: Batch, plan: GuidePlan, features: FeatureMap, weights: Weights) -> Tensor:
    nodes = batch.n_nodes
    out = np.zeros((len(batch), nodes, nodes), np.float64 if weights.is_integer else np.float32)
    scorer = make_scorer(Plan(plan.arcs, guide=plan), weights, features.rows)
    native.call("score_guides_batch", sentences_of(batch), scorer, out)
    return torch.from_numpy(out)
