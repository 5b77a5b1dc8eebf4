"""One sentence as lists of strings, made on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuparse.data.treebank import Treebank


class Sentence:
    """View of one sentence of a treebank; word i (1..n) is at index i - 1 of every list.

    It has no text of its own: each list is made from the treebank's bytes on access.
    """

    __slots__ = ("index", "treebank")

    def __init__(self, treebank: Treebank, index: int) -> None:
        self.treebank = treebank
        self.index = index

    def __len__(self) -> int:
        """Number of words."""
        return int(self._stop - self._start)

    @property
    def _start(self) -> int:
        return self.treebank.word_starts[self.index]

    @property
    def _stop(self) -> int:
        return self.treebank.word_starts[self.index + 1]

    def _column(self, column: int) -> list[str]:
        return [self.treebank.column(word, column) for word in range(self._start, self._stop)]

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
    def forms(self) -> list[str]:
        """FORM, column 2."""
        return self._column(1)

    @property
    def lemmas(self) -> list[str]:
        """LEMMA, column 3."""
        return self._column(2)

    @property
    def cpos(self) -> list[str]:
        """Coarse POS, column 4 (CPOSTAG in CoNLL-X, UPOS in CoNLL-U)."""
        return self._column(3)

    @property
    def pos(self) -> list[str]:
        """Fine POS, column 5 (POSTAG in CoNLL-X, XPOS in CoNLL-U)."""
        return self._column(4)

    @property
    def feats(self) -> list[str]:
        """FEATS, column 6."""
        return self._column(5)

    @property
    def heads(self) -> list[int]:
        """HEAD, column 7: 0 the root, -1 where it is `_`, -2 where it is no number."""
        return [int(head) for head in self.treebank.heads[self._start : self._stop]]

    @property
    def labels(self) -> list[str]:
        """DEPREL, column 8."""
        return self._column(7)

    @property
    def deps(self) -> list[str]:
        """DEPS, column 9 (PHEAD in CoNLL-X)."""
        return self._column(8)

    @property
    def misc(self) -> list[str]:
        """MISC, column 10 (PDEPREL in CoNLL-X)."""
        return self._column(9)
