"""Measures of probabilities against their definitions, word by word."""

import math
import random

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import DataError
from gpuparse.evaluation.metrics import measure_reliability_of_treebanks
from gpuparse.evaluation.reliability import (
    BINS,
    HEAD,
    LABEL,
    Bin,
    area_under_curve,
    errors_among_least_certain,
    measure_reliability,
    misc_probabilities,
    reliability_table,
)
from gpuparse.limits import LEAST_PROBABILITY


def random_case(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with two decimals, so that some are equal and some lie on bounds of bins."""
    draw = np.random.default_rng(seed)
    p = np.round(draw.beta(3, 1, size=int(draw.integers(2, 80))), 2)
    right = draw.random(len(p)) < p
    right[0], right[-1] = True, False
    return p, right


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@pytest.mark.parametrize("seed", range(20))
def test_bins_of_equal_width_by_definition(seed):
    p, right = random_case(seed)
    expected, bins = [], BINS
    for k in range(bins):
        rows = [
            (x, y)
            for x, y in zip(p.tolist(), right.tolist(), strict=True)
            if k / bins <= x and (x < (k + 1) / bins or k == bins - 1)
        ]
        if rows:
            shares = mean(x for x, _ in rows), mean(y for _, y in rows)
            expected.append(Bin(k / bins, (k + 1) / bins, len(rows), *shares))
    found = reliability_table(p, right)
    assert [(b.least, b.most, b.count) for b in found] == [
        (b.least, b.most, b.count) for b in expected
    ]
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.mean, mine.right) == pytest.approx((theirs.mean, theirs.right))
    error = sum(b.count / len(p) * abs(b.mean - b.right) for b in expected)
    assert measure_reliability(p, right).ece == pytest.approx(error)


@pytest.mark.parametrize("seed", range(20))
def test_measures_by_definition(seed):
    p, right = random_case(seed)
    pairs = list(zip(p.tolist(), right.tolist(), strict=True))
    found = measure_reliability(p, right)
    assert found.count == len(pairs)
    assert found.mean == pytest.approx(mean(x for x, _ in pairs))
    assert found.right == pytest.approx(mean(y for _, y in pairs))
    assert found.brier == pytest.approx(mean((x - y) ** 2 for x, y in pairs))
    losses = [
        -math.log(min(max(x if y else 1 - x, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY))
        for x, y in pairs
    ]
    assert found.log_loss == pytest.approx(mean(losses))
    wins = [
        1.0 if good > bad else 0.5 if good == bad else 0.0
        for good, y in pairs
        if y
        for bad, z in pairs
        if not z
    ]
    assert found.auc == pytest.approx(mean(wins))


def test_errors_among_the_least_certain():
    p = np.array([0.1, 0.2, 0.2, 0.2, 0.2, 0.6, 0.7, 0.8, 0.9, 1.0])
    right = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1, 1], bool)
    found = [errors_among_least_certain(p, right, share) for share in (0, 0.1, 0.3, 0.5, 0.7, 1)]
    # Four words are as certain as one another, two of them wrong: half of those taken, so far.
    assert found == pytest.approx([0, 1 / 4, 2 / 4, 3 / 4, 1, 1])


@pytest.mark.parametrize("seed", range(5))
def test_errors_found_are_those_of_the_first_words_in_random_order(seed):
    p, right = random_case(seed)
    draw, share, seen = random.Random(seed), 0.2, []
    pairs = list(zip(p.tolist(), right.tolist(), strict=True))
    whole = int(share * len(pairs))
    for _ in range(4000):
        draw.shuffle(pairs)
        first = sorted(pairs, key=lambda pair: pair[0])[:whole]
        seen.append(sum(not y for _, y in first) / sum(not y for _, y in pairs))
    found = errors_among_least_certain(p, right, whole / len(pairs))
    assert found == pytest.approx(mean(seen), abs=0.02)


def test_where_all_is_right_there_are_no_errors_to_find():
    found = measure_reliability(np.array([0.5, 1.0]), np.array([True, True]))
    assert (found.auc, found.errors_found[10]) == (None, None)
    assert area_under_curve(np.array([0.5]), np.array([False])) is None


def test_a_certain_error_costs_what_four_decimals_can_tell():
    found = measure_reliability(np.array([1.0]), np.array([False]))
    assert found.log_loss == pytest.approx(-math.log(LEAST_PROBABILITY))
    assert (found.ece, found.brier) == (1.0, 1.0)


def test_draws_from_the_probabilities_are_calibrated():
    draw = np.random.default_rng(0)
    p = draw.random(100_000)
    found = measure_reliability(p, draw.random(100_000) < p)
    assert found.ece < 0.01
    assert found.brier == pytest.approx(1 / 6, abs=0.003)  # the integral of p (1 - p)
    assert found.log_loss == pytest.approx(0.5, abs=0.01)
    assert found.auc == pytest.approx(5 / 6, abs=0.01)


@pytest.mark.parametrize(("p", "right"), [([], []), ([0.5], [True, True]), ([1.1], [True])])
def test_what_cannot_be_binned_is_refused(p, right):
    with pytest.raises(ValueError, match=r"may be 0|lie in"):
        reliability_table(np.array(p), np.array(right, bool))


def test_not_a_number_is_no_probability():
    with pytest.raises(ValueError, match="lie in"):
        measure_reliability(np.array([0.5, np.nan]), np.array([True, True]))


def bank(*rows: tuple[int, str, str], name: str = "f"):
    """One sentence, a word a row of head, relation and MISC."""
    lines = [f"{m}\tw\t_\t_\t_\t_\t{h}\t{r}\t_\t{misc}" for m, (h, r, misc) in enumerate(rows, 1)]
    return treebank_from_bytes("\n".join([*lines, "", ""]).encode(), name)


def test_probabilities_are_found_among_other_items():
    treebank = bank(
        (0, "a", "HeadProb=0.25|LabelProb=1"),
        (1, "a", "SpaceAfter=No|LabelProb=0.5|HeadProb=1.0000"),
        (1, "a", "MyHeadProb=0.3|HeadProbs=0.4"),
        (1, "a", "_"),
        (1, "a", "HeadProb=1e-05|X=HeadProb=7"),
    )
    np.testing.assert_array_equal(
        misc_probabilities(treebank, HEAD), [0.25, 1.0, np.nan, np.nan, 1e-5]
    )
    np.testing.assert_array_equal(
        misc_probabilities(treebank, LABEL), [1.0, 0.5, np.nan, np.nan, np.nan]
    )


@pytest.mark.parametrize(
    "misc",
    ["1.01", "-0.1", "nan", "", "0,5", " 0.5", "inf", "1e9", "\u0660", "0.5|HeadProb=0.5"],
)
def test_what_is_no_probability_is_refused(misc):
    treebank = bank((0, "a", "_"), (1, "a", f"HeadProb={misc}"))
    with pytest.raises(DataError, match=r"^f:2: HeadProb in MISC \(column 10\) is '.*from 0 to 1"):
        misc_probabilities(treebank, HEAD)


def test_two_files():
    gold = bank((0, "root", "_"), (1, "a", "_"), (1, "b:c", "_"), (3, "d", "_"), (1, "e", "_"))
    system = bank(
        (0, "root", "HeadProb=0.9|LabelProb=0.8"),
        (1, "x", "HeadProb=0.7|LabelProb=0.6"),
        (2, "b:c", "HeadProb=0.4|LabelProb=0.5"),
        (3, "d", "HeadProb=0.3"),
        (1, "e", "LabelProb=0.1"),
    )
    found = measure_reliability_of_treebanks(gold, system)
    assert list(found) == ["heads", "relations", "both"]
    assert found["heads"] == measure_reliability(
        np.array([0.9, 0.7, 0.4, 0.3]), np.array([1, 1, 0, 1], bool)
    )
    assert found["relations"] == measure_reliability(np.array([0.8, 0.6]), np.array([1, 0], bool))
    assert found["both"] == measure_reliability(
        np.array([0.9 * 0.8, 0.7 * 0.6, 0.4 * 0.5]), np.array([1, 0, 0], bool)
    )
    ignored = np.array([False, True, True, True, True])
    left = measure_reliability_of_treebanks(gold, system, ignored=ignored)
    assert {name: part.count for name, part in left.items()} == {
        "heads": 1,
        "relations": 1,
        "both": 1,
    }


def test_files_with_head_probabilities_alone():
    gold = bank((0, "root", "_"), (1, "a", "_"))
    system = bank((0, "x", "HeadProb=0.5"), (1, "y", "HeadProb=0.5"))
    assert list(measure_reliability_of_treebanks(gold, system)) == ["heads"]
