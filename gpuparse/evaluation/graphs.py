"""Scores of dependency graphs against gold graphs: precision, recall and F over arcs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.data.graphs import Graphs
from gpuparse.evaluation.metrics import ArcCounts, Share, complete_sentences, universal_parts


@dataclass(frozen=True)
class GraphScores:
    """The measures of a pair of files; `score_graphs` defines them."""

    words: int
    unlabelled: ArcCounts
    labelled: ArcCounts
    labelled_universal: ArcCounts
    secondary: ArcCounts
    secondary_labelled: ArcCounts
    complete: Share
    complete_labelled: Share
    relations: dict[str, ArcCounts]


@dataclass(frozen=True)
class _ScoredArcs:
    """The scored arcs of one of two graphs, and which of them the other graph has.

    modifiers: (A,) words of the treebank. relations: (A,) ids shared by both sides.
    secondary: (A,) bool. met: (A,) bool, the other side has the arc; met_labelled, met_universal:
    with the same relation, whole or up to its first ":".
    """

    modifiers: np.ndarray
    relations: np.ndarray
    secondary: np.ndarray
    met: np.ndarray
    met_labelled: np.ndarray
    met_universal: np.ndarray


def score_graphs(
    gold: Graphs,
    system: Graphs,
    word_starts: np.ndarray,
    gold_heads: np.ndarray,
    system_heads: np.ndarray,
    scored: np.ndarray | None = None,
) -> GraphScores:
    """Compare the system's graphs with the gold graphs of the same words.

    - `unlabelled`: arcs with the same head and modifier. `labelled`: and the same whole relation.
      `labelled_universal`: and the same relation up to its first ":".
    - `secondary`, `secondary_labelled`: arcs that are not from the word's primary head. Recall is
      the share of the gold ones that the system has, as primary or secondary arcs; precision the
      share of the system's that gold has, as either.
    - `complete`, `complete_labelled`: sentences with exactly the gold arcs. A sentence without
      scored words is not counted.
    - `relations`: for each whole relation, labelled; by descending gold count.

    Args:
        gold, system: graphs of the same W words; cycles are allowed.
        word_starts: (S+1) int; the words of sentence s are word_starts[s]:word_starts[s+1].
        gold_heads, system_heads: (W) int; primary head of each word, negative for none.
        scored: (W) bool; False leaves out all arcs into the word. None scores all words.
    Returns: The counts.
    Raises: ValueError: arrays of different lengths.
    Cost: O(W + A log A) in numpy.
    Source: McDonald & Pereira (2006), table 3, for unlabelled arcs.
    """
    n_words = int(word_starts[-1])
    sizes = (gold.n_words, system.n_words, len(gold_heads), len(system_heads))
    if any(size != n_words for size in sizes):
        raise ValueError(f"graphs and heads must have one entry for each of the {n_words} words")
    keep = np.ones(n_words, bool) if scored is None else np.asarray(scored, bool)
    names = list(dict.fromkeys(gold.names + system.names))
    mine, theirs = _sides(gold, system, gold_heads, system_heads, keep, names)
    right = _without([mine.modifiers[~mine.met], theirs.modifiers[~theirs.met]], n_words)
    right_labelled = _without(
        [mine.modifiers[~mine.met_labelled], theirs.modifiers[~theirs.met_labelled]], n_words
    )
    return GraphScores(
        words=int(np.count_nonzero(keep)),
        unlabelled=_counts(mine.met, theirs.met),
        labelled=_counts(mine.met_labelled, theirs.met_labelled),
        labelled_universal=_counts(mine.met_universal, theirs.met_universal),
        secondary=_counts(mine.met[mine.secondary], theirs.met[theirs.secondary]),
        secondary_labelled=_counts(
            mine.met_labelled[mine.secondary], theirs.met_labelled[theirs.secondary]
        ),
        complete=complete_sentences(right, keep, word_starts),
        complete_labelled=complete_sentences(right_labelled, keep, word_starts),
        relations=_relations(mine, theirs, names),
    )


def _sides(
    gold: Graphs,
    system: Graphs,
    gold_heads: np.ndarray,
    system_heads: np.ndarray,
    keep: np.ndarray,
    names: Sequence[str],
) -> tuple[_ScoredArcs, _ScoredArcs]:
    """The arcs of both graphs, each with those that the other graph has."""
    span = 1 + max(int(gold.heads.max(initial=0)), int(system.heads.max(initial=0)))
    ids = {name: r for r, name in enumerate(names)}
    universal = universal_parts(names)
    parts = []
    for graphs, heads in ((gold, gold_heads), (system, system_heads)):
        modifiers = graphs.modifiers()
        kept = keep[modifiers]
        modifiers, arc_heads = modifiers[kept], graphs.heads[kept]
        shared = np.array([ids[name] for name in graphs.names], np.int64)
        relations = shared[graphs.relations[kept]]
        secondary = arc_heads != np.asarray(heads)[modifiers]
        parts.append((modifiers * span + arc_heads, modifiers, relations, secondary))
    _, *places = np.intersect1d(
        parts[0][0], parts[1][0], assume_unique=True, return_indices=True
    )  # fmt: skip
    pairs = [part[2][place] for part, place in zip(parts, places, strict=True)]
    labelled = pairs[0] == pairs[1]
    universal_too = universal[pairs[0]] == universal[pairs[1]]
    sides = []
    for (_, modifiers, relations, secondary), place in zip(parts, places, strict=True):
        met = [np.zeros(len(modifiers), bool) for _ in range(3)]
        met[0][place], met[1][place], met[2][place] = True, labelled, universal_too
        sides.append(_ScoredArcs(modifiers, relations, secondary, *met))
    return sides[0], sides[1]


def _counts(found: np.ndarray, right: np.ndarray) -> ArcCounts:
    return ArcCounts(
        gold=len(found),
        system=len(right),
        found=int(np.count_nonzero(found)),
        right=int(np.count_nonzero(right)),
    )


def _without(wrong: Sequence[np.ndarray], n_words: int) -> np.ndarray:
    """(n_words,) bool, False for these words."""
    right = np.ones(n_words, bool)
    right[np.concatenate(wrong)] = False
    return right


def _relations(
    gold: _ScoredArcs, system: _ScoredArcs, names: Sequence[str]
) -> dict[str, ArcCounts]:
    size = len(names)
    n_gold = np.bincount(gold.relations, minlength=size).tolist()
    n_system = np.bincount(system.relations, minlength=size).tolist()
    n_right = np.bincount(gold.relations[gold.met_labelled], minlength=size).tolist()
    used = [r for r in range(size) if n_gold[r] or n_system[r]]
    used.sort(key=lambda r: (-n_gold[r], names[r]))
    return {names[r]: ArcCounts(n_gold[r], n_system[r], n_right[r], n_right[r]) for r in used}
