"""Comparison of two systems' trees for the same words, with significance tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.evaluation.metrics import Share, universal_parts
from gpuparse.evaluation.significance import Bootstrap, mcnemar, paired_bootstrap

# Lengths of arcs, in words: name, least, most.
_LENGTHS = (("1", 1, 1), ("2", 2, 2), ("3-6", 3, 6), ("7-", 7, np.iinfo(np.int64).max))


@dataclass(frozen=True)
class Disagreement:
    """Numbers of words that only one of two systems has right."""

    only_first: int
    only_second: int

    @property
    def p(self) -> float:
        """p of McNemar's test."""
        return mcnemar(self.only_first, self.only_second)


@dataclass(frozen=True)
class Comparison:
    """Result of `compare_trees`; the keys of the first two are shares of words in TreeScores."""

    disagreements: dict[str, Disagreement]
    bootstrap: dict[str, Bootstrap]
    lengths: dict[str, tuple[Share, Share]]


def compare_trees(
    word_starts: np.ndarray,
    gold_heads: np.ndarray,
    heads: tuple[np.ndarray, np.ndarray],
    gold_labels: np.ndarray,
    labels: tuple[np.ndarray, np.ndarray],
    label_names: Sequence[str],
    scored: np.ndarray | None = None,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Test whether two systems differ, and at arcs of which length.

    - `disagreements`, `bootstrap`: for `uas`, `las` and `las_full`, which `score_trees` defines.
    - `lengths`: the words with the right head, of either system, by the distance from the word to
      its gold head: `root`, `1`, `2`, `3-6`, `7-`.

    Args:
        word_starts: (S+1) int; the words of sentence s are word_starts[s]:word_starts[s+1].
        gold_heads: (W) int; 0 for the root, else 1..n within the sentence.
        heads: the same of the first and of the second system.
        gold_labels: (W) int; indices into label_names.
        labels: the same of the first and of the second system.
        label_names: the relations.
        scored: (W) bool; False leaves the word out of all counts. None scores all words.
        resamples, seed: number of resamples and seed of the bootstrap.
    Returns:
        The comparison.
    Raises:
        ValueError: arrays of different lengths, no word to score, or resamples below 1.
    Cost: the bootstrap, about 10 ns per sentence and resample.
    Source: McDonald, Crammer & Pereira (2005), section 3, for McNemar's test on the choice of
        heads; the lengths are those of the CoNLL 2007 shared task's script.
    """
    n_words = int(word_starts[-1])
    if any(len(array) != n_words for array in (gold_heads, gold_labels, *heads, *labels)):
        raise ValueError("heads and labels must have one entry per word")
    keep = np.ones(n_words, bool) if scored is None else np.asarray(scored, bool)
    universal = universal_parts(label_names)
    right: dict[str, list[np.ndarray]] = {"uas": [], "las": [], "las_full": []}
    for found_heads, found_labels in zip(heads, labels, strict=True):
        head_right = (found_heads == gold_heads) & keep
        right["uas"].append(head_right)
        right["las"].append(head_right & (universal[found_labels] == universal[gold_labels]))
        right["las_full"].append(head_right & (found_labels == gold_labels))
    gains = [_by_sentence(b, word_starts) - _by_sentence(a, word_starts) for a, b in right.values()]
    results = paired_bootstrap(
        np.array(gains), _by_sentence(keep, word_starts), resamples=resamples, seed=seed
    )
    return Comparison(
        disagreements={name: _disagreement(a, b) for name, (a, b) in right.items()},
        bootstrap=dict(zip(right, results, strict=True)),
        lengths=_by_length(word_starts, gold_heads, right["uas"], keep),
    )


def _by_sentence(words: np.ndarray, word_starts: np.ndarray) -> np.ndarray:
    """(S,) number of the words (W,) bool in each sentence."""
    before = np.concatenate(([0], np.cumsum(words, dtype=np.int64)))
    return np.diff(before[word_starts])


def _disagreement(first: np.ndarray, second: np.ndarray) -> Disagreement:
    return Disagreement(
        only_first=int(np.count_nonzero(first & ~second)),
        only_second=int(np.count_nonzero(second & ~first)),
    )


def _by_length(
    word_starts: np.ndarray, gold_heads: np.ndarray, right: list[np.ndarray], keep: np.ndarray
) -> dict[str, tuple[Share, Share]]:
    positions = 1 + np.arange(len(gold_heads)) - np.repeat(word_starts[:-1], np.diff(word_starts))
    from_root = gold_heads == 0
    lengths = np.where(from_root, 0, np.abs(gold_heads - positions))
    groups = {"root": from_root}
    groups |= {name: (lengths >= least) & (lengths <= most) for name, least, most in _LENGTHS}
    result = {}
    for name, group in groups.items():
        total = int(np.count_nonzero(group & keep))
        first, second = (Share(int(np.count_nonzero(words & group)), total) for words in right)
        result[name] = (first, second)
    return result
