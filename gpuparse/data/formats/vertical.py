"""Vertical text, one word per line and an empty line after each sentence, as CoNLL-U."""

from collections.abc import Iterator
from typing import BinaryIO

from gpuparse.data.conll import BYTE_ORDER_MARK, MAX_LINE
from gpuparse.data.treebank import place
from gpuparse.errors import DataError
from gpuparse.files import no_utf8

CHUNK = 1 << 20  # bytes
_COLUMNS = "\t_" * 8


def stream_vertical(
    binary_file: BinaryIO, source: str, *, chunk_bytes: int = CHUNK, first_line: int = 1
) -> Iterator[bytes]:
    """CoNLL-U of vertical text of any size, some sentences at a time.

    Several empty lines are one; a word may have spaces in it, at its ends they are left out.

    Args:
        binary_file: opened for reading bytes.
        source: its name in messages.
        chunk_bytes: bytes read at a time.
        first_line: number of the first line in the whole file.
    Raises: DataError, whose text begins with file:line: a line is not UTF-8, has NUL, a tab or a
        carriage return in it, or more than 1 MB.
    Cost: 0.5 µs per word; memory for a chunk and a sentence.
    """
    line_number, number, rest = first_line, 0, b""
    rows: list[str] = []  # of whole sentences, and of the one that goes on in the next block
    while True:
        block = binary_file.read(chunk_bytes)
        lines = (rest + block).split(b"\n")
        rest = lines.pop() if block else b""
        if len(rest) > MAX_LINE:
            lines.append(rest)  # refused below
        if line_number == 1 and lines:
            lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
        whole = 0  # rows of whole sentences
        for k, line in enumerate(lines):
            word = _word(line, source, line_number + k)
            if word:
                number += 1
                rows.append(f"{number}\t{word}{_COLUMNS}\n")
            elif number:
                number = 0
                rows.append("\n")
                whole = len(rows)
        line_number += len(lines)
        if not block and number:
            rows.append("\n")
            whole = len(rows)
        if whole:
            yield "".join(rows[:whole]).encode()
            del rows[:whole]
        if not block:
            return


def _word(line: bytes, source: str, number: int) -> str:
    wrong = ""
    try:
        text = line.decode().strip(" \r")
    except UnicodeDecodeError:
        wrong = "is not UTF-8; convert the file to UTF-8"
    else:
        if len(line) > MAX_LINE:
            wrong = f"has more than {MAX_LINE} bytes; break it up"
        elif "\t" in text:
            wrong = "has a tab; write one word per line, without columns, or use CoNLL-U"
        elif "\0" in text or "\r" in text:
            wrong = "has NUL or a carriage return in it; remove it"
    if wrong and number == 1 and (what := no_utf8(line)):
        raise DataError(f"{place(source, number, '')}{what}")
    if wrong:
        raise DataError(f"{place(source, number, '')}the line {wrong}")
    return text
