"""Text as arrays of characters with one space between words, and hashes of spans of it."""

import functools
from dataclasses import dataclass

import numpy as np

from gpuparse import native
from gpuparse.data.cached import cached_property
from gpuparse.data.formats.paragraphs import BLANKS
from gpuparse.text.characters import (
    DIGIT,
    FIRST_NUMBER,
    LONGEST_NUMBER,
    CharacterTable,
)

MARGIN = 8  # places without a character around each segment
SPACE = np.uint32(0x20)
BLANK_CODES = np.array(sorted(BLANKS), np.int64)


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
        size = len(codes) + MARGIN * (len(segments) + 1)  # at most
        shown, lower = np.empty(size, np.uint32), np.empty(size, np.uint32)
        classes, source = np.empty(size, np.uint8), np.empty(size, np.int64)
        is_visible, is_blank = np.empty(size, np.bool_), np.empty(size, np.bool_)
        places, starts = np.empty(len(codes), np.int64), np.empty(len(segments), np.int64)
        size = native.call(
            "view_text", codes, spaces, segments, table.classes, table.lower, BLANK_CODES, shown,
            lower, classes, is_visible, is_blank, source, places, starts,
        )  # fmt: skip
        return cls(
            shown[:size], lower[:size], classes[:size], is_visible[:size], is_blank[:size],
            source[:size], places, starts,
        )  # fmt: skip

    @cached_property
    def struct(self) -> native.Struct:
        """The view as the native library takes it."""
        return native.struct("TextView", self)

    @cached_property
    def number_classes(self) -> np.ndarray:
        """The classes (P,); digits have that of their number of digits in a row."""
        is_first = np.ones(len(self.classes), np.bool_)
        is_first[1:] = self.classes[1:] != self.classes[:-1]
        runs = np.cumsum(is_first) - 1
        lengths = np.minimum(np.bincount(runs)[runs], LONGEST_NUMBER)
        return np.where(self.classes == DIGIT, FIRST_NUMBER - 1 + lengths, self.classes)


def span_hashes(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Hashes of spans of values: uint64, equal for equal spans wherever they are.

    Args: values: uint32. first, last: (K,) int64.
    Cost: a nanosecond a value of each span.
    """
    hashes = np.empty(len(first), np.uint64)
    native.call("hash_spans", values, first, last, hashes)
    return hashes


@functools.lru_cache(maxsize=64)
def field_numbers(fields: tuple[str, ...], names: tuple[str, ...]) -> np.ndarray:
    """The places of some names among those of all fields: int64."""
    return np.array([fields.index(name) for name in names], np.int64)
