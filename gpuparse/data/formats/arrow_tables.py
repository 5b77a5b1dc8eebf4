"""Tables with one row per sentence and a list column per field, read and extended.

They are Arrow tables of Python, or files, Parquet or Arrow IPC, that are read and written in runs
of rows. pyarrow is imported when a table is there.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse.data.conll import MAX_LINE, treebank_from_bytes
from gpuparse.data.formats.names import ARROW, PARQUET
from gpuparse.data.formats.objects import FIELDS, PASSED_OVER, no_form, shown, twice, value_as_text
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError, one_line, option, plural

TEXT = "text"  # the column of documents
_SEPARATOR = "[\t\n\r]"
_EXPECTED = {"head": "whole numbers", "feats": "text or of dicts", "misc": "text or of dicts"}
MOST_ROWS = 10_000  # of a run, which becomes one row group or record batch of the output
RUN_BYTES = 64 << 20  # of a run of a Parquet file, about, whose rows are long
_FILE_MAGIC = b"ARROW1"
_BUFFER = 1 << 20  # bytes of a column that Parquet reads at a time


class TableRows(NamedTuple):
    """The R rows of a table that were read.

    treebank: the sound rows with words; its `lines` are numbers of rows. counts: (R,) words of each
    row, 0 for faulty ones. faults: what is wrong with faulty rows, by row, in order, beginning with
    the index of the word, such as `[3]: expected a word, not None`.
    """

    treebank: Treebank
    counts: np.ndarray
    faults: dict[int, str]


def is_arrow(table: object) -> bool:
    """True if it is an Arrow table or record batch."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(table, (arrow.Table, arrow.RecordBatch))


def read_rows(table: Any, source: str, *, keep_heads: bool, first: int = 0) -> TableRows:
    """The sentences of an Arrow table, by Arrow's own operations.

    A null, or an empty string except in `form`, is `_`; so are all words of a row whose list is
    null. A row whose `form` is null or empty has no words.

    Args:
        table: a table or record batch with a list column `form`, and any of the other FIELDS:
            lists, large or not, of strings, dictionary-encoded or not; `head` of integers; `feats`
            and `misc` also of structs or maps. Other columns are passed over.
        source: its name in messages.
        keep_heads: whether to read `head` and `deprel`.
        first: number of the first row in messages.
    Raises: DataError: there is no column `form`, a column is there twice, has another type, or its
        offsets and values do not fit together.
    Cost: about 0.1 us per word and column.
    """
    for field in FIELDS:
        if table.schema.names.count(field) > 1:
            raise twice(source, field)
    check_buffers(table, source, FIELDS)
    lists = {
        field: _in_lists(table.column(field), field, source)
        for field in FIELDS
        if field in table.column_names and field not in PASSED_OVER
        and (keep_heads or field not in ("head", "deprel"))
    }  # fmt: skip
    if "form" not in lists:
        raise no_form(table.column_names)
    counts = _lengths(lists["form"])
    faults: dict[int, str] = {}
    for field, column in lists.items():
        lengths = _lengths(column)
        for row in np.flatnonzero((lengths != counts) & column.is_valid().to_numpy(False)).tolist():
            faults.setdefault(
                row, f": {plural(int(counts[row]), 'word')} in form, but {lengths[row]} in {field}"
            )
    counts[list(faults)] = 0
    while True:
        words = {field: _words(column, counts) for field, column in lists.items()}
        found = _no_words(words["form"], counts)
        if not found:
            text = _joined(words, counts)
            treebank = treebank_from_bytes(text, source, on_error="skip")
            if _is_sound(treebank, counts):
                break
            found = _bad_values(words, counts)
        faults |= found
        counts[list(found)] = 0
    rows = np.repeat(np.arange(first, first + len(counts)), counts)
    in_order = {row: faults[row] for row in sorted(faults)}
    return TableRows(replace(treebank, lines=rows), counts, in_order)


def check_buffers(table: Any, source: str, fields: Collection[str] = ()) -> None:
    """Make sure that no value of a table lies outside of its memory, whoever wrote the table.

    Arrow's own operations do not look, and would read and write anywhere.

    Args: fields: the columns to check; none: all. source: the table's name in messages.
    Raises: DataError: offsets, lengths or indices of a column do not fit its values.
    Cost: about that of one copy of the table.
    """
    import pyarrow as arrow

    for name, column in zip(table.schema.names, table.columns, strict=True):
        if fields and name not in fields:
            continue
        try:
            try:
                column.validate(full=True)
            except arrow.ArrowInvalid:
                # Text that is not UTF-8 is a fault of its row, and told with it.
                for chunk in getattr(column, "chunks", [column]):
                    chunk.validate()
                    chunk.view(_of_bytes(column.type)).validate(full=True)
        except (arrow.ArrowException, ValueError) as error:
            raise DataError(
                f"{source}: column {name}: damaged: {one_line(error)}; write the table again"
            ) from error


def _of_bytes(kind: Any) -> Any:
    """A type with bytes in place of text, whose values have the same memory."""
    import pyarrow as arrow

    types = arrow.types
    if types.is_string(kind):
        return arrow.binary()
    if types.is_large_string(kind):
        return arrow.large_binary()
    if types.is_string_view(kind):
        return arrow.binary_view()
    if types.is_list(kind):
        return arrow.list_(_of_bytes(kind.value_type))
    if types.is_large_list(kind):
        return arrow.large_list(_of_bytes(kind.value_type))
    if types.is_fixed_size_list(kind):
        return arrow.list_(_of_bytes(kind.value_type), kind.list_size)
    if types.is_dictionary(kind):
        return arrow.dictionary(kind.index_type, _of_bytes(kind.value_type), kind.ordered)
    if types.is_struct(kind):
        return arrow.struct([field.with_type(_of_bytes(field.type)) for field in kind])
    if types.is_map(kind):
        return arrow.map_(_of_bytes(kind.key_type), _of_bytes(kind.item_type))
    return kind


def has_texts(names: Collection[str]) -> bool:
    """True if a table with these columns has documents, and not sentences."""
    return TEXT in names and FIELDS[0] not in names


def frame_of_texts(frame: Any) -> Any:
    """A pandas frame of documents as an Arrow table, without its index."""
    import pyarrow as arrow

    try:
        return arrow.Table.from_pandas(frame, preserve_index=False)
    except (arrow.ArrowException, UnicodeEncodeError) as error:
        raise DataError(f"sentences: a frame that Arrow cannot hold: {one_line(error)}") from error


def column_of_texts(table: Any, source: str) -> list[bytes | None]:
    """The column `text` of a table or record batch, as UTF-8 that is not checked.

    Raises: DataError: it has no text, or is there twice.
    """
    import pyarrow as arrow

    if table.schema.names.count(TEXT) > 1:
        raise twice(source, TEXT)
    check_buffers(table, source, (TEXT,))
    column = table.column(TEXT)
    kind = column.type.value_type if arrow.types.is_dictionary(column.type) else column.type
    types = arrow.types
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not is_text and not types.is_null(kind):
        raise DataError(f"{source}: column {TEXT}: expected a text per row, not {column.type}")
    texts: list[bytes | None] = column.cast(arrow.large_string()).cast("large_binary").to_pylist()
    return texts


def with_rows(table: Any, rows: np.ndarray, columns: Mapping[str, list[Any]]) -> Any:
    """Some rows of a table, each once or several times, with other texts in some columns."""
    import pyarrow as arrow

    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    table = table.take(arrow.array(rows))
    for name, texts in columns.items():
        place = table.schema.names.index(name)
        table = table.set_column(place, name, arrow.array(texts, arrow.string()))
    return table


def rows_of(table: Any, is_wanted: np.ndarray) -> Any:
    """The wanted rows of a table, for all types; Arrow's own filter knows no views of strings.

    Args: is_wanted: (R,) bool.
    """
    import pyarrow as arrow

    changes = np.flatnonzero(np.diff(np.concatenate([[False], is_wanted, [False]])))
    runs = [table.slice(start, end - start) for start, end in changes.reshape(-1, 2).tolist()]
    return arrow.concat_tables(runs or [table.slice(0, 0)])


def with_lists(
    table: Any,
    counts: np.ndarray,
    columns: Mapping[str, tuple[np.ndarray, list[str] | None]],
    nothing: np.ndarray | None = None,
) -> Any:
    """A table with list columns added at the end; columns of their names are replaced.

    Args:
        table: an Arrow table or record batch of R rows; None: nothing is there.
        counts: (R,) words of each row.
        columns: of all words, values, or numbers with the names that they stand for; a negative
            number is null.
        nothing: (R,) bool: rows that shall have nulls.
    """
    import pyarrow as arrow

    starts = arrow.array(np.concatenate([[0], np.cumsum(counts)]), arrow.int32())
    mask = None if nothing is None or not nothing.any() else arrow.array(nothing)
    new = {}
    for name, (values, names) in columns.items():
        flat = arrow.array(values)
        if names is not None:
            is_null = values < 0
            numbers = arrow.array(values, mask=is_null if is_null.any() else None)
            flat = arrow.array(names, arrow.string()).take(numbers)
        new[name] = arrow.ListArray.from_arrays(starts, flat, mask=mask)
    if table is None:
        return arrow.table(new)
    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    kept = table.drop_columns([name for name in new if name in table.column_names])
    for name, lists in new.items():
        kept = kept.append_column(name, lists)
    return kept


def _in_lists(column: Any, field: str, source: str) -> Any:
    """A column as one array of lists of text, or of integers for `head`; DataError otherwise."""
    import pyarrow as arrow

    if isinstance(column, arrow.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, arrow.ChunkedArray):  # no chunk, or more than one can hold
            column = arrow.concat_arrays(column.chunks) if column.num_chunks else column
    types = arrow.types
    if types.is_null(column.type):
        return arrow.nulls(len(column), arrow.list_(arrow.string()))
    is_list = types.is_list(column.type) or types.is_large_list(column.type)
    if not is_list and types.is_fixed_size_list(column.type):
        column, is_list = column.cast(arrow.list_(column.type.value_type)), True
    if is_list:
        kind = column.type.value_type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_null(kind) or types.is_string(kind) or types.is_large_string(kind):
            return column
        if types.is_string_view(kind) or (field == "head" and types.is_integer(kind)):
            return column
        if field in ("feats", "misc") and (types.is_struct(kind) or types.is_map(kind)):
            texts = [_dicts_as_texts(row) for row in column.to_pylist()]
            return arrow.array(texts, arrow.list_(arrow.string()))
    expected = _EXPECTED.get(field, "words" if field == "form" else "text")
    raise DataError(
        f"{source}: column {field}: expected a list of {expected} per row, with a value per word,"
        f" not {column.type}"
    )


def _dicts_as_texts(row: list[Any] | None) -> list[str] | None:
    """Values of FEATS or MISC of a row, which Arrow gives as dicts or lists of pairs."""
    if row is None:
        return None
    dicts = [{} if value is None else dict(value) for value in row]
    there = [{k: v for k, v in value.items() if v is not None} for value in dicts]
    return [value_as_text(value) for value in there]


def _lengths(column: Any) -> np.ndarray:
    """(R,) int64 values in each list; 0 for null."""
    return column.value_lengths().fill_null(0).to_numpy(False).astype(np.int64)


def _words(column: Any, counts: np.ndarray) -> Any:
    """The values of all words as text; null where a list is."""
    import pyarrow as arrow

    values, lengths = column.flatten().cast(arrow.large_string()), _lengths(column)
    if not np.array_equal(lengths, counts):
        starts = np.cumsum(lengths) - lengths
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        is_null = np.repeat(lengths == 0, counts)
        places = arrow.array(np.repeat(starts, counts) + within, mask=is_null)
        values = values.take(places)
    return values


def _no_words(forms: Any, counts: np.ndarray) -> dict[int, str]:
    """The rows with a null or an empty string among their words."""
    import pyarrow.compute as compute

    if not forms.null_count and not compute.any(compute.equal(forms, "")).as_py():
        return {}
    is_wrong = compute.fill_null(compute.equal(forms, ""), True).to_numpy(False)
    return {
        row: f"[{m}]: expected a word, not {shown(forms[w].as_py())}"
        for row, m, w in _first_of_rows(is_wrong, counts)
    }


def _joined(words: dict[str, Any], counts: np.ndarray) -> bytes:
    """CoNLL-U of the words of all rows."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    n_words = int(counts.sum())
    if not n_words:
        return b""
    numbers = np.arange(1, n_words + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    # A row begins with the end of the row before it: the values of all are one text.
    prefixes = ["", "\n\n1", *(f"\n{m}" for m in range(2, counts.max() + 1))]
    parts = [arrow.array(prefixes, arrow.large_string()).take(arrow.array(numbers))]
    for field in FIELDS:
        if field not in words or words[field].null_count == n_words:
            parts.append(arrow.scalar("_", arrow.large_string()))
            continue
        values = words[field]
        if values.null_count:
            values = values.fill_null("_")
        if field != "form" and compute.min(compute.binary_length(values)).as_py() == 0:
            values = compute.if_else(compute.equal(values, ""), "_", values)
        parts.append(values)
    rows = compute.binary_join_element_wise(*parts, arrow.scalar("\t", arrow.large_string()))
    size = int(np.frombuffer(rows.buffers()[1], np.int64)[len(rows)])
    return rows.buffers()[2].to_pybytes()[2:size] + b"\n\n"


def _is_sound(treebank: Treebank, counts: np.ndarray) -> bool:
    """True if a treebank has the words of the rows, and no tab or line end was in a value."""
    if treebank.faults or treebank.warnings:  # of carriage returns before line ends
        return False
    n_lines = int(np.count_nonzero(treebank.data == ord("\n")))
    if n_lines != treebank.n_words + len(treebank):
        return False
    return np.array_equal(np.diff(treebank.word_starts), counts[counts > 0])


def _bad_values(words: dict[str, Any], counts: np.ndarray) -> dict[int, str]:
    """The rows with a value that CoNLL-U cannot hold."""
    import pyarrow.compute as compute

    found: dict[int, str] = {}
    numbers = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    digits = np.searchsorted(10 ** np.arange(18), numbers, side="right")
    sizes = digits + 2 * len(FIELDS) - len(words)  # tabs, and `_` in columns that are not there
    for field, values in words.items():
        lengths = compute.fill_null(compute.binary_length(values), 0)
        sizes += np.maximum(lengths.to_numpy(False), 1)
        as_bytes = values.cast("large_binary")
        is_wrong = compute.match_substring_regex(as_bytes, _SEPARATOR).fill_null(False)
        for row, m, w in _first_of_rows(is_wrong.to_numpy(False), counts):
            value = as_bytes[w].as_py().decode(errors="replace")
            found.setdefault(row, f"[{m}]: {field} {shown(value)} has a tab or a line end")
        try:
            values.validate(full=True)
        except ValueError:
            broken = np.array([_is_broken(value.as_py()) for value in as_bytes])
            for row, m, _ in _first_of_rows(broken, counts):
                found.setdefault(row, f"[{m}]: {field} is not UTF-8")
    for row, m, _ in _first_of_rows(sizes > MAX_LINE, counts):
        found.setdefault(row, f"[{m}]: the columns of the word have more than {MAX_LINE:,} bytes")
    assert found, "a text that does not fit its words"
    return found


def _is_broken(value: bytes | None) -> bool:
    """True if bytes are no UTF-8."""
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _first_of_rows(is_wrong: np.ndarray, counts: np.ndarray) -> list[tuple[int, int, int]]:
    """For each row with wrong words: its number, the index of the first, and that of the table."""
    words = np.flatnonzero(is_wrong)
    ends = np.cumsum(counts)
    rows, at = np.unique(np.searchsorted(ends, words, side="right"), return_index=True)
    firsts = words[at] - (ends - counts)[rows]
    return list(zip(rows.tolist(), firsts.tolist(), words[at].tolist(), strict=True))


def send_rows_alone() -> None:
    """Let other processes get the rows of a table without all that they are cut from."""
    from multiprocessing.reduction import ForkingPickler

    import pyarrow

    ForkingPickler.register(pyarrow.Table, lambda table: (_from_bytes, (_as_bytes(table),)))


def _as_bytes(table: Any) -> Any:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _from_bytes(content: bytes) -> Any:
    from pyarrow import ipc

    return ipc.open_stream(content).read_all()


class TableFile:
    """A Parquet file, or an Arrow IPC file or stream, that is open for reading.

    Args:
        file: of bytes; Parquet and Arrow files must be seekable, an Arrow stream need not.
        name: its name in messages.
        format: PARQUET or ARROW.
        threads: whether more than one thread may decode it.
    Raises: DataError: it is not of the format, or damaged.
    """

    def __init__(self, file: BinaryIO, name: str, format: str, *, threads: bool) -> None:
        import pyarrow
        from pyarrow import ipc, parquet

        self.name, self._threads, self.is_stream = name, threads, False
        self.format, self._most = format, MOST_ROWS
        self._rest: tuple[int, Iterator[Any]] | None = None
        with self._readable():
            if format == PARQUET:
                if not file.seekable():
                    raise ConfigError(
                        f"{name}: Parquet cannot be read from a pipe; name a file, or give an Arrow"
                        f" stream and {option('input', ARROW)}"
                    )
                self._file = parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
                about = self._file.metadata
                sizes = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
                per_row = max(1, sum(sizes) // max(1, about.num_rows))
                self._most = max(1, min(MOST_ROWS, RUN_BYTES // per_row))
                self.schema = self._file.schema_arrow
            else:
                options = ipc.IpcReadOptions(use_threads=threads)
                self.is_stream = _beginning(file) != _FILE_MAGIC
                opened = ipc.open_stream if self.is_stream else ipc.open_file
                source = pyarrow.PythonFile(file, mode="r") if self.is_stream else file
                self._file = opened(source, options=options)
                self.schema = self._file.schema
            _ = self.schema.names, str(self.schema)  # which may be no UTF-8; those in lists, too

    @property
    def run(self) -> int:
        """Number of rows of every run but the last: 10,000, fewer where they are long."""
        return self._most

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None for a stream, which does not say it."""
        if self.is_stream:
            return None
        with self._readable():
            return (
                self._file.metadata.num_rows if self.format == PARQUET else self._file.count_rows()
            )

    def runs(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Any]]:
        """The rows from `start` to `end` in runs, each a table after the number of its first row.

        Args: start: a multiple of `run`; end: another one, or the end if None.
        Raises: DataError: the file is damaged.
        Cost: memory for a run, and for what the format reads at a time: a record batch of Arrow,
            pages of Parquet. To begin within a row group costs decoding what is before, unless the
            last call ended there.
        """
        if self._rest is None or self._rest[0] != start:
            self._rest = start, self._from(start)
        tables, at = self._rest[1], start
        while end is None or at < end:
            with self._readable():
                table = next(tables, None)
            if table is None:
                return
            self._rest = at + len(table), tables
            yield at, table
            at += len(table)

    def groups(self) -> Iterator[Any]:
        """The row groups, or the record batches of an Arrow file, each as a table."""
        import pyarrow

        if self.format == PARQUET:
            for i in range(self._file.num_row_groups):
                yield self._file.read_row_group(i, use_threads=self._threads).combine_chunks()
            return
        for i in range(self._file.num_record_batches):
            yield pyarrow.Table.from_batches([self._file.get_batch(i)], self.schema)

    def _from(self, start: int) -> Iterator[Any]:
        """Tables of one run each, but for the last, from a row on."""
        import pyarrow

        held: list[Any] = []
        n_held = 0
        for batch in self._batches(start):
            while len(batch):
                taken = batch.slice(0, self._most - n_held)
                batch = batch.slice(len(taken))
                held.append(taken)
                n_held += len(taken)
                if n_held == self._most:
                    yield pyarrow.Table.from_batches(held, self.schema).combine_chunks()
                    held, n_held = [], 0
        if held:
            yield pyarrow.Table.from_batches(held, self.schema).combine_chunks()

    def _batches(self, start: int) -> Iterator[Any]:
        """Record batches of any length, from a row on."""
        if self.format == PARQUET:
            about, first = self._file.metadata, 0
            while first < about.num_row_groups and about.row_group(first).num_rows <= start:
                start -= about.row_group(first).num_rows
                first += 1
            # One group after the other: pyarrow cannot read nested dictionaries of several.
            batches: Iterator[Any] = chain.from_iterable(
                self._file.iter_batches(self._most, row_groups=[i], use_threads=self._threads)
                for i in range(first, about.num_row_groups)
            )
        elif self.is_stream:
            batches = iter(self._file)
        else:
            numbers = range(self._file.num_record_batches)
            batches = (self._file.get_batch(i) for i in numbers)
        for batch in batches:
            if self.format == ARROW:  # whose memory is as the file says it is
                check_buffers(batch, self.name)
            passed = min(start, len(batch))
            yield batch.slice(passed)
            start -= passed

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn pyarrow's errors into DataError."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            what = "a Parquet file" if self.format == PARQUET else "an Arrow file or stream"
            raise DataError(
                f"{self.name}: cannot be read as {what}: {one_line(error)}; give {option('input')}"
                " if it is of another format, or write it again if it is damaged"
            ) from error


class TableWriter:
    """Writes tables in the format of a TableFile, each as one row group or record batch.

    Args: target: of bytes. source: what the tables are made of. schema: of the tables.
    """

    def __init__(self, target: BinaryIO, source: TableFile, schema: Any) -> None:
        from pyarrow import ipc, parquet

        self._writer: Any
        self._is_parquet = source.format == PARQUET
        self._target = _Target(target)
        if self._is_parquet:
            # As it is when it is read again, so that what is joined of shards has the same bytes.
            empty = io.BytesIO()
            parquet.write_table(schema.empty_table(), empty)
            schema = parquet.read_schema(empty)
            self._writer = parquet.ParquetWriter(self._target, schema)
        elif source.is_stream:
            self._writer = ipc.new_stream(self._target, schema)
        else:
            self._writer = ipc.new_file(self._target, schema)

    def write(self, table: Any) -> None:
        """Write a table, unless it has no rows."""
        if len(table):
            if self._is_parquet:
                self._writer.write_table(table.cast(self._writer.schema), len(table))
            else:
                self._writer.write_table(table.combine_chunks())

    def close(self) -> None:
        """Write the end, without which a Parquet or Arrow file cannot be read."""
        self._writer.close()

    def give_up(self) -> None:
        """Write no end: a part of an output must not look like a whole one."""
        self._target.is_given_up = True  # pyarrow writes the end when the writer is collected


class _Target(io.RawIOBase):
    """Forwards what is written, until it is given up."""

    def __init__(self, target: BinaryIO) -> None:
        self._target, self.is_given_up = target, False

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        return len(content) if self.is_given_up else self._target.write(content)


@contextmanager
def table_writer(target: BinaryIO, source: TableFile, schema: Any) -> Iterator[TableWriter]:
    """A TableWriter that writes the end only if all went well."""
    writer = TableWriter(target, source, schema)
    try:
        yield writer
    except BaseException:
        writer.give_up()
        raise
    writer.close()


def _beginning(file: Any) -> bytes:
    """The first bytes of a buffered file, which stay to be read."""
    return bytes(file.peek(len(_FILE_MAGIC))[: len(_FILE_MAGIC)])
