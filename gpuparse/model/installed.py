"""Models by name: those that come with gpuparse, and those that other packages bring.

A package of a model has an entry point of the group `gpuparse.models`, whose name is that of the
model and whose value is that of the package; the files of the model are in the package's folder.
No code of the package is imported or executed.
"""

import os
import re
from pathlib import Path
from typing import Any

from gpuparse.errors import ModelError, did_you_mean, near_names, one_line

GROUP = "gpuparse.models"
WHAT_MODELS_ARE = "a model is a folder that `gpuparse train` wrote"  # in messages
UNFINISHED = "last"  # the folder of the state of a run that is not finished
NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")  # of a model
_OWN = Path(__file__).resolve().parent / "shipped"
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # without a point: its parent would be imported


def find_model(model: str | os.PathLike[str]) -> Path:
    """The folder of a model, given by its path or its name.

    A folder with a model of this path is taken before an installed model of this name. What is
    neither is returned as a path, so that reading it says what is wrong.

    Raises: ModelError: the package of this name is broken.
    """
    text = os.fspath(model)
    path = Path(text).expanduser()
    if not NAME.fullmatch(text) or any(path.glob("*.safetensors")) or (path / UNFINISHED).is_dir():
        return path
    own = _OWN / text
    if own.is_dir():
        return own
    for _, package in _packages(name=text):
        return _folder_of(text, package)
    return path


def installed_models() -> dict[str, Path]:
    """The folders of all installed models by name, in the order of the names.

    Raises: ModelError: the package of one is broken.
    """
    own = [path for path in _OWN.glob("*") if path.is_dir() and NAME.fullmatch(path.name)]
    found = {path.name: path for path in own}
    for name, package in _packages():
        if NAME.fullmatch(name) and name not in found:
            found[name] = _folder_of(name, package)
    return dict(sorted(found.items()))


def model_hint(name: str) -> str:
    """The advice about a name that is no model: the installed models, one if it is near to it."""
    if os.path.basename(name) != name:
        return WHAT_MODELS_ARE
    installed = installed_models()
    if name in installed:  # which find_model takes, unless it was given as ./name
        return f"for the installed model, give {name} without a folder"
    near = did_you_mean(near_names(name, installed))
    return near or f"{WHAT_MODELS_ARE}, or an installed one: {', '.join(installed)}"


def _packages(**which: Any) -> list[tuple[str, str]]:
    """The names of models and of the packages that bring them.

    Raises: ModelError: the entry points of an installed package, of a model or not, are damaged.
    """
    from importlib import metadata  # takes long: for models of packages alone

    try:
        return [(entry.name, entry.value) for entry in metadata.entry_points(group=GROUP, **which)]
    except Exception as error:  # importlib has none of its own
        folder = next(filter(None, map(_damaged, metadata.distributions())), "")
        raise ModelError(
            f"{folder}: the entry points of a package here are damaged ({one_line(error)}); install"
            " that package again"
        ) from error


def _damaged(package: Any) -> str:
    """The folder of an installed package whose entry points cannot be read; "" if they can."""
    try:
        _ = package.entry_points, package.metadata["Name"]
    except Exception:
        return str(package.locate_file(""))
    return ""


def _folder_of(name: str, package: str) -> Path:
    """The folder of a package."""
    from importlib import util

    found = util.find_spec(package) if _PACKAGE.fullmatch(package) else None
    if found is None or not found.submodule_search_locations:
        raise ModelError(
            f"{name}: its package {package[:80]!r} cannot be found; install the model again"
        )
    return Path(next(iter(found.submodule_search_locations)))
