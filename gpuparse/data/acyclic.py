"""What is left of a treebank's graphs when they may have no cycles."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.data.gold_trees import WELL_FORMED, check_sentences
from gpuparse.data.graphs import Graphs, add_arcs
from gpuparse.data.scanner import DEPREL
from gpuparse.data.treebank import Treebank, place
from gpuparse.errors import DataError

NONE = -1


def acyclic(graphs: Graphs, treebank: Treebank) -> tuple[Graphs, int]:
    """Graphs made acyclic: arcs are taken in the following order so long as no cycle arises.

    1. Arcs from a word's HEAD. A word without any arc is given that from its HEAD.
    2. The other arcs, those of words without an arc from their HEAD first, then by modifier and by
       head; each unless it closes a directed cycle.
    3. A word still without a head is given its HEAD if that closes no cycle, else the root.

    Args:
        graphs: of the treebank.
        treebank: HEAD is a tree for every sentence (see check_trees).
    Returns:
        Graphs without cycles in which every word has a head, DEPREL the relation of arcs that were
        not there before; and how many of the arcs given were left out.
    Raises:
        ValueError: the heads of a sentence are no tree, or the graphs are not the treebank's.
        DataError: a DEPREL that DEPS could not hold (empty, or with `|`) is needed for a new arc.
    Cost: a climb through the graph for each arc that is not from HEAD; linear otherwise.
    """
    if graphs.n_words != treebank.n_words:
        raise ValueError(f"graphs of {graphs.n_words} words, a treebank of {treebank.n_words}")
    faults, _ = check_sentences(treebank.heads, treebank.word_starts, False, False)
    if (faults != WELL_FORMED).any():
        raise ValueError(f"the heads of sentence {np.argmax(faults != WELL_FORMED)} are no tree")
    kept, added = choose_arcs(graphs.starts, graphs.heads, treebank.heads, treebank.word_starts)
    before = np.concatenate([[0], np.cumsum(kept)])
    left = Graphs(
        before[graphs.starts], graphs.heads[kept], graphs.relations[kept], graphs.names,
        graphs.n_from_empty, graphs.n_repeated,
    )  # fmt: skip
    words = np.flatnonzero(added != NONE)
    _require_relations(treebank, words)
    n_dropped = len(kept) - int(np.count_nonzero(kept))
    return add_arcs(left, treebank, words, added[words]), n_dropped


def _require_relations(treebank: Treebank, words: np.ndarray) -> None:
    """DataError where the DEPREL of one of the words cannot stand in DEPS."""
    for w in words:
        label = treebank.column(int(w), DEPREL)
        if not label or "|" in label:
            s = int(np.searchsorted(treebank.word_starts, w, side="right")) - 1
            raise DataError(
                place(treebank.source, int(treebank.lines[w]), treebank.sent_id(s))
                + f"the relation {label!r} cannot be written into DEPS, whose items are joined by"
                " |; give the word a DEPREL of other characters, or DEPS of its own"
            )


@compiled
def closes_cycle(
    starts: np.ndarray, heads: np.ndarray, kept: np.ndarray, added: np.ndarray,
    first: int, h: int, m: int, stack: np.ndarray, seen: np.ndarray, mark: int,
) -> bool:  # fmt: skip
    """Would an arc from h to m close a cycle: is m above h, by arcs kept and added?

    Args:
        first: the sentence's first word; h and m count from 1.
        stack, seen: scratch, a number for every node; no entry of seen is `mark`.
    """
    if h == 0:
        return False
    stack[0] = h
    seen[h] = mark
    size = 1
    while size > 0:
        size -= 1
        v = stack[size]
        if v == m:
            return True
        w = first + v - 1
        if added[w] > 0 and seen[added[w]] != mark:
            seen[added[w]] = mark
            stack[size] = added[w]
            size += 1
        for a in range(starts[w], starts[w + 1]):
            above = heads[a]
            if kept[a] and above > 0 and seen[above] != mark:
                seen[above] = mark
                stack[size] = above
                size += 1
    return False


@compiled
def keep_primary(
    starts: np.ndarray, heads: np.ndarray, primary: np.ndarray, kept: np.ndarray, added: np.ndarray
) -> np.ndarray:
    """Step 1; returns the words that have a head now, bool (W,)."""
    headed = np.zeros(len(primary), np.bool_)
    for w in range(len(primary)):
        headed[w] = starts[w] == starts[w + 1]
        added[w] = primary[w] if headed[w] else NONE
        for a in range(starts[w], starts[w + 1]):
            kept[a] = heads[a] == primary[w]
            headed[w] |= kept[a]
    return headed


@compiled
def choose_arcs(
    starts: np.ndarray, heads: np.ndarray, primary: np.ndarray, word_starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The arcs kept, bool (A,), and the head that a word is given beside, int32 (W,) or NONE."""
    kept = np.zeros(len(heads), np.bool_)
    added = np.empty(len(primary), np.int32)
    headed = keep_primary(starts, heads, primary, kept, added)
    longest = 0
    for s in range(len(word_starts) - 1):
        longest = max(longest, word_starts[s + 1] - word_starts[s])
    stack, seen = np.empty(longest + 1, np.int32), np.zeros(longest + 1, np.int64)
    mark = 0
    for s in range(len(word_starts) - 1):
        first, last = word_starts[s], word_starts[s + 1]
        for turn in (False, True):  # step 2: words without a head, then those with one
            for w in range(first, last):
                if headed[w] == turn:
                    for a in range(starts[w], starts[w + 1]):
                        mark += 1
                        kept[a] = kept[a] or not closes_cycle(
                            starts, heads, kept, added, first, heads[a], w - first + 1,
                            stack, seen, mark,
                        )  # fmt: skip
        for w in range(first, last):  # step 3
            for a in range(starts[w], starts[w + 1]):
                headed[w] |= kept[a]
            if not headed[w]:
                mark += 1
                cyclic = closes_cycle(
                    starts, heads, kept, added, first, primary[w], w - first + 1, stack, seen, mark
                )
                added[w] = 0 if cyclic else primary[w]
    return kept, added
