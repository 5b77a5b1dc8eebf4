"""Attachment scores of parsed trees against gold trees, and the reliability of probabilities."""

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.data.columns import DEPREL, FORM, UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import nonprojective_arcs
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import DataError, option
from gpuparse.evaluation.reliability import (
    HEAD,
    LABEL,
    Reliability,
    measure_reliability,
    misc_probabilities,
)
from gpuparse.evaluation.treebanks import can_score_relations, check_parsed, column_numbers


@dataclass(frozen=True)
class Share:
    """A number of correct items and their total."""

    correct: int
    total: int

    @property
    def percent(self) -> float | None:
        """100 * (correct / total); None if the total is 0."""
        return 100.0 * (self.correct / self.total) if self.total else None


@dataclass(frozen=True)
class ArcCounts:
    """Counts of gold arcs and of arcs of the system.

    `found` counts gold arcs that the system has; `right` counts arcs of the system that gold has.
    They differ only if an arc of one set can occur in the other tree without being in its set
    (an arc that is non-projective in one tree and projective in the other).
    """

    gold: int
    system: int
    found: int
    right: int

    @property
    def precision(self) -> float | None:
        """Percent of the system's arcs that are right; None if it has none."""
        return Share(self.right, self.system).percent

    @property
    def recall(self) -> float | None:
        """Percent of the gold arcs that were found; None if there are none."""
        return Share(self.found, self.gold).percent

    @property
    def f(self) -> float | None:
        """Harmonic mean of precision and recall; None if both sets are empty."""
        if not self.gold + self.system:
            return None
        if self.found == self.right:
            return 100.0 * (2 * self.right / (self.gold + self.system))
        if not self.found or not self.right:
            return 0.0
        precision, recall = self.right / self.system, self.found / self.gold
        return 100.0 * 2.0 * precision * recall / (precision + recall)


@dataclass(frozen=True)
class TreeScores:
    """The measures of a pair of files; `score_treebanks` defines them."""

    uas: Share
    las: Share
    las_full: Share
    label_accuracy: Share
    complete: Share
    complete_labelled: Share
    root: ArcCounts
    nonprojective: ArcCounts
    relations: dict[str, ArcCounts]


@dataclass(frozen=True, eq=False)
class Judged:
    """The relations of two files as indices into names, (W,) each, and which words are right.

    las: the head and the relation up to its first ":". both: the head and the whole relation.
    is_labelled: see `can_score_relations`.
    """

    names: list[str]
    gold: np.ndarray
    system: np.ndarray
    head: np.ndarray
    label: np.ndarray
    las: np.ndarray
    both: np.ndarray
    is_labelled: bool


def judge(gold: Treebank, system: Treebank) -> Judged:
    """Compare a parsed file with the gold file, word by word.

    Raises: DataError: the files differ in words or sentence breaks, or a sentence is no tree.
    """
    check_parsed(gold, system)
    (ours, theirs), names = column_numbers(DEPREL, gold, system)
    head, label, universal = gold.heads == system.heads, ours == theirs, universal_parts(names)
    las = head & (universal[ours] == universal[theirs])
    is_labelled = can_score_relations(gold, system)
    return Judged(names, ours, theirs, head, label, las, head & label, is_labelled)


def kept_words(gold: Treebank, ignored: np.ndarray | None) -> np.ndarray:
    """(W,) bool, the words that are counted."""
    return np.ones(gold.n_words, bool) if ignored is None else ~ignored


def score_treebanks(
    gold: Treebank, system: Treebank, *, ignored: np.ndarray | None = None
) -> TreeScores:
    """Score a parsed file against the gold file.

    docs/evaluating.md defines the measures; sentences without scored words are not counted.
    Measures of relations are 0 of 0 if the system has no relations. In
    `nonprojective`, recall is the share of the non-projective gold arcs that the system has, and
    precision the share of the system's non-projective arcs that gold has. `relations` are by
    descending gold count.

    Args:
        gold: the gold file; every word has a head and the heads of a sentence form a tree.
        system: the same words and sentences, parsed.
        ignored: (W) bool, words to leave out of all counts; None scores all.
    Returns: The counts.
    Raises: DataError: the files differ in words or sentence breaks, or a sentence is no tree.
    Cost: O(bytes of both files), and at most the sum of the arcs' lengths.
    Source: CoNLL 2018 shared task script for uas and las; McDonald, Crammer & Pereira (2005),
        table 2, for complete and root. differs: the script refuses files with several roots.
    """
    judged, keep, starts = judge(gold, system), kept_words(gold, ignored), gold.word_starts
    labelled = keep & judged.is_labelled
    trees = gold.heads, system.heads
    roots = [(heads == 0) & keep for heads in trees]
    crossing = [nonprojective_arcs(heads, starts) & keep for heads in trees]
    return TreeScores(
        uas=_share(judged.head, keep),
        las=_share(judged.las, labelled),
        las_full=_share(judged.both, labelled),
        label_accuracy=_share(judged.label, labelled),
        complete=complete_sentences(judged.head, keep, starts),
        complete_labelled=complete_sentences(judged.both, labelled, starts),
        root=arc_counts(*(judged.head[words] for words in roots)),
        nonprojective=arc_counts(*(judged.head[words] for words in crossing)),
        relations=relation_counts(
            judged.names,
            judged.gold[labelled],
            judged.system[labelled],
            judged.gold[labelled & judged.both],
        ),
    )


def universal_parts(label_names: Sequence[str]) -> np.ndarray:
    """For each relation, an id of the part before its first ":"."""
    ids: dict[str, int] = {}
    parts = [ids.setdefault(name.split(":", 1)[0], len(ids)) for name in label_names]
    return np.array(parts, np.int64)


def _share(right: np.ndarray, keep: np.ndarray) -> Share:
    return Share(int(np.count_nonzero(right & keep)), int(np.count_nonzero(keep)))


def complete_sentences(right: np.ndarray, keep: np.ndarray, word_starts: np.ndarray) -> Share:
    """The share of sentences, among those with kept words (W,), whose kept words are right (W,)."""
    is_faultless = by_sentence(keep & ~right, word_starts) == 0
    return _share(is_faultless, by_sentence(keep, word_starts) > 0)


def arc_counts(found: np.ndarray, right: np.ndarray) -> ArcCounts:
    """Counts of two sets of arcs; found: of each gold arc, right: of each arc of the system."""
    return ArcCounts(len(found), len(right), int(found.sum()), int(right.sum()))


def group_counts(
    n_groups: int, gold: np.ndarray, system: np.ndarray, found: np.ndarray, right: np.ndarray
) -> list[ArcCounts]:
    """Counts of each group.

    Args: gold, system, found, right: the groups of such arcs, see `ArcCounts`.
    """
    counts = [np.bincount(of, minlength=n_groups).tolist() for of in (gold, system, found, right)]
    return [ArcCounts(*group) for group in zip(*counts, strict=True)]


def relation_counts(
    names: Sequence[str], gold: np.ndarray, system: np.ndarray, right: np.ndarray
) -> dict[str, ArcCounts]:
    """Counts of the relations that occur, the most frequent gold ones first; see `group_counts`."""
    counts = zip(names, group_counts(len(names), gold, system, right, right), strict=True)
    used = [(name, of) for name, of in counts if of.gold or of.system]
    return dict(sorted(used, key=lambda item: (-item[1].gold, item[0])))


def by_sentence(words: np.ndarray, word_starts: np.ndarray) -> np.ndarray:
    """(S,) number of the words (W,) bool in each sentence."""
    before = np.concatenate(([0], np.cumsum(words, dtype=np.int64)))
    return np.diff(before[word_starts])


def in_bins(numbers: np.ndarray, least: dict[str, int]) -> np.ndarray:
    """The places of numbers among bins; least: of each bin, ascending."""
    return np.searchsorted(np.array(list(least.values())), numbers, side="right") - 1


def arc_lengths(heads: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(W,) words from each word to its head, 0 for words attached to the root."""
    places = 1 + np.arange(len(heads)) - np.repeat(starts[:-1], np.diff(starts))
    return np.where(heads == 0, 0, np.abs(heads - places))


def measure_reliability_of_treebanks(
    gold: Treebank, system: Treebank, *, ignored: np.ndarray | None = None
) -> dict[str, Reliability]:
    """Compare the probabilities in MISC of a parsed file with the gold file.

    `heads` are HeadProb; `relations` LabelProb, over words whose head is right, because it is the
    probability of the relation given the head; `both` their product. Words without a probability
    are not counted; a measure without words is left out.

    Args:
        gold: the gold file; every word has a head and the heads of a sentence form a tree.
        system: the same words and sentences, parsed, with probabilities.
        ignored: (W) bool, words to leave out of all counts; None counts all.
    Returns: The measures by the names above.
    Raises:
        DataError: the files differ in words or sentence breaks, a sentence is no tree, a
            probability cannot be read, or no word to count has a HeadProb.
    Cost: O(bytes of both files), some microseconds per word.
    """
    judged = judge(gold, system)
    of_head, of_label = (misc_probabilities(system, key) for key in (HEAD, LABEL))
    counted = ~np.isnan(of_head) & kept_words(gold, ignored)
    if not counted.any():
        raise DataError(
            f"{system.source}: no scored word has {HEAD} in MISC (column 10); parse the file with"
            f" {option('probabilities', True)}"
        )
    with_label = counted & ~np.isnan(of_label)
    parts = {
        "heads": (counted, of_head, judged.head),
        "relations": (with_label & judged.head, of_label, judged.label),
        "both": (with_label, of_head * of_label, judged.both),
    }
    return {
        name: measure_reliability(values[words], right[words])
        for name, (words, values, right) in parts.items()
        if words.any()
    }


def punctuation_by_category(treebank: Treebank) -> np.ndarray:
    """Find the words whose form consists of punctuation.

    Args: treebank: the gold file.
    Returns: (W) bool, True where every character of FORM is in one of Unicode's P categories. Signs
        such as "$" and "+" are in its S categories and no punctuation.
    Cost: O(W).
    """
    ids, forms = column_ids(treebank, FORM)
    known = [all(unicodedata.category(character)[0] == "P" for character in form) for form in forms]
    return np.array(known, np.bool_)[ids]


def punctuation_by_tag(treebank: Treebank, tags: Collection[str]) -> np.ndarray:
    """Find the words with one of the given part-of-speech tags.

    Args:
        treebank: the gold file.
        tags: tags of punctuation, coarse or fine (columns 4 and 5 of the file, counted from 1).
    Returns: (W) bool, True where either column is one of the tags.
    Cost: O(W).
    """
    is_punctuation = np.zeros(treebank.n_words, np.bool_)
    for column in (UPOS, XPOS):
        ids, names = column_ids(treebank, column)
        is_punctuation |= np.array([name in tags for name in names], np.bool_)[ids]
    return is_punctuation
