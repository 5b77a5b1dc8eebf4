"""The score of one tree or graph under parts of any kind, part by part."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

AXES = {
    "arc": 2, "sibling": 3, "end": 2, "grandparent": 3, "grand_sibling": 4, "tri_sibling": 4,
    "outermost": 4, "inner_grandchild": 3, "outer_grandchild": 3,
}  # fmt: skip
"""Axes of the scores of each part of one sentence."""


def tree_value(scores: Mapping[str, Any], heads: Sequence[int]) -> float:
    """The score of a tree.

    Args:
        scores: of each part that there is, arrays with the axes above.
        heads: (n + 1), -1 at the root.
    """
    n, total = len(heads) - 1, 0.0
    for m in range(1, n + 1):
        h = int(heads[m])
        inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
        s = next((c for c in inside if heads[c] == h), h)
        inside_s = range(s - 1, h, -1) if h < s else range(s + 1, h)
        t = next((c for c in inside_s if heads[c] == h), h) if s != h else h
        g = int(heads[h]) if h > 0 else 0
        beyond = range(m + 1, n + 1) if h < m else range(1, m)
        is_outermost = not any(heads[c] == h for c in beyond)
        inner = [c for c in inside if heads[c] == m]
        outer = [c for c in beyond if heads[c] == m]
        cells = {
            "arc": (), "sibling": (s,), "end": () if is_outermost else None, "grandparent": (g,),
            "grand_sibling": (s, g), "tri_sibling": (s, t),
            "outermost": (s, g) if is_outermost else None,
            "inner_grandchild": (max(inner, key=lambda c, m=m: abs(c - m), default=m),),
            "outer_grandchild": (max(outer, key=lambda c, m=m: abs(c - m), default=m),),
        }  # fmt: skip
        for field, array in scores.items():
            cell = cells[field]
            if cell is not None:
                total += float(array[(h, m, *cell)])
    return total


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
