"""Several trees of a chart for every sentence of a batch, in torch: the k best, and random ones."""

import functools

import torch
from torch import Tensor

from gpuparse.inference.charts.rules import Chart
from gpuparse.inference.scores import largest_into_words, word_mask
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.torch.chart_search import ChartSearch, Sum
from gpuparse.inference.torch.charts import Maximum, Scores


class _Lists(Maximum):
    """The k best derivations of each item, (k, B, ...)."""

    def __init__(self, k: int) -> None:
        self.planes: tuple[int, ...] = (k,)

    def lift(self, scores: Tensor) -> Tensor:
        return scores[None]


class _KBest(ChartSearch):
    """Lists of the k best derivations of each item, ordered by value, rule, split and pair."""

    def __init__(
        self, chart: Chart, scores: Scores, lengths: Tensor, k: int, *, single_root: bool
    ) -> None:
        # Where a pair of ranks has k better ones in both lists, no tree has it.
        pairs = [(a, b) for a in range(k) for b in range(k // (a + 1))]
        self._pairs = torch.tensor(pairs, device=lengths.device).T
        marks = (self._pairs + 1).int()
        self.ranks = {1: marks[:, marks[1] == 1], 2: marks}
        super().__init__(chart, scores, lengths, single_root=single_root, semiring=_Lists(k))

    def _times(self, left: Tensor, right: Tensor) -> Tensor:
        if len(left) == 1 or len(right) == 1:  # a score, which all derivations have
            return left + right
        a, b = self._pairs
        return left[a] + right[b]

    def _sum(self, terms: Sum, w: int, n_splits: int, out: Tensor | None = None) -> Tensor:
        if isinstance(terms, list):
            return functools.reduce(self._times, (self._sum(x, w, n_splits) for x in terms))
        return super()._sum(terms, w, n_splits)

    def _fill(self, kind: str, w: int) -> None:
        rules = self._plan.rules[kind]
        if kind in self._plan.marks:
            products = [
                self._sum(rule.terms, w, rule.n_splits.at(w)).movedim(0, 2).flatten(1, 2)
                for rule in rules
                if rule.n_splits.at(w) > 0
            ]
            values, self._choices[kind, w] = first_best(torch.cat(products, 1), self.lead[0])
            values = values.movedim(1, 0)[:, :, None]
        else:  # of one item, whose order stays
            values = self._sum(rules[0].terms, w, 1)
        for home in self._plan.writes[kind]:
            self._sum(home, w, 1).copy_(values)

    def _derivations(self, kind: str, w: int, marks: Tensor) -> Tensor:
        return self._choices[kind, w].gather(1, (marks - 1).clamp(min=0).long())


class _Random(ChartSearch):
    """Sums over all derivations of each item, float64, and random ones by their shares."""

    def __init__(
        self, chart: Chart, scores: Scores, lengths: Tensor, generator: torch.Generator | None, *,
        single_root: bool,
    ) -> None:  # fmt: skip
        self._generator = generator
        super().__init__(chart, scores, lengths, single_root=single_root)

    def _choose(self, kind: str, w: int, found: Tensor, values: Tensor) -> None:
        values.copy_(found.logsumexp(1, keepdim=True))
        self._choices[kind, w] = sums_of_shares(found.mT, values.mT)

    def _derivations(self, kind: str, w: int, marks: Tensor) -> Tensor:
        return draw(self._choices[kind, w], marks.shape[1], self._generator).mT


def k_best_trees(
    chart: Chart, scores: Scores, lengths: Tensor, k: int, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """Heads (B, k, N) of the k best trees, and whether they exist (B, k).

    Args: scores: checked, (B, N, N) or more positions.
    Returns: -1 at position 0, in padding and where there are fewer trees.
    Cost: O(n^3 k log k) time; memory as the widest product, O(n^2 k log k).
    Source: Huang & Chiang 2005, algorithm 0; differs: all spans of one width at once.
    """
    arc = scores[chart.arc]
    heads = torch.full_like(arc[:, :1], NO_HEAD, dtype=torch.int64).repeat(1, k, 1)
    exists = torch.arange(k, device=arc.device).eq(0).repeat(len(arc), 1)
    if arc.numel() == 0 or arc.shape[-1] == 1:  # no word at all
        return heads, exists
    scores = {name: part.detach().contiguous() for name, part in scores.items()}
    search = _KBest(chart, scores, lengths, k, single_root=single_root)
    of_roots = search.trees().movedim(0, -1).flatten(1)
    values, derivations = first_best(of_roots[..., None], k)
    exists = torch.where(lengths[:, None] > 0, values[..., 0] > -torch.inf, exists)
    is_word = word_mask(lengths, arc.shape[-1])[:, None] & exists[..., None]
    return torch.where(is_word, search.heads(derivations[..., 0]), heads), exists


def random_trees(
    chart: Chart, scores: Scores, lengths: Tensor, n_samples: int,
    generator: torch.Generator | None, *, single_root: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Heads (B, n_samples, N) of random trees, and whether there are any (B,).

    Args:
        scores: checked, float64 (B, N, N) or more positions. generator: on their device.
    Cost: O(n^3) time and memory once, and O(n^2 log n) for each tree.
    Source: top-down through the inside chart.
    """
    arc = scores[chart.arc]
    heads = torch.full_like(arc[:, :1], NO_HEAD, dtype=torch.int64).repeat(1, n_samples, 1)
    if len(arc) == 0 or arc.shape[-1] == 1:
        return heads, torch.ones_like(lengths, dtype=torch.bool)
    # Every tree loses the same.
    scores = {**scores, chart.arc: arc - largest_into_words(arc, lengths)[:, None]}
    scores = {name: part.detach().contiguous() for name, part in scores.items()}
    search = _Random(chart, scores, lengths, generator, single_root=single_root)
    values = search.trees()
    total = values.logsumexp(1, keepdim=True)
    derivations = draw(sums_of_shares(values, total)[:, None], n_samples, generator)[:, 0]
    is_word = word_mask(lengths, arc.shape[-1])[:, None]
    has_tree = (total[:, 0] > -torch.inf) | (lengths == 0)
    return torch.where(is_word, search.heads(derivations), heads), has_tree


def first_best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of values (B, D, M) along D, falling, the first of equals first; their places.

    Where there are fewer they are -inf.
    """
    missing = max(k - values.shape[1], 0)
    padded = torch.nn.functional.pad(values, (0, 0, 0, missing), value=-torch.inf)
    found, places = padded.sort(dim=1, descending=True, stable=True)
    return found[:, :k], places[:, :k].clamp(max=values.shape[1] - 1)


def sums_of_shares(values: Tensor, total: Tensor) -> Tensor:
    """The shares of logarithms (..., D) in their sum (..., 1), added up from the first on."""
    return (values - total).exp().nan_to_num(0.0).cumsum(-1)


def draw(sums: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """Random places (..., count) by `sums_of_shares` (..., D)."""
    size = *sums.shape[:-1], count
    drawn = torch.rand(size, dtype=sums.dtype, device=sums.device, generator=generator)
    # The last sum is 1 but for rounding. What has no share is never the first above anything.
    drawn = drawn * sums[..., -1:]
    places = torch.searchsorted(sums.contiguous(), drawn, right=True)
    return places.clamp(max=sums.shape[-1] - 1)
