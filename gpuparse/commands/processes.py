"""Joining the processes of a training run, where torchrun has started several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import numpy as np

from gpuparse.errors import ConfigError, ResourceError
from gpuparse.learning.mixing import ALONE, Processes

# Others wait so long: the first process scores data.dev between two epochs.
PATIENCE = timedelta(minutes=30)


@contextmanager
def joined_processes() -> Iterator[Processes]:
    """The processes that were started as one run, by torchrun or whoever sets what it sets.

    Yields:
        this process alone, if WORLD_SIZE is not set or 1.
    Raises:
        ConfigError: the environment lacks what they find each other by.
        ResourceError: they do not find each other.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield ALONE
        return
    from torch import distributed

    try:
        distributed.init_process_group("gloo", timeout=PATIENCE)
    except ValueError as error:
        raise ConfigError(f"several processes: {error}; torchrun sets what is needed") from error
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise ResourceError(
            f"the processes of this run do not find each other: {reason}"
        ) from error
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


def check_same(sha256: str, processes: Processes) -> None:
    """Make sure that all processes are to learn the same; all must call.

    Args:
        sha256: of what this process's model is made of, in hexadecimal.
    Raises:
        ConfigError: it is not what the first process has.
        ResourceError: another process has ended, or does not answer.
    """
    own = np.frombuffer(bytes.fromhex(sha256), np.uint8)
    first = own.copy()
    processes.share(first, 0)
    if not (first == own).all():
        raise ConfigError(
            f"process {processes.rank} has another config, treebank or template sets than the first"
        )
