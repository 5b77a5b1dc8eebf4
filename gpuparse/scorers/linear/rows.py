"""The weight rows of given arcs, sibling parts and ends, in torch: what the kernels' twins list.

Each part has a line of rows, as many for all parts; the silent row, one past the last row of the
weights, stands where a feature does not fire.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse.features.plan import (
    HEAD,
    LINE,
    MODIFIER,
    NO_CODE,
    NO_SIBLING,
    ArcPlan,
    Plan,
    SiblingPlan,
    most_arc_rows,
    most_sibling_rows,
)
from gpuparse.scorers.linear.hashing import WORD, fold, mix
from gpuparse.scorers.linear.plan_tensors import atoms_in_turn, kept_tables, row_finder, sender
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import TensorBatch

_ROLES = ("head", "sibling", "modifier")
# Marks of parts of words without a value, beyond the bits of all others. Those of two or three
# roles are different bits, which XOR does not cancel; _SILENT is more than any sum of lines, too.
_SILENT_HEAD, _SILENT_MODIFIER, _SILENT = 1 << 33, 1 << 34, 1 << 40


class PartRows:
    """Rows of the parts of a batch of sentences.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan, features: the compiled templates and their row map.
        weights: the tables of the plan are kept beside them.
    """

    def __init__(
        self, batch: TensorBatch, plan: Plan, features: FeatureMap, weights: Weights
    ) -> None:
        self._batch, self._plan, self._features = batch, plan, features
        self._places, device = batch.places(), batch.values.device

        def of_two(arcs: ArcPlan, *, lone_root: bool = False) -> RowsOfTwo:
            tables = kept_tables(weights, arcs, device, ArcTables)
            return RowsOfTwo(batch, tables, features, lone_root=lone_root)

        self._arcs = of_two(plan.arcs)
        if plan.guide:
            self._guides = of_two(plan.guide.arcs)
        if plan.siblings:
            self._pairs = of_two(plan.siblings.pairs, lone_root=True)
            triples = kept_tables(weights, plan.siblings, device, TripleTables)
            self._triples = TripleRows(batch, triples, features)
            self._ends = of_two(plan.siblings.ends)

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

    def of_arcs(self, b: Tensor, h: Tensor, m: Tensor, count: int | None = None) -> Tensor:
        """(P, R) int64 rows of the arcs h[p] -> m[p] of sentences b[p], guide features included.

        count: words between all heads and modifiers, None: the device is asked for it.
        """
        combination = self._arcs.combination(m - h)
        rows = [self._arcs.of(b, h, m, combination)]
        if self._arcs.has_between:
            found = self._arcs.between(b, h, m, combination, count)
            shape = len(b), self._places.shape[1], found.rows.shape[1]
            lines = rows[0].new_full(shape, self.silent)
            rows.append(lines.index_put((found.arc, found.middle), found.rows).flatten(1))
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
        return torch.cat([rows, self._triples.of(b, h, m, inner, combination)], 1)

    def of_ends(self, b: Tensor, h: Tensor, m: Tensor, is_right: Tensor) -> Tensor:
        """(P, R) rows of the outermost modifiers m[p] of h[p] on a side, h[p] for none.

        is_right: (P,) 1 for the side to the right, else 0.
        """
        assert self._plan.siblings is not None
        # Without a modifier there is a direction, and no distance: the first bucket.
        alone = torch.where(is_right == 1, 0, self._plan.siblings.ends.n_buckets)
        combination = torch.where(m == h, alone, self._ends.combination(m - h))
        return self._ends.of(b, h, torch.where(m == h, NO_SIBLING, m), combination)


class RowsOfTwo:
    """Rows of the word, pair and between families of one plan, for pairs of nodes.

    The key of a family's feature for the arc h -> m is `head part XOR modifier part`, as in
    native/feature_rows.h; parts are hashed once per word. All families at once: on a device a
    launch costs more than its work. A family's two suffixes are two features, R in all.

    Args:
        batch, features: as in `PartRows`.
        tables: of the plan, on the device of the batch.
        lone_root: whether the neighbours of the root have no value, as for siblings.
    """

    def __init__(
        self,
        batch: TensorBatch,
        tables: "ArcTables",
        features: FeatureMap,
        *,
        lone_root: bool = False,
    ) -> None:
        self._batch, self._tables, self._features = batch, tables, features
        self._places = batch.places()
        self._find = row_finder(features)
        keys, present = self._sides(lone_root)
        # [B N, R] each; a feature fires where neither word's part is marked
        self._heads, self._modifiers = (
            self._parts(keys, present, looks, silent).flatten(0, 1)
            for looks, silent in (
                (tables.heads, _SILENT_HEAD),
                (tables.modifiers, _SILENT_MODIFIER),
            )
        )
        if tables.n_between:
            of_heads, middles, of_modifiers = (
                self._line_parts(look).flatten(0, 1) for look in tables.lines
            )
            self._lines = of_heads + features.rows.dense, middles, of_modifiers

    def of(self, b: Tensor, h: Tensor, m: Tensor, combination: Tensor) -> Tensor:
        """(..., R) rows of all families but between.

        b, h, m, combination: sentences, nodes, and combinations of direction and distance, whose
        shapes are broadcast.
        """
        first = b * self._places.shape[1]
        key = taken(self._heads, first + h) ^ taken(self._modifiers, first + m)
        row = self._find(key).bitwise_xor_(taken(self._tables.codes, combination))
        # Marks lie beyond all rows, and a code does not change them.
        return row.clamp_(max=self._features.n_rows)

    def between(
        self, b: Tensor, h: Tensor, m: Tensor, combination: Tensor, count: int | None = None
    ) -> "BetweenRows":
        """The rows of the between families of P arcs.

        Args: b, h, m, combination: as above, all (P,). count: T, to not ask the device for it.
        """
        first = b * self._places.shape[1]
        heads, middles, modifiers = self._lines
        sizes = ((h - m).abs() - 1).clamp_(min=0)
        starts = sizes.cumsum(0) - sizes
        arc = torch.repeat_interleave(sizes, output_size=count)
        low = torch.minimum(h, m) + 1 - starts
        middle = torch.arange(len(arc), device=arc.device).add_(low.index_select(0, arc))
        line = taken(heads, first + h).add_(taken(modifiers, first + m)).index_select(0, arc)
        line += middles.index_select(0, middle + first.index_select(0, arc))
        line ^= taken(self._tables.between_codes, combination).index_select(0, arc)
        return BetweenRows(starts, arc, middle, line.clamp_(max=self._features.n_rows))

    @property
    def has_between(self) -> bool:
        """True if there are between families."""
        return self._tables.n_between > 0

    def combination(self, gap: Tensor) -> Tensor:
        """The combination of direction and distance bucket of differences of positions."""
        return self._tables.combination(gap)

    def _sides(self, lone_root: bool) -> tuple[Tensor, Tensor]:
        """(B, N, S) keys of all sides at every node, and whether all their atoms have values."""
        tables, values = self._tables, self._batch.values
        shape = *self._places.shape, tables.n_sides
        key = torch.zeros(shape, dtype=torch.int64, device=values.device)
        present = torch.ones(shape, dtype=torch.bool, device=values.device)
        for sides, rows, offsets in tables.atoms:
            place = (self._places.unsqueeze(2) + offsets).clamp(0, values.shape[1] - 1)
            value = values[rows, place].long()
            key[..., sides] = fold(key[..., sides], value)
            present[..., sides] &= value != 0
        if lone_root:
            present[:, 0] &= ~tables.has_neighbours
        return key, present

    def _parts(
        self, keys: Tensor, present: Tensor, looks: tuple[Tensor, Tensor], silent: int
    ) -> Tensor:
        """(B, N, R) what one word adds to the key of each feature, 0 where it is not looked at."""
        sides, salts = looks
        part = torch.where(sides < 0, 0, mix(keys[..., sides], salts))
        return torch.where((sides < 0) | present[..., sides], part, silent)

    def _line_parts(self, look: "LineLook") -> Tensor:
        """(B, N, Y) what one word adds to the line of each between feature."""
        values = self._batch.values
        place = (self._places.unsqueeze(2) + look.offsets).clamp(0, values.shape[1] - 1)
        value = values[look.rows, place].long()
        part = torch.minimum(value, look.most) * look.factors + look.constants
        return torch.where((value != 0) | look.is_none, part, _SILENT)


class BetweenRows(NamedTuple):
    """T words between the heads and modifiers of P arcs, arc by arc."""

    starts: Tensor  # (P,) where those of each arc begin
    arc: Tensor  # (T,) its number
    middle: Tensor  # (T,) the node in between
    rows: Tensor  # (T, Y) of each suffix


def taken(table: Tensor, index: Tensor) -> Tensor:
    """table[index], a copy, for a table of two dimensions: faster than advanced indexing."""
    return table.index_select(0, index.flatten()).unflatten(0, index.shape)


class LineLook(NamedTuple):
    """The values of one of three words that the between features read, (Y,) each."""

    rows: Tensor
    offsets: Tensor
    is_none: Tensor  # whether it is nothing
    most: Tensor  # the largest value that has lines of its own
    factors: Tensor  # rows from one value to the next
    constants: Tensor


class ArcTables:
    """An ArcPlan on a device, by suffixes: R of word and pair families, Y of between families."""

    def __init__(self, plan: ArcPlan, device: torch.device) -> None:
        sent = sender(device)
        self.n_sides = len(plan.side_start) - 1
        self.atoms = [  # in turn: their sides, rows and offsets
            tuple(map(sent, (sides, plan.atoms["row"][atoms], plan.atoms["offset"][atoms])))
            for sides, atoms in atoms_in_turn(plan.side_start)
        ]
        offsets = [plan.atoms["offset"][s:e] for s, e in pairwise(plan.side_start)]
        self.has_neighbours = sent(np.array([each.any() for each in offsets], bool))
        self._buckets, self._n_buckets = sent(plan.buckets), plan.n_buckets
        codes = plan.codes.astype(np.int64)
        word, word_codes = _by_suffix(plan.word)
        pair, pair_codes = _by_suffix(plan.pair)
        self.codes = sent(codes[np.concatenate([word_codes, pair_codes])].T)
        seeds = np.concatenate([word["seed"], pair["seed"]])
        of_words = (np.where(word["role"] == role, word["side"], -1) for role in (HEAD, MODIFIER))
        heads, modifiers = (
            np.concatenate([sides, pair[name]])
            for sides, name in zip(of_words, ("head_side", "modifier_side"), strict=True)
        )
        second = np.concatenate([np.zeros(len(word), np.int64), np.ones(len(pair), np.int64)])
        self.heads = sent(heads), sent(2 * seeds)
        self.modifiers = sent(modifiers), sent(2 * seeds + second)
        between, tables = _by_suffix(plan.between)
        self.n_between = len(between)  # Y
        self.between_codes = sent(codes[tables].T)
        of_modifiers = np.full(len(between), LINE, np.int64)
        of_middles = of_modifiers * between["n_modifiers"]
        self.lines = [
            LineLook(*map(sent, (*self._one_atom(plan, between, role), factors, constants)))
            for role, factors, constants in (
                ("head", of_middles * between["n_middles"], between["line"] * LINE),
                ("middle", of_middles, np.zeros_like(of_middles)),
                ("modifier", of_modifiers, np.zeros_like(of_middles)),
            )
        ]

    def combination(self, gap: Tensor) -> Tensor:
        """The combination of direction and distance bucket of differences of positions."""
        place = (gap.abs() - 1).clamp(0, len(self._buckets) - 1)
        return self._buckets[place] + self._n_buckets * (gap < 0)

    @staticmethod
    def _one_atom(plan: ArcPlan, between: np.ndarray, role: str) -> tuple[np.ndarray, ...]:
        """Row, offset, whether there is none, and the largest value told apart, of each feature."""
        most = between[f"n_{role}s"] - 1
        if role == "middle":
            return between["row"], np.zeros_like(most), np.zeros(len(most), bool), most
        side = between[f"{role}_side"]
        first, is_none = plan.side_start[side], np.diff(plan.side_start)[side] == 0
        atoms = np.zeros(len(side), plan.atoms.dtype)
        atoms[~is_none] = plan.atoms[first[~is_none]]
        return atoms["row"], atoms["offset"], is_none, np.where(is_none, 0, most)


class TripleRows:
    """Rows of the triple families of a plan, Z suffixes.

    Args:
        batch, features: as in `PartRows`.
        tables: of the plan, on the device of the batch.
    """

    def __init__(self, batch: TensorBatch, tables: "TripleTables", features: FeatureMap) -> None:
        self._features, self._codes = features, tables.codes
        places, by_name = batch.places(), tables.by_name
        self._first = features.rows.dense + by_name["line"] * LINE
        self._parts = []  # [B, N, Z] of each role
        for role, name in enumerate(_ROLES):
            value = batch.values[by_name[f"{name}_row"], places.unsqueeze(2)].long()
            key = mix(fold(torch.zeros_like(value), value), 3 * by_name["seed"] + role)
            hashed = (key & WORD) * by_name["slots"] & (by_name["cells"] - 1)
            shifted = value << by_name[f"{name}_shift"]
            part = torch.where(by_name["is_hashed"] == 1, hashed, shifted)
            self._parts.append(torch.where(value != 0, part, _SILENT << role))

    def of(self, b: Tensor, h: Tensor, m: Tensor, inner: Tensor, combination: Tensor) -> Tensor:
        """(..., Z) rows of modifiers m of h with inner siblings, NO_SIBLING for none; broadcast.

        combination: of direction and distance between the two modifiers.
        """
        heads, siblings, modifiers = self._parts
        place = heads[b, h] ^ siblings[b, inner] ^ modifiers[b, m]
        row = (self._first + place) ^ self._codes[combination]
        # The first line is where words without a value are sent.
        return torch.where((place >= LINE) & (place < _SILENT), row, self._features.n_rows)


class TripleTables:
    """The triple families of a SiblingPlan on a device, Z suffixes.

    by_name: (Z,) each field of their records. codes: (combinations, Z), of the pairs of the plan.
    """

    def __init__(self, plan: SiblingPlan, device: torch.device) -> None:
        triple, codes = _by_suffix(plan.triple)
        sent = sender(device)
        self.by_name = {name: sent(triple[name]) for name in triple.dtype.names or ()}
        self.codes = sent(plan.pairs.codes.astype(np.int64)[codes].T)


def _by_suffix(families: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The family and the code table of each suffix: one or two of each family."""
    second = families["second_codes"]
    tables = np.concatenate([families["first_codes"], second[second != NO_CODE]])
    return np.concatenate([families, families[second != NO_CODE]]), tables
