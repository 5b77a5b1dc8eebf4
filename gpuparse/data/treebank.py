"""A treebank in memory: the bytes of a CoNLL file and the byte offsets of its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gpuparse.data.cached import cached_property
from gpuparse.errors import DataError, plural

SENT_ID = re.compile(rb"^#[ \t]*sent_id[ \t]*=[ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)

_LINE_FEED = 10


class Computed(WeakKeyDictionary[Any, Any]):
    """Values that scorers have computed of a treebank; a copy of the treebank has nothing of it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Computed, ()


@dataclass(eq=False, repr=False)
class Treebank:
    """A chunk of a CoNLL file, or all of it, losslessly.

    W words and S sentences; multiword ranges and empty nodes are in the bytes alone. Offsets count
    from data[0]. Column c of word w is data[columns[w, c] : columns[w, c + 1] - 1].
    """

    source: str  # the file's name in messages
    first_line: int  # line number of data[0] in the source, from 1
    data: np.ndarray  # uint8, without a byte order mark
    columns: np.ndarray  # int64 (W, 11); columns[w, 10] is 1 + the end of column 9
    word_starts: np.ndarray  # int64 (S + 1)
    heads: np.ndarray  # int32 (W); -1 for "_", -2 for what is no number
    lines: np.ndarray  # int64 (W), line numbers in the source
    spans: np.ndarray  # int64 (S, 2), a sentence's lines with its comments, no blank lines
    dropped: np.ndarray  # int64 (F, 2), spans that the writer leaves out, in order
    file_end: bytes = b""  # what the writer adds so that the file ends in a blank line
    warnings: list[str] = field(default_factory=list)
    faults: list[DataError] = field(default_factory=list)  # one per sentence that was left out
    # By column what `column_ids` has found; another treebank, of `replace`, begins without.
    interned: dict[int, tuple[np.ndarray, list[str]]] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return (
            f"<Treebank: {self.source}, {plural(len(self), 'sentence')},"
            f" {plural(self.n_words, 'word')}>"
        )

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.word_starts) - 1

    def __getitem__(self, sentence: int) -> Sentence:
        """View of one sentence; negative numbers count from the end."""
        if not -len(self) <= sentence < len(self):
            raise IndexError(f"sentence {sentence} of {len(self)}")
        return Sentence(self, sentence % len(self))

    def __iter__(self) -> Iterator[Sentence]:
        """The sentences in order."""
        return (Sentence(self, sentence) for sentence in range(len(self)))

    def only(self, kept: np.ndarray) -> Treebank:
        """The treebank without some of its sentences, over the same bytes; the writer drops them.

        Args: kept: (S,) bool.
        """
        counts = np.diff(self.word_starts)
        words = np.repeat(kept, counts)
        dropped = np.concatenate([self.dropped, self.spans[~kept]])
        return replace(
            self,
            columns=self.columns[words],
            word_starts=np.concatenate([[0], np.cumsum(counts[kept])]),
            heads=self.heads[words],
            lines=self.lines[words],
            spans=self.spans[kept],
            dropped=dropped[np.argsort(dropped[:, 0])],
        )

    def part(self, first: int, stop: int) -> Treebank:
        """The sentences from `first` to `stop` - 1, with the bytes after each, over the same bytes.

        Bytes before the first sentence belong to it. Faults and warnings stay with the whole.
        """
        is_last = stop == len(self)
        begin = int(self.spans[first, 0]) if first else 0
        end = len(self.data) if is_last else int(self.spans[stop, 0])
        words = slice(int(self.word_starts[first]), int(self.word_starts[stop]))
        is_here = (self.dropped[:, 0] >= begin) & (self.dropped[:, 0] < end)
        return replace(
            self,
            first_line=self.first_line + int((self.data[:begin] == _LINE_FEED).sum()),
            data=self.data[begin:end],
            columns=self.columns[words] - begin,
            word_starts=self.word_starts[first : stop + 1] - words.start,
            heads=self.heads[words],
            lines=self.lines[words],
            spans=self.spans[first:stop] - begin,
            dropped=self.dropped[is_here] - begin,
            file_end=self.file_end if is_last else b"",
            warnings=[],
            faults=[],
        )

    @cached_property
    def computed(self) -> Computed:
        """The encodings of each scorer, so that several stages share them."""
        return Computed()

    @cached_property
    def n_words(self) -> int:
        """Number of words, W."""
        return len(self.heads)

    def column(self, word: int, column: int) -> str:
        """Text of one column (0..9) of one word of the treebank."""
        start, end = self.columns[word, column], self.columns[word, column + 1] - 1
        return self.data[start:end].tobytes().decode()

    def comments(self, sentence: int) -> list[str]:
        """The sentence's comment lines, without their line ends."""
        start, end = self.spans[sentence]
        text = self.data[start:end].tobytes().decode()
        return [line.removesuffix("\r") for line in text.split("\n") if line.startswith("#")]

    def sent_id(self, sentence: int) -> str:
        """The sentence's `# sent_id`, or "" where it has none."""
        start, end = self.spans[sentence]
        return find_sent_id(self.data[start:end].tobytes())


def find_sent_id(lines: bytes) -> str:
    """The `# sent_id` among the lines of a sentence, or "" where there is none."""
    found = SENT_ID.search(lines)
    return found.group(1).decode(errors="replace") if found else ""


def place(source: str, line: int, sent_id: str) -> str:
    """The beginning of a message about data: file:line and, if known, the sentence's name."""
    return f"{source}:{line}: " + (f"sent_id {sent_id}: " if sent_id else "")


def word_place(treebank: Treebank, word: int) -> str:
    """`place` of a word of a treebank."""
    sentence = int(np.searchsorted(treebank.word_starts, word, side="right")) - 1
    return place(treebank.source, int(treebank.lines[word]), treebank.sent_id(sentence))


def _texts(column: int) -> Any:
    """The property of a sentence that lists a column, 0 to 9."""

    def texts(self: Sentence) -> list[str]:
        return [self.treebank.column(word, column) for word in range(self._start, self._stop)]

    return property(texts)


class Sentence:
    """View of one sentence of a treebank; word i (1..n) is at index i - 1 of every list.

    It has no text of its own: each list is made from the treebank's bytes on access.
    """

    __slots__ = ("index", "treebank")
    # In CoNLL-X, columns 4, 5, 9 and 10 are CPOSTAG, POSTAG, PHEAD and PDEPREL.
    forms, lemmas, cpos, pos, feats = map(_texts, range(1, 6))
    labels, deps, misc = map(_texts, range(7, 10))

    def __init__(self, treebank: Treebank, index: int) -> None:
        self.treebank = treebank
        self.index = index

    def __repr__(self) -> str:
        return f"<Sentence {self.index} of {self.treebank.source}: {' '.join(self.forms)}>"

    def __len__(self) -> int:
        """Number of words."""
        return int(self._stop - self._start)

    @property
    def _start(self) -> int:
        return self.treebank.word_starts[self.index]

    @property
    def _stop(self) -> int:
        return self.treebank.word_starts[self.index + 1]

    @property
    def sent_id(self) -> str:
        """The `# sent_id` comment, or ""."""
        return self.treebank.sent_id(self.index)

    @property
    def comments(self) -> list[str]:
        """Comment lines, each with its `#`."""
        return self.treebank.comments(self.index)

    @property
    def line(self) -> int:
        """Line number of the first word in the source."""
        return int(self.treebank.lines[self._start])

    @property
    def heads(self) -> list[int]:
        """HEAD, column 7: 0 the root, -1 where it is `_`, -2 where it is no number."""
        return [int(head) for head in self.treebank.heads[self._start : self._stop]]


def repeated(treebank: Treebank, comments: Sequence[Sequence[Sequence[str]]]) -> Treebank:
    """The treebank with its sentences repeated, one copy after the other.

    Args:
        comments: for each sentence and copy, at least one, the lines to add after the
            sentence's own comments, without line ends; each begins with `#`.
    Returns: a treebank whose bytes are those of the copies; what is between sentences comes once,
        what the writer leaves out not at all. `lines` are those of the original.
    Raises: ValueError for a sentence without copies, or lists that do not fit the treebank.
    Cost: one copy of the bytes for each; some microseconds per sentence.
    """
    if len(comments) != len(treebank) or not all(comments):
        raise ValueError(f"{len(comments)} lists of copies, some perhaps empty, do not fit")
    text = treebank.data.tobytes()
    starts = treebank.word_starts
    pieces: list[bytes] = []
    at, done, span = 0, 0, 0  # bytes written, bytes read, spans passed
    moved, spans, words = [], [], []

    def add(piece: bytes) -> None:
        nonlocal at
        pieces.append(piece)
        at += len(piece)

    def pass_to(offset: int) -> None:
        nonlocal done, span
        while span < len(treebank.dropped) and treebank.dropped[span, 0] < offset:
            add(text[done : treebank.dropped[span, 0]])
            done = int(treebank.dropped[span, 1])
            span += 1
        add(text[done:offset])
        done = offset

    for s, copies in enumerate(comments):
        start, end = (int(offset) for offset in treebank.spans[s])
        pass_to(start)
        first_row = _after_comments(text, start)
        last = text.rfind(b"\n", 0, end)
        line_end = b"\r\n" if last > 0 and text[last - 1 : last] == b"\r" else b"\n"
        of_sentence = np.arange(starts[s], starts[s + 1])
        for number, lines in enumerate(copies):
            if number:
                add((b"" if text[end - 1] == _LINE_FEED else line_end) + line_end)
            began = at
            add(text[start:first_row] + b"".join(line.encode() + line_end for line in lines))
            moved.append(np.full(len(of_sentence), at - first_row))
            add(text[first_row:end])
            spans.append((began, at))
            words.append(of_sentence)
        done = end
    pass_to(len(text))
    index = np.concatenate([*words, np.empty(0, np.int64)])
    offsets = np.concatenate([*moved, np.empty(0, np.int64)])
    return replace(
        treebank,
        data=np.array(np.frombuffer(b"".join(pieces), np.uint8)),
        columns=treebank.columns[index] + offsets[:, None],
        word_starts=np.concatenate([[0], np.cumsum([len(part) for part in words], dtype=np.int64)]),
        heads=treebank.heads[index],
        lines=treebank.lines[index],
        spans=np.array(spans, np.int64).reshape(-1, 2),
        dropped=np.empty((0, 2), np.int64),
    )


def _after_comments(text: bytes, start: int) -> int:
    """Offset of the first line from `start` on that is no comment."""
    while text.startswith(b"#", start):
        start = text.index(b"\n", start) + 1
    return start
