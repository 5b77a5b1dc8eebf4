"""Line charts as SVG, in the colours of the page around them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 230  # pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 40
_MOST_TICKS = 7
_SMALLEST = 0.1  # between two marks
_STEPS = (1, 2, 5)  # times a power of ten


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart: points (x, y); the number of its colour; whether it is dashed."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    is_dashed: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis: its text, its ends and its marks."""

    text: str
    least: float
    most: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, text: str, values: Sequence[float], *, is_whole: bool = False) -> "Axis":
        """The axis that shows all values, finite and at least one, with at most 7 marks.

        is_whole: whether marks are at whole numbers only.
        """
        least, most = min(values), max(values)
        smallest = 1.0 if is_whole else _SMALLEST
        step = _step(max((most - least) / (_MOST_TICKS - 1), smallest))
        first = math.floor(least / step)
        last = max(math.ceil(most / step), first + 1)
        ticks = tuple(round(step * k, 10) for k in range(first, last + 1))
        if is_whole:  # numbers of epochs: no room beside them
            ticks = tuple(tick for tick in ticks if least <= tick <= most)
            return cls(text, least - 0.5 * (least == most), most + 0.5 * (least == most), ticks)
        return cls(text, ticks[0], ticks[-1], ticks)

    def share(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        return (value - self.least) / (self.most - self.least)


def _step(least: float) -> float:
    """The smallest round number of at least `least`, which is above 0."""
    power = math.floor(math.log10(least))
    steps = [step * 10.0**at for at in (power, power + 1) for step in _STEPS]
    return next(step for step in steps if step > least * (1 - 1e-9))


def line_chart(lines: Sequence[ChartLine], x: Axis, y: Axis, *, has_diagonal: bool = False) -> str:
    """An `<svg>` element; line k has the colour of the CSS variable `--line-k` (k from 0).

    Args: has_diagonal: whether a dashed line leads from the lower left to the upper right corner.
    """
    shapes = [*_grid(x, y)]
    if has_diagonal:
        left, low, right, top = (*_at(x, y, (x.least, y.least)), *_at(x, y, (x.most, y.most)))
        shapes.append(
            f'<path d="M{left} {low}L{right} {top}" stroke="currentColor" stroke-opacity="0.5"'
            ' stroke-dasharray="3 4"/>'
        )
    for line in lines:
        places = [_at(x, y, point) for point in line.points]
        joined = " ".join(f"{across},{down}" for across, down in places)
        style = f'style="stroke:var(--line-{line.colour})"'
        dashes = ' stroke-dasharray="6 4"' if line.is_dashed else ""
        shapes.append(f'<polyline points="{joined}" fill="none" stroke-width="2"{dashes} {style}/>')
        for (across, down), (at, value) in zip(places, line.points, strict=True):
            shapes.append(
                f'<circle cx="{across}" cy="{down}" r="3" style="fill:var(--line-{line.colour})">'
                f"<title>{escape(line.name)}, {_number(at)}: {value:.4g}</title></circle>"
            )
    names = ", ".join(line.name for line in lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' width="{WIDTH}" font-size="12" fill="currentColor">'
        f"<title>{escape(names)}</title>{''.join(shapes)}</svg>"
    )


def _grid(x: Axis, y: Axis) -> list[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    shapes = []
    for tick in y.ticks:
        _, down = _at(x, y, (x.least, tick))
        shapes.append(
            f'<path d="M{_LEFT} {down}H{right}" stroke="currentColor" stroke-opacity="0.2"/>'
            f'<text x="{_LEFT - 6}" y="{down + 4}" text-anchor="end">{_number(tick)}</text>'
        )
    for tick in x.ticks:
        across, _ = _at(x, y, (tick, y.least))
        shapes.append(
            f'<path d="M{across} {bottom}v4" stroke="currentColor" stroke-opacity="0.6"/>'
            f'<text x="{across}" y="{bottom + 17}" text-anchor="middle">{_number(tick)}</text>'
        )
    middle, between = (_LEFT + right) / 2, (_TOP + bottom) / 2
    return [
        *shapes,
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x.text)}</text>',
        f'<text transform="translate(11,{between}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.text)}</text>",
    ]


def _at(x: Axis, y: Axis, point: tuple[float, float]) -> tuple[float, float]:
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    return (
        round(_LEFT + wide * x.share(point[0]), 1),
        round(_TOP + high * (1 - y.share(point[1])), 1),
    )


def _number(value: float) -> str:
    return f"{value:.6g}"
