"""Labels found with the trees: what the labels of arcs are scored with."""

from typing import NamedTuple

import numpy as np

from gpuparse.features.plan import ArcPlan, HigherPlan
from gpuparse.scoring.weights import FeatureMap, RowMap, hashed_map

LANES = 16  # weights of a line are padded to a multiple of this


class JointLabels(NamedTuple):
    """What the labels of arcs are scored with."""

    plan: ArcPlan
    rows: RowMap  # of lines of weights
    weights: np.ndarray  # (lines * stride,): a line of one weight a label, then zeros
    stride: int
    width: int  # labels
    higher: HigherPlan | None = None  # templates of children, where their labels are found too


def joint_labels(
    plan: ArcPlan, array: np.ndarray, width: int, higher: HigherPlan | None = None
) -> JointLabels:
    """What native code scores labels with.

    Args:
        array: (lines, width) weights, of which a copy is made; or (lines, stride_of(width)), with
            zeros beyond the labels, which are used without a copy.
        width: labels.
        higher: templates of children that labels are found with too.
    """
    stride = stride_of(width)
    if array.shape[1] < stride:
        array = np.pad(array, ((0, 0), (0, stride - width)))
    return JointLabels(plan, label_map(len(array)).rows, array.reshape(-1), stride, width, higher)


def stride_of(width: int) -> int:
    """Number of weights of a line for `width` labels: a multiple of the vector length."""
    return -(-width // LANES) * LANES


def label_map(n_lines: int) -> FeatureMap:
    """The row map of n_lines lines of label weights."""
    return hashed_map(n_lines, 0)
