"""Which device this is, and what it does in a second, measured."""

import importlib.metadata
import os
import platform
import subprocess

import torch

from benchmarks.floors import SECTOR, Machine
from benchmarks.on_device.clock import seconds_of_a_call
from gpuparse.errors import ResourceError
from gpuparse.jobs.version import described_version

PACKAGES = (
    "torch", "triton", "numpy", "safetensors",
    "torch-struct", "supar", "ufal.chu_liu_edmonds", "matplotlib",
)  # fmt: skip
LARGE, IN_CACHE, SMALL = 1 << 30, 24 << 20, 1 << 20  # bytes
SIDE = 4096  # of the matrices that measure the rate of instructions


def require_device(name: str) -> torch.device:
    """The device of that name.

    Raises:
        ResourceError: it is CUDA and there is none.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ResourceError("no GPU is here that PyTorch can use: --device cuda measures nothing")
    return torch.device(name)


def described(device: torch.device) -> dict[str, str]:
    """Machine and versions, as they stand beside every figure."""
    found = {"gpuparse": described_version(), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    found |= {"system": platform.platform(), "processors": str(os.cpu_count())}
    found["device"] = str(device)
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(device)
        found["cuda"] = str(torch.version.cuda)
        found["driver"] = _driver()
    return found


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown: no nvidia-smi"
    return asked.stdout.split("\n")[0].strip()


def measured(device: torch.device, *, small: bool = False) -> Machine:
    """What the device does, by a large copy, a small one, and a product of matrices.

    bandwidth: of a copy of 1 GiB, bytes read and written. sectors: of 24 MiB read and written in
    place, which the second-level cache holds; random sectors can only be slower. operations:
    of a product of matrices in float32, a fused multiplication and addition counted once.

    Args:
        device: which.
        small: with little memory and in little time, for a test of the program.
    """
    large, side = (SMALL, 128) if small else (LARGE, SIDE)
    source, target = torch.zeros(2, large // 4, device=device)
    copied = seconds_of_a_call([lambda: target.copy_(source)], device)
    within = target[: min(IN_CACHE, large) // 4]
    cached = seconds_of_a_call([lambda: within.mul_(1.0)], device)
    precision = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        left, right = torch.ones(2, side, side, device=device)
        product = seconds_of_a_call([lambda: left @ right], device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = precision
    sectors = 2 * 4 * len(within) / cached / SECTOR
    name = described(device)["device"]
    return Machine(name, 2 * large / copied, side**3 / product, sectors)
