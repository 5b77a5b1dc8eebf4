"""Reliability of the probabilities in MISC of a parsed file: reading, measures, and a diagram."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.data.columns import MISC
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.errors import DataError, plural

HEAD, LABEL, TAG = "HeadProb", "LabelProb", "TagProb"
# Of gold trees; GOLD_ARC is the head and relation that the other two are of, as in 2:nsubj.
GOLD_HEAD, GOLD_LABEL, GOLD_ARC = "GoldHeadProb", "GoldLabelProb", "GoldArc"

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE]-?[0-9]+)?")

# Half of the last digit of a probability with four decimals: 1.0000 may mean 1 - LEAST, so the
# log loss of an error at 1.0000 is -ln(LEAST), not infinite.
LEAST = 0.00005
LEAST_CERTAIN = (1, 5, 10, 20)  # percent of the words
_SIDE, _STRIP = 240, 48  # pixels: the square of a panel, the counts below it
_LEFT, _TOP, _BETWEEN, _BOTTOM = 52, 48, 12, 44
_STYLE = """text { font: 12px sans-serif; fill: #333 }
.title { font-weight: bold; font-size: 13px }
.frame { fill: none; stroke: #999 }
.grid { stroke: #e4e4e4 }
.ideal { stroke: #999; stroke-dasharray: 4 4 }
.line { fill: none; stroke: #1f6fb4; stroke-width: 1.5 }
.interval { stroke: #1f6fb4; stroke-opacity: .5; stroke-width: 1.5 }
.point { fill: #1f6fb4 }
.count { fill: #a9cbe6 }
.middle { text-anchor: middle } .end { text-anchor: end }"""


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
    Returns: The measures, all as shares in 0..1.
    Raises: ValueError: no probabilities, or some outside 0..1, or arrays that do not fit together.
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
    Returns: The bins that are not empty, ascending.
    Raises: ValueError: no probabilities, or some outside 0..1, or arrays that do not fit together.
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

    Args: table: of `reliability_table`.
    Returns: The error, 0..1.
    Raises: ValueError: no bins.
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
    Returns: The probability that a correct decision has a higher probability than a wrong one, ties
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
    Returns: 0..1; None if nothing is wrong.
    Cost: O(K log K).
    """
    _, group = np.unique(probabilities, return_inverse=True)
    counts = np.cumsum(np.bincount(group))
    errors = np.cumsum(np.bincount(group, weights=~right))
    if not len(errors) or not errors[-1]:
        return None
    inside = np.interp(share * len(right), np.append(0, counts), np.append(0.0, errors))
    return float(inside / errors[-1])


def reliability_svg(panels: Mapping[str, Reliability]) -> str:
    """Draw reliability tables side by side.

    One point per bin: the share correct over the mean probability, with the 95 % Wilson interval of
    the share as a vertical line. Calibrated probabilities lie on the dashed diagonal; below it they
    are overconfident. The bars below show the share of all words in each bin.

    Args: panels: title and measures of each.
    Returns: An SVG document; the same bytes for the same measures.
    """
    width = len(panels) * (_LEFT + _SIDE) + 20
    height = _TOP + _SIDE + _BETWEEN + _STRIP + _BOTTOM
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{_STYLE}</style>"]
    lines.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for k, (title, found) in enumerate(panels.items()):
        lines.append(f'<g transform="translate({_LEFT + k * (_LEFT + _SIDE)},{_TOP})">')
        lines += [*_frame(title, found), *_points(found.bins), *_counts(found.bins), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _frame(title: str, found: Reliability) -> list[str]:
    from html import escape  # slow to import, and parsing does not need it

    middle, bottom = _SIDE / 2, _SIDE + _BETWEEN + _STRIP
    said = f"{plural(found.count, 'word')}, ECE {100 * found.ece:.2f} %"
    lines = [
        f'<text class="title middle" x="{middle}" y="-26">{escape(title)}</text>',
        f'<text class="middle" x="{middle}" y="-9">{said}</text>',
    ]
    for tenth in range(0, 11, 2):
        x, y, label = _at(tenth / 10), _up(tenth / 10), f"{tenth / 10:.1f}"
        lines += [
            f'<path class="grid" d="M{x} 0V{_SIDE}M0 {y}H{_SIDE}"/>',
            f'<text class="middle" x="{x}" y="{bottom + 16}">{label}</text>',
            f'<text class="end" x="-7" y="{y + 4}">{label}</text>',
        ]
    return [
        *lines,
        f'<path class="ideal" d="M0 {_SIDE}L{_SIDE} 0"/>',
        f'<rect class="frame" width="{_SIDE}" height="{_SIDE}"/>',
        f'<text class="middle" x="{middle}" y="{bottom + 34}">mean probability</text>',
        f'<text class="middle" transform="translate(-36,{middle}) rotate(-90)">share right</text>',
    ]


def _points(bins: tuple[Bin, ...]) -> list[str]:
    places = [(_at(row.mean), _up(row.right)) for row in bins]
    lines = []
    for row, (x, _) in zip(bins, places, strict=True):
        low, high = wilson_interval(row.right, row.count)
        lines.append(f'<path class="interval" d="M{x} {_up(low)}V{_up(high)}"/>')
    joined = " ".join(f"{x},{y}" for x, y in places)
    lines.append(f'<polyline class="line" points="{joined}"/>')
    return lines + [f'<circle class="point" cx="{x}" cy="{y}" r="3.5"/>' for x, y in places]


def _counts(bins: tuple[Bin, ...]) -> list[str]:
    total, top = sum(row.count for row in bins), _SIDE + _BETWEEN
    lines = []
    for row in bins:
        left, height = _at(row.least), round(_STRIP * row.count / total, 2)
        wide = round(max(_at(row.most) - left - 1, 1), 2)
        y = round(top + _STRIP - height, 2)
        lines.append(f'<rect class="count" x="{left}" y="{y}" width="{wide}" height="{height}"/>')
    lines.append(f'<rect class="frame" y="{top}" width="{_SIDE}" height="{_STRIP}"/>')
    return [*lines, f'<text class="end" x="-7" y="{top + _STRIP / 2 + 4}">words</text>']


def _at(share: float) -> float:
    return round(_SIDE * share, 2)


def _up(share: float) -> float:
    return round(_SIDE * (1 - share), 2)


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share observed in `count` cases.

    Args:
        share: 0..1.
        count: 1 or more.
    Returns: Its two ends.
    Source: Wilson (1927), JASA 22(158).
    """
    z = 1.959964
    middle = share + z * z / (2 * count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - reach) / (1 + z * z / count), (middle + reach) / (1 + z * z / count)
