"""Reading and writing CoNLL-X and CoNLL-U files, losslessly.

A file is kept as its bytes; reading finds the byte offsets of the words, and writing copies the
bytes with other HEAD and DEPREL, DEPS for graphs, or items of MISC. All else is preserved:
comments, multiword ranges, empty nodes, line ends.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from gpuparse.data import scanner
from gpuparse.data.columns import (
    Arcs,
    Labels,
    Replacing,
    joined_names,
    misc_arrays,
    replace_columns,
)
from gpuparse.data.faults import fault_error
from gpuparse.data.folders import part_files
from gpuparse.data.graphs import Graphs
from gpuparse.data.scanner import BAD_HEAD
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import check_trees
from gpuparse.files import read_input

__all__ = [
    "Treebank",
    "check_trees",
    "read_treebank",
    "stream_treebanks",
    "treebank_from_bytes",
    "with_misc",
    "write_predictions",
]

OnError = Literal["fail", "skip", "keep"]
Unread = tuple[int, Callable[[], Treebank]]  # bytes, and the function that reads them

MAX_LINE = 1 << 20  # bytes
CHUNK = 4 << 20  # bytes
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NONE_DROPPED = np.empty((0, 2), np.int64)


def read_treebank(path: str | Path) -> Treebank:
    """Reads a whole CoNLL-X or CoNLL-U file.

    Args: path: the file; "-" is standard input.
    Returns, Raises, Cost: as `treebank_from_bytes`.
    """
    source = "<stdin>" if path == "-" else str(path)
    return treebank_from_bytes(read_input(str(path)), source)


def treebank_from_bytes(
    text: bytes, source: str, *, on_error: OnError = "fail", max_line: int = MAX_LINE
) -> Treebank:
    """Reads a whole CoNLL-X or CoNLL-U file that is in memory already.

    Args:
        text: the file's bytes.
        source: its name in messages.
        on_error: what to do with a malformed sentence. "fail": raise. "skip": drop it, also from
            the output of write_predictions. "keep": drop its words and pass its bytes through
            write_predictions. Both record it in `faults`.
        max_line: longest line allowed, in bytes.
    Returns: the treebank, possibly of no sentences.
    Raises: DataError, whose text begins with file:line.
    Cost: about 2 ns per byte; some 130 bytes per line beside the file's own bytes.
    """
    return _ConllReader(source, on_error, max_line).scan(text, at_end=True)


def treebank_of_scan(scanned: scanner.ScannedText, source: str) -> Treebank:
    """As `treebank_from_bytes` of a text that a tokeniser has written."""
    if scanned.found is None:
        return treebank_from_bytes(scanned.text, source)
    columns, heads, lines, word_starts, spans, *_ = scanned.found
    return Treebank(
        source, 1, np.frombuffer(scanned.text, np.uint8), columns, word_starts, heads, lines + 1,
        spans, _NONE_DROPPED,
    )  # fmt: skip


def stream_treebanks(
    binary_file: BinaryIO,
    source: str,
    *,
    chunk_bytes: int = CHUNK,
    on_error: OnError = "fail",
    max_line: int = MAX_LINE,
    first_line: int = 1,
    first_byte: int = 0,
) -> Iterator[Treebank]:
    """Reads a CoNLL file of any size, a chunk of whole sentences at a time.

    Args:
        binary_file: opened for reading bytes; for standard input pass `sys.stdin.buffer`.
        source: its name in messages.
        chunk_bytes: bytes read at a time; a longer sentence makes its own chunk larger.
        on_error, max_line: as in treebank_from_bytes.
        first_line, first_byte: where in the file the bytes begin, which must be where a sentence
            does; lines count from 1, bytes from 0.
    Returns: the chunks; write_predictions of each, one after the other, is the whole file.
    Raises: DataError, whose text begins with file:line.
    Cost: memory for two chunks, or for the longest sentence; lines longer than max_line and
        malformed sentences much longer than a chunk are never held whole.
    """
    chunks = cut_treebanks(
        binary_file, source, chunk_bytes=chunk_bytes, on_error=on_error, max_line=max_line,
        first_line=first_line, first_byte=first_byte,
    )  # fmt: skip
    warnings: set[str] = set()
    for _, read in chunks:
        treebank = read()
        told = [warning for warning in treebank.warnings if warning not in warnings]
        warnings.update(told)
        yield replace(treebank, warnings=told)


def cut_treebanks(
    binary_file: BinaryIO,
    source: str,
    *,
    chunk_bytes: int,
    on_error: OnError,
    max_line: int = MAX_LINE,
    first_line: int,
    first_byte: int,
) -> Iterator[Unread]:
    """The chunks of `stream_treebanks`, each as its length and a function that reads it.

    They may be read in any order, in other processes, too: cutting costs little. Each of them has
    its warnings, which may be those of others.
    """
    reader = _ConllReader(source, on_error, max_line)
    reader.line, reader.byte = first_line, first_byte
    pending = b""
    long = chunk_bytes
    while True:
        block = binary_file.read(chunk_bytes)
        pending += block
        if block and reader.byte == 0 and len(pending) < len(BYTE_ORDER_MARK):
            continue
        cut = _last_sentence_end(pending) if block else len(pending)
        if cut or (not block and reader.byte == 0):
            yield reader.cut(pending[:cut], at_end=not block)
            pending = pending[cut:]
        if not block:
            return
        cut = 0
        if len(pending) - (pending.rfind(b"\n") + 1) > max_line + 1:
            cut = len(pending)
        elif len(pending) >= long:
            long = 2 * len(pending)  # so that all looks together cost as much as two
            cut = reader.malformed_beginning(pending)
        if cut:
            yield reader.cut(pending[:cut])
            rest = pending[cut:]
            pending = yield from reader.rest_of_sentence(binary_file, chunk_bytes, rest)
        if len(pending) < chunk_bytes:
            long = chunk_bytes


def write_predictions(
    treebank: Treebank,
    heads: np.ndarray,
    labels: Sequence[bytes] | None = None,
    label_ids: np.ndarray | None = None,
    misc: Mapping[str, Sequence[str] | np.ndarray] | None = None,
    graphs: Graphs | None = None,
) -> bytes:
    """The treebank's bytes with other heads and, if given, relations, items of MISC and graphs.

    With graphs, DEPS becomes the arcs of the word, `head:relation` joined by `|`, ascending by
    head. Its items whose head is an empty node are kept, in the order of their numbers (8, 8.1, 9);
    all other items are removed. A word with neither has `_`. Rows of empty nodes are unchanged.

    Args:
        heads: (W,) HEAD of each word; -1 writes `_`, -2 leaves the column as it is.
        labels: names of the relations, in UTF-8.
        label_ids: (W,) DEPREL of each word as an index into labels; -1 writes `_`.
        misc: as in with_misc.
        graphs: of the treebank's words.
    Returns: the file's bytes, all other columns and lines untouched; a missing line feed or blank
        line at the end of the file is added.
    Raises: ValueError where the arrays do not fit the treebank, labels lack their ids, or a label
        has a tab or line end in it; a relation of the graphs that is empty or holds a `|`, a tab or
        a line end; and as with_misc.
    Cost: one copy of the bytes.
    """
    new_heads, new_labels = _checked_predictions(treebank, heads, labels, label_ids)
    arcs = None if graphs is None else _checked_arcs(treebank, graphs)
    items = None if misc is None else misc_arrays(misc, treebank.n_words)
    return replace_columns(
        treebank.data, treebank.columns, treebank.dropped,
        Replacing(new_heads, new_labels, arcs, items), treebank.file_end,
    )  # fmt: skip


def read_part(part: str) -> Treebank:
    """The treebank of one or several files, as `part_files` reads their names.

    Raises: DataError: as `read_treebank`.
    """
    return joined([read_treebank(file) for file in part_files(part)], part)


def joined(treebanks: Sequence[Treebank], source: str) -> Treebank:
    """Treebanks one after the other, as one of this name; words have the lines of their files."""
    if len(treebanks) == 1:
        return treebanks[0]
    whole = treebank_from_bytes(b"".join(with_misc(each, {}) for each in treebanks), source)
    return replace(whole, lines=np.concatenate([each.lines for each in treebanks]))


def with_misc(treebank: Treebank, items: Mapping[str, Sequence[str] | np.ndarray]) -> bytes:
    """The treebank's bytes with items `KEY=value` in MISC, all other columns and items untouched.

    The first item with the same key is replaced (further ones are removed); otherwise the new item
    is added at the end, or replaces `_`.

    Args:
        items: for each key the values of all words: W texts, or an array (W,) of bytes ("S"); an
            empty one takes the item out of the word.
    Returns: as write_predictions.
    Raises: ValueError for a name that cannot be a key, values that do not fit the treebank or have
        a `|`, a tab or a line end in them.
    Cost: one copy of the bytes, and one of the values; arrays are faster than texts.
    """
    return write_predictions(treebank, np.full(treebank.n_words, BAD_HEAD, np.int32), misc=items)


def _checked_predictions(
    treebank: Treebank,
    heads: np.ndarray,
    labels: Sequence[bytes] | None,
    label_ids: np.ndarray | None,
) -> tuple[np.ndarray, Labels | None]:
    """HEAD and DEPREL as the writer takes them; ValueError where they do not fit."""
    if (labels is None) != (label_ids is None):
        raise ValueError("labels and label_ids go together: give both or none")
    names = [b"_", *(labels or ())]  # so that relation r is name r + 1, and -1 is "_"
    text = b"".join(names)
    if any(separator in text for separator in (b"\t", b"\n", b"\r")):
        raise ValueError("a label contains a tab or a line end")
    new_heads = np.ascontiguousarray(heads, np.int32)
    new_labels = np.zeros_like(new_heads)
    if label_ids is not None:
        new_labels = np.ascontiguousarray(label_ids, np.int32) + np.int32(1)
    if not new_heads.shape == new_labels.shape == (treebank.n_words,):
        raise ValueError(
            f"heads {new_heads.shape} and label_ids {new_labels.shape} must be of shape "
            f"({treebank.n_words},)"
        )
    if new_heads.min(initial=0) < -2 or new_labels.min(initial=0) < 0:
        raise ValueError("a head is below -2 or a label id below -1")
    if new_labels.max(initial=0) >= len(names):
        raise ValueError(f"a label id is past the end of the {len(names) - 1} labels")
    return new_heads, None if labels is None else Labels(joined_names(names), new_labels)


def _checked_arcs(treebank: Treebank, graphs: Graphs) -> Arcs:
    """DEPS as the writer takes it; ValueError where the graphs do not fit."""
    names = [name.encode() for name in graphs.names]
    for name in names:
        if not name or any(separator in name for separator in (b"|", b"\t", b"\n", b"\r")):
            raise ValueError(
                f"the relation {name.decode()!r} cannot be written to DEPS: it is empty or"
                " contains '|', a tab or a line end"
            )
    starts = np.ascontiguousarray(graphs.starts, np.int64)
    arc_heads = np.ascontiguousarray(graphs.heads, np.int32)
    relations = np.ascontiguousarray(graphs.relations, np.int32)
    if starts.shape != (treebank.n_words + 1,) or not (
        arc_heads.shape == relations.shape == (starts[-1],)
    ):
        raise ValueError(
            f"graphs of {len(starts) - 1} words and {len(arc_heads)} arcs do not fit"
            f" {treebank.n_words} words"
        )
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        raise ValueError("the starts of the graphs do not ascend from 0")
    if arc_heads.min(initial=0) < 0:
        raise ValueError("a head of the graphs is negative")
    if relations.min(initial=0) < 0 or relations.max(initial=-1) >= len(names):
        raise ValueError(f"a relation of the graphs is none of their {len(names)} names")
    return Arcs(joined_names(names), starts, arc_heads, relations)


class _ConllReader:
    """The state of one file between its chunks: the place reached and the warnings given."""

    def __init__(self, source: str, on_error: OnError, max_line: int) -> None:
        if on_error not in ("fail", "skip", "keep"):
            raise ValueError(f"on_error must be fail, skip or keep, not {on_error!r}")
        self.source = source
        self.on_error = on_error
        self.max_line = max_line
        self.line = 1
        self.byte = 0
        self.line_end = b"\n"  # of the line before

    def scan(self, text: bytes, *, at_end: bool = False) -> Treebank:
        """Treebank of the next bytes of the file, which begin where a sentence does."""
        return self.cut(text, at_end=at_end)[1]()

    def cut(self, text: bytes, *, at_end: bool = False) -> Unread:
        """The next bytes of the file, which begin where a sentence does."""
        size, warnings = len(text), []
        if self._begins_with_mark(text):
            text = text[len(BYTE_ORDER_MARK) :]
            self.byte = len(BYTE_ORDER_MARK)
            warnings.append(f"{self.source}: begins with a byte order mark; it is left out")
        file_end = self._file_end(text) if at_end else b""
        read = partial(self._read, text, self.line, self.byte, file_end, warnings)
        if not at_end:
            self._pass(text)
        return size, read

    def _read(
        self, text: bytes, line: int, byte: int, file_end: bytes, warnings: list[str]
    ) -> Treebank:
        """The treebank of bytes that begin at this place; file_end: see Treebank."""
        scanned = scanner.scan(text, self.max_line, stop_at_fault=self.on_error == "fail")
        if scanned.n_crlf:
            warnings.append(f"{self.source}: has lines that end in \\r\\n; they are kept so")
        faults = [
            fault_error(row, text, self.source, first_line=line, first_byte=byte)
            for row in scanned.faults
        ]
        if faults and self.on_error == "fail":
            raise faults[0]
        skip = self.on_error == "skip"
        found = scanned.faults
        ends = [*scanned.spans[-1:, 1], *([] if skip else found[-1:, scanner.FAULT_END])]
        return Treebank(
            source=self.source,
            first_line=line,
            data=np.frombuffer(text, np.uint8),
            columns=scanned.columns,
            word_starts=scanned.word_starts,
            heads=scanned.heads,
            lines=scanned.lines + line,
            spans=scanned.spans,
            dropped=found[: len(found) if skip else 0, scanner.FAULT_START :].copy(),
            file_end=file_end if len(text) in ends else b"",
            warnings=warnings,
            faults=faults,
        )

    def malformed_beginning(self, text: bytes) -> int:
        """Length of the beginning of a sentence that ends with its first malformed line.

        Returns: 0 if no whole line but the last one is, or if the next lines may mend it.
        """
        end = text.rfind(b"\n", 0, max(0, text.rfind(b"\n"))) + 1
        start = len(BYTE_ORDER_MARK) if self._begins_with_mark(text) else 0
        faults = scanner.scan(text[start:end], self.max_line, stop_at_fault=True).faults
        if not len(faults) or faults[0, scanner.FAULT_CODE] == scanner.RANGE_PAST_END:
            return 0
        return text.index(b"\n", start + int(faults[0, scanner.FAULT_OFFSET])) + 1

    def rest_of_sentence(
        self, binary_file: BinaryIO, chunk_bytes: int, held: bytes
    ) -> Generator[Unread, None, bytes]:
        """Reads on to the end of a sentence that is too long to hold, as chunks without words.

        Args: held: what was read of it already, none of which is blank.
        Returns: the bytes read beyond its end.
        """
        while True:
            block = binary_file.read(chunk_bytes)
            text = held + block
            end = _first_sentence_end(text) if block else len(text)
            piece = text[:end] if end or not block else text[:-2]
            if piece and self.on_error == "keep":
                passed = self._without_words(piece, b"" if block else self._file_end(piece))
                yield len(piece), partial(replace, passed)
            self._pass(piece)
            if end or not block:
                return text[end:]
            held = text[-2:]

    def _begins_with_mark(self, text: bytes) -> bool:
        return self.byte == 0 and text.startswith(BYTE_ORDER_MARK)

    def _without_words(self, text: bytes, file_end: bytes) -> Treebank:
        """Bytes that the writer shall pass on as they are."""
        return replace(
            treebank_from_bytes(b"", self.source), first_line=self.line,
            data=np.frombuffer(text, np.uint8), file_end=file_end,
        )  # fmt: skip

    def _pass(self, text: bytes) -> None:
        self.line += int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))
        self.byte += len(text)
        self.line_end = _line_end(text, self.line_end)

    def _file_end(self, text: bytes) -> bytes:
        return _file_end(text, _line_end(text, self.line_end))


def _last_sentence_end(text: bytes) -> int:
    """Offset after the last blank line; 0 where there is none."""
    end = text.rfind(b"\n\n") + 2
    end = end if end > 1 else 0
    crlf_end = text.rfind(b"\n\r\n", end) + 3
    return max(end, crlf_end if crlf_end > 2 else 0)


def _first_sentence_end(text: bytes) -> int:
    """Offset after the first blank line; 0 where there is none."""
    ends = [text.find(blank) + len(blank) for blank in (b"\n\n", b"\n\r\n") if blank in text]
    return min(ends, default=0)


def _line_end(text: bytes, before: bytes) -> bytes:
    """The last line end of a text, or the one before the text where it has none."""
    last = text.rfind(b"\n")
    if last < 0:
        return before
    return b"\r\n" if text[last - 1 : last] == b"\r" else b"\n"


def _file_end(text: bytes, line_end: bytes) -> bytes:
    """The bytes that complete a text to end in a blank line, and half a line end."""
    if text.endswith((b"\n\n", b"\n\r\n")):
        return b""
    if text.endswith(b"\r"):
        return b"\n" if text.endswith(b"\n\r") else b"\n" + line_end
    return line_end if text.endswith(b"\n") else 2 * line_end
