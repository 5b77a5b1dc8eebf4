"""From bytes to the table of words: the compiled scanner behind the CoNLL reader.

It works in two passes. `find_lines` cuts the bytes at tabs and line feeds, 64 bytes at a time,
and knows nothing of sentences; `scan_sentences` walks over the lines, checks them and keeps the
words. A fault is reported as a row of numbers (FAULT_*): text is made of it in Python, where
there is time.
"""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.data.byte_blocks import (
    BLOCK,
    CARRIAGE_RETURN,
    LINE_FEED,
    TAB,
    high_bytes_in_block,
    separators_at_end,
    separators_in_block,
    trailing_zeros,
)

N_COLUMNS = 10
HEAD, DEPREL, DEPS = 6, 7, 8
NO_HEAD, BAD_HEAD = -1, -2  # HEAD is "_"; HEAD is anything else that is no number
LARGEST = 2**31 - 1

WORD, RANGE, EMPTY_NODE, MALFORMED = 0, 1, 2, 3

# What can be wrong with a line; `detail` below is the number that the message needs.
NO_FAULT = 0
COLUMN_COUNT = 1  # detail: columns found
LINE_TOO_LONG = 2  # detail: the limit
LONE_RETURN = 3
NOT_UTF8 = 4  # detail: offset of the byte
BAD_ID = 5
UNEXPECTED_ID = 6  # detail: the ID that should stand there
EMPTY_FORM = 7
RANGE_REVERSED = 8
RANGE_OVERLAPS = 9
RANGE_MISPLACED = 10  # detail: the ID that should stand there
RANGE_PAST_END = 11  # detail: words in the sentence

# Columns of a row of faults: code and detail as above; index and offset of the line; offsets of
# the sentence, from its first comment to after its blank line.
FAULT_CODE, FAULT_DETAIL, FAULT_LINE, FAULT_OFFSET, FAULT_START, FAULT_END = 0, 1, 2, 3, 4, 5

HASH, UNDERSCORE, ZERO, NINE, DASH, DOT = 35, 95, 48, 57, 45, 46


@compiled
def count_lines(data: np.ndarray) -> int:
    """Lines in the data, a last one without line feed included."""
    count = 0
    for byte in data:
        count += byte == LINE_FEED
    if len(data) > 0 and data[-1] != LINE_FEED:
        count += 1
    return count


@compiled
def find_lines(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Cuts the bytes into lines and the lines at their tabs.

    Returns: rows (L, 11), where rows[l, 0] is the offset of line l, rows[l, c] the offset after
    its c-th tab (c = 1..9, only those that are there) and rows[l, 10] is 1 + the offset of its
    end, line ending excluded; tabs (L,), the number of tabs, -1 for a line with a carriage return
    inside; the number of lines that end in carriage return and line feed.
    """
    n_lines = count_lines(data)
    rows = np.empty((n_lines, N_COLUMNS + 1), np.int64)
    tabs = np.empty(n_lines, np.int32)
    size = len(data)
    line, n_tabs, n_crlf, broken = 0, 0, 0, False
    if n_lines > 0:
        rows[0, 0] = 0
    for start in range(0, size + 1, BLOCK):
        whole = start + BLOCK <= size
        mask = separators_in_block(data, start) if whole else separators_at_end(data, start)
        while mask != 0:
            at = start + trailing_zeros(mask)
            mask &= mask - np.uint64(1)
            byte = data[at] if at < size else np.uint8(LINE_FEED)
            if byte == TAB:
                n_tabs += 1
                if n_tabs < N_COLUMNS:
                    rows[line, n_tabs] = at + 1
            elif byte == LINE_FEED:
                crlf = at > rows[line, 0] and at < size and data[at - 1] == CARRIAGE_RETURN
                n_crlf += crlf
                rows[line, N_COLUMNS] = at - crlf + 1
                tabs[line] = -1 if broken else n_tabs
                line += 1
                n_tabs, broken = 0, False
                if line < n_lines:
                    rows[line, 0] = at + 1
            elif at + 1 >= size or data[at + 1] != LINE_FEED:
                broken = True
    return rows, tabs, n_crlf


@compiled
def parse_number(data: np.ndarray, start: int, end: int) -> int:
    """data[start:end] as a plain number without leading zeros; BAD_HEAD where it is not one."""
    if end <= start or end - start > 10 or (data[start] == ZERO and end - start > 1):
        return BAD_HEAD
    value = 0
    for i in range(start, end):
        if data[i] < ZERO or data[i] > NINE:
            return BAD_HEAD
        value = value * 10 + int(data[i] - ZERO)
    return value if value <= LARGEST else BAD_HEAD


@compiled
def parse_id(data: np.ndarray, start: int, end: int) -> tuple[int, int, int]:
    """(kind, i, j) of an ID column: `i` a word, `i-j` a multiword range, `i.j` an empty node."""
    for k in range(start, end):
        if data[k] == DASH or data[k] == DOT:
            i = parse_number(data, start, k)
            j = parse_number(data, k + 1, end)
            if i < 0 or j < 1:
                return MALFORMED, 0, 0
            return (RANGE if data[k] == DASH else EMPTY_NODE), i, j
    i = parse_number(data, start, end)
    return (WORD if i >= 0 else MALFORMED), i, i


@compiled
def check_layout(data: np.ndarray, row: np.ndarray, tabs: int, max_line: int) -> tuple[int, int]:
    """(fault, detail) of a line as such, before its ID is looked at; comments have no columns."""
    if row[N_COLUMNS] - 1 - row[0] > max_line:
        return LINE_TOO_LONG, max_line
    if tabs < 0:
        return LONE_RETURN, 0
    if data[row[0]] == HASH:
        return NO_FAULT, 0
    if tabs != N_COLUMNS - 1:
        return COLUMN_COUNT, tabs + 1
    if row[2] - 1 == row[1]:
        return EMPTY_FORM, 0
    return NO_FAULT, 0


@compiled
def check_range(i: int, j: int, next_id: int, last_range_end: int) -> tuple[int, int]:
    """(fault, detail) of the multiword range i-j that stands before word next_id."""
    if j < i:
        return RANGE_REVERSED, 0
    if i <= last_range_end:
        return RANGE_OVERLAPS, 0
    if i != next_id:
        return RANGE_MISPLACED, next_id
    return NO_FAULT, 0


@compiled
def scan_sentence(
    data: np.ndarray,
    rows: np.ndarray,
    tabs: np.ndarray,
    first: int,
    last: int,
    max_line: int,
    columns: np.ndarray,
    lines: np.ndarray,
    heads: np.ndarray,
    at: int,
) -> tuple[int, int, int, int]:
    """Checks lines first..last-1, none of them blank, and stores their words from index `at` on.

    Returns: number of words; fault code, line (index into rows) and detail of the first fault.
    """
    n_words, range_end, range_line = 0, 0, 0
    for line in range(first, last):
        row = rows[line]
        fault, detail = check_layout(data, row, tabs[line], max_line)
        if fault != NO_FAULT:
            return n_words, fault, line, detail
        if data[row[0]] == HASH:
            continue
        kind, i, j = parse_id(data, row[0], row[1] - 1)
        if kind == MALFORMED:
            return n_words, BAD_ID, line, 0
        if kind == RANGE:
            fault, detail = check_range(i, j, n_words + 1, range_end)
            if fault != NO_FAULT:
                return n_words, fault, line, detail
            range_end, range_line = j, line
        if kind == WORD:
            if i != n_words + 1:
                return n_words, UNEXPECTED_ID, line, n_words + 1
            word = at + n_words
            for c in range(N_COLUMNS + 1):  # compiles ten times faster than an assignment of rows
                columns[word, c] = rows[line, c]
            lines[word] = line
            start, end = row[HEAD], row[HEAD + 1] - 1
            missing = end - start == 1 and data[start] == UNDERSCORE
            heads[word] = NO_HEAD if missing else parse_number(data, start, end)
            n_words += 1
    if range_end > n_words:
        return n_words, RANGE_PAST_END, range_line, n_words
    return n_words, NO_FAULT, 0, 0


@compiled
def character_size(data: np.ndarray, at: int) -> int:
    """Bytes of the UTF-8 character at `at`; 0 where there is none (Unicode standard, table 3-7)."""
    lead = data[at]
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if at + size > len(data):
        return 0
    low, high = 0x80, 0xBF  # of the second byte: no overlong forms, surrogates, or above U+10FFFF
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    if data[at + 1] < low or data[at + 1] > high:
        return 0
    for k in range(2, size):
        if data[at + k] & 0xC0 != 0x80:
            return 0
    return size


@compiled
def find_invalid_utf8(data: np.ndarray, start: int) -> int:
    """Offset of the first byte, from `start` on, that begins no UTF-8 character; else len(data)."""
    at, size = start, len(data)
    while at < size:
        if at + BLOCK <= size:
            ascii_only = trailing_zeros(high_bytes_in_block(data, at))
            if ascii_only == BLOCK:
                at += BLOCK
                continue
            at += ascii_only
        while at < size:
            step = character_size(data, at)
            if step == 0:
                return at
            at += step
            if step == 1:  # ASCII again: back to the wide path
                break
    return size


@compiled
def scan_sentences(
    data: np.ndarray, rows: np.ndarray, tabs: np.ndarray, max_line: int, stop_at_fault: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Words and sentences of the lines that find_lines found.

    Args: stop_at_fault: return at the first fault, else leave that sentence's words out and go on.
    Returns: columns (W, 11), heads (W,), lines (W,) as indices into rows, word_starts (S + 1,),
        spans (S, 2), the offsets of each sentence's lines, its blank line excluded; faults (F, 6).
    """
    n_lines = len(rows)
    lines = np.empty(n_lines, np.int64)
    heads = np.empty(n_lines, np.int32)
    word_starts = np.empty(n_lines + 1, np.int64)
    spans = np.empty((n_lines, 2), np.int64)
    faults = np.empty((n_lines, 6), np.int64)
    n_words, n_sentences, n_faults, first = 0, 0, 0, 0
    word_starts[0] = 0
    invalid = find_invalid_utf8(data, 0)
    while first < n_lines:
        if rows[first, N_COLUMNS] - 1 == rows[first, 0]:
            first += 1
            continue
        last = first + 1
        while last < n_lines and rows[last, N_COLUMNS] - 1 > rows[last, 0]:
            last += 1
        start = rows[first, 0]
        end = rows[last, 0] if last < n_lines else len(data)
        # The words move to the front of the rows: never past a line still to be read.
        found, fault, line, detail = scan_sentence(
            data, rows, tabs, first, last, max_line, rows, lines, heads, n_words
        )
        if invalid < end:
            bad = first
            while bad + 1 < last and rows[bad + 1, 0] <= invalid:
                bad += 1
            if fault == NO_FAULT or bad < line:
                fault, line, detail = NOT_UTF8, bad, invalid
            invalid = find_invalid_utf8(data, end)
        if fault != NO_FAULT:
            faults[n_faults, FAULT_CODE] = fault
            faults[n_faults, FAULT_DETAIL] = detail
            faults[n_faults, FAULT_LINE] = line
            faults[n_faults, FAULT_OFFSET] = rows[line, 0]
            faults[n_faults, FAULT_START] = start
            faults[n_faults, FAULT_END] = rows[last + 1, 0] if last + 1 < n_lines else len(data)
            n_faults += 1
            if stop_at_fault:
                break
        elif found > 0:
            n_words += found
            spans[n_sentences, 0] = start
            spans[n_sentences, 1] = end
            n_sentences += 1
            word_starts[n_sentences] = n_words
        first = last
    return (
        rows[:n_words],
        heads[:n_words],
        lines[:n_words],
        word_starts[: n_sentences + 1],
        spans[:n_sentences],
        faults[:n_faults],
    )
