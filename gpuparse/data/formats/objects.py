"""Sentences of Python lists, dicts and tables of columns, as CoNLL-U text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from itertools import chain
from numbers import Integral
from typing import Any

from gpuparse.errors import DataError, did_you_mean, near_names, plural

# The columns of CoNLL-U by the names of keys, in order; ID is the place of the word.
FIELDS = ("form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
PASSED_OVER = {"id", "deps"}  # keys of words that may be there, and are not read
_KNOWN = {*FIELDS, *PASSED_OVER}
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
    read = [
        {"form": sentence}
        if type(sentence) is list and sentence and type(sentence[0]) is str
        else _read_sentence(sentence, fields, f"sentences[{s}]")
        for s, sentence in enumerate(sentences, first)
    ]
    for field in {field for columns in read for field in columns}:
        flat = list(chain.from_iterable(columns.get(field, ()) for columns in read))
        if set(map(type, flat)) <= {str} and all(flat):
            continue
        clean = _forms if field == "form" else partial(_values, field)
        for s, columns in enumerate(read, first):
            if field in columns:
                columns[field] = clean(columns[field], f"sentences[{s}]")
    return read


def table_rows(table: Any) -> Iterator[dict[str, Any]] | None:
    """The rows of a pandas frame or a dict of columns; None for anything else.

    Columns of CoNLL-U's names are read, all others are passed over. pandas is not imported.

    Raises: DataError: there is no column `form`, or columns of a dict differ in length.
    """
    columns: dict[str, Any]
    if is_pandas(table):
        names = list(table.columns)
        for field in FIELDS:
            if names.count(field) > 1:
                raise twice("sentences", field)
        columns = {f: table[f].tolist() for f in FIELDS if f in names}
    elif isinstance(table, Mapping):
        columns = {field: list(table[field]) for field in FIELDS if field in table}
        names = list(table)
    else:
        return None
    if "form" not in columns:
        raise no_form(names)
    sizes = {field: len(values) for field, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"columns of different lengths: {sizes}")
    fields = list(columns)
    return (
        {"form": []}
        | {field: value for field, value in zip(fields, row, strict=True) if value is not None}
        for row in zip(*columns.values(), strict=True)
    )


def twice(source: str, field: str) -> DataError:
    """The error of a table that has a column more than once."""
    return DataError(
        f"{source}: the column {field!r} is there more than once: drop or rename all but one"
    )


def no_form(names: Sequence[Any]) -> DataError:
    """The error of a table without a column `form`."""
    return DataError(
        "a table of sentences has one row per sentence and a column 'form' with the list of its"
        " words, or, for models with a tokeniser, one row per document and a column 'text'; this"
        f" one has the columns {', '.join(map(repr, names[:12]))}"
    )


def is_pandas(table: object) -> bool:
    """True if it is a pandas data frame."""
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
    Raises: DataError: a tab, a line end or NUL in a value, or an unpaired surrogate.
    Cost: about 0.3 us per word.
    """
    there = [columns for columns in sentences if columns["form"]]
    given = {field for columns in there for field in columns}
    values: list[Iterable[str]] = []
    line = "%s"
    for field in FIELDS:
        keys = {field, TAG} if field == tag_field else {field}
        if given.isdisjoint(keys):
            line += "\t_"
            continue
        line += "\t%s"
        values.append(chain.from_iterable([_in_field(columns, keys) for columns in there]))
    numbers = chain.from_iterable(_numbers(len(columns["form"])) for columns in there)
    rows = list(map(line.__mod__, zip(numbers, *values, strict=True)))
    text = "\n".join(rows)[1:] + ("\n\n" if rows else "")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise _separator_error(sentences, first) from None
    if _is_clean(encoded, len(rows), len(there)):
        return encoded
    raise _separator_error(sentences, first)


def _is_clean(text: bytes, n_words: int, n_sentences: int) -> bool:
    """True if a text has no more tabs and line ends than its words and sentences have."""
    return (
        text.count(b"\t") == 9 * n_words
        and text.count(b"\n") == n_words + n_sentences
        and b"\r" not in text
        and b"\0" not in text
    )


def _in_field(columns: Columns, keys: set[str]) -> list[str]:
    """The values of a sentence in the first of some fields that it has, `_` without any."""
    for key in keys & columns.keys():
        return columns[key]
    return ["_"] * len(columns["form"])


@lru_cache(maxsize=1000)
def _numbers(n: int) -> tuple[str, ...]:
    """The numbers of the words of a sentence; the first line comes after a blank one."""
    return ("\n1", *map(str, range(2, n + 1)))


def _read_sentence(sentence: Any, fields: list[str], place: str) -> Columns:
    if isinstance(sentence, Mapping):
        for key in sentence:
            if key not in _KNOWN:
                raise _unknown_key(key, place)
        return _of_columns(sentence, fields, place)
    if isinstance(sentence, (str, bytes)) or not isinstance(sentence, Iterable):
        raise DataError(
            f"{place}: expected {GIVEN}, not {shown(sentence)}; a single sentence is a list of"
            f" one: {EXAMPLE}"
        )
    if isinstance(sentence, Set):
        raise DataError(f"{place}: expected {GIVEN}, not {shown(sentence)}, which has no order")
    words = list(sentence)
    if not words or isinstance(words[0], str):
        return {"form": words}
    first = words[0]
    if isinstance(first, Mapping):
        return _of_dicts(words, fields, place)
    if isinstance(first, Sequence) and not isinstance(first, bytes):
        return _of_pairs(words, place)
    raise DataError(f"{place}[0]: expected {GIVEN}, not of {shown(first)}")


def _of_pairs(words: list[Any], place: str) -> Columns:
    for w, word in enumerate(words):
        if not isinstance(word, Sequence) or isinstance(word, (str, bytes)) or len(word) != 2:
            raise DataError(
                f"{place}[{w}]: expected a (word, tag) pair as before, not {shown(word)};"
                " more columns are given by dicts"
            )
    return {"form": [word for word, _ in words], TAG: [tag for _, tag in words]}


def _of_dicts(words: list[Any], fields: list[str], place: str) -> Columns:
    keys = words[0].keys()
    if all(isinstance(word, dict) and word.keys() == keys for word in words):
        there = set(keys)
    else:
        there = set()
        for w, word in enumerate(words):
            if not isinstance(word, Mapping):
                raise DataError(f"{place}[{w}]: expected a dict as before, not {shown(word)}")
            there.update(word)
    if not _KNOWN.issuperset(there):
        w, unknown = next(
            (w, key) for w, word in enumerate(words) for key in word if key not in _KNOWN
        )
        raise _unknown_key(unknown, f"{place}[{w}]")
    if "id" in there:
        for w, word in enumerate(words):
            if word.get("id", w + 1) not in (w + 1, str(w + 1)):
                raise DataError(
                    f"{place}[{w}]: id {shown(word['id'])}, and not {w + 1}; multiword tokens"
                    " and empty nodes can only be given in CoNLL-U text"
                )
    there.add("form")  # which no word may lack
    columns = {field: [word.get(field) for word in words] for field in fields if field in there}
    return _of_columns(columns, fields, place)


def _unknown_key(key: object, place: str) -> DataError:
    hint = did_you_mean(near_names(str(key), FIELDS))
    text = f"{place}: unknown key {shown(key)}; the keys are {', '.join(FIELDS)}"
    return DataError(f"{text}; {hint}" if hint else text)


def _of_columns(sentence: Mapping[str, Any], fields: list[str], place: str) -> Columns:
    found: Columns = {}
    for field in fields:
        values = sentence.get(field)
        if values is None:
            continue
        if type(values) is not list and (
            isinstance(values, (str, bytes)) or not isinstance(values, Iterable)
        ):
            raise DataError(
                f"{place}: {field}: expected a list with a value per word, not {shown(values)}"
            )
        found[field] = values if type(values) is list else list(values)
    if "form" not in found:
        raise DataError(f"{place}: no key form, the list of its words; [] has no words")
    words = found["form"]
    for field, values in found.items():
        if len(values) != len(words):
            raise DataError(
                f"{place}: {plural(len(words), 'word')} in form, but {len(values)} in {field}"
            )
    return found


def _forms(words: list[Any], place: str) -> list[str]:
    """The words of a sentence; DataError unless all are text."""
    if not (set(map(type, words)) <= {str} and all(words)):
        for w, word in enumerate(words):
            if not isinstance(word, str) or not word:
                raise DataError(f"{place}[{w}]: expected a word, not {shown(word)}")
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
            found.append(value_as_text(value))
        else:
            what = {"head": "a whole number", "feats": "text or a dict", "misc": "text or a dict"}
            expected = what.get(field, "text")
            raise DataError(f"{place}[{w}]: {field}: expected {expected}, not {shown(value)}")
    return found


def value_as_text(items: Mapping[Any, Any]) -> str:
    """FEATS or MISC of a word, given as a dict."""
    return "|".join(f"{key}={item}" for key, item in items.items())


def _separator_error(sentences: Sequence[Columns], first: int) -> DataError:
    """The error of the first value that CoNLL-U cannot hold."""
    for s, columns in enumerate(sentences, first):
        for field, values in columns.items():
            for w, value in enumerate(values):
                half = any("\ud800" <= character <= "\udfff" for character in value)
                if half or any(separator in value for separator in "\t\n\r\0"):
                    what = "an unpaired surrogate" if half else "a tab, a line end or NUL"
                    return DataError(f"sentences[{s}][{w}]: {field} {shown(value)} has {what}")
    raise AssertionError("a text that does not fit its words")


def shown(value: object) -> str:
    """A value and its type, cut where it is long."""
    text = repr(value)
    if "\n" in text:  # a drawing or a table
        return type(value).__name__
    text = text if len(text) <= 40 else text[:37] + "..."
    return text if value is None else f"{type(value).__name__} {text}"
