"""Faults of data: the codes that native code gives, and messages about lines."""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from gpuparse.data import scanner
from gpuparse.data.treebank import find_sent_id, place
from gpuparse.errors import DataError, option, plural
from gpuparse.files import no_utf8

SHOWN = 40  # characters of a faulty field that a message quotes
MESSAGES = {
    scanner.LINE_TOO_LONG: "the line is longer than {detail} bytes; break it up",
    scanner.LONE_RETURN: "a carriage return without a line feed after it; end lines in \\n or "
    "\\r\\n",
    scanner.NOT_UTF8: "byte {detail} of the file is not UTF-8; convert the file to UTF-8",
    scanner.BAD_ID: "{id!r} is no ID; write a number, i-j for a multiword range or i.j for an "
    "empty node, without leading zeros",
    scanner.UNEXPECTED_ID: "ID {id} where {detail} should be; number the words 1, 2, 3, ... in "
    "every sentence and end each sentence with a blank line",
    scanner.EMPTY_FORM: "FORM (column 2) is empty; write _ if there is no form",
    scanner.RANGE_REVERSED: "the multiword range {id} ends before it begins; write it i-j, i <= j",
    scanner.RANGE_OVERLAPS: "the multiword range {id} overlaps the one before it; a word can be "
    "in one range only",
    scanner.RANGE_MISPLACED: "the multiword range {id} stands before word {detail}; put it right "
    "before its first word",
    scanner.RANGE_PAST_END: "the multiword range {id} goes past the end of the sentence of "
    "{detail} words; correct it or add the words",
}


class TreeFault(IntEnum):
    """The first fault of a sentence's heads, as in native/trees.h."""

    WELL_FORMED = 0
    MISSING_HEAD = 1
    NO_HEAD_NUMBER = 2
    HEAD_OUT_OF_RANGE = 3
    SELF_HEAD = 4
    CYCLE = 5
    SEVERAL_ROOTS = 6
    CROSSING = 7


class DepsFault(IntEnum):
    """Faults of an item of DEPS, as in native/conll_columns.h."""

    NO_DEPS_FAULT = 0
    NO_COLON = 1
    NO_NUMBER = 2
    NO_RELATION = 3
    OUT_OF_RANGE = 4
    OWN_HEAD = 5


def quoted(value: str) -> str:
    """A faulty value as a message quotes it, cut where it is long."""
    return repr(value if len(value) <= SHOWN else f"{value[:SHOWN]}...")


def fault_error(
    fault: np.ndarray, text: bytes, source: str, *, first_line: int, first_byte: int
) -> DataError:
    """The error for one row of the scanner's faults.

    Args:
        fault: a row as scan_sentences returns it.
        text: the bytes that were scanned.
        source: the file's name.
        first_line, first_byte: where text begins in the file; lines count from 1, bytes from 0.
    """
    line, start, end = (
        int(fault[i]) for i in (scanner.FAULT_LINE, scanner.FAULT_START, scanner.FAULT_END)
    )
    if first_byte == 0 and (of_file := no_utf8(text)):
        return DataError(f"{source}:1: {of_file}")
    what = fault_text(fault, text, first_byte=first_byte)
    return DataError(place(source, first_line + line, find_sent_id(text[start:end])) + what)


def fault_text(fault: np.ndarray | Sequence[int], text: bytes, *, first_byte: int) -> str:
    """The fault and the advice, for a row of faults; arguments as in `fault_error`."""
    code, detail, _, offset, _, end = (int(number) for number in fault)
    if code == scanner.COLUMN_COUNT:
        return _column_count(text[offset:end].split(b"\n", 1)[0], detail)
    if code == scanner.NOT_UTF8:
        detail += first_byte
    field = text[offset : min(end, offset + SHOWN)].split(b"\t", 1)[0]
    return MESSAGES[code].format(detail=detail, id=field.decode(errors="replace"))


def _column_count(line: bytes, found: int) -> str:
    """The message about a line without ten columns."""
    columns = plural(found, "column")
    if not line.strip():
        return f"a line of blanks ({columns}); a blank line must be empty"
    if found == 1 and not line[:1].isdigit():
        return (
            f"{columns} instead of 10: this is not CoNLL-U; parse raw text first, by a model that"
            f" has a tokeniser, such as english: give `parse` {option('input', 'text')}"
        )
    if found < scanner.N_COLUMNS and len(line.split()) >= scanner.N_COLUMNS:
        return f"{columns} instead of 10; separate the columns by tabs, not by spaces"
    return f"{columns} instead of 10; separate ten columns by tabs and write _ for an empty one"
