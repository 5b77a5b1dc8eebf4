"""Tables of plans, and the map from keys to rows, as tensors on any device."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from gpuparse.features.plan import LINE
from gpuparse.scorers.linear.hashing import WORD
from gpuparse.scorers.linear.weights import FeatureMap, Weights

Plan = TypeVar("Plan")
Tables = TypeVar("Tables")


def kept_tables(
    weights: Weights, plan: Plan, device: torch.device, make: Callable[[Plan, torch.device], Tables]
) -> Tables:
    """The tables that `make` puts onto a device for a plan, kept beside the weights.

    They are sent once; later batches do not wait for the device.
    """
    key = id(plan), make, device
    if key not in weights.tensors:
        weights.tensors[key] = plan, make(plan, device)  # with the plan: no other gets its id
    return weights.tensors[key][1]


def sender(device: torch.device) -> Callable[[np.ndarray], Tensor]:
    """The function that copies an array to a device."""
    return lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device)


def atoms_in_turn(starts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All first atoms, all second ones, and so on: whose they are, and their numbers.

    starts: (n + 1,): the i-th owner has the atoms starts[i] : starts[i + 1].
    """
    sizes = np.diff(starts)
    for k in range(int(sizes.max(initial=0))):
        owners = np.flatnonzero(sizes > k)
        yield owners, starts[owners] + k


def row_finder(features: FeatureMap) -> Callable[[Tensor], Tensor]:
    """From int64 keys to their base rows, as `find_base` in native/feature_rows.h.

    Bits beyond those of a key are kept.
    """
    rows = features.rows
    if rows.is_power:
        return lambda keys: keys & (rows.mask | ~WORD)
    lines = rows.rows // LINE

    def find(keys: Tensor) -> Tensor:
        line = ((keys & WORD) * lines) >> 32
        return (line * LINE + (keys & (LINE - 1))) | (keys & ~WORD)

    return find
