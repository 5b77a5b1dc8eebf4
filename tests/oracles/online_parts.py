"""Figure 6 of McDonald & Pereira (2006), literally: named weights, added up after each sentence.

Trees and graphs are sets of arcs (h, m). Nothing is sparse, lazy or clever, and nothing is shared
with the package.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np

Arcs = set[tuple[int, int]]
Weights = dict[tuple, float]
Features = dict[tuple, Counter]
"""Named features of arcs (h, m), of siblings (h, m, s), s == h where there is none, and of ends
(h, m, "right" or "left"), m == h where there is none."""


def inner_sibling(arcs: Arcs, h: int, m: int) -> int:
    """The modifier of h that is nearest to m, between the two; h if there is none."""
    inside = [s for k, s in arcs if k == h and min(h, m) < s < max(h, m)]
    return min(inside, key=lambda s: abs(s - m), default=h)


def outermost(arcs: Arcs, h: int, side: str) -> int:
    """The modifier of h that is furthest from it on a side; h if there is none."""
    modifiers = [m for k, m in arcs if k == h and (m > h) == (side == "right")]
    return max(modifiers, key=lambda m: abs(m - h), default=h)


def feature_vector(features: Features, arcs: Arcs) -> Counter:
    total: Counter = Counter()
    for h, m in arcs:
        total.update(features[h, m])
        total.update(features[h, m, inner_sibling(arcs, h, m)])
    for part in features:
        if part[-1] in ("right", "left") and part[0] == part[1]:  # every head and side once
            h, _, side = part
            total.update(features[h, outermost(arcs, h, side), side])
    return total


def score(weights: Weights, features: Counter) -> float:
    return sum(weights.get(name, 0.0) * times for name, times in features.items())


def score_tables(
    weights: Weights,
    features: Features,
    n: int,
    *,
    wrong: Arcs | None = None,
    right: Arcs = frozenset(),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of all arcs (N, N), siblings (N, N, N) and ends (N, N); arcs of `wrong` get 1 more, of
    `right` 1 less, and ends what they score above no modifier at all."""
    arcs, siblings, ends = np.zeros((n + 1,) * 2), np.zeros((n + 1,) * 3), np.zeros((n + 1,) * 2)
    for part, found in features.items():
        if len(part) == 2:
            h, m = part
            arcs[h, m] = score(weights, found) + (part in wrong) - (part in right)
        elif part[2] in ("right", "left"):
            h, m, side = part
            if h != m:
                ends[h, m] = score(weights, found) - score(weights, features[h, h, side])
        else:
            siblings[part] = score(weights, found)
    return arcs, siblings, ends


def mistakes(gold: Arcs, found: Arcs, *, graphs: bool) -> int:
    """Words with a wrong head; of graphs false positives and false negatives."""
    return len(gold ^ found) if graphs else len(gold - found)


def averaged_weights(
    features: list[Features],
    gold: list[Arcs],
    predict: Callable[[Weights, int], Arcs],
    orders: list[list[int]],
    *,
    rule: str,
    graphs: bool,
    start: Weights,
    cap: float = np.inf,
    batch_size: int = 1,
) -> tuple[Weights, int]:
    """v / (N T) after len(orders) epochs, and how many mistakes were made in the last of them.

    Args:
        features: of the parts of each sentence. gold: its arcs.
        predict: the arcs found for a sentence under weights.
        orders: sentences of each epoch in their order.
        start: the weights before the first sentence.
        batch_size: sentences predicted with the same weights before any of them is learned from.
    """
    weights, total, seen, wrong = dict(start), dict.fromkeys(start, 0.0), 0, 0
    for order in orders:
        wrong = 0
        for first in range(0, len(order), batch_size):
            batch = order[first : first + batch_size]
            guesses = [predict(weights, sentence) for sentence in batch]
            for sentence, guess in zip(batch, guesses, strict=True):
                difference = feature_vector(features[sentence], gold[sentence])
                difference.subtract(feature_vector(features[sentence], guess))
                cost = mistakes(gold[sentence], guess, graphs=graphs)
                wrong += cost
                length = sum(times * times for times in difference.values())
                size = 0.0
                if cost and length:
                    margin = score(weights, difference)
                    size = min(cap, max(0.0, (cost - margin) / length))
                    if rule == "perceptron":
                        size = 1.0
                for name, times in difference.items():
                    weights[name] = weights.get(name, 0.0) + size * times
                for name, weight in weights.items():
                    total[name] = total.get(name, 0.0) + weight
                seen += 1
    return {name: summed / seen for name, summed in total.items()}, wrong
