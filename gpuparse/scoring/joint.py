"""Labels found with the trees: the best label of every arc, in torch and by Triton kernels."""

import torch
from torch import Tensor

from gpuparse.features.plan import ArcPlan
from gpuparse.inference.backends import choose_backend
from gpuparse.scoring.arcs import ROWS_AT_ONCE, TorchScorer
from gpuparse.scoring.joint_labels import label_map
from gpuparse.scoring.tensors import AnyBatch, as_tensors, device_of
from gpuparse.scoring.weights import Weights


def best_arc_labels(
    batch: AnyBatch,
    plan: ArcPlan,
    weights: Weights,
    *,
    backend: str = "torch",
    rows_at_once: int = ROWS_AT_ONCE,
) -> tuple[Tensor, Tensor]:
    """The best label of every arc, whatever tree it may be in.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan: of `compile_joint_labels`.
        weights: (lines, L), one column a label.
        backend: "torch" (any device) or "gpu" (Triton kernels).
        rows_at_once: feature rows and label scores held in memory at a time, at least.
    Returns:
        (B, N, N) what the best label of each arc scores, in the type of `arc_scores`, and
        (B, N, N) int64 its number, the first of equals. Column 0, the diagonal and padding hold
        nothing of use.
    Cost: O(templates * labels) an arc.
    Source: Carreras (2007), section 2: the best label of each dependency is chosen as its part is
        scored.
    """
    chosen, batch = choose_backend(backend, device_of(batch), has_kernels=True), as_tensors(batch)
    if chosen == "gpu":
        from gpuparse.scoring.triton import arcs, joint  # Triton only where it is needed

        features = label_map(len(weights.array))
        tables = arcs.arc_tables(plan, features, batch.values.device)
        sentences = batch.starts, batch.lengths, batch.n_nodes
        sums = joint.place_lines(batch.values, tables, weights)
        return joint.label_arcs(*sentences, tables, sums, weights)
    scorer = TorchScorer(batch, plan, label_map(len(weights.array)), weights, rows_at_once)

    def best(scores: Tensor) -> tuple[Tensor, ...]:
        scores = scores.reshape(*scores.shape[:2], -1)  # those of a single label are (G, N)
        # argmax alone does not say which of equals it takes.
        most = scores.max(-1).values
        labels = torch.arange(scores.shape[-1], device=scores.device)
        first = torch.where(scores == most.unsqueeze(-1), labels, scores.shape[-1]).min(-1).values
        return most, first

    most, first = scorer.reduced(best)
    return most, first
