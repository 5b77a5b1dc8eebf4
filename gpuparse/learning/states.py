"""Checks of the state of a run: native code does not look for what a file says of its tables."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gpuparse.errors import ModelError, plural
from gpuparse.learning.events import STAGES


class Shape(NamedTuple):
    """The type and shape of an array."""

    dtype: Any
    sizes: tuple[int, ...]


def check_state(
    state: Mapping[str, np.ndarray], shapes: Mapping[str, Shape], epochs: Mapping[str, int]
) -> None:
    """Make sure that the arrays of a state are those of a run.

    Args:
        shapes: of all arrays that a state of the run has.
        epochs: that each stage has; `done` may not have more.
    Raises: ModelError: arrays are missing or unknown; of other types or shapes; not finite; or more
        epochs are done than there are.
    """
    lacking = sorted(set(shapes) ^ set(state))
    if lacking:
        raise ModelError(f"a state of another run: {lacking[0][:40]!r} is missing or unknown")
    for name, (dtype, sizes) in shapes.items():
        array = state[name]
        if array.dtype != dtype or array.shape != sizes:
            raise ModelError(
                f"a state of another run: '{name}' is {array.dtype} {list(array.shape)}, not"
                f" {np.dtype(dtype)} {list(sizes)}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelError(f"a damaged state: '{name}' has numbers that are not finite")
    for stage, done in zip(STAGES, state["done"].tolist(), strict=True):
        if not 0 <= done <= epochs[stage]:
            raise ModelError(f"a damaged state: {plural(done, 'epoch')} of {stage}")
