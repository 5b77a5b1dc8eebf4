"""The results of engines: trees, graphs, and their labels and probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class LabelLimits(NamedTuple):
    """Sets of labels of which no head has two modifiers.

    class_of: (labels,) int64, the class of each label. masks: (classes,) int64, the sets of each
    class as bits.
    """

    class_of: np.ndarray
    masks: np.ndarray


class GraphArcs(NamedTuple):
    """Arcs of graphs, ascending by token and head.

    tokens: (A,) the token index of each arc's modifier. heads, labels: (A,) int64.
    """

    tokens: np.ndarray
    heads: np.ndarray
    labels: np.ndarray

    def starts(self, n_tokens: int) -> np.ndarray:
        """(T + 1,) where the arcs of each token begin."""
        counts = np.bincount(self.tokens, minlength=n_tokens)
        return np.concatenate([[0], np.cumsum(counts)])


NO_ARCS = GraphArcs(*np.zeros((3, 0), np.int64))


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Trees or graphs of a batch; -1 for what is no word, and where there are no labels.

    heads, labels: (T,) int64. arcs: of graphs; heads and labels are then those of the primary arcs.
    certificates: (2, T) int64, of dual decomposition: at the roots whether no tree scores more, and
    the iterations. head_probabilities, label_probabilities: (T,) float64, if asked for.
    """

    heads: np.ndarray
    labels: np.ndarray
    arcs: GraphArcs | None = None
    certificates: np.ndarray | None = None
    head_probabilities: np.ndarray | None = None
    label_probabilities: np.ndarray | None = None

    def copy_words(self, tokens: np.ndarray, other: "SearchResult") -> None:
        """Take over what another search found for the words at some token indices, but for arcs."""
        for name in ("heads", "labels", "head_probabilities", "label_probabilities"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine is not None and its is not None:
                mine[tokens] = its[tokens]

    def tree_arcs(self, tokens: np.ndarray) -> GraphArcs:
        """The arcs of trees into the words at some ascending token indices, without labels."""
        return GraphArcs(tokens, self.heads[tokens], np.full(len(tokens), -1))


def found_graphs(heads: np.ndarray, labels: np.ndarray, runs: Sequence[GraphArcs]) -> SearchResult:
    """Graphs from runs of arcs in any order; labels (T,) are filled in from the primary arcs."""
    arcs = GraphArcs(*(np.concatenate(each) for each in zip(NO_ARCS, *runs, strict=True)))
    order = np.argsort(arcs.tokens, kind="stable")
    arcs = GraphArcs(*(each[order] for each in arcs))
    is_primary = heads[arcs.tokens] == arcs.heads
    labels[arcs.tokens[is_primary]] = arcs.labels[is_primary]
    return SearchResult(heads, labels, arcs)


def arcs_of_cells(
    cells: np.ndarray, firsts: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> GraphArcs:
    """Unlabelled arcs from the numbers of their cells, as `parse_graphs_batch` counts them."""
    sentence = np.searchsorted(firsts, cells, side="right") - 1
    heads, modifiers = np.divmod(cells - firsts[sentence], lengths[sentence] + 1)
    tokens = starts[sentence] + modifiers
    order = np.lexsort([heads, tokens])
    return GraphArcs(tokens[order], heads[order], np.full(len(cells), -1))
