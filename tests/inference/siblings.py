"""Sibling scores as sums of small tables, drawn at random, and the same as one dense tensor."""

import numpy as np

from gpuparse.inference.kernels.cpu.siblings import FactoredSiblings


def factored_siblings(
    rng: np.random.Generator, n: int, n_classes: int, dtype: type, *, whole: bool = True
) -> FactoredSiblings:
    """Tables over n words; `whole`: of small integers."""

    def draw(*shape: int) -> np.ndarray:
        numbers = rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape)
        return numbers.astype(dtype)

    return FactoredSiblings(
        draw(n + 1, n + 1),
        draw(n + 1, n + 1),
        draw(2, n_classes, n_classes, n_classes),
        rng.integers(0, n_classes, n + 1),
    )


def dense(siblings: FactoredSiblings) -> np.ndarray:
    """scores[h, m, s] (N, N, N), NaN where no decoder reads."""
    first, pair, triple, classes = siblings
    n_nodes = len(classes)
    scores = np.full((n_nodes,) * 3, np.nan, first.dtype)
    for h in range(n_nodes):
        for m in range(1, n_nodes):
            if h == m:
                continue
            scores[h, m, h] = first[h, m]
            for s in range(min(h, m) + 1, max(h, m)):
                of_three = triple[int(h > m), classes[h], classes[s], classes[m]]
                scores[h, m, s] = pair[s, m] + of_three
    return scores
