"""The best trees of a chart over a batch, in torch, by few operations.

All items of a sentence lie in one row of numbers: planes of widths and starts; for kinds to the
right of a split, planes of widths, from the widest down, and ends. So the parts of all splits of
all spans of one width are views into it, and into the scores, and values are written into views.

The trees are followed from the widest spans to the narrowest: the mark of a span marks its parts
and its arcs. What is not chosen marks cell 0, an item of width 0, which nothing reads. Where items
have lists of derivations (`several_trees.py`), a mark is 1 + the rank of the one that the tree has.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gpuparse.inference.charts.rules import Chart, Factor, Product
from gpuparse.inference.engines import is_traced
from gpuparse.inference.scores import word_mask
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.torch.charts import (
    Maximum,
    Position,
    Scores,
    Semiring,
    Spans,
    Way,
    best_arcs,
    find_ways,
    score_cell,
    weighted,
)

_ONE = Position(constant=1)
_SPAN = Position(starts=1), Position(widths=1, starts=1)


class _View(NamedTuple):
    """The cells of a factor: in a score, or with the name "" in the row of items."""

    name: str
    cell: Position


Sum: TypeAlias = _View | list["Sum"]


class _Rule(NamedTuple):
    """The terms of a rule, added from the left, and the T cells that its mark marks.

    constants: (N, T, 1), by width, if choices are counted from the first rule on. steps: (T, 1),
    from one choice to the next. starts: (T, N). sides: (T, 1), the item of the product that has the
    cell, of n_items.
    """

    terms: Sum
    n_splits: Position
    n_items: int
    constants: Tensor
    steps: Tensor
    starts: Tensor
    sides: Tensor


class _Plan:
    """The cells of items, scores and marks, for N nodes of which `first` have no spans."""

    def __init__(self, chart: Chart, n_all: int, first: int, device: torch.device) -> None:
        self._chart, self._n_all, self._first, self._n = chart, n_all, first, n_all - first
        self._ways = find_ways(chart)
        planes = self._find_planes()
        self.planes = {plane: number * self._n**2 for number, plane in enumerate(planes)}
        self.writes = {
            kind: [_View("", self._cell(plane, *_SPAN)) for plane in planes if plane[0] == kind]
            for kind in self._ways
        }
        # Kinds without a choice have no marks: what marks them marks what they are made of.
        chosen = [kind for kind, ways in self._ways.items() if ways[1:] or ways[0].rule.split]
        self.marks = {kind: number * self._n**2 for number, kind in enumerate(chosen)}
        self.arc_marks = len(chosen) * self._n**2
        self.rules = {kind: self._find_rules(kind, device) for kind in self._ways}

    def _find_planes(self) -> list[tuple[str, bool]]:
        """Kinds, and whether they are kept by end: all that are read, one or two of each kind."""
        found: dict[tuple[str, bool], None] = {}
        for way in (way for ways in self._ways.values() for way in ways):
            for factor in way.rule.factors:
                if factor.name in self._ways and factor.positions != way.rule.item.positions:
                    found[factor.name, way.is_kept_by_end(factor)] = None
        for single_root in (False, True):
            for factor in self._chart.by_item[self._chart.top(single_root)][0].factors:
                if factor.name in self._ways:
                    found[factor.name, False] = None
        kinds = {kind for kind, _ in found}
        return sorted([*found, *((kind, False) for kind in self._ways if kind not in kinds)])

    def _cell(self, plane: tuple[str, bool], a: Position, b: Position) -> Position:
        """The cell of the item from a to b in a plane."""
        n, first, width = self._n, self.planes[plane], weighted((1, b), (-1, a))
        if plane[1]:
            return weighted((first + (n - 1) * n, _ONE), (-n, width), (1, b))
        return weighted((first, _ONE), (n, width), (1, a))

    def _find_rules(self, kind: str, device: torch.device) -> list[_Rule]:
        """The rules of a kind."""
        ways, w = self._ways[kind], np.arange(self._n)
        are_items = [[factor.name in self._ways for factor in way.rule.factors] for way in ways]
        marked = [
            [
                (*cell, side)
                for factor, side in zip(way.rule.factors, np.cumsum([0, *of_way]), strict=False)
                for cell in self._marked(factor, way.at[factor])
            ]
            for way, of_way in zip(ways, are_items, strict=True)
            if kind in self.marks
        ]
        most = max(map(len, marked), default=0)
        found, before = [], np.zeros(self._n, np.int64)
        for way, of_way, cells in zip(ways, are_items, marked or [[]] * len(ways), strict=True):
            numbers = np.zeros((5, most), np.int64)
            numbers[:, : len(cells)] = np.array(cells, np.int64).reshape(-1, 5).T
            constant, widths, starts, splits, sides = numbers[:, :, np.newaxis]
            constants = (constant + widths * w - splits * before).T[:, :, np.newaxis]
            before = before + (way.n_splits.constant + way.n_splits.widths * w).clip(0)
            tensors = (constants, splits, starts * w, sides)
            found.append(
                _Rule(
                    self._terms(way.rule.product, way), way.n_splits, sum(of_way),
                    *(torch.from_numpy(x.copy()).to(device) for x in tensors),
                )
            )  # fmt: skip
        return found

    def _terms(self, product: Product, way: Way) -> Sum:
        return [
            self._terms(x, way) if isinstance(x, Product) else self._view(x, way)
            for x in product.factors
        ]

    def _view(self, factor: Factor, way: Way) -> _View:
        if factor.name not in self._ways:
            rank = len(factor.positions)
            strides = [self._n_all**power for power in range(rank - 1, -1, -1)]
            return _View(factor.name, score_cell(factor, way, strides, self._first))
        if factor.positions == way.rule.item.positions:
            return self.writes[factor.name][0]
        plane = factor.name, way.is_kept_by_end(factor)
        return _View("", self._cell(plane, *way.at[factor]))

    def _marked(self, factor: Factor, at: Sequence[Position]) -> Iterator[Position]:
        """The cells that a part from at[0] to at[1] marks."""
        a, b = at[:2]
        width = weighted((1, b), (-1, a))
        if factor.name == self._chart.arc:
            shift = self.arc_marks + self._first * (self._n_all + 1)
            yield weighted((shift, _ONE), (self._n_all, a), (1, b))
        elif factor.name in self.marks:
            yield weighted((self.marks[factor.name], _ONE), (self._n, width), (1, a))
        elif factor.name in self._ways:
            (way,) = self._ways[factor.name]
            for part in way.rule.factors:
                places = (
                    weighted((p.constant, _ONE), (p.widths, width), (p.starts, a))
                    for p in way.at[part]
                )
                yield from self._marked(part, list(places))


_kept_plan = functools.lru_cache(maxsize=256)(_Plan)


class ChartSearch(Spans):
    """The best items of all spans of a batch; scores are contiguous, and not traced.

    Args: semiring: one with a plane has lists of derivations of each item, and no best one.

    ranks: for such lists, by the number of items of a product, what is marked of these, (2, L);
    derivations are counted by rule, split and place there.
    """

    ranks: dict[int, Tensor] | None = None

    def __init__(
        self, chart: Chart, scores: Scores, lengths: Tensor, *, single_root: bool,
        semiring: Semiring | None = None,
    ) -> None:  # fmt: skip
        super().__init__(chart, scores, lengths, single_root, semiring or Maximum())
        arc, planes = scores[chart.arc], self.semiring.planes
        self._plan = _kept_plan(chart, self.n_all, self.first, arc.device)
        self._cells = arc.new_zeros(*self.lead, len(self._plan.planes) * self.n_nodes**2)
        if planes:
            self._cells[1:] = -torch.inf  # an item of width 0 has one derivation
        tensors = {name: part[(None,) * len(planes)] for name, part in scores.items()}
        # as_strided counts from the beginning of the memory
        self._tensors = {
            name: (part, part.stride()[: len(self.lead)], part.storage_offset())
            for name, part in {**tensors, "": self._cells}.items()
        }
        self._choices: dict[tuple[str, int], Tensor] = {}
        for w in range(1, self.n_nodes):
            for kind in chart.spans:
                self._fill(kind, w)

    def _fill(self, kind: str, w: int) -> None:
        """All items of a kind and width."""
        home, *copies = self._plan.writes[kind]
        values = self._sum(home, w, 1)
        rules = self._plan.rules[kind]
        if kind in self._plan.marks:
            splits = [max(rule.n_splits.at(w), 0) for rule in rules]
            found = values.new_empty((len(values), sum(splits), self.n_nodes - w))
            for rule, n_splits, part in zip(rules, splits, found.split(splits, 1), strict=True):
                if n_splits:
                    self._sum(rule.terms, w, n_splits, part)
            self._choose(kind, w, found, values)
        else:
            self._sum(rules[0].terms, w, 1, values)
        for copy in copies:
            self._sum(copy, w, 1).copy_(values)

    def _choose(self, kind: str, w: int, found: Tensor, values: Tensor) -> None:
        """The values of items, (B, 1, spans), of all their derivations (B, D, spans)."""
        choice = values.new_empty(values.shape, dtype=torch.int64)
        torch.max(found, 1, keepdim=True, out=(values, choice))
        self._choices[kind, w] = choice

    def _sum(self, terms: Sum, w: int, n_splits: int, out: Tensor | None = None) -> Tensor:
        """(..., B, splits, spans) of a term: a view, or into `out`."""
        if isinstance(terms, _View):
            (tensor, strides, offset), cell = self._tensors[terms.name], terms.cell
            size = *tensor.shape[: len(strides)], n_splits, self.n_nodes - w
            offset += cell.constant + cell.widths * w
            return tensor.as_strided(size, (*strides, cell.splits, cell.starts), offset)
        total, *others, last = [self._sum(term, w, n_splits) for term in terms]
        for value in others:
            total = total + value
        return torch.add(total, last, out=out)

    def items(self, kind: str) -> Tensor:
        """See `Spans`."""
        first, n = self._plan.planes[kind, False], self.n_nodes
        return self._cells[..., first : first + n * n].unflatten(-1, (n, n))

    def heads(self, derivations: Tensor) -> Tensor:
        """Heads (B, T, N) of T trees; anything in padding and in sentences without a tree.

        Args: derivations: (B, T) of whole trees, counted by root word, from 0 on, and ranks.
        """
        plan, n = self._plan, self.n_nodes
        marks = torch.zeros(
            (*derivations.shape, plan.arc_marks + self.n_all**2),
            dtype=torch.bool if self.ranks is None else torch.int32, device=derivations.device,
        )  # fmt: skip
        items = [factor for factor in self.top.factors if factor.name in self.chart.by_item]
        root, ranks = 1 + derivations, None
        if self.ranks is not None:
            of_items = self.ranks[len(items)]
            root = 1 + derivations // of_items.shape[1]
            ranks = of_items[:, derivations % of_items.shape[1]][..., None]
        for side, factor in enumerate(items):
            length = width = self.lengths[:, None].expand_as(root)
            start = torch.zeros_like(root)
            if self.first:
                to_last = bool(factor.positions[0].variable)
                width, start = (length - root, root - 1) if to_last else (root - 1, start)
            cell = plan.marks[factor.name] + width.clamp(min=0) * n + start
            marks.scatter_(2, cell[..., None], True if ranks is None else ranks[side])
        if self.first:
            marks.scatter_(2, plan.arc_marks + root[..., None], 1)
        for w in range(n - 1, 0, -1):
            for kind in reversed(plan.marks):
                first = plan.marks[kind] + w * n
                own = marks[..., first : first + n - w]
                cells, ranks = self._marked(kind, w, own)
                is_there = own if ranks is None else own > 0
                cells = cells.mul_(is_there[:, :, None]).flatten(2)
                marks.scatter_(2, cells, True if ranks is None else ranks.flatten(2))
        arcs = marks[..., plan.arc_marks :].unflatten(2, (self.n_all, self.n_all))
        return (arcs > 0).byte().argmax(2)

    def _derivations(self, kind: str, w: int, marks: Tensor) -> Tensor:
        """(B, T, spans) the derivations that trees have of the items that they mark."""
        return self._choices[kind, w]

    def _marked(self, kind: str, w: int, marks: Tensor) -> tuple[Tensor, Tensor | None]:
        """(B, T, C, spans) the cells that marked items mark in their turn, and the marks there."""
        derivations = self._derivations(kind, w, marks)[:, :, None]
        cells = ranks = None
        splits_before = before = 0
        for rule in self._plan.rules[kind]:
            n_splits = rule.n_splits.at(w)
            if n_splits <= 0:
                continue
            split, length, own_ranks = derivations, 1, None
            if self.ranks is not None:
                of_items = self.ranks[rule.n_items]
                length, place = of_items.shape[1], (derivations - before).clamp(min=0)
                split = splits_before + place // length
                own_ranks = of_items[rule.sides, place % length]
            own = torch.addcmul(rule.constants[w], rule.steps, split)
            own += rule.starts[:, : self.n_nodes - w]
            cells = own if cells is None else torch.where(derivations < before, cells, own)
            if own_ranks is not None:
                ranks = (
                    own_ranks if ranks is None
                    else torch.where(derivations < before, ranks, own_ranks)
                )  # fmt: skip
            splits_before, before = splits_before + n_splits, before + n_splits * length
        assert cells is not None
        return cells, ranks


def best_trees(
    chart: Chart, scores: Scores, lengths: Tensor, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """Heads (B, N) of the best trees, -1 at position 0 and in padding, and whether there is one.

    Args: scores: checked, (B, N, N) or more positions. A sentence without words has a tree.
    Cost: the number of derivations; memory as the widest product.
    """
    arc = scores[chart.arc]
    if arc.numel() == 0 or arc.shape[-1] == 1:  # no word at all
        no_heads = torch.full_like(arc[..., 0], NO_HEAD, dtype=torch.int64)
        return no_heads, torch.ones_like(lengths, dtype=torch.bool)
    if is_traced():
        best, arcs = best_arcs(chart, scores, lengths, single_root=single_root)
        heads = arcs.argmax(1)
    else:
        scores = {name: part.detach().contiguous() for name, part in scores.items()}
        search = ChartSearch(chart, scores, lengths, single_root=single_root)
        best, root = search.trees().max(-1)
        heads = search.heads(root[:, None])[:, 0]
    has_tree = (best > -torch.inf) & (lengths > 0)
    is_word = word_mask(lengths, arc.shape[-1]) & has_tree[:, None]
    return heads.masked_fill(~is_word, NO_HEAD), has_tree | (lengths == 0)
