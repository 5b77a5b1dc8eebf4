"""A chart of `gpuparse.inference.charts` over a batch, in torch: all spans of one width at once.

The engine reads the rules of a page whose items have two positions and whose rules have at most
one split, which grows. A semiring says what a sum over derivations is: the best one, or the sum of
all. Values have the shape (..., B, spans). Items to the left of a split are kept by width and
start; those to the right by width, from the widest down, and end. So both parts of all splits of
one width stand in the same cells of two tensors. Everything here can be differentiated and traced;
`chart_search.py` finds best trees sooner.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gpuparse.inference.charts.rules import Chart, Factor, Index, Product, Rule, Split
from gpuparse.inference.engines import is_traced
from gpuparse.inference.scores import largest_into_words

ABSENT = -1e300  # the logarithm of no tree, no weight: -inf would make gradients NaN

Scores = Mapping[str, Tensor]
"""By the name of the score, (..., B, N, N) or more positions: what is added for a part."""


class Semiring(Protocol):
    """The computation of a chart; its product is the sum of scores. planes: the sizes of (...)."""

    planes: tuple[int, ...]

    def lift(self, scores: Tensor) -> Tensor:
        """Scores (B, M) as values (..., B, M)."""

    def sum(self, values: Tensor) -> Tensor:
        """From (..., B, derivations, spans) the sum over derivations."""

    def forbid(self, values: Tensor, cells: Tensor) -> Tensor:
        """Values (..., B, M) with zeros of the semiring at these cells (B, M)."""


class Maximum:
    """The best derivation; the gradient is that of the first of equally good ones."""

    planes: tuple[int, ...] = ()

    def lift(self, scores: Tensor) -> Tensor:
        return scores

    def sum(self, values: Tensor) -> Tensor:
        return values.max(-2).values

    def forbid(self, values: Tensor, cells: Tensor) -> Tensor:
        return values.masked_fill(cells, -torch.inf)


class LogSum:
    """The logarithm of the sum over all derivations, (1, B, ...), or also the entropy, (2, B, ...).

    Logarithms and entropies of independent parts are both added, so that a chart of both is a chart
    of one. The entropy of a sum is the expectation of what is below and of the surprise of the
    choice: all terms are positive, and nothing cancels. The logarithm of 0 is ABSENT.
    """

    def __init__(self, with_entropy: bool) -> None:
        self.planes: tuple[int, ...] = (2,) if with_entropy else (1,)

    def lift(self, scores: Tensor) -> Tensor:
        logs = scores.clamp(min=ABSENT)
        return logs[None] if self.planes == (1,) else torch.stack([logs, torch.zeros_like(logs)])

    def sum(self, values: Tensor) -> Tensor:
        log_sum = torch.logsumexp(values[:1], -2)
        if len(values) == 1:
            return log_sum
        surprise = log_sum[0, ..., None, :] - values[0]
        entropy = (torch.softmax(values[0], -2) * (values[1] + surprise)).sum(-2)
        return torch.cat([log_sum, entropy[None]])

    def forbid(self, values: Tensor, cells: Tensor) -> Tensor:
        return torch.cat([values[:1].masked_fill(cells, ABSENT), values[1:]])


class Position(NamedTuple):
    """A number for the span from i to i + w and its split d = 0, 1, ...

    It is constant + widths * w + starts * i + splits * d.
    """

    constant: int = 0
    widths: int = 0
    starts: int = 0
    splits: int = 0

    def at(self, w: int) -> int:
        """The number for the first span of width w and its first split."""
        return self.constant + self.widths * w


def weighted(*terms: tuple[int, Position]) -> Position:
    """A sum of multiples of places."""
    scaled = ([factor * number for number in place] for factor, place in terms)
    return Position(*map(sum, zip(*scaled, strict=True)))


class Way(NamedTuple):
    """A rule, the number of its splits, 1 without any, and the positions of its factors."""

    rule: Rule
    n_splits: Position
    at: dict[Factor, tuple[Position, ...]]

    def is_kept_by_end(self, factor: Factor) -> bool:
        """True if this part of the product is read from what is kept by end."""
        start = self.at[factor][0]  # with a split, narrower with every one
        return start.splits > 0 or start.constant > 0


def find_ways(chart: Chart) -> dict[str, list[Way]]:
    """The ways to build items of each kind."""
    found: dict[str, list[Way]] = {kind: [] for kind in chart.spans}
    for rule in (rule for kind in chart.spans for rule in chart.by_item[kind] if rule.factors):
        start, end = (index.variable for index in rule.item.positions)
        of_variables = {
            start: Position(starts=1),
            end: Position(widths=1, starts=1),
            "": Position(),
        }

        def at(index: Index, of_variables: dict[str, Position] = of_variables) -> Position:
            return weighted((1, of_variables[index.variable]), (index.offset, Position(constant=1)))

        n_splits = Position(constant=1)
        if rule.split:
            first, last = at(rule.split.first), at(rule.split.last)
            n_splits = weighted((1, last), (-1, first), (1, n_splits))
            of_variables[rule.split.variable] = first._replace(splits=1)
        positions = {factor: tuple(map(at, factor.positions)) for factor in rule.factors}
        found[rule.item.name].append(Way(rule, n_splits, positions))
    return found


_kept_ways = functools.lru_cache(maxsize=64)(find_ways)


class Spans:
    """The items of all spans of a batch, and the trees that they make.

    Args of the constructor:
        chart: the page. scores: of parts. lengths: int64 (B,).
        single_root: one modifier of the root; otherwise one or more.
        semiring: what is computed.
    """

    def __init__(
        self, chart: Chart, scores: Scores, lengths: Tensor, single_root: bool, semiring: Semiring
    ) -> None:
        self.chart, self.scores, self.lengths, self.semiring = chart, scores, lengths, semiring
        self.first = 1 if single_root else 0
        self.top = chart.by_item[chart.top(single_root)][0]
        arc = scores[chart.arc]
        self.n_all, self.lead = arc.shape[-1], (*semiring.planes, len(arc))
        self.n_nodes = self.n_all - self.first

    def items(self, kind: str) -> Tensor:
        """(..., B, widths, starts) of a kind that trees are made of."""
        raise NotImplementedError

    def trees(self) -> Tensor:
        """(..., B, N - 1) the trees of each single root word, or (..., B, 1) all trees."""
        if self.top.split is None:
            (factor,) = self.top.factors
            return _gather(self.items(factor.name)[..., 0], self.lengths[:, None])
        return self.semiring.forbid(self._roots(self.top.product), self._after_root() < 0)

    def _after_root(self) -> Tensor:
        """Words after each root word 1, 2, ..., (B, N - 1); below 0 in padding."""
        word = torch.arange(1, self.n_all, device=self.lengths.device)
        return self.lengths[:, None] - word

    def _roots(self, product: Product) -> Tensor:
        """The product of TREE for each root word, (..., B, N - 1)."""
        total = None
        for factor in product.factors:
            if isinstance(factor, Product):
                value = self._roots(factor)
            elif factor.name not in self.chart.by_item:
                value = self._root_parts(factor)
            elif factor.positions[0].variable:  # from the root word to the last
                start = torch.arange(self.n_nodes, device=self.lengths.device)
                cell = self._after_root().clamp(min=0) * self.n_nodes + start
                value = _gather(self.items(factor.name).flatten(-2), cell)
            else:
                value = self.items(factor.name)[..., 0]
            total = value if total is None else self._times(total, value)
        assert total is not None
        return total

    def _times(self, left: Tensor, right: Tensor) -> Tensor:
        """The product of two values."""
        return left + right

    def _root_parts(self, factor: Factor) -> Tensor:
        """The scores of a part for each root word."""
        part = self.scores[factor.name]
        for index in factor.positions:  # the dimensions behind the batch, from the first on
            if index.variable:
                part = part.narrow(1, 1, self.n_all - 1).movedim(1, -1)
            else:
                part = part.select(1, index.offset)
        return self.semiring.lift(part)


def score_cell(factor: Factor, way: Way, strides: Sequence[int], first: int) -> Position:
    """The place of the score of a part in its tensor.

    Args: strides: behind the batch. first: the position of the first node that has spans.
    """
    at = way.at[factor]
    shift = first * sum(s * place.starts for s, place in zip(strides, at, strict=True))
    return weighted(*zip(strides, at, strict=True), (shift, Position(constant=1)))


class Inside(Spans):
    """The items of all spans of a batch, as tensors that autograd can go through."""

    def __init__(
        self, chart: Chart, scores: Scores, lengths: Tensor, single_root: bool, semiring: Semiring
    ) -> None:
        super().__init__(chart, scores, lengths, single_root, semiring)
        # Remembered, unless code is traced, which would warn of it.
        self.ways = (find_ways if is_traced() else _kept_ways)(chart)
        by_start, by_end = self._kept_kinds()
        # Items of width 0 are one, which is 0, or are not there: then the first row has width 1.
        self.narrowest = {
            kind: int(all(rule.factors for rule in chart.by_item[kind])) for kind in chart.spans
        }
        arc = scores[chart.arc]

        def rows_of(kind: str) -> Tensor:
            return arc.new_zeros((*self.lead, 1 - self.narrowest[kind], self.n_nodes))

        self.by_start = {kind: rows_of(kind) for kind in by_start}
        self.by_end = {kind: rows_of(kind) for kind in by_end}
        self.rows = {kind: [arc.new_zeros((*self.lead, self.n_nodes))] for kind in by_start}
        self.parts = self._gather_parts()
        for w in range(1, self.n_nodes):
            self._fill(w)

    def _kept_kinds(self) -> tuple[list[str], list[str]]:
        """Kinds of items that are kept by start, and by end."""
        by_start = {factor.name for factor in self.top.factors} & set(self.chart.by_item)
        by_end: set[str] = set()
        for way in (way for ways in self.ways.values() for way in ways):
            for factor in way.rule.factors:
                if factor.name not in self.ways or factor.positions == way.rule.item.positions:
                    continue
                (by_end if way.is_kept_by_end(factor) else by_start).add(factor.name)
        return sorted(by_start), sorted(by_end)

    def _ways_at(self, kind: str, w: int) -> list[Way]:
        """The ways to build items of this kind and width."""
        return [way for way in self.ways[kind] if way.n_splits.at(w) > 0]

    def _fill(self, w: int) -> None:
        """All items of width w."""
        self.by_start = {kind: kept[..., :-1] for kind, kept in self.by_start.items()}
        self.by_end = {kind: kept[..., 1:] for kind, kept in self.by_end.items()}
        now: dict[str, Tensor] = {}
        for kind in self.chart.spans:
            ways = self._ways_at(kind, w)
            values = [self._product(way.rule.product, way, w, now) for way in ways]
            if len(ways) == 1 and ways[0].rule.split is None:
                now[kind] = values[0]
            else:
                values = [
                    value if way.rule.split else value[..., None, :]
                    for way, value in zip(ways, values, strict=True)
                ]
                now[kind] = self.semiring.sum(torch.cat(values, -2) if values[1:] else values[0])
            row = now[kind][..., None, :]
            if kind in self.by_start:
                self.rows[kind].append(now[kind])
                self.by_start[kind] = torch.cat([self.by_start[kind], row], -2)
            if kind in self.by_end:
                self.by_end[kind] = torch.cat([row, self.by_end[kind]], -2)

    def _product(self, product: Product, way: Way, w: int, now: dict[str, Tensor]) -> Tensor:
        """A product of all splits of all spans of one width: (..., B, splits, spans).

        Without a split (..., B, spans).
        """
        total = None
        for factor in product.factors:
            if isinstance(factor, Product):
                value = self._product(factor, way, w, now)
            elif factor.name not in self.chart.by_item:
                value = self.parts[factor, way.rule.split, w]
            elif factor.positions == way.rule.item.positions:
                value = now[factor.name]
                if way.rule.split:
                    value = value[..., None, :]
            else:
                value = self._items(factor, way, w)
            total = value if total is None else total + value
        assert total is not None
        return total

    def _items(self, factor: Factor, way: Way, w: int) -> Tensor:
        """A part of all splits, as a view."""
        a, b = way.at[factor]
        width = b.at(w) - a.at(w) - self.narrowest[factor.name]
        if way.is_kept_by_end(factor):
            kept = self.by_end[factor.name]
            row = kept.shape[-2] - 1 - width
        else:
            kept, row = self.by_start[factor.name], width
        if way.rule.split is None:
            return kept[..., row, :]
        n_splits = way.n_splits.at(w)  # slices cost much on the way back
        return kept if kept.shape[-2] == n_splits else kept[..., row : row + n_splits, :]

    def _gather_parts(self) -> dict[tuple[Factor, Split | None, int], Tensor]:
        """All parts of all widths. Each score is gathered once: its gradient is then one tensor."""
        wanted: dict[str, list[tuple[Factor, Way, int]]] = {}
        for w in range(1, self.n_nodes):
            for way in (way for kind in self.chart.spans for way in self._ways_at(kind, w)):
                for factor in way.rule.factors:
                    if factor.name not in self.chart.by_item:
                        wanted.setdefault(factor.name, []).append((factor, way, w))
        found = {}
        for name, of_score in wanted.items():
            flat = self.scores[name].flatten(1)
            rank = self.scores[name].dim() - 1
            strides = [self.n_all**power for power in range(rank - 1, -1, -1)]
            cells = []
            for factor, way, w in of_score:
                place = score_cell(factor, way, strides, self.first)
                start = torch.arange(self.n_nodes - w, device=flat.device)
                cell = place.at(w) + start * place.starts
                if way.rule.split:
                    split = torch.arange(way.n_splits.at(w), device=flat.device)[:, None]
                    cell = cell + split * place.splits
                cells.append(cell)
            taken = flat.index_select(1, torch.cat([cell.flatten() for cell in cells]))
            taken = self.semiring.lift(taken)
            parts = taken.split([cell.numel() for cell in cells], -1)
            for (factor, way, w), cell, part in zip(of_score, cells, parts, strict=True):
                found[factor, way.rule.split, w] = part.unflatten(-1, cell.shape)
        return found

    def items(self, kind: str) -> Tensor:
        """See `Spans`."""
        pad = torch.nn.functional.pad
        rows = [pad(row, (0, self.n_nodes - row.shape[-1])) for row in self.rows[kind]]
        return torch.stack(rows, -2)

    def total(self) -> Tensor:
        """The value of all trees (..., B)."""
        return self.semiring.sum(self.trees()[..., None])[..., 0]


def best_arcs(
    chart: Chart, scores: Scores, lengths: Tensor, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """The scores of the best trees (B,), and their arcs (B, N, N), 1 where there is one.

    Sentences without a tree have the score -inf and any arcs.
    Cost: several times that of `chart_search`; but it can be traced.
    """

    def best(arc: Tensor) -> Tensor:
        moved = {**scores, chart.arc: arc}
        return Inside(chart, moved, lengths, single_root, Maximum()).total()

    values, (arcs,) = differentiate(best, (scores[chart.arc],), keep_gradients=False)
    return values, arcs


def differentiate(
    log_partitions: Callable[..., Tensor], scores: tuple[Tensor, ...], *, keep_gradients: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Log-partitions (B,) and their gradients: the marginals of the parts with these scores.

    Args:
        log_partitions: of the scores; -inf without a tree, where marginals are 0.
        keep_gradients: the marginals are to be differentiated in their turn.
    Source: Eisner 2016, "Inside-outside and forward-backward algorithms are just backprop".
    """

    def total(*scores: Tensor) -> tuple[Tensor, Tensor]:
        values = log_partitions(*scores)
        return values.masked_fill(values == -torch.inf, 0.0).sum(), values

    if is_traced():
        of_all = tuple(range(len(scores)))
        marginals, values = torch.func.grad(total, of_all, has_aux=True)(*scores)
        return values, marginals
    with torch.inference_mode(False), torch.enable_grad():
        scores = tuple(
            part
            if keep_gradients and part.requires_grad
            else part.detach().clone().requires_grad_()
            for part in scores
        )
        whole, values = total(*scores)
        marginals = torch.autograd.grad(
            whole, scores, create_graph=keep_gradients, materialize_grads=True
        )
    return values, marginals


def log_sums(
    chart: Chart, scores: Scores, lengths: Tensor, *, single_root: bool, with_entropy: bool
) -> Tensor:
    """Log-partition and, if asked for, entropy: (1 or 2, B); autograd goes through it.

    Args: scores: float64 (B, N, N) or more positions, finite or -inf, 0 where nothing is read.
    Returns: 0 for a sentence without words, -inf for the log-partition of one without a tree.
    Cost: the number of derivations, in time and memory.
    Source: the expectation semiring of Li & Eisner 2009.
    """
    arc = scores[chart.arc]
    if arc.shape[-1] == 1:  # zeros that autograd can lead back to the scores, which are 0 here
        return (0.0 * arc).sum((1, 2)).expand(2 if with_entropy else 1, -1)
    # The largest score into each word is 0 in the chart, and added to the sum again.
    top = largest_into_words(arc, lengths)
    inside = Inside(
        chart,
        {**scores, chart.arc: arc - top[:, None]},
        lengths,
        single_root,
        LogSum(with_entropy),
    )
    sums = inside.total()
    has_words = lengths > 0
    log_partition = torch.where(sums[0] <= ABSENT / 2, -torch.inf, sums[0] + top.sum(1))
    log_partition = torch.where(has_words, log_partition, 0.0)
    return torch.stack([log_partition, *torch.where(has_words, sums[1:], 0.0)])


def _gather(values: Tensor, index: Tensor) -> Tensor:
    """values[..., b, ..., index[b, ...]] along the last dimension; index has no leading ones."""
    return values.gather(-1, index.expand(*values.shape[:-1], index.shape[-1]))
