"""Arrow tables with one row per sentence and a list column per field, read and extended.

pyarrow is imported when a table is there.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.conll import MAX_LINE, treebank_from_bytes
from gpuparse.data.formats.objects import FIELDS, PASSED_OVER, no_form, shown, twice, value_as_text
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError, one_line, plural

TEXT = "text"  # the column of documents
_SEPARATOR = "[\t\n\r]"
_EXPECTED = {"head": "whole numbers", "feats": "text or of dicts", "misc": "text or of dicts"}


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
