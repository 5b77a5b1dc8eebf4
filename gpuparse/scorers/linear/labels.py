"""Scores of the labels of finished trees and graphs, and of all labels of all arcs, in torch."""

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.parts import BY_NAME
from gpuparse.features.plan import NO_NODE, NO_NODE_VALUE, ArcPlan, LabelPlan
from gpuparse.scorers.linear.arcs import TorchSums
from gpuparse.scorers.linear.embedding_bag import sum_rows
from gpuparse.scorers.linear.hashing import fold, mix
from gpuparse.scorers.linear.plan_tensors import atoms_in_turn, kept_tables, sender
from gpuparse.scorers.linear.weights import Weights, label_map
from gpuparse.scorers.tensors import TensorBatch

LABEL_ROLES = BY_NAME["label"].roles


def arc_label_scores(
    batch: TensorBatch,
    heads: Tensor,
    arcs: tuple[Tensor, Tensor, Tensor],
    plan: LabelPlan,
    weights: Weights,
) -> Tensor:
    """The scores of the labels of arcs of finished trees and graphs.

    Each arc is scored for itself. What templates see there is the tree of the primary arcs, and
    `o` for an arc that is not primary; so the scores at the only head of a word are the same
    for all heads of other words.

    Args:
        batch: B sentences of at most N - 1 words.
        heads: (B, N) int64 trees of the primary heads, -1 at the root and in padding.
        arcs: sentences, heads and modifiers, each (A,) int64.
        plan, weights: the compiled templates, and one line of weights, a label each, per key.
    Returns: (A, labels).
    Cost: O(templates * labels + N) per arc.
    Source: McDonald, Lerman & Pereira (2006): labels as a second stage; differs: there of trees
        only.
    """
    positions = arc_positions(heads, *arcs)
    tables = kept_tables(weights, plan, heads.device, LabelTables)
    lines = label_lines(batch, batch.starts[arcs[0]], positions, tables, len(weights.array))
    return sum_rows(weights, lines)


class LabelTables:
    """A LabelPlan on a device."""

    def __init__(self, plan: LabelPlan, device: torch.device) -> None:
        sent = sender(device)
        self.atoms = [  # in turn: their templates, roles, rows and offsets
            tuple(map(sent, (here, plan.role[atoms], plan.row[atoms], plan.offset[atoms])))
            for here, atoms in atoms_in_turn(plan.start)
        ]
        self.direction, self.distance, self.buckets, self.seeds = (
            sent(array)
            for array in (
                np.flatnonzero(plan.direction), np.flatnonzero(plan.distance), plan.buckets,
                np.arange(1, len(plan.direction) + 1),
            )
        )  # fmt: skip


def label_lines(
    batch: TensorBatch, starts: Tensor, positions: list[Tensor], tables: LabelTables, n_lines: int
) -> Tensor:
    """(A, F) lines of the features of arcs; the number of lines for a feature that does not fire.

    Args:
        starts: (A,) places of the roots of the arcs' sentences.
        positions: the nodes of LABEL_ROLES, each (A,).
    """
    h, m = positions[LABEL_ROLES.index("h")], positions[LABEL_ROLES.index("m")]
    nodes = torch.stack(positions, -1)
    key = h.new_zeros(len(h), len(tables.seeds))
    fires = torch.ones_like(key, dtype=torch.bool)
    for here, role, row, offset in tables.atoms:
        node = nodes[:, role]
        place = (starts.unsqueeze(1) + node + offset).clamp(0, batch.values.shape[1] - 1)
        value = torch.where(node == NO_NODE, NO_NODE_VALUE, batch.values[row, place].long())
        fires[:, here] &= value != 0
        key[:, here] = fold(key[:, here], value)
    distance = (h - m).abs().clamp(min=1) - 1
    bucket = tables.buckets[distance.clamp(max=len(tables.buckets) - 1)]
    for here, value in ((tables.direction, (h < m).long()), (tables.distance, bucket)):
        key[:, here] = fold(key[:, here], value.unsqueeze(1))
    line = (mix(key, tables.seeds) * n_lines) >> 32
    return torch.where(fires, line, n_lines)


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
    batch: TensorBatch, plan: ArcPlan, weights: Weights, *, rows_at_once: int | None = None
) -> Tensor:
    """The scores of all labels of every arc, in any tree, by operations of torch.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan: of `compile_joint_labels`.
        weights: (lines, L), one column per label.
        rows_at_once: feature rows held at a time, or those of one head.
    Returns: (B, N, N, L), in the type of `arc_scores`. Column 0, the diagonal and padding hold
        nothing of use.
    Cost: O(templates * labels) per arc.
    Source: Carreras (2007), section 2: the best label of each dependency is chosen as its part is
        scored.
    """
    lines = label_map(len(weights.array))
    scorer = TorchSums(batch, plan, lines, weights, rows_at_once)
    scores = scorer.scores()
    return scores.reshape(*scores.shape[:3], weights.array.shape[1])  # one label: (B, N, N)
