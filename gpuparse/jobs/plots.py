"""Plots by matplotlib, as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

from gpuparse.errors import require
from gpuparse.jobs.settings import SENTENCES, KeyValues, Setting

_SIDE = 4.5  # inches of a panel
_OTHER = "0.6"  # grey, of points that no line joins


@dataclass(frozen=True)
class Point:
    """A setting's mean score in percent and its standard deviation over folds, if there is one."""

    setting: Setting
    mean: float
    deviation: float | None


def check_plots() -> None:
    """MissingPackageError without matplotlib."""
    require("a plot", "matplotlib.figure", "matplotlib.backends.backend_svg")


def tuning_plot(axes: Sequence[KeyValues], points: Sequence[Point], title: str) -> bytes:
    """Draw scores over values, with a vertical line of one standard deviation up and down.

    With numbers of sentences there is one panel, whose lines are the combinations of the other
    keys. Otherwise each key has a panel with all settings, and a line joins the best at each value.
    Numbers of sentences and ranges are on a logarithmic scale; other values are in their order, at
    equal distances.

    Args: axes: the keys. points: the settings, with numbers for all sizes. title: above all panels.
    Returns: An SVG document.
    """
    import matplotlib
    from matplotlib.figure import Figure

    panels = axes[-1:] if axes[-1].name == SENTENCES else axes
    # Text stays text and is no formula; the same bytes for the same scores.
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "gpuparse", "text.parse_math": False}
    ):
        figure = Figure(figsize=(_SIDE * len(panels), _SIDE), layout="constrained")
        figure.suptitle(title, wrap=True)
        places = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        means, deviations = zip(*((p.mean, p.deviation or 0.0) for p in points), strict=True)
        for axis, place in zip(panels, places, strict=True):
            values = [point.setting[axis.name] for point in points]
            if axis.is_number:
                at = [float(value) for value in values]
                place.set_xscale("log")
            else:
                at = [float(axis.values.index(value)) for value in values]
                place.set_xticks(range(len(axis.values)), axis.values)
            if axis.name == SENTENCES:
                place.set_xticks(sorted(set(at)), sorted(set(values), key=float))
                place.minorticks_off()
            place.tick_params("x", rotation=40)
            place.set_xlabel(axis.name)
            lines = lines_of(axis, points)
            if axis.name != SENTENCES:
                place.errorbar(at, means, deviations, fmt="o", color=_OTHER)
            for name, chosen in lines.items():
                joined = sorted((at[i], means[i], deviations[i]) for i in chosen)
                place.errorbar(*zip(*joined, strict=True), fmt="o-", label=name)
            if any(lines):
                place.legend()
        file = BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def lines_of(axis: KeyValues, points: Sequence[Point]) -> dict[str, list[int]]:
    """The points that each line of a panel joins, by the line's name in the legend."""
    found: dict[str, dict[str, int]] = {}
    for i, point in enumerate(points):
        others = {} if axis.name != SENTENCES else dict(point.setting)
        others.pop(SENTENCES, None)
        name = " ".join(f"{key}={value}" for key, value in others.items())
        best, value = found.setdefault(name, {}), point.setting[axis.name]
        if value not in best or point.mean > points[best[value]].mean:
            best[value] = i
    return {name: list(best.values()) for name, best in found.items()}
