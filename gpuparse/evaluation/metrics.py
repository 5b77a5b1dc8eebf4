"""Attachment scores of parsed trees against gold trees, over arrays of heads and relations."""

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.data.columns import FORM, UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import nonprojective_arcs


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
    """The measures of a pair of files; `score_trees` defines them."""

    uas: Share
    las: Share
    las_full: Share
    label_accuracy: Share
    complete: Share
    complete_labelled: Share
    root: ArcCounts
    nonprojective: ArcCounts
    relations: dict[str, ArcCounts]


def score_trees(
    word_starts: np.ndarray,
    gold_heads: np.ndarray,
    system_heads: np.ndarray,
    gold_labels: np.ndarray,
    system_labels: np.ndarray,
    label_names: Sequence[str],
    scored: np.ndarray | None = None,
) -> TreeScores:
    """Compare the system's trees with the gold trees of the same words.

    - `uas`: words with the right head.
    - `las`: words with the right head and the right relation, relations compared up to their first
      ":" (`nsubj:pass` counts as `nsubj`), as the CoNLL 2018 script does.
    - `las_full`: the same with the whole relation. All measures below compare whole relations too.
    - `label_accuracy`: words with the right relation, whatever the head.
    - `complete`, `complete_labelled`: sentences with all heads right, with all heads and relations
      right. A sentence without scored words is not counted.
    - `root`: the words attached to the root. If all sentences have exactly one in both files,
      precision, recall and F are all the share of sentences whose root word is right.
    - `nonprojective`: recall is the share of the non-projective gold arcs that the system has;
      precision the share of the system's non-projective arcs that gold has.
    - `relations`: for each relation, right head and right relation; by descending gold count.

    Args:
        word_starts: (S+1) int; the words of sentence s are word_starts[s]:word_starts[s+1].
        gold_heads, system_heads: (W) int; 0 for the root, else 1..n within the sentence.
        gold_labels, system_labels: (W) int; indices into label_names.
        label_names: the relations.
        scored: (W) bool; False leaves the word out of all counts. None scores all words.
    Returns: The counts.
    Raises: ValueError: arrays of different lengths, or heads that are not trees.
    Cost: O(W) in numpy, and at most the sum of the arcs' lengths for non-projective arcs.
    Source: CoNLL 2018 shared task script for uas and las; McDonald, Crammer & Pereira (2005),
        table 2, for complete and root. differs: the script refuses files with several roots.
    """
    n_words = int(word_starts[-1])
    arrays = (gold_heads, system_heads, gold_labels, system_labels)
    if any(len(array) != n_words for array in arrays):
        raise ValueError("heads and labels must have one entry per word")
    keep = np.ones(n_words, bool) if scored is None else np.asarray(scored, bool)
    universal = universal_parts(label_names)
    head_right = gold_heads == system_heads
    label_right = gold_labels == system_labels
    universal_right = universal[gold_labels] == universal[system_labels]
    both_right = head_right & label_right
    return TreeScores(
        uas=_share(head_right, keep),
        las=_share(head_right & universal_right, keep),
        las_full=_share(both_right, keep),
        label_accuracy=_share(label_right, keep),
        complete=complete_sentences(head_right, keep, word_starts),
        complete_labelled=complete_sentences(both_right, keep, word_starts),
        root=_arc_counts((gold_heads == 0) & keep, (system_heads == 0) & keep, head_right),
        nonprojective=_arc_counts(
            nonprojective_arcs(gold_heads, word_starts) & keep,
            nonprojective_arcs(system_heads, word_starts) & keep,
            head_right,
        ),
        relations=_relations(gold_labels, system_labels, both_right, keep, label_names),
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
    wrong_before = np.concatenate(([0], np.cumsum(keep & ~right)))
    kept_before = np.concatenate(([0], np.cumsum(keep)))
    counted = np.diff(kept_before[word_starts]) > 0
    faultless = np.diff(wrong_before[word_starts]) == 0
    return _share(faultless, counted)


def _arc_counts(gold: np.ndarray, system: np.ndarray, head_right: np.ndarray) -> ArcCounts:
    return ArcCounts(
        gold=int(np.count_nonzero(gold)),
        system=int(np.count_nonzero(system)),
        found=int(np.count_nonzero(gold & head_right)),
        right=int(np.count_nonzero(system & head_right)),
    )


def _relations(
    gold_labels: np.ndarray,
    system_labels: np.ndarray,
    both_right: np.ndarray,
    keep: np.ndarray,
    label_names: Sequence[str],
) -> dict[str, ArcCounts]:
    n_labels = len(label_names)
    gold = np.bincount(gold_labels[keep], minlength=n_labels).tolist()
    system = np.bincount(system_labels[keep], minlength=n_labels).tolist()
    right = np.bincount(gold_labels[keep & both_right], minlength=n_labels).tolist()
    used = [label for label in range(n_labels) if gold[label] or system[label]]
    used.sort(key=lambda label: (-gold[label], label_names[label]))
    return {
        label_names[label]: ArcCounts(gold[label], system[label], right[label], right[label])
        for label in used
    }


def punctuation_by_category(treebank: Treebank) -> np.ndarray:
    """Find the words whose form consists of punctuation.

    Args: treebank: the gold file.
    Returns: (W) bool, True where every character of FORM is in one of Unicode's P categories. Signs
        such as "$" and "+" are in its S categories and no punctuation.
    Cost: O(W).
    """
    known: dict[str, bool] = {}
    is_punctuation = np.zeros(treebank.n_words, bool)
    for w in range(treebank.n_words):
        form = treebank.column(w, FORM)
        if form not in known:
            known[form] = all(unicodedata.category(character)[0] == "P" for character in form)
        is_punctuation[w] = known[form]
    return is_punctuation


def punctuation_by_tag(treebank: Treebank, tags: Collection[str]) -> np.ndarray:
    """Find the words with one of the given part-of-speech tags.

    Args:
        treebank: the gold file.
        tags: tags of punctuation, coarse or fine (columns 4 and 5 of the file, counted from 1).
    Returns: (W) bool, True where either column is one of the tags.
    Cost: O(W).
    """
    wanted = frozenset(tags)
    is_punctuation = np.zeros(treebank.n_words, bool)
    for w in range(treebank.n_words):
        is_punctuation[w] = treebank.column(w, UPOS) in wanted or treebank.column(w, XPOS) in wanted
    return is_punctuation
