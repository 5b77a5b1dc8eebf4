"""The identity of a pretrained encoder: sums of its files, which need no torch to be read."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from gpuparse.data.array_file import sha256


def sums_of_pretrained(name: str) -> dict[str, str]:
    """The SHA-256 of the parts of a pretrained encoder that is a folder; else of its name."""
    if not os.path.isdir(name):
        return {"encoder.model": sha256(name.encode())}
    folder = Path(name)
    config = folder / "config.json"
    read = [path for kind in ("*.json", "*.txt", "*.model") for path in folder.glob(kind)]
    parts = {
        "its weights": folder.glob("*.safetensors"),
        "its config": [path for path in read if path == config],
        "its tokenizer": [path for path in read if path != config],
        "its README.md": folder.glob("README.md"),
    }
    return {f"encoder.model, {what}": _sum_of_files(paths) for what, paths in parts.items()}


def _sum_of_files(paths: Iterable[Path]) -> str:
    """One SHA-256 of the names and contents of files."""
    found = hashlib.sha256()
    for path in sorted(paths):
        with path.open("rb") as file:
            found.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()
