"""Joining the processes of a training run, where torchrun has started several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import numpy as np

from gpuparse.errors import ConfigError, ResourceError
from gpuparse.learning.mixing import ALONE, Processes

# The first process scores data.dev between two epochs while the other processes wait.
PATIENCE = timedelta(minutes=30)


@contextmanager
def joined_processes() -> Iterator[Processes]:
    """The processes that torchrun started as one run.

    Yields:
        The processes; this process alone if WORLD_SIZE is not set or 1.
    Raises:
        ConfigError: an environment variable that torchrun sets is missing.
        ResourceError: the processes cannot connect.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield ALONE
        return
    from torch import distributed

    try:
        distributed.init_process_group("gloo", timeout=PATIENCE)
    except ValueError as error:
        raise ConfigError(f"several processes: {error}; start them with torchrun") from error
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise ResourceError(f"the processes of this run cannot connect: {reason}") from error
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


def check_same(sha256: str, processes: Processes) -> None:
    """Make sure that all processes learn the same model; all of them must call this.

    Args:
        sha256: of the origin of this process's model, in hexadecimal.
    Raises:
        ConfigError: the first process has another origin.
        ResourceError: another process has ended, or does not answer.
    """
    own = np.frombuffer(bytes.fromhex(sha256), np.uint8)
    first = own.copy()
    processes.share(first, 0)
    if not (first == own).all():
        raise ConfigError(
            f"process {processes.rank} has another config, treebank or template sets than the first"
        )
