"""Which version this is, to the commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpuparse import __version__

ROOT = Path(__file__).parents[2]  # what holds the package: a checkout, an image's folder
COMMIT = "COMMIT"  # a file there, written where the history is left behind


def described_version(root: Path = ROOT) -> str:
    """The version, and the commit where it can be known: `0.1.0 (1a2b3c4d5e6f)`.

    Args:
        root: the folder that the package stands in. Its file COMMIT tells; without one git is asked
            if the folder is a checkout, and `-dirty` is said of sources that were changed since.
    """
    commit = _commit(root)
    return f"{__version__} ({commit})" if commit else __version__


def _commit(root: Path) -> str:
    noted = root / COMMIT
    if noted.is_file():
        return noted.read_text().strip()
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--abbrev=12"]
    try:
        asked = subprocess.run([*command, "--dirty"], capture_output=True, text=True, check=False)
    except FileNotFoundError:  # git is not installed
        return ""
    return asked.stdout.strip()
