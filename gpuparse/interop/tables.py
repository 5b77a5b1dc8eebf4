"""A parser of the tables that workers of an engine, such as Ray or Spark, are given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuparse.api.parsing import load
from gpuparse.errors import ConfigError, DataError, plural
from gpuparse.formats.arrow_tables import TEXT, has_texts
from gpuparse.formats.objects import no_form
from gpuparse.formats.sources import SENTENCES, Rows
from gpuparse.jobs.parse import table_of

if TYPE_CHECKING:
    import pyarrow

ON_ERROR = ("fail", "null")
SHOWN = 5  # columns, and faulty rows, that a message has
MANY = 1000  # words among which there must be a value in each column that the model reads


class TableParser:
    """A trained parser of Arrow tables: one row per sentence, a list per row in each column.

    Which rows are parsed together changes neither the parses nor the types of columns.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        threads: int,
        device: str,
        single_root: bool,
        allow_missing: bool,
        on_error: str,
        **asked: Any,
    ) -> None:
        """Arguments: see `gpuparse.load`; on_error: see RayParser; asked: see `parse` of a parser.

        Raises: ConfigError, ModelError: as `gpuparse.load` and `parse`; ConfigError: several trees
            of a sentence are asked for. TypeError: there is no such option.
        """
        if on_error not in ON_ERROR:
            raise ConfigError(f"on_error: expected {' or '.join(ON_ERROR)}, not {on_error!r}")
        if asked.get("kbest") is not None:
            raise ConfigError("kbest: a table has one tree per row; give CoNLL-U to parse_file")
        # A few sentences may have no tags by accident: what is missing is looked for below.
        self._parser = load(
            model, threads=threads, device=device, allow_missing=True, single_root=single_root
        )
        self._job = self._parser.job(on_error="keep", **asked)
        self._allow_missing, self._on_error = allow_missing, on_error

    def __call__(self, table: pyarrow.Table | pyarrow.RecordBatch) -> pyarrow.Table:
        """A table with the columns `head`, `deprel` and others that were asked for at its end.

        Of a table of documents it has a row per sentence.

        Raises: DataError: rows that cannot be read; columns that the model reads are missing.
        """
        import pyarrow as arrow

        if isinstance(table, arrow.RecordBatch):
            table = arrow.Table.from_batches([table])
        self.check_columns(table.column_names)
        self._check_values(table)
        piece, parsed = self._parsed(table)
        if piece.faults and self._on_error == "fail":
            raise _error_of(piece, table.num_rows)
        return parsed

    def _parsed(self, table: pyarrow.Table) -> tuple[Rows, pyarrow.Table]:
        """What was read of a table, and the table with what was found, nulls in faulty rows."""
        source = self._job.table([(0, table)], SENTENCES, fails=False)
        [(piece, result)] = self._job.results(source)
        assert isinstance(piece, Rows)
        return piece, table_of(piece, result)

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse tables without a column that the model reads.

        Raises: DataError: names what is missing.
        """
        there = list(names)
        if has_texts(there) and self._job.stages.tokenizer:
            return
        if "form" not in there:
            raise no_form(there)
        missing = [name for name in self._parser.columns if name not in there]
        if missing and not self._allow_missing:
            shown = ", ".join(there)
            raise _missing(missing, f"there is no such column among {shown}")

    def new_columns(self, names: Iterable[str]) -> dict[str, pyarrow.DataType]:
        """The columns that parsing adds to a table or replaces, with their types.

        Args: names: of the table's columns.
        """
        import pyarrow as arrow

        text, words = arrow.string(), arrow.list_(arrow.string())
        given = {TEXT: text} if has_texts(list(names)) else {"form": words}
        nothing = arrow.table({name: arrow.array([], kind) for name, kind in given.items()})
        schema = self._parsed(nothing)[1].schema
        return {field.name: field.type for field in schema if field.name not in given}

    def _check_values(self, table: pyarrow.Table) -> None:
        if "form" not in table.column_names:
            return
        n_words = len(_values(table, "form"))
        if self._allow_missing or n_words < MANY:
            return
        empty = [name for name in self._parser.columns if _is_empty(_values(table, name))]
        if empty:
            raise _missing(
                empty, f"all values are missing in a batch of {plural(table.num_rows, 'row')}"
            )


def _missing(names: list[str], what: str) -> DataError:
    return DataError(
        f"the model reads {', '.join(names)}, but {what}; allow_missing=True parses without, worse"
    )


def _values(table: pyarrow.Table, name: str) -> Any:
    """The values of all words in a column; those of no list have none."""
    column = table.column(name)
    return column if str(column.type) == "null" else column.combine_chunks().flatten()


def _is_empty(values: Any) -> bool:
    """Whether there is no value but nulls, empty text and `_`."""
    import pyarrow.compute as compute

    kind = str(values.type)
    if kind == "null" or not kind.startswith(("string", "large_string", "dictionary")):
        return kind == "null"
    some = values[:MANY], values  # most columns have a value among the first words
    return all(set(compute.unique(v.drop_null()).to_pylist()) <= {"", "_"} for v in some)


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
    return DataError("\n".join([*lines, 'on_error="null" parses the other rows']))
