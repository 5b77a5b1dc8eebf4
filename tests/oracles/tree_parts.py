"""The scores of trees under parts of any kind, part by part, and those of all trees at once."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from tests.oracles.brute_force import all_trees

AXES = {
    "arc": 2, "sibling": 3, "end": 2, "grandparent": 3, "grand_sibling": 4, "tri_sibling": 4,
    "outermost": 4, "inner_grandchild": 3, "outer_grandchild": 3,
}  # fmt: skip
"""Axes of the scores of each part of one sentence."""
NONE = -1


def cells_of(heads: Sequence[int]) -> Iterator[dict[str, tuple[int, ...] | None]]:
    """The cell of every kind of part of each word m of a tree, None where m has no such part.

    heads: (n + 1), anything at the root. A sibling that is not there is h, a child that is not
    there is m, the head of the root is 0.
    """
    n = len(heads) - 1
    for m in range(1, n + 1):
        h = int(heads[m])
        inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
        s = next((c for c in inside if heads[c] == h), h)
        inside_s = range(s - 1, h, -1) if h < s else range(s + 1, h)
        t = next((c for c in inside_s if heads[c] == h), h) if s != h else h
        g = int(heads[h]) if h > 0 else 0
        beyond = range(m + 1, n + 1) if h < m else range(1, m)
        is_outermost = not any(heads[c] == h for c in beyond)
        inner, outer = ([c for c in each if heads[c] == m] for each in (inside, beyond))
        yield {
            "arc": (h, m), "sibling": (h, m, s), "end": (h, m) if is_outermost else None,
            "grandparent": (h, m, g), "grand_sibling": (h, m, s, g), "tri_sibling": (h, m, s, t),
            "outermost": (h, m, s, g) if is_outermost else None,
            "inner_grandchild": (h, m, max(inner, key=lambda c, m=m: abs(c - m), default=m)),
            "outer_grandchild": (h, m, max(outer, key=lambda c, m=m: abs(c - m), default=m)),
        }  # fmt: skip


def parts_of(kind: str, heads: Sequence[int]) -> list[tuple[int, ...]]:
    """The cells of the parts of a kind that a tree has, by words."""
    return [cells[kind] for cells in cells_of(heads) if cells[kind] is not None]


def tree_value(scores: Mapping[str, Any], heads: Sequence[int]) -> float:
    """The score of a tree; scores: of each part that there is, arrays with the axes above."""
    return sum(float(part[cell]) for kind, part in scores.items() for cell in parts_of(kind, heads))


@cache
def cells_of_all(kind: str, n: int, projective: bool, single_root: bool) -> np.ndarray:
    """(n, T, axes) cells of the words of all trees, as in `all_trees`; NONE where there is none."""
    trees = all_trees(n, projective, single_root).tolist()
    missing = (NONE,) * AXES[kind]
    found = [[cells[kind] or missing for cells in cells_of(tree)] for tree in trees]
    return np.array(found, np.int64).reshape(len(trees), n, AXES[kind]).swapaxes(0, 1)


def values_of_trees(
    scores: Mapping[str, np.ndarray], *, projective: bool, single_root: bool
) -> np.ndarray:
    """Scores (B, T) of all trees, as in `all_trees`; scores: of parts, arrays (B, n + 1, ...)."""
    arcs, total = scores["arc"], 0
    for kind, part in scores.items():
        for cells in cells_of_all(kind, arcs.shape[1] - 1, projective, single_root):
            total += np.where(cells[:, 0] == NONE, 0, part[(slice(None), *cells.T)])
    return total + np.zeros((len(arcs), 1), arcs.dtype)


def is_read(field: str, n_nodes: int, may_cross: bool) -> np.ndarray:
    """The cells (N, ...) of a part that a search may read."""
    h, m, x, y = np.ogrid[:n_nodes, :n_nodes, :n_nodes, :n_nodes]
    low, high = np.minimum(h, m), np.maximum(h, m)

    def between(a: np.ndarray) -> np.ndarray:
        return (low < a) & (a < high)

    def above(g: np.ndarray) -> np.ndarray:
        return np.where(h == 0, g == 0, (g != h) & (g != m) & (may_cross | ~between(g)))

    arc = (m > 0) & (h != m)
    sibling = arc & (between(x) | (x == h))
    inner = ((h < y) & (y < x)) | ((x < y) & (y < h))
    cells = {
        "arc": arc,
        "end": arc,
        "sibling": sibling,
        "grandparent": arc & above(x),
        "grand_sibling": sibling & above(y),
        "outermost": sibling & above(y),
        "tri_sibling": sibling & ((y == h) | inner),
        "inner_grandchild": arc & (between(x) | (x == m)),
        "outer_grandchild": arc & ((x == m) | np.where(h < m, x > m, (x < m) & (x > 0))),
    }[field]
    return np.broadcast_to(cells, [n_nodes] * 4)[(..., *[0] * (4 - AXES[field]))]
