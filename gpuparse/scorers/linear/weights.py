"""The weights of features and of labels, and the map from keys of features to their rows."""

from typing import Any, NamedTuple

import numpy as np

from gpuparse.errors import ConfigError, ScoreError
from gpuparse.features.plan import LINE, ArcPlan, HigherPlan
from gpuparse.scorers.linear.hashing import WORD

LANES = 16  # weights of a line are padded to a multiple of this


class Weights:
    """One row of weights for each feature.

    While learning, weights are float32 and change; for parsing they are integers of 8 or 16 bits.
    `embedding_bag.py` has them as tensors, whose memory on the CPU is that of `array`
    for float32.

    Args: array: (R, D) float32, int8 or int16; D is 1 for arcs, the number of labels for labels.
    """

    def __init__(self, array: np.ndarray) -> None:
        if array.dtype not in (np.float32, np.int8, np.int16):
            raise TypeError(f"weights are float32, int8 or int16, not {array.dtype}")
        self.is_integer = array.dtype != np.float32
        self.tensors: dict[Any, Any] = {}  # what torch keeps beside them
        if self.is_integer:
            self.array = np.ascontiguousarray(array)
            self.padded = self.array
            self.largest = int(max(np.max(array, initial=0), -int(np.min(array, initial=0))))
        else:
            # One more row of zeros, for features that do not fire.
            self.padded = np.zeros((len(array) + 1, array.shape[1]), np.float32)
            self.padded[:-1] = array
            self.array = self.padded[:-1]
            self.largest = 0

    def __getstate__(self) -> dict[str, Any]:
        """Without tensors, which have keys of this process and are made again."""
        return self.__dict__ | {"tensors": {}}


def quantised(averages: np.ndarray, bits: int) -> tuple[np.ndarray, float]:
    """Averages as integers of `bits` bits, the largest becoming the end; and their scale.

    A tree's score is multiplied by the scale as a whole, so that no best tree depends on it.

    Raises: ScoreError: an average is not finite.
    """
    largest = float(np.abs(averages).max(initial=0.0))
    if not np.isfinite(largest):
        raise ScoreError("weights that are not finite cannot be stored; learning diverged")
    end = (1 << (bits - 1)) - 1
    scale = end / largest if largest > 0.0 else 1.0
    whole = np.rint(averages.astype(np.float64) * scale)
    return whole.astype(np.int8 if bits == 8 else np.int16), scale


class WholeWeights(NamedTuple):
    """Averages of arcs and labels as whole numbers, with their scales.

    arcs: (R, 1). labels: (lines, L), None for a parser of heads.
    """

    arcs: Weights
    labels: Weights | None
    scale: float
    label_scale: float


def whole_weights(
    arcs: np.ndarray, labels: np.ndarray | None, bits: int, *, is_joint: bool
) -> WholeWeights:
    """The whole weights that parsing needs of learned weights.

    Args:
        arcs: (R,) averages; labels: (lines, L), None for a parser of heads.
        is_joint: whether both are added up, and so have one scale.
    Raises: ScoreError: as `quantised`.
    """
    if labels is not None and is_joint:
        both, scale = quantised(np.concatenate([arcs, labels.reshape(-1)]), bits)
        of_labels = Weights(both[len(arcs) :].reshape(labels.shape))
        return WholeWeights(Weights(both[: len(arcs), np.newaxis]), of_labels, scale, scale)
    whole, scale = quantised(arcs, bits)
    weights = Weights(whole[:, np.newaxis])
    if labels is None:
        return WholeWeights(weights, None, scale, 1.0)
    lines, label_scale = quantised(labels, bits)
    return WholeWeights(weights, Weights(lines), scale, label_scale)


class RowMap(NamedTuple):
    """From keys to base rows.

    `mask` has the bits of a key that count. The row is the key itself where the number of rows is a
    power of two, else the key chooses a line of the table by multiplication.
    """

    rows: int  # of the table, a multiple of LINE
    is_power: bool  # whether that is a power of two
    mask: int
    dense: int  # first row of the dense region


class FeatureMap(NamedTuple):
    """A row map, and the number of weight rows that it and the dense region need."""

    rows: RowMap
    n_rows: int


def hashed_map(n_rows: int, dense_lines: int) -> FeatureMap:
    """A table of fixed size; the last n_rows % LINE rows stay unused.

    Raises: ConfigError: fewer rows than one line.
    """
    if n_rows < LINE:
        raise ConfigError(f"feature_map.rows: {n_rows} is too few, at least {LINE} are needed")
    table = n_rows // LINE * LINE
    is_power = table & (table - 1) == 0
    rows = RowMap(table, is_power, table - 1 if is_power else WORD, table)
    return FeatureMap(rows, table + dense_lines * LINE)


class JointLabels(NamedTuple):
    """The plan and weights that score labels of arcs."""

    plan: ArcPlan
    rows: RowMap  # of lines of weights
    weights: np.ndarray  # (lines * stride,): a line of one weight per label, then zeros
    stride: int
    width: int  # labels
    higher: HigherPlan | None = None  # templates of children, where their labels are found too


def joint_labels(
    plan: ArcPlan, weights: Weights, width: int, higher: HigherPlan | None = None
) -> JointLabels:
    """The plan and weights by which native code scores labels.

    Args:
        weights: (lines, width), of which a copy is made; or (lines, stride_of(width)), with zeros
            beyond the labels, which are used without a copy.
        width: labels.
        higher: templates of children that labels are found with too.
    """
    stride, lines = stride_of(width), weights.array
    if lines.shape[1] < stride:
        lines = np.pad(lines, ((0, 0), (0, stride - width)))
    rows, flat = label_map(len(lines)).rows, lines.reshape(-1)
    return JointLabels(plan, rows, flat, stride, width, higher)


def stride_of(width: int) -> int:
    """Number of weights of a line for `width` labels: a multiple of the vector length."""
    return -(-width // LANES) * LANES


def label_map(n_lines: int) -> FeatureMap:
    """The row map of n_lines lines of label weights."""
    return hashed_map(n_lines, 0)
