"""A model's tables on a device, and all the Triton kernels of scoring over them."""

from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.scoring.arcs import is_guide
from gpuparse.scoring.engines import Scored
from gpuparse.scoring.labels import tree_positions
from gpuparse.scoring.tensors import TensorBatch
from gpuparse.scoring.triton.arcs import ArcTables, PlaceSums, arc_tables, place_sums, score_arcs
from gpuparse.scoring.triton.labels import (
    LabelTables,
    PlaceLines,
    label_arcs,
    label_tables,
    label_trees,
    place_lines,
)
from gpuparse.scoring.triton.siblings import (
    SiblingSums,
    SiblingTables,
    score_siblings,
    sibling_sums,
    sibling_tables,
)
from gpuparse.scoring.weights import label_map


class Sums(NamedTuple):
    """What depends on one place of a batch alone, of all kinds of templates that there are."""

    arcs: PlaceSums
    guides: PlaceSums | None
    siblings: SiblingSums | None
    labels: PlaceLines | None


class Kernels:
    """The kernels of scoring with the tables that they read, which go to the device once.

    Args:
        scored: of a parser. Weights that are learned may change between two calls.
        device: where the work is done.
    """

    def __init__(self, scored: Scored, device: torch.device) -> None:
        plan, features, label_weights = scored.plan, scored.features, scored.label_weights
        self._plan, self._weights, self._label_weights = plan, scored.arcs, label_weights
        self._arcs = arc_tables(plan.arcs, features, device)
        self._guides: ArcTables | None = None
        self._siblings: SiblingTables | None = None
        self._labels: LabelTables | None = None
        self._joint: ArcTables | None = None
        if plan.guide:
            self._guides = arc_tables(plan.guide.arcs, features, device)
        if plan.siblings:
            self._siblings = sibling_tables(plan.siblings, features, device)
        if scored.label_plan:
            self._labels = label_tables(scored.label_plan, device)
        if scored.joint and label_weights:
            self._joint = arc_tables(scored.joint.plan, label_map(len(label_weights.array)), device)

    def sums(self, values: Tensor) -> Sums:
        """All that depends on one place alone; values: (C, T) int32 of a batch, on the device."""
        return Sums(
            place_sums(values, self._arcs, self._weights),
            place_sums(values, self._guides, self._weights) if self._guides else None,
            sibling_sums(values, self._siblings, self._weights) if self._siblings else None,
            place_lines(values, self._joint, self._label_weights)
            if self._joint and self._label_weights
            else None,
        )

    def arc_scores(self, batch: TensorBatch, sums: Sums) -> Tensor:
        """(B, N, N) scores of all arcs, those of guides included."""
        sentences = batch.values, batch.starts, batch.lengths, batch.n_nodes
        arcs = score_arcs(*sentences, self._arcs, sums.arcs, self._weights)
        if self._guides and sums.guides and self._plan.guide:
            of_guides = score_arcs(*sentences, self._guides, sums.guides, self._weights)
            arcs += torch.where(is_guide(batch, self._plan.guide), of_guides, 0)
        return arcs

    def sibling_scores(self, batch: TensorBatch, sums: Sums) -> tuple[Tensor, Tensor]:
        """(B, N, N, N) scores of sibling parts and (B, N, N) of ends."""
        assert self._siblings
        assert sums.siblings
        sentences = batch.values, batch.starts, batch.lengths, batch.n_nodes
        return score_siblings(*sentences, self._siblings, sums.siblings, self._weights)

    def arc_labels(self, batch: TensorBatch, sums: Sums) -> tuple[Tensor, Tensor]:
        """(B, N, N) what the best label of every arc scores, and its number."""
        assert self._joint
        assert self._label_weights
        assert sums.labels
        sentences = batch.starts, batch.lengths, batch.n_nodes
        return label_arcs(*sentences, self._joint, sums.labels, self._label_weights)

    def labels(self, batch: TensorBatch, heads: Tensor, more: Tensor | None = None) -> Tensor:
        """(B, N) labels of finished trees; more: as in `label_trees`."""
        assert self._labels
        assert self._label_weights
        positions = torch.stack(tree_positions(heads))
        sentences = batch.values, batch.starts, batch.lengths
        return label_trees(*sentences, positions, self._labels, self._label_weights, more)
