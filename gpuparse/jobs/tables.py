"""Parsing of one table, for all doors: Parquet or Arrow, in runs of rows and in shards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse.confidence import KBest
from gpuparse.data.guides import Guides
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError, plural
from gpuparse.formats.arrow_tables import read_rows, rows_of, with_lists
from gpuparse.formats.objects import FIELDS
from gpuparse.formats.table_files import TableFile, table_writer
from gpuparse.jobs.parse import SHOWN, Job, Share, ahead, missing_columns
from gpuparse.jobs.predictions import Found, kept_of, long_sentences, uncertified, word_columns
from gpuparse.jobs.progress import Progress
from gpuparse.jobs.shards import Counts, Parse, Recipe, Sharded, Wanted


class _ParsedRun(NamedTuple):
    """A run of rows with its trees, and what is to be said of it."""

    table: Any
    faults: list[DataError]
    n_words: int
    orders: np.ndarray  # see Predictions
    certified: np.ndarray | None


@dataclass(frozen=True)
class TableJob:
    """How to parse a table: its columns stay, and those of tags and trees are added at the end.

    Rows are parsed in runs, each of which becomes a row group or record batch. Rows that are
    malformed, or whose heads cannot be kept, are left out with `on_error` skip, and have nulls
    with keep.
    """

    job: Job
    source: TableFile

    def parse_shards(self, sharded: ShardedTable, progress: Progress, share: Share) -> int:
        """Parse shards; returns the number of faulty rows."""
        is_checked = False

        def parse(runs: Any, target: BinaryIO, _: object) -> Counts:
            nonlocal is_checked
            if not is_checked:
                self._check_beginning()
            is_checked = True
            return self.parse(runs, target, progress, share, is_checked=True)

        return sharded.run(parse, share.without)

    def parse(
        self, runs: Iterator[tuple[int, Any]], target: BinaryIO, progress: Progress, share: Share,
        *, is_checked: bool = False,
    ) -> Counts:  # fmt: skip
        """Parse runs of rows, as TableFile gives them; checks the columns if not `is_checked`.

        Returns: the numbers of rows and of faulty ones.
        Raises: DataError: with `on_error` fail, the first row that is malformed or whose heads
            cannot be kept; a column that the model reads is missing; a damaged file.
        """
        job, name = self.job, self.source.name
        n_sentences = failed = certified = searched = 0
        orders = np.zeros(3, np.int64)
        if job.threads > 1 or not job.is_native:
            runs = ahead(runs)
        schema = self._parsed(self.source.schema.empty_table(), 0).table.schema
        with table_writer(target, self.source, schema) as writer:
            for first, table in runs:
                parsed = self._parsed(table, first, is_checked=is_checked)
                is_checked |= parsed.n_words > 0
                for fault in parsed.faults[: max(0, SHOWN - failed)]:
                    job.tell(str(fault))
                failed += len(parsed.faults)
                n_sentences += len(table)
                orders += np.bincount(parsed.orders, minlength=len(orders))
                if parsed.certified is not None:
                    certified += int(parsed.certified.sum())
                    searched += len(parsed.certified)
                writer.write(parsed.table)
                progress.advance(len(table), fraction=share.after(len(table)))
        for line in long_sentences(
            job.model, np.repeat(np.arange(len(orders)), orders), in_misc=False
        ):
            job.tell(f"{name}: {line}")
        if searched:
            job.tell(f"{name}: {uncertified(certified, searched, in_misc=False)}")
        return Counts(n_sentences, failed)

    def _check_beginning(self) -> None:
        """Check the columns of the first rows with words, for all shards."""
        for first, table in self.source.runs():
            chunk = self.job.annotate(self._read(table, first)[1])[0]
            if chunk.n_words:
                self._check_columns(chunk)
                return

    def _parsed(self, table: Any, first: int, *, is_checked: bool = False) -> _ParsedRun:
        """The rows of a table with their tags and trees."""
        job = self.job
        is_faulty, words, counts, faults = self._read(table, first)
        chunk, of_tags = job.annotate(words)
        if not is_checked:
            self._check_columns(chunk)
        if faults and job.options.on_error == "fail":
            more = f" (and {plural(len(faults) - 1, 'more such row')})" if len(faults) > 1 else ""
            option = job.door.option("on_error", "skip", "keep")
            raise DataError(f"{faults[0]}{more}; {option} passes over them")
        columns = word_columns(chunk, job.stages.columns)
        orders, certified = np.zeros(len(chunk), np.int64), None
        if job.model is not None:
            guides = None if job.options.guide is None else Guides(job.options.guide).of(chunk)
            kept = kept_of(chunk) if job.options.keep_heads else None
            found = job.find(chunk, kept, guides)
            assert not isinstance(found, KBest)
            assert found.orders is not None
            orders, certified = found.orders, found.certified
            of_words = Found.of(found, job.model.label_names, kept, of_tags)
            columns |= of_words.columns(table.column_names, job.options.deps)
        elif of_tags is not None:
            columns["tag_prob"] = of_tags, None
        if job.options.on_error == "skip" and is_faulty.any():
            table, counts = rows_of(table, ~is_faulty), counts[~is_faulty]
            is_faulty = is_faulty[~is_faulty]
        with_trees = with_lists(table, counts, columns, is_faulty)
        return _ParsedRun(with_trees, faults, chunk.n_words, orders, certified)

    def _read(
        self, table: Any, first: int
    ) -> tuple[np.ndarray, Treebank, np.ndarray, list[DataError]]:
        """(R,) bool: faulty rows; the sentences of the others; (R,) their words; the faults."""
        options, source = self.job.options, f"{self.source.name}:row"
        read = read_rows(
            table, source, keep_heads=options.keep_heads, first=first, max_line=options.max_line
        )
        chunk, counts = read.treebank, read.counts
        faults = {
            row: DataError(f"{source}:{first + row}{what}") for row, what in read.faults.items()
        }
        if options.keep_heads:
            unkept, sound = self.job.unkept(chunk)
            wrong = np.flatnonzero(counts)[~sound].tolist()
            faults |= dict(zip(wrong, unkept, strict=True))
            chunk = chunk.only(sound)
            counts[wrong] = 0
        is_faulty = np.zeros(len(table), np.bool_)
        is_faulty[list(faults)] = True
        return is_faulty, chunk, counts, [faults[row] for row in sorted(faults)]

    def _check_columns(self, chunk: Treebank) -> None:
        """Refuse a table without a column that the model reads: its trees would be far worse."""
        missing = [
            f"{self.source.name}: column {FIELDS[column - 1]} is missing, null or _ in all of the"
            f" first {plural(chunk.n_words, 'word')}, but the model reads {fields} there"
            for column, fields in missing_columns(chunk, self.job.model, self.job.stages).items()
        ]
        self.job.miss(missing, "fill it in")


class ShardedTable(Sharded):
    """A table that is parsed in shards of whole runs of rows."""

    def __init__(
        self, source: TableFile, output: Path, wanted: Wanted, recipe: Recipe,
        *, force: bool, tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        """As Sharded, of the file of a source, which stays open meanwhile."""
        if source.n_rows is None:
            raise ConfigError(
                f"{source.name}: an Arrow stream does not say where its rows are; write it as a"
                " file, or parse it without --shard"
            )
        self.source, self._n_rows, self._digest = source, source.n_rows, ""
        super().__init__(source.name, "table", output, wanted, recipe, force=force, tell=tell)

    def _make_cuts(self) -> list[int]:
        """Numbers of rows: cut k is the first row of a run at or after rows * k / n."""
        n, run = self._wanted.n, self.source.run
        cuts = [-(-self._n_rows * k // (n * run)) * run for k in range(n)]
        return [min(cut, self._n_rows) for cut in cuts] + [self._n_rows]

    def _parsed_run(
        self, start: int, end: int, target: BinaryIO, parse: Parse
    ) -> tuple[Counts, dict[str, object]]:
        counts = parse(self.source.runs(start, end), target, None)
        return counts, self._facts_of_run(start, end)

    def _facts_of_run(self, start: int, end: int) -> dict[str, object]:
        """The rows, and the SHA-256 of the whole file, in which they have no bytes of their own."""
        if not self._digest:
            with open(self.file, "rb") as file:
                self._digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"from": start, "to": end, "sha256": self._digest}

    def _write_joined(self, markers: list[dict[str, Any]], target: BinaryIO) -> None:
        """Write the rows of all shards, in the same row groups as without shards."""
        with open(os.devnull, "wb") as nowhere:
            for i, marker in enumerate(markers, 1):
                self._copy(i, marker, nowhere)
        with self._shard_file(1) as shard:
            schema = shard.schema
        with table_writer(target, self.source, schema) as writer:
            for i in range(1, len(markers) + 1):
                with self._shard_file(i) as shard:
                    for table in shard.groups():
                        writer.write(table)

    @contextmanager
    def _shard_file(self, i: int) -> Iterator[TableFile]:
        path = self._path(i)
        with open(path, "rb") as file:
            yield TableFile(file, str(path), self.source.format, threads=False)
