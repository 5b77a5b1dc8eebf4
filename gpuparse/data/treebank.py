"""A treebank in memory: the bytes of a CoNLL file and the byte offsets of its words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from gpuparse.data.sentence import Sentence
from gpuparse.errors import DataError

SENT_ID = re.compile(rb"^#[ \t]*sent_id[ \t]*=[ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)


@dataclass(eq=False)
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
    faults: list[DataError] = field(default_factory=list)  # one a sentence that was left out

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

    def only(self, kept: np.ndarray) -> "Treebank":
        """The treebank without some of its sentences, over the same bytes; the writer drops them.

        Args:
            kept: (S,) bool.
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

    @property
    def n_words(self) -> int:
        """Number of words, W."""
        return len(self.columns)

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
