"""The scores of all trees under parts of up to four words."""

from collections.abc import Mapping
from functools import cache

import numpy as np

from tests.oracles.brute_force import all_trees, ends_of, parts_of


@cache
def _parts(n: int, projective: bool, single_root: bool) -> np.ndarray:
    """int (T, n, 6) of every tree and word m: h, m, s, t, g, and whether m is outermost.

    s: the inner sibling of m or h; t: that of s, or h, and h too if there is no s; g: the head of h
    or 0.
    """
    table = []
    for tree in all_trees(n, projective, single_root):
        parts, ends = parts_of(tree), ends_of(tree)
        inner = {m: s for _, m, s in parts}
        table.append(
            [
                (h, m, s, inner[s] if s != h else h, tree[h] if h > 0 else 0, (h, m) in ends)
                for h, m, s in parts
            ]
        )
    return np.array(table, np.int64).reshape(len(table), n, 6)


def part_values(
    scores: Mapping[str, np.ndarray], *, projective: bool = True, single_root: bool
) -> np.ndarray:
    """Scores (B, T) of all trees, in the order of `all_trees`, under the parts given.

    Args: scores: of parts by the keywords of decoders, arrays with a batch in front.
    """
    arcs = scores["arc_scores"]
    parts = _parts(arcs.shape[1] - 1, projective, single_root)
    total = np.zeros((len(arcs), len(parts)))
    for h, m, s, t, g, is_end in parts.transpose(1, 2, 0):
        cells = {
            "arc": (), "sibling": (s,), "grandparent": (g,), "grand_sibling": (s, g),
            "tri_sibling": (s, t), "end": (), "outermost": (s, g),
        }  # fmt: skip
        for keyword, array in scores.items():
            kind = keyword.removesuffix("_scores")
            found = array[(slice(None), h, m, *cells[kind])]
            total += np.where(is_end, found, 0) if kind in ("end", "outermost") else found
    return total
