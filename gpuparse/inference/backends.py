"""Which form of an algorithm runs: batched torch on any device, or compiled for the CPU."""

from typing import Literal

import torch

from gpuparse.errors import ScoreError

Backend = Literal["auto", "torch", "cpu", "gpu"]


def choose_backend(backend: str, device: torch.device) -> Literal["torch", "cpu"]:
    """The backend that runs.

    Args:
        backend: "auto" takes "cpu" for tensors in main memory and "torch" for any other device.
        device: where the scores are.

    Raises:
        ScoreError: an unknown backend, or one that cannot read these tensors.
    """
    if backend == "torch":
        return "torch"
    if backend == "auto":
        return "cpu" if device.type == "cpu" else "torch"
    if backend == "cpu":
        if device.type != "cpu":
            raise ScoreError(f"backend 'cpu' reads tensors in main memory, these are on {device}")
        return "cpu"
    if backend == "gpu":
        raise ScoreError("backend 'gpu' is not there; on a GPU use 'torch'")
    raise ScoreError(f"unknown backend {backend!r}: expected 'auto', 'torch' or 'cpu'")


def require_compiled(name: str, backend: str, device: torch.device) -> None:
    """Raise ScoreError unless the compiled form of what has no other can run.

    Args:
        name: of the function, for the message.
        backend: "auto" or "cpu".
        device: where the scores are.
    """
    if choose_backend(backend, device) != "cpu":
        raise ScoreError(
            f"{name} is there for tensors in main memory and the backend 'cpu' only, not for "
            f"tensors on {device} with the backend {backend!r}"
        )
