"""The version of gpuparse, with its commit."""

from pathlib import Path

from gpuparse import __version__

ROOT = Path(__file__).parents[2]  # the folder of the package: a checkout, or that of an image
COMMIT = "COMMIT"  # a file in it, for copies without the history


def described_version(root: Path = ROOT) -> str:
    """The version, and the commit if it is known: `0.1.0 (1a2b3c4d5e6f)`.

    Args:
        root: the folder of the package. Its file COMMIT has the commit; without it, and in a
            checkout, git is asked, and `-dirty` is appended if there are changes.
    """
    commit = _commit(root)
    return f"{__version__} ({commit})" if commit else __version__


def _commit(root: Path) -> str:
    noted = root / COMMIT
    if noted.is_file():
        return noted.read_text().strip()
    if not (root / ".git").exists():
        return ""
    import subprocess  # which takes long, and most commands do not need it

    command = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--abbrev=12"]
    try:
        asked = subprocess.run([*command, "--dirty"], capture_output=True, text=True, check=False)
    except FileNotFoundError:  # git is not installed
        return ""
    return asked.stdout.strip()


def package_version(package: str) -> str | None:
    """The version of a package, which is not imported; None where it is not installed."""
    from importlib import metadata  # slow to import, and parsing does not need it

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
