"""Reliability diagrams as SVG: share correct over mean probability, with the counts of words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from gpuparse.evaluation.reliability import Bin, Reliability

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


def reliability_svg(panels: Mapping[str, Reliability]) -> str:
    """Draw reliability tables side by side.

    One point per bin: the share correct over the mean probability, with the 95 % Wilson interval of
    the share as a vertical line. Calibrated probabilities lie on the dashed diagonal; below it they
    are overconfident. The bars below show the share of all words in each bin.

    Args:
        panels: title and measures of each.
    Returns:
        An SVG document; the same bytes for the same measures.
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
    middle, bottom = _SIDE / 2, _SIDE + _BETWEEN + _STRIP
    said = f"{found.count:,} words, ECE {100 * found.ece:.2f} %"
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
    Returns:
        Its two ends.
    Source: Wilson (1927), JASA 22(158).
    """
    z = 1.959964
    middle = share + z * z / (2 * count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - reach) / (1 + z * z / count), (middle + reach) / (1 + z * z / count)
