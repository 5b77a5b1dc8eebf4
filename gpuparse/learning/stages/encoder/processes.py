"""Several processes that learn one network together, as the command `torchrun` starts them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, distributed

from gpuparse.errors import ConfigError

_WAIT = timedelta(hours=24)  # of the other processes, while the first one reads, scores and saves
_NO_EPOCH = -1


class Processes(NamedTuple):
    """The processes that share the sentences of each step.

    The first one, of rank 0, makes the steps, and does all that is not learning. The others give
    it their gradients, and get the numbers of the network from it.
    """

    rank: int
    size: int
    device: torch.device

    @classmethod
    def joined(cls, device: str) -> Processes:
        """The group that the environment names, which this process joins.

        Args: device: "cuda": each process of a machine has its own one.
        Raises: ConfigError: there are fewer GPUs than processes; the processes do not find each
            other.
        """
        place = torch.device(device)
        if device == "cuda":
            number, n = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
            if number >= n:
                raise ConfigError(f"torchrun: process {number} of this machine, which has {n} GPUs")
            torch.cuda.set_device(number)
        try:
            if not distributed.is_initialized():
                backend = "nccl" if device == "cuda" else "gloo"
                distributed.init_process_group(backend, timeout=_WAIT)
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"torchrun: the processes do not find each other: {error}") from None
        return cls(distributed.get_rank(), distributed.get_world_size(), place)

    def part(self, sentences: np.ndarray) -> np.ndarray:
        """The sentences of a step that are this process's; they are sorted by length."""
        return sentences[self.rank :: self.size]

    def send(self, tensors: Sequence[Tensor]) -> None:
        """Give all processes the numbers of the first one."""
        for tensor in tensors:
            distributed.broadcast(tensor, 0)

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Give the first process the sums of all."""
        for tensor in tensors:
            distributed.reduce(tensor, 0)

    def begin(self, epoch: int | None = None) -> int | None:
        """The number of the epoch that all processes begin; None: there are no more.

        After the last one the group is closed: threads of a group that is open abort a process that
        ends.

        Args: epoch: of the first process; the others wait for it.
        """
        told = torch.tensor([_NO_EPOCH if epoch is None else epoch], device=self.device)
        distributed.broadcast(told, 0)
        number = int(told)
        if number == _NO_EPOCH:
            distributed.destroy_process_group()
            return None
        return number
