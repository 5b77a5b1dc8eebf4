"""Paragraphs of raw text: spaces, code points, and cuts of text at fixed places."""

import functools
import re
import unicodedata
from itertools import groupby, pairwise

import numpy as np

# What separates words: white space of Unicode, the zero-width space and the byte order mark.
SPACES = (
    *range(0x09, 0x0E), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200C),
    0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF,
)  # fmt: skip
# Those that may be within a token, as in `10 000`.
BLANKS = (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
PIECE = 1 << 15  # characters; a longer paragraph is cut into pieces
MAX_SPACES = 100_000  # characters of a run of white space

LINE_FEED, RETURN, NEXT_LINE, LINE_SEPARATOR, PARAGRAPH = 0x0A, 0x0D, 0x85, 0x2028, 0x2029
_SENTENCE_FINAL = ".!?\u2026\u3002\uff01\uff1f\uff61\u0964\u061f\u06d4"
_CLOSING = "\"')]}\u00bb\u201d\u2019\u203a\u300d\u300f\uff09"
_MARKS_AFTER = re.escape(_SENTENCE_FINAL + _CLOSING)
_IDEOGRAPHIC_END = re.compile(
    f"[\u3002\uff01\uff1f\uff61][{_MARKS_AFTER}]*(?=[^{_MARKS_AFTER}{''.join(map(chr, SPACES))}])"
)
_LINE_ENDS = re.compile("\r\n|[\n\r\x85\u2028]")
_LONGEST_ITEM = 120  # characters of a line that may be a sentence or an item of its own
_WRAPPED = 50  # characters of a line that may be one of wrapped prose
_OPENING = "\"'([{\u00ab\u2018\u201c\u201e\u2039\u300c\u300e\u00bf\u00a1"
_ITEM_CATEGORIES = ("Lu", "Lt", "Nd", "Nl", "No", "So", "Pd")
_BULLETS = "*\u2022\u2023\u00b7\u25aa+#@>\u2013\u2014"


def code_points(text: bytes) -> np.ndarray:
    """The code points of UTF-8 text: uint32.

    Raises: UnicodeDecodeError.
    Cost: 1 to 2 ns per character.
    """
    return np.frombuffer(text.decode().encode("utf-32-le"), np.uint32)


def byte_offsets(codes: np.ndarray) -> np.ndarray:
    """The start of each character in UTF-8, and the end of the last one: int64 (C + 1,)."""
    offsets, largest = np.arange(len(codes) + 1), codes.max(initial=0)
    for first in (0x80, 0x800, 0x10000):
        if largest >= first:
            offsets[1:] += (codes >= first).cumsum()
    return offsets


def are_spaces(codes: np.ndarray) -> np.ndarray:
    """The mask of spaces among characters: bool, of the shape of the code points."""
    return _space_table().take(codes, mode="clip")


def ends_paragraph(spaces: str) -> bool:
    """True if white space ends a paragraph: it has an empty line or a paragraph separator."""
    return chr(PARAGRAPH) in spaces or len(_LINE_ENDS.findall(spaces)) > 1


def lines_of_their_own(text: str) -> int:
    """The number of lines of a text if most look like sentences or items; 0 of other texts.

    Such a line has no sentence-final mark or comma at its end, and the next one of its paragraph
    begins with a capital letter, a digit or a bullet. In wrapped prose lines are full: the first
    word of the next one does not fit. Scripts without capital letters have bullets and digits.

    Cost: 2 us per line.
    """
    lines = (line.strip() for line in _LINE_ENDS.split(text.replace(chr(PARAGRAPH), "\n\n")))
    n_lines = n_breaks = n_own = n_items = 0
    for is_text, group in groupby(lines, bool):
        paragraph = list(group) if is_text else []
        n_lines += len(paragraph)
        width = max(map(len, paragraph), default=0)
        for line, after in pairwise(paragraph):
            n_breaks += 1
            if _is_item(line) and _begins_item(after):
                n_own += 1
                fits = len(line) + 1 + len(after.split(maxsplit=1)[0]) <= width
                n_items += fits or len(line) < _WRAPPED
    is_list = n_items > 1 and 2 * n_items > n_lines
    return n_lines if is_list or (n_own > 3 and n_own == n_breaks) else 0


def _is_item(line: str) -> bool:
    return len(line) <= _LONGEST_ITEM and not line.rstrip(_CLOSING).endswith(
        (*_SENTENCE_FINAL, ",", ";", ":", "-")
    )


def _begins_item(line: str) -> bool:
    first = line.lstrip(_OPENING)[:1]
    return bool(first) and (first in _BULLETS or unicodedata.category(first) in _ITEM_CATEGORIES)


def segments(
    codes: np.ndarray, spaces: np.ndarray, *, of_lines: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The segments of a text, each a paragraph or a piece of a long one, with the spaces after it.

    A paragraph ends with an empty line or U+2029. One of more than PIECE characters is cut after
    the last end of a sentence (before a space, or else after an ideographic mark), or else the last
    space, in the second half of PIECE characters, or else after them. Each cut depends only on
    characters from the beginning of its paragraph to the cut, to the end of the spaces there, or
    PIECE characters further.

    Args:
        codes: (C,) uint32, text that begins where a segment does.
        spaces: (C,) bool.
        of_lines: whether a segment is a line instead, with the spaces and empty lines after it,
            however long it is; no paragraph begins there.
    Returns: first characters, int64 (S,), ascending from 0; and whether a paragraph begins there,
        bool (S,), where the first segment is taken to do so. No segments of an empty text.
    Cost: 10 ns per character.
    """
    if not len(codes):
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    if len(codes) <= PIECE and not of_lines and (codes[spaces] == 0x20).all():
        return np.zeros(1, np.int64), np.array([True])
    first, last = space_runs(spaces)
    units = np.concatenate([[0], np.cumsum(_line_ends(codes))])
    least = 1 if of_lines else 2
    is_break = (units[last] - units[first] >= least) & (last < len(codes)) & (first > 0)
    if of_lines:
        lines = np.concatenate([[0], last[is_break]]).astype(np.int64)
        return lines, np.zeros(len(lines), np.bool_)
    paragraphs = np.concatenate([[0], last[is_break], [len(codes)]])
    starts: list[int] = []
    begins: list[bool] = []
    long = paragraphs[1:] - paragraphs[:-1] > PIECE
    if not long.any():
        return paragraphs[:-1].astype(np.int64), np.ones(len(paragraphs) - 1, np.bool_)
    for start, end, is_long in zip(paragraphs[:-1].tolist(), paragraphs[1:].tolist(), long.tolist(),
                                   strict=True):  # fmt: skip
        cuts = _pieces(codes, first, last, start, end) if is_long else [start]
        starts += cuts
        begins += [True] + [False] * (len(cuts) - 1)
    return np.array(starts, np.int64), np.array(begins, np.bool_)


def space_runs(spaces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First character of each run of spaces, and the one after it."""
    padded = np.zeros(len(spaces) + 2, np.bool_)
    padded[1:-1] = spaces
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return edges[::2], edges[1::2]


def _line_ends(codes: np.ndarray) -> np.ndarray:
    """Lines that end with a character; 2 for the end of a paragraph."""
    ends = (codes == LINE_FEED) | (codes == NEXT_LINE) | (codes == LINE_SEPARATOR)
    returns = codes == RETURN
    returns[:-1] &= codes[1:] != LINE_FEED
    return (ends | returns).astype(np.int64) + 2 * (codes == PARAGRAPH)


def lines_before(codes: np.ndarray) -> np.ndarray:
    """The number of lines that have ended before each character and at the end: int64 (C + 1,)."""
    return np.concatenate([[0], np.minimum(_line_ends(codes), 1).cumsum()])


def _pieces(
    codes: np.ndarray, first: np.ndarray, last: np.ndarray, start: int, end: int
) -> list[int]:
    """The starts of the pieces of a long paragraph; `first` and `last` are the runs of spaces."""
    cuts = [start]
    while end - start > PIECE:
        middle, limit = start + PIECE // 2, start + PIECE
        runs = slice(*np.searchsorted(last, [middle, limit], side="right").tolist())
        latest = zip(reversed(first[runs].tolist()), reversed(last[runs].tolist()), strict=True)
        sentence = next((cut for before, cut in latest if _ends_sentence(codes, before)), None)
        if sentence is not None:
            cut = sentence
        elif ideographic := _ideographic_ends(codes[middle : limit + 1]):
            cut = middle + ideographic[-1]
        elif runs.start < runs.stop:
            cut = int(last[runs.stop - 1])
        else:
            cut = limit
            run = int(np.searchsorted(last, limit, side="right"))
            if run < len(last) and first[run] <= limit:  # no space begins a piece
                cut = int(last[run])
        if cut >= end:
            break
        cuts.append(cut)
        start = cut
    return cuts


def _ideographic_ends(codes: np.ndarray) -> list[int]:
    """The likely starts of sentences without a space before them, as in Chinese."""
    text = codes.tobytes().decode("utf-32-le")
    return [found.end() for found in _IDEOGRAPHIC_END.finditer(text)]


def _ends_sentence(codes: np.ndarray, end: int) -> bool:
    """True if the text before a character looks like the end of a sentence."""
    before = "".join(map(chr, codes[max(0, end - 3) : end].tolist()))
    return before.rstrip(_CLOSING).endswith(tuple(_SENTENCE_FINAL))


@functools.cache
def _space_table() -> np.ndarray:
    """For each code point up to U+FFFF, whether it is a space; none is above."""
    table = np.zeros(0x10000, np.bool_)
    table[list(SPACES)] = True
    return table
