"""A chart of `gpuparse.inference.charts` over a batch, in torch: all spans of one width at once.

The engine reads the rules of a page whose items have two positions and whose rules have at most
one split. A semiring says what a sum over derivations is: the best one, or the sum of all. Values
have the shape (..., B, spans). Items to the left of a split are kept by width and start; those to
the right by width, from the widest down, and end. So both parts of all splits of one width stand in
the same cells of two tensors.
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gpuparse.inference.charts.rules import Chart, Factor, Index, Product, Rule, Split
from gpuparse.inference.engines import is_traced
from gpuparse.inference.scores import read_cells
from gpuparse.inference.search import NO_HEAD

ABSENT = -1e300  # the logarithm of no tree: -inf would make gradients NaN

Scores = Mapping[str, Tensor]
"""By the name of the score, (..., B, N, N) or more positions: what is added for a part."""


class Semiring(Protocol):
    """The computation of a chart; its product is the sum of scores. planes: the sizes of (...)."""

    planes: tuple[int, ...]

    def lift(self, scores: Tensor) -> Tensor:
        """Scores (B, M) as values (..., B, M)."""

    def sum(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """From (..., B, derivations, spans) the sum over derivations; of maxima the index too."""

    def forbid(self, values: Tensor, cells: Tensor) -> Tensor:
        """Values (..., B, M) with zeros of the semiring at these cells (B, M)."""


class Maximum:
    """The best derivation, the first of equally good ones."""

    planes: tuple[int, ...] = ()

    def lift(self, scores: Tensor) -> Tensor:
        return scores

    def sum(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        best, index = values.max(-2)
        return best, index

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

    def sum(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        log_sum = torch.logsumexp(values[:1], -2)
        if len(values) == 1:
            return log_sum, None
        surprise = log_sum[0, ..., None, :] - values[0]
        entropy = (torch.softmax(values[0], -2) * (values[1] + surprise)).sum(-2)
        return torch.cat([log_sum, entropy[None]]), None

    def forbid(self, values: Tensor, cells: Tensor) -> Tensor:
        return torch.cat([values[:1].masked_fill(cells, ABSENT), values[1:]])


class _Position(NamedTuple):
    """A position of the span from i on with the split i + d: constant + starts * i + splits * d."""

    constant: int
    starts: int
    splits: int


class _Way(NamedTuple):
    """A rule for spans of one width: its first split is i + first, and it has `n_splits` splits.

    at: of each of its factors, the positions.
    """

    rule: Rule
    width: int
    first: int
    n_splits: int
    at: dict[Factor, tuple[_Position, ...]]


def _make_ways(chart: Chart, kind: str, w: int) -> list[_Way]:
    """The ways to build items of this kind and width."""
    found = []
    for rule in chart.by_item[kind]:
        if not rule.factors:
            continue
        start, end = (index.variable for index in rule.item.positions)
        bases = {start: _Position(0, 1, 0), end: _Position(w, 1, 0), "": _Position(0, 0, 0)}

        def at(index: Index, bases: dict[str, _Position] = bases) -> _Position:
            base = bases.get(index.variable, _Position(0, 1, 1))
            return base._replace(constant=base.constant + index.offset)

        first, last = 0, 0
        if rule.split:
            first, last = at(rule.split.first).constant, at(rule.split.last).constant
        if first <= last:
            positions = {factor: tuple(map(at, factor.positions)) for factor in rule.factors}
            found.append(_Way(rule, w, first, last - first + 1, positions))
    return found


def _make_all_ways(chart: Chart, n_nodes: int) -> dict[tuple[str, int], list[_Way]]:
    """The ways to build items of each kind and width below `n_nodes`."""
    return {
        (kind, w): _make_ways(chart, kind, w) for w in range(1, n_nodes) for kind in chart.spans
    }


_kept_ways = functools.lru_cache(maxsize=64)(_make_all_ways)


class Inside:
    """The items of all spans of a batch.

    Args of the constructor:
        chart: the page.
        scores: where gradients are not kept, of any strides.
        lengths: int64 (B,).
        single_root: one modifier of the root; otherwise one or more.
        semiring: what is computed.
        keep_gradients: build tensors that autograd can go through, instead of writing into some.
    """

    def __init__(
        self,
        chart: Chart,
        scores: Scores,
        lengths: Tensor,
        *,
        single_root: bool,
        semiring: Semiring,
        keep_gradients: bool,
    ) -> None:
        self.chart, self.scores, self.lengths, self.semiring = chart, scores, lengths, semiring
        self.first = 1 if single_root else 0
        self.top = chart.by_item[chart.top(single_root)][0]
        arc = scores[chart.arc]
        self.n_all, self.lead = arc.shape[-1], (*semiring.planes, len(arc))
        self.n_nodes = self.n_all - self.first
        self.keep_gradients = keep_gradients
        # Remembered, unless code is traced, which would warn of it.
        self.ways = (_make_all_ways if is_traced() else _kept_ways)(chart, max(self.n_nodes, 3))
        by_start, by_end = _kept_kinds(chart, self.ways)
        # Items of width 0 are one, which is 0, or are not there: then the first row has width 1.
        self.narrowest = {
            kind: int(keep_gradients and all(rule.factors for rule in chart.by_item[kind]))
            for kind in chart.spans
        }
        rows = {
            kind: 1 - self.narrowest[kind] if keep_gradients else self.n_nodes
            for kind in chart.spans
        }
        self.by_start = {
            kind: arc.new_zeros((*self.lead, rows[kind], self.n_nodes)) for kind in by_start
        }
        self.by_end = {
            kind: arc.new_zeros((*self.lead, rows[kind], self.n_nodes)) for kind in by_end
        }
        self.rows = {kind: [arc.new_zeros((*self.lead, self.n_nodes))] for kind in by_start}
        self.choices: dict[tuple[str, int], Tensor | None] = {}
        # Views of scores need strides, which are not known where code is traced.
        self.gathers = keep_gradients or is_traced()
        self.parts = self._gather_parts() if self.gathers else {}
        for w in range(1, self.n_nodes):
            self._fill(w)

    def _fill(self, w: int) -> None:
        """All items of width w."""
        if self.keep_gradients:
            self.by_start = {kind: kept[..., :-1] for kind, kept in self.by_start.items()}
            self.by_end = {kind: kept[..., 1:] for kind, kept in self.by_end.items()}
        now: dict[str, Tensor] = {}
        for kind in self.chart.spans:
            ways = self.ways[kind, w]
            values = [self._product(way.rule.product, way, now) for way in ways]
            choice = None
            if len(ways) == 1 and ways[0].rule.split is None:
                now[kind] = values[0]
            else:
                values = [
                    value if way.rule.split else value[..., None, :]
                    for way, value in zip(ways, values, strict=True)
                ]
                now[kind], choice = self.semiring.sum(
                    torch.cat(values, -2) if len(values) > 1 else values[0]
                )
            self.choices[kind, w] = choice
            self._keep(kind, w, now[kind])

    def _keep(self, kind: str, w: int, values: Tensor) -> None:
        """Append the items of one width to what is kept of a kind."""
        spans = self.n_nodes - w
        if kind in self.by_start:
            if self.keep_gradients:
                self.rows[kind].append(values)
                self.by_start[kind] = torch.cat([self.by_start[kind], values[..., None, :]], -2)
            else:
                self.by_start[kind][..., w, :spans] = values
        if kind in self.by_end:
            if self.keep_gradients:
                self.by_end[kind] = torch.cat([values[..., None, :], self.by_end[kind]], -2)
            else:
                self.by_end[kind][..., self.n_nodes - 1 - w, w:] = values

    def _product(self, product: Product, way: _Way, now: dict[str, Tensor]) -> Tensor:
        """A product of all splits of all spans of one width: (..., B, splits, spans).

        Without a split (..., B, spans).
        """
        total = None
        for factor in product.factors:
            if isinstance(factor, Product):
                value = self._product(factor, way, now)
            elif factor.name not in self.chart.by_item:
                value = self._part(factor, way)
            elif factor.positions == way.rule.item.positions:
                value = now[factor.name]
                if way.rule.split:
                    value = value[..., None, :]
            else:
                value = self._items(factor, way)
            total = value if total is None else total + value
        assert total is not None
        return total

    def _items(self, factor: Factor, way: _Way) -> Tensor:
        """A part of all splits, as a view."""
        a, b = way.at[factor]
        spans, width = self.n_nodes - way.width, b.constant - a.constant
        width += (b.splits - a.splits) * way.first - self.narrowest[factor.name]
        if _is_kept_by_end(a):  # with a split, narrower with every one
            kept = self.by_end[factor.name]
            row, columns = kept.shape[-2] - 1 - width, slice(-spans, None)
        else:
            kept, row, columns = self.by_start[factor.name], width, slice(spans)
        if way.rule.split is None:
            return kept[..., row, :] if self.keep_gradients else kept[..., row, columns]
        end = row + way.n_splits
        if self.keep_gradients:  # has these columns alone; slices cost much on the way back
            return kept if kept.shape[-2] == way.n_splits else kept[..., row:end, :]
        return kept[..., row:end, columns]

    # -- Scores of parts --

    def _part(self, factor: Factor, way: _Way) -> Tensor:
        """The scores of a part in all splits of all spans of one width."""
        if self.gathers:
            return self.parts[factor, way.rule.split, way.width]
        scores = self.scores[factor.name]
        strides = scores.stride()
        offset, starts, splits = self._cells(factor, way, strides[1:])
        size, steps = [self.n_nodes - way.width], [starts]
        if way.rule.split:
            size, steps = [way.n_splits, *size], [splits, *steps]
        return scores.as_strided(
            (len(scores), *size), (strides[0], *steps), scores.storage_offset() + offset
        )

    def _cells(self, factor: Factor, way: _Way, strides: tuple[int, ...]) -> tuple[int, int, int]:
        """The place of a part of the first span and split, and the steps to the next ones."""
        positions = way.at[factor]
        offset = sum(
            (at.constant + at.starts * self.first + at.splits * way.first) * stride
            for at, stride in zip(positions, strides, strict=True)
        )
        starts = sum(at.starts * stride for at, stride in zip(positions, strides, strict=True))
        splits = sum(at.splits * stride for at, stride in zip(positions, strides, strict=True))
        return offset, starts, splits

    def _gather_parts(self) -> dict[tuple[Factor, Split | None, int], Tensor]:
        """All parts of all widths. Each score is gathered once: its gradient is then one tensor."""
        wanted: dict[str, list[tuple[Factor, _Way]]] = {}
        for w in range(1, self.n_nodes):
            for way in (way for kind in self.chart.spans for way in self.ways[kind, w]):
                for factor in way.rule.factors:
                    if factor.name not in self.chart.by_item:
                        wanted.setdefault(factor.name, []).append((factor, way))
        found = {}
        for name, of_score in wanted.items():
            flat = self.scores[name].flatten(1)
            rank = self.scores[name].dim() - 1
            strides = tuple(self.n_all**power for power in range(rank - 1, -1, -1))
            cells = []
            for factor, way in of_score:
                offset, starts, splits = self._cells(factor, way, strides)
                start = torch.arange(self.n_nodes - way.width, device=flat.device)
                cell = offset + start * starts
                if way.rule.split:
                    cell = cell + torch.arange(way.n_splits, device=flat.device)[:, None] * splits
                cells.append(cell)
            taken = flat.index_select(1, torch.cat([cell.flatten() for cell in cells]))
            taken = self.semiring.lift(taken)
            parts = taken.split([cell.numel() for cell in cells], -1)
            for (factor, way), cell, part in zip(of_score, cells, parts, strict=True):
                found[factor, way.rule.split, way.width] = part.unflatten(-1, cell.shape)
        return found

    # -- All trees --

    def total(self) -> tuple[Tensor, Tensor | None]:
        """The value of all trees (..., B); with a single root and of maxima, the root word (B,)."""
        if self.top.split is None:
            (factor,) = self.top.factors
            return _gather(self.by_start[factor.name][..., 0], self.lengths[:, None])[..., 0], None
        value = self._roots(self.top.product)
        beyond = self._after_root() < 0
        value, choice = self.semiring.sum(self.semiring.forbid(value, beyond)[..., None])
        return value[..., 0], None if choice is None else choice[..., 0] + 1

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
                value = self._after_roots(factor.name)
            else:
                value = self.by_start[factor.name][..., 0]
            total = value if total is None else total + value
        assert total is not None
        return total

    def _after_roots(self, kind: str) -> Tensor:
        """The items from each root word to the last word, (..., B, N - 1)."""
        items = self.by_start[kind]
        if self.keep_gradients:
            pad = torch.nn.functional.pad
            rows = [pad(row, (0, self.n_nodes - row.shape[-1])) for row in self.rows[kind]]
            items = torch.stack(rows, -2)
        start = torch.arange(self.n_nodes, device=self.lengths.device)
        return _gather(items.flatten(-2), self._after_root().clamp(min=0) * self.n_nodes + start)

    def _root_parts(self, factor: Factor) -> Tensor:
        """The scores of a part for each root word."""
        part = self.scores[factor.name]
        for index in factor.positions:  # the dimensions behind the batch, from the first on
            if index.variable:
                part = part.narrow(1, 1, self.n_all - 1).movedim(1, -1)
            else:
                part = part.select(1, index.offset)
        return self.semiring.lift(part)

    # -- The way back --

    def heads(self, root: Tensor | None) -> Tensor:
        """Heads (B, N) of the best trees, by the choices from the widest spans to the narrowest.

        Args: root: as `total` gives it.
        Returns: -1 at position 0 and in padding. Sentences without a tree get anything.
        """
        marks = _Marks(self)
        heads = torch.full(
            (*self.lead, self.n_all), NO_HEAD, dtype=torch.int64, device=self.lengths.device
        )
        for factor in self.top.factors:
            if factor.name not in self.chart.by_item:
                continue
            if root is None:
                marks.mark(factor.name, self.lengths, torch.zeros_like(self.lengths))
            elif factor.positions[0].variable:
                marks.mark(factor.name, self.lengths - root, root - 1)
            else:
                marks.mark(factor.name, root - 1, torch.zeros_like(root))
        for w in range(self.n_nodes - 1, 0, -1):
            used = marks.of_width(w)
            for kind in reversed(self.chart.spans):
                if kind in used:
                    self._follow(kind, w, used, marks, heads)
        if root is not None:
            word = torch.arange(self.n_all, device=heads.device)
            heads = torch.where(word == root[:, None], 0, heads)
        return heads

    def _follow(
        self, kind: str, w: int, used: dict[str, Tensor], marks: "_Marks", heads: Tensor
    ) -> None:
        """Mark the parts of the items of one kind and width, and write the heads of their arcs."""
        choice, before = self.choices[kind, w], 0
        start = marks.start[: self.n_nodes - w]
        ways = self.ways[kind, w]
        for way in ways:
            chosen, to_split = used[kind], way.first - before
            if len(ways) > 1 and choice is not None:
                chosen = chosen & (choice >= before) & (choice < before + way.n_splits)
            before += way.n_splits
            for factor in way.rule.factors:
                if factor.positions == way.rule.item.positions and factor.name in used:
                    used[factor.name] = used[factor.name] | chosen
                elif factor.name in self.chart.by_item:
                    a, b = way.at[factor]
                    # The cell of the item in the split i + d is constant + i + by_split * d.
                    by_split = (b.splits - a.splits) * self.n_nodes + a.splits
                    constant = (b.constant - a.constant) * self.n_nodes + a.constant
                    cell = start + (constant + by_split * to_split)
                    if choice is not None and by_split:
                        cell = torch.add(cell, choice, alpha=by_split)
                    marks.spread(factor.name, chosen, cell)
                elif factor.name == self.chart.arc:
                    h, m = (at.constant + self.first for at in way.at[factor][:2])
                    words = heads[:, m : m + len(start)]
                    words.copy_(torch.where(chosen, start + h, words))


class _Marks:
    """The spans of the best trees.

    A kind has one boolean (B, N^2 + 1), flat over [width, start]. The last cell takes the marks of
    spans that have none to give.
    """

    def __init__(self, inside: Inside) -> None:
        self.n_nodes = inside.n_nodes
        device = inside.lengths.device
        shape = (*inside.lead, self.n_nodes * self.n_nodes + 1)
        self.by_kind = {
            kind: torch.zeros(shape, dtype=torch.bool, device=device) for kind in inside.chart.spans
        }
        self.start = torch.arange(self.n_nodes, device=device)

    def mark(self, kind: str, width: Tensor, start: Tensor) -> None:
        """Mark one span a sentence; the empty one where the sentence has no words."""
        cell = width.clamp(min=0) * self.n_nodes + start.clamp(min=0)
        self.by_kind[kind].scatter_(1, cell.clamp(max=self.n_nodes**2)[:, None], True)

    def of_width(self, w: int) -> dict[str, Tensor]:
        """The marks of one width, (B, spans) by kind."""
        cells = slice(w * self.n_nodes, (w + 1) * self.n_nodes - w)
        return {kind: marks[:, cells] for kind, marks in self.by_kind.items()}

    def spread(self, kind: str, chosen: Tensor, cell: Tensor) -> None:
        """Mark the spans of these cells (B, spans) where `chosen` says so."""
        self.by_kind[kind].scatter_(1, torch.where(chosen, cell, self.n_nodes**2), True)


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
    inside = Inside(
        chart, scores, lengths, single_root=single_root, semiring=Maximum(), keep_gradients=False
    )
    best, root = inside.total()
    has_tree = (best > -torch.inf) & (lengths > 0)
    heads = inside.heads(root).masked_fill(~has_tree[:, None], NO_HEAD)
    return heads, has_tree | (lengths == 0)


def differentiate(
    log_partitions: Callable[[Tensor], Tensor], scores: Tensor, *, keep_gradients: bool
) -> tuple[Tensor, Tensor]:
    """Log-partitions (B,) and their gradient: the marginals of the parts with these scores.

    Args:
        log_partitions: of the scores; -inf without a tree, where marginals are 0.
        keep_gradients: the marginals are to be differentiated in their turn.
    Source: Eisner 2016, "Inside-outside and forward-backward algorithms are just backprop".
    """

    def total(scores: Tensor) -> tuple[Tensor, Tensor]:
        values = log_partitions(scores)
        return values.masked_fill(values == -torch.inf, 0.0).sum(), values

    if is_traced():
        marginals, values = torch.func.grad(total, has_aux=True)(scores)
        return values, marginals
    with torch.inference_mode(False), torch.enable_grad():
        if not (keep_gradients and scores.requires_grad):
            scores = scores.detach().clone().requires_grad_()
        whole, values = total(scores)
        (marginals,) = torch.autograd.grad(whole, scores, create_graph=keep_gradients)
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
    read = read_cells(lengths, arc.shape[-1])
    top = arc.detach().masked_fill(~read, -torch.inf).amax(1)
    top = top.masked_fill(top == -torch.inf, 0.0)
    inside = Inside(
        chart,
        {**scores, chart.arc: arc - top[:, None]},
        lengths,
        single_root=single_root,
        semiring=LogSum(with_entropy),
        keep_gradients=True,
    )
    sums, _ = inside.total()
    has_words = lengths > 0
    log_partition = torch.where(sums[0] > ABSENT / 2, sums[0] + top.sum(1), -torch.inf)
    log_partition = torch.where(has_words, log_partition, 0.0)
    return torch.stack([log_partition, *torch.where(has_words, sums[1:], 0.0)])


def _is_kept_by_end(start: _Position) -> bool:
    """True if an item with this start is read from what is kept by end."""
    return start.splits > 0 or start.constant > 0


def _kept_kinds(
    chart: Chart, ways: Mapping[tuple[str, int], list[_Way]]
) -> tuple[list[str], list[str]]:
    """Kinds of items that are kept by start, and by end."""
    by_start, by_end = set(), set()
    for way in (way for kind in chart.spans for way in ways[kind, 2]):
        for factor in way.rule.factors:
            if factor.name not in chart.by_item:
                continue
            if _is_kept_by_end(way.at[factor][0]):
                by_end.add(factor.name)
            elif factor.positions != way.rule.item.positions:
                by_start.add(factor.name)
    for single_root in (False, True):
        factors = chart.by_item[chart.top(single_root)][0].factors
        by_start |= {factor.name for factor in factors} & set(chart.by_item)
    return sorted(by_start), sorted(by_end)


def _gather(values: Tensor, index: Tensor) -> Tensor:
    """values[..., b, ..., index[b, ...]] along the last dimension; index has no leading ones."""
    return values.gather(-1, index.expand(*values.shape[:-1], index.shape[-1]))
