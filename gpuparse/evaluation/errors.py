"""The errors of a parser: scores by relation, tag, length of arcs, depth, length of sentences.

Source: McDonald & Nivre (2007), "Characterizing the errors of data-driven dependency parsing
models", sections 4.2 to 4.4: lengths of sentences and arcs, distance to the root, projectivity,
parts of speech and relations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.data.columns import UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import nonprojective_arcs
from gpuparse.data.vocabulary import column_ids
from gpuparse.evaluation.metrics import (
    ArcCounts,
    arc_lengths,
    by_sentence,
    group_counts,
    in_bins,
    judge,
    kept_words,
)

# Names of groups, and the least number of each.
LENGTHS = {"root": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6-9": 6, "10-19": 10, "20-": 20}
DISTANCES = {"1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "7-": 7}
SIZES = {
    "1-10": 1, "11-20": 11, "21-30": 21, "31-40": 31, "41-50": 41, "51-": 51,
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """The words of a group: those that are in it in the gold trees, and in the system's.

    heads: right where the head is. labelled: right where the head is, and the relation up to its
    first ":" (in groups of relations, the whole relation).
    """

    name: str
    heads: ArcCounts
    labelled: ArcCounts


@dataclass(frozen=True, eq=False)
class Errors:
    """The result of `find_errors`.

    groups: by what the words are grouped. relations: (L,) the relations. confusions: (L, L) int64,
    words by gold relation and that of the system, with any heads. wrong_heads,
    wrong_relations: (S,) int64, words of each sentence with a wrong head, and with the right head
    and another relation.
    """

    groups: dict[str, list[Group]]
    relations: list[str]
    confusions: np.ndarray
    wrong_heads: np.ndarray
    wrong_relations: np.ndarray


def find_errors(gold: Treebank, system: Treebank, *, ignored: np.ndarray | None = None) -> Errors:
    """Group the words of a parsed file, and count the errors of each group.

    Groups are by DEPREL, the most frequent gold relation first; by UPOS of the gold file, or XPOS
    where UPOS is `_` in every word; by words between a word and its head; by arcs from the root; by
    words of the sentence, scored or not; and by projectivity of arcs and of gold trees.

    A group by relation, length, distance or projectivity of arcs has other words in the system's
    trees than in the gold trees: its recall is over the gold ones, its precision over those found.

    Args:
        gold: the gold file; every word has a head and the heads of a sentence form a tree.
        system: the same words and sentences, parsed.
        ignored: (W) bool, words to leave out of all counts; None counts all.
    Returns: The groups that have words, and the errors.
    Raises: DataError: the files differ in words or sentence breaks, or a sentence is no tree.
    Cost: O(bytes of both files), and the depth of the deepest tree times O(W).
    """
    judged, keep, starts = judge(gold, system), kept_words(gold, ignored), gold.word_starts
    names = judged.names

    def grouped(
        names: Sequence[str], gold_groups: np.ndarray, system_groups: np.ndarray | None = None,
        labelled: np.ndarray = judged.las,
    ) -> list[Group]:  # fmt: skip
        others = gold_groups if system_groups is None else system_groups
        heads, relations = (
            group_counts(
                len(names), gold_groups[keep], others[keep], gold_groups[keep & right],
                others[keep & right],
            )
            for right in (judged.head, labelled)
        )  # fmt: skip
        groups = [Group(*each) for each in zip(names, heads, relations, strict=True)]
        return [group for group in groups if group.heads.gold or group.heads.system]

    trees = gold.heads, system.heads
    lengths = [in_bins(arc_lengths(heads, starts), LENGTHS) for heads in trees]
    distances = [in_bins(_root_distances(heads, starts), DISTANCES) for heads in trees]
    crossing = [nonprojective_arcs(heads, starts).astype(np.int64) for heads in trees]
    sizes = np.repeat(np.diff(starts), np.diff(starts))
    by_relation = grouped(names, judged.gold, judged.system, judged.both)
    is_crossed = np.repeat(by_sentence(crossing[0] > 0, starts) > 0, np.diff(starts))
    groups = {
        "relation": _by_size(by_relation),
        "part of speech": _by_size(grouped(*_tags(gold))),
        "arc length": grouped(list(LENGTHS), *lengths),
        "distance to the root": grouped(list(DISTANCES), *distances),
        "sentence length": grouped(list(SIZES), in_bins(sizes, SIZES)),
        "projectivity": [
            *grouped(["projective arcs", "non-projective arcs"], *crossing),
            *grouped(
                ["projective sentences", "non-projective sentences"], is_crossed.astype(np.int64)
            ),
        ],
    }
    n_names = len(names)
    pairs = (judged.gold.astype(np.int64) * n_names + judged.system)[keep]
    return Errors(
        groups=groups,
        relations=names,
        confusions=np.bincount(pairs, minlength=n_names**2).reshape(n_names, n_names),
        wrong_heads=by_sentence(keep & ~judged.head, starts),
        wrong_relations=by_sentence(keep & judged.head & ~judged.both, starts),
    )


def _by_size(groups: list[Group]) -> list[Group]:
    return sorted(groups, key=lambda group: (-group.heads.gold, group.name))


def _root_distances(heads: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(W,) arcs from the root to each word."""
    firsts = np.repeat(starts[:-1], np.diff(starts))
    above = np.where(heads == 0, -1, firsts + heads - 1)
    distances = np.ones(len(heads), np.int64)
    at = above
    while (is_below := at >= 0).any():
        distances += is_below
        at = np.where(is_below, above[at], -1)
    return distances


def _tags(treebank: Treebank) -> tuple[list[str], np.ndarray]:
    """The parts of speech, and (W,) which of them each word has."""
    ids, names = column_ids(treebank, UPOS)
    if names == ["_"]:
        ids, names = column_ids(treebank, XPOS)
    return names, ids
