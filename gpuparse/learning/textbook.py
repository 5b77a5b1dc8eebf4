"""The online learner of McDonald, Crammer & Pereira (2005), figure 3, as the paper prints it.

Features have names, weights are a dictionary, and the weights are added up after every sentence.
Nothing is hashed, sparse or batched, so this is slow. It is here to be read, and the engines
`native` and `torch` are compared with it. What is learned is a `LearningTask`: trees, graphs,
labels, or any other structure with features and a cost.

Source: McDonald, Crammer & Pereira (2005), figure 3 and section 2.3.1; McDonald & Pereira (2006),
figure 6. The steps are those of `learning/mira.py`.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from gpuparse.learning.mira import UpdateRule, find_steps

Structure = TypeVar("Structure")
NamedWeights = dict[Hashable, float]


class LearningTask(Protocol[Structure]):
    """Numbered sentences, and the structures that they have and could have."""

    def find(self, weights: NamedWeights, s: int) -> tuple[Structure, list[Structure]]:
        """The structure that is learned towards, and the k best ones under the weights."""

    def features_of(self, s: int, structure: Structure) -> Counter[Hashable]:
        """f(x, y): how often each feature occurs in a structure."""

    def cost_of(self, s: int, structure: Structure) -> int:
        """L(y_t, y): the mistakes of a structure; of a tree, the words with a wrong head."""


def score(weights: NamedWeights, features: Counter[Hashable]) -> float:
    """s(x, y) = w . f(x, y)."""
    return sum(weights.get(name, 0.0) * count for name, count in features.items())


def change(
    weights: NamedWeights,
    task: LearningTask[Structure],
    s: int,
    target: Structure,
    found: Sequence[Structure],
    rule: UpdateRule,
) -> Counter[Hashable]:
    """The change of the weights after one sentence: w(i + 1) - w(i)."""
    differences, costs = [], []
    for structure in found:
        difference = Counter(task.features_of(s, target))
        difference.subtract(task.features_of(s, structure))
        cost = task.cost_of(s, structure)
        differences.append(difference if cost > 0 else Counter())
        costs.append(float(cost))
    margins = [score(weights, difference) for difference in differences]
    gram = [[sum(d[name] * e[name] for name in d) for e in differences] for d in differences]
    steps = find_steps(rule, np.array(costs), np.array(margins), np.array(gram, np.float64))
    total: Counter[Hashable] = Counter()
    for step, difference in zip(steps.tolist(), differences, strict=True):
        for name, count in difference.items():
            total[name] += step * count
    return total


def learn(
    task: LearningTask[Structure],
    orders: Sequence[Sequence[int]],
    rule: UpdateRule,
    *,
    start: NamedWeights | None = None,
    batch_size: int = 1,
) -> tuple[NamedWeights, list[int]]:
    """Learn weights, and return their average v / (N T) and the mistakes of each epoch.

    Args:
        orders: the order of the sentences in each of the N epochs.
        start: the weights before the first sentence; a name that is missing has the weight 0.
        batch_size: sentences whose structures are found with the same weights before any of them
            is learned from; 1 is the algorithm of the paper.
    Cost: O(names) per sentence, beside that of `task`.
    """
    weights: NamedWeights = dict(start or {})
    v: NamedWeights = dict.fromkeys(weights, 0.0)
    seen, wrong = 0, []
    for order in orders:
        wrong.append(0)
        for first in range(0, len(order), batch_size):
            batch = order[first : first + batch_size]
            found = [task.find(weights, s) for s in batch]
            for s, (target, structures) in zip(batch, found, strict=True):
                wrong[-1] += task.cost_of(s, structures[0])
                for name, move in change(weights, task, s, target, structures, rule).items():
                    weights[name] = weights.get(name, 0.0) + move
                for name, weight in weights.items():
                    v[name] = v.get(name, 0.0) + weight
                seen += 1
    return {name: total / max(seen, 1) for name, total in v.items()}, wrong
