"""Charts of lines: round marks that cover all values, and points inside."""

import math
import re
from xml.etree import ElementTree

import pytest

from gpuparse.lab.line_charts import HEIGHT, WIDTH, Axis, ChartLine, line_chart

VALUES = [[91.2026], [0.0, 1.0], [50, 99.99], [95.0, 95.01], [0, 1e-9], [3, 4, 1e8], [-5, 5]]


@pytest.mark.parametrize("values", VALUES, ids=str)
def test_marks_are_few_and_round_and_cover_the_values(values):
    axis = Axis.over("percent", values)
    assert axis.least <= min(values)
    assert max(values) <= axis.most
    assert 2 <= len(axis.ticks) <= 8
    steps = {round(b - a, 6) for a, b in zip(axis.ticks, axis.ticks[1:], strict=False)}
    assert len(steps) == 1
    digits = f"{steps.pop():.6e}".partition("e")[0]
    assert float(digits) in (1, 2, 5)
    assert all(0 <= axis.share(value) <= 1 for value in values)


@pytest.mark.parametrize("last", [1, 2, 5, 10, 30, 500])
def test_marks_of_epochs_are_whole_numbers(last):
    axis = Axis.over("epoch", [1.0, float(last)], is_whole=True)
    assert all(tick == int(tick) and 1 <= tick <= last for tick in axis.ticks)
    assert 1 <= len(axis.ticks) <= 8
    assert axis.least < axis.most


def test_points_are_inside_and_names_are_escaped():
    lines = [ChartLine("<a>", [(1, 10), (2, 20)], 0), ChartLine("b", [(1, 15), (2, 12)], 1, True)]
    x, y = Axis.over("epoch", [1, 2], is_whole=True), Axis.over("percent", [10, 20])
    picture = line_chart(lines, x, y, has_diagonal=True)
    root = ElementTree.fromstring(picture)
    circles = [each for each in root.iter() if each.tag.endswith("circle")]
    assert len(circles) == 4
    for circle in circles:
        assert 0 < float(circle.get("cx")) < WIDTH
        assert 0 < float(circle.get("cy")) < HEIGHT
    heights = [float(circle.get("cy")) for circle in circles]
    assert heights[1] < heights[2] < heights[3] < heights[0]
    assert len(re.findall("stroke-dasharray", picture)) == 2
    assert "&lt;a&gt;" in picture
    assert not math.isnan(sum(heights))
