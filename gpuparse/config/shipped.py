"""The configs that come with gpuparse, and the file that a config's name stands for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpuparse.errors import ConfigError, did_you_mean, near_names

_PACKAGE = Path(__file__).parents[1]


def shipped_configs() -> dict[str, Path]:
    """The configs that come with gpuparse, by name: `default`, `danish-ddt/joint-labels`.

    Returns: The file of each; those in folders come last.
    """
    inside = _PACKAGE / "configs"
    folder = inside if inside.is_dir() else _PACKAGE.parent / "configs"  # installed or a checkout
    files = {file.relative_to(folder).with_suffix(""): file for file in folder.rglob("*.yaml")}
    return {name.as_posix(): files[name] for name in sorted(files, key=lambda n: (n.parent, n))}


def config_file(name: str | Path, folder: str = "") -> str:
    """The file of a config that is named by its path or, if it comes with gpuparse, by its name.

    A file of that path is taken before a config of that name; `.yaml` may follow the name.

    Args:
        name: path or name.
        folder: the folder that a relative path is relative to, "" for the working directory.
    Returns: Its path, relative to the working directory unless it is absolute.
    Raises: ConfigError: there is neither; similar names are given.
    """
    if "\0" in str(name):
        raise ConfigError(f"{str(name)!r}: no file's name has the character NUL")
    path = os.path.normpath(os.path.join(folder, name)) if folder else str(name)
    word, shipped = str(name).removesuffix(".yaml"), shipped_configs()
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        return str(shipped[word]) if is_folder and word in shipped else path
    except (FileNotFoundError, NotADirectoryError):
        if word in shipped:
            return str(shipped[word])
        hint = nearest(word, list(shipped))
        raise ConfigError(f"{path}: no such file, and no config of this name; {hint}") from None
    except OSError:
        return path  # reading it says what is wrong


def nearest(word: str, names: list[str]) -> str:
    """Advice for a name that no shipped config has."""
    near = near_names(word, names, n=3)
    last = Path(word).name
    near += [name for name in names if Path(name).name == last and name not in near]
    return did_you_mean(near) or "`gpuparse config list` lists all names"
