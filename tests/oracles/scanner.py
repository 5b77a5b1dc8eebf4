"""The scanner of the CoNLL reader in plain Python: the definition of native/conll_scanner.h."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpuparse.data.columns import FORM, HEAD
from gpuparse.data.scanner import (
    BAD_HEAD,
    BAD_ID,
    COLUMN_COUNT,
    EMPTY_FORM,
    LINE_TOO_LONG,
    LONE_RETURN,
    N_COLUMNS,
    NO_HEAD,
    NOT_UTF8,
    RANGE_MISPLACED,
    RANGE_OVERLAPS,
    RANGE_PAST_END,
    RANGE_REVERSED,
    UNEXPECTED_ID,
    Scanned,
)

LARGEST = 2**31 - 1
_NUMBER = re.compile(rb"0|[1-9][0-9]{0,9}")
_ID = re.compile(rb"([^-.]*)([-.])(.*)", re.DOTALL)


class _Fault(Exception):
    """A fault of a sentence: its code, its line and the number that the message needs."""

    def __init__(self, code: int, line: "_Line", detail: int = 0) -> None:
        self.code, self.line, self.detail = code, line, detail


class _Line(NamedTuple):
    """A line that is not blank, without its line ending."""

    number: int
    start: int
    text: bytes
    after: int  # offset of the next line


class _Word(NamedTuple):
    line: _Line
    columns: list[int]
    head: int


def scan(data: np.ndarray, max_line: int, *, stop_at_fault: bool) -> Scanned:
    """As `gpuparse.data.scanner.scan`."""
    text = data.tobytes()
    words: list[_Word] = []
    word_starts, spans, faults = [0], [], []
    for lines, after in _sentences(text):
        start, end = lines[0].start, lines[-1].after
        try:
            words += _words(lines, max_line)
        except _Fault as fault:
            line = fault.line
            row = [fault.code, fault.detail, line.number, line.start, start, after]
            faults.append(row)
            if stop_at_fault:
                break
            continue
        if len(words) > word_starts[-1]:
            word_starts.append(len(words))
            spans.append([start, end])
    return Scanned(
        np.array([word.columns for word in words], np.int64).reshape(-1, N_COLUMNS + 1),
        np.array([word.head for word in words], np.int32),
        np.array([word.line.number for word in words], np.int64),
        np.array(word_starts, np.int64),
        np.array(spans, np.int64).reshape(-1, 2),
        np.array(faults, np.int64).reshape(-1, 6),
        text.count(b"\r\n"),
    )


def parse_number(text: bytes) -> int:
    """A number without leading zeros, up to 2^31 - 1; BAD_HEAD for anything else."""
    return number if _NUMBER.fullmatch(text) and (number := int(text)) <= LARGEST else BAD_HEAD


def parse_id(text: bytes) -> tuple[int, str, int] | None:
    """(i, separator, j) of an ID `i`, `i-j` or `i.j`; None for anything else."""
    match = _ID.fullmatch(text)
    if match is None:
        i = parse_number(text)
        return (i, "", i) if i >= 0 else None
    i, j = parse_number(match[1]), parse_number(match[3])
    return (i, match[2].decode(), j) if i >= 0 and j >= 1 else None


def _sentences(text: bytes) -> Iterator[tuple[list[_Line], int]]:
    """The lines of each sentence, and the offset after its blank line."""
    lines: list[_Line] = []
    start = 0
    for number, raw in enumerate(text.split(b"\n")):
        after = min(start + len(raw) + 1, len(text))
        is_last = start + len(raw) == len(text)
        content = raw[:-1] if raw.endswith(b"\r") and not is_last else raw
        if content:
            lines.append(_Line(number, start, content, after))
        elif lines:
            yield lines, after
            lines = []
        start = after
    if lines:
        yield lines, len(text)


def _words(lines: list[_Line], max_line: int) -> list[_Word]:
    """The words of a sentence, or its first fault."""
    try:
        words = _checked_words(lines, max_line)
    except _Fault as fault:
        _require_utf8([line for line in lines if line.number < fault.line.number])
        raise
    _require_utf8(lines)
    return words


def _require_utf8(lines: list[_Line]) -> None:
    for line in lines:
        try:
            line.text.decode()
        except UnicodeDecodeError as error:
            raise _Fault(NOT_UTF8, line, line.start + error.start) from None


def _checked_words(lines: list[_Line], max_line: int) -> list[_Word]:
    words: list[_Word] = []
    range_end, range_line = 0, lines[0]
    for line in lines:
        columns = _columns(line, max_line)
        if not columns:
            continue
        parsed = parse_id(columns[0])
        if parsed is None:
            raise _Fault(BAD_ID, line)
        i, separator, j = parsed
        if separator == "-":
            _check_range(line, i, j, len(words) + 1, range_end)
            range_end, range_line = j, line
        elif not separator:
            if i != len(words) + 1:
                raise _Fault(UNEXPECTED_ID, line, len(words) + 1)
            ends = line.start + np.cumsum([len(column) + 1 for column in columns])
            head = NO_HEAD if columns[HEAD] == b"_" else parse_number(columns[HEAD])
            words.append(_Word(line, [line.start, *ends.tolist()], head))
    if range_end > len(words):
        raise _Fault(RANGE_PAST_END, range_line, len(words))
    return words


def _columns(line: _Line, max_line: int) -> list[bytes]:
    """The columns of a line, none of a comment."""
    if len(line.text) > max_line:
        raise _Fault(LINE_TOO_LONG, line, max_line)
    if b"\r" in line.text:
        raise _Fault(LONE_RETURN, line)
    if line.text.startswith(b"#"):
        return []
    columns = line.text.split(b"\t")
    if len(columns) != N_COLUMNS:
        raise _Fault(COLUMN_COUNT, line, len(columns))
    if not columns[FORM]:
        raise _Fault(EMPTY_FORM, line)
    return columns


def _check_range(line: _Line, i: int, j: int, expected: int, range_end: int) -> None:
    """Raise the fault of a multiword range before the word `expected`."""
    if j < i:
        raise _Fault(RANGE_REVERSED, line)
    if i <= range_end:
        raise _Fault(RANGE_OVERLAPS, line)
    if i != expected:
        raise _Fault(RANGE_MISPLACED, line, expected)
