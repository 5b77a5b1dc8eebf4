"""Sibling scores as sums of cells of small tables, drawn at random, and as one dense array."""

from typing import NamedTuple

import numpy as np


class SiblingTables(NamedTuple):
    """As `SiblingTables` of native/api/exact_trees.h."""

    first: np.ndarray
    pair: np.ndarray
    end: np.ndarray
    table: np.ndarray
    firsts: np.ndarray
    places: np.ndarray
    masks: np.ndarray
    gaps: np.ndarray


def draw_tables(
    rng: np.random.Generator, n: int, n_classes: int, dtype: type, *, whole: bool = True
) -> SiblingTables:
    """Tables over n words.

    Args:
        dtype: of the table of parts of three words. whole: small integers.
    """

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape)

    # Two terms, of n_classes and of two classes a word, and four kinds of gap; some words have no
    # value.
    widths = [(n_classes - 1).bit_length(), 1]
    firsts = np.array([0, 4 << (3 * widths[0])])
    places = np.zeros((3, 2, n + 1), np.int64)
    for p, (width, size) in enumerate(zip(widths, (n_classes, 2), strict=True)):
        for role in range(3):
            places[role, p] = rng.integers(0, size, n + 1) << (2 + role * width)
    table = draw(int(firsts[1]) + (4 << 3)).astype(dtype)
    table[firsts] = 0
    first, pair, end = (draw(n + 1, n + 1).astype(np.float64) for _ in range(3))
    masks = np.where(rng.random((3, 2, n + 1)) < 0.1, 0, -1)
    gaps = rng.integers(0, 4, (2, 2 * n + 3))
    return SiblingTables(first, pair, end, table, firsts, places, masks, gaps)


def dense(tables: SiblingTables) -> np.ndarray:
    """scores[h, m, s] (N, N, N), NaN where no decoder reads."""
    first, pair, _, table, firsts, places, masks, gaps = tables
    n_nodes, n_terms = len(first), len(gaps)
    middle = gaps.shape[1] // 2
    scores = np.full((n_nodes,) * 3, np.nan, first.dtype)
    for h in range(n_nodes):
        for m in range(1, n_nodes):
            if h == m:
                continue
            scores[h, m, h] = first[h, m]
            for s in range(min(h, m) + 1, max(h, m)):
                total = pair[s, m]
                for p in range(n_terms):
                    place = places[0, p, h] ^ places[1, p, s] ^ places[2, p, m]
                    place ^= gaps[p, middle + m - s]
                    has_value = 0 not in (masks[0, p, h], masks[1, p, s], masks[2, p, m])
                    total += table[firsts[p] + (place if has_value else 0)]
                scores[h, m, s] = total
    return scores
