"""Options of searches in native code, and limits on labels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuparse.errors import ScoreError

NO_HEAD = -1  # the value of heads at position 0 and in padding
MAX_ITERATIONS = 1000  # solutions of all sub-problems of a dual decomposition
MOST_LIMITS = 10  # sets of labels: the work doubles with each
_NONE = np.zeros(0, np.int64)


class Search(NamedTuple):
    """`Search` of native/api/higher.h; decoder: its number in the table."""

    decoder: int
    single_root: bool
    min_gain: float = 0.0
    max_iterations: int = MAX_ITERATIONS
    granularity: float = 0.0
    class_of: np.ndarray = _NONE
    masks: np.ndarray = _NONE


class ChangeLimits(NamedTuple):
    """Limits of searches by single changes, as native/api/single_changes.h declares them."""

    single_root: bool
    max_changes: int
    min_gain: float


def classes_of_labels(
    limits: Sequence[Sequence[int] | set[int] | frozenset[int]], n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Limits on labels: sets of which a head may give each label to at most one modifier.

    Returns: The class of each label (L,), and the limits that each class is under, as bits (D,).
    """
    if len(limits) > MOST_LIMITS:
        raise ScoreError(f"there are {len(limits)} limits, expected at most {MOST_LIMITS}")
    of_label = np.zeros(n_labels, np.int64)
    for k, limit in enumerate(limits):
        for label in limit:
            if not 0 <= label < n_labels:
                raise ScoreError(f"limit {k} names label {label}, there are {n_labels} labels")
            of_label[label] |= 1 << k
    masks, class_of = np.unique(of_label, return_inverse=True)
    return class_of.astype(np.int64), masks
