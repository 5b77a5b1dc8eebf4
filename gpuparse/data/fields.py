"""Fields of a word that templates can read, each a function of one column's string."""

import re
from collections.abc import Callable

_COLUMNS = {"form": 1, "lower": 1, "lemma": 2, "cpos": 3, "fpos": 4, "feats": 5}
_SLICE = re.compile(r"(form|lower|lemma)\[(?::(?P<first>[1-9])|-(?P<last>[1-9]):)\]")


def is_field(name: str) -> bool:
    """Whether `name` is a field (`pos` is cpos or fpos, as `data.pos` says)."""
    return (
        name in _COLUMNS
        or name == "pos"
        or _SLICE.fullmatch(name) is not None
        or (name.startswith("feats.") and len(name) > len("feats."))
    )


def column(field: str) -> int:
    """The CoNLL column, 0 to 9, that a field is read from."""
    return _COLUMNS[re.split(r"[.\[]", field)[0]]


def reader(field: str) -> Callable[[str], str | None]:
    """The function from a column's string to the field's value, or None if it has no value.

    `_` is no value except as a form. A slice is a value only for words longer than it
    (McDonald, Crammer & Pereira 2005, section 2.4: "if the word is longer than 5 characters").
    """
    match = _SLICE.fullmatch(field)
    if match is not None:
        lower = match[1] == "lower"
        if match["first"]:
            end = int(match["first"])
            return lambda text: _lowered(text, lower)[:end] if len(text) > end else None
        start = int(match["last"])
        return lambda text: _lowered(text, lower)[-start:] if len(text) > start else None
    if field == "form":
        return lambda text: text
    if field == "lower":
        return str.lower
    if field.startswith("feats."):
        name = field.removeprefix("feats.")
        return lambda text: attributes(text).get(name)
    return lambda text: None if text == "_" else text


def _lowered(text: str, lower: bool) -> str:
    return text.lower() if lower else text


def attributes(feats: str) -> dict[str, str]:
    """The attributes of a FEATS column: `Case=Nom|Number=Sing`; a bare flag is its own name."""
    if feats == "_":
        return {}
    pairs = (piece.partition("=") for piece in feats.split("|"))
    return {name: value or name for name, _, value in pairs if name}
