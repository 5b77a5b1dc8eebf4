"""Figure 3 of McDonald, Crammer & Pereira (2005), literally: dense weights, added up each time.

Vectors are as long as there are rows; nothing is sparse, lazy or clever.
"""

from collections.abc import Callable, Sequence

import numpy as np

Rows = dict[tuple[int, int], list[int]]


def feature_vector(rows: Rows, heads: Sequence[int], n_rows: int) -> np.ndarray:
    """f(x, y), with rows of every arc (h, m) and heads of words 1..n."""
    vector = np.zeros(n_rows)
    for m, h in enumerate(heads, start=1):
        np.add.at(vector, rows[h, m], 1)
    return vector


def step(rule: str, cost: int, margin: float, difference: np.ndarray, cap: float) -> float:
    length = float(difference @ difference)
    if length == 0:
        return 0.0
    if rule == "perceptron":
        return 1.0
    return min(cap, max(0.0, (cost - margin) / length))


def averaged_weights(
    rows: list[Rows],
    gold: list[list[int]],
    n_rows: int,
    predict: Callable[[np.ndarray, int], list[int]],
    orders: list[list[int]],
    *,
    rule: str,
    cap: float = np.inf,
    batch_size: int = 1,
) -> np.ndarray:
    """v / (N T) after len(orders) epochs.

    Args:
        rows: of the arcs of each sentence. gold: its heads.
        predict: heads of a sentence under weights.
        orders: sentences of each epoch in their order.
        batch_size: sentences predicted with the same weights before any of them is learned from.
    """
    weights, total, seen = np.zeros(n_rows, np.float32), np.zeros(n_rows), 0
    for order in orders:
        for first in range(0, len(order), batch_size):
            batch = order[first : first + batch_size]
            guesses = [predict(weights, sentence) for sentence in batch]
            for sentence, guess in zip(batch, guesses, strict=True):
                right = gold[sentence]
                difference = feature_vector(rows[sentence], right, n_rows)
                difference -= feature_vector(rows[sentence], guess, n_rows)
                cost = sum(a != b for a, b in zip(right, guess, strict=True))
                if cost:
                    margin = float(difference @ weights.astype(np.float64))
                    size = step(rule, cost, margin, difference, cap)
                    weights = (weights + size * difference).astype(np.float32)
                total += weights
                seen += 1
    return total / seen
