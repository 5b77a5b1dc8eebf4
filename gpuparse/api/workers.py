"""A parser for the workers of an engine, such as Ray, Spark or a pool of processes.

parse = WorkerParser("runs/danish")
parse.file("corpus/a.parquet", "parsed/a.parquet")  # no sentence passes through the engine
dataset.map_batches(parse, batch_format="pyarrow", batch_size=4000, num_cpus=1)
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from gpuparse.api.parsing import ParseArguments, SentenceParser, folder_files, load, options_of
from gpuparse.data.conll import OnError
from gpuparse.data.formats.arrow_tables import has_texts
from gpuparse.data.formats.names import AUTO
from gpuparse.data.formats.objects import no_form
from gpuparse.data.formats.sources import SENTENCES, Rows
from gpuparse.errors import ConfigError, DataError, plural
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import table_of
from gpuparse.jobs.shards import Counts
from gpuparse.model.folder import check_folder
from gpuparse.model.installed import find_model

if TYPE_CHECKING:
    import pyarrow

SHOWN = 5  # columns, and faulty rows, that a message has
MANY = 100  # rows among which there must be a value in each column that the model reads


class WorkerParser:
    """A parser of files and of Arrow tables that is small and can be pickled.

    It has the name of a model, and options. A process loads the model when it first parses, and
    keeps it.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        threads: int = 1,
        device: str = "cpu",
        allow_missing: bool = False,
        single_root: bool = False,
        on_error: OnError = "fail",
        **asked: Unpack[ParseArguments],
    ) -> None:
        """
        Args:
            model: the folder that training wrote, which all processes see under the same path, or
                the name of a model that is installed where it is used.
            threads: CPU threads of a call: what the engine reserves for a task.
            device, allow_missing, single_root: see `gpuparse.load`.
            on_error: see `SentenceParser.parse_file`; a faulty row of a table has nulls in the new
                columns unless it is "fail".
            asked: the options of `SentenceParser.parse`.
        Raises: ModelError: there is no such model. TypeError: there is no such option.
        """
        check_folder(folder := find_model(model))
        # A worker has an installed model of this name in a folder of its own.
        is_name = folder != Path(model).expanduser()
        name = os.fspath(model if is_name else folder.absolute())
        self._of_model = name, threads, device, allow_missing, single_root
        options_of(asked)  # not only in each worker
        self._asked: dict[str, Any] = {"on_error": on_error, **asked}

    def file(
        self, source: str | os.PathLike[str], target: str | os.PathLike[str], input: str = AUTO
    ) -> Counts:
        """Parse a file into a file, which is replaced if it exists.

        It appears under its name when it is complete, and has the bytes that `gpuparse parse`
        writes; a call that is killed and repeated changes nothing.

        Args: input: its format; see `SentenceParser.parse_file`.
        Raises: as `gpuparse.load` and `SentenceParser.parse_file`.
        """
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        parser = _loaded(*self._of_model)
        return parser.parse_file(source, target, input=input, force=True, **self._asked)

    def __call__(self, table: pyarrow.Table | pyarrow.RecordBatch) -> pyarrow.Table:
        """Parse a table with a row per sentence and list columns form, upos, xpos, ...

        Which rows are parsed together changes neither the parses nor the types of columns.

        Returns: the table with the columns that `Parsed.to_arrow` adds. Of a table of documents it
            has a row per sentence.
        Raises: as `gpuparse.load` and `SentenceParser.parse`; DataError: rows that cannot be read,
            which it names; columns that the model reads are missing.
        """
        import pyarrow

        if isinstance(table, pyarrow.RecordBatch):
            table = pyarrow.Table.from_batches([table])
        if self._asked.get("kbest") is not None:
            raise ConfigError("kbest: a table has one tree per row; give CoNLL-U to file()")
        parser = _loaded(*self._of_model)
        job = parser.job(ParseOptions(**self._asked), may_pass_over=True)
        names = table.column_names
        if not (has_texts(names) and job.stages.tokenizer):
            if "form" not in names:
                raise no_form(names)
            missing = [name for name in parser.columns if name not in names]
            if missing and not job.options.allow_missing:
                raise DataError(
                    f"the model reads {', '.join(missing)}, but there is no such column among"
                    f" {', '.join(names)}; allow_missing=True parses without, worse"
                )
        source = job.table([(0, table)], SENTENCES)
        # A few sentences may have no tags by accident.
        keeps = replace(job, options=replace(job.options, on_error="keep"))
        [(piece, result)] = keeps.results(source, is_checked=table.num_rows < MANY)
        assert isinstance(piece, Rows)
        if piece.faults and job.options.on_error == "fail":
            raise _error_of(piece, table.num_rows)
        return table_of(piece, result)

    def schema(self, of_input: pyarrow.Schema) -> pyarrow.Schema:
        """The schema of the result for tables of a schema. Raises: as a call."""
        return self(of_input.empty_table()).schema


def files_of(
    source: str | os.PathLike[str], target: str | os.PathLike[str]
) -> list[tuple[str, str]]:
    """The files of a folder, and their outputs in another folder, for `WorkerParser.file`.

    Files whose outputs exist are left out, so that a job that has ended early goes on. Names that
    begin with `.` or `_` are passed over, and so are files whose suffix says no format, with a
    warning. Files have the same names as outputs, but text has `.conllu` in place of `.txt`.

    Raises: ConfigError: the source is no folder or has no files; the target is in it.
    """
    found = folder_files(os.path.abspath(source), os.path.abspath(target))
    return [(file, os.fspath(output)) for file, _, output in found if not output.exists()]


@lru_cache(maxsize=4)
def _loaded(
    model: str, threads: int, device: str, allow_missing: bool, single_root: bool
) -> SentenceParser:
    """A parser, loaded when this process first asks for it."""
    return load(
        model, threads=threads, device=device, allow_missing=allow_missing, single_root=single_root
    )


def _error_of(piece: Rows, n_rows: int) -> DataError:
    """The error of rows, with what tells the reader which rows they are."""
    lines = []
    rows = np.flatnonzero(piece.is_faulty).tolist()
    for row, fault in list(zip(rows, piece.faults, strict=True))[:SHOWN]:
        named = piece.table.slice(row, 1).to_pylist()[0]
        texts = [f"{name}={value!r}"[:60] for name, value in named.items()]
        what = re.sub(rf"^{SENTENCES}\[(\d+)\]", r"row \1 of a batch of {}", str(fault), count=1)
        lines.append(f"{what.format(plural(n_rows, 'row'))}: {', '.join(texts[:SHOWN])}")
    more = len(piece.faults) - SHOWN
    if more > 0:
        lines.append(f"and {plural(more, 'more row')}")
    return DataError("\n".join([*lines, 'on_error="keep" parses the other rows']))
