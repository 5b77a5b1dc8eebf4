"""The value of one field of one form, as gpuparse/text/tagging/fields.py says it."""

import re
import unicodedata
from collections.abc import Callable
from itertools import groupby


def text_of(field: str, form: str, class_of: Callable[[str], str | None]) -> str | None:
    """The text of a field that reads a form alone; None for no value.

    Args: class_of: the tags of a word in lower case.
    """
    lower = form.lower()
    name, _, part = field.partition("[")
    if name == "form":
        return form
    if name == "lower" and not part:
        return lower
    if name == "lower":
        n = int(part.strip("-:]"))
        return None if len(lower) < n else lower[:n] if part[0] == ":" else lower[-n:]
    if name == "shape":
        if part:
            return "".join(map(kind_of, form[: int(part[1])]))
        return "".join(kind for kind, _ in groupby(map(kind_of, form[:40])))[:12]
    if name == "case":
        flags = [
            ("d", any(c.isdigit() for c in form)), ("-", "-" in form), ("U", form[:1].isupper()),
            ("A", form.isupper()), ("M", any(c.isupper() for c in form[1:])),
            ("P", not any(c.isalnum() for c in form)),
        ]  # fmt: skip
        return "".join(flag for flag, is_so in flags if is_so) or "-"
    if name == "seen.last":
        parts = re.split("[-/]", lower)
        return class_of(parts[-1]) if len(parts) > 1 else None
    if not part:
        return class_of(lower)
    rest = lower[: int(part[1:-1])] if part[0] == ":" else lower[int(part[0]) :]
    return class_of(rest) if len(rest) > 1 else None


def kind_of(character: str) -> str:
    """The kind of a character in `shape`."""
    if character.isupper():
        return "X"
    if character.islower():
        return "x"
    if character.isdigit():
        return "d"
    is_mark = unicodedata.category(character).startswith("M")
    return "a" if character.isalpha() or is_mark else character
