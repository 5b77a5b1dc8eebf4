"""Sentences as arrays of integer ids."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

MARGIN = 3  # edge positions before the root and after the last word, for templates' neighbours
UNKNOWN, ROOT, BEFORE, AFTER = 0, 1, 2, 3  # value ids with a meaning of their own
FIRST_VALUE = 4


class Encoded(Protocol):
    """Sentences as a scorer reads them, and where in arrays by token their words are.

    Arrays by token have what is found for all sentences; the root of sentence b is the token
    starts[b], its words are the tokens after it, and the token after these is no word.
    """

    @property
    def starts(self) -> np.ndarray:
        """(B,) int64, the token index of each sentence's root."""

    @property
    def lengths(self) -> np.ndarray:
        """(B,) int64, words, the root not counted."""

    @property
    def n_tokens(self) -> int:
        """T: the length of arrays by token."""

    def __len__(self) -> int:
        """B."""

    def select(self, sentences: np.ndarray | slice) -> Self:
        """The sentences of the given indices (K,) or slice, with the same tokens."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Ragged sentences of field values; any subset of them is a batch over the same memory.

    values: (C, T) int32, one row a field, and perhaps one of guides (see `guided`). A sentence of n
        words takes n + 1 + 2 * MARGIN consecutive token indices: MARGIN times BEFORE, the root, the
        words, MARGIN times AFTER.
    starts: (B,) int64, the token index of each sentence's root.
    lengths: (B,) int64, words, the root not counted.
    """

    values: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, sentences: np.ndarray | slice) -> "Batch":
        """The sentences of the given indices (K,) or slice, sharing the values."""
        return Batch(self.values, self.starts[sentences], self.lengths[sentences])

    def guided(self, heads: np.ndarray) -> "Batch":
        """The batch, of a whole treebank, with a further row for guides.

        heads: (W,) guide heads, -1 for none. The row has a word's guide head + 1; 0 for none, and
        where there is no word.
        """
        row = np.zeros((1, self.values.shape[1]), np.int32)
        row[0, word_places(self)] = heads.astype(np.int32) + 1
        return Batch(np.concatenate([self.values, row]), self.starts, self.lengths)

    @property
    def n_tokens(self) -> int:
        """T: the length of arrays by token."""
        return self.values.shape[1]

    @property
    def n_nodes(self) -> int:
        """N: the words of the longest sentence, and the root."""
        return int(self.lengths.max(initial=0)) + 1

    def places(self) -> np.ndarray:
        """(B, N) the token index of every node; padding stays within edges."""
        nodes = np.arange(self.n_nodes)
        return self.starts[:, None] + np.minimum(nodes, self.lengths[:, None] + 1)


def word_places(batch: Encoded) -> np.ndarray:
    """(W,) the token indices of all words of a batch, sentence by sentence."""
    lengths = batch.lengths
    ends = lengths.cumsum()
    places = (batch.starts + 1 - ends + lengths).repeat(lengths)
    places += np.arange(len(places))
    return places


def incomplete(batch: Encoded, by_place: np.ndarray) -> np.ndarray:
    """(B,) bool: the sentences of a batch of which some word has a number below 0.

    Args: by_place: (T,) numbers such as heads, by token index, -1 for none.
    """
    missing = np.concatenate([[0], np.cumsum(by_place < 0)])
    return missing[batch.starts + batch.lengths + 1] > missing[batch.starts + 1]


def ranges(firsts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
    """All numbers from each of `firsts` to before each of `lasts`."""
    lengths = lasts - firsts
    ends = np.cumsum(lengths)
    return np.repeat(firsts - ends + lengths, lengths) + np.arange(int(lengths.sum()))
