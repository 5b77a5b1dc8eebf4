"""Learning of labels, literally: dense weights, added up after every sentence."""

import numpy as np


def step(rule: str, cost: int, margin: float, difference: np.ndarray, cap: float) -> float:
    length = float(difference @ difference)
    if length == 0:
        return 0.0
    if rule == "perceptron":
        return 1.0
    return min(cap, max(0.0, (cost - margin) / length))


def averaged_label_weights(
    arcs: list[list[tuple[list[int], int, bool]]],
    shape: tuple[int, int],
    may_be_primary: np.ndarray,
    *,
    rule: str,
    cap: float = np.inf,
) -> tuple[np.ndarray, int]:
    """The mean of the weights after each sentence, and how many arcs were wrong when met.

    Args:
        arcs: of each sentence: lines of its features, gold label (-1: passed over), is primary.
        shape: lines and labels. may_be_primary: which labels a primary arc may have.
    """
    weights, total, wrong = np.zeros(shape, np.float32), np.zeros(shape), 0
    for sentence in arcs:
        for lines, gold, is_primary in sentence:
            others = [
                label
                for label in range(shape[1])
                if label != gold and (may_be_primary[label] or not is_primary)
            ]
            if gold < 0 or not others:
                continue
            scores = sum((weights[line] for line in lines), np.zeros(shape[1], np.float32))
            guess = max(others, key=lambda label: (scores[label], -label))
            difference = np.zeros(shape)
            for line in lines:
                difference[line, gold] += 1
                difference[line, guess] -= 1
            margin = float(scores[gold]) - float(scores[guess])
            wrong += margin <= 0
            if rule != "perceptron" or margin <= 0:
                size = step(rule, 1, margin, difference.ravel(), cap)
                weights = (weights + size * difference).astype(np.float32)
        total += weights
    return total / len(arcs), wrong
