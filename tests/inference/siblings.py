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

    # Two looks, of n_classes and of two classes a word, and four kinds of gap.
    sizes = (n_classes, 2)
    firsts = [0, 4 * n_classes**3]
    classes = [rng.integers(0, size, (3, n + 1)) for size in sizes]
    places = np.zeros((3, 2, n + 1), np.int64)
    for p, size in enumerate(sizes):
        for role in range(3):
            places[role, p] = 4 * size**role * classes[p][role]
        places[0, p] += firsts[p]
    return FactoredSiblings(
        draw(n + 1, n + 1),
        draw(n + 1, n + 1),
        draw(4 * (n_classes**3 + 2**3)),
        places,
        rng.integers(0, 4, (2, 2 * n + 3)),
    )


def dense(siblings: FactoredSiblings) -> np.ndarray:
    """scores[h, m, s] (N, N, N), NaN where no decoder reads."""
    first, pair, table, places, gaps = siblings
    n_nodes, n_looks = len(first), len(gaps)
    middle = gaps.shape[1] // 2
    scores = np.full((n_nodes,) * 3, np.nan, first.dtype)
    for h in range(n_nodes):
        for m in range(1, n_nodes):
            if h == m:
                continue
            scores[h, m, h] = first[h, m]
            for s in range(min(h, m) + 1, max(h, m)):
                cells = [
                    places[0, p, h] + places[1, p, s] + places[2, p, m] + gaps[p, middle + m - s]
                    for p in range(n_looks)
                ]
                scores[h, m, s] = pair[s, m] + sum(table[cell] for cell in cells)
    return scores
