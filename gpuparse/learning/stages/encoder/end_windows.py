"""Windows of running text, from which an encoder learns where sentences end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpuparse.data.treebank import Treebank
from gpuparse.scorers.encoder.pieces import EncodedTreebank
from gpuparse.text.conllu import NO_PARAGRAPH, read_comments

SIZE = 48  # words of a window, which may begin within a sentence
SHARE, STEPS = 4, 4  # one window of 4 is read in an epoch, by one step of 4, in full batches
_BLIND = 3  # words at the end of a window that goes on, whose right context is cut off
_NOT_ASKED = -1


class EndWindows(NamedTuple):
    """The paragraphs of a treebank that have several sentences, cut into windows.

    whole: the windows, as sentences. gold: (W,) 1 for words that end a sentence, 0 for others, -1
    for those that are not asked about.
    """

    whole: EncodedTreebank
    gold: np.ndarray

    @classmethod
    def of(
        cls, treebank: Treebank, whole: EncodedTreebank, random: np.random.Generator
    ) -> EndWindows:
        """Windows that begin at random words; whole: the sentences of the treebank."""
        starts = np.asarray(whole.word_starts, np.int64)
        data = treebank.data.tobytes()
        begins = np.array(
            [
                read_comments(data[start:end].decode())[0] != NO_PARAGRAPH
                for start, end in treebank.spans.tolist()
            ]
        )
        begins[0] = True
        paragraphs = np.append(starts[:-1][begins], starts[-1])
        cut = [np.arange(0, starts[-1] + 1)[random.integers(SIZE) :: SIZE], paragraphs]
        edges = np.unique(np.concatenate(cut))
        gold = np.zeros(len(whole.words), np.int64)
        gold[starts[1:] - 1] = 1
        goes_on = ~np.isin(edges[1:], paragraphs)
        for before in range(1, _BLIND + 1):
            ends = edges[1:][goes_on] - before
            gold[ends[ends >= edges[:-1][goes_on]]] = _NOT_ASKED
        gold[edges[1:] - 1] = _NOT_ASKED
        return cls(replace(whole, word_starts=edges, tags={}, hidden={}), gold)

    def drawn(self, random: np.random.Generator, n_steps: int) -> Iterator[np.ndarray]:
        """The windows of each step of an epoch."""
        asked = np.add.reduceat(self.gold >= 0, self.whole.word_starts[:-1]) > 0
        found = random.permutation(np.flatnonzero(asked))
        parts = np.array_split(found[: -(-len(found) // SHARE)], -(-n_steps // STEPS))
        none = np.empty(0, np.int64)
        return (none if step % STEPS else parts[step // STEPS] for step in range(n_steps))
