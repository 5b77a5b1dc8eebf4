"""Parsing of one table, for all doors: Parquet or Arrow, in runs of rows and in shards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from gpuparse.data.formats.table_files import TableFile, table_writer
from gpuparse.errors import ConfigError, option
from gpuparse.jobs.receipts import Receipt
from gpuparse.jobs.shards import Counts, Parse, Sharded, ShardOptions


class ShardedTable(Sharded):
    """A table that is parsed in shards of whole runs of rows."""

    def __init__(self, source: TableFile, asked: ShardOptions) -> None:
        """As Sharded, of the file of a source, which stays open meanwhile."""
        if source.n_rows is None:
            raise ConfigError(
                f"{source.name}: an Arrow stream does not say where its rows are; write it as a"
                f" file, or parse it without {option('shard')}"
            )
        self._source, self._n_rows, self._digest = source, source.n_rows, ""
        super().__init__(source.name, "table", asked)
        self.table = source

    def _make_cuts(self) -> list[int]:
        """Numbers of rows: cut k is the first row of a run at or after rows * k / n."""
        n, run = self._wanted.n, self._source.run
        cuts = [-(-self._n_rows * k // (n * run)) * run for k in range(n)]
        return [min(cut, self._n_rows) for cut in cuts] + [self._n_rows]

    def _parsed_run(
        self, start: int, end: int, target: BinaryIO, parse: Parse
    ) -> tuple[Counts, str]:
        counts = parse(self._source.runs(start, end), target, None)
        return counts, self._sum_of_run(start, end)

    def _sum_of_run(self, start: int, end: int) -> str:
        """The rows, and the SHA-256 of the whole file, in which they have no bytes of their own."""
        if not self._digest:
            with open(self.file, "rb") as file:
                self._digest = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{start}-{end} {self._digest}"

    def _write_joined(self, markers: list[Receipt], target: BinaryIO) -> None:
        """Write the rows of all shards, in the same row groups as without shards."""
        if self.form != self._source.format:
            return super()._write_joined(markers, target)
        with open(os.devnull, "wb") as nowhere:
            for i, marker in enumerate(markers, 1):
                self._copy(i, marker, nowhere)
        with self._shard_file(1) as shard:
            schema = shard.schema
        with table_writer(target, self._source, schema) as writer:
            for i in range(1, len(markers) + 1):
                with self._shard_file(i) as shard:
                    for table in shard.groups():
                        writer.write(table)

    @contextmanager
    def _shard_file(self, i: int) -> Iterator[TableFile]:
        path = self._path(i)
        with open(path, "rb") as file:
            yield TableFile(file, str(path), self._source.format, threads=False)
