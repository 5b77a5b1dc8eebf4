"""Tree search and sums over trees: score tensors in, trees and probabilities out.

A name is imported when it is first asked for: the table of decoders needs no torch, all other
functions need it (the extra `torch`).
"""

import importlib
from typing import TYPE_CHECKING, Any

from gpuparse.errors import require

if TYPE_CHECKING:
    from gpuparse.inference.approximate.dual_decomposition import (
        dual_decomposition,
        dual_decomposition_labelled,
    )
    from gpuparse.inference.approximate.hill_climb import hill_climb, multi_parent
    from gpuparse.inference.best_trees import (
        chu_liu_edmonds,
        chu_liu_edmonds_kbest,
        eisner,
        eisner_kbest,
        eisner_sibling,
        eisner_sibling_kbest,
    )
    from gpuparse.inference.constraints import constrain
    from gpuparse.inference.decoders import DECODERS, Decoder, with_quantity
    from gpuparse.inference.distributions import NonProjectiveTrees, ProjectiveTrees
    from gpuparse.inference.higher_order import (
        eisner_grand_sibling,
        eisner_grandchild,
        eisner_grandchild_labelled,
        eisner_tri_sibling,
    )
    from gpuparse.inference.labelled import LabelledTrees
    from gpuparse.inference.losses import (
        conditional_loss,
        hinge_loss,
        label_loss,
        local_loss,
        risk_loss,
    )
    from gpuparse.inference.marginals import (
        arc_scores_of_labels,
        label_marginals,
        minimum_bayes_risk,
    )
    from gpuparse.inference.matrix_tree import (
        matrix_tree_entropy,
        matrix_tree_log_partition,
        matrix_tree_marginals,
        matrix_tree_sample,
    )
    from gpuparse.inference.projective_sums import (
        eisner_entropy,
        eisner_log_partition,
        eisner_marginals,
        eisner_sample,
        eisner_sibling_entropy,
        eisner_sibling_log_partition,
        eisner_sibling_marginals,
        eisner_sibling_sample,
    )
    from gpuparse.inference.scores import Scores
    from gpuparse.inference.searches import Parse, decode
    from gpuparse.inference.support import projectivise

__all__ = [
    "DECODERS",
    "Decoder",
    "LabelledTrees",
    "NonProjectiveTrees",
    "Parse",
    "ProjectiveTrees",
    "Scores",
    "arc_scores_of_labels",
    "chu_liu_edmonds",
    "chu_liu_edmonds_kbest",
    "conditional_loss",
    "constrain",
    "decode",
    "dual_decomposition",
    "dual_decomposition_labelled",
    "eisner",
    "eisner_entropy",
    "eisner_grand_sibling",
    "eisner_grandchild",
    "eisner_grandchild_labelled",
    "eisner_kbest",
    "eisner_log_partition",
    "eisner_marginals",
    "eisner_sample",
    "eisner_sibling",
    "eisner_sibling_entropy",
    "eisner_sibling_kbest",
    "eisner_sibling_log_partition",
    "eisner_sibling_marginals",
    "eisner_sibling_sample",
    "eisner_tri_sibling",
    "hill_climb",
    "hinge_loss",
    "label_loss",
    "label_marginals",
    "local_loss",
    "matrix_tree_entropy",
    "matrix_tree_log_partition",
    "matrix_tree_marginals",
    "matrix_tree_sample",
    "minimum_bayes_risk",
    "multi_parent",
    "projectivise",
    "risk_loss",
    "with_quantity",
]

_MODULES = (
    "decoders", "scores", "searches", "best_trees", "projective_sums", "matrix_tree", "marginals",
    "constraints", "higher_order", "distributions", "labelled", "losses",
    "approximate.dual_decomposition", "approximate.hill_climb", "support",
)  # fmt: skip
"""Where public names are looked for, in this order."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in _MODULES:
        if module != "decoders":
            require(__name__, "torch")
        found = importlib.import_module(f"{__name__}.{module}")
        if hasattr(found, name):
            globals()[name] = getattr(found, name)
            return globals()[name]
    raise AssertionError(f"no module has {name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
