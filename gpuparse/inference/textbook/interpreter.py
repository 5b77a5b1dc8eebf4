"""Best trees, k best trees, all trees and sums from the rules of any chart in inference/charts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import exp, log
from typing import Any, NamedTuple

from gpuparse.inference.charts.rules import Chart, Factor, Product, Rule
from gpuparse.inference.search import NO_HEAD

Positions = tuple[int, ...]
Scores = Mapping[str, Callable[..., Any]]
"""By the name of the score, a function of its positions."""
FORBIDDEN = float("-inf")
NO_SIZES: Mapping[str, int] = {}


class Derivation(NamedTuple):
    """One way to derive an item: its value, its order among equals, and its arcs (h, m, ...)."""

    value: Any
    rank: tuple[int, ...]
    arcs: tuple[Positions, ...]


def k_best(
    chart: Chart,
    scores: Scores,
    n: int,
    k: int | None,
    *,
    single_root: bool = False,
    sizes: Mapping[str, int] = NO_SIZES,
) -> list[Derivation]:
    """The k best trees of n words, best first; all of them where k is None.

    Every item keeps its k best derivations: nothing is lazy, so that nothing can be overlooked.

    Args:
        scores: forbidden parts are -inf. Values are added as the rules say, in their type.
        sizes: by capital letter.
    Returns: Derivations without forbidden parts; their order is that of `inference.charts.rules`.
    Cost: derivations times k log k.
    Source: Huang & Chiang 2005, algorithm 0.
    """
    lists: dict[tuple[str, Positions], list[Derivation]] = {}

    def best_of(name: str, at: Positions) -> list[Derivation]:
        if (name, at) not in lists:
            found = [made for way in _ways(chart, name, at, sizes) for made in derivations(*way)]
            found.sort(key=lambda made: (-made.value, made.rank))
            lists[name, at] = found[:k]
        return lists[name, at]

    def derivations(rule: Rule, number: int, values: dict[str, int]) -> Iterator[Derivation]:
        items, arcs = [], []
        for factor in rule.factors:
            at = _positions(factor, values)
            if factor.name in chart.by_item:
                items.append(best_of(factor.name, at))
            elif factor.name == chart.arc:
                arcs.append(at)
        for ranks in product(*(range(len(of_item)) for of_item in items)):
            ahead = 1  # number of combinations of the same lists that come before this one
            for rank in ranks:
                ahead *= rank + 1
            if k is not None and ahead > k:
                continue
            parts = [of_item[rank] for of_item, rank in zip(items, ranks, strict=True)]
            value = _evaluate(
                rule.product, values, iter([part.value for part in parts]), scores, chart
            )
            if value > FORBIDDEN:
                below = [arc for part in parts for arc in part.arcs]
                yield Derivation(value, (number, *ranks), (*arcs, *below))

    return best_of(chart.top(single_root), (n,))


def log_partition(
    chart: Chart,
    scores: Scores,
    n: int,
    *,
    single_root: bool = False,
    sizes: Mapping[str, int] = NO_SIZES,
) -> float:
    """Logarithm of the sum of exp(score) over all trees of n words; -inf if there is none.

    Nothing is shifted or scaled here: scores must be small.

    Cost: derivations.
    """
    weights: Scores = {
        name: (lambda *at, score=score: exp(score(*at))) for name, score in scores.items()
    }
    sums: dict[tuple[str, Positions], float] = {}

    def sum_of(name: str, at: Positions) -> float:
        if (name, at) not in sums:
            total = 0.0
            for rule, _, values in _ways(chart, name, at, sizes):
                items = (
                    sum_of(factor.name, _positions(factor, values))
                    for factor in rule.factors
                    if factor.name in chart.by_item
                )
                total += _evaluate(rule.product, values, items, weights, chart, is_sum=True)
            sums[name, at] = total
        return sums[name, at]

    total = sum_of(chart.top(single_root), (n,))
    return log(total) if total > 0 else FORBIDDEN


def heads_of(tree: Derivation, n: int) -> list[int]:
    """The head of each word, -1 at the root."""
    head_of = {arc[1]: arc[0] for arc in tree.arcs}
    return [NO_HEAD] + [head_of[m] for m in range(1, n + 1)]


def never_rising(scores: Sequence[Any]) -> list[Any]:
    """Each score, or the smallest before it if that is smaller.

    k best trees are in the order of the chart's sums. Sums in the order of the words can differ
    from those in the last bits, and only there can one be larger than the one before.
    """
    return [min(scores[: t + 1]) for t in range(len(scores))]


def _ways(
    chart: Chart, name: str, at: Positions, sizes: Mapping[str, int] = NO_SIZES
) -> Iterator[tuple[Rule, int, dict[str, int]]]:
    """All rules and splits that derive an item: the rule, the number of the way, its variables."""
    number = 0
    for rule in chart.by_item[name]:
        values = dict(sizes)
        if all(
            values.setdefault(index.variable, position) == position
            for index, position in zip(rule.item.positions, at, strict=True)
        ):
            for split in rule.split_values(values):
                of_split = {rule.split.variable: split} if rule.split else {}
                yield rule, number, values | of_split
                number += 1


def _positions(factor: Factor, values: dict[str, int]) -> Positions:
    return tuple(index.at(values) for index in factor.positions)


def _evaluate(
    factors: Product,
    values: dict[str, int],
    items: Iterator[Any],
    scores: Scores,
    chart: Chart,
    *,
    is_sum: bool = False,
) -> Any:
    """A product from the left: a sum of scores, or for sums a product of weights."""
    total = None
    for factor in factors.factors:
        if isinstance(factor, Product):
            value = _evaluate(factor, values, items, scores, chart, is_sum=is_sum)
        elif factor.name in chart.by_item:
            value = next(items)
        else:
            value = scores[factor.name](*_positions(factor, values))
        if total is None:
            total = value
        else:
            total = total * value if is_sum else total + value
    return (1.0 if is_sum else 0) if total is None else total
