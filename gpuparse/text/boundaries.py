"""The ends of tokens: the open gaps between characters, and their fields.

A gap is between two characters that follow each other, or that have a space between them. A gap of
two classes of characters is closed where training (nearly) always joined them, and a space where it
always separated them; only other gaps are decided by the model. Beside a space the class of a digit
is how many of them are in a row, so that `10 000` can be a token and `2019 12` not. Pairs of
classes that training does not have are closed within words of any script and within emoji
(`_within_words`). Gaps within addresses of the web and of e-mail are closed, unless training
separates them.
"""

import re
from collections.abc import Sequence

import numpy as np

from gpuparse import native
from gpuparse.text.characters import (
    FORMAT_SIGN,
    JOINER,
    LETTERS,
    LOWER_CASE,
    MARKS,
    REGIONAL,
    UPPER_CASE,
)
from gpuparse.text.views import SPACE, TextView, field_numbers

CLASSES = 128
JOIN, CUT = 0, 1  # tags
NEVER = 50  # adjacent characters of two classes that were never separated so often stay together
RARELY = 2e-4
LONGEST = 6  # characters of a word of the lexicon
SEPARATED = 0.05  # of the addresses of training, those that may be separated
_LETTER = rb"0-9a-z\x80"  # of addresses; 80 stands for all letters with case beyond ASCII
_WEB = re.compile(
    rb"(?<![%(letter)s])(?:(?:https?|ftp)://|www\.[%(letter)s-]+\.)[!#-;=?-~\x80]*[%(letter)s_/=&#]"
    % {b"letter": _LETTER}
)
_HAS_CASE = np.isin(np.arange(CLASSES), (*UPPER_CASE, *LOWER_CASE))
_WEB_SIGNS, _MAIL_SIGNS = (b"://", b"www."), (b"@",)
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
    """The pairs of classes that the model decides: bool (2, CLASSES²), without and with a space.

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


def has_address_signs(text: bytes) -> bool:
    """True if there may be addresses in a text."""
    low = text.lower()
    return any(sign in low for sign in (*_WEB_SIGNS, *_MAIL_SIGNS))


def addresses(view: TextView) -> list[tuple[int, int]]:
    """Addresses of the web and of e-mail: the first place of each, and the one after it.

    Cost: a nanosecond per character.
    """
    text = np.where(view.lower < 0x80, view.lower, 0x80 * _HAS_CASE[view.classes]).astype(np.uint8)
    found = _found_beside(text.tobytes(), _WEB, _WEB_SIGNS)
    for start, end in found:
        text[start:end] = 0  # `@` in it is of no address of its own
    return found + _found_beside(text.tobytes(), _MAIL, _MAIL_SIGNS)


def _found_beside(
    line: bytes, pattern: re.Pattern[bytes], signs: Sequence[bytes]
) -> list[tuple[int, int]]:
    """The matches of a pattern without spaces in the strings that have some sign."""
    strings = set()
    for sign in signs:
        at = line.find(sign)
        while at >= 0:
            end = line.find(b" ", at)
            end = len(line) if end < 0 else end
            strings.add((line.rfind(b" ", 0, at) + 1, end))
            at = line.find(sign, end)
    return [match.span() for span in sorted(strings) for match in pattern.finditer(line, *span)]


def learn_addresses(view: TextView, cut: np.ndarray) -> bool:
    """True if training separates (nearly) no address; it may have none.

    Args: cut: (P,) bool, whether a token ends with the place.
    """
    found = addresses(view)
    separated = sum(bool(cut[start : end - 1].any()) for start, end in found)
    return separated <= SEPARATED * len(found)


def open_places(
    view: TextView, is_open: np.ndarray, *, keeps_addresses: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The places of gaps that the model decides, ascending; (P,) bool, token ends for certain."""
    places, ends = np.empty(len(view.codes), np.int64), np.empty(len(view.codes), np.bool_)
    places = places[: native.call("open_gaps", view.struct, is_open, places, ends)]
    if keeps_addresses and (found := addresses(view)):
        is_decided = np.zeros(len(view.codes), np.bool_)
        for start, end in found:
            is_decided[start:end] = ends[end - 1] = True
        places = places[~is_decided[places]]
    return places, ends


def sequence_starts(view: TextView, places: np.ndarray) -> np.ndarray:
    """The start of each segment's gaps among all: (S + 1,) int64."""
    starts = np.full(len(view.starts) + 1, len(places))
    starts[:-1] = places.searchsorted(view.starts)
    return starts


def gap_fields(
    view: TextView, places: np.ndarray, names: tuple[str, ...], lexicon: np.ndarray
) -> np.ndarray:
    """The fields of gaps: (F, P) uint32, a row for each field, 0 where there is no value.

    Fields of characters have values at all places, the others at those of the gaps alone.

    Args:
        places: of the characters before the gaps. names: the fields wanted, of FIELDS.
        lexicon: uint64, ascending; the hashes of known words of up to LONGEST characters.
    """
    found = np.empty((len(names), len(view.codes)), np.uint32)
    native.call("gap_fields", view.struct, places, field_numbers(FIELDS, names), lexicon, found)
    return found


# As native/text_view.h has them.
FIELDS = (
    "char", "lower", "class",
    # of the string between spaces: all of it, before and after the gap
    "string", "before", "after", "shape-before", "shape-after", "length-before", "length-after",
    "signs", "since-last",
    # the longest word of the lexicon that ends at the gap, begins there, or goes across
    "known-before", "known-after", "known-across",
)  # fmt: skip
