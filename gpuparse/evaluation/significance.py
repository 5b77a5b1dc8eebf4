"""Comparison of two systems' outputs for the same words, with significance tests."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.evaluation.metrics import Share, universal_parts

EXACT_UP_TO = 1000  # disagreements; 2 ** -1000 is still an ordinary number in float64
_DRAWN_AT_ONCE = 1 << 20  # sentences; bounds the memory to some 30 MB


def mcnemar(only_a: int, only_b: int) -> float:
    """McNemar's test on the words that only one of two systems has right.

    Under the null hypothesis each disagreement favours either system with probability 1/2. Up to
    EXACT_UP_TO disagreements the p-value is summed from the binomial distribution; beyond, it is
    that of chi-square with one degree of freedom and the correction for continuity.

    Args:
        only_a: words that only the first system has right.
        only_b: words that only the second system has right.
    Returns: The two-sided p-value; 1 without disagreements.
    Raises: ValueError: a negative count.
    Cost: under a millisecond.
    Source: McNemar (1947), Psychometrika 12(2); the correction is Edwards' (1948), 13(3). McDonald,
        Crammer & Pereira (2005), section 3, test the choice of heads so.
    """
    if only_a < 0 or only_b < 0:
        raise ValueError(f"counts must not be negative, but are {only_a} and {only_b}")
    n, fewer = only_a + only_b, min(only_a, only_b)
    if n <= EXACT_UP_TO:
        tail, ways = 0, 1  # ways = n choose k
        for k in range(fewer + 1):
            tail += ways
            ways = ways * (n - k) // (k + 1)
        return min(1.0, 2 * tail / 2**n)
    chi_square = max(0, abs(only_a - only_b) - 1) ** 2 / n
    return math.erfc(math.sqrt(chi_square / 2))


@dataclass(frozen=True)
class Bootstrap:
    """Bootstrap results about a difference, in percentage points, second system minus first.

    low, high: the 95 % interval. p: of the two-sided test. turned: the share of resamples in which
    the difference is zero or has the opposite sign.
    """

    difference: float
    low: float
    high: float
    p: float
    turned: float


def paired_bootstrap(
    gains: np.ndarray, words: np.ndarray, *, resamples: int = 10_000, seed: int = 0
) -> list[Bootstrap]:
    """Test differences of scores over words by resampling the sentences of a text.

    A resample draws S of the S sentences with replacement and keeps both outputs of a sentence
    together. Its difference is the sum of gains divided by the sum of words. Resampled differences
    scatter around the observed difference d as observations would around zero under the null
    hypothesis; so p is the share of resamples at least as far from d as d is from zero: at or
    beyond zero on one side, at or beyond 2d on the other. The interval is that of the percentiles
    2.5 and 97.5. All comparisons use the same resamples.

    Args:
        gains: (K, S) int; for each of K comparisons, correct words of the second system minus those
            of the first in sentence s.
        words: (S,) int, scored words of each sentence. Sentences without any are not drawn.
        resamples: how many to draw, 1 or more.
        seed: of numpy's generator.
    Returns: K results.
    Raises: ValueError: no sentence has words, or arrays do not fit together, or no resamples.
    Cost: about 10 ns per sentence and resample, one thread.
    Source: Berg-Kirkpatrick, Burkett & Klein (2012), figure 1, for the shift by d. differs: their
        test is one-sided, the share beyond 2d; here both sides count, as in McNemar's test, and
        the observation counts as one more resample (Davison & Hinkley 1997, section 4.2), so p is
        never 0. `turned` is the share that Koehn (2004), section 3, takes.
    """
    counted = words > 0
    if gains.ndim != 2 or gains.shape[1:] != words.shape or not counted.any() or resamples < 1:
        raise ValueError(
            f"gains {gains.shape} must be (K, S) for words {words.shape} of which some count, and"
            f" resamples 1 or more, but are {resamples}"
        )
    columns = np.vstack([words, gains])[:, counted].astype(np.int64)
    sums = _resampled_sums(columns, resamples, np.random.default_rng(seed))
    total, *observed = columns.sum(axis=1).tolist()
    drawn_words = sums[:, 0]
    results = []
    for gain, drawn in zip(observed, sums.T[1:], strict=True):
        towards = drawn if gain >= 0 else -drawn  # the observed direction is the positive one
        turned = towards <= 0
        doubled = towards * total >= 2 * abs(gain) * drawn_words  # in integers: ties are ties
        low, high = np.quantile(100.0 * drawn / drawn_words, [0.025, 0.975]).tolist()
        results.append(
            Bootstrap(
                difference=100.0 * gain / total,
                low=low,
                high=high,
                p=(1 + int(np.count_nonzero(turned | doubled))) / (1 + resamples),
                turned=int(np.count_nonzero(turned)) / resamples,
            )
        )
    return results


def bootstrap_of_f(
    counts: np.ndarray, *, resamples: int = 10_000, seed: int = 0
) -> list[Bootstrap]:
    """As `paired_bootstrap`, of F: the systems may differ in how many items they have.

    Args:
        counts: (K, 5, S) int, for each of K measures and each sentence: the gold items; the right
            items and the items of the first system; those two of the second system. Sentences
            without any are not drawn.
        resamples, seed: as for `paired_bootstrap`.
    Returns: K results. Resamples without items of a measure have a difference of 0.
    Raises: ValueError: no sentence has items, or the shape is another one, or no resamples.
    Cost: about 10 ns per sentence and resample, and 1 ns for each measure; one thread.
    """
    if counts.ndim != 3 or counts.shape[1] != 5 or not counts.any() or resamples < 1:
        raise ValueError(
            f"counts {counts.shape} must be (K, 5, S), of which some count, and resamples 1 or"
            f" more, but are {resamples}"
        )
    columns = counts.reshape(-1, counts.shape[2]).astype(np.int64)
    columns = columns[:, columns.any(axis=0)]
    sums = _resampled_sums(columns, resamples, np.random.default_rng(seed))
    all_drawn = _differences_of_f(sums.reshape(resamples, -1, 5))
    all_observed = _differences_of_f(columns.sum(axis=1).reshape(1, -1, 5))[0]
    results = []
    for observed, drawn in zip(all_observed.tolist(), all_drawn.T, strict=True):
        towards = drawn if observed >= 0 else -drawn
        turned = towards <= 0
        doubled = towards >= 2 * abs(observed) * (1 - 1e-12)  # rounding must not break ties
        low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
        results.append(
            Bootstrap(
                difference=observed,
                low=low,
                high=high,
                p=(1 + int(np.count_nonzero(turned | doubled))) / (1 + resamples),
                turned=int(np.count_nonzero(turned)) / resamples,
            )
        )
    return results


def _differences_of_f(sums: np.ndarray) -> np.ndarray:
    """F of the second system minus F of the first, in points; int64 (..., 5) as in `counts`."""
    gold, right, items, other_right, other_items = np.moveaxis(sums, -1, 0)
    top = 2 * (other_right * (gold + items) - right * (gold + other_items))  # 0 where F is equal
    bottom = (gold + items).astype(np.float64) * (gold + other_items)
    return 100.0 * top / np.maximum(bottom, 1)


def _resampled_sums(columns: np.ndarray, resamples: int, draw: np.random.Generator) -> np.ndarray:
    """(resamples, C) int64: the sums of each row of columns (C, S) over the sentences drawn."""
    size = columns.shape[1]
    values = columns.T.astype(np.float64)  # sums of whole numbers are exact there, and BLAS is fast
    at_once = max(1, _DRAWN_AT_ONCE // size)
    sums = []
    for first in range(0, resamples, at_once):
        rows = min(at_once, resamples - first)
        drawn = draw.integers(size, size=(rows, size))
        drawn += size * np.arange(rows)[:, np.newaxis]
        times = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        sums.append(times.astype(np.float64) @ values)
    return np.concatenate(sums).astype(np.int64)


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
    Returns: The comparison.
    Raises: ValueError: arrays of different lengths, no word to score, or resamples below 1.
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
    gains = [by_sentence(b, word_starts) - by_sentence(a, word_starts) for a, b in right.values()]
    results = paired_bootstrap(
        np.array(gains), by_sentence(keep, word_starts), resamples=resamples, seed=seed
    )
    return Comparison(
        disagreements={name: disagreement(a, b) for name, (a, b) in right.items()},
        bootstrap=dict(zip(right, results, strict=True)),
        lengths=_by_length(word_starts, gold_heads, right["uas"], keep),
    )


def by_sentence(words: np.ndarray, word_starts: np.ndarray) -> np.ndarray:
    """(S,) number of the words (W,) bool in each sentence."""
    before = np.concatenate(([0], np.cumsum(words, dtype=np.int64)))
    return np.diff(before[word_starts])


def disagreement(first: np.ndarray, second: np.ndarray) -> Disagreement:
    """The numbers of items that one of two systems alone has right; bool (G,) each."""
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
