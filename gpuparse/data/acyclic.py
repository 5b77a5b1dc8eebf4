"""Acyclic subgraphs of a treebank's graphs."""

import numpy as np

from gpuparse.data import plain
from gpuparse.data.fault_codes import TreeFault
from gpuparse.data.gold_trees import check_sentences
from gpuparse.data.graphs import Graphs, add_arcs
from gpuparse.data.scanner import DEPREL
from gpuparse.data.treebank import Treebank, place
from gpuparse.errors import DataError

NONE = -1


def acyclic(graphs: Graphs, treebank: Treebank) -> tuple[Graphs, int]:
    """Acyclic graphs: arcs are added in this order, each unless it closes a cycle.

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
    if (faults != TreeFault.WELL_FORMED).any():
        raise ValueError(
            f"the heads of sentence {np.argmax(faults != TreeFault.WELL_FORMED)} are no tree"
        )
    kept, added = np.empty(len(graphs.heads), np.bool_), np.empty(treebank.n_words, np.int32)
    plain.call(
        "choose_acyclic_arcs", graphs.starts, graphs.heads, treebank.heads, treebank.word_starts,
        kept, added,
    )  # fmt: skip
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
    """DataError if the DEPREL of one of the words cannot be written in DEPS."""
    for w in words:
        label = treebank.column(int(w), DEPREL)
        if not label or "|" in label:
            s = int(np.searchsorted(treebank.word_starts, w, side="right")) - 1
            raise DataError(
                place(treebank.source, int(treebank.lines[w]), treebank.sent_id(s))
                + f"the relation {label!r} cannot be written into DEPS, whose items are joined by"
                " |; give the word a DEPREL of other characters, or DEPS of its own"
            )
