"""Graphs with several heads per word as boolean matrices [h, m]: scores and permitted changes."""

from collections.abc import Iterator

import numpy as np


def is_acyclic(arcs: np.ndarray) -> bool:
    """No power of the matrix comes back to where it started."""
    steps = power = arcs.astype(np.int64)
    for _ in range(len(arcs)):
        if power.trace():
            return False
        power = np.minimum(power @ steps, 1)
    return True


def graph_parts(arcs: np.ndarray) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    """Arcs with their inner siblings (h, m, s), s == h for none, and ends; outwards from h."""
    parts, ends = [], []
    for h in range(len(arcs)):
        modifiers = np.flatnonzero(arcs[h]).tolist()
        for side in ([m for m in modifiers if m > h], [m for m in modifiers[::-1] if m < h]):
            parts += [(h, m, s) for s, m in zip([h, *side], side, strict=False)]
            ends += [(h, m) for m in side[-1:]]
    return parts, ends


def graph_value(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    arcs: np.ndarray,
    end_scores: np.ndarray | None = None,
) -> float:
    """Sum of the parts."""
    parts, ends = graph_parts(arcs)
    total = sum(float(arc_scores[h, m] + sibling_scores[h, m, s]) for h, m, s in parts)
    return total + (0.0 if end_scores is None else sum(float(end_scores[end]) for end in ends))


def part_cells(arcs: np.ndarray) -> list[int]:
    """Where the scores of the parts are in those of all arcs, siblings and ends, one after the
    other."""
    (parts, ends), n = graph_parts(arcs), len(arcs)
    return [
        *(h * n + m for h, m, _ in parts),
        *(n**2 + (h * n + m) * n + s for h, m, s in parts),
        *(n**2 + n**3 + h * n + m for h, m in ends),
    ]


def single_changes(arcs: np.ndarray, *, single_root: bool) -> Iterator[np.ndarray]:
    """All graphs that one permitted change leads to."""
    for m in range(1, len(arcs)):
        heads = np.flatnonzero(arcs[:, m])
        for k in np.flatnonzero(~arcs[:, m]):
            olds = [None, *heads]
            if k == 0:
                olds = list(heads) if len(heads) == 1 and not single_root else []
            for old in olds:
                changed = arcs.copy()
                changed[k, m] = True
                if old is not None:
                    changed[old, m] = False
                if is_acyclic(changed):
                    yield changed
