"""The weight rows of given arcs, sibling parts and ends, in torch: what the kernels' twins list.

Each part has a line of rows, as many for all parts; the silent row, one past the last row of the
weights, stands where a feature does not fire.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from gpuparse.features.plan import (
    ATOM,
    LINE,
    NO_CODE,
    NO_SIBLING,
    ArcPlan,
    Plan,
    most_arc_rows,
    most_sibling_rows,
)
from gpuparse.scorers.linear.bags import part_keys, row_finder
from gpuparse.scorers.linear.hashing import WORD, fold, mix
from gpuparse.scorers.linear.weights import FeatureMap
from gpuparse.scorers.tensors import TensorBatch

_ROLES = ("head", "sibling", "modifier")


class PartRows:
    """Rows of the parts of a batch of sentences.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan, features: the compiled templates and their row map.
    """

    def __init__(self, batch: TensorBatch, plan: Plan, features: FeatureMap) -> None:
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
    def silent(self) -> int:
        """Stands for a row where a feature does not fire."""
        return self._features.n_rows

    @property
    def longest_line(self) -> int:
        """No part has a longer line than this."""
        plan = self._plan
        arcs = most_arc_rows(plan.arcs, self._places.shape[1])
        if plan.guide:
            arcs += most_arc_rows(plan.guide.arcs, 0)
        return max(arcs, most_sibling_rows(plan.siblings)) if plan.siblings else arcs

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
        triple = self._plan.siblings.triple
        if len(triple) == 0:
            return h.new_zeros(len(h), 0)
        column = _columns(triple, h.device)
        place, on = 0, True
        for role, node in zip(_ROLES, (h, inner, m), strict=True):
            # [P, F]
            value = self._batch.values[column[f"{role}_row"], self._places[b, node].unsqueeze(1)]
            value = value.long()
            seed = 3 * column["seed"] + _ROLES.index(role)
            key = mix(fold(torch.zeros_like(value), value), seed)
            hashed = (key & WORD) * column["slots"] & (column["cells"] - 1)
            shifted = value << column[f"{role}_shift"]
            place = torch.where(column["is_hashed"] == 1, hashed, shifted) ^ place
            on = (value != 0) & on
        # The first line is where words without a value are sent.
        base = self._features.rows.dense + column["line"] * LINE + place
        return self._pairs.coded(base, on & (place >= LINE), triple, c)


def _columns(records: np.ndarray, device: torch.device) -> dict[str, Tensor]:
    """The fields of a plan's records, (F,) int64 each."""
    names = records.dtype.names or ()
    table = np.array([records[name] for name in names], np.int64)
    return dict(zip(names, torch.from_numpy(table).to(device), strict=True))


class _RowsOfTwo:
    """Rows of the word, pair and between families of one plan, for pairs of nodes.

    All families at once, P parts by F families: on a device a launch costs more than its work.
    """

    def __init__(
        self,
        batch: TensorBatch,
        places: Tensor,
        plan: ArcPlan,
        features: FeatureMap,
        *,
        lone_root: bool = False,  # the neighbours of the root have no value
    ) -> None:
        self._values, self._places, self._plan, self._features = (
            batch.values, places, plan, features,
        )  # fmt: skip
        device = places.device
        self._find = row_finder(features)
        self._buckets = torch.from_numpy(plan.buckets).to(device)
        self._codes = torch.from_numpy(plan.codes.astype(np.int64)).to(device)
        self._word, self._pair, self._between = (
            _columns(records, device) for records in (plan.word, plan.pair, plan.between)
        )
        self._side_start = torch.from_numpy(plan.side_start).to(device)
        self._atoms = _columns(plan.atoms, device)
        self._sides = self._side_keys(lone_root)

    def _side_keys(self, lone_root: bool) -> tuple[Tensor, Tensor]:
        """As `features.keys.side_keys` has them, (S, B, N) each."""
        plan, device = self._plan, self._places.device
        sizes = np.diff(plan.side_start)
        key = torch.zeros((len(sizes), *self._places.shape), dtype=torch.int64, device=device)
        present = torch.ones_like(key, dtype=torch.bool)
        for k in range(int(sizes.max(initial=0))):
            # The k-th atom of the sides that have one
            sides = np.flatnonzero(sizes > k)
            atom = _columns(plan.atoms[plan.side_start[sides] + k], device)
            row, offset = (atom[name].reshape(-1, 1, 1) for name in ATOM.names or ())
            place = (self._places + offset).clamp(0, self._values.shape[1] - 1)
            value = self._values[row, place].long()
            here = torch.from_numpy(sides).to(device)
            key[here] = fold(key[here], value)
            present[here] &= value != 0
        if lone_root:
            looks = [plan.atoms["offset"][s:e].any() for s, e in pairwise(plan.side_start)]
            present[torch.tensor(looks, dtype=torch.bool, device=device), :, 0] = False
        return key, present

    def combination(self, gap: Tensor) -> Tensor:
        """The combination of direction and distance bucket of differences of positions."""
        place = (gap.abs() - 1).clamp(0, len(self._buckets) - 1)
        return self._buckets[place] + self._plan.n_buckets * (gap < 0)

    def of(self, b: Tensor, h: Tensor, m: Tensor, combination: Tensor) -> Tensor:
        """(P, R) rows of all families but between."""
        b, h, m = b.unsqueeze(1), h.unsqueeze(1), m.unsqueeze(1)
        word, pair = self._word, self._pair
        keys, on = self._sides
        rows = []
        if len(self._plan.word):
            node = torch.where(word["role"] == 1, m, h)
            base = self._find(part_keys(keys[word["side"], b, node], word["seed"], 0))
            rows.append(self.coded(base, on[word["side"], b, node], self._plan.word, combination))
        if len(self._plan.pair):
            head, modifier = pair["head_side"], pair["modifier_side"]
            key = part_keys(keys[head, b, h], pair["seed"], 0)
            base = self._find(key ^ part_keys(keys[modifier, b, m], pair["seed"], 1))
            both = on[head, b, h] & on[modifier, b, m]
            rows.append(self.coded(base, both, self._plan.pair, combination))
        return torch.cat(rows, 1) if rows else h.new_zeros(len(h), 0)

    def between(self, b: Tensor, h: Tensor, m: Tensor, combination: Tensor) -> Tensor:
        """(P, R) rows of the between families: one for each word of the sentence and suffix."""
        family, n_nodes = self._between, self._places.shape[1]
        if len(self._plan.between) == 0:
            return h.new_zeros(len(h), 0)
        head, head_on = self._value(family["head_side"], b, h)
        modifier, modifier_on = self._value(family["modifier_side"], b, m)
        # [P, N, F]
        middle = self._values[family["row"], self._places[b].unsqueeze(2)].long()
        nodes = torch.arange(n_nodes, device=h.device)
        low, high = torch.minimum(h, m).unsqueeze(1), torch.maximum(h, m).unsqueeze(1)
        is_inside = (nodes > low) & (nodes < high)
        on = is_inside.unsqueeze(2) & (middle != 0) & (head_on & modifier_on).unsqueeze(1)
        head, middle, modifier = (
            torch.minimum(value, family[name] - 1)
            for value, name in (
                (head, "n_heads"), (middle, "n_middles"), (modifier, "n_modifiers"),
            )
        )  # fmt: skip
        line = head.unsqueeze(1) * family["n_middles"] + middle
        line = line * family["n_modifiers"] + modifier.unsqueeze(1)
        base = self._features.rows.dense + (family["line"] + line) * LINE
        combination = combination.unsqueeze(1).expand(-1, n_nodes)
        return self.coded(base, on, self._plan.between, combination).flatten(1)

    def coded(self, base: Tensor, on: Tensor, families: np.ndarray, combination: Tensor) -> Tensor:
        """The rows of families, (..., F suffixes) from base rows (..., F): one or two of each."""
        second = np.flatnonzero(families["second_codes"] != NO_CODE)
        which = torch.from_numpy(np.concatenate([np.arange(len(families)), second]))
        tables = np.concatenate([families["first_codes"], families["second_codes"][second]])
        which, tables = which.to(base.device), torch.from_numpy(tables).to(base.device)
        code = self._codes[tables, combination.unsqueeze(-1)]
        return torch.where(on[..., which], base[..., which] ^ code, self._features.n_rows)

    def _value(self, side: Tensor, b: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        """(P, F) the values of sides of one atom or none, and whether they are any."""
        plan = self._plan
        first, last = self._side_start[side], self._side_start[side + 1]
        is_none = first == last
        if len(plan.atoms) == 0:
            shape = len(b), len(side)
            return b.new_zeros(shape), torch.ones(shape, dtype=torch.bool, device=side.device)
        atom = {name: x[first.clamp(max=len(plan.atoms) - 1)] for name, x in self._atoms.items()}
        place = self._places[b, node].unsqueeze(1) + atom["offset"]
        value = self._values[atom["row"], place.clamp(0, self._values.shape[1] - 1)].long()
        value = torch.where(is_none, 0, value)
        return value, is_none | (value != 0)
