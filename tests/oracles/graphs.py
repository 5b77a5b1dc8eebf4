"""Graphs with several heads a word as boolean matrices [h, m]: scores and permitted changes."""

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


def graph_value(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    arcs: np.ndarray,
    end_scores: np.ndarray | None = None,
) -> float:
    """Sum of the parts, head by head, outwards on each side."""
    total = 0.0
    for h in range(len(arcs)):
        modifiers = np.flatnonzero(arcs[h])
        for side in (modifiers[modifiers > h], modifiers[modifiers < h][::-1]):
            s = h
            for m in side:
                total += arc_scores[h, m] + sibling_scores[h, m, s]
                s = m
            if end_scores is not None and s != h:
                total += end_scores[h, s]
    return total


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
