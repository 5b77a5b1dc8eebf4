"""Sources of sentences: inputs of every kind, in pieces, in memory that does not grow with them."""

from __future__ import annotations

import re
import select
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np

from gpuparse.data.conll import CHUNK as CONLLU_CHUNK
from gpuparse.data.conll import (
    MAX_LINE,
    OnError,
    cut_treebanks,
    treebank_from_bytes,
    treebank_of_scan,
)
from gpuparse.data.formats.arrow_tables import (
    column_of_texts,
    has_texts,
    read_rows,
    rows_of,
    with_lists,
    with_rows,
)
from gpuparse.data.formats.documents import (
    Split,
    identifiers_of,
    repeated,
    split_documents,
    texts_of,
)
from gpuparse.data.formats.json_lines import CHUNK, NO_FIELDS, JsonLine, cut_json_lines, read_lines
from gpuparse.data.formats.names import CONLLU, LINES, RAW, TEXT, VERTICAL
from gpuparse.data.formats.objects import FIELDS, Columns, as_conllu, read_sentences, shown
from gpuparse.data.formats.streams import pipe_of
from gpuparse.data.formats.text import TextChunk, line_hints, stream_text
from gpuparse.data.formats.vertical import stream_vertical
from gpuparse.data.scanner import ScannedText, column_name
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import ConfigError, DataError, option

TEXT_CHUNK = 1 << 20  # bytes of raw text that are split into words at a time
BATCH = 1000  # sentences of an iterable that are read at a time
_PIPE = 1 << 16  # bytes that a pipe holds
_PAUSE = 10  # milliseconds in which a program that has more for a pipe writes it
_PAUSE_OF_TEXT = 200  # longer: empty lines behind a paragraph belong to it
SENTENCES = "sentences"  # the name of Python objects in messages


@dataclass(frozen=True, eq=False)
class Piece:
    """Sentences that were read together; R of them are in the input, sound or not.

    treebank: the sound ones that have words. counts: (R,) words of each one, 0 for others. faults:
    errors of those that are not sound, in order. n_sentences: that were read: R before some were
    left out. size: bytes or rows that were read. documents: of inputs that have some, the
    identifiers and numbers of sentences, R together, of all that were read. hints: lines for the
    user about a text.
    """

    treebank: Treebank
    counts: np.ndarray
    faults: list[DataError]
    n_sentences: int
    size: int
    documents: list[tuple[str, int]] | None = field(default=None, kw_only=True)
    hints: Sequence[str] = field(default=(), kw_only=True)

    def without(self, errors: dict[int, DataError], *, skip: bool) -> Piece:
        """The piece without the words of some sentences of its treebank.

        Args:
            errors: what is wrong with them, by number.
            skip: whether the output leaves them out; otherwise they are passed through.
        """
        if not errors:
            return self
        sound = all_but(len(self.treebank), errors)
        some = replace(self.treebank.only(sound), dropped=self.treebank.dropped)
        if skip:
            some = _without_lines(some, self.treebank.spans[~sound])
        faults = [*self.faults, *(errors[s] for s in sorted(errors))]
        return replace(self, treebank=some, counts=np.diff(some.word_starts), faults=faults)


@dataclass(frozen=True, eq=False)
class Rows(Piece):
    """Rows of an Arrow table, or JSON lines, that were read together.

    table: has R rows; of JSON a list of them. is_faulty: (R,) bool: rows that are not sound.
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
            some = some.only(all_but(len(some), errors))
        documents = self.documents
        if skip and is_faulty.any():
            if isinstance(table, list):
                table = [table[row] for row in np.flatnonzero(~is_faulty).tolist()]
            else:
                table = rows_of(table, ~is_faulty)
            counts = counts[~is_faulty]
            if documents is not None:
                are_sound = iter((~is_faulty).tolist())
                n_left = [(name, sum(islice(are_sound, n))) for name, n in documents]
                documents = [each for each in n_left if each[1]]
            is_faulty = np.zeros(len(counts), np.bool_)
        faults = [of_rows[row] for row in sorted(of_rows)]
        return replace(
            self, treebank=some, counts=counts, faults=faults, table=table, is_faulty=is_faulty,
            documents=documents,
        )  # fmt: skip


def all_but(n_sentences: int, some: Iterable[int]) -> np.ndarray:
    """(S,) bool: the sentences that are none of some others."""
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


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A source of sentences.

    name: in messages. reads_ahead: whether reading takes long enough for a thread of its own. unit:
    what messages call a sentence of it.
    """

    name: str
    reads_ahead: bool = False
    unit: str = "sentence"

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """The sentences in order; an input is read once."""

    def empty(self, number: int) -> str:
        """The wording of messages for a column of CoNLL-U, 1 to 5, without a value."""
        return f"{FIELDS[number - 1]} is missing or _"


class Cut(NamedTuple):
    """A part of an input that was not looked at yet; size: of it in bytes.

    data: what its source reads, in any order and in other processes.
    """

    size: int
    data: Any


@dataclass(frozen=True, kw_only=True)
class CutSource(Source):
    """A source whose parts are read independently of each other: cutting costs little.

    split: of texts; None: texts are not read. workers: processes that its parts are worth.
    """

    split: Split | None = None
    workers: int = 1

    @abstractmethod
    def cuts(self) -> Iterator[Cut]:
        """The parts in order; an input is read once."""

    @abstractmethod
    def read(self, cut: Cut) -> Iterator[Piece]:
        """The sentences of a part, in most cases one piece."""

    def with_split(self, split: Split) -> CutSource:
        """The source with another function in place of `split`."""
        return replace(self, split=self.split and split)

    def pieces(self) -> Iterator[Piece]:
        """The sentences of all parts."""
        return chain.from_iterable(map(self.read, self.cuts()))


@dataclass(frozen=True, kw_only=True)
class StreamSource(CutSource):
    """A stream of bytes in CoNLL-U, vertical or raw text.

    kind: its format. on_error: what to do with malformed sentences; see
    `stream_treebanks`. place: where the stream begins in its file: its first line, from 1, and its
    first byte; of raw text a TextPlace. chunk_bytes: read at a time; None: what suits the format.
    """

    file: BinaryIO
    kind: str
    on_error: OnError = "fail"
    place: Any = None
    chunk_bytes: int | None = None

    def cuts(self) -> Iterator[Cut]:
        """Some sentences at a time, each part after the number of bytes that were read for it.

        Raises: DataError: as the readers of the formats.
        """
        counted, n_read = _Counted(self.file, _PAUSE_OF_TEXT if self.kind in RAW else _PAUSE), 0
        is_whole = self.kind == CONLLU and not hasattr(self.file, "consumed")
        for size, part in self._parts(cast(BinaryIO, counted)):
            # What is written of text or words alone is longer than what was read of them.
            of_input = size if is_whole else counted.n_bytes - n_read
            n_read += of_input
            yield Cut(size, (of_input, part))

    def read(self, cut: Cut) -> Iterator[Piece]:
        """The sentences. Raises: DataError: as the readers of the formats."""
        size, part = cut.data
        hints: list[str] = []
        if isinstance(part, TextChunk):
            treebank, hints = self._of_text(part)
        else:
            treebank = part() if callable(part) else treebank_from_bytes(part, self.name)
        counts, faults = np.diff(treebank.word_starts), list(treebank.faults)
        yield Piece(treebank, counts, faults, len(treebank), size, hints=hints)

    def empty(self, number: int) -> str:
        """With the number of the column too."""
        return f"{column_name(number)} is _"

    def _parts(self, file: BinaryIO) -> Iterator[tuple[int, Any]]:
        """Parts, after their lengths: text, CoNLL-U, or a function that reads it."""
        if self.kind == VERTICAL:
            first = self.place.line if self.place else 1
            size = self.chunk_bytes or CONLLU_CHUNK
            texts = stream_vertical(file, self.name, first_line=first, chunk_bytes=size)
            return ((len(text), text) for text in texts)
        if self.kind not in RAW:
            line, byte = self.place or (1, 0)
            return cut_treebanks(
                file, self.name, on_error=self.on_error, first_line=line, first_byte=byte,
                chunk_bytes=self.chunk_bytes or CONLLU_CHUNK,
            )  # fmt: skip
        # A paragraph with a fault is not passed through: its bytes are no lines of CoNLL-U.
        skips: Literal["fail", "skip"] = "fail" if self.on_error == "fail" else "skip"
        chunks = stream_text(
            file, self.name, on_error=skips, start=self.place, of_lines=self.kind == LINES,
            chunk_bytes=min(self.chunk_bytes or TEXT_CHUNK, TEXT_CHUNK),
        )  # fmt: skip
        return ((len(chunk.data), chunk) for chunk in chunks)

    def _of_text(self, chunk: TextChunk) -> tuple[Treebank, list[str]]:
        """The words of a chunk of raw text, and hints."""
        assert self.split
        treebank, hints = treebank_of_scan(self.split(chunk), self.name), []
        if chunk.begins_document:
            how = f"{option('input', LINES)} makes each line a sentence"
            hints = line_hints(chunk.data, len(treebank), how)
        treebank = replace(treebank, faults=[*chunk.faults, *treebank.faults])
        return treebank, [f"{self.name}: {hint}" for hint in hints]


class _Counted:
    """A stream that counts the bytes that are read of it, or of the compressed file behind it.

    `read` of a pipe gives what is there once nothing more comes, so that whoever writes into the
    pipe need not close it to get answers.

    pause: milliseconds without any byte after which a pipe has nothing more.
    """

    def __init__(self, source: Any, pause: int) -> None:
        self._source, self._n_bytes, self._pause = source, 0, pause
        self._pipe = pipe_of(source)

    @property
    def n_bytes(self) -> int:
        return int(getattr(self._source, "consumed", self._n_bytes))

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._of_pipe(self._pipe, size) if self._pipe else self._source.read(size)
        self._n_bytes += len(block)
        return block

    def _of_pipe(self, pipe: select.poll, size: int) -> bytes:
        found = block = self._source.read1(min(size, _PIPE))
        while block and len(found) < size and pipe.poll(self._pause):
            block = self._source.read1(min(size - len(found), _PIPE))
            found += block
        return bytes(found)


@dataclass(frozen=True, kw_only=True)
class BytesSource(Source):
    """CoNLL-U in memory, as one piece. hints: see Piece."""

    text: bytes | ScannedText
    hints: Sequence[str] = ()

    def pieces(self) -> Iterator[Piece]:
        """All sentences. Raises: DataError: as `treebank_from_bytes`."""
        if isinstance(self.text, bytes):
            treebank = treebank_from_bytes(self.text, self.name)
        else:
            treebank = treebank_of_scan(self.text, self.name)
        counts = treebank.word_starts[1:] - treebank.word_starts[:-1]
        yield Piece(treebank, counts, [], len(treebank), len(treebank.data), hints=self.hints)


@dataclass(frozen=True, kw_only=True)
class DocumentSource(Source):
    """Raw texts of Python.

    documents: pairs of an identifier and a text. is_stream: whether they are read some at a time,
    as pieces of their own; otherwise they are one piece, and each has another name.
    """

    documents: Iterable[tuple[object, str]]
    split: Split
    is_stream: bool = False
    name: str = "texts"

    def pieces(self) -> Iterator[Piece]:
        """All sentences of all texts.

        Raises: DataError: NUL in a text, or too much white space; an identifier with a line end, or
            of two texts.
        """
        if not self.is_stream:
            yield self._piece(list(self.documents), 0)
            return
        left, first, has_hint = iter(self.documents), 0, False
        while batch := list(_some(left)):
            piece = self._piece(batch, first)
            yield replace(piece, hints=[]) if has_hint else piece
            has_hint |= bool(piece.hints)
            first += len(batch)

    def _piece(self, documents: list[tuple[object, str]], first: int) -> Piece:
        texts = [text for _, text in documents]
        try:
            names = identifiers_of([name for name, _ in documents], len(texts), first)
        except DataError as error:
            raise DataError(f"ids{error}") from error
        if not self.is_stream and (same := repeated(names)) is not None:
            i, j = same
            raise DataError(f"ids[{j}]: {names[j]!r} is the name of texts[{i}] too; rename one")
        found = split_documents(texts, names, self.split)
        for number, what in found.faults.items():
            raise DataError(f"{self.name}[{first + number}]{what}")
        treebank = treebank_of_scan(found.words, self.name)
        counts = np.diff(treebank.word_starts)
        hints: list[str] = []
        of_lines = next((k for k, text in enumerate(texts) if "\n" in text), None)
        if of_lines is not None:
            found_hints = line_hints(
                texts[of_lines].encode(), found.counts[of_lines], "give a text for each line"
            )
            hints += [f"{self.name}[{first + of_lines}]: {hint}" for hint in found_hints]
        return Piece(
            treebank, counts, [], len(counts), len(treebank.data),
            documents=list(zip(names, found.counts, strict=True)), hints=hints,
        )  # fmt: skip


def _some(documents: Iterator[tuple[object, str]]) -> Iterator[tuple[object, str]]:
    """The next documents, of some megabytes together."""
    n_characters = 0
    for document in islice(documents, BATCH):
        yield document
        n_characters += len(document[1])
        if n_characters >= TEXT_CHUNK:
            return


@dataclass(frozen=True, kw_only=True)
class ObjectSource(Source):
    """Sentences of Python lists and dicts.

    tag_field: of the first sentences with words, what the tag of a (word, tag) pair is. batch:
    sentences that are read at a time; None: all.
    """

    sentences: Iterable[Any]
    tag_field: Callable[[list[Columns]], str]
    keep_heads: bool
    batch: int | None = BATCH
    name: str = SENTENCES

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


@dataclass(frozen=True, kw_only=True)
class TableSource(CutSource):
    """Rows of Arrow tables, one sentence each, or one document each.

    A table with a column `text` of texts and no column `form` has documents. Each of their
    sentences becomes a row, with the values that the document has in other columns. A column `id`
    has their identifiers; otherwise these are the numbers of the rows.

    runs: tables after the numbers of their first rows. file: the TableFile that they are from;
    None: they are objects of Python. fails: whether the first faulty row is an error at once.
    """

    unit: str = "row"
    runs: Iterable[tuple[int, Any]]
    file: Any
    keep_heads: bool
    fails: bool = False

    def cuts(self) -> Iterator[Cut]:
        """Each run. Raises: DataError: the file is damaged."""
        return (Cut(table.nbytes, (table, first)) for first, table in self.runs)

    def read(self, cut: Cut) -> Iterator[Rows]:
        """A run as a piece. Raises: DataError: as `read_rows`."""
        yield self.piece(*cut.data)

    def piece(self, table: Any, first: int) -> Rows:
        """The rows of a table, the first of which has a number in messages."""
        if self.split and has_texts(table.schema.names):
            return self._documents(table, first, self.split)
        read = read_rows(table, self._source, keep_heads=self.keep_heads, first=first)
        is_faulty = np.zeros(len(table), np.bool_)
        is_faulty[list(read.faults)] = True
        faults, size = self._errors(read.faults, first), len(table)
        return Rows(read.treebank, read.counts, faults, size, size, table, is_faulty)

    def _documents(self, table: Any, first: int, split: Split) -> Rows:
        names = table.schema.names
        if self.keep_heads:
            raise ConfigError(f"{self.name}: a table of texts has no heads to keep")
        try:
            identifiers = identifiers_of(
                table.column("id").to_pylist() if "id" in names else None, len(table), first
            )
        except DataError as error:
            raise DataError(f"{self._source}{error}") from error
        texts = column_of_texts(table, self._source)
        found = split_documents(texts, identifiers, split)
        treebank = treebank_of_scan(found.words, self._source)
        rows, is_there, counts = _rows_of_documents(treebank, found.counts)
        of_sentences = np.array(["", *texts_of(treebank)], object)
        places = np.where(is_there, np.cumsum(is_there), 0)
        table = with_rows(table, rows, {TEXT: of_sentences[places].tolist()})
        ids, forms = column_ids(treebank, 1)
        table = with_lists(table, counts, {FIELDS[0]: (ids, forms)})
        is_faulty = np.isin(rows, list(found.faults))
        return Rows(
            treebank, counts, self._errors(found.faults, first), len(rows), len(texts), table,
            is_faulty, documents=list(zip(identifiers, np.bincount(rows).tolist(), strict=True)),
        )  # fmt: skip

    @property
    def _source(self) -> str:
        """The name of the table in messages, before the number of a row."""
        return self.name if self.file is None else f"{self.name}:row"

    def _errors(self, faults: dict[int, str], first: int) -> list[DataError]:
        """Errors of rows; the first is raised if the source fails."""
        place = f"{self._source}:{{}}{{}}" if self.file is not None else f"{self._source}[{{}}]{{}}"
        errors = [DataError(place.format(first + row, what)) for row, what in faults.items()]
        if errors and self.fails:
            raise errors[0]
        return errors


def _rows_of_documents(
    treebank: Treebank, n_sentences: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of documents, one for each sentence, and one for a document without sentences.

    Args: treebank: the sentences of all documents. n_sentences: of each document.
    Returns: of each row its document, whether it has a sentence, and its number of words.
    """
    sizes = np.array(n_sentences, np.int64)
    copies = np.maximum(sizes, 1)
    is_there = np.repeat(sizes > 0, copies)
    counts = np.zeros(len(is_there), np.int64)
    counts[is_there] = np.diff(treebank.word_starts)
    return np.repeat(np.arange(len(sizes)), copies), is_there, counts


@dataclass(frozen=True, kw_only=True)
class JsonSource(CutSource):
    """JSON lines, each a sentence or a document, as those of a table are.

    A line with words is a sentence, one with a text a document: each of its sentences becomes a
    line, with the other members of the document. Its identifier is its member `id`, otherwise the
    number of the line.

    file: of bytes. first: the number of its first line. keeps: whether faulty lines are
    passed through. Other fields: see StreamSource.
    """

    unit: str = "line"
    file: BinaryIO
    keep_heads: bool
    first: int = 1
    keeps: bool = False
    chunk_bytes: int = CHUNK

    def cuts(self) -> Iterator[Cut]:
        """The lines of each block, after the number of the first one and the bytes read."""
        counted, n_read = _Counted(self.file, _PAUSE), 0
        blocks = cut_json_lines(
            cast(BinaryIO, counted), first=self.first,
            chunk_bytes=self.chunk_bytes, keeps=self.keeps,
        )  # fmt: skip
        for number, block in blocks:
            size, n_read = counted.n_bytes - n_read, counted.n_bytes
            yield Cut(sum(map(len, block)), (number, block, size))

    def read(self, cut: Cut) -> Iterator[Rows]:
        """The sentences, or the documents, that follow each other in a block.

        Raises: ConfigError: heads of a text shall be kept.
        """
        number, block, size = cut.data
        for has_text, run in groupby(read_lines(number, block), key=lambda line: line.has_text):
            lines, split = list(run), self.split if has_text else None
            yield self._documents(lines, split, size) if split else self._sentences(lines, size)
            size = 0

    def _sentences(self, lines: list[JsonLine], size: int) -> Rows:
        faults = {}
        for row, line in enumerate(lines):
            if line.fault:
                faults[row] = f": {line.fault}"
            elif line.words is None:
                faults[row] = f": an object {NO_FIELDS}"
        try:
            treebank, counts = self._treebank(lines, faults)
        except DataError:
            for row, line in enumerate(lines):
                if row not in faults:
                    try:
                        self._treebank([line], {})
                    except DataError as error:
                        faults[row] = _PLACE.sub("", str(error))
            treebank, counts = self._treebank(lines, faults)
        numbers = np.array([line.number for line in lines])
        treebank = replace(treebank, source=self.name, lines=np.repeat(numbers, counts))
        return self._rows(treebank, counts, faults, lines, np.arange(len(lines)), size)

    def _treebank(
        self, lines: list[JsonLine], faults: Collection[int]
    ) -> tuple[Treebank, np.ndarray]:
        """The words of the sound lines, and the number of words of all."""
        words = [[] if row in faults else line.words for row, line in enumerate(lines)]
        read = read_sentences(words, keep_heads=self.keep_heads)
        text = as_conllu(read, FIELDS[2])
        # The columns of a word without a line that is too long are not too long either.
        treebank = treebank_from_bytes(text, SENTENCES, max_line=2 * MAX_LINE + 100)
        return treebank, np.array([len(columns["form"]) for columns in read], np.int64)

    def _documents(self, lines: list[JsonLine], split: Split, size: int) -> Rows:
        if self.keep_heads:
            raise ConfigError(f"{self.name}:{lines[0].number}: a text has no heads to keep")
        names, texts, faults = [], [], {}
        for row, line in enumerate(lines):
            name, text = line.values.get("id", line.number), line.values[TEXT]
            if not (text is None or isinstance(text, str)):
                faults[row] = f": {TEXT}: expected text, and not {shown(text)}"
            elif type(name) not in (str, int):
                faults[row] = f": id: expected text or a whole number, and not {shown(name)}"
            try:
                names += identifiers_of(["-" if row in faults else name], 1, 0)
            except DataError as error:
                names.append("-")
                faults[row] = str(error).removeprefix("[0]")
            texts.append(None if row in faults else text)
        found = split_documents(texts, names, split)
        faults |= found.faults
        treebank = treebank_of_scan(found.words, self.name)
        rows, _, counts = _rows_of_documents(treebank, found.counts)
        made = self._rows(treebank, counts, faults, lines, rows, size)
        documents = list(zip(names, np.bincount(rows).tolist(), strict=True))
        return replace(made, documents=documents)

    def _rows(
        self, treebank: Treebank, counts: np.ndarray, faults: dict[int, str],
        lines: list[JsonLine], rows: np.ndarray, size: int,
    ) -> Rows:  # fmt: skip
        """A piece; rows: of each sentence its line."""
        errors = [
            DataError(f"{self.name}:{lines[row].number}{faults[row]}") for row in sorted(faults)
        ]
        table = [lines[row] for row in rows.tolist()]
        is_faulty = np.isin(rows, list(faults))
        return Rows(treebank, counts, errors, len(rows), size, table, is_faulty)


_PLACE = re.compile(rf"^{SENTENCES}(?:\[0\]|:\d+(?=:))")
