"""Strings to ids: fields of words, one vocabulary per field, and treebanks to batches."""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise, repeat
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, MARGIN, ROOT, UNKNOWN, Batch
from gpuparse.data.cached import SharedCache, cached_property
from gpuparse.data.columns import FEATS, UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.limits import MAX_FIELDS, MAX_VALUES

MAX_FINE_TAGS = 64  # a larger fine tag set is too sparse for `pos`
_CACHE_LIMIT = 1 << 20  # distinct words, or strings of a column, in a cache before it is cleared

_COLUMNS = {"form": 1, "lower": 1, "lemma": 2, "cpos": 3, "fpos": 4, "feats": 5}
_SLICE = re.compile(r"(form|lower|lemma)\[(?::(?P<first>[1-9])|-(?P<last>[1-9]):)\]")
_FEW = 64  # words
NO_FORMS = "merge the text of the treebank in, as its README says"
EMPTY = -1


class Vocabularies:
    """The frozen values of each field that occurred in training.

    Args:
        values: for each field its known values, in the order of their ids from FIRST_VALUE.
        pos_column: the column that `pos` reads, 3 (coarse) or 4 (fine).
    """

    def __init__(self, values: Mapping[str, Sequence[str]], pos_column: int) -> None:
        self.values = {field: list(known) for field, known in values.items()}
        self.pos_column = pos_column
        self._ids: dict[str, dict[str | None, int]] = {
            field: dict(zip(known, range(FIRST_VALUE, FIRST_VALUE + len(known)), strict=True))
            for field, known in self.values.items()
        }

    @property
    def fields(self) -> list[str]:
        """The fields in the order of a batch's rows."""
        return list(self.values)

    @cached_property
    def known_by_column(self) -> dict[int, list[str]]:
        """The fields with known values by the column that they are read from, ascending."""
        fields: dict[int, list[str]] = {}
        for field, known in self.values.items():
            if known:
                fields.setdefault(self.column(field), []).append(field)
        return dict(sorted(fields.items()))

    def column(self, field: str) -> int:
        """The CoNLL column, 0 to 9, that a field is read from."""
        return _column_of(field, self.pos_column)

    def size(self, field: str) -> int:
        """One more than the largest id of a field."""
        return FIRST_VALUE + len(self.values[field])

    def ids(self, field: str, values: Iterable[str | None]) -> list[int]:
        """The ids of a field's values; UNKNOWN for those that were never seen or are None."""
        return list(map(self._ids[field].get, values, repeat(UNKNOWN)))

    @classmethod
    def build(cls, treebank: Treebank, fields: Iterable[str], pos_column: int) -> "Vocabularies":
        """Every value that the treebank's words have, in order of first appearance.

        Raises: ConfigError: more fields or values than a vocabulary may have.
        Cost: one pass a column, and Python for each distinct string.
        """
        strings: dict[int, list[str]] = {}
        values: dict[str, list[str]] = {}
        for field in fields:
            source = _column_of(field, pos_column)
            if source not in strings:
                strings[source] = distinct(treebank, source)
            read = reader(field)
            found = (read(text) for text in strings[source])
            values[field] = list(dict.fromkeys(value for value in found if value is not None))
        check_size(values)
        return cls(values, pos_column)


def _column_of(field: str, pos_column: int) -> int:
    return pos_column if field == "pos" else column(field)


def check_size(values: Mapping[str, Sequence[str]]) -> None:
    """Make sure that a vocabulary is not larger than models may have.

    Raises: ConfigError: it is.
    """
    n_values = sum(map(len, values.values()))
    if len(values) > MAX_FIELDS or n_values > MAX_VALUES:
        raise ConfigError(
            f"{len(values):,} fields with {n_values:,} values; at most {MAX_FIELDS:,} fields with"
            f" {MAX_VALUES:,} values can be read: choose templates that look at fewer"
        )


def distinct(treebank: Treebank, source: int) -> list[str]:
    """The distinct strings of a column, in order of first appearance."""
    return column_ids(treebank, source)[1]


def column_ids(treebank: Treebank, source: int) -> tuple[np.ndarray, list[str]]:
    """(W,) int32 numbers of a column's strings, and the strings, in order of first appearance.

    They are found once for a treebank, and shared by all callers.
    """
    found = treebank.interned.get(source)
    if found is None:
        find = _few_strings if treebank.n_words <= _FEW else _many_strings
        found = treebank.interned[source] = find(treebank.data, *_slices(treebank, source))
        found[0].flags.writeable = False
    return found


def _many_strings(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    interner = Interner()
    return interner.intern(data, starts, ends), interner.strings()


def _few_strings(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """As `_many_strings`, without making a table: faster for some dozens."""
    numbers: dict[str, int] = {}
    view = data.data  # whose slices cost less than an array's
    ids = [
        numbers.setdefault(str(view[start:end], "utf-8"), len(numbers))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return np.array(ids, np.int32), list(numbers)


def in_order(ids: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """A column as `column_ids` has it, of (W,) numbers of distinct names, used or not.

    Raises: IndexError: a number of no name.
    """
    if len(ids) <= _FEW:
        numbers: dict[int, int] = {}
        few = np.array([numbers.setdefault(i, len(numbers)) for i in ids.tolist()], np.int32)
        few.flags.writeable = False
        return few, [names[i] for i in numbers]
    firsts = np.full(len(names), len(ids))
    firsts[ids[::-1]] = np.arange(len(ids))[::-1]
    used = np.flatnonzero(firsts < len(ids))
    order = used[np.argsort(firsts[used])]
    places = np.empty(len(names), np.int32)
    places[order] = np.arange(len(order))
    made = places[ids]
    made.flags.writeable = False
    return made, [names[i] for i in order.tolist()]


def numbered_rows(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(W,) int32 numbers of the joint values of some columns, and the first word of each.

    Args: columns: at least one, (W,) numbers of int32.
    Returns: numbers in order of first appearance; (K,) int64.
    """
    if len(columns[0]) <= _FEW:
        seen: dict[tuple[int, ...], int] = {}
        lists = zip(*(column.tolist() for column in columns), strict=True)
        few = [seen.setdefault(row, len(seen)) for row in lists]
        return np.array(few, np.int32), np.array([few.index(k) for k in range(len(seen))], np.int64)
    rows = np.stack(columns, axis=1, dtype=np.int32)
    numbers, firsts = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
    return numbers, firsts[: native.call("number_rows", rows, _KEY, numbers, firsts)]


def empty_columns(treebank: Treebank, read: Mapping[int, Sequence[str]]) -> dict[int, list[str]]:
    """Columns that are `_` in every word, though something is read there.

    Args: read: names of what is read, by column, 0 to 9.
    Returns: of these the empty ones.
    Cost: O(words) in numpy.
    """
    return {
        column: list(read[column]) for column in sorted(read) if is_empty_column(treebank, column)
    }


def is_empty_column(treebank: Treebank, source: int) -> bool:
    """True if a column, 0 to 9, is `_` in every word."""
    starts, ends = _slices(treebank, source)
    if len(starts) and treebank.data[starts[0]] != ord("_"):
        return False
    return bool((ends - starts == 1).all() and (treebank.data[starts] == ord("_")).all())


def choose_pos_column(treebank: Treebank, wish: str) -> int:
    """The column that `pos` reads: `coarse`, `fine`, or `auto`.

    `auto` takes the fine tags where the treebank has between 2 and MAX_FINE_TAGS of them, or
    where it has no coarse ones.
    """
    if wish == "auto":
        coarse, fine = (len(set(distinct(treebank, source)) - {"_"}) for source in (UPOS, XPOS))
        wish = "fine" if 2 <= fine <= MAX_FINE_TAGS or coarse == 0 else "coarse"
    return XPOS if wish == "fine" else UPOS


def seen_attributes(treebank: Treebank) -> list[str]:
    """The names of the FEATS attributes of a treebank, sorted.

    Names with blanks in them, which no template could be written with, are left out.
    """
    names = {name for feats in distinct(treebank, FEATS) for name in attributes(feats)}
    return sorted(name for name in names if not re.search(r"\s", name))


def frequent_pairs(treebank: Treebank, most: int) -> list[tuple[str, str]]:
    """The pairs of FEATS attributes, the head's first, that the most arcs of a treebank have.

    Args:
        treebank: words with gold heads or none.
        most: number of pairs to choose. The attributes of the pairs are among the `most` that the
            most words have. Ties go to the first in the order of names.
    Returns: Sorted pairs.
    Cost: O(words) in numpy for each of at most `most` attributes.
    """
    ids, strings = column_ids(treebank, FEATS)
    n_words = np.bincount(ids, minlength=len(strings))
    names = seen_attributes(treebank)
    found = [attributes(text) for text in strings]
    words = Counter[str]()
    for count, present in zip(n_words.tolist(), found, strict=True):
        words.update(dict.fromkeys(present, count))
    names = sorted(sorted(names, key=lambda name: -words[name])[:most])
    has = np.array([[name in present for name in names] for present in found], np.int64)
    first = np.repeat(treebank.word_starts[:-1], np.diff(treebank.word_starts))
    modifiers = np.flatnonzero(treebank.heads > 0)
    heads = first[modifiers] + treebank.heads[modifiers] - 1
    counts: dict[tuple[str, str], int] = {}
    for one, name in enumerate(names):
        of_name = modifiers[has[ids[heads], one] != 0]
        n_arcs = np.bincount(ids[of_name], minlength=len(strings)) @ has
        counts |= {(name, other): int(n) for other, n in zip(names, n_arcs, strict=True) if n}
    return sorted(sorted(counts, key=lambda pair: (-counts[pair], pair))[:most])


class Encoder:
    """Treebanks to batches under frozen vocabularies; many threads may use it at once.

    A string of a column is processed in Python once.
    """

    def __init__(self, vocabularies: Vocabularies) -> None:
        self.vocabularies = vocabularies
        columns = [vocabularies.column(field) for field in vocabularies.fields]
        self._read = list(dict.fromkeys(columns))
        self._column_of = np.array([self._read.index(each) for each in columns], np.int64)
        self._strings = SharedCache(lambda: _Strings(vocabularies))

    def encode(self, treebank: Treebank) -> Batch:
        """All sentences of a treebank as one batch on the CPU.

        Cost: O(words), and O(distinct strings) in Python.
        """
        found = [column_ids(treebank, column) for column in self._read]
        lock, strings = self._strings.take()
        with lock:
            rows, table = strings.find([names for _, names in found])
        n_sentences, n_words = len(treebank), treebank.n_words
        ids = np.array([each for each, _ in found], np.int32).reshape(len(found), n_words)
        n_tokens = n_words + (1 + 2 * MARGIN) * n_sentences
        values = np.empty((len(self._column_of), n_tokens), np.int32)
        starts, word_starts = np.empty(n_sentences, np.int64), treebank.word_starts
        ends = np.array(list(accumulate(map(len, rows), initial=0)), np.int64)
        native.call(
            "encode_words", word_starts, ids, np.array(list(chain.from_iterable(rows)), np.int64),
            ends, self._column_of, table, values, starts,
        )  # fmt: skip
        return Batch(values, starts, word_starts[1:] - word_starts[:-1])


class _Strings:
    """The strings of columns met so far, and the value ids of the fields read from them.

    Rows of the table are never changed once they are used, so that threads read them without a
    lock; the first three are of no strings, but of the root and edges. A field that is not
    read from a string's column has no id.
    """

    def __init__(self, vocabularies: Vocabularies) -> None:
        self._fields: dict[int, list[tuple[int, str, Callable[[str], str | None]]]] = {}
        for number, field in enumerate(vocabularies.fields):
            of_column = self._fields.setdefault(vocabularies.column(field), [])
            of_column.append((number, field, reader(field)))
        self._ids_of, self._n_fields = vocabularies.ids, len(vocabularies.fields)
        self._clear()

    def _clear(self) -> None:
        self._rows: list[dict[str, int]] = [{} for _ in self._fields]
        self._size = 3
        self._table = np.zeros((1024, self._n_fields), np.int32)
        self._table[:3] = np.array([[ROOT], [BEFORE], [AFTER]])

    def find(self, columns: Sequence[Sequence[str]]) -> tuple[list[list[int]], np.ndarray]:
        """The rows of distinct strings of each column, and the table; new ones are added."""
        if self._size > _CACHE_LIMIT:
            self._clear()
        for names, known, fields in zip(columns, self._rows, self._fields.values(), strict=True):
            if new := [name for name in names if name not in known]:
                first, self._size = self._size, self._size + len(new)
                if self._size > len(self._table):
                    more = 2 * self._size - len(self._table)
                    self._table = np.pad(self._table, ((0, more), (0, 0)))
                for number, field, read in fields:
                    self._table[first : self._size, number] = self._ids_of(field, map(read, new))
                known.update(zip(new, range(first, self._size), strict=True))
        found = [
            [known[name] for name in names]
            for names, known in zip(columns, self._rows, strict=True)
        ]
        return found, self._table


def _slices(treebank: Treebank, source: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the past-the-end byte of a column in all words."""
    return treebank.columns[:, source], treebank.columns[:, source + 1] - 1


def is_field(name: str) -> bool:
    """True if `name` is a field (`pos` is cpos or fpos, as `data.pos` says)."""
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
        cased = str.lower if match[1] == "lower" else str
        if match["first"]:
            end = int(match["first"])
            return lambda text: cased(text)[:end] if len(text) > end else None
        start = int(match["last"])
        return lambda text: cased(text)[-start:] if len(text) > start else None
    if field == "form":
        return lambda text: text
    if field == "lower":
        return str.lower
    if field.startswith("feats."):
        name = field.removeprefix("feats.")
        return lambda text: attributes(text).get(name)
    return lambda text: None if text == "_" else text


def attributes(feats: str) -> dict[str, str]:
    """The attributes of a FEATS column: `Case=Nom|Number=Sing`; a bare flag is its own name."""
    if feats == "_":
        return {}
    pairs = (piece.partition("=") for piece in feats.split("|"))
    return {name: value or name for name, _, value in pairs if name}


class StringTable(NamedTuple):
    """The arrays of a hash table; see native/api/conll.h."""

    key: int
    slots: np.ndarray
    hashes: np.ndarray
    ends: np.ndarray
    pool: np.ndarray


_KEY = int.from_bytes(os.urandom(8)) >> 1  # of hashes, on which no result depends


class Interner:
    """Strings seen so far, each with a dense id from 0 in order of first appearance.

    Many threads may call find at once; intern takes a lock. A find beside an intern may miss what
    is being added, no more. Where processes fork, a `SharedCache` has to keep it.
    """

    def __init__(self, strings: Iterable[bytes] = ()) -> None:
        """Args: strings: to begin with; all different, or ValueError."""
        self._lock = threading.Lock()
        self._size = 0
        # Random, but no result depends on it: ids follow the order of the strings.
        self._keep(_empty_table(int.from_bytes(os.urandom(8)) >> 1, 64, 1024))
        given = list(strings)
        if not given:
            return
        ends = np.cumsum([0, *map(len, given)], dtype=np.int64)
        self.intern(np.frombuffer(b"".join(given), np.uint8), ends[:-1], ends[1:])
        if len(self) != len(given):
            raise ValueError(f"{len(given) - len(self)} of the strings appear twice")

    def __len__(self) -> int:
        """Number of strings."""
        return self._size

    def intern(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Ids of the strings data[starts[k]:ends[k]]; new strings are added.

        Args: data (uint8), starts and ends (K,) offsets into it.
        Returns: (K,) int32.
        Raises: ValueError where an offset lies outside of data.
        Cost: about 20 ns a string of few bytes.
        """
        first_bytes, last_bytes, ids = _offsets(data, starts, ends)
        with self._lock:
            done, size = 0, np.array([self._size])
            while True:
                done = native.call(
                    "add_strings", data, first_bytes, last_bytes, self._struct, done, size, ids
                )
                self._size = int(size[0])
                if done == len(ids):
                    return ids
                used = int(self._table.ends[self._size])
                more = int(last_bytes[done] - first_bytes[done])
                self._reserve(2 * (self._size + 1), 2 * (used + more))

    def find(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Ids of the strings data[starts[k]:ends[k]]; -1 for those never interned.

        Args, returns, raises and cost: as intern. Nothing is changed.
        """
        first_bytes, last_bytes, ids = _offsets(data, starts, ends)
        native.call("find_strings", data, first_bytes, last_bytes, self._struct, ids)
        return ids

    @property
    def struct(self) -> native.Struct:
        """The StringTable of native/api/conll.h, as long as nothing is added."""
        return self._struct

    def strings(self) -> list[str]:
        """All strings, in the order of their ids, as text."""
        ends = self._table.ends[: self._size + 1]
        pool = self._table.pool[: ends[-1]]
        text = pool.tobytes().decode()
        if len(text) < len(pool):  # ends in characters
            is_first = (pool & 0xC0) != 0x80
            ends = np.append(0, is_first.cumsum())[ends]
        return [text[a:b] for a, b in pairwise(ends.tolist())]

    def _reserve(self, n_strings: int, n_bytes: int) -> None:
        """New arrays with room for more strings, and the present strings in them."""
        old = self._table
        table = _empty_table(old.key, n_strings, n_bytes)
        n_used = old.ends[self._size]
        table.hashes[: self._size] = old.hashes[: self._size]
        table.ends[: self._size + 1] = old.ends[: self._size + 1]
        table.pool[:n_used] = old.pool[:n_used]
        native.call("fill_slots", table, self._size)
        self._keep(table)

    def _keep(self, table: StringTable) -> None:
        self._table, self._struct = table, native.struct("StringTable", table)


def _empty_table(key: int, n_strings: int, n_bytes: int) -> StringTable:
    """Arrays with room for `n_strings` of `n_bytes` together."""
    n_slots = 1 << (2 * n_strings - 1).bit_length()  # at most half of the slots are in use
    return StringTable(
        key,
        np.full(n_slots, EMPTY, np.int32),
        np.zeros(n_strings, np.uint64),
        np.zeros(n_strings + 1, np.int64),
        np.zeros(n_bytes, np.uint8),
    )


def _offsets(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends as native code takes them, and room for their ids.

    Raises: ValueError where a string does not lie in data.
    """
    first_bytes = np.ascontiguousarray(starts, np.int64)
    last_bytes = np.ascontiguousarray(ends, np.int64)
    if first_bytes.shape != last_bytes.shape or first_bytes.ndim != 1:
        raise ValueError(f"starts {first_bytes.shape} and ends {last_bytes.shape} differ in shape")
    if len(first_bytes):
        in_order = bool(np.all(first_bytes <= last_bytes))
        if not in_order or first_bytes.min() < 0 or last_bytes.max() > len(data):
            raise ValueError("a string ends before it starts, or lies outside of data")
    return first_bytes, last_bytes, np.empty(len(first_bytes), np.int32)
