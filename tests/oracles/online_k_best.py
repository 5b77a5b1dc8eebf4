"""Learning from the k best trees, literally: all trees looked at, the smallest change by trying.

McDonald, Crammer & Pereira (2005), figure 3 and section 2.3.1, over named weights. Trees may have
labels (Carreras 2007), and gold may leave heads and labels open: learned towards is then the tree
of highest score that has all that is known. Nothing is shared with the package.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.oracles import brute_force
from tests.oracles.online_parts import Features, Weights, feature_vector, score, score_tables
from tests.oracles.quadratic import smallest_steps

UNKNOWN = -1


class TieError(Exception):
    """The k-th tree scores as high as the next: which of them counts, no definition says."""


@dataclass(frozen=True)
class Tree:
    """Heads of words 1..n, and numbers of their labels if there are any."""

    heads: tuple[int, ...]
    labels: tuple[int, ...] | None = None

    def arcs(self) -> set[tuple[int, int]]:
        return {(h, m) for m, h in enumerate(self.heads, start=1)}


@dataclass(frozen=True)
class Sentence:
    """Features of its parts, those that go with every label, and gold with UNKNOWN for `_`."""

    features: Features
    gold: Tree
    labels: dict[tuple[int, int], Counter] = field(default_factory=dict)
    n_labels: int = 0

    @property
    def n(self) -> int:
        return len(self.gold.heads)


@dataclass(frozen=True)
class Search:
    """How trees are found.

    how: (arc, sibling and end scores) -> heads of words 1..n of the best trees, the best first.
    """

    how: Callable[[np.ndarray, np.ndarray, np.ndarray], list[tuple[int, ...]]]
    completed: Callable[[np.ndarray, np.ndarray, np.ndarray], list[tuple[int, ...]]]
    cost_augmented: bool = False


def k_best_by_enumeration(
    k: int, *, projective: bool, single_root: bool
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], list[tuple[int, ...]]]:
    def search(arcs: np.ndarray, siblings: np.ndarray, ends: np.ndarray) -> list[tuple[int, ...]]:
        n = len(arcs) - 1
        trees = brute_force.all_trees(n, projective, single_root)
        values = brute_force.sibling_tree_values(
            arcs[np.newaxis], siblings[np.newaxis], ends[np.newaxis],
            projective=projective, single_root=single_root,
        )[0]  # fmt: skip
        order = [t for t in np.argsort(-values).tolist() if values[t] > -np.inf]
        if len(order) > k and values[order[k - 1]] - values[order[k]] < 1e-6:
            raise TieError
        return [tuple(trees[t, 1:].tolist()) for t in order[:k]]

    return search


def label_scores(weights: Weights, sentence: Sentence, h: int, m: int) -> list[float]:
    found = sentence.labels[h, m]
    return [
        sum(weights.get((name, label), 0.0) * times for name, times in found.items())
        for label in range(sentence.n_labels)
    ]


def features_of(sentence: Sentence, tree: Tree) -> Counter:
    total = feature_vector(sentence.features, tree.arcs())
    for m, h in enumerate(tree.heads, start=1):
        if tree.labels is not None:
            for name, times in sentence.labels[h, m].items():
                total[name, tree.labels[m - 1]] += times
    return total


def cost_of(gold: Tree, found: Tree) -> int:
    """Words with a wrong head or label; nothing is wrong with a word whose head is not known."""
    cost = 0
    for m, (right, guess) in enumerate(zip(gold.heads, found.heads, strict=True)):
        wrong = right != guess
        if gold.labels is not None and found.labels is not None and gold.labels[m] != UNKNOWN:
            wrong |= gold.labels[m] != found.labels[m]
        cost += right != UNKNOWN and wrong
    return cost


def _best_labels(
    weights: Weights, sentence: Sentence, cost: float
) -> tuple[np.ndarray, np.ndarray]:
    """For every arc what its best label scores, and which it is."""
    n, gold = sentence.n, sentence.gold
    value, best = np.zeros((n + 1, n + 1)), np.full((n + 1, n + 1), UNKNOWN)
    for h, m in sentence.labels:
        scores = label_scores(weights, sentence, h, m)
        assert gold.labels is not None
        if gold.heads[m - 1] == h and gold.labels[m - 1] != UNKNOWN:
            scores = [s + cost * (label != gold.labels[m - 1]) for label, s in enumerate(scores)]
        best[h, m] = int(np.argmax(scores))
        value[h, m] = scores[best[h, m]]
    return value, best


def _labelled(heads: tuple[int, ...], sentence: Sentence, best: np.ndarray) -> Tree:
    if not sentence.labels:
        return Tree(heads)
    return Tree(heads, tuple(int(best[h, m]) for m, h in enumerate(heads, start=1)))


def find(weights: Weights, sentence: Sentence, search: Search) -> tuple[Tree, list[Tree]]:
    """The tree that is learned towards, and those that it is to be told from."""
    gold, n = sentence.gold, sentence.n
    arcs, siblings, ends = score_tables(weights, sentence.features, n, wrong=set())
    value, best = _best_labels(weights, sentence, 0.0)
    target = gold
    if UNKNOWN in gold.heads:
        allowed = arcs + value
        for m, right in enumerate(gold.heads, start=1):
            if right != UNKNOWN:
                allowed[[h for h in range(n + 1) if h != right], m] = -np.inf
        target = _labelled(search.completed(allowed, siblings, ends)[0], sentence, best)
    if gold.labels is not None:
        labels = [
            int(best[h, m]) if right == UNKNOWN else right
            for m, (h, right) in enumerate(zip(target.heads, gold.labels, strict=True), start=1)
        ]
        target = Tree(target.heads, tuple(labels))
    cost = float(search.cost_augmented)
    value, best = _best_labels(weights, sentence, cost)
    scores = arcs + value
    for m, right in enumerate(gold.heads, start=1):
        if right != UNKNOWN:
            scores[[h for h in range(n + 1) if h != right], m] += cost
    return target, [
        _labelled(heads, sentence, best) for heads in search.how(scores, siblings, ends)
    ]


def change(
    weights: Weights, sentence: Sentence, target: Tree, found: list[Tree], rule: str, cap: float
) -> Counter:
    """How the weights move for one sentence."""
    if rule == "perceptron":
        found = found[:1]
    wrong = [tree for tree in found if cost_of(sentence.gold, tree) > 0]
    differences = []
    for tree in wrong:
        difference = Counter(features_of(sentence, target))
        difference.subtract(features_of(sentence, tree))
        differences.append(difference)
    if not wrong:
        return Counter()
    costs = [cost_of(sentence.gold, tree) for tree in wrong]
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


def averaged_weights(
    sentences: list[Sentence],
    search: Search,
    orders: list[list[int]],
    *,
    rule: str,
    start: Weights,
    cap: float = np.inf,
    batch_size: int = 1,
) -> tuple[Weights, list[int]]:
    """v / (N T) after len(orders) epochs, and in each the cost of the best trees found."""
    weights, total, seen, wrong = dict(start), dict.fromkeys(start, 0.0), 0, []
    for order in orders:
        wrong.append(0)
        for first in range(0, len(order), batch_size):
            batch = [sentences[s] for s in order[first : first + batch_size]]
            found = [find(weights, sentence, search) for sentence in batch]
            for sentence, (target, trees) in zip(batch, found, strict=True):
                wrong[-1] += cost_of(sentence.gold, trees[0])
                moves = change(weights, sentence, target, trees, rule, cap)
                for name, move in moves.items():
                    weights[name] = weights.get(name, 0.0) + move
                for name, weight in weights.items():
                    total[name] = total.get(name, 0.0) + weight
                seen += 1
    return {name: summed / seen for name, summed in total.items()}, wrong
