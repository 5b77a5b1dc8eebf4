"""Scores of settings over their values, as SVG: a learning curve, or a panel for each key."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from gpuparse.lab.line_charts import Axis
from gpuparse.lab.settings import SENTENCES, KeyValues, Setting

_SIDE, _LEFT, _TOP, _LINE = 300, 60, 44, 18  # pixels
_CHARACTER = 7  # pixels of width, about
_SLANT = 40  # degrees
_MARGIN = 0.08  # of a panel, left and right of the first and last value
_COLOURS = ("#1f6fb4", "#c8501e", "#2f8f4e", "#8a4fb0", "#b08a00", "#444444")
_OTHER = "#999999"  # points that no line joins
_STYLE = """text { font: 12px sans-serif; fill: #333 }
.title { font-weight: bold; font-size: 13px }
.frame { fill: none; stroke: #999 }
.grid { stroke: #e4e4e4 }
.line { fill: none; stroke-width: 1.5 }
.deviation { stroke-opacity: .5; stroke-width: 1.5 }
.middle { text-anchor: middle } .end { text-anchor: end }"""


@dataclass(frozen=True)
class Point:
    """A setting's mean score in percent and its standard deviation over folds, if there is one."""

    setting: Setting
    mean: float
    deviation: float | None


@dataclass(frozen=True)
class _Panel:
    """A key, where its values are, and lines that join indices of points, each with its title."""

    axis: KeyValues
    places: dict[str, float]
    lines: dict[str, list[int]]

    @property
    def labelled(self) -> dict[str, float]:
        """The values that have a label: all, or of many numbers those that do not overlap."""
        if not self.axis.is_number:
            return self.places
        found: dict[str, float] = {}
        end = float(-_SIDE)
        for value, x in sorted(self.places.items(), key=lambda item: item[1]):
            half = _CHARACTER * len(value) / 2
            if x - half > end:
                found[value], end = x, x + half + _CHARACTER
        return found

    @property
    def is_slanted(self) -> bool:
        """Whether the labels would overlap, or leave the panel's space, if they were level."""
        ordered = sorted(self.labelled.items(), key=lambda item: item[1])
        return any(
            _CHARACTER * len(value) / 2 > min(x, _SIDE - x) + _LEFT / 2 for value, x in ordered
        ) or any(
            x + _CHARACTER * (len(value) + len(other)) / 2 > right
            for (value, x), (other, right) in pairwise(ordered)
        )

    @property
    def label_height(self) -> float:
        """Pixels from the frame to the end of the labels."""
        if not self.is_slanted:
            return 20
        return 20 + math.sin(math.radians(_SLANT)) * _CHARACTER * max(map(len, self.labelled))


def tuning_svg(axes: Sequence[KeyValues], points: Sequence[Point], title: str) -> str:
    """Draw scores over values, with a vertical line of one standard deviation up and down.

    With numbers of sentences there is one panel, whose lines are the combinations of the other
    keys. Otherwise each key has a panel with all settings, and a line joins the best at each value.
    Numbers of sentences and ranges are on a logarithmic scale; other values are in their order, at
    equal distances.

    Args: axes: the keys. points: the settings, with numbers for all sizes. title: above all panels.
    Returns: An SVG document; the same bytes for the same scores.
    """
    panels = _panels(axes, points)
    titles = [text for panel in panels for text in panel.lines if text]
    below = max(panel.label_height for panel in panels) + 40
    width = max(len(panels) * (_LEFT + _SIDE) + 20, 2 * _LEFT + _CHARACTER * len(title))
    height = round(_TOP + _SIDE + below + _LINE * len(titles))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{_STYLE}</style>"]
    lines.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    lines.append(f'<text class="title" x="{_LEFT}" y="20">{escape(title)}</text>')
    reach = [(point.mean, point.deviation or 0.0) for point in points]
    scale = Axis.over("", [m + d for m, of in reach for d in (-of, of)])
    for k, panel in enumerate(panels):
        lines.append(f'<g transform="translate({_LEFT + k * (_LEFT + _SIDE)},{_TOP})">')
        lines += [*_frame(panel, scale), *_curves(panel, points, scale), "</g>"]
    for k, text in enumerate(titles):
        y = round(_TOP + _SIDE + below + _LINE * k)
        lines.append(f'<path class="line" stroke="{_colour(k)}" d="M{_LEFT} {y - 4}h24"/>')
        lines.append(f'<text x="{_LEFT + 32}" y="{y}">{escape(text)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _up(scale: Axis, score: float) -> float:
    """Pixels from the top of a panel."""
    return round(_SIDE * (1 - scale.share(score)), 2)


def _panels(axes: Sequence[KeyValues], points: Sequence[Point]) -> list[_Panel]:
    [*others, last] = axes
    values = {axis.name: [point.setting[axis.name] for point in points] for axis in axes}
    if last.name == SENTENCES:
        lines: dict[str, list[int]] = {}
        for i in range(len(points)):
            text = " ".join(f"{axis.name}={values[axis.name][i]}" for axis in others)
            lines.setdefault(text, []).append(i)
        return [_Panel(last, _places(last, values[SENTENCES]), lines)]
    panels = []
    for axis in axes:
        best: dict[str, int] = {}
        for i, value in enumerate(values[axis.name]):
            if value not in best or points[i].mean > points[best[value]].mean:
                best[value] = i
        panels.append(_Panel(axis, _places(axis, values[axis.name]), {"": list(best.values())}))
    return panels


def _places(axis: KeyValues, values: Sequence[str]) -> dict[str, float]:
    """Where each value is, in pixels from the left of the panel."""
    if axis.is_number:
        at = {value: math.log(float(value)) for value in values}
    else:
        at = {value: float(axis.values.index(value)) for value in values}
    first, last = min(at.values()), max(at.values())
    room = _SIDE * (1 - 2 * _MARGIN)
    if first == last:
        return dict.fromkeys(at, _SIDE / 2)
    return {
        value: round(_SIDE * _MARGIN + room * (place - first) / (last - first), 2)
        for value, place in at.items()
    }


def _frame(panel: _Panel, scale: Axis) -> list[str]:
    lines = []
    for tick in scale.ticks:
        y = _up(scale, tick)
        lines += [
            f'<path class="grid" d="M0 {y}H{_SIDE}"/>',
            f'<text class="end" x="-7" y="{y + 4}">{tick:g}</text>',
        ]
    for value, x in panel.labelled.items():
        lines.append(f'<path class="grid" d="M{x} 0V{_SIDE}"/>')
        if panel.is_slanted:
            where = f'class="end" transform="translate({x},{_SIDE + 14}) rotate({-_SLANT})"'
        else:
            where = f'class="middle" x="{x}" y="{_SIDE + 16}"'
        lines.append(f"<text {where}>{escape(value)}</text>")
    y = round(_SIDE + panel.label_height + 18)
    return [
        *lines,
        f'<rect class="frame" width="{_SIDE}" height="{_SIDE}"/>',
        f'<text class="middle" x="{_SIDE / 2}" y="{y}">{escape(panel.axis.name)}</text>',
    ]


def _curves(panel: _Panel, points: Sequence[Point], scale: Axis) -> list[str]:
    lines, colours = [], dict[int, str]()
    for k, chosen in enumerate(panel.lines.values()):
        colours |= dict.fromkeys(chosen, _colour(k))
        joined = sorted(
            (panel.places[points[i].setting[panel.axis.name]], _up(scale, points[i].mean))
            for i in chosen
        )
        text = " ".join(f"{x},{y}" for x, y in joined)
        lines.append(f'<polyline class="line" stroke="{_colour(k)}" points="{text}"/>')
    for i, point in enumerate(points):
        x, y = panel.places[point.setting[panel.axis.name]], _up(scale, point.mean)
        colour = colours.get(i, _OTHER)
        if point.deviation is not None:
            ends = [_up(scale, point.mean + sign * point.deviation) for sign in (-1, 1)]
            lines.append(
                f'<path class="deviation" stroke="{colour}" d="M{x} {ends[0]}V{ends[1]}"/>'
            )
        lines.append(f'<circle fill="{colour}" cx="{x}" cy="{y}" r="3.5"/>')
    return lines


def _colour(k: int) -> str:
    return _COLOURS[k % len(_COLOURS)]
