"""Sentences of Python lists, dicts and tables of columns, as CoNLL-U text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

from gpuparse.errors import DataError

# The columns of CoNLL-U by the names of keys, in order; ID is the place of the word.
FIELDS = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
PASSED_OVER = {"id", "deps"}  # keys of words that may be there, and are not read
TAG = "tag"  # the key of a tag until it is known whether UPOS or XPOS is meant
GIVEN = (
    "a list of words, of (word, tag) pairs or of dicts with the keys form, lemma, upos, xpos, feats"
)
EXAMPLE = 'parse([["The", "cat", "sat"]])'

# The words of one sentence by column; lists of one length.
Columns = dict[str, list[Any]]


def read_sentences(sentences: Iterable[Any], *, keep_heads: bool, first: int = 0) -> list[Columns]:
    """Sentences by columns, their types checked, in one form for all kinds.

    Args:
        sentences: each a list of words, of (word, tag) pairs, of dicts by word, or a dict of
            lists by column.
        keep_heads: whether to read `head` and `deprel`.
        first: number of the first sentence in messages.
    Raises: DataError: names the sentence and word, and says what is expected.
    Cost: O(words).
    """
    fields = [
        field for field in FIELDS if field not in PASSED_OVER
        and (keep_heads or field not in ("head", "deprel"))
    ]  # fmt: skip
    return [
        _read_sentence(sentence, fields, f"sentences[{s}]")
        for s, sentence in enumerate(sentences, first)
    ]


def table_rows(table: Any) -> Iterator[dict[str, Any]] | None:
    """The rows of an Arrow table, a pandas frame or a dict of columns; None for anything else.

    Columns of CoNLL-U's names are read, all others are passed over. Neither package is imported.

    Raises: DataError: there is no column `form`, or columns of a dict differ in length.
    """
    columns: dict[str, Any]
    if is_arrow(table):
        columns = {f: table.column(f).to_pylist() for f in FIELDS if f in table.column_names}
        names = table.column_names
    elif is_pandas(table):
        columns = {f: table[f].tolist() for f in FIELDS if f in table.columns}
        names = list(table.columns)
    elif isinstance(table, Mapping):
        columns = {field: list(table[field]) for field in FIELDS if field in table}
        names = list(table)
    else:
        return None
    if "form" not in columns:
        raise DataError(
            "a table of sentences has one row a sentence and a column 'form' with the list of its"
            f" words; this one has the columns {', '.join(map(repr, names[:12]))}"
        )
    sizes = {field: len(values) for field, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"columns of different lengths: {sizes}")
    fields = list(columns)
    return (
        {field: value for field, value in zip(fields, row, strict=True) if value is not None}
        for row in zip(*columns.values(), strict=True)
    )


def is_arrow(table: object) -> bool:
    """Whether it is an Arrow table or record batch."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(table, (arrow.Table, arrow.RecordBatch))


def is_pandas(table: object) -> bool:
    """Whether it is a pandas data frame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(table, pandas.DataFrame)


def tags_in(sentences: Iterable[Columns]) -> set[str]:
    """The tags of (word, tag) pairs, of which it is not said whether they are UPOS or XPOS."""
    return {tag for columns in sentences for tag in columns.get(TAG, ())}


def as_conllu(sentences: Sequence[Columns], tag_field: str, first: int = 0) -> bytes:
    """The text of sentences of `read_sentences`; a sentence without words has no text.

    Args:
        tag_field: `upos` or `xpos`, what the tag of a (word, tag) pair is.
        first: number of the first sentence in messages.
    Raises: DataError: a tab or a line end in a value, or half a character.
    Cost: about 0.3 us per word.
    """
    blocks, n_words = [], 0
    forms: dict[tuple[str, ...], str] = {}
    for columns in sentences:
        words = columns["form"]
        if not words:
            continue
        key = tuple(columns)
        if key not in forms:
            forms[key] = _row_form(key, tag_field)
        rows = zip(range(1, len(words) + 1), *columns.values(), strict=True)
        blocks.append("\n".join(map(forms[key].__mod__, rows)))
        n_words += len(words)
    text = "\n\n".join(blocks) + ("\n\n" if blocks else "")
    is_clean = (
        text.count("\t") == 9 * n_words
        and text.count("\n") == n_words + len(blocks)
        and "\r" not in text
    )
    try:
        if is_clean:
            return text.encode()
    except UnicodeEncodeError:
        pass
    raise _separator_error(sentences, first)


def _row_form(fields: tuple[str, ...], tag_field: str) -> str:
    """What makes a line of the number of a word and its values in these fields, in their order."""
    named = [tag_field if field == TAG else field for field in fields]
    # The fields of a sentence are in the order of the columns.
    return "\t".join(["%d", *("%s" if field in named else "_" for field in FIELDS)])


def _read_sentence(sentence: Any, fields: list[str], place: str) -> Columns:
    if isinstance(sentence, (str, bytes)) or not isinstance(sentence, Iterable):
        raise DataError(
            f"{place}: expected {GIVEN}, not {_shown(sentence)}; a single sentence is a list of"
            f" one: {EXAMPLE}"
        )
    if isinstance(sentence, Mapping):
        return _of_columns(sentence, fields, place)
    words = list(sentence)
    if set(map(type, words)) <= {str}:
        return {"form": _forms(words, place)}
    first = words[0]
    if isinstance(first, str):
        return {"form": _forms(words, place)}
    if isinstance(first, Mapping):
        return _of_dicts(words, fields, place)
    if isinstance(first, Sequence) and not isinstance(first, bytes):
        return _of_pairs(words, place)
    raise DataError(f"{place}[0]: expected {GIVEN}, not of {_shown(first)}")


def _of_pairs(words: list[Any], place: str) -> Columns:
    for w, word in enumerate(words):
        if not isinstance(word, Sequence) or isinstance(word, (str, bytes)) or len(word) != 2:
            raise DataError(
                f"{place}[{w}]: expected a (word, tag) pair as before, not {_shown(word)};"
                " more columns are given by dicts"
            )
    return {
        "form": _forms([word for word, _ in words], place),
        TAG: _values(TAG, [tag for _, tag in words], place),
    }


def _of_dicts(words: list[Any], fields: list[str], place: str) -> Columns:
    known = {*FIELDS, *PASSED_OVER}
    there: set[str] = set()
    for w, word in enumerate(words):
        if not isinstance(word, Mapping):
            raise DataError(f"{place}[{w}]: expected a dict as before, not {_shown(word)}")
        if not known.issuperset(word):
            unknown = next(key for key in word if key not in known)
            raise DataError(
                f"{place}[{w}]: unknown key {_shown(unknown)}; the keys are {', '.join(FIELDS)}"
            )
        if word.get("id", w + 1) not in (w + 1, str(w + 1)):
            raise DataError(
                f"{place}[{w}]: id {_shown(word['id'])}, and not {w + 1}; multiword tokens and"
                " empty nodes can only be given in CoNLL-U text"
            )
        there.update(word)
    return _of_columns(
        {field: [word.get(field) for word in words] for field in fields if field in there},
        fields,
        place,
    )


def _of_columns(sentence: Mapping[str, Any], fields: list[str], place: str) -> Columns:
    found: Columns = {}
    for field in fields:
        values = sentence.get(field)
        if values is None:
            continue
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise DataError(
                f"{place}: {field}: expected a list with a value per word, not {_shown(values)}"
            )
        values = list(values)
        found[field] = _forms(values, place) if field == "form" else _values(field, values, place)
    words = found.setdefault("form", [])
    for field, values in found.items():
        if len(values) != len(words):
            raise DataError(f"{place}: {len(words)} words in form, but {len(values)} in {field}")
    return found


def _forms(words: list[Any], place: str) -> list[str]:
    """The words of a sentence; DataError unless all are text."""
    if not (set(map(type, words)) <= {str} and all(words)):
        for w, word in enumerate(words):
            if not isinstance(word, str) or not word:
                raise DataError(f"{place}[{w}]: expected a word, not {_shown(word)}")
    return words


def _values(field: str, values: list[Any], place: str) -> list[Any]:
    """The values of a column but FORM: `_` for None and empty text; DataError for other things."""
    if set(map(type, values)) <= {str} and all(values):
        return values
    found: list[Any] = []
    for w, value in enumerate(values):
        if value is None or (isinstance(value, (str, Mapping)) and not value):
            found.append("_")
        elif isinstance(value, str):
            found.append(value)
        elif field == "head" and isinstance(value, Integral):
            found.append(str(int(value)))
        elif field in ("feats", "misc") and isinstance(value, Mapping):
            found.append("|".join(f"{key}={item}" for key, item in value.items()))
        else:
            what = {"head": "a whole number", "feats": "text or a dict", "misc": "text or a dict"}
            expected = what.get(field, "text")
            raise DataError(f"{place}[{w}]: {field}: expected {expected}, not {_shown(value)}")
    return found


def _separator_error(sentences: Sequence[Columns], first: int) -> DataError:
    """The error of the first value that CoNLL-U cannot hold."""
    for s, columns in enumerate(sentences, first):
        for field, values in columns.items():
            for w, value in enumerate(values):
                half = any("\ud800" <= character <= "\udfff" for character in value)
                if half or any(separator in value for separator in "\t\n\r"):
                    what = "half a character" if half else "a tab or a line end"
                    return DataError(f"sentences[{s}][{w}]: {field} {_shown(value)} has {what}")
    raise AssertionError("a text that does not fit its words")


def _shown(value: object) -> str:
    """A value and its type, cut where it is long."""
    text = repr(value)
    text = text if len(text) <= 40 else text[:37] + "..."
    return text if value is None else f"{type(value).__name__} {text}"
