"""Classes and lower case of characters, as a tokeniser was trained with."""

import unicodedata
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpuparse.data.formats.paragraphs import SPACES

_CODES = 0x110000
_NO_CLASS = ("Cn", "Co", "Cs", "Cc")
SPACE_CLASS = 1
_CATEGORIES = (
    "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Mn",
    "Mc", "Me", "Cf", "Zs", "Zl", "Zp",
)  # fmt: skip
DIGIT = _CATEGORIES.index("Nd") + 2
FIRST_NUMBER, LONGEST_NUMBER = 23, 7  # of the classes of numbers: one for each number of digits
_FIRST_LETTER = 30
UPPER_CASE, LOWER_CASE = (_FIRST_LETTER, _FIRST_LETTER + 1), (_FIRST_LETTER + 2, _FIRST_LETTER + 3)
_SCRIPTS = (
    "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "ARABIC", "HEBREW", "THAI", "DEVANAGARI",
    "KATAKANA-HIRAGANA",
)  # fmt: skip
_IDEOGRAPHIC = (_FIRST_LETTER + 4, _FIRST_LETTER + 5)
# Letters of scripts whose words are more than one letter each.
LETTERS = tuple(
    c for c in range(_FIRST_LETTER, _FIRST_LETTER + 5 + len(_SCRIPTS)) if c not in _IDEOGRAPHIC
)
MARKS = tuple(_CATEGORIES.index(name) + 2 for name in ("Mn", "Mc", "Me"))
FORMAT_SIGN = _CATEGORIES.index("Cf") + 2
# Signs within words and emoji: joiners and the soft hyphen; letters of flags.
JOINER, REGIONAL = 50, 51
_OWN_CLASSES = {
    **dict.fromkeys((0xAD, 0x200C, 0x200D, 0x2060), JOINER),
    **dict.fromkeys(range(0x1F1E6, 0x1F200), REGIONAL),
    **dict.fromkeys(range(0x1F3FB, 0x1F400), MARKS[0]),  # skin colours, after an emoji
}
_FIRST_OWN = 60  # up to 127
_OWN_CLASS = ".,!?'\"()[]:;-_/&%$#@*+=~`<>|\\\u2019\u201c\u201d\u2026\u3002\uff0c\u3001"


@dataclass(frozen=True)
class CharacterTable:
    """Classes and lower case of all characters, as the Unicode data of training had them.

    Attributes:
        classes: (0x110000,) uint8. Marks of ASCII and some others have one each, letters one for
            each case or script, all other categories one each; 0 is none.
        lower: (0x110000,) uint32, the lower-case letter; `0` for a digit, one sigma for both.
    """

    classes: np.ndarray
    lower: np.ndarray
    ARRAYS: ClassVar = ("classes_starts", "classes_values", "lower_starts", "lower_values")

    @classmethod
    def of_unicode(cls) -> "CharacterTable":
        """The table by the Unicode data of this Python. Cost: half a second."""
        classes = np.zeros(_CODES, np.uint8)
        lower = np.arange(_CODES, dtype=np.uint32)
        for code in range(_CODES):
            character = chr(code)
            category = unicodedata.category(character)
            if category in _NO_CLASS:
                continue
            classes[code] = _class_of(character, category)
            small = character.lower()
            if category == "Nd":
                lower[code] = ord("0")
            elif len(small) == 1:
                lower[code] = ord(small)
        classes[list(SPACES)] = SPACE_CLASS
        for number, character in enumerate(_OWN_CLASS):
            classes[ord(character)] = _FIRST_OWN + number
        for code, number in _OWN_CLASSES.items():
            classes[code] = number
        lower[ord("\u03c2")] = ord("\u03c3")  # the final sigma; the capital one has no such form
        return cls(classes, lower)

    def packed(self) -> dict[str, np.ndarray]:
        """Arrays from which `unpacked` makes the table again: runs of equal values."""
        codes = np.arange(_CODES, dtype=np.int64)
        found: dict[str, np.ndarray] = {}
        for name, of_codes in (("classes", self.classes), ("lower", self.lower - codes)):
            values: np.ndarray = of_codes.astype(np.int32)
            starts = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
            found[f"{name}_starts"] = starts.astype(np.int32)
            found[f"{name}_values"] = values[starts]
        return found

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray]) -> "CharacterTable":
        """The table of `packed`, checked.

        Raises: ValueError, KeyError: it is none.
        """
        _, values, sizes = _runs(arrays, "classes")
        if values.min() < 0 or values.max() > 127:
            raise ValueError("classes: numbers from 0 to 127 are expected")
        classes = np.repeat(values.astype(np.uint8), sizes)
        starts, values, sizes = _runs(arrays, "lower")
        if (starts + values).min() < 0 or (starts + sizes + values).max() > _CODES:
            raise ValueError("lower: code points are expected")
        n = np.flatnonzero(values).max(initial=-1) + 1  # most codes are above all capital letters
        lower = np.arange(_CODES, dtype=np.uint32)
        lower.view(np.int32)[: sizes[:n].sum()] += np.repeat(values[:n].astype(np.int32), sizes[:n])
        return cls(classes, lower)


def _class_of(character: str, category: str) -> int:
    if category[0] != "L":
        return _CATEGORIES.index(category) + 2
    is_latin = character < "\u0250" or "\u1e00" <= character < "\u1f00"
    if category in ("Lu", "Lt"):
        return _FIRST_LETTER if is_latin else _FIRST_LETTER + 1
    if category == "Ll":
        return _FIRST_LETTER + (2 if is_latin else 3)
    script = unicodedata.name(character, "").partition(" ")[0]
    return _FIRST_LETTER + 4 + (_SCRIPTS.index(script) if script in _SCRIPTS else len(_SCRIPTS))


def _runs(arrays: dict[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The starts of runs of equal values, their values, and their sizes."""
    starts, values = arrays[f"{name}_starts"], arrays[f"{name}_values"]
    if starts.dtype != np.int32 or values.dtype != np.int32 or starts.shape != values.shape:
        raise ValueError(f"{name}: runs of whole numbers are expected")
    if starts.ndim != 1 or not len(starts) or starts[0] != 0:
        raise ValueError(f"{name}: runs from 0 on are expected")
    sizes: np.ndarray = np.diff(starts.astype(np.int64), append=_CODES)
    if sizes.min() <= 0:
        raise ValueError(f"{name}: ascending runs are expected")
    return starts.astype(np.int64), values.astype(np.int64), sizes
