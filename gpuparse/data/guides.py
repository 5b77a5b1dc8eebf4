"""Guides: heads predicted by another parser for the words of a treebank.

They are in MISC under a key, or in the HEAD column of a second file with the same words.
"""

from collections.abc import Iterator

import numpy as np

from gpuparse import native
from gpuparse.data.columns import FORM, IN_MISC, as_key, is_guide_file, scan_numbers
from gpuparse.data.conll import stream_treebanks
from gpuparse.data.scanner import NO_HEAD
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.errors import DataError, plural
from gpuparse.files import unchanged


def read_guides(treebank: Treebank, source: str) -> np.ndarray:
    """The guide heads of a whole treebank.

    Args:
        treebank: its own HEAD column is not looked at.
        source: `misc:KEY`, an item of MISC of the treebank's words; or the path of a CoNLL file
            with the same words in the same sentences, whose HEAD column it is.
    Returns: (W,) int32: 0 for the root, 1..n; -1 for a word without a guide, `_` or no item.
    Raises:
        DataError: a guide that is no head of its word, with file and line; words that differ; no
            guide at all. ConfigError: a key that cannot be one.
    Cost: linear.
    """
    guides = Guides(source)
    heads = guides.of(treebank)
    guides.check_end()
    if len(heads) and (heads == NO_HEAD).all():
        raise DataError(f"{guides.missing_in(treebank)}; gpuparse jackknife makes some")
    return heads


class Guides:
    """Guide heads for a treebank that is read in pieces, one after the other.

    Args: source: as in read_guides.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._pieces: Iterator[Treebank] | None = None
        if is_guide_file(source):
            self._pieces = _pieces(source)
        self._piece: Treebank | None = None
        self._next = 0  # sentence of the piece

    def of(self, treebank: Treebank) -> np.ndarray:
        """The guides of the next piece, as read_guides returns them.

        Raises: DataError: as read_guides, but for pieces without any guide.
        """
        if self._pieces is None:
            key = as_key(self.source.removeprefix(IN_MISC))
            heads = scan_numbers(treebank.data, treebank.columns, key)
            _check(heads, treebank, 0, len(treebank))
            return heads
        parts, done = [np.empty(0, np.int32)], 0
        while done < len(treebank):
            other = self._rest()
            if other is None:
                raise DataError(
                    f"{_at(treebank, done)}{self.source}, the file of guides, ends before this"
                    " sentence"
                )
            count = min(len(treebank) - done, len(other) - self._next)
            parts.append(_aligned(treebank, done, other, self._next, count))
            done += count
            self._next += count
        return np.concatenate(parts)

    def check_end(self) -> None:
        """Make sure that a second file has no more sentences.

        Raises: DataError: it has.
        """
        if (more := self._rest()) is not None:
            raise DataError(
                f"{_at(more, self._next)}the file of guides has more sentences than the treebank"
                " that they guide; both need the same words"
            )

    def missing_in(self, treebank: Treebank) -> str:
        """The message about a treebank in which no word has a guide."""
        if self._pieces is None:
            key = self.source.removeprefix(IN_MISC)
            return f"{treebank.source}: no word has a guide, {key}=HEAD in MISC (column 10)"
        return f"{self.source}: no word has a guide, a number in HEAD (column 7)"

    def _rest(self) -> Treebank | None:
        """The piece of the file that has sentences from `_next` on; None at its end."""
        while self._piece is None or self._next == len(self._piece):
            self._piece, self._next = next(self._pieces or iter(()), None), 0
            if self._piece is None:
                return None
        return self._piece


def _pieces(path: str) -> Iterator[Treebank]:
    try:
        with open(path, "rb") as file, unchanged(file, path):
            yield from stream_treebanks(file, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; check the path") from error


def _aligned(
    treebank: Treebank, first: int, other: Treebank, other_first: int, count: int
) -> np.ndarray:
    """The heads of `count` sentences of another treebank that must have the same words."""
    ours = treebank.word_starts[first : first + count + 1]
    theirs = other.word_starts[other_first : other_first + count + 1]
    lengths, their_lengths = np.diff(ours), np.diff(theirs)
    wrong = np.flatnonzero(lengths != their_lengths)
    if len(wrong):
        s = int(wrong[0])
        raise DataError(
            f"{_at(other, other_first + s)}a sentence of"
            f" {plural(int(their_lengths[s]), 'word')}, but at"
            f" {treebank.source}:{treebank.lines[ours[s]]} it has {lengths[s]}; the file of guides"
            " needs the same words in the same sentences"
        )
    word = native.call(
        "first_difference", treebank.data, treebank.columns[ours[0] : ours[-1]],
        other.data, other.columns[theirs[0] : theirs[-1]], FORM,
    )  # fmt: skip
    if word >= 0:
        w, v = int(ours[0]) + word, int(theirs[0]) + word
        raise DataError(
            f"{other.source}:{other.lines[v]}: the word is {other.column(v, FORM)!r}, but at"
            f" {treebank.source}:{treebank.lines[w]} it is {treebank.column(w, FORM)!r}; the file"
            " of guides needs the same words"
        )
    heads = other.heads[theirs[0] : theirs[-1]]
    _check(heads, other, other_first, count)
    return heads


def _check(heads: np.ndarray, treebank: Treebank, first: int, count: int) -> None:
    """DataError for the first guide of some sentences that is not a head of its word."""
    starts = treebank.word_starts[first : first + count + 1] - treebank.word_starts[first]
    lengths = np.diff(starts)
    numbers = np.arange(len(heads)) - np.repeat(starts[:-1], lengths) + 1
    wrong = np.flatnonzero(
        (heads < NO_HEAD) | (heads > np.repeat(lengths, lengths)) | (heads == numbers)
    )
    if not len(wrong):
        return
    w = int(wrong[0])
    s = int(np.searchsorted(starts, w, side="right")) - 1
    what = "no number" if heads[w] < NO_HEAD else str(heads[w])
    raise DataError(
        f"{word_place(treebank, int(treebank.word_starts[first]) + w)}"
        f"the guide of word {numbers[w]} is {what}; expected a head, 0 to {lengths[s]} and not"
        " the word itself"
    )


def _at(treebank: Treebank, sentence: int) -> str:
    return word_place(treebank, int(treebank.word_starts[sentence]))
