"""How reliable probabilities are, and how well low probabilities find errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Half of the last digit of a probability with four decimals: 1.0000 may mean 1 - LEAST, so the
# log loss of an error at 1.0000 is -ln(LEAST), not infinite.
LEAST = 0.00005
LEAST_CERTAIN = (1, 5, 10, 20)  # percent of the words


@dataclass(frozen=True)
class Bin:
    """Words whose probabilities lie between `least` and `most`.

    mean: their mean probability. right: the share of correct words.
    """

    least: float
    most: float
    count: int
    mean: float
    right: float


@dataclass(frozen=True)
class Reliability:
    """The measures of one set of probabilities; `measure_reliability` defines them."""

    count: int
    mean: float
    right: float
    bins: tuple[Bin, ...]
    ece: float
    brier: float
    log_loss: float
    auc: float | None
    errors_found: dict[int, float | None]


def measure_reliability(
    probabilities: np.ndarray, right: np.ndarray, *, bins: int = 10, equal_counts: bool = False
) -> Reliability:
    """Compare the probabilities of decisions with the share of correct decisions.

    - `mean`, `right`: the mean probability, and the share of correct decisions.
    - `bins`: the reliability table; `ece`: the expected calibration error, the mean over the bins,
      weighted by their counts, of the distance between mean probability and share correct.
    - `brier`: mean squared distance between the probability and 1 (correct) or 0 (wrong).
    - `log_loss`: mean of -ln of the probability of the outcome, with probabilities clipped to
      LEAST .. 1 - LEAST.
    - `auc`: the probability that a correct decision has a higher probability than a wrong one; a
      tie counts half. None if all decisions are correct or all are wrong.
    - `errors_found`: for each percentage in LEAST_CERTAIN, the share of all errors among that
      percentage of the decisions with the lowest probabilities; None if there are no errors.

    Args:
        probabilities: (K,) in 0..1.
        right: (K,) bool.
        bins: number of bins, at least 1; see `reliability_table`.
        equal_counts: whether bins have about equal counts instead of equal width.
    Returns:
        The measures, all as shares in 0..1.
    Raises:
        ValueError: no probabilities, or some outside 0..1, or arrays that do not fit together.
    Cost: O(K log K).
    Source: Naeini, Cooper & Hauskrecht (2015), AAAI, for ece; Brier (1950), for two outcomes.
    """
    table = reliability_table(probabilities, right, bins, equal_counts=equal_counts)
    clipped = np.clip(np.where(right, probabilities, 1.0 - probabilities), LEAST, 1.0 - LEAST)
    return Reliability(
        count=len(probabilities),
        mean=float(np.mean(probabilities)),
        right=float(np.mean(right)),
        bins=tuple(table),
        ece=expected_calibration_error(table),
        brier=float(np.mean((probabilities - right) ** 2)),
        log_loss=float(np.mean(-np.log(clipped))),
        auc=area_under_curve(probabilities, right),
        errors_found={
            percent: errors_among_least_certain(probabilities, right, percent / 100)
            for percent in LEAST_CERTAIN
        },
    )


def reliability_table(
    probabilities: np.ndarray, right: np.ndarray, bins: int, *, equal_counts: bool = False
) -> list[Bin]:
    """The reliability table: the share of correct decisions in each bin of probabilities.

    Args:
        probabilities: (K,) in 0..1.
        right: (K,) bool.
        bins: number of bins. Bin k of equal width holds k/bins <= p < (k+1)/bins, the last bin
            also 1.
        equal_counts: whether bins have about equal counts instead. Equal probabilities share a
            bin, so there may be fewer bins.
    Returns:
        The bins that are not empty, ascending.
    Raises:
        ValueError: no probabilities, or some outside 0..1, or arrays that do not fit together.
    Cost: O(K log K).
    """
    n = len(probabilities)
    if not n or len(right) != n or bins < 1:
        raise ValueError(f"{n} probabilities, {len(right)} outcomes and {bins} bins; none may be 0")
    if not ((probabilities >= 0.0) & (probabilities <= 1.0)).all():
        raise ValueError("probabilities must lie in 0..1")
    bounds = np.arange(bins + 1) / bins
    if equal_counts:
        ordered = np.sort(probabilities)
        place = np.searchsorted(ordered, probabilities, side="left") * bins // n
    else:
        place = np.minimum(np.searchsorted(bounds, probabilities, side="right"), bins) - 1
    table = []
    for k in np.unique(place).tolist():
        inside = place == k
        values = probabilities[inside]
        ends = (values.min(), values.max()) if equal_counts else (bounds[k], bounds[k + 1])
        table.append(
            Bin(
                least=float(ends[0]),
                most=float(ends[1]),
                count=len(values),
                mean=float(values.mean()),
                right=float(right[inside].mean()),
            )
        )
    return table


def expected_calibration_error(table: Sequence[Bin]) -> float:
    """Mean distance between mean probability and share correct of a bin, weighted by its count.

    Args:
        table: of `reliability_table`.
    Returns:
        The error, 0..1.
    Raises:
        ValueError: no bins.
    """
    count = sum(row.count for row in table)
    if not count:
        raise ValueError("a table without counts has no error")
    return sum(row.count * abs(row.mean - row.right) for row in table) / count


def area_under_curve(probabilities: np.ndarray, right: np.ndarray) -> float | None:
    """The area under the receiver operating characteristic of correct against wrong decisions.

    Args:
        probabilities: (K,).
        right: (K,) bool.
    Returns:
        The probability that a correct decision has a higher probability than a wrong one, ties
        counting half: 0.5 for uninformative probabilities; None if all are correct or all wrong.
    Cost: O(K log K).
    """
    good, bad = probabilities[right], np.sort(probabilities[~right])
    if not len(good) or not len(bad):
        return None
    below = np.searchsorted(bad, good, side="left").sum()
    not_above = np.searchsorted(bad, good, side="right").sum()
    return float(below + not_above) / (2.0 * len(good) * len(bad))


def errors_among_least_certain(
    probabilities: np.ndarray, right: np.ndarray, share: float
) -> float | None:
    """The share of all errors that are among the decisions with the lowest probabilities.

    Args:
        probabilities: (K,).
        right: (K,) bool.
        share: share of the decisions, 0..1. If it cuts a group of equal probabilities, the errors
            of the group are counted in proportion.
    Returns:
        0..1; None if nothing is wrong.
    Cost: O(K log K).
    """
    _, group = np.unique(probabilities, return_inverse=True)
    counts = np.cumsum(np.bincount(group))
    errors = np.cumsum(np.bincount(group, weights=~right))
    if not len(errors) or not errors[-1]:
        return None
    inside = np.interp(share * len(right), np.append(0, counts), np.append(0.0, errors))
    return float(inside / errors[-1])
