"""Reading raw text of any size, a chunk of whole segments at a time."""

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from gpuparse.data.conll import BYTE_ORDER_MARK
from gpuparse.data.formats.paragraphs import (
    MAX_SPACES,
    SPACES,
    are_spaces,
    code_points,
    lines_before,
    lines_of_their_own,
    segments,
    space_runs,
)
from gpuparse.data.treebank import place
from gpuparse.errors import DataError, option, plural
from gpuparse.files import no_utf8

OnTextError = Literal["fail", "skip"]
CHUNK = 4 << 20  # bytes
_BLANK_LINE = re.compile(rb"(?:\r\n|\r(?!\n)|\n)[ \t]*[\r\n]")
_LINE_END = re.compile(rb"\r\n|\r(?!\n)|\n")
_SPACES = re.compile(b"(?:%s)*" % b"|".join(re.escape(chr(code).encode()) for code in SPACES))
_LONGEST = 3  # bytes of a space


class TextPlace(NamedTuple):
    """The start of a paragraph in a text.

    line, segment: from 1; lines that are sentences are segments, empty ones too. byte, character:
    from 0; what was left out is no character, but for a byte-order mark.
    begins_document: whether no text is before it.
    """

    line: int = 1
    byte: int = 0
    character: int = 0
    segment: int = 1
    begins_document: bool = True


class TextChunk(NamedTuple):
    """Some segments of a text; none of its parts is known elsewhere.

    codes, spaces, starts, begins: see `segments` of paragraphs.py. faults: errors of the
    text that was left out before it; the messages begin with file:line. of_lines: whether each line
    is a sentence, and a segment with the empty lines after it.
    """

    data: bytes  # valid UTF-8 without NUL
    codes: np.ndarray
    spaces: np.ndarray
    starts: np.ndarray
    begins: np.ndarray
    source: str  # the file's name in messages
    line: int  # of data[0], from 1
    byte: int  # of data[0] in the file, from 0
    character: int  # of data[0] in the file, from 0; what was left out is not counted
    numbers: np.ndarray  # int64 (S,) of the segments, from 1; of lines, those of the file
    begins_document: bool
    begins_paragraph: bool
    ends_paragraph: bool
    faults: tuple[DataError, ...] = ()
    of_lines: bool = False
    document: bytes = b""  # its name, for `# newdoc id` and `# sent_id`


def text_chunk(text: bytes, source: str, *, of_lines: bool = False) -> TextChunk:
    """A whole text as one chunk.

    Args: of_lines: whether each line is a sentence.
    Raises: DataError, whose text begins with file:line: NUL, bytes that are not UTF-8, or too much
        white space.
    """
    reader = _TextReader(source, TextPlace(), of_lines)
    codes, spaces, fault = _characters(text, at_end=True)
    if fault is not None:
        raise reader.error(text, fault)
    return reader.chunk(text, codes, spaces, *reader.segments(codes, spaces), ends_paragraph=True)


def line_hints(text: bytes, n_sentences: int, how: str) -> list[str]:
    """A line for the user if a text whose lines look like sentences became fewer sentences.

    Args: how: what the user can do.
    """
    n_lines = lines_of_their_own(text.decode()) if b"\n" in text.strip() else 0
    if n_lines <= n_sentences:
        return []
    return [
        f"{n_lines:,} lines that look like sentences or items of their own became"
        f" {plural(n_sentences, 'sentence')}; {how}"
    ]


def stream_text(
    binary_file: BinaryIO,
    source: str,
    *,
    chunk_bytes: int = CHUNK,
    on_error: OnTextError = "fail",
    start: TextPlace | None = None,
    of_lines: bool = False,
) -> Iterator[TextChunk]:
    """Reads a text of any size; a byte-order mark at its beginning is left out.

    Args:
        binary_file: opened for reading bytes.
        source: its name in messages.
        chunk_bytes: bytes read at a time. The segments do not depend on it.
        on_error: what to do with NUL, bytes that are not UTF-8 and too much white space. "fail":
            raise. "skip": leave out the segment, up to the next text after a blank line, or to the
            next line, and record the error in `faults`.
        start: where the first byte is in the whole text; None: at its beginning.
        of_lines: whether each line is a sentence.
    Yields: the chunks; an empty text has none. Faults after the last segment come in a chunk
        without text.
    Raises: DataError, whose text begins with file:line.
    Cost: 15 ns per character; memory for two chunks.

    Fewer bytes than were asked for are all that a pipe has now: if they end with a paragraph, or a
    line that is a sentence, it is given; empty lines that come later belong to the next one.
    """
    reader = _TextReader(source, start or TextPlace(), of_lines)
    yield from _chunks(reader, binary_file, chunk_bytes, on_error)


def pass_text(
    binary_file: BinaryIO, source: str, *, on_error: OnTextError = "fail", start: TextPlace,
    of_lines: bool = False,
) -> TextPlace:  # fmt: skip
    """The place after a text that ends where a paragraph does, or a line.

    Args, Raises, Cost: those of `stream_text`.
    """
    reader = _TextReader(source, start, of_lines)
    for _ in _chunks(reader, binary_file, CHUNK, on_error):
        pass
    return TextPlace(
        reader.line, reader.byte, reader.character, reader.segment, reader.is_new_document
    )


def paragraph_cuts(path: str, cuts: list[int]) -> list[int]:
    """The byte offsets of paragraphs from those behind blank lines, or of lines; both ascend.

    White space after a blank line belongs to what is before it, that at the beginning of a text to
    its first paragraph.
    """
    found = []
    with open(path, "rb") as file:
        mark = len(BYTE_ORDER_MARK) if file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
        first = _end_of_spaces(file, mark)
        for cut in cuts:
            end = _end_of_spaces(file, cut)
            found.append(0 if end == first else end)
    return found


def _end_of_spaces(file: BinaryIO, at: int) -> int:
    """The offset of the first byte >= `at` that is not of a space."""
    while True:
        file.seek(at)
        block = file.read(1 << 16)
        end = _SPACES.match(block).end()  # type: ignore[union-attr]
        at += end
        if len(block) - end >= _LONGEST or not end:
            return at


def _chunks(
    reader: "_TextReader", binary_file: BinaryIO, chunk_bytes: int, on_error: OnTextError
) -> Iterator[TextChunk]:
    pending = b""
    while not reader.byte and len(pending) < len(BYTE_ORDER_MARK):
        begin = binary_file.read(len(BYTE_ORDER_MARK) - len(pending))
        pending += begin
        if not begin or not BYTE_ORDER_MARK.startswith(pending):
            break
    pending = reader.without_mark(pending)
    faults: list[DataError] = []
    is_skipping = is_after_blank = False
    enough = 0
    while True:
        block = binary_file.read(chunk_bytes)
        pending += block
        if is_skipping:
            if not is_after_blank:
                found = (_LINE_END if reader.of_lines else _BLANK_LINE).search(pending)
                is_after_blank = found is not None
                # Half a blank line may be at the end.
                end = (
                    found.end() if found else len(pending.rstrip(b" \t\r\n") if block else pending)
                )
                reader.skip(pending[:end])
                pending = pending[end:]
            if is_after_blank:
                end = _SPACES.match(pending).end()  # type: ignore[union-attr]
                reader.skip(pending[:end])
                pending = pending[end:]
            if block and not (is_after_blank and len(pending) >= _LONGEST):
                continue
            is_skipping, is_after_blank, enough = False, False, 0
        is_whole = not block or (len(block) < chunk_bytes and reader.is_whole(pending))
        if not is_whole and len(pending) < enough:
            continue
        codes, spaces, fault = _characters(pending, at_end=is_whole)
        if block and fault is None and spaces.all():
            continue
        text = pending if fault is None else pending[: fault.offset]
        starts, begins = reader.segments(codes, spaces)
        if is_whole and fault is None:
            if text or faults:
                yield reader.chunk(
                    text, codes, spaces, starts, begins, ends_paragraph=True, faults=tuple(faults)
                )
            if not block:
                return
            pending, faults, enough = b"", [], 0
            continue
        if fault is not None and fault.message != _MANY_SPACES:
            after = reader.segments(np.append(codes, ord("x")), np.append(spaces, False))
            if after[0][-1] == len(codes) and (reader.of_lines or after[1][-1]):
                starts, begins = after  # the fault begins a segment: the one before it is whole
        # The last segment may go on; what comes before is cut where any reading cuts it.
        if len(starts) > 1:
            cut = len(codes[: starts[-1]].tobytes().decode("utf-32-le").encode())
            is_end = bool(begins[-1]) or fault is not None
            yield reader.chunk(
                text[:cut], codes[: starts[-1]], spaces[: starts[-1]], starts[:-1], begins[:-1],
                ends_paragraph=is_end, faults=tuple(faults),
            )  # fmt: skip
            pending, faults, enough = pending[cut:], [], 0
        else:
            cut, enough = 0, 2 * len(pending)  # so that all looks together cost as much as two
        if fault is not None:
            fault = fault._replace(offset=fault.offset - cut)
            error = reader.error(pending, fault)
            if on_error == "fail":
                raise error
            faults.append(error)
            reader.skip(pending[: fault.offset])
            pending, is_skipping = pending[fault.offset :], True


class _TextReader:
    """The place that was reached in a text."""

    def __init__(self, source: str, start: TextPlace, of_lines: bool = False) -> None:
        self.source, self.of_lines = source, of_lines
        self.line, self.byte, self.character, self.segment, self.is_new_document = start
        self.is_new_paragraph = True
        # Of text that is left out; none yet.
        self._decoder: codecs.IncrementalDecoder | None = None
        self._before = ""

    def chunk(
        self,
        text: bytes,
        codes: np.ndarray,
        spaces: np.ndarray,
        starts: np.ndarray,
        begins: np.ndarray,
        *,
        ends_paragraph: bool,
        faults: tuple[DataError, ...] = (),
    ) -> TextChunk:
        """The next bytes as a chunk."""
        numbers, n_passed = self.segment + np.arange(len(starts)), len(starts)
        if self.of_lines:
            before = lines_before(codes)
            firsts = np.maximum(starts, spaces.argmin() if len(spaces) else 0)
            numbers, n_passed = self.segment + before[firsts], int(before[-1])
        made = TextChunk(
            text, codes, spaces, starts, begins,
            self.source, self.line, self.byte, self.character, numbers,
            self.is_new_document and not self.of_lines,
            self.is_new_paragraph and not self.of_lines,
            ends_paragraph and not self.of_lines, faults, self.of_lines,
        )  # fmt: skip
        self._pass(text)
        self.character += len(codes)
        self.segment += n_passed
        self._decoder, self._before = None, ""
        self.is_new_document &= not text
        self.is_new_paragraph = ends_paragraph
        return made

    def segments(self, codes: np.ndarray, spaces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `gpuparse.data.formats.paragraphs.segments`."""
        return segments(codes, spaces, of_lines=self.of_lines)

    def is_whole(self, text: bytes) -> bool:
        """True if a text ends with an empty line after a paragraph, or with a line of lines."""
        last = text[:-1].rpartition(b"\n")[2]
        return text.endswith(b"\n") and (self.of_lines or not last.strip(b" \t\r"))

    def without_mark(self, text: bytes) -> bytes:
        """The next bytes without a byte-order mark at the beginning of the text."""
        if self.byte or not text.startswith(BYTE_ORDER_MARK):
            return text
        self._pass(BYTE_ORDER_MARK)
        self.character += 1  # as programs count that read the file as UTF-8
        return text[len(BYTE_ORDER_MARK) :]

    def skip(self, text: bytes) -> None:
        """Pass bytes that are left out."""
        self._pass(text)
        if self.of_lines:  # halves of characters and line ends may be in successive calls
            self._decoder = self._decoder or codecs.getincrementaldecoder("utf-8")("replace")
            left_out = self._before + self._decoder.decode(text)
            counts = [lines_before(code_points(t.encode()))[-1] for t in (self._before, left_out)]
            self.segment += int(counts[1] - counts[0])
            self._before = left_out[-1:]
        self.is_new_paragraph = True

    def error(self, text: bytes, fault: "_Fault") -> DataError:
        """The error for a fault of a text that begins at the place reached."""
        where = place(self.source, self.line + text.count(b"\n", 0, fault.offset), "")
        if self.byte == 0 and (what := no_utf8(text)):
            return DataError(where + what)
        what = fault.message.format(byte=self.byte + fault.offset, encoding=option("encoding"))
        return DataError(where + what)

    def _pass(self, text: bytes) -> None:
        self.line += text.count(b"\n")
        self.byte += len(text)


class _Fault(NamedTuple):
    """A fault that no text may have, and its first byte."""

    offset: int
    message: str


_NOT_UTF8 = (
    "byte {byte} of the text is not UTF-8; convert the text to UTF-8, or give {encoding} with its"
    " encoding, such as cp1252"
)
_NUL = (
    "byte {byte} of the text is NUL, which no text has; remove it, or convert the text to UTF-8 if"
    " it is UTF-16 or UTF-32"
)
_MANY_SPACES = (
    f"more than {MAX_SPACES:,} spaces and line ends in a row, from byte {{byte}} on; remove most of"
    " them"
)


def _characters(text: bytes, *, at_end: bool) -> tuple[np.ndarray, np.ndarray, _Fault | None]:
    """The code points up to the first fault, which of them are spaces, and the fault.

    Half a character at the end is left out, unless the text ends there.
    """
    fault, size = None, len(text)
    try:
        text.decode()
    except UnicodeDecodeError as error:
        size = error.start
        if at_end or error.end < len(text) or error.reason != "unexpected end of data":
            fault = _Fault(size, _NOT_UTF8)
    null = text.find(b"\0", 0, size)
    if null >= 0:
        fault, size = _Fault(null, _NUL), null
    codes = code_points(text[:size])
    spaces = are_spaces(codes)
    first, last = space_runs(spaces) if len(codes) > MAX_SPACES else (codes[:0], codes[:0])
    long = first[last - first > MAX_SPACES]
    if len(long):  # no line of CoNLL-U could have them
        before = codes[: long[0]].tobytes().decode("utf-32-le").encode()
        fault = _Fault(len(before), _MANY_SPACES)
        # With those that may have been seen without the fault: what is cut depends on them.
        codes, spaces = codes[: long[0] + MAX_SPACES], spaces[: long[0] + MAX_SPACES]
    return codes, spaces, fault
