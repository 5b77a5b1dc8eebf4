"""From bytes to the table of words: the native scanner of the CoNLL reader.

A fault is reported as a row of numbers (FAULT_*); `faults` makes messages of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuparse import native

# Of CoNLL-U, as messages call them; CoNLL-X has other names for some, in the same places.
COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
N_COLUMNS = len(COLUMNS)
NO_HEAD, BAD_HEAD = -1, -2  # HEAD is "_"; HEAD is anything else that is no number

# What is wrong with a line; `detail` below is the number that the message needs.
COLUMN_COUNT = 1  # detail: columns found
LINE_TOO_LONG = 2  # detail: the limit
LONE_RETURN = 3
NOT_UTF8 = 4  # detail: offset of the byte
BAD_ID = 5
UNEXPECTED_ID = 6  # detail: the expected ID
EMPTY_FORM = 7
RANGE_REVERSED = 8
RANGE_OVERLAPS = 9
RANGE_MISPLACED = 10  # detail: the expected ID
RANGE_PAST_END = 11  # detail: words in the sentence

# Columns of a row of faults: code and detail as above; index and offset of the line; offsets of
# the sentence, from its first comment to after its blank line.
FAULT_CODE, FAULT_DETAIL, FAULT_LINE, FAULT_OFFSET, FAULT_START, FAULT_END = 0, 1, 2, 3, 4, 5


def column_name(number: int) -> str:
    """The name of a column, 0 to 9, in messages: its name, and its number from 1."""
    return f"{COLUMNS[number]} (column {number + 1})"


class Scanned(NamedTuple):
    """The words and sentences of some bytes; what the arrays contain says native/api/conll.h."""

    columns: np.ndarray  # int64 (W, 11)
    heads: np.ndarray  # int32 (W,)
    lines: np.ndarray  # int64 (W,), from 0
    word_starts: np.ndarray  # int64 (S + 1,)
    spans: np.ndarray  # int64 (S, 2)
    faults: np.ndarray  # int64 (F, 6)
    n_crlf: int  # lines that end in \r\n


class ScannedText(NamedTuple):
    """Bytes of whole sentences with what is in them; None: not scanned, for they have faults."""

    text: bytes
    found: Scanned | None


def empty_scan(n_words: int, n_sentences: int) -> Scanned:
    """Room for some words and sentences without faults."""
    return Scanned(
        np.empty((n_words, N_COLUMNS + 1), np.int64), np.empty(n_words, np.int32),
        np.empty(n_words, np.int64), np.empty(n_sentences + 1, np.int64),
        np.empty((n_sentences, 2), np.int64), _NO_FAULTS, 0,
    )  # fmt: skip


_NO_FAULTS = np.empty((0, 6), np.int64)


def joined_scans(parts: Sequence[ScannedText]) -> ScannedText:
    """Texts without faults, one after the other."""
    if len(parts) == 1:
        return parts[0]
    text, scans = b"".join(part.text for part in parts), [part.found for part in parts]
    if any(found is None for found in scans):
        return ScannedText(text, None)
    byte = line = word = 0
    moved: list[Scanned] = [empty_scan(0, 0)._replace(word_starts=np.zeros(1, np.int64))]
    for part, found in zip(parts, scans, strict=True):
        assert found is not None
        moved.append(found._replace(
            columns=found.columns + byte, spans=found.spans + byte, lines=found.lines + line,
            word_starts=found.word_starts[1:] + word,
        ))  # fmt: skip
        byte, line = byte + len(part.text), line + part.text.count(b"\n")
        word += len(found.heads)
    arrays = map(np.concatenate, zip(*(each[:-1] for each in moved), strict=True))
    return ScannedText(text, Scanned._make([*arrays, 0]))


def scan(text: bytes, max_line: int, *, stop_at_fault: bool) -> Scanned:
    """Scan the lines of a CoNLL file.

    Args:
        text: whole sentences.
        max_line: longest line allowed, in bytes.
        stop_at_fault: return at the first fault; else leave out that sentence's words and go on.
    Cost: about 1 ns per byte.
    """
    n_lines = text.count(b"\n") + 1  # at most
    found = Scanned(
        np.empty((n_lines, N_COLUMNS + 1), np.int64),
        np.empty(n_lines, np.int32),
        np.empty(n_lines, np.int64),
        np.empty(n_lines + 1, np.int64),
        np.empty((n_lines, 2), np.int64),
        np.empty((n_lines, 6), np.int64),
        0,
    )
    counts = np.empty(4, np.int64)
    data = np.frombuffer(text, np.uint8)
    native.call("scan_conll", data, max_line, stop_at_fault, found, counts)
    n_words, n_sentences, n_faults, n_crlf = counts.tolist()
    return Scanned(
        found.columns[:n_words],
        found.heads[:n_words],
        found.lines[:n_words],
        found.word_starts[: n_sentences + 1],
        found.spans[:n_sentences],
        found.faults[:n_faults],
        n_crlf,
    )
