"""The best tree with grandchild parts and labels by looking at every tree."""

from functools import cache

import numpy as np

from tests.oracles.brute_force import all_trees

Part = tuple[int, int, int, int, int]


def grandchild_parts_of(tree: np.ndarray) -> list[Part]:
    """(h, m, c_h, c_mi, c_mo) of every word m of a heads vector (n+1,), as the paper defines them.

    c_h is h, and c_mi and c_mo are m, where there is no such modifier.
    """
    parts = []
    for m, h in enumerate(tree.tolist()):
        if m > 0:
            inside = range(min(h, m) + 1, max(h, m))
            outside = [
                c for c in range(1, len(tree)) if c not in inside and c != m and tree[c] == m
            ]

            def distance(c: int, m: int = m) -> int:
                return abs(c - m)

            parts.append(
                (
                    h,
                    m,
                    min((c for c in inside if tree[c] == h), key=distance, default=h),
                    max((c for c in inside if tree[c] == m), key=distance, default=m),
                    max((c for c in outside if (c < m) == (m < h)), key=distance, default=m),
                )
            )
    return parts


@cache
def _all_parts(n: int, single_root: bool) -> np.ndarray:
    trees = all_trees(n, True, single_root)
    return np.array([grandchild_parts_of(tree) for tree in trees]).reshape(len(trees), n, 5)


def grandchild_tree_values(
    arcs: np.ndarray,
    siblings: np.ndarray,
    inner: np.ndarray,
    outer: np.ndarray,
    *,
    single_root: bool,
) -> np.ndarray:
    """Scores (B, T) of all projective trees, as in `all_trees`, each arc with its best label.

    Scores: (B, n+1, n+1, L), then (B, n+1, n+1, n+1, L) three times.
    """
    parts = _all_parts(arcs.shape[1] - 1, single_root)
    total = np.zeros((len(arcs), len(parts)), arcs.dtype)
    for h, m, c_h, c_mi, c_mo in parts.transpose(1, 2, 0):
        of_labels = arcs[:, h, m] + siblings[:, h, m, c_h]
        of_labels = of_labels + inner[:, h, m, c_mi] + outer[:, h, m, c_mo]
        total += of_labels.max(axis=2)
    return total
