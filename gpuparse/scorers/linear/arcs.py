"""Arc scores of a batch, and what guides add to them: public functions and their torch forms."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import HEAD, LINE, MODIFIER, NO_CODE, ArcPlan, GuidePlan, Plan
from gpuparse.inference.backends import choose_engine, run_in_threads
from gpuparse.scorers.linear.bags import bag_of, part_keys, row_finder, side_keys, sum_bags
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.native import make_scorer, sentences_of
from gpuparse.scorers.sizes import ROWS_AT_ONCE
from gpuparse.scorers.tensors import AnyBatch, TensorBatch, as_arrays, as_tensors, device_of


def arc_scores(
    batch: AnyBatch,
    plan: ArcPlan,
    features: FeatureMap,
    weights: Weights,
    *,
    backend: str = "auto",
    rows_at_once: int = ROWS_AT_ONCE,
) -> Tensor:
    """Scores of all arcs of all sentences.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan, features, weights: the compiled templates, their row map, their weights. Weights
            are zero where no feature can point, as learning leaves them: in the dense lines of
            value 0.
        backend: "cpu" (native code), "torch" (any device), or "auto".
        rows_at_once: feature rows that the torch form holds in memory at a time, at least.
    Returns: (B, N, N): [b, h, m] is the arc h -> m. float32 for learned weights, and for
        whole-number weights float64, exact and the same on every backend. Column 0, the diagonal
        and padding hold nothing of use.
    Cost: families times n^2 gathers a sentence, and n^2 K^2 in between (torch: n^3).
    Source: McDonald, Crammer & Pereira (2005), section 2.1: s(i, j) = w . f(i, j).
    """
    if choose_engine(backend, device_of(batch)) == "native":
        return _by_native(as_arrays(batch), plan, features, weights)
    return TorchScorer(as_tensors(batch), plan, features, weights, rows_at_once).scores()


def _by_native(batch: Batch, plan: ArcPlan, features: FeatureMap, weights: Weights) -> Tensor:
    nodes = batch.n_nodes
    out = np.zeros((len(batch), nodes, nodes), np.float64 if weights.is_integer else np.float32)
    scorer = make_scorer(Plan(plan), weights, features.rows)

    def score(part: slice) -> None:
        native.call("score_arcs_batch", sentences_of(batch.select(part)), scorer, out[part])

    per_arc = 2 * len(plan.pair) + 1
    run_in_threads(score, batch.lengths * int(np.sqrt(per_arc)), 2, torch.get_num_threads())
    return torch.from_numpy(out)


class TorchScorer:
    """One batch on its way to scores; chunks are runs of (sentence, head) pairs."""

    def __init__(
        self,
        batch: TensorBatch,
        plan: ArcPlan,
        features: FeatureMap,
        weights: Weights,
        rows_at_once: int,
        *,
        lone_root: bool = False,
    ) -> None:
        self._values, self._places = batch.values, batch.places()
        self._plan, self._features, self._weights = plan, features, weights
        self._rows_at_once = rows_at_once
        self._device = batch.values.device
        self._find = row_finder(features)
        self._silent = len(weights.array)
        self._codes = torch.from_numpy(plan.codes.astype(np.int64)).to(self._device)
        self.combination = self._combinations(self._places.shape[1])
        self._lone_root = lone_root  # the neighbours of the root have no value
        self._sides = [self._side_key(side) for side in range(len(plan.side_start) - 1)]
        dtype = torch.float64 if weights.is_integer else torch.float32
        self._width = weights.array.shape[1]  # D: 1, or the number of labels
        self._by_role = self._word_sums(HEAD, dtype), self._word_sums(MODIFIER, dtype)

    def scores(self) -> Tensor:
        """(B, N, N) of arcs; of weights of several columns, (B, N, N, D)."""
        n_sentences, n_nodes = self._places.shape
        arcs = torch.arange(n_sentences * n_nodes, device=self._device)
        per_head = n_nodes * max(2 * len(self._plan.pair), n_nodes, self._width)
        chunks = []
        for heads in arcs.split(max(1, self._rows_at_once // per_head)):
            h = heads % n_nodes
            chunks.append(self.chunk(heads // n_nodes, h, self.combination[h]))
        return torch.cat(chunks).reshape(n_sentences, n_nodes, *chunks[0].shape[1:])

    def chunk(self, b: Tensor, h: Tensor, combination: Tensor) -> Tensor:
        """(G, N) scores of the arcs from head h[g] of sentence b[g], (G, N, D) of D columns.

        combination: (G, N) of direction and distance; for arcs that of self.combination[h].
        """
        # [G, N, D]  s(h, m) = words(h) + words(m) + pairs(h, m) + between(h, m)
        which = combination.unsqueeze(2).expand(-1, -1, self._width)
        scores = self._by_role[HEAD][b, h].gather(1, which)
        scores += self._by_role[MODIFIER][b].gather(2, which.unsqueeze(2)).squeeze(2)
        scores += self._pairs(b, h, combination).to(scores.dtype)
        for family in self._plan.between:
            scores += self._between(family, b, h, combination).to(scores.dtype)
        return scores.squeeze(2) if self._width == 1 else scores

    def _pairs(self, b: Tensor, h: Tensor, combination: Tensor) -> Tensor:
        plan = self._plan
        rows = []
        for family in plan.pair:
            seed = int(family["seed"])
            head, head_on = self._sides[family["head_side"]]
            modifier, modifier_on = self._sides[family["modifier_side"]]
            # [G, N]
            key = part_keys(head[b, h], seed, 0).unsqueeze(1) ^ part_keys(modifier[b], seed, 1)
            on = head_on[b, h].unsqueeze(1) & modifier_on[b]
            base = self._find(key)
            rows += self._coded(base, on, family, combination)
        if not rows:
            return torch.zeros_like(combination).unsqueeze(2)
        bag = bag_of(self._weights, self._device, len(rows))
        return sum_bags(bag, torch.stack(rows, -1))

    def _between(self, family: np.void, b: Tensor, h: Tensor, combination: Tensor) -> Tensor:
        nodes = torch.arange(self._places.shape[1], device=self._device)
        head, head_on = self._between_value(family["head_side"])
        modifier, modifier_on = self._between_value(family["modifier_side"])
        middle = self._values[family["row"]].long()[self._places]
        middle = middle.clamp(max=int(family["n_middles"]) - 1)
        head = head.clamp(max=int(family["n_heads"]) - 1)
        modifier = modifier.clamp(max=int(family["n_modifiers"]) - 1)
        # [G, N, N]: head h[g], modifier, word between
        line = head[b, h].reshape(-1, 1, 1) * int(family["n_middles"]) + middle[b].unsqueeze(1)
        line = line * int(family["n_modifiers"]) + modifier[b].unsqueeze(2)
        base = self._features.rows.dense + (int(family["line"]) + line) * LINE
        low = torch.minimum(h.unsqueeze(1), nodes).unsqueeze(2)
        high = torch.maximum(h.unsqueeze(1), nodes).unsqueeze(2)
        on = (nodes > low) & (nodes < high) & (middle[b] != 0).unsqueeze(1)
        on &= (head_on[b, h].unsqueeze(1) & modifier_on[b]).unsqueeze(2)
        rows = self._coded(base, on, family, combination.unsqueeze(2))
        bag = bag_of(self._weights, self._device, len(rows) * len(nodes))
        return sum_bags(bag, torch.cat(rows, -1))

    def _word_sums(self, role: int, dtype: torch.dtype) -> Tensor:
        """(B, N, C, D) sums of one role's word families for each combination."""
        plan = self._plan
        combinations = torch.arange(self._codes.shape[1], device=self._device)
        rows = []
        for family in plan.word[plan.word["role"] == role]:
            key, on = self._sides[family["side"]]
            seed = int(family["seed"])
            key = part_keys(key, seed, 0)
            base = self._find(key).unsqueeze(-1).expand(*key.shape, len(combinations))
            rows += self._coded(base, on.unsqueeze(-1), family, combinations)
        if not rows:
            shape = *self._places.shape, len(combinations), self._width
            return torch.zeros(shape, dtype=dtype, device=self._device)
        bag = bag_of(self._weights, self._device, len(rows))
        return sum_bags(bag, torch.stack(rows, -1)).to(dtype)

    def _coded(
        self, base: Tensor, on: Tensor, family: np.void, combination: Tensor
    ) -> list[Tensor]:
        """The weight rows of one family, one tensor a suffix; silent features get the zero row."""
        return [
            torch.where(on, base ^ self._codes[table][combination], self._silent)
            for table in (int(family["first_codes"]), int(family["second_codes"]))
            if table != NO_CODE
        ]

    def _side_key(self, side: int) -> tuple[Tensor, Tensor]:
        plan = self._plan
        atoms = plan.atoms[plan.side_start[side] : plan.side_start[side + 1]]
        key, on = side_keys(self._values, self._places, atoms.tolist())
        if self._lone_root and atoms["offset"].any():
            on[:, 0] = False
        return key, on

    def _between_value(self, side: int) -> tuple[Tensor, Tensor]:
        """(B, N) the value of a side of one atom or none, and whether it is one."""
        plan = self._plan
        atom = plan.side_start[side]
        if atom == plan.side_start[side + 1]:
            return torch.zeros_like(self._places), torch.ones_like(self._places, dtype=torch.bool)
        places = self._places + int(plan.atoms["offset"][atom])
        value = self._values[plan.atoms["row"][atom]].long()[
            places.clamp(0, self._values.shape[1] - 1)
        ]
        return value, value != 0

    def _combinations(self, n_nodes: int) -> Tensor:
        """(N, N) the combination of direction and distance bucket of every arc."""
        plan, nodes = self._plan, torch.arange(n_nodes)
        gap = nodes.unsqueeze(0) - nodes.unsqueeze(1)
        place = (gap.abs() - 1).clamp(0, len(plan.buckets) - 1)
        bucket = torch.from_numpy(plan.buckets)[place]
        return (bucket + plan.n_buckets * (gap < 0)).to(self._device)


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
        plan, features, weights: as in `arc_scores`.
        backend: "cpu" (native code), "torch" (any device), or "auto".
        rows_at_once: feature rows that the torch form holds in memory at a time, at least.
    Returns:
        (B, N, N): [b, h, m] of the arc h -> m, 0 for arcs without a guide; dtypes as in arc_scores.
    Cost: families times n gathers a sentence (torch: times n^2).
    Source: McDonald, Crammer & Pereira (2005), section 3.1: "a feature [...] that indicates for
        given edge, whether the Collins parser believed this dependency actually exists".
    """
    if choose_engine(backend, device_of(batch)) == "native":
        return _native_guides(as_arrays(batch), plan, features, weights)
    tensors = as_tensors(batch)
    scores = TorchScorer(tensors, plan.arcs, features, weights, rows_at_once).scores()
    return torch.where(is_guide(tensors, plan), scores, 0)


def is_guide(batch: TensorBatch, plan: GuidePlan) -> Tensor:
    """(B, N, N) bool: whether h is the guide head of m."""
    nodes = torch.arange(batch.n_nodes, device=batch.values.device)
    heads = batch.values[plan.row].long()[batch.places()]
    return heads.unsqueeze(1) == nodes.unsqueeze(1) + 1


def _native_guides(batch: Batch, plan: GuidePlan, features: FeatureMap, weights: Weights) -> Tensor:
    nodes = batch.n_nodes
    out = np.zeros((len(batch), nodes, nodes), np.float64 if weights.is_integer else np.float32)
    scorer = make_scorer(Plan(plan.arcs, guide=plan), weights, features.rows)
    native.call("score_guides_batch", sentences_of(batch), scorer, out)
    return torch.from_numpy(out)
