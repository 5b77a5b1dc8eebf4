"""The weights: the parameter of an `nn.EmbeddingBag` whose bags are summed."""

import numpy as np
import torch
from torch import Tensor, nn

EXACT_BELOW = 1 << 24  # float32 holds every whole number up to here


class Weights:
    """One row of weights for each feature, and the bags that sum them.

    While learning, `array` is the very memory of a bag's float32 parameter. For parsing the
    weights are whole numbers of 8 or 16 bits: the kernels read `array`, and a bag, made when it is
    first asked for, holds the same numbers as floats.

    Args:
        array: (R, D) float32, int8 or int16; D is 1 for arcs, the number of labels for labels.
    """

    def __init__(self, array: np.ndarray) -> None:
        if array.dtype not in (np.float32, np.int8, np.int16):
            raise TypeError(f"weights are float32, int8 or int16, not {array.dtype}")
        self._bags: dict[tuple[torch.device, torch.dtype], nn.EmbeddingBag] = {}
        self._tables: dict[torch.device, Tensor] = {}
        self.is_integer = array.dtype != np.float32
        if self.is_integer:
            self.array = np.ascontiguousarray(array)
            self._largest = int(np.abs(array.astype(np.int32)).max(initial=0))
        else:
            bag = _make_bag(array, torch.device("cpu"), torch.float32)
            self._bags[torch.device("cpu"), torch.float32] = bag
            self.array = bag.weight.detach().numpy()[:-1]

    def bag(self, device: torch.device, features: int) -> nn.EmbeddingBag:
        """The bags on a device; row R is an added row of zeros that is left out of the sums.

        Args:
            features: most features that any bag will hold. Whole numbers are summed as float32
                while every sum stays below 2^24, where float32 is exact, and else as float64.
        """
        exact = not self.is_integer or features * self._largest < EXACT_BELOW
        key = device, torch.float32 if exact else torch.float64
        if key not in self._bags:
            self._bags[key] = _make_bag(self.array, *key)
        return self._bags[key]

    def table(self, device: torch.device) -> Tensor:
        """(R, D) the weights themselves on a device: what Triton kernels read.

        While learning, the memory of the bag there; whole numbers keep their 8 or 16 bits.
        """
        if not self.is_integer:
            return self.bag(device, 1).weight.detach()[:-1]
        if device not in self._tables:
            self._tables[device] = torch.from_numpy(self.array).to(device)
        return self._tables[device]


def _make_bag(array: np.ndarray, device: torch.device, dtype: torch.dtype) -> nn.EmbeddingBag:
    rows, width = array.shape
    table = torch.zeros((rows + 1, width), dtype=dtype)
    table[:rows] = torch.from_numpy(array)
    bag = nn.EmbeddingBag(rows + 1, width, mode="sum", padding_idx=rows, _weight=table)
    return bag.requires_grad_(False).to(device)


def quantised(averages: np.ndarray, bits: int) -> tuple[np.ndarray, float]:
    """Averages as whole numbers of `bits` bits, the largest becoming the end; and their scale.

    A tree's score is multiplied by the scale as a whole, so that no best tree depends on it.
    """
    largest = float(np.abs(averages).max(initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("weights that are not finite cannot be stored; learning went astray")
    end = (1 << (bits - 1)) - 1
    scale = end / largest if largest > 0.0 else 1.0
    whole = np.rint(averages.astype(np.float64) * scale)
    return whole.astype(np.int8 if bits == 8 else np.int16), scale


def sum_bags(bag: nn.EmbeddingBag, rows: Tensor) -> Tensor:
    """Sum bags of rows: (..., F) int64 to (..., D)."""
    return bag(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], bag.embedding_dim)
