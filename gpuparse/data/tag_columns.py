"""Columns of all words as distinct texts and numbers, and treebanks with other such columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.columns import DEPS, is_value, joined_names
from gpuparse.data.treebank import Computed, Treebank
from gpuparse.data.vocabulary import column_ids, in_order
from gpuparse.errors import DataError
from gpuparse.limits import MAX_TAG

_ENDS = 1  # byte behind a column: its tab or line end


class Column(NamedTuple):
    """A column of all words: distinct texts, and (W,) int32 numbers of them."""

    names: Sequence[str]
    ids: np.ndarray

    @classmethod
    def of_texts(cls, texts: Sequence[str], ids: np.ndarray) -> "Column":
        """A column of texts that may come twice, by (W,) numbers of them."""
        names = list(dict.fromkeys(texts))
        places = {name: place for place, name in enumerate(names)}
        return cls(names, np.array([places[text] for text in texts], np.int32)[ids])

    def texts(self) -> list[str]:
        """The text of every word."""
        return [self.names[i] for i in self.ids.tolist()]


def read_column(treebank: Treebank, column: int) -> Column:
    """One column, 0 to 9, of a treebank's words."""
    ids, names = column_ids(treebank, column)
    return Column(names, ids)


def require_values(treebank: Treebank, column: str, texts: Iterable[str]) -> None:
    """DataError for a text that a model may not write into a column, such as one with NUL."""
    for text in texts:
        wrong = "" if is_value(text) else "it is blank or has NUL"
        if column != "LEMMA" and len(text) > MAX_TAG:
            wrong = f"it has more than {MAX_TAG:,} characters"
        if wrong:
            raise DataError(
                f"{treebank.source}: {column}: {text[:40]!r} cannot be learned: {wrong}; write _ in"
                " its place"
            )


def filled(given: Column, found: Column) -> Column:
    """The texts of `given`, and where it has `_`, those of `found`."""
    is_given = np.array([name != "_" for name in given.names], np.bool_)[given.ids]
    ids = np.where(is_given, given.ids, len(given.names) + found.ids)
    return Column.of_texts([*given.names, *found.names], ids)


def without_deps(treebank: Treebank) -> Treebank:
    """The treebank with `_` in DEPS of all words, which belongs to other trees than new ones.

    Rows of empty nodes are unchanged.
    """
    spans = treebank.columns[:, [DEPS, DEPS + 1]]
    is_empty = (spans[:, 1] - spans[:, 0] == 1 + _ENDS) & (treebank.data[spans[:, 0]] == ord("_"))
    if is_empty.all():
        return treebank
    return with_columns(treebank, {DEPS: Column(["_"], np.zeros(treebank.n_words, np.int32))})


class RewrittenTreebank(Treebank):
    """A treebank with other texts in some columns; its bytes are written when asked for."""

    def __getattr__(self, name: str) -> Any:  # only where there is no such attribute yet
        if name not in _OF_BYTES:
            raise AttributeError(name)
        # Threads that ask at once write the same.
        unwritten: tuple[Treebank, list[int]] | None = self.__dict__.get("unwritten")
        if unwritten is not None:
            self.__dict__.update(_written(*unwritten, self.interned), unwritten=None)
        if name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]


_OF_BYTES = ("data", "columns", "spans", "dropped")


def unrewritten(treebank: Treebank) -> Treebank:
    """The treebank as its bytes are now, for those that read other columns, or comments, alone.

    It saves writing the bytes of `with_columns`.
    """
    waiting: tuple[Treebank, list[int]] | None = treebank.__dict__.get("unwritten")
    return treebank if waiting is None else unrewritten(waiting[0])


def with_columns(treebank: Treebank, columns: Mapping[int, Column]) -> Treebank:
    """The treebank with other texts in successive columns; all other bytes are kept.

    Args: columns: by number, 0 to 9, without gaps; texts without tabs and line ends.
    Raises: ValueError: columns with a gap, or that do not fit the words. IndexError: a number of
        no text.
    Cost: some nanoseconds per word; when the bytes are first asked for, one copy of them.
    """
    numbers = sorted(columns)
    if numbers != list(range(numbers[0], numbers[-1] + 1)):
        raise ValueError(f"the columns {numbers} do not follow each other")
    if any(len(column.ids) != treebank.n_words for column in columns.values()):
        raise ValueError(f"the columns {numbers} do not have {treebank.n_words} words each")
    interned = dict(treebank.interned)
    for number, column in columns.items():
        interned[number] = in_order(column.ids, column.names)
    made = RewrittenTreebank.__new__(RewrittenTreebank)
    kept = {name: value for name, value in treebank.__dict__.items() if name not in _OF_BYTES}
    if "computed" in kept:
        before, kept["computed"] = treebank.computed.items(), Computed()
        kept["computed"].update(
            (by, found) for by, found in before if not by.reads.keys() & columns.keys()
        )
    made.__dict__.update(kept, interned=interned, unwritten=(treebank, numbers))
    return made


def _written(
    treebank: Treebank, numbers: list[int], interned: dict[int, tuple[np.ndarray, list[str]]]
) -> dict[str, np.ndarray]:
    """The bytes with other texts in successive columns, and where all is in them."""
    first, last = numbers[0], numbers[-1] + 1
    names: list[bytes] = []
    ids = np.empty((last - first, treebank.n_words), np.int32)
    for row, number in enumerate(numbers):
        of_words, texts = interned[number]
        ids[row] = of_words + np.int32(len(names))
        names += [text.encode() for text in texts]
    table = joined_names(names)
    lengths = (table.ends[1:] - table.ends[:-1])[ids]
    old = treebank.columns
    grown = lengths + _ENDS - (old[:, first + 1 : last + 1] - old[:, first:last]).T
    change = np.concatenate([[0], np.cumsum(grown.sum(0))])  # of offsets, by words passed
    data = np.empty(len(treebank.data) + int(change[-1]), np.uint8)
    native.call("set_columns", treebank.data, old, first, table.bytes, table.ends, ids, data)
    moved = old + change[:-1, None]
    moved[:, first + 1 : last + 1] += np.cumsum(grown, 0).T
    moved[:, last + 1 :] += (change[1:] - change[:-1])[:, None]

    def shifted(spans: np.ndarray) -> np.ndarray:
        # A span begins and ends outside of the columns: words whose columns are passed count.
        return spans + change[np.searchsorted(old[:, last], spans, side="right")]

    return {
        "data": data, "columns": moved, "spans": shifted(treebank.spans),
        "dropped": shifted(treebank.dropped),
    }  # fmt: skip
