"""The memory that scores and charts of a sentence take."""

from typing import NamedTuple

import numpy as np

# What torch forms hold at a time: feature rows of parts, in main memory as many as caches hold;
# cells of the dense matrix of differences.
ROWS_AT_ONCE, CPU_ROWS_AT_ONCE, SHARED_CELLS = 1 << 24, 1 << 18, 1 << 23

MATRICES = 8  # N x N cells of scores and charts that a sentence takes


class PartSize(NamedTuple):
    """The largest parts that a search reads scores of, and over how many arcs.

    words: 2 arcs, 3 siblings, 4 those beyond. max_heads: of a word, None: all. labels: of an arc,
    where a search scores all of them.
    """

    words: int
    max_heads: int | None = None
    labels: int = 0


def sentence_cells(lengths: np.ndarray, parts: PartSize) -> np.ndarray:
    """(S,) int64 cells of scores and charts for sentences of the given lengths in words.

    Args:
        lengths: (S,) int64.
        parts: those that have a cell each, as siblings on a device. With at most k heads per word,
            n k arcs share n heads: a part (g, h, m, s) is one of k g's, and of at most k n^2 / 2
            pairs of modifiers of one head.
    """
    nodes = lengths.astype(np.int64) + 1
    cells = MATRICES * nodes**2
    if parts.words < 4:
        return cells + nodes**3 if parts.words == 3 else cells
    heads = nodes if parts.max_heads is None else np.minimum(nodes, parts.max_heads)
    return cells + (heads * nodes) ** 2 // 2 + parts.labels * nodes**2
