"""Labels found with the trees: what the labels of arcs are scored with."""

from typing import NamedTuple

import numpy as np

from gpuparse.features.plan import ArcPlan, HigherPlan
from gpuparse.scoring.weights import FeatureMap, RowMap, Weights, hashed_map

LANES = 16  # weights of a line are padded to a multiple of this


class JointLabels(NamedTuple):
    """What the labels of arcs are scored with."""

    plan: ArcPlan
    rows: RowMap  # of lines of weights
    weights: np.ndarray  # (lines * stride,): a line of one weight a label, then zeros
    stride: int
    width: int  # labels
    table: Weights  # that of `weights`: (lines, stride)
    higher: HigherPlan | None = None  # templates of children, where their labels are found too


def joint_labels(
    plan: ArcPlan, weights: Weights, width: int, higher: HigherPlan | None = None
) -> JointLabels:
    """What native code scores labels with.

    Args:
        weights: (lines, width), of which a copy is made; or (lines, stride_of(width)), with zeros
            beyond the labels, which are used without a copy.
        width: labels.
        higher: templates of children that labels are found with too.
    """
    stride = stride_of(width)
    if weights.array.shape[1] < stride:
        weights = Weights(np.pad(weights.array, ((0, 0), (0, stride - width))))
    rows, flat = label_map(len(weights.array)).rows, weights.array.reshape(-1)
    return JointLabels(plan, rows, flat, stride, width, weights, higher)


def stride_of(width: int) -> int:
    """Number of weights of a line for `width` labels: a multiple of the vector length."""
    return -(-width // LANES) * LANES


def label_map(n_lines: int) -> FeatureMap:
    """The row map of n_lines lines of label weights."""
    return hashed_map(n_lines, 0)
