"""The DEPS column: byte offsets of the arcs of every word.

DEPS is `_` or items `head:relation` joined by `|`. The relation begins behind the first `:` and may
hold further ones. The head is a number, or `i.j` for an empty node.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.data import plain

# Columns of a row of faults: a DepsFault; sentence; word of the treebank; offsets of the item.
FAULT_CODE, FAULT_SENTENCE, FAULT_WORD, FAULT_START, FAULT_END = 0, 1, 2, 3, 4


class ScannedDeps(NamedTuple):
    """The arcs between words, and from the root, of all words."""

    starts: np.ndarray  # int64 (W + 1,): word w has the arcs starts[w]:starts[w + 1]
    heads: np.ndarray  # int32 (A,), ascending within a word
    spans: np.ndarray  # int64 (A, 2), offsets of the relations
    faults: np.ndarray  # int64 (F, 5), the first of every faulty sentence, which has no arcs
    n_from_empty: int  # items of sound sentences with an empty node for a head
    n_repeated: int  # items of sound sentences with a head seen before


def scan_deps(data: np.ndarray, columns: np.ndarray, word_starts: np.ndarray) -> ScannedDeps:
    """Find the arcs of all words.

    Args: data, columns, word_starts: as a Treebank has them.
    Raises: ValueError where these do not fit each other.
    Cost: linear in the bytes of DEPS.
    """
    n_items = plain.call("count_deps", data, columns)
    starts = np.empty(len(columns) + 1, np.int64)
    heads, spans = np.empty(n_items, np.int32), np.empty((n_items, 2), np.int64)
    faults, counts = np.empty((len(word_starts) - 1, 5), np.int64), np.empty(4, np.int64)
    plain.call("scan_deps", data, columns, word_starts, starts, heads, spans, faults, counts)
    n_arcs, n_faults, n_from_empty, n_repeated = counts.tolist()
    return ScannedDeps(
        starts, heads[:n_arcs], spans[:n_arcs], faults[:n_faults], n_from_empty, n_repeated
    )
