"""Sources of sentences: inputs of every kind, in pieces, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO, Literal, Protocol, cast

import numpy as np

from gpuparse.data.conll import MAX_LINE, OnError, stream_treebanks, treebank_from_bytes
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.formats.arrow_tables import read_rows, rows_of
from gpuparse.formats.names import CONLLU, TEXT, VERTICAL
from gpuparse.formats.objects import FIELDS, Columns, as_conllu, read_sentences
from gpuparse.formats.text import TextChunk, TextPlace, stream_text
from gpuparse.formats.vertical import stream_vertical

TEXT_CHUNK = 1 << 20  # bytes of raw text that are split into words at a time
BATCH = 1000  # sentences of an iterable that are read at a time
SENTENCES = "sentences"  # the name of Python objects in messages
_OF_FILES = ("ID", "FORM", "LEMMA", "coarse tags", "fine tags", "FEATS")

Split = Callable[[TextChunk], bytes]  # of a tokeniser: the words of a text as CoNLL-U


@dataclass(frozen=True, eq=False)
class Piece:
    """Sentences that were read together; R of them are in the input, sound or not.

    treebank: the sound ones that have words. counts: (R,) words of each one, 0 for others. faults:
    errors of those that are not sound, in order. n_sentences: that were read: R before some were
    left out. size: bytes or rows that were read.
    """

    treebank: Treebank
    counts: np.ndarray
    faults: list[DataError]
    n_sentences: int
    size: int

    def without(self, errors: dict[int, DataError], *, skip: bool) -> Piece:
        """The piece without the words of some sentences of its treebank.

        Args:
            errors: what is wrong with them, by number.
            skip: whether the output leaves them out; otherwise they are passed through.
        """
        if not errors:
            return self
        sound = _others(len(self.treebank), errors)
        some = replace(self.treebank.only(sound), dropped=self.treebank.dropped)
        if skip:
            some = _without_lines(some, self.treebank.spans[~sound])
        faults = [*self.faults, *(errors[s] for s in sorted(errors))]
        return replace(self, treebank=some, counts=np.diff(some.word_starts), faults=faults)


@dataclass(frozen=True, eq=False)
class Rows(Piece):
    """Rows of an Arrow table that were read together.

    table: has R rows. is_faulty: (R,) bool: rows that are not sound.
    """

    table: Any
    is_faulty: np.ndarray

    def without(self, errors: dict[int, DataError], *, skip: bool) -> Rows:
        """As Piece; rows that are not left out get nulls."""
        is_faulty, counts = self.is_faulty.copy(), self.counts.copy()
        wrong = np.flatnonzero(counts)[sorted(errors)]
        is_faulty[wrong], counts[wrong] = True, 0
        of_rows = dict(zip(np.flatnonzero(self.is_faulty).tolist(), self.faults, strict=True))
        of_rows |= dict(zip(wrong.tolist(), (errors[s] for s in sorted(errors)), strict=True))
        some, table = self.treebank, self.table
        if errors:
            some = some.only(_others(len(some), errors))
        if skip and is_faulty.any():
            table, counts = rows_of(table, ~is_faulty), counts[~is_faulty]
            is_faulty = np.zeros(len(counts), np.bool_)
        faults = [of_rows[row] for row in sorted(of_rows)]
        return replace(
            self, treebank=some, counts=counts, faults=faults, table=table, is_faulty=is_faulty
        )


def _others(n_sentences: int, some: Iterable[int]) -> np.ndarray:
    """(S,) bool: the sentences that are none of these."""
    sound = np.ones(n_sentences, np.bool_)
    sound[list(some)] = False
    return sound


def _without_lines(chunk: Treebank, spans: np.ndarray) -> Treebank:
    """The treebank without these lines (F, 2) and the blank line after each."""
    text = chunk.data
    ends = [
        end + (2 if text[end : end + 2].tobytes() == b"\r\n" else 1) for end in spans[:, 1].tolist()
    ]
    dropped = np.concatenate([chunk.dropped, np.stack([spans[:, 0], ends], 1).clip(max=len(text))])
    is_last = bool((spans[:, 1] == len(text)).any())
    return replace(
        chunk,
        dropped=dropped[np.argsort(dropped[:, 0])],
        file_end=b"" if is_last else chunk.file_end,
    )


class Source(Protocol):
    """Where sentences come from.

    name: in messages. reads_ahead: whether reading takes long enough for a thread of its own.
    """

    @property
    def name(self) -> str: ...
    @property
    def reads_ahead(self) -> bool: ...
    def pieces(self) -> Iterator[Piece]:
        """The sentences in order; an input is read once."""
        ...

    def empty(self, number: int) -> str:
        """How messages say that a column of CoNLL-U, 1 to 5, has no value."""
        ...


@dataclass(frozen=True, kw_only=True)
class StreamSource:
    """A stream of bytes in CoNLL-U, vertical or raw text.

    kind: its format. split: of raw text. on_error: what to do with malformed sentences; see
    `stream_treebanks`. place: where the stream begins in its file: its first line, from 1, and its
    first byte; of raw text a TextPlace. chunk_bytes: read at a time; None: what suits the format.
    """

    file: BinaryIO
    name: str
    kind: str
    split: Split | None = None
    on_error: OnError = "fail"
    max_line: int = MAX_LINE
    place: Any = None
    chunk_bytes: int | None = None
    reads_ahead: bool = False

    def pieces(self) -> Iterator[Piece]:
        """Some sentences at a time.

        Raises: DataError: as the readers of the formats.
        """
        counted, n_read = _Counted(self.file), 0
        for treebank in self._treebanks(cast(BinaryIO, counted)):
            # What is written of text or words alone is longer than what was read of them.
            size = len(treebank.data) if self.kind == CONLLU else counted.n_bytes - n_read
            n_read += size
            counts = np.diff(treebank.word_starts)
            yield Piece(treebank, counts, list(treebank.faults), len(treebank), size)

    def empty(self, number: int) -> str:
        """With the number of the column, counted from 1, and its name."""
        return f"column {number + 1} ({_OF_FILES[number]}) is _"

    def _treebanks(self, file: BinaryIO) -> Iterator[Treebank]:
        if self.kind == VERTICAL:
            first = self.place.line if self.place else 1
            for text in stream_vertical(file, self.name, first_line=first):
                yield treebank_from_bytes(text, self.name)
        elif self.kind == TEXT:
            yield from self._treebanks_of_text(file, self.place)
        else:
            line, byte = self.place or (1, 0)
            given = {} if self.chunk_bytes is None else {"chunk_bytes": self.chunk_bytes}
            yield from stream_treebanks(
                file, self.name, on_error=self.on_error, max_line=self.max_line, first_line=line,
                first_byte=byte, **given,
            )  # fmt: skip

    def _treebanks_of_text(self, file: BinaryIO, place: TextPlace | None) -> Iterator[Treebank]:
        assert self.split
        # A paragraph with a fault is not passed through: its bytes are no lines of CoNLL-U.
        skips: Literal["fail", "skip"] = "fail" if self.on_error == "fail" else "skip"
        chunks = stream_text(file, self.name, on_error=skips, chunk_bytes=TEXT_CHUNK, start=place)
        for chunk in chunks:
            treebank = treebank_from_bytes(self.split(chunk), self.name)
            yield replace(treebank, faults=[*chunk.faults, *treebank.faults])


class _Counted:
    """A stream that counts the bytes that are read of it."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self.n_bytes = source, 0

    def read(self, size: int = -1) -> bytes:
        block = self._source.read(size)
        self.n_bytes += len(block)
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


@dataclass(frozen=True, kw_only=True)
class BytesSource:
    """CoNLL-U in memory, as one piece."""

    text: bytes
    name: str
    reads_ahead: bool = False

    def pieces(self) -> Iterator[Piece]:
        """All sentences. Raises: DataError: as `treebank_from_bytes`."""
        treebank = treebank_from_bytes(self.text, self.name)
        yield Piece(treebank, np.diff(treebank.word_starts), [], len(treebank), len(self.text))

    def empty(self, number: int) -> str:
        """With the name of the column."""
        return f"{FIELDS[number - 1]} is missing or _"


@dataclass(frozen=True, kw_only=True)
class ObjectSource:
    """Sentences of Python lists and dicts.

    tag_field: of the first sentences with words, what the tag of a (word, tag) pair is. batch:
    sentences that are read at a time; None: all.
    """

    sentences: Iterable[Any]
    tag_field: Callable[[list[Columns]], str]
    keep_heads: bool
    batch: int | None = BATCH
    name: str = SENTENCES
    reads_ahead: bool = False

    def pieces(self) -> Iterator[Piece]:
        """Some sentences at a time, as CoNLL-U without values in columns that are not given.

        Raises: DataError: as `read_sentences` and `as_conllu`.
        """
        left, first, tag_field = iter(self.sentences), 0, ""
        while True:
            batch = list(islice(left, self.batch))
            if not batch and (first or self.batch is not None):
                return
            read = read_sentences(batch, keep_heads=self.keep_heads, first=first)
            if not tag_field and any(columns["form"] for columns in read):
                tag_field = self.tag_field(read)
            text = as_conllu(read, tag_field or FIELDS[2], first)
            counts = np.array([len(columns["form"]) for columns in read], np.int64)
            yield Piece(treebank_from_bytes(text, SENTENCES), counts, [], len(batch), len(batch))
            if self.batch is None:
                return
            first += len(batch)

    def empty(self, number: int) -> str:
        """With the name of the column."""
        return f"{FIELDS[number - 1]} is missing or _"


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """Rows of Arrow tables, one sentence each.

    runs: tables after the numbers of their first rows. file: the TableFile that they are from;
    None: they are objects of Python, whose first faulty row is an error.
    """

    runs: Iterable[tuple[int, Any]]
    name: str
    file: Any
    keep_heads: bool
    max_line: int = MAX_LINE
    reads_ahead: bool = False

    def pieces(self) -> Iterator[Rows]:
        """Each run as a piece. Raises: DataError: as `read_rows`."""
        for first, table in self.runs:
            yield self.piece(table, first)

    def piece(self, table: Any, first: int) -> Rows:
        """The rows of a table, the first of which has a number in messages."""
        is_file = self.file is not None
        source = f"{self.name}:row" if is_file else self.name
        read = read_rows(
            table, source, keep_heads=self.keep_heads, first=first, max_line=self.max_line
        )
        place = f"{source}:{{}}{{}}" if is_file else f"{source}[{{}}]{{}}"
        faults = [DataError(place.format(first + row, what)) for row, what in read.faults.items()]
        if faults and not is_file:
            raise faults[0]
        is_faulty = np.zeros(len(table), np.bool_)
        is_faulty[list(read.faults)] = True
        size = len(table)
        return Rows(read.treebank, read.counts, faults, size, size, table, is_faulty)

    def empty(self, number: int) -> str:
        """With the name of the column."""
        return f"{FIELDS[number - 1]} is missing or _"
