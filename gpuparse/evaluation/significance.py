"""Comparison of two systems' outputs for the same words, with significance tests."""

import math
from dataclasses import dataclass

import numpy as np

from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.evaluation.metrics import (
    Share,
    arc_lengths,
    by_sentence,
    group_counts,
    in_bins,
    judge,
    kept_words,
)
from gpuparse.evaluation.treebanks import check_parsed

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
    counts: np.ndarray, *, resamples: int = 10_000, seed: int = 0
) -> list[Bootstrap]:
    """Test differences of F by resampling the sentences of a text.

    Where both systems have the gold items, such as words, F is the share of right ones. A resample
    draws S of the S sentences with replacement and keeps both outputs of a sentence together.
    Resampled differences scatter around the observed difference d as observations would around zero
    under the null hypothesis; so p is the share of resamples at least as far from d as d is from
    zero: at or beyond zero on one side, at or beyond 2d on the other. The interval is that of the
    percentiles 2.5 and 97.5. All comparisons use the same resamples.

    Args:
        counts: (K, 5, S) int, for each of K measures and each sentence: the gold items; the right
            items and the items of the first system; those two of the second system. Sentences
            without any are not drawn.
        resamples: how many to draw, 1 or more.
        seed: of numpy's generator.
    Returns: K results. Resamples without items of a measure have a difference of 0.
    Raises: ValueError: no sentence has items, or the shape is another one, or no resamples.
    Cost: about 10 ns per sentence and resample, and 1 ns for each measure; one thread.
    Source: Berg-Kirkpatrick, Burkett & Klein (2012), figure 1, for the shift by d. differs: their
        test is one-sided, the share beyond 2d; here both sides count, as in McNemar's test, and
        the observation counts as one more resample (Davison & Hinkley 1997, section 4.2), so p is
        never 0. `turned` is the share that Koehn (2004), section 3, takes.
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


# Lengths of arcs, in words: the least of each group.
_LENGTHS = {"root": 0, "1": 1, "2": 2, "3-6": 3, "7-": 7}


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
    """Result of a comparison; the keys of the first two are measures."""

    disagreements: dict[str, Disagreement]
    bootstrap: dict[str, Bootstrap]
    lengths: dict[str, tuple[Share, Share]]


def compare_treebanks(
    gold: Treebank,
    first: Treebank,
    second: Treebank,
    *,
    ignored: np.ndarray | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Test whether two parsed files differ in how well they agree with the gold file.

    - `disagreements`, `bootstrap`: for `uas`, and for `las` and `las_full` if both systems have
      relations, see `score_treebanks`.
    - `lengths`: the words with the right head, of either system, by the distance from the word to
      its gold head: `root`, `1`, `2`, `3-6`, `7-`.

    Args:
        gold: the gold file; every word has a head and the heads of a sentence form a tree.
        first, second: the same words and sentences, parsed.
        ignored: (W) bool, words to leave out of all counts; None counts all.
        resamples, seed: of the bootstrap.
    Returns: The comparison.
    Raises:
        DataError: the files differ in words or sentence breaks, a sentence is no tree, or no word
            is left to compare.
    Cost: O(bytes of the files) and the bootstrap, 10 ns for each sentence of each resample.
    Source: McDonald, Crammer & Pereira (2005), section 3, for McNemar's test on the choice of
        heads; the lengths are those of the CoNLL 2007 shared task's script.
    """
    check_parsed(gold, first, second)
    keep, starts = kept_words(gold, ignored), gold.word_starts
    if not keep.any():
        raise DataError(f"{gold.source}: no word to compare the systems on; give a longer text")
    both = [judge(gold, system) for system in (first, second)]
    measures = {"uas": [judged.head for judged in both]}
    if all(judged.is_labelled for judged in both):
        measures["las"] = [judged.las for judged in both]
        measures["las_full"] = [judged.both for judged in both]
    right = {name: [words & keep for words in pair] for name, pair in measures.items()}
    words = by_sentence(keep, starts)
    counts = [
        [words, by_sentence(a, starts), words, by_sentence(b, starts), words]
        for a, b in right.values()
    ]
    results = paired_bootstrap(np.array(counts), resamples=resamples, seed=seed)
    lengths = in_bins(arc_lengths(gold.heads, starts), _LENGTHS)
    shares = [
        group_counts(len(_LENGTHS), lengths[keep], lengths[keep], *[lengths[words]] * 2)
        for words in right["uas"]
    ]
    return Comparison(
        disagreements={name: disagreement(a, b) for name, (a, b) in right.items()},
        bootstrap=dict(zip(right, results, strict=True)),
        lengths={
            name: (Share(a.found, a.gold), Share(b.found, b.gold))
            for name, a, b in zip(_LENGTHS, *shares, strict=True)
        },
    )


def disagreement(first: np.ndarray, second: np.ndarray) -> Disagreement:
    """The numbers of items that one of two systems alone has right; bool (G,) each."""
    return Disagreement(
        only_first=int(np.count_nonzero(first & ~second)),
        only_second=int(np.count_nonzero(second & ~first)),
    )
