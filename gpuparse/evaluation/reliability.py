"""Reliability of the probabilities in MISC of a parsed file: reading and measures."""

import re
from dataclasses import dataclass

import numpy as np

from gpuparse.data.columns import MISC
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.errors import DataError
from gpuparse.limits import LEAST_PROBABILITY

HEAD, LABEL, TAG = "HeadProb", "LabelProb", "TagProb"
# Of gold trees; GOLD_ARC is the head and relation that the other two are of, as in 2:nsubj.
GOLD_HEAD, GOLD_LABEL, GOLD_ARC = "GoldHeadProb", "GoldLabelProb", "GoldArc"

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE]-?[0-9]+)?")

LEAST_CERTAIN = (1, 5, 10, 20)  # percent of the words
BINS = 10  # of reliability tables, of equal width


def misc_probabilities(treebank: Treebank, key: str) -> np.ndarray:
    """Read one probability per word from MISC, as in `HeadProb=0.9871|LabelProb=0.9990`.

    Args:
        treebank: a parsed file.
        key: HEAD, the probability of the arc to the word's head; or LABEL, that of the word's
            relation, the head being given.
    Returns: (W,) float64 in 0..1; NaN where the word has no such key.
    Raises: DataError: a value that is no number from 0 to 1, or a key that a word has twice.
    Cost: O(W), some microseconds per word.
    """
    item = re.compile(rf"(?:^|\|){re.escape(key)}=([^|]*)")
    found = np.full(treebank.n_words, np.nan)
    for w in range(treebank.n_words):
        values = item.findall(treebank.column(w, MISC))
        if not values:
            continue
        if len(values) > 1 or not _NUMBER.fullmatch(values[0]) or float(values[0]) > 1.0:
            said = f"{key} in MISC (column 10) is " + " and ".join(map(repr, values))
            raise DataError(f"{word_place(treebank, w)}{said}; expected one number from 0 to 1")
        found[w] = float(values[0])
    return found


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


def measure_reliability(probabilities: np.ndarray, right: np.ndarray) -> Reliability:
    """Compare the probabilities of decisions with the share of correct decisions.

    docs/evaluating.md defines the measures. `log_loss` clips probabilities at LEAST_PROBABILITY
    from 0 and 1; in `auc`, None if all decisions are correct or all are wrong, a tie counts half;
    `errors_found` has a share for each percentage in LEAST_CERTAIN, None without errors.

    Args:
        probabilities: (K,) in 0..1.
        right: (K,) bool.
    Returns: The measures, all as shares in 0..1.
    Raises: ValueError: no probabilities, or some outside 0..1, or arrays that do not fit together.
    Cost: O(K log K).
    Source: Naeini, Cooper & Hauskrecht (2015), AAAI, for ece; Brier (1950), for two outcomes.
    """
    table = reliability_table(probabilities, right)
    least = LEAST_PROBABILITY
    clipped = np.clip(np.where(right, probabilities, 1.0 - probabilities), least, 1.0 - least)
    return Reliability(
        count=len(probabilities),
        mean=float(np.mean(probabilities)),
        right=float(np.mean(right)),
        bins=tuple(table),
        ece=sum(row.count * abs(row.mean - row.right) for row in table) / len(probabilities),
        brier=float(np.mean((probabilities - right) ** 2)),
        log_loss=float(np.mean(-np.log(clipped))),
        auc=area_under_curve(probabilities, right),
        errors_found={
            percent: errors_among_least_certain(probabilities, right, percent / 100)
            for percent in LEAST_CERTAIN
        },
    )


def reliability_table(probabilities: np.ndarray, right: np.ndarray) -> list[Bin]:
    """The bins that are not empty, ascending.

    Bin k holds k/BINS <= p < (k+1)/BINS, the last bin also 1.

    Args, raises: those of `measure_reliability`.
    """
    n = len(probabilities)
    if not n or len(right) != n:
        raise ValueError(f"{n} probabilities and {len(right)} outcomes; none may be 0")
    if not ((probabilities >= 0.0) & (probabilities <= 1.0)).all():
        raise ValueError("probabilities must lie in 0..1")
    bounds = np.arange(BINS + 1) / BINS
    place = np.minimum(np.searchsorted(bounds, probabilities, side="right"), BINS) - 1
    table = []
    for k in np.unique(place).tolist():
        inside = place == k
        values = probabilities[inside]
        table.append(
            Bin(
                least=float(bounds[k]),
                most=float(bounds[k + 1]),
                count=len(values),
                mean=float(values.mean()),
                right=float(right[inside].mean()),
            )
        )
    return table


def area_under_curve(probabilities: np.ndarray, right: np.ndarray) -> float | None:
    """The area under the receiver operating characteristic of correct against wrong decisions."""
    good, bad = probabilities[right], np.sort(probabilities[~right])
    if not len(good) or not len(bad):
        return None
    below = np.searchsorted(bad, good, side="left").sum()
    not_above = np.searchsorted(bad, good, side="right").sum()
    return float(below + not_above) / (2.0 * len(good) * len(bad))


def errors_among_least_certain(
    probabilities: np.ndarray, right: np.ndarray, share: float
) -> float | None:
    """The share of all errors that are among a share of the decisions, the least certain ones.

    If it cuts a group of equal probabilities, the errors of the group are counted in proportion.
    """
    _, group = np.unique(probabilities, return_inverse=True)
    counts = np.cumsum(np.bincount(group))
    errors = np.cumsum(np.bincount(group, weights=~right))
    if not len(errors) or not errors[-1]:
        return None
    inside = np.interp(share * len(right), np.append(0, counts), np.append(0.0, errors))
    return float(inside / errors[-1])
