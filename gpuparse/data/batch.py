"""Sentences as integers: the last thing that knows words."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MARGIN = 3  # edge positions before the root and after the last word, for templates' neighbours
UNKNOWN, ROOT, BEFORE, AFTER = 0, 1, 2, 3  # value ids with a meaning of their own
FIRST_VALUE = 4


@dataclass(frozen=True)
class Batch:
    """Ragged sentences of field values; any subset of them is a batch over the same memory.

    values: (C, T) int32, one row a field, and perhaps one of guides (see `guided`). A sentence of n
        words takes n + 1 + 2 * MARGIN consecutive places: MARGIN times BEFORE, the root, the words,
        MARGIN times AFTER.
    starts: (B,) int64, the place of each sentence's root.
    lengths: (B,) int64, words, the root not counted.
    longest: the length of the longest sentence, where it is known without asking a device.
    """

    values: Tensor
    starts: Tensor
    lengths: Tensor
    longest: int | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, sentences: Tensor) -> "Batch":
        """The sentences of the given indices (K,), sharing the values."""
        return Batch(self.values, self.starts[sentences], self.lengths[sentences])

    def guided(self, heads: np.ndarray) -> "Batch":
        """The batch, of a whole treebank in main memory, with a further row for guides.

        heads: (W,) guide heads, -1 for none. The row has a word's guide head + 1; 0 for none, and
        where there is no word.
        """
        row = torch.zeros(1, self.values.shape[1], dtype=torch.int32)
        row[0, word_places(self)] = torch.from_numpy(heads.astype(np.int32) + 1)
        return Batch(torch.cat([self.values, row]), self.starts, self.lengths)

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device; only the places that its sentences use travel."""
        if len(self) == 0:
            return Batch(*(part.to(device) for part in (self.values, self.starts, self.lengths)))
        low = int((self.starts - MARGIN).min())
        high = int((self.starts + self.lengths).max()) + MARGIN + 1
        return Batch(
            self.values[:, low:high].to(device),
            (self.starts - low).to(device),
            self.lengths.to(device),
        )

    def on(self, values: Tensor) -> "Batch":
        """The batch, in main memory, over the same values on another device; waits for nothing."""
        longest = self.n_nodes - 1
        starts, lengths = self.starts, self.lengths
        if values.device.type == "cuda":
            starts, lengths = starts.pin_memory(), lengths.pin_memory()
        device = values.device
        return Batch(
            values,
            starts.to(device, non_blocking=True),
            lengths.to(device, non_blocking=True),
            longest,
        )

    def own_places(self) -> Tensor:
        """(B, W) places of each sentence with its edges, MARGIN before and behind; W for all."""
        steps = torch.arange(self.n_nodes + 2 * MARGIN, device=self.starts.device)
        last = self.lengths.unsqueeze(1) + 2 * MARGIN
        return self.starts.unsqueeze(1) - MARGIN + torch.minimum(steps, last)

    def alone(self) -> "Batch":
        """The batch over a copy of the values of its own sentences, which lie in its order."""
        places = self.own_places()
        first = places.shape[1] * torch.arange(len(self), device=places.device) + MARGIN
        return Batch(self.values[:, places.flatten()], first, self.lengths, self.longest)

    @property
    def n_nodes(self) -> int:
        """N: the words of the longest sentence, and the root."""
        if self.longest is not None:
            return self.longest + 1
        return int(self.lengths.max()) + 1 if len(self) else 1

    def places(self) -> Tensor:
        """(B, N) the place of every node; padding stays within edges."""
        nodes = torch.arange(self.n_nodes, device=self.starts.device)
        return self.starts.unsqueeze(1) + torch.minimum(nodes, self.lengths.unsqueeze(1) + 1)


def word_places(batch: Batch) -> np.ndarray:
    """(W,) the places of all words of a batch in main memory, sentence by sentence."""
    lengths, starts = batch.lengths.numpy(), batch.starts.numpy()
    first = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts + 1 - first, lengths)


def incomplete(batch: Batch, by_place: np.ndarray) -> np.ndarray:
    """(B,) bool: the sentences of a batch in main memory of which some word has a number below 0.

    Args:
        by_place: (T,) numbers such as heads, -1 for none.
    """
    missing = np.concatenate([[0], np.cumsum(by_place < 0)])
    starts, lengths = batch.starts.numpy(), batch.lengths.numpy()
    return missing[starts + lengths + 1] > missing[starts + 1]
