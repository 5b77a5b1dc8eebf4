"""Dual decomposition in torch, all sentences of a batch at once."""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gpuparse.errors import NoTreeError
from gpuparse.inference.batched.chu_liu_edmonds import chu_liu_edmonds_torch
from gpuparse.inference.batched.higher_order import eisner_grand_sibling_torch
from gpuparse.inference.higher_order_scores import read_part_cells
from gpuparse.inference.scores import Scores, read_cells
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.textbook.dual_decomposition import GRAIN, PATIENCE, STEP_WITHOUT_A_TREE
from gpuparse.inference.textbook.spanning_trees import chu_liu_edmonds
from gpuparse.inference.tree_parts import part_tree_scores

FEW_SENTENCES = 64


@dataclass
class LimitedLabels:
    """Labels of arcs, of which a head may give some at most once.

    scores: float64 (B, N, N, D), [b, h, m, d]: of the best label of each class, -inf for none.
    labels: int64, these labels. masks: the limits that each class is under, as bits.
    """

    scores: Tensor
    labels: Tensor
    masks: list[int]

    @classmethod
    def of(
        cls, scores: Tensor, lengths: Tensor, class_of: np.ndarray, masks: np.ndarray
    ) -> "LimitedLabels":
        """The labels with the scores (B, N, N, L), under the limits of `classes_of_labels`."""
        is_read = read_cells(lengths, scores.shape[1])
        best, first = [], []
        for number in range(len(masks)):
            labels = torch.from_numpy(np.flatnonzero(class_of == number)).to(scores.device)
            of_class = scores[..., labels].double()
            most = of_class.amax(-1)
            is_best = of_class == most.unsqueeze(-1)
            first.append(torch.where(is_best, labels, scores.shape[-1]).amin(-1))
            best.append(most.masked_fill(~is_read, -torch.inf))
        return cls(torch.stack(best, -1), torch.stack(first, -1), masks.tolist())

    def choose(self, prices: Tensor, in_tree: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The best modifiers of each head and their classes, no limit being used twice.

        Args:
            prices: (B, N, N), subtracted for each modifier that is taken.
            in_tree: (B, N, N) bool: the modifiers that have to be taken, and no others.
        Returns: (B,) the sums, -inf where nothing can be chosen; (B, N, N) the classes, -1 for arcs
            that are left.
        """
        n_nodes, n_sets = prices.shape[1], 1 << max(mask.bit_length() for mask in self.masks)
        gains = self.scores - prices[..., None]
        values = prices.new_full((*prices.shape[:2], n_sets), -torch.inf)
        values[..., 0] = 0.0
        choices = []
        for m in range(1, n_nodes):
            gain = gains[:, :, m]
            after = values.clone()
            if in_tree is not None:
                gain = gain.masked_fill(~in_tree[:, :, m, None], -torch.inf)
                after.masked_fill_(in_tree[:, :, m, None], -torch.inf)
            choice = torch.full_like(values, -1, dtype=torch.int64)
            for number, mask in enumerate(self.masks):
                before = [used for used in range(n_sets) if not used & mask]
                then = [used | mask for used in before]
                value = values[..., before] + gain[..., number, None]
                is_better = value > after[..., then]
                after[..., then] = torch.where(is_better, value, after[..., then])
                choice[..., then] = torch.where(is_better, number, choice[..., then])
            values = after
            choices.append(choice)
        total, used = values.max(-1)
        taken = torch.full_like(prices, -1, dtype=torch.int64)
        masks = torch.tensor(self.masks, device=prices.device)
        for m in range(n_nodes - 1, 0, -1):
            number = choices[m - 1].gather(-1, used[..., None])[..., 0]
            taken[:, :, m] = number
            used = (used - torch.where(number < 0, 0, masks[number.clamp(min=0)])).clamp(min=0)
        return total.sum(1), taken

    def of_trees(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) sums of the best labels of trees (B, N), -inf for none; (B, N) the labels, or -1."""
        nodes = torch.arange(heads.shape[1], device=heads.device)
        in_tree = heads[:, None] == nodes[:, None]
        sums, taken = self.choose(self.scores.new_zeros(in_tree.shape), in_tree)
        number = taken.gather(1, heads.clamp(min=0)[:, None])[:, 0]
        b = torch.arange(len(heads), device=heads.device)[:, None]
        labels = self.labels[b, heads.clamp(min=0), nodes, number.clamp(min=0)]
        is_there = (heads >= 0) & (number >= 0) & (sums > -torch.inf)[:, None]
        return sums, torch.where(is_there, labels, NO_HEAD)

    def chosen(self, which: Tensor) -> "LimitedLabels":
        """Those of some of the sentences only."""
        return LimitedLabels(self.scores[which], self.labels[which], self.masks)


def dual_decomposition_torch(
    parts: Scores,
    single_root: bool,
    max_iterations: int,
    granularity: float | None,
    limits: LimitedLabels | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`textbook.dual_decomposition`, all sentences at once; the same results without limits.

    Returns:
        As `dual_decomposition`, scores in float64; a sentence for which no tree was met gets -inf.
    """
    n_batch, n_nodes = parts.arc.shape[:2]
    device = parts.arc.device
    heads = torch.full((n_batch, n_nodes), NO_HEAD, device=device)
    scores = torch.zeros(n_batch, dtype=torch.float64, device=device)
    certified = torch.ones(n_batch, dtype=torch.bool, device=device)
    iterations = torch.zeros(n_batch, dtype=torch.int64, device=device)
    running = (parts.lengths > 0).nonzero()[:, 0]
    if not len(running):
        return heads, scores, certified, iterations
    descent = _Descent(parts, granularity, limits).chosen(running)
    for iteration in range(1, max_iterations + 1):
        finished = descent.step(single_root) | (iteration == max_iterations)
        done = running[finished]
        heads[done], scores[done] = descent.heads[finished], descent.best[finished]
        certified[done], iterations[done] = descent.is_proven[finished], iteration
        if bool(finished.any()):
            running = running[~finished]
            if not len(running):
                break
            descent = descent.chosen((~finished).nonzero()[:, 0])
    return heads, scores, certified, iterations


def prefer_projective_torch(
    parts: Scores,
    single_root: bool,
    min_gain: float,
    heads: Tensor,
    scores: Tensor,
    limits: LimitedLabels | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Keep trees with crossing arcs that score more than projective trees by more than min_gain.

    Under limits the projective tree is the best one without limits, with the best labels that keep
    them.

    Args: heads, scores: of `dual_decomposition_torch`.
    Returns: heads; scores, in float64; whether no choice is better, bool (B,).
    """
    position = torch.arange(heads.shape[1], device=heads.device)
    first, last = torch.minimum(heads, position), torch.maximum(heads, position)
    first, last = first.masked_fill(heads < 0, 0), last.masked_fill(heads < 0, 0)
    inside = (first[:, :, None] < first[:, None]) & (first[:, None] < last[:, :, None])
    crossing = (inside & (last[:, :, None] < last[:, None])).flatten(1).any(1)
    if min_gain <= 0 or not bool(crossing.any()):
        return heads, scores, torch.ones_like(crossing)
    labelled = parts
    if limits:
        labelled = replace(parts, arc=parts.arc + limits.scores.amax(-1).to(parts.arc.dtype))
    projective, *_ = eisner_grand_sibling_torch(labelled, single_root=single_root)
    bound = part_tree_scores(labelled, projective)
    of_projective = bound
    if limits:
        of_projective = part_tree_scores(parts, projective)
        of_projective = of_projective + limits.of_trees(projective)[0]
    is_close = crossing & (scores <= bound + min_gain)
    gives_way = is_close & (scores <= of_projective + min_gain)
    heads = torch.where(gives_way[:, None], projective, heads)
    is_certain = ~is_close | (of_projective >= bound)
    return heads, torch.where(gives_way, of_projective, scores), is_certain


@dataclass
class _PartScores:
    """Scores of a batch; arcs that are not allowed, bool (B, N, N), are -inf. granularity: (B,)."""

    scores: Scores
    allowed: Tensor
    granularity: Tensor

    def of_modifier(self, m: int) -> Tensor:
        """The scores (B, N, N, G) of m, [b, h, s, g]; G is 1 without grandparents."""
        position = torch.arange(self.scores.arc.shape[1], device=self.scores.arc.device)
        h, s = position[:, None], position
        is_sibling = ((h < s) & (s < m)) | ((m < s) & (s < h)) | (s == h)
        total = self.scores.arc[:, :, m, None]
        if self.scores.sibling is not None:
            total = total + self.scores.sibling[:, :, m]
        total = total.expand(-1, -1, len(position))[..., None]
        if self.scores.grandparent is not None:
            total = total + self.scores.grandparent[:, :, m, None]
        if self.scores.grand_sibling is not None:
            total = total + self.scores.grand_sibling[:, :, m]
        if total.shape[3] > 1:
            total = total.masked_fill(position == m, -torch.inf)
        may_read = is_sibling & self.allowed[:, :, m, None]
        return total.double().masked_fill(~may_read[..., None], -torch.inf)


class _Descent:
    """Lagrange multipliers of a batch in their descent, and the best trees met.

    u, v: (B, N, N), as in the textbook; w: the same for the labels under limits. heads: (B, N),
    best: (B,), the best trees. lowest: (B,), the lowest bound; pace, stalled: (B,). is_proven: bool
    (B,).
    """

    def __init__(
        self, parts: Scores, granularity: float | None, limits: LimitedLabels | None
    ) -> None:
        n_batch, n_nodes = parts.arc.shape[:2]
        arc = parts.arc
        allowed = read_cells(parts.lengths, n_nodes) & (arc > -torch.inf)
        granule = torch.full((n_batch,), granularity or 0.0, device=arc.device).double()
        if granularity is None:
            granule = _all_whole(parts).double()
        scores = replace(parts, arc=arc.masked_fill(~allowed, -torch.inf))
        self.parts = _PartScores(scores, allowed, granule)
        self.has_grandparents = parts.has_grandparents
        whole = (arc.double().masked_fill(~allowed, 0.0) / GRAIN).round() * GRAIN
        self.u = 0.5 * whole
        self.v = -0.5 * self.u if self.has_grandparents else torch.zeros_like(self.u)
        self.limits, self.w = limits, torch.zeros_like(self.u)
        if limits:
            of_labels = limits.scores.amax(-1)
            allowed &= of_labels > -torch.inf
            self.w = (of_labels.masked_fill(~allowed, 0.0) / GRAIN).round() * GRAIN
            if granularity is None:
                is_whole = (limits.scores == limits.scores.floor()) | limits.scores.isinf()
                granule *= is_whole.flatten(1).all(1)
        self.heads = torch.full((n_batch, n_nodes), NO_HEAD, device=arc.device)
        self.best = self.u.new_full((n_batch,), -torch.inf)
        self.lowest, self.pace = -self.best, torch.ones_like(self.best)
        self.stalled = torch.zeros_like(parts.lengths)
        self.is_proven = torch.zeros_like(self.stalled, dtype=torch.bool)

    def chosen(self, which: Tensor) -> "_Descent":
        """The same for some of the sentences only."""
        taken = object.__new__(_Descent)
        for name, value in vars(self).items():
            setattr(taken, name, value[which] if isinstance(value, Tensor) else value)
        parts = self.parts
        scores = Scores(
            **{
                name: value if value is None else value[which]
                for name, value in vars(parts.scores).items()
            }
        )
        taken.parts = _PartScores(scores, parts.allowed[which], parts.granularity[which])
        taken.limits = self.limits.chosen(which) if self.limits else None
        return taken

    def step(self, single_root: bool) -> Tensor:
        """One iteration; bool (B,): which sentences are finished."""
        parts = self.parts
        multipliers = (self.u + self.v + self.w).masked_fill(~parts.allowed, -torch.inf)
        heads, bound = _spanning_trees(multipliers, parts.scores.lengths, single_root)
        totals, as_modifiers, as_heads = self._solve_automata()
        bound = bound + totals
        scores = part_tree_scores(parts.scores, heads)
        as_labelled = None
        if self.limits:
            of_labels, classes = self.limits.choose(self.w)
            as_labelled = (classes >= 0).double()
            bound = bound + of_labels
            scores = scores + self.limits.of_trees(heads)[0]
        is_better = scores > self.best
        self.best = torch.where(is_better, scores, self.best)
        self.heads = torch.where(is_better[:, None], heads, self.heads)
        position = torch.arange(heads.shape[1], device=heads.device)
        in_tree = (heads[:, None] == position[:, None]).double()
        apart = (in_tree - as_modifiers).abs().sum((1, 2))
        if self.has_grandparents:
            apart = apart + (in_tree - as_heads).abs().sum((1, 2))
        if as_labelled is not None:
            apart = apart + (in_tree - as_labelled).abs().sum((1, 2))
        has_tree = self.best > -torch.inf
        reached = (bound < self.best + parts.granularity) | (bound <= self.best)
        self.is_proven = (apart == 0) | (has_tree & reached) | (bound == -torch.inf)
        is_lower = bound < self.lowest
        self.stalled = torch.where(is_lower, 0, self.stalled + 1)
        self.lowest = torch.where(is_lower, bound, self.lowest)
        halves = self.stalled == PATIENCE
        self.pace = torch.where(halves, 0.5 * self.pace, self.pace)
        self.stalled = torch.where(halves, 0, self.stalled)
        gap = torch.where(has_tree, bound - self.best, STEP_WITHOUT_A_TREE * apart)
        step = (self.pace * gap / apart / GRAIN).round() * GRAIN
        step = step.masked_fill(self.is_proven, 0.0)[:, None, None]
        self.u = self.u - step * (in_tree - as_modifiers)
        if self.has_grandparents:
            self.v = self.v - step * (in_tree - as_heads)
        if as_labelled is not None:
            self.w = self.w - step * (in_tree - as_labelled)
        return self.is_proven

    def _solve_automata(self) -> tuple[Tensor, Tensor, Tensor]:
        """Sums of all automata (B,), and the arcs that they choose, (B, N, N) each, 0 or 1."""
        parts, n_nodes = self.parts, self.u.shape[1]
        position = torch.arange(n_nodes, device=self.u.device)
        width = n_nodes if self.has_grandparents else 1
        # chart[b, h, m, g]: best modifiers of h up to m; m == h: none.
        chart = self.u.new_full((*self.u.shape, width), -torch.inf)
        chart[:, position, position] = 0.0
        back = torch.zeros_like(chart, dtype=torch.int64)
        right = range(1, n_nodes)
        for m, from_left in [(m, True) for m in right] + [(m, False) for m in reversed(right)]:
            through = chart + parts.of_modifier(m)
            best, s = _first_best(through, 2, from_left)
            is_here = ((position < m) if from_left else (position > m))[:, None]
            best = best - self.u[:, :, m, None]
            chart[:, :, m] = torch.where(is_here, best, chart[:, :, m])
            back[:, :, m] = torch.where(is_here, s, back[:, :, m])
        ended = chart if parts.scores.end is None else chart + self._ends()[..., None]
        is_right = (position[:, None] <= position)[..., None]
        of_right, last_right = _first_best(ended.masked_fill(~is_right, -torch.inf), 2, True)
        is_left = (position[:, None] >= position)[..., None]
        of_left, last_left = _first_best(ended.masked_fill(~is_left, -torch.inf), 2, False)
        totals = of_right + of_left
        if self.has_grandparents:
            may_head = parts.allowed.mT.clone()
            may_head[:, 0, 0] = True
            totals = (totals - self.v.mT).masked_fill(~may_head, -torch.inf)
        best, g = _first_best(totals, 2, True)
        is_node = position <= parts.scores.lengths[:, None]
        as_heads = torch.zeros_like(self.u)
        if self.has_grandparents:
            as_heads = (g[:, None] == position[:, None]).double() * is_node[:, None]
            as_heads[:, :, 0] = 0.0
        as_modifiers = self._trace(back, last_right, g) + self._trace(back, last_left, g)
        return (
            best.masked_fill(~is_node, 0.0).sum(1), as_modifiers * is_node[..., None], as_heads
        )  # fmt: skip

    def _ends(self) -> Tensor:
        end = self.parts.scores.end
        assert end is not None
        return end.double().masked_fill(~self.parts.allowed, 0.0)

    def _trace(self, back: Tensor, last: Tensor, g: Tensor) -> Tensor:
        """The chains of modifiers that end with last[b, h, g], under the heads g[b, h]."""
        taken = torch.zeros_like(self.u)
        h = torch.arange(self.u.shape[1], device=g.device).expand_as(g)
        at = last.gather(2, g[..., None])[..., 0]
        back = back.gather(3, g[:, :, None, None].expand(*back.shape[:3], 1))[..., 0]
        while bool((at != h).any()):
            taken.scatter_add_(2, at[..., None], (at != h).double()[..., None])
            at = torch.where(at == h, at, back.gather(2, at[..., None])[..., 0])
        return taken


def _spanning_trees(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """`chu_liu_edmonds_torch`; of few sentences in main memory by the textbook, which is faster."""
    if scores.device.type != "cpu" or len(scores) > FEW_SENTENCES:
        return chu_liu_edmonds_torch(scores, lengths, single_root=single_root)
    heads = torch.full_like(scores[:, 0], NO_HEAD, dtype=torch.int64)
    totals = scores.new_full((len(scores),), -torch.inf)
    for b, n in enumerate(lengths.tolist()):
        with suppress(NoTreeError):
            cells = scores[b, : n + 1, : n + 1].tolist()
            tree, totals[b] = chu_liu_edmonds(cells, single_root=single_root)
            heads[b, : n + 1] = torch.tensor(tree)
    return heads, totals


def _first_best(values: Tensor, dim: int, from_left: bool) -> tuple[Tensor, Tensor]:
    """The highest along a dimension, and the first place of it, from the left or right."""
    if from_left:
        best, place = values.max(dim)
        return best, place
    best, place = values.flip(dim).max(dim)
    return best, values.shape[dim] - 1 - place


def _all_whole(parts: Scores) -> Tensor:
    """bool (B,): whether all scores that are finite and may be read are whole."""
    whole = torch.ones_like(parts.lengths, dtype=torch.bool)
    for name in ("arc", "sibling", "grandparent", "grand_sibling", "end"):
        scores = getattr(parts, name)
        if scores is not None:
            is_read = read_part_cells(parts.lengths, parts.arc.shape[1], name, may_cross=True)
            is_whole = (scores == scores.floor()) | (scores == -torch.inf) | ~is_read
            whole &= is_whole.flatten(1).all(1)
    return whole
