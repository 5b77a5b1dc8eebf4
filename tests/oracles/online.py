"""Online learning, literally: named weights, changed and added up sentence by sentence.

McDonald, Crammer & Pereira (2005), figure 3 and section 2.3.1; McDonald & Pereira (2006), figure 6;
with labels, Carreras (2007). Nothing is sparse, lazy or clever, and nothing is shared with the
package.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tests.oracles.quadratic import smallest_steps

UNKNOWN = -1
Arcs = frozenset[tuple[int, int]]
Weights = dict[Hashable, float]
Features = dict[tuple, Counter]
"""Named features of arcs (h, m), of siblings (h, m, s), s == h where there is none, and of ends
(h, m, "right" or "left"), m == h where there is none."""


class TieError(Exception):
    """The k-th tree scores as high as the next: which of them counts, no definition says."""


@dataclass(frozen=True)
class Answer:
    """The arcs of a tree or graph, and numbers of the labels of words 1..n if there are any.

    Gold may have no arc to a word, and UNKNOWN for its label.
    """

    arcs: Arcs
    labels: tuple[int, ...] | None = None


class Task(Protocol):
    """The sentences of a treebank, numbered, and how their trees are found."""

    def find(self, weights: Weights, s: int) -> tuple[Answer, list[Answer]]:
        """The answer that is learned towards, and those that it is to be told from."""

    def features_of(self, s: int, answer: Answer) -> Counter: ...

    def cost_of(self, s: int, answer: Answer) -> int: ...


def inner_sibling(arcs: Arcs, h: int, m: int) -> int:
    """The modifier of h that is nearest to m, between the two; h if there is none."""
    inside = [s for k, s in arcs if k == h and min(h, m) < s < max(h, m)]
    return min(inside, key=lambda s: abs(s - m), default=h)


def outermost(arcs: Arcs, h: int, side: str) -> int:
    """The modifier of h that is furthest from it on a side; h if there is none."""
    modifiers = [m for k, m in arcs if k == h and (m > h) == (side == "right")]
    return max(modifiers, key=lambda m: abs(m - h), default=h)


def feature_vector(features: Features, arcs: Arcs) -> Counter:
    """The features of arcs, siblings and ends of a tree or graph."""
    total: Counter = Counter()
    for h, m in arcs:
        total.update(features[h, m])
        total.update(features.get((h, m, inner_sibling(arcs, h, m)), {}))
    for part in features:
        if part[-1] in ("right", "left") and part[0] == part[1]:  # every head and side once
            h, _, side = part
            total.update(features[h, outermost(arcs, h, side), side])
    return total


def score(weights: Weights, features: Counter) -> float:
    return sum(weights.get(name, 0.0) * times for name, times in features.items())


def score_tables(
    weights: Weights, features: Features, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of all arcs (N, N), siblings (N, N, N) and ends (N, N), of ends what they score above
    no modifier at all."""
    arcs, siblings, ends = np.zeros((n + 1,) * 2), np.zeros((n + 1,) * 3), np.zeros((n + 1,) * 2)
    for part, found in features.items():
        if len(part) == 2:
            arcs[part] = score(weights, found)
        elif part[2] in ("right", "left"):
            h, m, side = part
            if h != m:
                ends[h, m] = score(weights, found) - score(weights, features[h, h, side])
        else:
            siblings[part] = score(weights, found)
    return arcs, siblings, ends


def change(
    weights: Weights, task: Task, s: int, target: Answer, found: list[Answer], rule: str, cap: float
) -> Counter:
    """How the weights move for one sentence."""
    wrong = [each for each in found if task.cost_of(s, each) > 0]
    if rule == "perceptron":
        wrong = [each for each in found[:1] if task.cost_of(s, each) > 0]
    differences = []
    for each in wrong:
        difference = Counter(task.features_of(s, target))
        difference.subtract(task.features_of(s, each))
        differences.append(difference)
    if not wrong:
        return Counter()
    costs = [task.cost_of(s, each) for each in wrong]
    missing = [c - score(weights, d) for c, d in zip(costs, differences, strict=True)]
    gram = [[sum(d[name] * e[name] for name in d) for e in differences] for d in differences]
    if rule == "perceptron":
        steps = [1.0]
    else:
        limits = (np.inf, 0.5 / cap) if rule == "passive-aggressive" else (cap, 0.0)
        steps = smallest_steps(np.array([gram], float), np.array([missing]), *limits)[0].tolist()
    total: Counter = Counter()
    for step, difference in zip(steps, differences, strict=True):
        for name, times in difference.items():
            total[name] += step * times
    return total


def average_move(
    task: Task,
    orders: list[list[int]],
    *,
    rule: str,
    start: Weights,
    cap: float = np.inf,
    batch_size: int = 1,
) -> tuple[Weights, list[int]]:
    """How far the mean of the weights after each sentence is from their start, and the mistakes.

    Args:
        orders: sentences of each epoch in their order.
        start: the weights before the first sentence.
        batch_size: sentences searched with the same weights before any of them is learned from.
    Returns:
        v / (N T) - start of the names that moved, and the cost of the best answers of each epoch.
    """
    weights, moved, total, seen, wrong = dict(start), Counter(), Counter(), 0, []
    for order in orders:
        wrong.append(0)
        for first in range(0, len(order), batch_size):
            batch = order[first : first + batch_size]
            found = [task.find(weights, s) for s in batch]
            for s, (target, answers) in zip(batch, found, strict=True):
                wrong[-1] += task.cost_of(s, answers[0])
                for name, move in change(weights, task, s, target, answers, rule, cap).items():
                    moved[name] += move
                    weights[name] = start.get(name, 0.0) + moved[name]
                for name, move in moved.items():
                    total[name] += move
                seen += 1
    return {name: summed / seen for name, summed in total.items()}, wrong
