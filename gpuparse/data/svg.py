"""A dependency tree or graph as SVG: words in a row, arcs with their relations above them.

Arcs whose spans overlap have different heights, and words are as far apart as the relations above
them need. At a word, the ends of arcs to the left are left of those to the right, the longest
nearest to the middle, so that the arcs of a projective tree do not cross.
"""

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from gpuparse.data.draw import printable

FONT, SMALL = 15, 11  # pixels, of words and of relations and tags
STEP = 22  # between the heights of arcs
END = 8  # between the ends of arcs at a word
BEND = 6  # radius of the corners of arcs
GAP, MARGIN = 16, 8
# Widths of characters of a sans-serif face in its size, rather too wide than too narrow.
_NARROW, _BROAD = "iIjlrtf.,;:!|'()[]-` ", "mwMWQOGDCN@%&…—"


@dataclass(frozen=True)
class _Arc:
    head: int  # word from 0, -1 for the root
    modifier: int
    label: str

    @property
    def span(self) -> tuple[int, int]:
        ends = sorted((self.head if self.head >= 0 else self.modifier, self.modifier))
        return ends[0], ends[1]

    @property
    def length(self) -> int:
        first, last = self.span
        return last - first


def svg_graph(
    forms: Sequence[str],
    arcs: Sequence[tuple[int, int, str]],
    *,
    tags: Sequence[str] | None = None,
) -> str:
    """Draws words and arcs; words of scripts that run from right to left are drawn so.

    Args:
        forms: (n,) the words.
        arcs: (head, modifier, relation), both 1..n; the head of a root is 0.
        tags: (n,) small text below the words.
    Returns: an `<svg>` element in the colour of the text around it.
    Raises: ValueError: an arc leads out of the sentence, or the lengths differ.
    Cost: the square of the number of arcs.
    """
    n = len(forms)
    if tags is not None and len(tags) != n:
        raise ValueError("forms and tags must be of one length")
    drawn = [_Arc(h - 1, m - 1, printable(label)) for h, m, label in arcs]
    for h, m, _ in arcs:
        if not (0 <= h <= n and 1 <= m <= n and h != m):
            raise ValueError(f"an arc from {h} to {m} is not in a sentence of {n} words")
    words = [printable(form) for form in forms]
    below = [printable(tag) for tag in tags or []]
    levels = _levels(drawn)
    ends = _ends(drawn, n)
    slots = _slots(words, below, drawn, ends)
    places = _places(slots, drawn, ends)
    width = round(places[-1] + slots[-1] / 2 + MARGIN) if n else 2 * MARGIN
    is_mirrored = _runs_from_right(words)

    def across(x: float) -> float:
        return round(width - x if is_mirrored else x, 1)

    base = MARGIN + SMALL + STEP * max(levels, default=0) + BEND
    height = base + FONT + 10 + (SMALL + 5 if below else 0) + MARGIN
    shapes = [
        *_arc_shapes(drawn, levels, ends, places, base, across),
        *(
            f'<text x="{across(x)}" y="{base + FONT + 4}" font-size="{FONT}">{html.escape(word)}'
            "</text>"
            for x, word in zip(places, words, strict=True)
        ),
        *(
            f'<text x="{across(x)}" y="{base + FONT + SMALL + 9}" font-size="{SMALL}"'
            f' opacity="0.6">{html.escape(tag)}</text>'
            for x, tag in zip(places, below, strict=False)
        ),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" fill="currentColor" text-anchor="middle"'
        ' font-family="Helvetica, Arial, sans-serif">'
        f"<title>{html.escape(' '.join(words))}</title>{''.join(shapes)}</svg>"
    )


def svg_tree(
    forms: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    *,
    tags: Sequence[str] | None = None,
) -> str:
    """`svg_graph` of a tree: the head of each word, 0 for a root, below 0 for none."""
    relations = labels or [""] * len(forms)
    arcs = [
        (h, m, label)
        for m, (h, label) in enumerate(zip(heads, relations, strict=True), 1)
        if h >= 0
    ]
    return svg_graph(forms, arcs, tags=tags)


def text_width(text: str, size: int) -> float:
    """Pixels that a text takes at most, about, in a sans-serif face."""
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return 1.05
    if character in _NARROW:
        return 0.38
    if character in _BROAD:
        return 0.95
    return 0.74 if character.isupper() else 0.6


def _levels(arcs: Sequence[_Arc]) -> list[int]:
    """The height of each arc, from 1: above all shorter arcs whose span overlaps with its own.

    An arc from the root is above all arcs over its word.
    """
    levels = [0] * len(arcs)
    order = sorted(range(len(arcs)), key=lambda k: (arcs[k].head < 0, arcs[k].length, arcs[k].span))
    for place, k in enumerate(order):
        first, last = arcs[k].span
        under = [0]
        for other in order[:place]:
            start, end = arcs[other].span
            if (start < last and first < end) if first < last else start <= first <= end:
                under.append(levels[other])
        levels[k] = 1 + max(under)
    return levels


def _ends(arcs: Sequence[_Arc], n: int) -> list[list[tuple[int, bool]]]:
    """For each word the ends of arcs at it from left to right: the arc, and whether it enters."""
    at: list[list[tuple[float, int, bool]]] = [[] for _ in range(n)]
    for k, arc in enumerate(arcs):
        if arc.head < 0:
            at[arc.modifier].append((0.0, k, True))
            continue
        for word, other, enters in (
            (arc.head, arc.modifier, False),
            (arc.modifier, arc.head, True),
        ):
            at[word].append((1 / (other - word), k, enters))
    return [[(k, enters) for _, k, enters in sorted(ends)] for ends in at]


def _slots(
    words: Sequence[str],
    tags: Sequence[str],
    arcs: Sequence[_Arc],
    ends: Sequence[list[tuple[int, bool]]],
) -> list[float]:
    """The width of each word with its tag, the ends of its arcs and the relation of a root."""
    slots = [
        max(text_width(word, FONT), END * len(at), FONT)
        for word, at in zip(words, ends, strict=True)
    ]
    for w, tag in enumerate(tags):
        slots[w] = max(slots[w], text_width(tag, SMALL))
    for k, arc in enumerate(arcs):
        if arc.head < 0:
            aside = 2 * abs(_offset(ends[arc.modifier], k))
            slots[arc.modifier] = max(slots[arc.modifier], text_width(arc.label, SMALL) + aside)
    return slots


def _offset(ends: list[tuple[int, bool]], k: int) -> float:
    """Where an arc ends at a word, from its middle."""
    place = next(i for i, (arc, _) in enumerate(ends) if arc == k)
    return END * (place - (len(ends) - 1) / 2)


def _places(
    slots: Sequence[float], arcs: Sequence[_Arc], ends: Sequence[list[tuple[int, bool]]]
) -> list[float]:
    """The middle of each word: far enough from all before it for words and relations."""
    over: list[list[tuple[int, float]]] = [[] for _ in slots]
    for k, arc in enumerate(arcs):
        first, last = arc.span
        if first < last:
            room = text_width(arc.label, SMALL) + 2 * BEND + 4
            over[last].append((first, room + _offset(ends[first], k) - _offset(ends[last], k)))
    places: list[float] = []
    for w, slot in enumerate(slots):
        before = places[-1] + slots[w - 1] / 2 + GAP if places else MARGIN
        places.append(max([before + slot / 2, *(places[first] + room for first, room in over[w])]))
    return places


def _arc_shapes(arcs, levels, ends, places, base, across):  # type: ignore[no-untyped-def]
    """Lines, arrowheads and relations."""
    shapes = []
    for k, arc in enumerate(arcs):
        m = across(places[arc.modifier] + _offset(ends[arc.modifier], k))
        top = base - STEP * levels[k]
        line = '<path fill="none" stroke="currentColor" stroke-opacity="0.55" d="'
        if arc.head < 0:
            shapes.append(f'{line}M{m},{top}V{base - 4}"/>')
            middle = m
        else:
            h = across(places[arc.head] + _offset(ends[arc.head], k))
            turn = BEND if m > h else -BEND
            shapes.append(
                f"{line}M{h},{base}V{top + BEND}Q{h},{top} {round(h + turn, 1)},{top}"
                f'H{round(m - turn, 1)}Q{m},{top} {m},{top + BEND}V{base - 4}"/>'
            )
            middle = round((h + m) / 2, 1)
        shapes.append(f'<path d="M{m},{base}l-3.5,-7h7z"/>')
        if arc.label:
            shapes.append(
                f'<text x="{middle}" y="{top - 4}" font-size="{SMALL}">{html.escape(arc.label)}'
                "</text>"
            )
    return shapes


def _runs_from_right(words: Sequence[str]) -> bool:
    """Whether most letters are of scripts that run from right to left."""
    kinds = [unicodedata.bidirectional(character) for word in words for character in word]
    return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)
