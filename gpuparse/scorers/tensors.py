"""Batches as tensors, on any device."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gpuparse.data.batch import MARGIN, Batch

EXACT_BELOW = 1 << 24  # float32 holds every integer up to here


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


AnyBatch = Batch | TensorBatch


def device_of(batch: AnyBatch) -> torch.device:
    """Where a batch lies: arrays lie in main memory."""
    return batch.values.device if isinstance(batch, TensorBatch) else torch.device("cpu")


def as_tensors(batch: AnyBatch) -> TensorBatch:
    """The batch as tensors; arrays are not copied."""
    if isinstance(batch, TensorBatch):
        return batch
    return TensorBatch(
        torch.from_numpy(batch.values),
        torch.from_numpy(batch.starts),
        torch.from_numpy(batch.lengths),
        batch.n_nodes - 1,
    )


def as_arrays(batch: AnyBatch) -> Batch:
    """A batch in main memory as arrays; nothing is copied."""
    if isinstance(batch, Batch):
        return batch
    return Batch(batch.values.numpy(), batch.starts.numpy(), batch.lengths.numpy())


def tensors_over(values: Tensor, batch: Batch) -> TensorBatch:
    """The batch over the same values on another device; does not wait for the device."""
    starts, lengths = torch.from_numpy(batch.starts), torch.from_numpy(batch.lengths)
    if values.device.type == "cuda":
        starts, lengths = starts.pin_memory(), lengths.pin_memory()
    return TensorBatch(
        values,
        starts.to(values.device, non_blocking=True),
        lengths.to(values.device, non_blocking=True),
        batch.n_nodes - 1,
    )
