"""Dual decomposition of non-projective trees with larger parts: the public functions, and torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference.backends import choose_backend, require_compiled
from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds_torch
from gpuparse.inference.crossing_scores import (
    CrossingParts,
    check_crossing_parts,
    check_label_scores,
    classes_of_labels,
    crossing_tree_scores,
    read_grandparent_cells,
)
from gpuparse.inference.higher_order_scores import native_scores
from gpuparse.inference.kernels.cpu.threads import run_in_threads
from gpuparse.inference.reference_dual_decomposition import (
    GRAIN,
    PATIENCE,
    STEP_WITHOUT_A_TREE,
)
from gpuparse.inference.scores import read_cells, read_sibling_cells
from gpuparse.tensors import NO_HEAD

MAX_ITERATIONS = 1000  # solutions of all sub-problems of a sentence


def dual_decomposition(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    max_iterations: int = MAX_ITERATIONS,
    granularity: float | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best tree of every sentence of a batch, crossing arcs allowed, mostly with a certificate.

    Args:
        arc_scores, lengths: as `chu_liu_edmonds` reads them.
        sibling_scores, end_scores: as `eisner_sibling` reads them; None: zeros.
        grandparent_scores: (B, N, N, N), [b, h, m, g], g the head of h, 0 for h = 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g], with both contexts.
        single_root: exactly one modifier of the root; otherwise one or more.
        max_iterations: solutions of all sub-problems of a sentence.
        granularity: the scores of two trees are equal or differ by at least this much, so that a
            bound nearer than this to a tree's score certifies it. None: 1 where all scores of a
            sentence are whole, else 0: the bound must be reached but for rounding errors.
        backend: "auto", "cpu" (compiled) or "torch".

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), in the type of the scores:
        sums in float64, over words 1, 2, ..., n, of ((arc + sibling) + grandparent) + grand-sibling
        and the end; certified bool (B,): no tree scores more; iterations int64 (B,). Without a
        certificate it is the best tree met. Among equally good trees, the one met first.
        Backends search in different ways, so their certified trees have equal scores, and no more
        is promised.

    Raises:
        ScoreError: as `check_crossing_parts`; a limit or granularity that is none; an unknown
            backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts, or none
            was found within the iterations.

    Cost: an iteration takes O(n^2) and, for A arcs of which up to k lead from a head to one side,
    O(A k) times the heads of a word in models with grandparents. "cpu" branches where the bound
    does not close, so that only the number of iterations keeps it from being exact; "torch" does
    not, and takes O(n^4) memory a sentence.
    Source: Koo, Rush, Collins, Jaakkola & Sontag 2010; differs: steps towards the best tree met
    (Polyak 1969), trees repaired by hill climbing, arcs barred by bounds, branches.
    """
    chosen = choose_backend(backend, arc_scores.device)
    _check_limits(max_iterations, granularity)
    parts = check_crossing_parts(
        arc_scores,
        lengths,
        sibling_scores=sibling_scores,
        grandparent_scores=grandparent_scores,
        grand_sibling_scores=grand_sibling_scores,
        end_scores=end_scores,
    )
    limits = single_root, max_iterations, granularity
    if chosen == "cpu":
        heads, _, scores, certified, iterations = _decompose_compiled(parts, *limits)
    else:
        heads, scores, certified, iterations = dual_decomposition_torch(parts, *limits)
    _require_found(scores, certified, max_iterations)
    return heads, scores.to(parts.arc.dtype), certified, iterations


def dual_decomposition_labelled(
    arc_scores: Tensor,
    label_scores: Tensor,
    lengths: Tensor,
    *,
    limits: Sequence[Sequence[int] | set[int] | frozenset[int]],
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    max_iterations: int = MAX_ITERATIONS,
    granularity: float | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`dual_decomposition` with labels, of which a head may have some no more than once.

    The limits are a further sub-problem: for each head, the best modifiers and labels that keep
    them. No tree is returned that breaks one; each tree met gets its best labels under the limits.

    Args:
        arc_scores, lengths, and all others not named here: as there, in main memory.
        label_scores: (B, N, N, L), [b, h, m, l], added to the score of the arc; -inf forbids.
        limits: sets of labels, each of which a head may give to at most one modifier, at most
            `MOST_LIMITS`. A label may be in several sets.
        backend: "auto" or "cpu".

    Returns:
        heads, as there; labels int64 (B, N), -1 at position 0 and in padding: the first among
        equals; scores, labels' included; certified; iterations.

    Raises:
        ScoreError: as there; a label that does not exist; too many limits.
        NoTreeError: as there; no tree keeps the limits, or none was found.

    Cost: as there, and O(A L) besides; an iteration takes O(A 2^K D) more for K limits, D being the
    different sets of limits that labels are under.
    """
    require_compiled("dual_decomposition_labelled", backend, arc_scores.device)
    _check_limits(max_iterations, granularity)
    parts = check_crossing_parts(
        arc_scores,
        lengths,
        sibling_scores=sibling_scores,
        grandparent_scores=grandparent_scores,
        grand_sibling_scores=grand_sibling_scores,
        end_scores=end_scores,
    )
    of_labels = check_label_scores(label_scores, parts)
    class_of, masks = classes_of_labels(limits, of_labels.shape[3])
    labels = LimitedLabels(of_labels.double().flatten(1).numpy(), class_of, masks)
    found = _decompose_compiled(parts, single_root, max_iterations, granularity, labels)
    heads, best_labels, scores, certified, iterations = found
    _require_found(scores, certified, max_iterations)
    dtype = torch.promote_types(parts.arc.dtype, of_labels.dtype)
    return heads, best_labels, scores.to(dtype), certified, iterations


def _check_limits(max_iterations: int, granularity: float | None) -> None:
    if max_iterations < 1:
        raise ScoreError(f"max_iterations is {max_iterations}, expected a number from 1 on")
    if granularity is not None and not 0 <= granularity < np.inf:
        raise ScoreError(f"granularity is {granularity}, expected None or a number from 0 on")


def _require_found(scores: Tensor, certified: Tensor, max_iterations: int) -> None:
    """Raise NoTreeError for the first sentence whose score is -inf."""
    missing = (scores == -torch.inf).nonzero()
    if len(missing):
        b = int(missing[0, 0])
        what = "has no tree" if certified[b] else f"shows no tree in {max_iterations} iterations"
        raise NoTreeError(
            f"sentence {b} of the batch {what}: too many of its parts are forbidden (-inf)"
        )


class LimitedLabels(NamedTuple):
    """Scores of labels, float64 (B, N N L), and limits: of native/api/higher.h."""

    scores: np.ndarray
    class_of: np.ndarray
    masks: np.ndarray

    def of_sentences(self, part: slice) -> "LimitedLabels":
        """The labels of some sentences."""
        return self._replace(scores=self.scores[part])


class _DualLimits(NamedTuple):
    """Limits of a search: of native/api/higher.h."""

    single_root: bool
    max_iterations: int
    granularity: float
    min_gain: float = 0.0


def _decompose_compiled(
    parts: CrossingParts,
    single_root: bool,
    max_iterations: int,
    granularity: float | None,
    labels: LimitedLabels | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Heads, labels (of no sentence without limits), scores in float64, certified, iterations."""
    scores, words = native_scores(parts), parts.lengths.numpy()
    limits = _DualLimits(
        single_root, max_iterations, -1.0 if granularity is None else float(granularity)
    )
    shape = parts.arc.shape[:2]
    heads, best_labels = np.empty(shape, np.int64), np.empty(shape, np.int64)
    totals, certified = np.empty(shape[0]), np.empty(shape[0], np.bool_)
    iterations = np.empty(shape[0], np.int64)

    def search(part: slice) -> None:
        native.call(
            "dual_decomposition_batch", scores.of_sentences(part),
            None if labels is None else labels.of_sentences(part), words[part],
            parts.has_grandparents, limits, heads[part], best_labels[part], totals[part],
            certified[part], iterations[part],
        )  # fmt: skip

    run_in_threads(search, words, 3, torch.get_num_threads())
    found = heads, best_labels, totals, certified, iterations
    return tuple(torch.from_numpy(array) for array in found)


def dual_decomposition_torch(
    parts: CrossingParts, single_root: bool, max_iterations: int, granularity: float | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`reference_dual_decomposition.dual_decomposition`, all sentences at once; the same results.

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
    descent = _Descent(parts, granularity).chosen(running)
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


@dataclass
class _Parts:
    """Scores of a batch; arcs that are not allowed, bool (B, N, N), are -inf. granularity: (B,)."""

    scores: CrossingParts
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
    """Prices of a batch on their way down, and the best trees met.

    u, v: (B, N, N), as in the textbook. heads: (B, N), best: (B,), the best trees. lowest: (B,),
    the lowest bound; pace, stalled: (B,). is_proven: bool (B,).
    """

    def __init__(self, parts: CrossingParts, granularity: float | None) -> None:
        n_batch, n_nodes = parts.arc.shape[:2]
        arc = parts.arc
        allowed = read_cells(parts.lengths, n_nodes) & (arc > -torch.inf)
        granule = torch.full((n_batch,), granularity or 0.0, device=arc.device).double()
        if granularity is None:
            granule = _all_whole(parts).double()
        scores = replace(parts, arc=arc.masked_fill(~allowed, -torch.inf))
        self.parts = _Parts(scores, allowed, granule)
        self.has_grandparents = parts.has_grandparents
        whole = (arc.double().masked_fill(~allowed, 0.0) / GRAIN).round() * GRAIN
        self.u = 0.5 * whole
        self.v = -0.5 * self.u if self.has_grandparents else torch.zeros_like(self.u)
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
        scores = CrossingParts(
            **{
                name: value if value is None else value[which]
                for name, value in vars(parts.scores).items()
            }
        )
        taken.parts = _Parts(scores, parts.allowed[which], parts.granularity[which])
        return taken

    def step(self, single_root: bool) -> Tensor:
        """One iteration; bool (B,): which sentences are finished."""
        parts = self.parts
        prices = (self.u + self.v).masked_fill(~parts.allowed, -torch.inf)
        heads, bound = chu_liu_edmonds_torch(prices, parts.scores.lengths, single_root=single_root)
        totals, as_modifiers, as_heads = self._solve_automata()
        bound = bound + totals
        scores = crossing_tree_scores(parts.scores, heads)
        is_better = scores > self.best
        self.best = torch.where(is_better, scores, self.best)
        self.heads = torch.where(is_better[:, None], heads, self.heads)
        position = torch.arange(heads.shape[1], device=heads.device)
        in_tree = (heads[:, None] == position[:, None]).double()
        apart = (in_tree - as_modifiers).abs().sum((1, 2))
        if self.has_grandparents:
            apart = apart + (in_tree - as_heads).abs().sum((1, 2))
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


def _first_best(values: Tensor, dim: int, from_left: bool) -> tuple[Tensor, Tensor]:
    """The highest along a dimension, and the first place of it, from the left or right."""
    if from_left:
        best, place = values.max(dim)
        return best, place
    best, place = values.flip(dim).max(dim)
    return best, values.shape[dim] - 1 - place


def _all_whole(parts: CrossingParts) -> Tensor:
    """bool (B,): whether all scores that are finite and may be read are whole."""
    n_nodes = parts.arc.shape[1]
    cells = read_cells(parts.lengths, n_nodes)
    siblings = read_sibling_cells(parts.lengths, n_nodes)
    grandparents = read_grandparent_cells(parts.lengths, n_nodes)
    read = {
        "arc": cells,
        "end": cells,
        "sibling": siblings,
        "grandparent": grandparents,
        "grand_sibling": siblings[..., None] & grandparents[:, :, :, None],
    }
    whole = torch.ones(len(cells), dtype=torch.bool, device=cells.device)
    for name, is_read in read.items():
        scores = getattr(parts, name)
        if scores is not None:
            is_whole = (scores == scores.floor()) | (scores == -torch.inf) | ~is_read
            whole &= is_whole.flatten(1).all(1)
    return whole
