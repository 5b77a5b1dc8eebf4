"""Where tokens end: which gaps between characters are open, and what is known of them.

A gap is between two characters that follow each other, or that have a space between them. A gap of
two classes of characters is closed where training (nearly) always joined them, and a space where it
always separated them; only other gaps are decided by the model. Beside a space the class of a digit
is how many of them are in a row, so that `10 000` can be a token and `2019 12` not. Pairs of
classes that training does not have are closed within words of any script and within emoji
(`_within_words`). Gaps within addresses of the web and of e-mail are closed, unless training
separates them.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from gpuparse.text.characters import (
    FORMAT_SIGN,
    JOINER,
    LETTERS,
    LOWER_CASE,
    MARKS,
    REGIONAL,
    UPPER_CASE,
)
from gpuparse.text.views import SPACE, TextView, span_hashes, wide_hashes

CLASSES = 128
JOIN, CUT = 0, 1  # tags
NEVER = 50  # adjacent characters of two classes that were never separated so often stay together
RARELY = 2e-4
LONGEST = 6  # characters of a word of the lexicon
_REACH = 64  # characters that hashes of a string between spaces reach to either side
_SIGNS = "@/:.-'\u2019"
SEPARATED = 0.05  # of the addresses of training, those that may be separated
_LETTER = rb"0-9a-z\x80"  # of addresses; 80 stands for all letters with case beyond ASCII
_WEB = re.compile(
    rb"(?<![%(letter)s])(?:(?:https?|ftp)://|www\.[%(letter)s-]+\.)[!#-;=?-~\x80]*[%(letter)s_/=&#]"
    % {b"letter": _LETTER}
)
_MAIL = re.compile(
    rb"(?<![%(letter)s._+%%-])[%(letter)s._+%%-]{1,64}@[%(letter)s-]+(?:\.[%(letter)s-]+)+"
    % {b"letter": _LETTER}
)


def gaps(view: TextView) -> tuple[np.ndarray, np.ndarray]:
    """The places before each gap: those without a space, those with one."""
    places = np.flatnonzero(view.is_visible)
    return (
        places[view.is_visible[places + 1]],
        places[(view.codes[places + 1] == SPACE) & view.is_visible[places + 2]],
    )


def _pairs(view: TextView, places: np.ndarray, step: int) -> np.ndarray:
    """The pairs of classes before and after gaps; beside a space (step 2) those of numbers."""
    classes = view.classes if step == 1 else view.number_classes
    return classes[places].astype(np.int64) * CLASSES + classes[places + step]


def learn_open_gaps(view: TextView, cut: np.ndarray) -> np.ndarray:
    """Which pairs of classes the model decides: bool (2, CLASSES²), without and with a space.

    Args: cut: (P,) bool, whether a token ends with the place.
    """
    counts = []
    for places, step in zip(gaps(view), (1, 2), strict=True):
        pairs = _pairs(view, places, step)
        counts.append(np.bincount(pairs, minlength=CLASSES**2))
        counts.append(np.bincount(pairs[cut[places]], minlength=CLASSES**2))
    n, n_cut, n_spaces, n_cut_spaces = counts
    closed = ((n_cut == 0) & (n >= NEVER)) | ((n_cut < RARELY * n) & (n > 0))
    closed |= (n == 0) & _within_words()
    return np.stack([~closed, n_cut_spaces < n_spaces])


def _within_words() -> np.ndarray:
    """Pairs of classes that stay together where training does not have them: bool (CLASSES²,)."""
    joined = np.zeros((CLASSES, CLASSES), np.bool_)
    joined[np.ix_(LETTERS, LETTERS)] = True
    joined[:, [*MARKS, JOINER, FORMAT_SIGN]] = True
    joined[np.ix_([*MARKS, FORMAT_SIGN], LETTERS)] = True
    joined[JOINER, :] = True
    joined[REGIONAL, REGIONAL] = True
    return joined.reshape(-1)


def addresses(view: TextView) -> list[tuple[int, int]]:
    """Addresses of the web and of e-mail: the first place of each, and the one after it.

    Cost: 10 ns a character.
    """
    text = np.where(view.lower < 0x80, view.lower, 0).astype(np.uint8)
    has_case = np.isin(view.classes, (*UPPER_CASE, *LOWER_CASE))
    text[(view.lower >= 0x80) & has_case] = 0x80
    line = text.tobytes()
    found = []
    if b"://" in line or b"www." in line:
        found += [match.span() for match in _WEB.finditer(line)]
        for start, end in found:
            text[start:end] = 0  # `@` in it is of no address of its own
    if b"@" in line:
        found += [match.span() for match in _MAIL.finditer(text.tobytes())]
    return found


def learn_addresses(view: TextView, cut: np.ndarray) -> bool:
    """Whether training separates (nearly) no address; it may have none.

    Args: cut: (P,) bool, whether a token ends with the place.
    """
    found = addresses(view)
    separated = sum(bool(cut[start : end - 1].any()) for start, end in found)
    return separated <= SEPARATED * len(found)


def open_places(
    view: TextView, is_open: np.ndarray, *, keeps_addresses: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The places of gaps that the model decides, ascending; (P,) bool, token ends for certain."""
    adjacent, spaced = gaps(view)
    ends = view.is_visible.copy()
    ends[adjacent] = False
    spaced = spaced[view.is_blank[spaced + 1]]  # a token has no other white space in it
    places = np.concatenate([
        adjacent[is_open[0][_pairs(view, adjacent, 1)]], spaced[is_open[1][_pairs(view, spaced, 2)]]
    ])  # fmt: skip
    if keeps_addresses and (found := addresses(view)):
        is_decided = np.zeros(len(view.codes), np.bool_)
        for start, end in found:
            is_decided[start:end] = ends[end - 1] = True
        places = places[~is_decided[places]]
    places.sort()
    return places, ends


def sequence_starts(view: TextView, places: np.ndarray) -> np.ndarray:
    """Where the gaps of each segment begin among all: (S + 1,) int64."""
    return np.append(np.searchsorted(places, view.starts), len(places))


def gap_fields(
    view: TextView, places: np.ndarray, names: Sequence[str], lexicon: np.ndarray
) -> np.ndarray:
    """What is known of gaps: (F, P) uint32, a row for each field, 0 where there is no value.

    Fields of characters have values at all places, the others at those of the gaps alone.

    Args:
        places: of the characters before the gaps. names: the fields wanted, of FIELDS.
        lexicon: uint64, ascending; the hashes of known words of up to LONGEST characters.
    """
    gap = _Gaps(view, places, lexicon)
    found = np.zeros((len(names), len(view.codes)), np.uint32)
    for row, name in zip(found, names, strict=True):
        values = FIELDS[name](gap)
        row[... if len(values) == len(row) else places] = values
    return found


class _Gaps:
    """Gaps and the strings between spaces that they are in, or between."""

    def __init__(self, view: TextView, places: np.ndarray, lexicon: np.ndarray) -> None:
        self.view, self.places, self.lexicon = view, places, lexicon
        self.before = places + 1  # one after the character before the gap
        self.after = self.before + (view.codes[self.before] == SPACE)  # the character after it
        self.firsts, lasts = view.strings()
        self.string = np.searchsorted(self.firsts, places, side="right") - 1
        first = self.firsts[self.string]
        last = lasts[np.searchsorted(self.firsts, self.after, side="right") - 1]
        self.to_start, self.to_end = self.before - first, last - self.after
        self.first = np.maximum(first, self.before - _REACH)
        self.last = np.minimum(last, self.after + _REACH)

    def span(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return span_hashes(self.view.lower_sums, first, last) * (first < last)

    def signs(self) -> np.ndarray:
        """Which of some signs the string has: a bit each, and 256."""
        found = np.full(len(self.firsts), 256, np.uint32)
        for number, sign in enumerate(_SIGNS):
            at = np.flatnonzero(self.view.codes == ord(sign))
            found[np.searchsorted(self.firsts, at, side="right") - 1] |= np.uint32(1 << number)
        return found[self.string]

    def since_last(self) -> np.ndarray:
        """Places since the gap before, up to 6."""
        return np.minimum(np.diff(self.places, prepend=0), 6).astype(np.uint32)

    def _knows(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        hashes = wide_hashes(self.view.lower_sums, first, last)
        at = np.minimum(np.searchsorted(self.lexicon, hashes), len(self.lexicon) - 1)
        found: np.ndarray = self.lexicon[at] == hashes
        return found

    def known(self, spans: list[tuple[int, int]]) -> np.ndarray:
        """1 and the number of the last span that is a known word; 0 without a lexicon.

        Args: spans: characters before and after the gap.
        """
        found = np.zeros(len(self.places), np.uint32)
        if len(self.lexicon):
            found += 1
            for number, (before, after) in enumerate(spans, 2):
                found[self._knows(self.before - before, self.before + after)] = number
        return found


_SIZES = range(1, LONGEST + 1)
_BEFORE, _AFTER = [(size, 0) for size in _SIZES], [(0, size) for size in _SIZES]
_ACROSS = [(before, size - before) for size in range(2, LONGEST) for before in range(1, size)]

FIELDS: dict[str, Callable[[_Gaps], np.ndarray]] = {
    "char": lambda gap: gap.view.codes + np.uint32(1),
    "lower": lambda gap: gap.view.lower + np.uint32(1),
    "class": lambda gap: gap.view.classes.astype(np.uint32) + np.uint32(1),
    # of the string between spaces: all of it, before and after the gap
    "string": lambda gap: gap.span(gap.first, gap.last),
    "before": lambda gap: gap.span(gap.first, gap.before),
    "after": lambda gap: gap.span(gap.after, gap.last),
    "shape-before": lambda gap: gap.view.shapes(gap.first, gap.before),
    "shape-after": lambda gap: gap.view.shapes(gap.after, gap.last),
    "length-before": lambda gap: np.minimum(gap.to_start, 8).astype(np.uint32),
    "length-after": lambda gap: np.minimum(gap.to_end, 8).astype(np.uint32) + np.uint32(1),
    "signs": _Gaps.signs,
    "since-last": _Gaps.since_last,
    # the longest word of the lexicon that ends at the gap, begins there, or goes across
    "known-before": lambda gap: gap.known(_BEFORE),
    "known-after": lambda gap: gap.known(_AFTER),
    "known-across": lambda gap: gap.known(_ACROSS),
}
