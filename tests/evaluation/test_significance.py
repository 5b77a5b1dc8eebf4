"""The tests of significance, against their definitions word for word and textbooks' figures."""

import math
from fractions import Fraction

import numpy as np
import pytest

from gpuparse.evaluation import significance
from gpuparse.evaluation.significance import EXACT_UP_TO, mcnemar, paired_bootstrap


def bootstrap_of_words(gains, words, **options):
    """The bootstrap of two systems with the gold words: the second has `gains` more right."""
    counts = np.array([[words, 0 * words, words, row, words] for row in gains])
    counts.setflags(write=False)
    return paired_bootstrap(counts, **options)


def by_enumeration(only_a: int, only_b: int) -> Fraction:
    """The probability of an outcome at most as likely as the one seen, coins being fair."""
    n = only_a + only_b
    seen = math.comb(n, only_a)
    return Fraction(sum(c for k in range(n + 1) if (c := math.comb(n, k)) <= seen), 2**n)


@pytest.mark.parametrize("n", [*range(0, 26), 61])
def test_few_disagreements_are_summed(n):
    for only_a in range(n + 1):
        expected = float(by_enumeration(only_a, n - only_a))
        assert mcnemar(only_a, n - only_a) == pytest.approx(expected, rel=1e-14)


def test_one_sided_disagreement_stays_above_zero():
    assert mcnemar(0, EXACT_UP_TO) == 2.0 ** (1 - EXACT_UP_TO) > 0.0


@pytest.mark.parametrize(("only_a", "only_b"), [(100, 151), (430, 570), (499, 500)])
def test_the_sum_is_that_of_scipy(only_a, only_b):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    p = stats.binomtest(only_a, only_a + only_b).pvalue
    assert mcnemar(only_a, only_b) == pytest.approx(p, rel=1e-10)


@pytest.mark.parametrize(("only_a", "only_b"), [(450, 552), (480, 521), (700, 800), (9000, 9001)])
def test_many_disagreements_are_a_corrected_chi_square(only_a, only_b):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    value = (abs(only_a - only_b) - 1) ** 2 / (only_a + only_b)
    p = mcnemar(only_a, only_b)
    assert p == mcnemar(only_b, only_a)
    assert p == pytest.approx(stats.chi2.sf(value, 1), rel=1e-12)
    # Close to what the sum would have been, so that nothing jumps where the method changes.
    assert p == pytest.approx(stats.binomtest(only_a, only_a + only_b).pvalue, rel=0.01)


def literal_bootstrap(gains, words, resamples, seed):
    """One comparison, a loop over resamples and sentences, in fractions."""
    pairs = [(g, w) for g, w in zip(gains, words, strict=True) if w]
    draw = np.random.default_rng(seed)
    d = Fraction(sum(g for g, _ in pairs), sum(w for _, w in pairs))
    found = []
    for _ in range(resamples):
        drawn = [pairs[int(draw.integers(len(pairs)))] for _ in pairs]
        found.append(Fraction(sum(g for g, _ in drawn), sum(w for _, w in drawn)))
    far = sum(abs(x - d) >= abs(d) for x in found)
    turned = sum(x * d <= 0 if d else x <= 0 for x in found)
    ordered = sorted(100 * x for x in found)

    def percentile(share):
        place = share * (resamples - 1)
        below = math.floor(place)
        above = min(below + 1, resamples - 1)
        return float(ordered[below] + (place - below) * (ordered[above] - ordered[below]))

    interval = percentile(Fraction(25, 1000)), percentile(Fraction(975, 1000))
    return float(100 * d), *interval, (1 + far) / (1 + resamples), turned / resamples


@pytest.mark.parametrize("seed", range(6))
def test_the_bootstrap_equals_a_literal_loop(seed):
    draw = np.random.default_rng(100 + seed)
    words = draw.integers(0, 12, size=int(draw.integers(1, 15)))
    words[0] = 7
    gains = np.array([draw.integers(-w, w + 1) for w in words] * 3).reshape(3, -1)
    gains[1] = 0
    gains[2] = -gains[0]
    results = bootstrap_of_words(gains, words, resamples=301, seed=seed)
    for row, result in zip(gains.tolist(), results, strict=True):
        expected = literal_bootstrap(row, words.tolist(), 301, seed)
        found = result.difference, result.low, result.high, result.p, result.turned
        assert found[:3] == pytest.approx(expected[:3], abs=1e-12)
        assert found[3:] == expected[3:]


def test_how_many_are_drawn_at_once_changes_nothing(monkeypatch):
    draw = np.random.default_rng(5)
    words = draw.integers(1, 30, size=40)
    gains = draw.integers(-2, 3, size=(2, 40))
    whole = bootstrap_of_words(gains, words, resamples=500, seed=3)
    monkeypatch.setattr(significance, "_DRAWN_AT_ONCE", 130)
    assert bootstrap_of_words(gains, words, resamples=500, seed=3) == whole
    assert bootstrap_of_words(gains, words, resamples=500, seed=4) != whole


def test_a_gain_in_every_sentence_has_the_least_p():
    # Every resample has the same difference, d: never nought and never 2d.
    [result] = bootstrap_of_words(np.ones((1, 50), int), np.full(50, 10), resamples=999)
    assert (result.difference, result.low, result.high) == (10.0, 10.0, 10.0)
    assert (result.p, result.turned) == (0.001, 0.0)


def test_p_is_uniform_where_the_systems_are_alike():
    # Of 400 texts with no true difference, a twentieth should have p <= 0.05, half p <= 0.5.
    draw = np.random.default_rng(0)
    gains = draw.integers(-3, 4, size=(400, 200))
    p = np.array([r.p for r in bootstrap_of_words(gains, np.full(200, 20), resamples=1000)])
    assert 0.025 <= np.mean(p <= 0.05) <= 0.08
    assert 0.42 <= np.mean(p <= 0.5) <= 0.58


def test_p_is_that_of_a_z_test_for_long_texts():
    draw = np.random.default_rng(1)
    gains = draw.integers(-3, 4, size=(1, 2000)) + (draw.random((1, 2000)) < 0.08)
    [result] = bootstrap_of_words(gains, np.full(2000, 20), resamples=20_000, seed=2)
    z = gains.mean() / (gains.std() / math.sqrt(2000))
    assert result.p == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=0.01)
    half = 1.96 * 100 * gains.std() / 20 / math.sqrt(2000)
    assert (result.high - result.low) / 2 == pytest.approx(half, rel=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_the_bootstrap_of_f_equals_a_literal_loop(seed):
    draw = np.random.default_rng(seed)
    n = 30
    gold, items, others = draw.integers(1, 9, (3, n))
    right = draw.integers(0, np.minimum(gold, items) + 1)
    other_right = draw.integers(0, np.minimum(gold, others) + 1)
    counts = np.array([[gold, right, items, other_right, others]])
    [found] = paired_bootstrap(counts, resamples=199, seed=seed)

    def change(drawn) -> float:
        n_gold = gold[drawn].sum()
        first = 2 * right[drawn].sum() / (n_gold + items[drawn].sum())
        second = 2 * other_right[drawn].sum() / (n_gold + others[drawn].sum())
        return 100 * (second - first)

    observed = change(np.arange(n))
    sampler = np.random.default_rng(seed)
    changes = [change(row) for row in sampler.integers(n, size=(199, n))]
    sign = 1 if observed >= 0 else -1
    far = [c for c in changes if sign * c <= 1e-9 or sign * c >= 2 * abs(observed) - 1e-9]
    assert found.difference == pytest.approx(observed)
    assert found.p == pytest.approx((1 + len(far)) / 200)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(changes, [0.025, 0.975])))


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 3)


@pytest.mark.parametrize(
    ("counts", "resamples"),
    [(np.zeros((1, 5, 3), int), 10), (np.ones((5, 3), int), 10), (np.ones((1, 5, 3), int), 0)],
)
def test_what_cannot_be_drawn_from_is_refused(counts, resamples):
    with pytest.raises(ValueError, match="must be"):
        paired_bootstrap(counts, resamples=resamples)
