"""Batches, weights and row maps as tensors, and the hash of features, on any device.

The key of a family's feature for the arc h -> m is `head part XOR modifier part`. A part is hashed
once a word, so an arc costs one XOR. Keys have 32 bits. As in native/feature_rows.h.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpuparse.data.batch import MARGIN, Batch
from gpuparse.features.plan import LINE
from gpuparse.scoring.hashing import fold, mix
from gpuparse.scoring.weights import FeatureMap, Weights

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


def bag_of(weights: Weights, device: torch.device, features: int) -> nn.EmbeddingBag:
    """The bags on a device; row R is a row of zeros that is left out of the sums.

    Args:
        features: most features that any bag will hold. Integers are summed as float32 while every
            sum stays below 2^24, where float32 is exact, and else as float64.
    """
    exact = not weights.is_integer or features * weights.largest < EXACT_BELOW
    key = device, torch.float32 if exact else torch.float64
    if key not in weights.tensors:
        weights.tensors[key] = _make_bag(weights, *key)
    return weights.tensors[key]


def sum_bags(bag: nn.EmbeddingBag, rows: Tensor) -> Tensor:
    """Sum bags of rows: (..., F) int64 to (..., D); 0 for bags without any."""
    if rows.shape[-1] == 0:
        return bag.weight.new_zeros(*rows.shape[:-1], bag.embedding_dim)
    return bag(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], bag.embedding_dim)


def row_finder(features: FeatureMap) -> Callable[[Tensor], Tensor]:
    """From int64 keys to their base rows, as `find_base` in native/feature_rows.h."""
    rows = features.rows
    if rows.is_power:
        return lambda keys: keys & rows.mask
    lines = rows.rows // LINE
    return lambda keys: ((keys * lines) >> 32) * LINE + (keys & (LINE - 1))


def _make_bag(weights: Weights, device: torch.device, dtype: torch.dtype) -> nn.EmbeddingBag:
    rows, width = weights.array.shape
    if weights.is_integer:
        table = torch.zeros((rows + 1, width), dtype=dtype)
        table[:rows] = torch.tensor(weights.array)  # which may be mapped, read-only
    else:
        table = torch.from_numpy(weights.padded)
    bag = nn.EmbeddingBag(rows + 1, width, mode="sum", padding_idx=rows, _weight=table)
    return bag.requires_grad_(False).to(device)


def side_keys(
    values: Tensor, places: Tensor, atoms: Iterable[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Keys of one side at every node.

    Args:
        values: (C, T) int field values of a batch.
        places: (B, N) token index of each node.
        atoms: (row, offset) of each atom.
    Returns: (B, N) int64 keys, and (B, N) bool: every atom has a value.
    """
    key = torch.zeros_like(places)
    present = torch.ones_like(places, dtype=torch.bool)
    for row, offset in atoms:
        value = values[row].long()[(places + offset).clamp(0, values.shape[1] - 1)]
        present &= value != 0
        key = fold(key, value)
    return key, present


def part_keys(key: Tensor, seed: int | Tensor, role: int) -> Tensor:
    """A family's part from a side's key; role: 0 of the head, 1 of the modifier."""
    return mix(key, 2 * seed + role)
