"""Limits on labels: sets of labels of which a head may give each to at most one modifier."""

from collections.abc import Sequence

import numpy as np

from gpuparse.errors import ScoreError

MOST_LIMITS = 10  # sets of labels: the work doubles with each


def classes_of_labels(
    limits: Sequence[Sequence[int] | set[int] | frozenset[int]], n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """The class of each label (L,), and the limits that each class is under, as bits (D,)."""
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
