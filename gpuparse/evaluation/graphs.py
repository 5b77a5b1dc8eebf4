"""Scores of dependency graphs against gold graphs: precision, recall and F over arcs."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

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


class _ScoredArcs(NamedTuple):
    """The scored arcs (A,) of one of two files: modifiers, heads, relations.

    secondary: (A,) bool, not from the primary head.
    """

    modifiers: np.ndarray
    heads: np.ndarray
    relations: np.ndarray
    secondary: np.ndarray


def score_treebank_graphs(
    gold: Treebank,
    system: Treebank,
    system_graphs: GraphColumn,
    *,
    ignored: np.ndarray | None = None,
) -> GraphScores:
    """Score the graphs of a parsed file against those in the gold file's DEPS.

    docs/evaluating.md defines the measures; sentences without scored words are not counted. Recall
    of `secondary` arcs is the share of the gold ones that the system has, as primary or secondary
    arcs; precision the share of the system's that gold has, as either. `relations` are labelled, by
    descending gold count.

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
    mine, theirs = sides = [
        _scored_arcs(of, treebank, keep, ids)
        for of, treebank in zip(graphs, (gold, system), strict=True)
    ]
    span = 1 + max(int(side.heads.max(initial=0)) for side in sides)
    arcs = [side.modifiers * span + side.heads for side in sides]
    met = _in_other(arcs)
    labelled, universal = (
        _in_other(
            [a * len(names) + of[side.relations] for a, side in zip(arcs, sides, strict=True)]
        )
        for of in (np.arange(len(names)), universal_parts(names))
    )

    def complete(in_other: list[np.ndarray]) -> Share:
        right = np.ones(gold.n_words, bool)
        for side, has in zip(sides, in_other, strict=True):
            right[side.modifiers[~has]] = False
        return complete_sentences(right, keep, gold.word_starts)

    def secondary(in_other: list[np.ndarray]) -> ArcCounts:
        return arc_counts(*(has[side.secondary] for side, has in zip(sides, in_other, strict=True)))

    return GraphScores(
        words=int(keep.sum()),
        unlabelled=arc_counts(*met),
        labelled=arc_counts(*labelled),
        labelled_universal=arc_counts(*universal),
        secondary=secondary(met),
        secondary_labelled=secondary(labelled),
        complete=complete(met),
        complete_labelled=complete(labelled),
        relations=relation_counts(
            names, mine.relations, theirs.relations, mine.relations[labelled[0]]
        ),
    )


def _scored_arcs(
    graphs: Graphs, treebank: Treebank, keep: np.ndarray, ids: dict[str, int]
) -> _ScoredArcs:
    modifiers = graphs.modifiers()
    kept = keep[modifiers]
    modifiers, heads = modifiers[kept], graphs.heads[kept]
    relations = np.array([ids[name] for name in graphs.names], np.int64)[graphs.relations[kept]]
    return _ScoredArcs(modifiers, heads, relations, heads != treebank.heads[modifiers])


def _in_other(arcs: list[np.ndarray]) -> list[np.ndarray]:
    """Masks of two arrays of numbers: those that the other one has, too."""
    return [np.isin(arcs[0], arcs[1]), np.isin(arcs[1], arcs[0])]


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
