"""Batches as tensors, on any device."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.batch import MARGIN, Encoded
from gpuparse.inference.scores import Scores

Arcs = tuple[Tensor, Tensor, Tensor]  # sentences, heads and modifiers, (A,) each
EXACT_BELOW = 1 << 24  # float32 holds every integer up to here


def sent_to(device: torch.device, array: np.ndarray) -> Tensor:
    """An array on a device, on its way there if that is a GPU: nothing waits for it."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True, eq=False)
class TensorBatch:
    """A `Batch` of tensors, all on one device.

    values, starts, lengths: as in `Batch`.
    longest: the length of the longest sentence, where it is known without asking the device.
    """

    values: Tensor
    starts: Tensor
    lengths: Tensor
    longest: int | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, sentences: Tensor) -> "TensorBatch":
        """The sentences of the given indices (K,), sharing the values."""
        return TensorBatch(self.values, self.starts[sentences], self.lengths[sentences])

    def to(self, device: torch.device) -> "TensorBatch":
        """The batch on another device; only the values that its sentences use are copied."""
        if len(self) == 0:
            return TensorBatch(
                *(part.to(device) for part in (self.values, self.starts, self.lengths))
            )
        low = int((self.starts - MARGIN).min())
        high = int((self.starts + self.lengths).max()) + MARGIN + 1
        return TensorBatch(
            self.values[:, low:high].to(device),
            (self.starts - low).to(device),
            self.lengths.to(device),
        )

    def own_places(self) -> Tensor:
        """(B, W) token indices of each sentence with its edges, MARGIN on both sides; W for all."""
        steps = torch.arange(self.n_nodes + 2 * MARGIN, device=self.starts.device)
        last = self.lengths.unsqueeze(1) + 2 * MARGIN
        return self.starts.unsqueeze(1) - MARGIN + torch.minimum(steps, last)

    def alone(self) -> "TensorBatch":
        """The batch over a copy of the values of its own sentences, which lie in its order."""
        places = self.own_places()
        first = places.shape[1] * torch.arange(len(self), device=places.device) + MARGIN
        return TensorBatch(self.values[:, places.flatten()], first, self.lengths, self.longest)

    @property
    def n_nodes(self) -> int:
        """N: the words of the longest sentence, and the root."""
        if self.longest is not None:
            return self.longest + 1
        return int(self.lengths.max()) + 1 if len(self) else 1

    def places(self) -> Tensor:
        """(B, N) the token index of every node; padding stays within edges."""
        nodes = torch.arange(self.n_nodes, device=self.starts.device)
        return self.starts.unsqueeze(1) + torch.minimum(nodes, self.lengths.unsqueeze(1) + 1)


class SentValues:
    """The values of a batch on a device, perhaps still on their way there.

    Args: values: in main memory where the device had no room for them as they were sent.
        device: where they go. copied: torch.cuda.Event, None where there is nothing to wait for.
    """

    def __init__(self, values: Tensor, device: torch.device, copied: Any = None) -> None:
        self._values, self._device, self._copied = values, device, copied

    @classmethod
    def to(cls, values: np.ndarray, device: torch.device) -> "SentValues":
        """Send values in main memory; they travel while other work goes on."""
        if device.type != "cuda":
            return cls(torch.from_numpy(values).to(device), device)
        stream = torch.cuda.Stream(device)
        try:
            with torch.cuda.stream(stream):
                there = torch.from_numpy(values).pin_memory().to(device, non_blocking=True)
                copied = torch.cuda.Event()
                copied.record(stream)
        except torch.OutOfMemoryError:  # the batch before may leave more
            return cls(torch.from_numpy(values), device)
        return cls(there, device, copied)

    def arrived(self) -> Tensor:
        """The values on the device, for the stream that now works there."""
        if self._copied is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(self._copied)
            self._values.record_stream(stream)
            self._copied = None
        self._values = self._values.to(self._device)
        return self._values


def added(before: Scores | None, scores: Scores) -> Scores:
    """The sums of scores of the same parts; those that one lacks count as 0."""
    if before is None:
        return scores
    sums = {}
    for name in (field.name for field in fields(Scores) if field.name != "lengths"):
        mine, its = getattr(scores, name), getattr(before, name)
        sums[name] = mine if its is None else its if mine is None else its + mine
    return Scores(lengths=scores.lengths, **sums)


def tensors_over(values: Tensor, batch: Encoded) -> TensorBatch:
    """The batch over the same values on another device; does not wait for the device."""
    starts, lengths = (sent_to(values.device, each) for each in (batch.starts, batch.lengths))
    return TensorBatch(values, starts, lengths, int(batch.lengths.max(initial=0)))


def first_best(scores: Tensor) -> Tensor:
    """The number of the highest of the last dimension, the first of equals."""
    best = scores.max(-1, keepdim=True).values
    numbers = torch.arange(scores.shape[-1], device=scores.device)
    return torch.where(scores == best, numbers, scores.shape[-1]).min(-1).values
