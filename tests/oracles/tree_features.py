"""Named features of trees and graphs with arcs, siblings and ends, for the textbook learner.

Nothing is sparse, hashed or clever, and nothing is shared with the package but `score`.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gpuparse.learning.textbook import NamedWeights, score

UNKNOWN = -1
Arcs = frozenset[tuple[int, int]]
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


def score_tables(
    weights: NamedWeights, features: Features, n: int
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
