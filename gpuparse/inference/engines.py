"""The engine that runs an algorithm: native code, torch or Triton kernels; and its threads."""

import importlib.util
import os
import shutil
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch.autograd import forward_ad

from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import ENGINES, Engine
from gpuparse.native import mapped

MOST_NODES = 1 << 13  # positions, so that kernels count a program's scratch in 32 bits
INTERPRETER = "TRITON_INTERPRET"  # Triton's own switch, read as its kernels are imported

# Starting threads costs about 0.1 ms, in which a core does a few million operations.
WORTH_A_THREAD = 5_000_000


def is_traced() -> bool:
    """True if torch.compile or a transform of torch.func runs the code: values are not known."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def _has_torch_forms_alone() -> bool:
    """True where operations have no derivatives, and torch.compile silently makes them 0.

    Those are transforms of torch.func inside torch.compile, and derivatives in forward mode.
    """
    if torch.compiler.is_compiling():
        return bool(torch._C._are_functorch_transforms_active())
    return forward_ad._current_level >= 0


def choose_engine(engine: str, device: torch.device, *, has_kernels: bool = False) -> Engine:
    """The engine that runs.

    Args:
        engine: one of `ENGINES`, or "auto": "torch" for derivatives in forward mode and transforms
            of torch.func inside torch.compile; "native" for tensors in main memory; for any other
            device "triton" where there are kernels and Triton is installed; and else "torch".
        device: where the scores are.
        has_kernels: whether the algorithm has Triton kernels.
    Raises: ScoreError: an unknown engine, or one that cannot read these tensors or run here.
    """
    if engine == "auto":
        if _has_torch_forms_alone():
            return "torch"
        if device.type == "cpu":
            return "native"
        if not (has_kernels and device.type == "cuda" and has_triton()):
            return "torch"
        _require_compiler()
        return "triton"
    if engine not in ENGINES:
        known = "', '".join(ENGINES)
        raise ScoreError(f"unknown engine {engine!r}: expected 'auto', '{known}'")
    if engine == "native":
        if device.type != "cpu":
            raise ScoreError(f"engine 'native' reads tensors in main memory, these are on {device}")
        if _has_torch_forms_alone():
            raise ScoreError(
                "engine 'native' has no derivatives in forward mode, and none of torch.func inside"
                " torch.compile; use 'torch'"
            )
    if engine == "triton":
        _require_triton(device, has_kernels)
    return ENGINES[ENGINES.index(engine)]


def has_triton() -> bool:
    """True if Triton is installed; it is not looked at any further."""
    return importlib.util.find_spec("triton") is not None


def _require_triton(device: torch.device, has_kernels: bool) -> None:
    if not has_kernels:
        raise ScoreError("engine 'triton': there are no Triton kernels for this; use 'torch'")
    if not has_triton():
        raise ScoreError("engine 'triton' needs Triton, which is not installed; use 'torch'")
    if device.type == "cuda":
        _require_compiler()
    elif os.environ.get(INTERPRETER) != "1":
        raise ScoreError(
            f"engine 'triton' reads tensors on a CUDA device, these are on {device}; use 'auto', or"
            f" start Python with {INTERPRETER}=1 to run the kernels in Triton's interpreter, slowly"
        )


def _require_compiler() -> None:
    """Raise ScoreError where Triton would find no C compiler for the lines that launch a kernel."""
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        raise ScoreError(
            "engine 'triton': Triton needs a C compiler to launch its kernels, and there is none:"
            " install gcc, or use 'torch'"
        )


def require_native(name: str, engine: str, device: torch.device) -> None:
    """Raise ScoreError unless what exists in native code only can run.

    Args:
        name: of the function, for the message.
        engine: "auto" or "native".
        device: where the scores are.
    """
    if engine == "triton" or choose_engine(engine, device) != "native":
        raise ScoreError(
            f"{name} exists in native code only, for tensors in main memory with engine 'native',"
            f" not for tensors on {device} with engine {engine!r}"
        )


def run_in_threads(
    work: Callable[[slice], None],
    lengths: np.ndarray,
    power: int,
    threads: int,
    worth: int = WORTH_A_THREAD,
) -> None:
    """Call `work` on slices that together cover the batch, in up to `threads` threads at once.

    Args:
        work: fills its slice of the results; it must not depend on how the batch is cut.
        lengths: words of each sentence, int64 (B,).
        power: a sentence of n words costs about n ** power operations.
        threads: most threads to use.
        worth: operations for which one more thread pays.
    """
    if threads > 1 and len(lengths) > 1:
        done = np.cumsum((lengths + 1) ** power)
        pieces = min(threads, len(lengths), int(done[-1]) // worth)
        if pieces > 1:
            cuts = np.searchsorted(done, done[-1] * np.arange(1, pieces) / pieces).tolist()
            slices = [slice(a, b) for a, b in pairwise([0, *cuts, len(lengths)])]
            list(mapped(work, slices, pieces))
            return
    work(slice(0, len(lengths)))
