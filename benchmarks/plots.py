"""A plot as SVG: accuracy of models against speed."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

WIDTH, HEIGHT = 4.6, 3.6  # inches, before the factors of the figure
MARK = 6.0  # pixels, half the width of a mark and the space around it

Box = tuple[float, float, float, float]  # left, bottom, right, top in pixels


def can_plot() -> bool:
    """True if matplotlib is installed; it is imported to draw, and not before."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_accuracy(marks: dict[str, list[tuple[str, float, float]]], path: Path) -> None:
    """Draw the LAS of models against their speed, one labelled mark a model.

    Args:
        marks: parser -> its models: name, words per second, LAS in percent.
        path: the SVG file to write.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    figure = Figure(figsize=(1.6 * WIDTH, 1.3 * HEIGHT))
    FigureCanvasAgg(figure)  # measures text
    axes = figure.add_subplot()
    points = [point for models in marks.values() for point in models]
    for (parser, models), shape in zip(marks.items(), "osD^", strict=False):
        _, speeds, scores = zip(*models, strict=True)
        axes.plot(speeds, scores, linestyle="", marker=shape, markersize=7, label=parser)
    axes.set_xscale("log")
    axes.margins(0.2, 0.12)
    axes.set_xlabel("words per second, file to file (log scale)")
    axes.set_ylabel("LAS, percent")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda speed, _: f"{speed:,.0f}"))
    axes.xaxis.set_minor_formatter("")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    legend = axes.legend(fontsize=9)
    figure.tight_layout()
    # Positions in fractions of the figure, which is saved with another number of pixels.
    texts = [figure.text(0, 0, name, fontsize=9) for name, _, _ in points]
    sizes = [(box.width, box.height) for box in (text.get_window_extent() for text in texts)]
    centres = axes.transData.transform([(speed, score) for _, speed, score in points])
    taken = tuple(legend.get_window_extent().extents)
    places = label_boxes([tuple(each) for each in centres], sizes, axes.bbox.extents, [taken])
    for text, (left, bottom, _, _) in zip(texts, places, strict=True):
        text.set_position((left / figure.bbox.width, bottom / figure.bbox.height))
        text.set_verticalalignment("bottom")
    # The same bytes for the same figures.
    with rc_context({"svg.hashsalt": "gpuparse", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def label_boxes(
    centres: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    frame: Box,
    taken: Sequence[Box] = (),
) -> list[Box]:
    """Places for the labels of marks: near them, within the frame, and none over another thing.

    A label goes to the nearest free place of several around its mark. One that finds none goes
    over the least.

    Args:
        centres: of the marks, in pixels.
        sizes: width and height of the labels, in pixels.
        frame: what they must not leave.
        taken: what they must not cover, beside the marks and each other.
    Returns:
        One box a label.
    """
    fixed = [*taken, *((x - MARK, y - MARK, x + MARK, y + MARK) for x, y in centres)]
    boxes: list[Box] = []
    for (x, y), (width, height) in zip(centres, sizes, strict=True):
        around = []
        for far in (MARK + 2, 2.5 * MARK, 4 * MARK, 6 * MARK):
            lefts = (x + far, x - far - width, x - width / 2)
            bottoms = (y - height / 2, y + far, y - far - height)
            # Beside the mark, above or below it, then the corners.
            order = ((0, 0), (1, 0), (2, 1), (2, 2), (0, 1), (0, 2), (1, 1), (1, 2))
            around += [
                (lefts[k], bottoms[r], lefts[k] + width, bottoms[r] + height) for k, r in order
            ]
        boxes.append(min(around, key=lambda box: _covered(box, [*fixed, *boxes], frame)))
    return boxes


def _covered(box: Box, others: Sequence[Box], frame: Box) -> float:
    """Area of a box that lies over others, or outside the frame; a little space is kept."""
    left, bottom, right, top = box[0] - 2, box[1] - 1, box[2] + 2, box[3] + 1

    def shared(other: Box) -> float:
        width = min(right, other[2]) - max(left, other[0])
        height = min(top, other[3]) - max(bottom, other[1])
        return max(0.0, width) * max(0.0, height)

    outside = (right - left) * (top - bottom) - shared(frame)
    return outside + sum(map(shared, others))
