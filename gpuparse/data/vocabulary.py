"""Strings to value ids, one vocabulary per field, and treebanks to batches."""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, MARGIN, ROOT, UNKNOWN, Batch
from gpuparse.data.conll import Treebank
from gpuparse.data.fields import attributes, column, reader
from gpuparse.data.interner import Interner

_FORM, _COARSE, _FINE, _FEATS = 1, 3, 4, 5
MAX_FINE_TAGS = 64  # a larger fine tag set is too sparse for `pos`
_CACHE_LIMIT = 1 << 20  # distinct strings of a column in the cache before it is cleared


class Vocabularies:
    """The frozen values of each field that occurred in training.

    Args:
        values: for each field its known values, in the order of their ids from FIRST_VALUE.
        pos_column: the column that `pos` reads, 3 (coarse) or 4 (fine).
    """

    def __init__(self, values: Mapping[str, Sequence[str]], pos_column: int) -> None:
        self.values = {field: list(known) for field, known in values.items()}
        self.pos_column = pos_column
        self._ids = {
            field: {value: FIRST_VALUE + i for i, value in enumerate(known)}
            for field, known in self.values.items()
        }

    @property
    def fields(self) -> list[str]:
        """The fields in the order of a batch's rows."""
        return list(self.values)

    def column(self, field: str) -> int:
        """The CoNLL column, 0 to 9, that a field is read from."""
        return self.pos_column if field == "pos" else column(field)

    def size(self, field: str) -> int:
        """One more than the largest id of a field."""
        return FIRST_VALUE + len(self.values[field])

    def id(self, field: str, value: str | None) -> int:
        """The id of a field's value; UNKNOWN where it was never seen or is None."""
        return UNKNOWN if value is None else self._ids[field].get(value, UNKNOWN)

    @classmethod
    def build(cls, treebank: Treebank, fields: Iterable[str], pos_column: int) -> "Vocabularies":
        """Every value that the treebank's words have, in order of first appearance.

        Cost: one pass a column, and Python for each distinct string.
        """
        strings: dict[int, list[str]] = {}
        values: dict[str, list[str]] = {}
        for field in fields:
            source = pos_column if field == "pos" else column(field)
            if source not in strings:
                strings[source] = distinct(treebank, source)
            read = reader(field)
            found = (read(text) for text in strings[source])
            values[field] = list(dict.fromkeys(value for value in found if value is not None))
        return cls(values, pos_column)


def distinct(treebank: Treebank, source: int) -> list[str]:
    """The distinct strings of a column, in order of first appearance."""
    return column_ids(treebank, source)[1]


def column_ids(treebank: Treebank, source: int) -> tuple[np.ndarray, list[str]]:
    """(W,) int32 numbers of a column's strings, and the strings, in order of first appearance."""
    interner = Interner()
    ids = interner.intern(treebank.data, *_slices(treebank, source))
    return ids, [interner.string(i).decode() for i in range(len(interner))]


def empty_columns(treebank: Treebank, vocabularies: Vocabularies) -> dict[int, list[str]]:
    """Columns that are `_` in every word, though values of them are known.

    Args:
        treebank: words to be read under the vocabularies.
        vocabularies: the known values.
    Returns:
        By column, 0 to 9 but never FORM, whose `_` is a word: the fields with known values.
    Cost: O(words) in numpy.
    """
    fields: dict[int, list[str]] = {}
    for field, known in vocabularies.values.items():
        if known:
            fields.setdefault(vocabularies.column(field), []).append(field)
    fields.pop(_FORM, None)
    return {source: fields[source] for source in sorted(fields) if _is_empty(treebank, source)}


def _is_empty(treebank: Treebank, source: int) -> bool:
    starts, ends = _slices(treebank, source)
    return bool((ends - starts == 1).all() and (treebank.data[starts] == ord("_")).all())


def choose_pos_column(treebank: Treebank, wish: str) -> int:
    """The column that `pos` reads: `coarse`, `fine`, or `auto`.

    `auto` takes the fine tags where the treebank has between 2 and MAX_FINE_TAGS of them, or
    where it has no coarse ones.
    """
    if wish == "auto":
        coarse, fine = (len(set(distinct(treebank, source)) - {"_"}) for source in (_COARSE, _FINE))
        wish = "fine" if 2 <= fine <= MAX_FINE_TAGS or coarse == 0 else "coarse"
    return _FINE if wish == "fine" else _COARSE


def seen_attributes(treebank: Treebank) -> list[str]:
    """The names of the FEATS attributes of a treebank, sorted.

    Names with blanks in them, which no template could be written with, are left out.
    """
    names = {name for feats in distinct(treebank, _FEATS) for name in attributes(feats)}
    return sorted(name for name in names if not re.search(r"\s", name))


class Encoder:
    """Treebanks to batches under frozen vocabularies.

    A string is processed in Python once, at its first occurrence; after that a word costs one
    look-up per column.
    """

    def __init__(self, vocabularies: Vocabularies) -> None:
        self.vocabularies = vocabularies
        by_column: dict[int, list[int]] = {}
        for row, field in enumerate(vocabularies.fields):
            by_column.setdefault(vocabularies.column(field), []).append(row)
        self._columns = {source: _Column(vocabularies, rows) for source, rows in by_column.items()}

    def encode(self, treebank: Treebank) -> Batch:
        """All sentences of a treebank as one batch on the CPU.

        Cost: O(words), and O(distinct new strings) in Python.
        """
        counts = np.diff(treebank.word_starts)
        ends = np.cumsum(counts + 1 + 2 * MARGIN)
        starts = ends - counts - 1 - MARGIN
        places = np.arange(treebank.n_words) + np.repeat(
            starts + 1 - treebank.word_starts[:-1], counts
        )
        total = int(ends[-1]) if len(ends) else 0
        values = np.empty((len(self.vocabularies.fields), total), np.int32)
        values[:] = BEFORE
        for step in range(MARGIN):
            values[:, ends - 1 - step] = AFTER
        values[:, starts] = ROOT
        for source, known in self._columns.items():
            known.fill(values, places, treebank.data, *_slices(treebank, source))
        return Batch(values, starts, counts)


class _Column:
    """One column's strings met so far, and the value ids of the fields read from it."""

    def __init__(self, vocabularies: Vocabularies, rows: list[int]) -> None:
        self._vocabularies = vocabularies
        self._rows = rows
        self._readers = [(f := vocabularies.fields[row], reader(f)) for row in rows]
        self._clear()

    def _clear(self) -> None:
        self._interner = Interner()
        self._ids = np.empty((len(self._rows), 0), np.int32)

    def fill(
        self, values: np.ndarray, places: np.ndarray, data: np.ndarray,
        starts: np.ndarray, ends: np.ndarray,
    ) -> None:  # fmt: skip
        """Write the ids of one column's fields into their rows of `values`."""
        if len(self._interner) > _CACHE_LIMIT:
            self._clear()
        strings = self._interner.intern(data, starts, ends)
        self._learn()
        for row, ids in zip(self._rows, self._ids, strict=True):
            values[row, places] = ids[strings]

    def _learn(self) -> None:
        first = self._ids.shape[1]
        texts = [self._interner.string(i).decode() for i in range(first, len(self._interner))]
        if texts:
            new = [
                [self._vocabularies.id(field, read(text)) for text in texts]
                for field, read in self._readers
            ]
            self._ids = np.concatenate([self._ids, np.array(new, np.int32)], axis=1)


def _slices(treebank: Treebank, source: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the past-the-end byte of a column in every word."""
    return treebank.columns[:, source], treebank.columns[:, source + 1] - 1
