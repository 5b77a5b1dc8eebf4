"""The weight rows of given arcs, sibling parts and ends, in torch: what the kernels' twins list.

Each part has a line of rows, as many for all parts; the silent row, one past the last row of the
weights, stands where a feature does not fire.
"""

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.batch import Batch
from gpuparse.features.keys import WORD, fold_torch, mix_torch, part_keys, side_keys
from gpuparse.features.plan import LINE, NO_CODE, ArcPlan, Plan
from gpuparse.scoring.cpu import max_rows
from gpuparse.scoring.cpu_siblings import NO_SIBLING, max_sibling_rows
from gpuparse.scoring.feature_map import FeatureMap, row_finder

_ROLES = ("head", "sibling", "modifier")


class PartRows:
    """Rows of the parts of a batch of sentences.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan, features: the compiled templates and their row map.
    """

    def __init__(self, batch: Batch, plan: Plan, features: FeatureMap) -> None:
        self._batch, self._plan, self._features = batch, plan, features
        self._places = batch.places()
        self._arcs = _RowsOfTwo(batch, self._places, plan.arcs, features)
        if plan.guide:
            self._guides = _RowsOfTwo(batch, self._places, plan.guide.arcs, features)
        if plan.siblings:
            self._pairs = _RowsOfTwo(
                batch, self._places, plan.siblings.pairs, features, lone_root=True
            )
            self._ends = _RowsOfTwo(batch, self._places, plan.siblings.ends, features)

    @property
    def longest_line(self) -> int:
        """No part has a longer line than this."""
        plan = self._plan
        arcs = max_rows(plan.arcs, self._places.shape[1])
        if plan.guide:
            arcs += max_rows(plan.guide.arcs, 0)
        return max(arcs, max_sibling_rows(plan.siblings)) if plan.siblings else arcs

    def of_arcs(self, b: Tensor, h: Tensor, m: Tensor) -> Tensor:
        """(P, R) int64 rows of the arcs h[p] -> m[p] of sentences b[p], guide features included."""
        combination = self._arcs.combination(m - h)
        rows = [self._arcs.of(b, h, m, combination), self._arcs.between(b, h, m, combination)]
        if self._plan.guide:
            place = self._places[b, m]
            proposed = self._batch.values[self._plan.guide.row].long()[place] == h + 1
            guides = self._guides.of(b, h, m, self._guides.combination(m - h))
            rows.append(torch.where(proposed.unsqueeze(1), guides, self._features.n_rows))
        return torch.cat(rows, 1)

    def of_siblings(self, b: Tensor, h: Tensor, m: Tensor, s: Tensor) -> Tensor:
        """(P, R) rows of the modifiers m[p] of h[p] with inner siblings s[p], h[p] for none."""
        inner = torch.where(s == h, NO_SIBLING, s)
        combination = self._pairs.combination(m - s)
        rows = self._pairs.of(b, inner, m, combination)
        return torch.cat([rows, self._triples(b, h, m, inner, combination)], 1)

    def of_ends(self, b: Tensor, h: Tensor, m: Tensor, is_right: Tensor) -> Tensor:
        """(P, R) rows of the outermost modifiers m[p] of h[p] on a side, h[p] for none.

        is_right: (P,) 1 for the side to the right, else 0.
        """
        assert self._plan.siblings is not None
        # Without a modifier there is a direction, and no distance: the first bucket.
        alone = torch.where(is_right == 1, 0, self._plan.siblings.ends.n_buckets)
        combination = torch.where(m == h, alone, self._ends.combination(m - h))
        return self._ends.of(b, h, torch.where(m == h, NO_SIBLING, m), combination)

    def _triples(self, b: Tensor, h: Tensor, m: Tensor, inner: Tensor, c: Tensor) -> Tensor:
        assert self._plan.siblings is not None
        rows = []
        for family in self._plan.siblings.triple:
            place, on = torch.zeros_like(h), torch.ones_like(h, dtype=torch.bool)
            for role, node in enumerate((h, inner, m)):
                value = self._batch.values[int(family[f"{_ROLES[role]}_row"])].long()
                value = value[self._places[b, node]]
                place = place ^ _triple_place(value, role, family)
                on &= value != 0
            # The first line is where words without a value are sent.
            on &= place >= LINE
            base = self._features.rows.dense + int(family["line"]) * LINE + place
            rows += self._pairs.coded(base, on, family, c)
        return torch.stack(rows, 1) if rows else h.new_zeros(len(h), 0)


def _triple_place(value: Tensor, role: int, family: np.void) -> Tensor:
    """What a role's value adds to the cell of a triple family."""
    if not family["is_hashed"]:
        return value << int(family[f"{_ROLES[role]}_shift"])
    key = mix_torch(fold_torch(torch.zeros_like(value), value), 3 * int(family["seed"]) + role)
    return (key & WORD) * int(family["slots"]) & (int(family["cells"]) - 1)


class _RowsOfTwo:
    """Rows of the word, pair and between families of one plan, for pairs of nodes."""

    def __init__(
        self,
        batch: Batch,
        places: Tensor,
        plan: ArcPlan,
        features: FeatureMap,
        *,
        lone_root: bool = False,  # what stands beside the root is no value
    ) -> None:
        self._values, self._places, self._plan, self._features = (
            batch.values, places, plan, features,
        )  # fmt: skip
        device = places.device
        self._find = row_finder(features, device)
        self._buckets = torch.from_numpy(plan.buckets).to(device)
        self._codes = torch.from_numpy(plan.codes.astype(np.int64)).to(device)
        self._sides = []
        for side in range(len(plan.side_start) - 1):
            atoms = plan.atoms[plan.side_start[side] : plan.side_start[side + 1]]
            key, on = side_keys(batch.values, places, atoms.tolist(), features.is_exact)
            if lone_root and atoms["offset"].any():
                on[:, 0] = False
            self._sides.append((key, on))

    def combination(self, gap: Tensor) -> Tensor:
        """The combination of direction and distance bucket of differences of positions."""
        place = (gap.abs() - 1).clamp(0, len(self._buckets) - 1)
        return self._buckets[place] + self._plan.n_buckets * (gap < 0)

    def of(self, b: Tensor, h: Tensor, m: Tensor, combination: Tensor) -> Tensor:
        """(P, R) rows of all families but between."""
        rows, exact = [], self._features.is_exact
        for family in self._plan.word:
            key, on = self._sides[family["side"]]
            node = m if family["role"] else h
            key = part_keys(key[b, node], int(family["seed"]), 0, exact)
            rows += self.coded(self._find(key), on[b, node], family, combination)
        for family in self._plan.pair:
            seed = int(family["seed"])
            head, head_on = self._sides[family["head_side"]]
            modifier, modifier_on = self._sides[family["modifier_side"]]
            key = part_keys(head[b, h], seed, 0, exact) ^ part_keys(modifier[b, m], seed, 1, exact)
            on = head_on[b, h] & modifier_on[b, m]
            rows += self.coded(self._find(key), on, family, combination)
        return torch.stack(rows, 1) if rows else h.new_zeros(len(h), 0)

    def between(self, b: Tensor, h: Tensor, m: Tensor, combination: Tensor) -> Tensor:
        """(P, R) rows of the between families: one for each word of the sentence and suffix."""
        nodes = torch.arange(self._places.shape[1], device=h.device)
        low, high = torch.minimum(h, m).unsqueeze(1), torch.maximum(h, m).unsqueeze(1)
        is_inside = (nodes > low) & (nodes < high)
        rows = []
        for family in self._plan.between:
            head, head_on = self._value(family["head_side"], b, h)
            modifier, modifier_on = self._value(family["modifier_side"], b, m)
            middle = self._values[family["row"]].long()[self._places[b]]
            on = is_inside & (middle != 0) & (head_on & modifier_on).unsqueeze(1)
            head, middle, modifier = (
                value.clamp(max=int(family[name]) - 1)
                for value, name in (
                    (head, "n_heads"), (middle, "n_middles"), (modifier, "n_modifiers"),
                )
            )  # fmt: skip
            line = head.unsqueeze(1) * int(family["n_middles"]) + middle
            line = line * int(family["n_modifiers"]) + modifier.unsqueeze(1)
            base = self._features.rows.dense + (int(family["line"]) + line) * LINE
            rows += self.coded(base, on, family, combination.unsqueeze(1))
        return torch.cat(rows, 1) if rows else h.new_zeros(len(h), 0)

    def coded(self, base: Tensor, on: Tensor, family: np.void, combination: Tensor) -> list[Tensor]:
        """The rows of one family, one tensor a suffix."""
        return [
            torch.where(on, base ^ self._codes[table][combination], self._features.n_rows)
            for table in (int(family["first_codes"]), int(family["second_codes"]))
            if table != NO_CODE
        ]

    def _value(self, side: int, b: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        """The value of a side of one atom or none, and whether it is one."""
        atom = self._plan.side_start[side]
        if atom == self._plan.side_start[side + 1]:
            return torch.zeros_like(node), torch.ones_like(node, dtype=torch.bool)
        place = self._places[b, node] + int(self._plan.atoms["offset"][atom])
        value = self._values[self._plan.atoms["row"][atom]].long()
        value = value[place.clamp(0, self._values.shape[1] - 1)]
        return value, value != 0
