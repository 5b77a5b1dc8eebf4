"""Processors and devices that this process may use."""

import ctypes
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from gpuparse.errors import (
    ConfigError,
    MissingPackageError,
    SelfTestError,
    option,
    require,
)
from gpuparse.jobs.progress import say

CGROUP_ROOT = Path("/sys/fs/cgroup")  # mount point of the control groups (version 2)
OWN_CGROUPS = Path("/proc/self/cgroup")  # names the groups of this process
_NO_CUDA = "CUDA is not available"


def available_processors() -> int:
    """Count the processors that this process may use.

    Returns: The smaller of its processor affinity and the quotas of its control groups, rounded up;
        at least 1.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def _cgroup_quota() -> float | None:
    """The smallest quota, in processors, of the process's group and all groups above it."""
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return None
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        return None
    group = CGROUP_ROOT / own.lstrip("/")
    quotas: list[float] = []
    for folder in (group, *group.parents):
        try:
            maximum, period = (folder / "cpu.max").read_text().split()
            quotas.append(int(maximum) / int(period))
        except (OSError, ValueError):  # no such file here, or "max": no quota
            pass
        if folder == CGROUP_ROOT:
            break
    return min(quotas, default=None)


def thread_count(wanted: int) -> int:
    """Resolve the number of threads of a config or command line.

    Args: wanted: number of threads, or 0 for all processors of this process.
    Returns: At least 1.
    Raises: ConfigError: a negative number.
    """
    if not isinstance(wanted, int) or wanted < 0:
        raise ConfigError(f"threads: expected 0 (all available) or more, not {wanted!r}")
    return wanted or available_processors()


def choose_device(wanted: str, say: Callable[[str], None]) -> str:
    """Resolve `auto`, `cpu` or `cuda` to a device that works.

    Args:
        wanted: `auto` is CUDA if it works, else the CPU.
        say: writes what a user of `auto` with a GPU should know: that it is used, or why not.
    Returns: "cpu" or "cuda".
    Raises: ConfigError: `cuda` does not work; or another word. MissingPackageError: `cuda` was
        asked for, and torch is not installed.
    Cost: with a CUDA driver, imports torch; the first use of CUDA takes seconds.
    """
    if wanted not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device: expected auto, cpu or cuda, not {wanted!r}")
    if wanted == "cpu":
        return "cpu"
    if wanted == "cuda":
        require("device cuda", "torch")
    trouble = cuda_trouble()
    if wanted == "cuda" and trouble:
        raise ConfigError(f"device cuda: {trouble}; use cpu or auto")
    if trouble:
        if trouble != _NO_CUDA:  # without a GPU there is nothing to say
            say(f"device: cpu ({trouble})")
        return "cpu"
    if wanted == "auto":
        say("device: cuda")
    return "cuda"


def working_device(
    device: str, wanted: str, difference: Callable[[], str], *, can_fall_back: bool = True
) -> str:
    """A chosen device, or the CPU if the device fails its self-test.

    Args:
        device: of `choose_device`. wanted: what the user asked for.
        difference: does the self-test; as `device_difference`.
        can_fall_back: whether the work can be done on the CPU as it was asked for.
    Raises: SelfTestError: the device fails, and the user asked for it.
    """
    what = "" if device == "cpu" else difference()
    if not what:
        return device
    text = f"device {device}: its self-test fails: {what}"
    if wanted == device or not can_fall_back:
        raise SelfTestError(f"{text}; use {option('device', 'cpu')}")
    say(f"{text}; the work is done on the CPU")
    return "cpu"


def cuda_trouble() -> str:
    """Why CUDA cannot be used; empty if it can."""
    if not _has_cuda_driver():
        return _NO_CUDA
    try:
        require("CUDA", "torch")
    except MissingPackageError as error:
        return str(error)
    import torch  # a machine without a driver does not need it

    if not torch.cuda.is_available():
        return _NO_CUDA
    try:
        torch.ones(1, device="cuda").sum().item()
    except RuntimeError as error:
        return f"CUDA does not work: {str(error).splitlines()[0]}"
    return ""


def _has_cuda_driver() -> bool:
    """True if the CUDA driver is installed and sees a device; importing torch would take longer."""
    try:
        driver = ctypes.CDLL("libcuda.so.1" if sys.platform != "win32" else "nvcuda.dll")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


def limit_torch_threads(threads: int, *, is_native: bool) -> None:
    """Set the number of threads of torch, which uses all processors otherwise.

    Args:
        threads: number of threads of the job.
        is_native: whether native code does the work; torch then gets one thread.
    """
    if is_native and sys.modules.get("torch") is None:
        return  # native code needs no torch
    require("this model with these options", "torch")
    import torch

    torch.set_num_threads(1 if is_native else threads)
