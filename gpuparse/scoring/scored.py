"""What a parser scores and searches with, as its engines take it."""

from typing import NamedTuple

import numpy as np

from gpuparse.features.plan import ArcPlan, LabelPlan, Plan
from gpuparse.scoring.feature_map import FeatureMap
from gpuparse.scoring.joint_labels import JointLabels
from gpuparse.scoring.pruning import Pruner
from gpuparse.scoring.weights import Weights


class LabelLimits(NamedTuple):
    """Sets of labels of which no head has two modifiers.

    class_of: (labels,) int64, the class of each label. masks: (classes,) int64, the sets of each
    class as bits.
    """

    class_of: np.ndarray
    masks: np.ndarray


class Scored(NamedTuple):
    """What a parser scores and searches with.

    label_plan: of labels of finished trees. joint, joint_plan: of labels found with the trees.
    may_be_primary: (labels,) bool, of graphs: the labels that arcs from primary heads may have.
    """

    plan: Plan
    features: FeatureMap
    arcs: Weights
    label_plan: LabelPlan | None
    joint_plan: ArcPlan | None
    label_weights: Weights | None
    may_be_primary: np.ndarray | None
    decoder: str
    single_root: bool
    min_gain: float
    joint: JointLabels | None = None
    pruner: Pruner | None = None
    limits: LabelLimits | None = None
