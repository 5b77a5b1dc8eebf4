"""Atoms of templates: one look at one word, as `h.form`, `m-1.pos` or `w.feats.Case`.

Templates of arcs, labels, word vectors and sequences consist of them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuparse.data.vocabulary import is_field
from gpuparse.errors import ConfigError

MAX_OFFSET = 3
_ATOM = re.compile(r"(?P<role>[a-z])(?P<offset>[+-][0-9]{1,9})?\.(?P<field>.+)")


@dataclass(frozen=True, order=True)
class Atom:
    """One look at one word: `role` plus `offset` words, in the column `field`."""

    role: str
    offset: int
    field: str

    def __str__(self) -> str:
        offset = f"{self.offset:+d}" if self.offset else ""
        return f"{self.role}{offset}.{self.field}"


def parse_atom(
    word: str, text: str, roles: Sequence[str], *, most: int = MAX_OFFSET,
    has_field: Callable[[str], bool] | None = None,
) -> Atom:  # fmt: skip
    """Read one atom.

    Args:
        word: the atom; text: the template that it is of, for messages; roles: those allowed.
        most: words to either side that it may look. has_field: whether a name is a field; None:
            the fields of parsers.
    Raises: ConfigError: an unknown role or field; an offset above `most`.
    """
    match = _ATOM.fullmatch(word)
    if match is None or match["role"] not in roles:
        others = "" if roles == ("w",) else ", between.FIELD, direction or distance"
        raise ConfigError(
            f"template '{text}': cannot read '{word}'; write ROLE.FIELD with a role of "
            f"{', '.join(roles)} ({roles[0]}+1 is the next word){others}"
        )
    offset = int(match["offset"] or 0)
    if abs(offset) > most:
        raise ConfigError(f"template '{text}': '{word}' looks further than {most} words")
    if has_field is not None:
        if not has_field(match["field"]):
            raise ConfigError(f"template '{text}': unknown field '{match['field']}'")
        return Atom(match["role"], offset, match["field"])
    return Atom(match["role"], offset, checked_field(match["field"], text))


def checked_field(field: str, text: str) -> str:
    """The field itself. Raises: ConfigError: there is no such field; text: the template."""
    if not is_field(field):
        raise ConfigError(
            f"template '{text}': unknown field '{field}'; fields are form, lower, lemma, cpos, "
            "fpos, pos, feats, feats.NAME, feats.*, feats.**, and slices such as"
            " form[:5] or lemma[-3:]"
        )
    return field
