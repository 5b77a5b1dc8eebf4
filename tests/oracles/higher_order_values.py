"""The best projective tree under parts of up to four words, by looking at every tree."""

from functools import cache

import numpy as np

from tests.oracles.brute_force import all_trees, ends_of, parts_of


@cache
def _parts(n: int, single_root: bool) -> np.ndarray:
    """int (T, n, 6) of every tree and word m: h, m, s, t, g, and whether m is outermost.

    s: the inner sibling of m or h; t: that of s, or h, and h too if there is no s; g: the head of h
    or 0.
    """
    table = []
    for tree in all_trees(n, True, single_root):
        inner = {m: s for _, m, s in parts_of(tree)}
        ends = ends_of(tree)
        rows = []
        for h, m, s in parts_of(tree):
            t = inner[s] if s != h else h
            g = int(tree[h]) if h > 0 else 0
            rows.append((h, m, s, t, g, (h, m) in ends))
        table.append(rows)
    return np.array(table, np.int64).reshape(len(table), n, 6)


def part_values(
    arcs: np.ndarray,
    siblings: np.ndarray | None,
    grandparents: np.ndarray | None,
    grand_siblings: np.ndarray | None,
    ends: np.ndarray | None,
    *,
    tri_siblings: np.ndarray | None = None,
    outermost: np.ndarray | None = None,
    single_root: bool,
) -> np.ndarray:
    """Scores (B, T) of all projective trees, in the order of `all_trees`, under the parts given.

    Args: as the decoders of the third order read them, arrays with a batch in front.
    """
    parts = _parts(arcs.shape[1] - 1, single_root)
    total = np.zeros((len(arcs), len(parts)), arcs.dtype)
    for h, m, s, t, g, is_end in parts.transpose(1, 2, 0):
        total += arcs[:, h, m]
        if siblings is not None:
            total += siblings[:, h, m, s]
        if grandparents is not None:
            total += grandparents[:, h, m, g]
        if grand_siblings is not None:
            total += grand_siblings[:, h, m, s, g]
        if tri_siblings is not None:
            total += tri_siblings[:, h, m, s, t]
        at = np.flatnonzero(is_end)
        if ends is not None:
            total[:, at] += ends[:, h[at], m[at]]
        if outermost is not None:
            total[:, at] += outermost[:, h[at], m[at], s[at], g[at]]
    return total
