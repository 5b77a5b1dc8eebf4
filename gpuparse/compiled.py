"""The decorator of all compiled functions: numba with a cache that cannot go stale.

numba notices a change of the file that a function stands in, but not of the functions that it
calls in other files, and would go on running the old ones. The cache folder is therefore named
after the contents of all source files of the package.
"""

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
PACKAGE = Path(__file__).parent
# Rooms, and files of Triton's kernels, whose changes leave compiled code as it is.
WITHOUT_KERNELS = ("commands", "evaluation")


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, or load it; it runs without the GIL."""
    return _cached(numba.njit(nogil=True)(function))


def inlined(function: Function) -> Function:
    """As `compiled`, but written into every caller: one level less to compile again for each."""
    return _cached(numba.njit(nogil=True, inline="always")(function))


def _cached(dispatcher: Any) -> Any:
    set_by_user = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        dispatcher.enable_caching()
    finally:
        numba.config.CACHE_DIR = set_by_user
    return dispatcher


@functools.cache
def cache_folder() -> Path:
    """Where compiled code of these very sources is kept.

    In NUMBA_CACHE_DIR if that is set, else beside Python's own compiled files, else, where the
    package cannot be written to, in the user's cache folder.
    """
    digest = hashlib.sha256()
    for source in sorted(PACKAGE.rglob("*.py")):
        parts = source.relative_to(PACKAGE).parts
        if parts[0] in WITHOUT_KERNELS or "gpu" in parts or source.stem.startswith("gpu_"):
            continue
        digest.update(source.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(source.read_bytes() + b"\0")
    return _base() / f"gpuparse-kernels-{digest.hexdigest()[:16]}"


def _base() -> Path:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    beside = PACKAGE / "__pycache__"
    if os.access(beside if beside.exists() else PACKAGE, os.W_OK):
        return beside
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
