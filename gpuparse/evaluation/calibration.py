"""Do probabilities mean what they say, and do low ones find the errors?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Half of the last digit of probabilities with four decimals: one written as 1.0000 may be as low
# as 1 - LEAST, so an error there costs -ln(LEAST), not infinitely much.
LEAST = 0.00005
LEAST_CERTAIN = (1, 5, 10, 20)  # percent of the words


@dataclass(frozen=True)
class Bin:
    """Words whose probabilities lie between two bounds.

    mean: their mean probability. right: the share of them that is right.
    """

    least: float
    most: float
    count: int
    mean: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """Every measure of one set of probabilities; what each one says is told at `calibrate`."""

    count: int
    mean: float
    right: float
    bins: tuple[Bin, ...]
    ece: float
    brier: float
    log_loss: float
    auc: float | None
    errors_found: dict[int, float | None]


def calibrate(
    probabilities: np.ndarray, right: np.ndarray, *, bins: int = 10, equal_counts: bool = False
) -> Calibration:
    """Compare the probabilities of decisions with how many of the decisions are right.

    - `mean`, `right`: the share that should be right by the probabilities, and the share that is.
    - `bins`: the reliability table; `ece`: the expected calibration error, the distance between
      mean probability and share right, averaged over bins by their counts.
    - `brier`: mean square of the distance between the probability and 1 (right) or 0 (wrong).
    - `log_loss`: mean of -ln of the probability of what turned out; probabilities are taken to be
      no nearer to 0 and 1 than LEAST.
    - `auc`: the chance that a right decision has a higher probability than a wrong one, ties half;
      None where all are right or all wrong.
    - `errors_found`: per percentage in LEAST_CERTAIN, the share of all errors that lie among so
      many of the decisions with the lowest probabilities; None where there are no errors.

    Args:
        probabilities: (K,) in 0..1.
        right: (K,) bool.
        bins: how many, 1 or more; see `reliability`.
        equal_counts: bins of about equal counts, not of equal width.
    Returns:
        The measures, all as shares in 0..1.
    Raises:
        ValueError: no probabilities, or some outside 0..1, or arrays that do not fit together.
    Cost: O(K log K).
    Source: Naeini, Cooper & Hauskrecht (2015), AAAI, for ece; Brier (1950), for two outcomes.
    """
    table = reliability(probabilities, right, bins, equal_counts=equal_counts)
    clipped = np.clip(np.where(right, probabilities, 1.0 - probabilities), LEAST, 1.0 - LEAST)
    return Calibration(
        count=len(probabilities),
        mean=float(np.mean(probabilities)),
        right=float(np.mean(right)),
        bins=tuple(table),
        ece=expected_calibration_error(table),
        brier=float(np.mean((probabilities - right) ** 2)),
        log_loss=float(np.mean(-np.log(clipped))),
        auc=right_above_wrong(probabilities, right),
        errors_found={
            percent: errors_among_least_certain(probabilities, right, percent / 100)
            for percent in LEAST_CERTAIN
        },
    )


def reliability(
    probabilities: np.ndarray, right: np.ndarray, bins: int, *, equal_counts: bool = False
) -> list[Bin]:
    """The reliability table: per bin of probabilities, how many decisions are right.

    Args:
        probabilities: (K,) in 0..1.
        right: (K,) bool.
        bins: how many. Of equal width, bin k holds k/bins <= p < (k+1)/bins, the last one also 1.
        equal_counts: bins of about equal counts instead, from their least to their most
            probability; equal probabilities share a bin, so there may be fewer of them.
    Returns:
        The bins that hold anything, ascending.
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
    """Mean over all decisions of the distance, in their bin, of mean probability and share right.

    Args:
        table: of `reliability`.
    Returns:
        The error, 0..1.
    Raises:
        ValueError: no bins.
    """
    count = sum(row.count for row in table)
    if not count:
        raise ValueError("a table without counts has no error")
    return sum(row.count * abs(row.mean - row.right) for row in table) / count


def right_above_wrong(probabilities: np.ndarray, right: np.ndarray) -> float | None:
    """The area under the curve of right against wrong decisions: how well probabilities part them.

    Args:
        probabilities: (K,).
        right: (K,) bool.
    Returns:
        The chance that a right decision has a higher probability than a wrong one, ties counting
        half: 0.5 for probabilities that say nothing; None where all are right or all wrong.
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
    """The share of all errors that lie among the decisions with the lowest probabilities.

    Args:
        probabilities: (K,).
        right: (K,) bool.
        share: of the decisions, 0..1. Where it ends among equal probabilities, those inside are
            taken to have as many errors as their like have on average.
    Returns:
        0..1; None where nothing is wrong.
    Cost: O(K log K).
    """
    _, group = np.unique(probabilities, return_inverse=True)
    counts = np.cumsum(np.bincount(group))
    errors = np.cumsum(np.bincount(group, weights=~right))
    if not len(errors) or not errors[-1]:
        return None
    inside = np.interp(share * len(right), np.append(0, counts), np.append(0.0, errors))
    return float(inside / errors[-1])
