"""Tables in files, Parquet or Arrow IPC, read and written in runs of rows.

pyarrow is imported when a file is opened.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO

from gpuparse.data.formats.arrow_tables import check_buffers
from gpuparse.data.formats.names import ARROW, PARQUET
from gpuparse.errors import ConfigError, DataError, one_line, option

MOST_ROWS = 10_000  # of a run, which becomes one row group or record batch of the output
RUN_BYTES = 64 << 20  # of a run of a Parquet file, about, whose rows are long
_FILE_MAGIC = b"ARROW1"
_BUFFER = 1 << 20  # bytes of a column that Parquet reads at a time


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
