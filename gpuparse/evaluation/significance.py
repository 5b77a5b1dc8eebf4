"""Significance tests for two outputs of the same text."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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
    Returns:
        The two-sided p-value; 1 without disagreements.
    Raises:
        ValueError: a negative count.
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
    Returns:
        K results.
    Raises:
        ValueError: no sentence has words, or arrays do not fit together, or no resamples.
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
