"""A lexicon: values of words from outside of a treebank, such as clusters, that templates read.

A text of tab-separated columns. The first line names them; the first column is what words are
looked up by, `form`, `lower` (the form in lower case) or `lemma`, and templates read column NAME as
the field `lexicon.NAME`:

    lower<TAB>cluster<TAB>frequency
    dog<TAB>01101<TAB>high

A word that is not there, and one whose value is empty or `_`, has no value.
"""

import re
from collections.abc import Callable

from gpuparse.errors import DataError, one_line, plural
from gpuparse.limits import MAX_LEXICON_BYTES, MAX_LEXICON_COLUMNS, MAX_VALUES

PREFIX = "lexicon."
NAME = r"[A-Za-z][A-Za-z0-9_-]{0,39}"
_KEYS = {"form": 1, "lower": 1, "lemma": 2}  # with the columns of CoNLL, from 0
_NONE = ("", "_")


class Lexicon:
    """A lexicon, frozen.

    Args: text: its content. source: names it in messages.
    Attributes:
        text: its content. names: of its columns of values. column: that words are looked up by, 0
            to 9.
    Raises: DataError: it cannot be read; says where.
    Cost: some hundred bytes of memory a row.
    """

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not lines:
            raise DataError(f"{source}:1: an empty lexicon; its first line names the columns")
        if len(lines) > MAX_VALUES:
            raise DataError(f"{source}:{MAX_VALUES + 1}: more than {MAX_VALUES:,} rows")
        key, *names = lines[0].removesuffix("\r").split("\t")
        self.names = tuple(names)
        _check_names(key, names, f"{source}:1")
        self.column = _KEYS[key]
        self._lowers = key == "lower"
        self._rows: dict[str, tuple[str | None, ...]] = {}
        shared: dict[str, str] = {}  # one text for equal values
        for number, line in enumerate(lines[1:], 2):
            word, *values = line.removesuffix("\r").split("\t")
            place = f"{source}:{number}"
            if len(values) != len(names):
                raise DataError(
                    f"{place}: {plural(len(values) + 1, 'column')}, and the first line names"
                    f" {len(names) + 1}"
                )
            word = word.lower() if self._lowers else word
            if not word:
                raise DataError(f"{place}: the column {key!r} is empty")
            if word in self._rows:
                raise DataError(f"{place}: {one_line(word)!r} appears twice")
            self._rows[word] = tuple(
                None if value in _NONE else shared.setdefault(value, value) for value in values
            )

    def reader(self, field: str) -> Callable[[str], str | None]:
        """The function from a string of `column` to the value of a field `lexicon.NAME`.

        Raises: ValueError: there is no such column.
        """
        number = self.names.index(field.removeprefix(PREFIX))
        rows, nothing = self._rows, (None,) * len(self.names)
        if self._lowers:
            return lambda text: rows.get(text.lower(), nothing)[number]
        return lambda text: rows.get(text, nothing)[number]


def read_lexicon(path: str) -> Lexicon:
    """Read a lexicon.

    Raises: DataError: the file cannot be read, or not as a lexicon; says where.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_LEXICON_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_LEXICON_BYTES:
        raise DataError(f"{path}: a lexicon has at most {MAX_LEXICON_BYTES:,} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: not UTF-8") from error
    return Lexicon(text.removeprefix("\ufeff"), path)


def is_lexicon_field(field: str) -> bool:
    """Whether a field is of the form `lexicon.NAME`."""
    return re.fullmatch(re.escape(PREFIX) + NAME, field) is not None


def _check_names(key: str, names: list[str], place: str) -> None:
    if key not in _KEYS:
        raise DataError(
            f"{place}: the first column is named {one_line(key)!r}; expected form, lower or lemma,"
            " by which words are looked up"
        )
    if not 1 <= len(names) <= MAX_LEXICON_COLUMNS:
        raise DataError(
            f"{place}:"
            f" {plural(len(names), 'column')} of values; expected 1 to {MAX_LEXICON_COLUMNS}"
        )
    for name in names:
        if not re.fullmatch(NAME, name):
            raise DataError(
                f"{place}: {one_line(name)!r}: expected a name of up to 40 letters, digits, - and _"
            )
    if len(set(names)) < len(names):
        raise DataError(f"{place}: a name appears twice")
