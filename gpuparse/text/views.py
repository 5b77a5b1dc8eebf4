"""Text as arrays of characters with one space between words, and hashes of spans of it."""

import functools
from dataclasses import dataclass

import numpy as np

from gpuparse.cached import cached_property
from gpuparse.formats.paragraphs import BLANKS
from gpuparse.text.characters import (
    DIGIT,
    FIRST_NUMBER,
    LONGEST_NUMBER,
    CharacterTable,
)

MARGIN = 8  # places without a character around each segment
SPACE = np.uint32(0x20)
_BASE = 6364136223846793005
_INVERSE = pow(_BASE, -1, 2**64)


@dataclass(frozen=True)
class TextView:
    """Segments of a text, each run of spaces as one place and MARGIN places around each segment.

    P places; places without a character have the code 0.

    Attributes:
        codes: (P,) uint32. lower, classes: (P,) by the table of characters.
        is_visible: (P,) bool, a character that is no space.
        is_blank: (P,) bool, a space that stands for one blank, no line end or tab.
        source: (P,) int64, the character in the text.
        places: (C,) int64, the place of each character that is no space; others are undefined.
        starts: (S,) int64, the first place of each segment.
    """

    codes: np.ndarray
    lower: np.ndarray
    classes: np.ndarray
    is_visible: np.ndarray
    is_blank: np.ndarray
    source: np.ndarray
    places: np.ndarray
    starts: np.ndarray

    @classmethod
    def of_text(
        cls, codes: np.ndarray, spaces: np.ndarray, segments: np.ndarray, table: CharacterTable
    ) -> "TextView":
        """The view of a text.

        Args:
            codes: (C,) uint32. spaces: (C,) bool. segments: (S,) first characters, from 0.
        """
        # A space stands for its run where a visible character of the same segment follows.
        kept = ~spaces
        kept[:-1] |= spaces[:-1] & ~spaces[1:]
        kept[segments[1:] - 1] &= ~spaces[segments[1:] - 1]
        kept[: np.argmin(spaces) if spaces.any() else 0] = False
        first = np.zeros(len(codes), np.int64)
        first[segments] = MARGIN
        places = np.cumsum(kept + first) - 1
        of_kept = np.flatnonzero(kept)
        at = places[of_kept]
        size = int(places[-1]) + 1 + MARGIN if len(places) else MARGIN
        shown = np.zeros(size, np.uint32)
        shown[at] = np.where(spaces[of_kept], SPACE, codes[of_kept])
        source = np.full(size, -1, np.int64)
        source[at] = of_kept
        lower, classes = table.lower[shown], table.classes[shown]
        is_visible = (shown != 0) & (shown != SPACE)
        is_blank = np.zeros(size, np.bool_)
        # The first character of a text is not kept if it is a space.
        alone = spaces[of_kept] & np.isin(codes[of_kept], BLANKS) & ~spaces[of_kept - 1]
        is_blank[at] = alone
        return cls(shown, lower, classes, is_visible, is_blank, source, places, places[segments])

    @cached_property
    def lower_sums(self) -> np.ndarray:
        """For `span_hashes` of characters in lower case."""
        return hash_sums(self.lower)

    @cached_property
    def form_sums(self) -> np.ndarray:
        """For `span_hashes` of characters."""
        return hash_sums(self.codes)

    @cached_property
    def _runs(self) -> tuple[np.ndarray, np.ndarray]:
        is_first = np.ones(len(self.classes), np.bool_)
        is_first[1:] = self.classes[1:] != self.classes[:-1]
        return np.cumsum(is_first) - 1, hash_sums(self.classes[is_first])

    @cached_property
    def number_classes(self) -> np.ndarray:
        """The classes (P,); digits have that of their number of digits in a row."""
        runs, _ = self._runs
        lengths = np.minimum(np.bincount(runs)[runs], LONGEST_NUMBER)
        return np.where(self.classes == DIGIT, FIRST_NUMBER - 1 + lengths, self.classes)

    def shapes(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Hashes of the classes in spans, equal ones in a row once; 0 for an empty span."""
        runs, sums = self._runs
        hashes = span_hashes(sums, runs[first], runs[np.maximum(last, 1) - 1] + 1)
        return hashes * (first < last)

    def strings(self) -> tuple[np.ndarray, np.ndarray]:
        """First place of each string between spaces, and the one after it."""
        edges = np.flatnonzero(np.diff(self.is_visible, prepend=False, append=False))
        return edges[::2], edges[1::2]


def hash_sums(values: np.ndarray) -> np.ndarray:
    """Sums from which `span_hashes` of the values are made: (n + 1,) uint64. Cost: 5 ns a value."""
    sums = np.zeros(len(values) + 1, np.uint64)
    mixed = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= _powers(_BASE, len(values))
    np.cumsum(mixed, out=sums[1:])
    return sums


def wide_hashes(sums: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Hashes of spans of the values: uint64, equal for equal spans wherever they are."""
    hashes = (sums[last] - sums[first]) * _powers(_INVERSE, len(sums))[first]
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(0xD6E8FEB86659FD93)
    hashes ^= hashes >> np.uint64(32)
    return hashes


def span_hashes(sums: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """As `wide_hashes`, in 32 bits."""
    return wide_hashes(sums, first, last).astype(np.uint32)


def _powers(base: int, size: int) -> np.ndarray:
    """base^0, base^1, ... modulo 2^64, at least `size` of them."""
    return _power_table(base, max(size, 1 << 17).bit_length())[:size]


@functools.lru_cache(maxsize=8)
def _power_table(base: int, bits: int) -> np.ndarray:
    factors = np.full(1 << bits, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
