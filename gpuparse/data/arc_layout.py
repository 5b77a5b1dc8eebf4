"""The places of words, arcs and relations of a drawn tree or graph, in pixels.

Words are in a row, arcs with their relations above and below it. Arcs of one side whose spans
overlap have different heights, and words are as far apart as the relations of their arcs need. At a
word, the ends of arcs to the left are left of those to the right, the longest nearest to the
middle, so that the arcs of a projective tree do not cross. Where arcs cross, the relation of the
lower one stands between two of the lines, so that no line passes through it.
"""

# ruff: noqa: RUF001

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import copysign
from typing import NamedTuple

from gpuparse.data.draw import printable

FONT, SMALL = 15, 11  # pixels, of words and of relations and tags
STEP = 22  # between the heights of arcs
END = 8  # between the ends of arcs at a word
BEND = 6  # radius of the corners of arcs
GAP, MARGIN = 16, 8
CLEAR = BEND + 2  # between a relation and the upright lines beside it
# Widths of characters, in hundredths of the size: of Helvetica, and so of Arial and Liberation
# Sans; characters outside its Latin part are from Liberation Sans.
_WIDTHS = {
    19: "'", 23: "ijlł‘’‚ιіј", 26: "|", 28: " !,./:;I[\\]ftı·ìíîïĩīĭї", 34: "()-`r{}¡“”„ľ",
    36: '"г•', 38: "ť", 40: "*ʼ°τґ", 45: "ζкεξ", 48: "^зтς", 50: "᾽᾿JckszvxyγκλνсухѕЈҐ", 53: "эєв",
    55: "χчьГпяΓυџ≠",
    56: "#$0123456789?L_abdeghnopquđðþŋ«»§£€–ηθοаеийорћŁ", 59: "+<=>~αβμκдлρбц",
    62: "FTZßø¿ΖΤТЗΣσъď", 67: "&ABEKPSVXYÞΑΒΔΕΚΛΡΥΧАВЕРХЧЅУΞφБЛЬКД", 69: "πм",
    72: "CDHNRUwĐÐŊΗΝΠИНПСЭЯыЄЏψ", 76: "©®ЦΩюФ", 79: "GOQØΘΟωОЪΈ", 83: "MmΜМΦшњфщΉ", 85: "ΨЋΎ",
    92: "%æЫљЖШ", 95: "WœЩ", 102: "ÆŒ—…→ЮЊ@", 106: "Љ",
}  # fmt: skip
_WIDTH = {character: width / 100 for width, group in _WIDTHS.items() for character in group}
# What letters of other faces are wider at most, in DejaVu Sans; Greek capitals have accents beside.
_WIDER, _BESIDE = 0.15, 0.37
# Of scripts without such a table, rather too wide than too narrow.
_HEBREW, _ARABIC, _WIDE_ARABIC, _OTHER = 0.75, 0.75, 1.3, 1.15


class Arc(NamedTuple):
    """An arc between two words from 1, or from the root, 0.

    is_below: whether it is drawn below the words. kind: a name of the drawing's style. shade,
    label_shade: how strong the line and the relation are drawn, 0..1. note: shown by pointing at
    it.
    """

    head: int
    modifier: int
    label: str
    is_below: bool = False
    kind: str = ""
    shade: float = 1.0
    label_shade: float = 1.0
    note: str = ""


class Text(NamedTuple):
    """A line of text. x: its middle. y: its baseline. width: at most, about."""

    x: float
    y: int
    size: int
    text: str

    @property
    def width(self) -> float:
        """Pixels that it takes at most, about."""
        return text_width(self.text, self.size)


class ArcLine(NamedTuple):
    """A drawn arc. head: where it leaves its head, None for the root. modifier: where it ends.

    foot, top: its ends, by the words, and its level. label: None for an arc without relation.
    """

    arc: Arc
    head: float | None
    modifier: float
    foot: int
    top: int
    label: Text | None


@dataclass(frozen=True)
class Layout:
    """A drawing; y grows downwards. is_mirrored: whether words run from right to left."""

    width: int
    height: int
    words: list[Text]
    tags: list[Text]
    lines: list[ArcLine]
    is_mirrored: bool

    @property
    def texts(self) -> list[Text]:
        """All lines of text."""
        return [*self.words, *self.tags, *(line.label for line in self.lines if line.label)]


def lay_out(forms: Sequence[str], arcs: Sequence[Arc], tags: Sequence[str] | None = None) -> Layout:
    """Find the places; words of scripts that run from right to left do so.

    Args: forms: (n,) the words. arcs: between them. tags: (n,) small text below the words.
    Raises: ValueError: an arc leads out of the sentence, or the lengths differ.
    Cost: the square of the number of arcs.
    """
    n = len(forms)
    if tags is not None and len(tags) != n:
        raise ValueError("forms and tags must be of one length")
    for h, m, *_ in arcs:
        if not (0 <= h <= n and 1 <= m <= n and h != m):
            raise ValueError(f"an arc from {h} to {m} is not in a sentence of {n} words")
    words, below_words = [printable(form) for form in forms], [printable(tag) for tag in tags or []]
    sides = [
        _SideOfWords(
            [a._replace(label=printable(a.label)) for a in arcs if a.is_below == is_below], n
        )
        for is_below in (False, True)
    ]
    slots = _slots(words, below_words, sides)
    for side in sides:
        side.choose_rooms(_places(slots, sides))
    places = _places(slots, sides)
    width = round(places[-1] + slots[-1] / 2 + MARGIN) if n else 2 * MARGIN
    is_mirrored = _runs_from_right(words)

    def across(x: float) -> float:
        return round(width - x if is_mirrored else x, 1)

    upper = MARGIN + SMALL + STEP * max(sides[0].levels, default=0) + BEND
    lower = upper + FONT + 10 + (SMALL + 5 if below_words else 0)
    depth = STEP * max(sides[1].levels, default=0)
    height = lower + (depth + BEND + SMALL if depth else 0) + MARGIN
    return Layout(
        width,
        height,
        [Text(across(x), upper + FONT + 4, FONT, t) for x, t in zip(places, words, strict=True)],
        [
            Text(across(x), upper + FONT + SMALL + 9, SMALL, t)
            for x, t in zip(places, below_words, strict=False)
        ],
        [line for side, foot in zip(sides, (upper, lower), strict=True)
         for line in side.lines(places, foot, across)],
        is_mirrored,
    )  # fmt: skip


def text_width(text: str, size: int) -> float:
    """Pixels that a text takes at most, about, in a sans-serif face."""
    return size * sum(map(_character_width, text))


def has_known_width(text: str) -> bool:
    """True if `text_width` is what the text takes in Helvetica, not a generous guess."""
    return all(
        (_known_width(c) is not None and not _is_of_other_face(c))
        or _is_wide(c)
        or unicodedata.category(c) in ("Mn", "Me")
        for c in text
    )


@lru_cache(maxsize=4096)
def _character_width(character: str) -> float:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if _is_wide(character):
        return 1.02
    known = _known_width(character)
    if known is not None:
        extra = 0.005
        if _is_of_other_face(character):
            extra = _BESIDE if "Α" <= _base(character) <= "Ω" else _WIDER
        return known + extra
    if "\u0590" <= character <= "\u05ff":
        return _HEBREW
    if "\u0600" <= character <= "\u06ff":
        return _WIDE_ARABIC if _base(character) in "سشصضڛښڜڝڞ" else _ARABIC
    return _OTHER


def _known_width(character: str) -> float | None:
    return _WIDTH.get(character, _WIDTH.get(_base(character)))


def _is_of_other_face(character: str) -> bool:
    """True if it is a rarer accented letter, which Helvetica and the like do not have."""
    return "\u0180" <= character <= "\u024f" or "\u1e00" <= character <= "\u1fff"


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F")


def _base(character: str) -> str:
    """A letter without its accents."""
    return unicodedata.normalize("NFD", character)[0]


class _SideOfWords:
    """The arcs of one side of the words, from the words outwards.

    levels: the height of each arc, from 1. ends: for each word the arcs at it from left to right.
    walls: for each arc the upright lines at its height, its own and those of arcs that cross it,
    from left to right, as words and offsets; its relation is between the first and the last.
    """

    def __init__(self, arcs: Sequence[Arc], n: int) -> None:
        self.arcs = arcs
        self.levels = self._levels()
        self.ends = self._ends(n)
        self.walls = [self._walls(k) for k in range(len(arcs))]

    def span(self, k: int) -> tuple[int, int]:
        """The first and the last word of an arc, from 0; they are the same for the root."""
        arc = self.arcs[k]
        ends = sorted((arc.head or arc.modifier, arc.modifier))
        return ends[0] - 1, ends[1] - 1

    def _levels(self) -> list[int]:
        """Above all shorter arcs whose span overlaps; from the root, above all over the word."""
        spans = [self.span(k) for k in range(len(self.arcs))]
        levels = [0] * len(spans)

        def size(k: int) -> tuple[bool, int, tuple[int, int]]:
            return self.arcs[k].head == 0, spans[k][1] - spans[k][0], spans[k]

        order = sorted(range(len(spans)), key=size)
        for place, k in enumerate(order):
            first, last = spans[k]
            under = [0]
            for other in order[:place]:
                start, end = spans[other]
                if (start < last and first < end) if first < last else start <= first <= end:
                    under.append(levels[other])
            levels[k] = 1 + max(under)
        return levels

    def _ends(self, n: int) -> list[list[int]]:
        at: list[list[tuple[float, int]]] = [[] for _ in range(n)]
        for k, (head, modifier, *_) in enumerate(self.arcs):
            if head == 0:
                at[modifier - 1].append((0.0, k))
            else:
                at[head - 1].append((1 / (modifier - head), k))
                at[modifier - 1].append((1 / (head - modifier), k))

        def order(end: tuple[float, int]) -> tuple[float, float]:
            side, k = end
            return side, copysign(self.levels[k], -side)  # the higher of equal spans outside

        return [[k for _, k in sorted(ends, key=order)] for ends in at]

    def _walls(self, k: int) -> list[tuple[int, float]]:
        first, last = self.span(k)
        crossing = [
            (word, self.offset(word, j))
            for j, level in enumerate(self.levels)
            if level > self.levels[k]
            for word in {*self.span(j)}
            if first < word < last
        ]
        return [(first, self.offset(first, k)), *sorted(crossing), (last, self.offset(last, k))]

    def offset(self, word: int, k: int) -> float:
        """The distance of an arc's end from the middle of a word."""
        ends = self.ends[word]
        return END * (ends.index(k) - (len(ends) - 1) / 2)

    def room(self, k: int) -> float:
        """Pixels between the lines beside the relation of an arc."""
        return text_width(self.arcs[k].label, SMALL) + 2 * CLEAR

    def choose_rooms(self, places: Sequence[float]) -> None:
        """Keep two neighbouring walls of each arc, between which its relation stands.

        Their room is the one that lacks least, and of several the nearest to the middle.
        """
        for k, walls in enumerate(self.walls):
            at = [places[word] + offset for word, offset in walls]
            _, _, room = min(
                (max(self.room(k) - (right - left), 0), abs(left + right - at[0] - at[-1]), n)
                for n, (left, right) in enumerate(pairwise(at))
            )
            self.walls[k] = walls[room : room + 2]

    def lines(self, places, foot, across):  # type: ignore[no-untyped-def]
        """The arcs with their relations, at the places of the words."""
        drawn = []
        for k, arc in enumerate(self.arcs):
            m = middle = places[arc.modifier - 1] + self.offset(arc.modifier - 1, k)
            h = None
            if arc.head:
                h = places[arc.head - 1] + self.offset(arc.head - 1, k)
                left, right = (places[word] + offset for word, offset in self.walls[k])
                half = self.room(k) / 2
                middle = min(max((h + m) / 2, left + half), right - half)
            top = foot + (STEP if arc.is_below else -STEP) * self.levels[k]
            y = top + SMALL + 1 if arc.is_below else top - 4
            label = Text(across(middle), y, SMALL, arc.label) if arc.label else None
            drawn.append(ArcLine(arc, h and across(h), across(m), foot, top, label))
        return drawn


def _slots(words: Sequence[str], tags: Sequence[str], sides: Sequence[_SideOfWords]) -> list[float]:
    """The width of each word with its tag, the ends of its arcs and the relations of roots."""
    slots = [max(text_width(word, FONT), FONT) for word in words]
    for w, tag in enumerate(tags):
        slots[w] = max(slots[w], text_width(tag, SMALL))
    for side in sides:
        for w, ends in enumerate(side.ends):
            slots[w] = max(slots[w], END * len(ends))
        for k, arc in enumerate(side.arcs):
            if arc.head == 0:
                w = arc.modifier - 1
                room = text_width(arc.label, SMALL) + 2 * abs(side.offset(w, k))
                slots[w] = max(slots[w], room)
    return slots


def _places(slots: Sequence[float], sides: Sequence[_SideOfWords]) -> list[float]:
    """The middle of each word: far enough from all before it for words and relations."""
    over: list[list[tuple[int, float]]] = [[] for _ in slots]
    for side in sides:
        for k, walls in enumerate(side.walls):
            (first, left), (last, right) = walls[0], walls[-1]
            if first < last:
                over[last].append((first, side.room(k) + left - right))
    places: list[float] = []
    for w, slot in enumerate(slots):
        before = places[-1] + slots[w - 1] / 2 + GAP if places else MARGIN
        places.append(max([before + slot / 2, *(places[first] + room for first, room in over[w])]))
    return places


def _runs_from_right(words: Sequence[str]) -> bool:
    """True if most letters are of scripts that run from right to left."""
    kinds = [unicodedata.bidirectional(character) for word in words for character in word]
    return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)
