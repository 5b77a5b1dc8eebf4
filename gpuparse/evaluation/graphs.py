"""Scores of dependency graphs against gold graphs: precision, recall and F over arcs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuparse.data.graphs import (
    Graphs,
    check_graphs,
    missing_graphs,
    read_graphs,
    tree_graphs,
    with_tree_arcs,
)
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import check_trees
from gpuparse.errors import DataError, option
from gpuparse.evaluation.metrics import (
    ArcCounts,
    Share,
    arc_counts,
    complete_sentences,
    kept_words,
    relation_counts,
    universal_parts,
)
from gpuparse.evaluation.treebanks import check_same_words, require_none

GraphColumn = Literal["deps", "heads"]


@dataclass(frozen=True)
class GraphScores:
    """The measures of a pair of files; `score_treebank_graphs` defines them."""

    words: int
    unlabelled: ArcCounts
    labelled: ArcCounts
    labelled_universal: ArcCounts
    secondary: ArcCounts
    secondary_labelled: ArcCounts
    complete: Share
    complete_labelled: Share
    relations: dict[str, ArcCounts]


@dataclass(frozen=True, eq=False)
class _ScoredArcs:
    """The scored arcs (A,) of one of two files, by their modifiers, heads and relations.

    secondary: (A,) bool, not from the primary head. met: (A,) bool, the other file has the arc;
    labelled, universal: with the same relation, whole or up to its first ":".
    """

    modifiers: np.ndarray
    heads: np.ndarray
    relations: np.ndarray
    secondary: np.ndarray
    met: np.ndarray
    labelled: np.ndarray
    universal: np.ndarray


def score_treebank_graphs(
    gold: Treebank,
    system: Treebank,
    system_graphs: GraphColumn,
    *,
    ignored: np.ndarray | None = None,
) -> GraphScores:
    """Score the graphs of a parsed file against those in the gold file's DEPS.

    - `unlabelled`: arcs with the same head and modifier. `labelled`: and the same whole relation.
      `labelled_universal`: and the same relation up to its first ":".
    - `secondary`, `secondary_labelled`: arcs that are not from the word's primary head. Recall is
      the share of the gold ones that the system has, as primary or secondary arcs; precision the
      share of the system's that gold has, as either.
    - `complete`, `complete_labelled`: sentences with exactly the gold arcs. A sentence without
      scored words is not counted.
    - `relations`: for each whole relation, labelled; by descending gold count.

    Args:
        gold: the gold file. Its HEAD column has the primary heads; words may lack one.
        system: the same words and sentences, parsed; cycles of graphs are allowed.
        system_graphs: where the system's graphs are: in "deps", or in "heads", that is in HEAD and
            DEPREL, with one arc per word; DEPS is then not read.
        ignored: (W) bool, words to leave out with all arcs into them; None scores all.
    Returns: The counts; `deps_graphs` says what an arc is.
    Raises:
        DataError: the files differ in words or sentence breaks, a DEPS to be read cannot be, or
            has no graphs, or a HEAD column has a cycle (or, under "heads", is no tree).
    Cost: O(bytes of both files + A log A).
    Source: McDonald & Pereira (2006), table 3, for unlabelled arcs.
    """
    check_same_words(gold, system)
    graphs = [deps_graphs(gold)]
    if system_graphs == "deps":
        graphs.append(deps_graphs(system))
    else:
        require_none(check_trees(system))
        graphs.append(tree_graphs(system))
    keep = kept_words(gold, ignored)
    names = list(dict.fromkeys(graphs[0].names + graphs[1].names))
    ids = {name: r for r, name in enumerate(names)}
    sides = [
        _scored_arcs(of, treebank, keep, ids)
        for of, treebank in zip(graphs, (gold, system), strict=True)
    ]
    mine, theirs = sides
    _meet(mine, theirs, universal_parts(names))

    def complete(wrong: list[np.ndarray]) -> Share:
        right = np.ones(gold.n_words, bool)
        right[np.concatenate(wrong)] = False
        return complete_sentences(right, keep, gold.word_starts)

    return GraphScores(
        words=int(keep.sum()),
        unlabelled=arc_counts(mine.met, theirs.met),
        labelled=arc_counts(mine.labelled, theirs.labelled),
        labelled_universal=arc_counts(mine.universal, theirs.universal),
        secondary=arc_counts(mine.met[mine.secondary], theirs.met[theirs.secondary]),
        secondary_labelled=arc_counts(
            mine.labelled[mine.secondary], theirs.labelled[theirs.secondary]
        ),
        complete=complete([side.modifiers[~side.met] for side in sides]),
        complete_labelled=complete([side.modifiers[~side.labelled] for side in sides]),
        relations=relation_counts(
            names, mine.relations, theirs.relations, mine.relations[mine.labelled]
        ),
    )


def _scored_arcs(
    graphs: Graphs, treebank: Treebank, keep: np.ndarray, ids: dict[str, int]
) -> _ScoredArcs:
    """The arcs of a file, none met yet."""
    modifiers = graphs.modifiers()
    kept = keep[modifiers]
    modifiers, heads = modifiers[kept], graphs.heads[kept]
    shared = np.array([ids[name] for name in graphs.names], np.int64)
    relations = shared[graphs.relations[kept]]
    met = (np.zeros(len(modifiers), bool) for _ in range(3))
    return _ScoredArcs(modifiers, heads, relations, heads != treebank.heads[modifiers], *met)


def _meet(mine: _ScoredArcs, theirs: _ScoredArcs, universal: np.ndarray) -> None:
    """Mark the arcs that both files have."""
    span = 1 + max(int(side.heads.max(initial=0)) for side in (mine, theirs))
    arcs, others = (side.modifiers * span + side.heads for side in (mine, theirs))
    _, first, second = np.intersect1d(arcs, others, assume_unique=True, return_indices=True)
    relations = mine.relations[first], theirs.relations[second]
    same = relations[0] == relations[1]
    same_universal = universal[relations[0]] == universal[relations[1]]
    for side, places in ((mine, first), (theirs, second)):
        side.met[places] = True
        side.labelled[places] = same
        side.universal[places] = same_universal


def deps_graphs(treebank: Treebank) -> Graphs:
    """The graphs of a file's DEPS, to be scored.

    A word whose DEPS is `_` has the arc from its HEAD, if it has one; a word whose DEPS names empty
    nodes only has none.

    Raises: DataError: an item of DEPS cannot be read, every DEPS is `_`, or the heads have a cycle.
    """
    require_none(check_trees(treebank, partial=True))
    require_none(check_graphs(treebank))
    missing = missing_graphs(treebank)
    if treebank.n_words and missing.all():
        raise DataError(
            f"{treebank.source}: DEPS (column 9) is _ in every word, so there are no graphs; give a"
            " file that has them, or compare the HEAD column of a parsed file"
            f" ({option('graphs', 'heads')})"
        )
    return with_tree_arcs(read_graphs(treebank), treebank, missing)
