"""Plots of the tables taken on a device, as SVG: time against n, and against batch size."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.on_device.contest import BATCH, BY, CALL, COLUMNS, FLOOR, ROOT, TASK, N
from benchmarks.registry import Report

CASES = ("kernels", "scoring")  # whose tables vary n and batch size
WIDTH, HEIGHT = 4.6, 3.6  # inches of a panel


def can_plot() -> bool:
    """Whether matplotlib is installed; it is imported to draw, and not before."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(report: Report, name: str, folder: Path) -> list[Path]:
    """Write NAME-by-n.svg and NAME-by-batch.svg for a report with the columns of a contest.

    Microseconds a sentence, one panel a task, one line for everyone timed, the floor dashed. Of
    sizes that were taken several times over, the most common one of the other kind is drawn.

    Args:
        report: the table.
        name: how the files begin.
        folder: where they go.
    Returns:
        The files; none of a table with other columns, or where there is nothing to join.
    """
    if report.columns != COLUMNS:
        return []
    written = []
    for axis, other, word in ((N, BATCH, "n"), (BATCH, N, "batch")):
        panels = _panels(report.rows, axis, other)
        if panels:
            path = folder / f"{name}-by-{word}.svg"
            _figure(panels, axis, path)
            written.append(path)
    return written


def _panels(rows: list[list[Any]], axis: int, other: int) -> dict[str, list[list[Any]]]:
    """Title -> rows that differ along the axis alone."""
    panels = {}
    for task, root in dict.fromkeys((row[TASK], row[ROOT]) for row in rows):
        mine = [row for row in rows if (row[TASK], row[ROOT]) == (task, root)]
        sizes = {fixed: {row[axis] for row in mine if row[other] == fixed} for fixed in
                 dict.fromkeys(row[other] for row in mine)}  # fmt: skip
        fixed = max(sizes, key=lambda size: len(sizes[size]))
        if len(sizes[fixed]) > 1:
            title = f"{task}, {root} root, {'batch' if axis == N else 'n ='} {fixed:,}"
            panels[title] = [row for row in mine if row[other] == fixed]
    return panels


def _figure(panels: dict[str, list[list[Any]]], axis: int, path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * lines), layout="constrained")
    FigureCanvasSVG(figure)
    for k, (title, rows) in enumerate(panels.items()):
        _panel(figure.add_subplot(lines, columns, k + 1), title, rows, axis)
    # The same bytes for the same figures.
    with rc_context({"svg.hashsalt": "gpuparse", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _panel(axes: Any, title: str, rows: list[list[Any]], axis: int) -> None:
    def line(column: int, chosen: Callable[[list[Any]], bool]) -> tuple[list[int], list[float]]:
        found = {row[axis]: row[column] / row[BATCH] for row in rows if chosen(row)}
        sizes = sorted(found)
        return sizes, [found[size] for size in sizes]

    for by in dict.fromkeys(row[BY] for row in rows):
        axes.plot(*line(CALL, lambda row, by=by: row[BY] == by), marker="o", label=by)
    axes.plot(*line(FLOOR, lambda row: True), linestyle="--", color="#999999", label="floor")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({row[axis] for row in rows})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("words a sentence" if axis == N else "sentences a batch")
    axes.set_ylabel("microseconds a sentence")
    axes.legend(fontsize=7)
