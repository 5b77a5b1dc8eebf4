"""Arc scores of a batch, and what guides add to them, in torch on any device."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from gpuparse.features.plan import NO_SIBLING, ArcPlan, GuidePlan
from gpuparse.scorers.linear.embedding_bag import sum_rows, sum_runs_of_rows
from gpuparse.scorers.linear.plan_tensors import kept_tables
from gpuparse.scorers.linear.rows import ArcTables, RowsOfTwo
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.sizes import CPU_ROWS_AT_ONCE, ROWS_AT_ONCE
from gpuparse.scorers.tensors import TensorBatch


def arc_scores(
    batch: TensorBatch,
    plan: ArcPlan,
    features: FeatureMap,
    weights: Weights,
    *,
    rows_at_once: int | None = None,
) -> Tensor:
    """Scores of all arcs of all sentences.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan, features, weights: the compiled templates, their row map, their weights. Weights
            are zero where no feature can point, as learning leaves them: in the dense lines of
            value 0.
        rows_at_once: feature rows that are held at a time, or those of one head; None: as is
            fastest on the device.
    Returns: (B, N, N): [b, h, m] is the arc h -> m. float32 for learned weights, and for
        whole-number weights float64, exact and those of native code. Column 0, the diagonal
        and padding hold nothing of use.
    Cost: families times n^2 gathers per sentence, and n^3 in between.
    Source: McDonald, Crammer & Pereira (2005), section 2.1: s(i, j) = w . f(i, j).
    """
    return TorchSums(batch, plan, features, weights, rows_at_once).scores()


class TorchSums:
    """Sums of the weights of the arcs of a batch, or of other pairs of nodes, in torch.

    Args: as in `arc_scores`. lone_root: as in `RowsOfTwo`.
    """

    def __init__(
        self,
        batch: TensorBatch,
        plan: ArcPlan,
        features: FeatureMap,
        weights: Weights,
        rows_at_once: int | None,
        *,
        lone_root: bool = False,
    ) -> None:
        tables = kept_tables(weights, plan, batch.values.device, ArcTables)
        features = features._replace(n_rows=len(weights.array))  # the row of zeros
        self.rows = RowsOfTwo(batch, tables, features, lone_root=lone_root)
        self._shape = len(batch), batch.n_nodes
        self._weights, self._rows_at_once = weights, rows_at_once or rows_held(batch.values.device)
        self._per_arc = max(len(tables.modifiers[0]), tables.n_between * batch.n_nodes // 2, 1)
        self._between = tables.n_between
        self._device = batch.values.device

    def scores(self, *, without_first: bool = False) -> Tensor:
        """(B, N, N) of arcs; of weights of D > 1 columns, (B, N, N, D).

        without_first: of modifiers without an inner sibling, [b, h, m].
        """
        nodes = torch.arange(self._shape[1], device=self._device)
        per_head = len(nodes) * max(self._per_arc, self._weights.array.shape[1])

        at_once = max(1, self._rows_at_once // per_head)
        counts = self._words_between(at_once)

        def score(b: Tensor, h: Tensor) -> Tensor:
            first = torch.full_like(h, NO_SIBLING) if without_first else h
            return self.of(b, first, nodes, self.rows.combination(nodes - h), next(counts, 0))

        return by_heads(*self._shape, self._device, at_once, score)

    def _words_between(self, at_once: int) -> Iterator[int]:
        """The words between heads and modifiers of all arcs of `at_once` heads at a time.

        They are counted in main memory, so that nothing waits for the device.
        """
        n_sentences, n_nodes = self._shape
        before = np.arange(n_nodes, dtype=np.int64)
        after = before[::-1]
        of_head = (before * (before - 1) + after * (after - 1)) // 2
        firsts = np.arange(0, n_sentences * n_nodes, at_once)
        return iter(np.add.reduceat(np.tile(of_head, n_sentences), firsts).tolist())

    def of(
        self, b: Tensor, h: Tensor, m: Tensor, combination: Tensor, count: int | None = None
    ) -> Tensor:
        """(...) of pairs of nodes, (..., D) of D columns; the shapes of the four are broadcast.

        count: words in between of all pairs, None: the device is asked for it.
        """
        sums = sum_rows(self._weights, self.rows.of(b, h, m, combination))
        if self._between:
            all_of = torch.broadcast_tensors(b, h, m, combination)
            b, h, m, combination = (each.flatten() for each in all_of)
            found = self.rows.between(b, h, m, combination, count)
            most = self._shape[1] * self._between
            sums += sum_runs_of_rows(self._weights, found.rows, found.starts, most).view_as(sums)
        return sums.squeeze(-1) if self._weights.array.shape[1] == 1 else sums


def rows_held(device: torch.device) -> int:
    """Feature rows that are held at a time on a device."""
    return CPU_ROWS_AT_ONCE if device.type == "cpu" else ROWS_AT_ONCE


def by_heads(
    n_sentences: int,
    n_nodes: int,
    device: torch.device,
    at_once: int,
    score: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """(B, N, ...) what `score` gives for sentences and heads, both (G, 1), `at_once` at a time."""
    heads = torch.arange(n_sentences * n_nodes, device=device).unsqueeze(1)
    chunks = [score(some // n_nodes, some % n_nodes) for some in heads.split(at_once)]
    return torch.cat(chunks).reshape(n_sentences, n_nodes, *chunks[0].shape[1:])


def guide_scores(
    batch: TensorBatch,
    plan: GuidePlan,
    features: FeatureMap,
    weights: Weights,
    *,
    rows_at_once: int | None = None,
) -> Tensor:
    """The scores that guide features add to all arcs of all sentences.

    Args:
        batch: B sentences of at most N - 1 words with a row of guides, on the device that is to do
            the work.
        plan, features, weights: as in `arc_scores`.
        rows_at_once: feature rows that are held at a time, or those of one head; None: as is
            fastest on the device.
    Returns:
        (B, N, N): [b, h, m] of the arc h -> m, 0 for arcs without a guide; dtypes as in arc_scores.
    Cost: families times n^2 gathers per sentence.
    Source: McDonald, Crammer & Pereira (2005), section 3.1: "a feature [...] that indicates for
        given edge, whether the Collins parser believed this dependency actually exists".
    """
    scores = TorchSums(batch, plan.arcs, features, weights, rows_at_once).scores()
    return torch.where(is_guide(batch, plan), scores, 0)


def is_guide(batch: TensorBatch, plan: GuidePlan) -> Tensor:
    """(B, N, N) bool: whether h is the guide head of m."""
    nodes = torch.arange(batch.n_nodes, device=batch.values.device)
    heads = batch.values[plan.row].long()[batch.places()]
    return heads.unsqueeze(1) == nodes.unsqueeze(1) + 1
