"""Which device this is."""

import importlib.metadata
import os
import platform
import subprocess

import torch

from gpuparse.jobs.version import described_version

PACKAGES = (
    "torch", "triton", "numpy", "safetensors", "transformers", "tokenizers",
    "torch-struct", "supar", "ufal.chu_liu_edmonds", "matplotlib",
)  # fmt: skip


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
