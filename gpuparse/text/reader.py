"""Reading raw text of any size, a chunk of whole segments at a time."""

import re
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from gpuparse.data.treebank import place
from gpuparse.errors import DataError
from gpuparse.text.characters import MAX_SPACES, are_spaces, code_points, segments, space_runs

OnTextError = Literal["fail", "skip"]
CHUNK = 4 << 20  # bytes
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")


class TextChunk(NamedTuple):
    """Some segments of a text (`characters.segments`); none of its parts is known elsewhere.

    faults: errors of the text that was left out before it; the messages begin with file:line.
    """

    data: bytes  # valid UTF-8 without NUL
    source: str  # the file's name in messages
    line: int  # of data[0], from 1
    byte: int  # of data[0] in the file, from 0
    character: int  # of data[0] in the file, from 0; what was left out is not counted
    segment: int  # number of the first segment, from 1
    begins_document: bool
    begins_paragraph: bool
    ends_paragraph: bool
    faults: tuple[DataError, ...] = ()


def text_chunk(text: bytes, source: str) -> TextChunk:
    """A whole text as one chunk.

    Raises: DataError, whose text begins with file:line: NUL, bytes that are not UTF-8, or too much
        white space.
    """
    reader = _Reader(source)
    fault = _find_fault(text, at_end=True)
    if fault is not None:
        raise reader.error(text, fault)
    codes = code_points(text)
    spaces = are_spaces(codes)
    reader.check_spaces(text, codes, spaces)
    return reader.chunk(text, codes, len(segments(codes, spaces)[0]), ends_paragraph=True)


def stream_text(
    binary_file: BinaryIO,
    source: str,
    *,
    chunk_bytes: int = CHUNK,
    on_error: OnTextError = "fail",
) -> Iterator[TextChunk]:
    """Reads a text of any size.

    Args:
        binary_file: opened for reading bytes.
        source: its name in messages.
        chunk_bytes: bytes read at a time. The segments do not depend on it.
        on_error: what to do with NUL and bytes that are not UTF-8. "fail": raise. "skip": leave out
            the segment, up to the next blank line, and record the error in `faults`.
    Yields: the chunks; an empty text has none. Faults after the last segment come in a chunk
        without text.
    Raises: DataError, whose text begins with file:line.
    Cost: 15 ns a character; memory for two chunks.
    """
    reader = _Reader(source)
    pending = b""
    faults: list[DataError] = []
    is_skipping, enough = False, 0
    while True:
        block = binary_file.read(chunk_bytes)
        pending += block
        if is_skipping:
            found = _BLANK_LINE.search(pending)
            if found is None and block:
                keep = len(pending) - len(pending.rstrip(b" \t\r\n"))
                reader.skip(pending[: len(pending) - keep])
                pending = pending[len(pending) - keep :]
                continue
            end = found.end() if found else len(pending)
            reader.skip(pending[:end])
            pending, is_skipping, enough = pending[end:], False, 0
        if block and len(pending) < enough:
            continue
        fault = _find_fault(pending, at_end=not block)
        whole = _whole_characters(pending) if block and fault is None else len(pending)
        text = pending[: whole if fault is None else fault]
        codes = code_points(text)
        spaces = are_spaces(codes)
        reader.check_spaces(text, codes, spaces)
        starts, begins = segments(codes, spaces)
        if not block and fault is None:
            if text or faults:
                yield reader.chunk(
                    text, codes, len(starts), ends_paragraph=True, faults=tuple(faults)
                )
            return
        # The last segment may go on; what comes before is cut where any reading cuts it.
        if len(starts) > 1:
            cut = len(codes[: starts[-1]].tobytes().decode("utf-32-le").encode())
            is_end = bool(begins[-1]) or fault is not None
            yield reader.chunk(
                text[:cut], codes[: starts[-1]], len(starts) - 1,
                ends_paragraph=is_end, faults=tuple(faults),
            )  # fmt: skip
            pending, faults, enough = pending[cut:], [], 0
        else:
            cut, enough = 0, 2 * len(pending)  # so that all looks together cost as much as two
        if fault is not None:
            error = reader.error(pending, fault - cut)
            if on_error == "fail":
                raise error
            faults.append(error)
            reader.skip(pending[: fault - cut])
            pending, is_skipping = pending[fault - cut :], True


class _Reader:
    """The place that was reached in a text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.line = 1
        self.byte = self.character = 0
        self.segment = 1
        self.is_new_document = self.is_new_paragraph = True

    def chunk(
        self,
        text: bytes,
        codes: np.ndarray,
        n_segments: int,
        *,
        ends_paragraph: bool,
        faults: tuple[DataError, ...] = (),
    ) -> TextChunk:
        """The next bytes as a chunk."""
        made = TextChunk(
            text, self.source, self.line, self.byte, self.character, self.segment,
            self.is_new_document, self.is_new_paragraph, ends_paragraph, faults,
        )  # fmt: skip
        self._pass(text)
        self.character += len(codes)
        self.segment += n_segments
        self.is_new_document &= not text
        self.is_new_paragraph = ends_paragraph
        return made

    def skip(self, text: bytes) -> None:
        """Pass bytes that are left out."""
        self._pass(text)
        self.is_new_paragraph = True

    def check_spaces(self, text: bytes, codes: np.ndarray, spaces: np.ndarray) -> None:
        """Raises: DataError for a run of white space that no line of CoNLL-U could have."""
        first, last = space_runs(spaces)
        long = np.flatnonzero(last - first > MAX_SPACES)
        if len(long):
            k = int(long[0])
            before = codes[: first[k]].tobytes().decode("utf-32-le").encode()
            line = self.line + before.count(b"\n")
            raise DataError(
                f"{place(self.source, line, '')}more than {MAX_SPACES:,} spaces and line ends in"
                f" a row, from byte {self.byte + len(before)} on; remove most of them"
            )

    def error(self, text: bytes, offset: int) -> DataError:
        """The error for a byte that no text has."""
        where = place(self.source, self.line + text.count(b"\n", 0, offset), "")
        at = self.byte + offset
        if text[offset] == 0:
            return DataError(
                f"{where}byte {at} of the file is NUL, which no text has; remove it, or convert the"
                " file to UTF-8 if it is UTF-16 or UTF-32"
            )
        return DataError(f"{where}byte {at} of the file is not UTF-8; convert the file to UTF-8")

    def _pass(self, text: bytes) -> None:
        self.line += text.count(b"\n")
        self.byte += len(text)


def _find_fault(text: bytes, *, at_end: bool) -> int | None:
    """Offset of the first byte that is NUL or not UTF-8; the end may have half a character."""
    null = text.find(b"\0")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        is_half = error.end == len(text) and error.reason == "unexpected end of data"
        if at_end or not is_half:
            return error.start if null < 0 else min(null, error.start)
    return None if null < 0 else null


def _whole_characters(text: bytes) -> int:
    """Bytes of the text without half a character at its end."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(text)
