"""The geometry of laid out pictures: boxes of texts, and lines."""

from gpuparse.data.arc_layout import ArcLine, Layout, Text


def box(text: Text) -> tuple[float, float, float, float, str]:
    """Left, top, right, bottom; and the text."""
    half = text.width / 2
    top, bottom = text.y - 0.8 * text.size, text.y + 0.22 * text.size
    return text.x - half, top, text.x + half, bottom, text.text


def overlaps(layout: Layout) -> list[tuple[str, str]]:
    """Pairs of texts that lie over each other, and texts outside of the picture."""
    boxes = sorted(map(box, layout.texts))
    found = [
        (text, "outside") for left, top, right, bottom, text in boxes
        if left < 0 or top < 0 or right > layout.width or bottom > layout.height
    ]  # fmt: skip
    for k, one in enumerate(boxes):
        for two in boxes[k + 1 :]:
            if two[0] >= one[2]:
                break
            if one[1] < two[3] and two[1] < one[3]:
                found.append((one[4], two[4]))
    return found


def crossed(layout: Layout) -> list[str]:
    """Relations through which the line of an arc passes."""
    lines = [each for line in layout.lines for each in _straight(line)]
    return [
        text
        for left, top, right, bottom, text in (
            box(line.label) for line in layout.lines if line.label
        )
        if any(a < right and left < b and low < bottom and top < high for a, low, b, high in lines)
    ]


def _straight(line: ArcLine) -> list[tuple[float, float, float, float]]:
    """The straight parts of an arc: left, top, right, bottom."""
    top, bottom = sorted((line.foot, line.top))
    ends = [x for x in (line.head, line.modifier) if x is not None]
    return [(min(ends), line.top, max(ends), line.top), *((x, top, x, bottom) for x in ends)]
