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

    # Two looks, of n_classes and of two classes a word, and four kinds of gap; some words are mute.
    widths = [(n_classes - 1).bit_length(), 1]
    firsts = np.array([0, 4 << (3 * widths[0])])
    places = np.zeros((3, 2, n + 1), np.int64)
    for p, (width, size) in enumerate(zip(widths, (n_classes, 2), strict=True)):
        for role in range(3):
            places[role, p] = rng.integers(0, size, n + 1) << (2 + role * width)
    table = draw(int(firsts[1]) + (4 << 3))
    table[firsts] = 0
    return FactoredSiblings(
        draw(n + 1, n + 1),
        draw(n + 1, n + 1),
        draw(n + 1, n + 1),
        table,
        firsts,
        places,
        np.where(rng.random((3, 2, n + 1)) < 0.1, 0, -1),
        rng.integers(0, 4, (2, 2 * n + 3)),
    )


def dense(siblings: FactoredSiblings) -> np.ndarray:
    """scores[h, m, s] (N, N, N), NaN where no decoder reads."""
    first, pair, _, table, firsts, places, masks, gaps = siblings
    n_nodes, n_looks = len(first), len(gaps)
    middle = gaps.shape[1] // 2
    scores = np.full((n_nodes,) * 3, np.nan, first.dtype)
    for h in range(n_nodes):
        for m in range(1, n_nodes):
            if h == m:
                continue
            scores[h, m, h] = first[h, m]
            for s in range(min(h, m) + 1, max(h, m)):
                total = pair[s, m]
                for p in range(n_looks):
                    place = places[0, p, h] ^ places[1, p, s] ^ places[2, p, m]
                    place ^= gaps[p, middle + m - s]
                    is_mute = 0 in (masks[0, p, h], masks[1, p, s], masks[2, p, m])
                    total += table[firsts[p] + (0 if is_mute else place)]
                scores[h, m, s] = total
    return scores
