"""Random scores of higher-order parts for searches in which arcs may cross, and these searches."""

from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuparse.inference import dual_decomposition, dual_decomposition_labelled
from tests.inference.decoders import Parts
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import AXES, values_of_trees

MODELS = {
    "arcs": (),
    "siblings": ("sibling", "end"),
    "grandparents": ("grandparent",),
    "both": ("sibling", "grandparent"),
    "all": ("sibling", "grandparent", "grand_sibling", "end"),
}


def draw_parts(
    rng: np.random.Generator, n_batch: int, n: int, model: str, *, forbidden: float, spread: int = 4
) -> Parts:
    """Whole scores of arcs and of the parts of a model, float32."""
    parts = {}
    for field in ("arc", *MODELS[model]):
        shape = (n_batch, *[n + 1] * AXES[field])
        parts[field] = rng.integers(-spread, spread + 1, shape).astype(np.float32)
        parts[field][rng.random(shape) < forbidden / (1 if field == "arc" else 2)] = -np.inf
    return parts


def at(parts: Parts, where: Any) -> Parts:
    """The parts of some sentences."""
    return {field: part[where] for field, part in parts.items()}


def values_of(parts: Parts, single_root: bool) -> np.ndarray:
    """Scores (B, T) of all trees, as in `all_trees`."""
    return values_of_trees(parts, projective=False, single_root=single_root)


def decompose(
    parts: Parts, lengths: list[int], labels: np.ndarray | None = None, **options: Any
) -> tuple[Tensor, ...]:
    """`dual_decomposition`, or `dual_decomposition_labelled` with scores of labels."""
    arcs, *others = (torch.from_numpy(part) for part in parts.values())
    options |= dict(zip([f"{field}_scores" for field in parts][1:], others, strict=True))
    if labels is None:
        return dual_decomposition(arcs, torch.tensor(lengths), **options)
    of_labels = torch.from_numpy(labels)
    return dual_decomposition_labelled(arcs, of_labels, torch.tensor(lengths), **options)


def best_labelled_value(
    parts: Parts, label_scores: np.ndarray, limits: list[set[int]], single_root: bool
) -> float:
    """The highest score of one sentence (1, ...) under limits, every labelling being tried."""
    n, best = parts["arc"].shape[1] - 1, -np.inf
    values = values_of(parts, single_root)[0]
    for tree, value in zip(all_trees(n, False, single_root), values, strict=True):
        for labels in product(range(label_scores.shape[3]), repeat=n):
            if keeps_limits(tree, labels, limits):
                scores = label_scores[0, tree[1:], np.arange(1, n + 1), labels]
                best = max(best, value + float(scores.sum()))
    return best


def keeps_limits(tree: np.ndarray, labels: tuple[int, ...], limits: list[set[int]]) -> bool:
    """True if no head has two modifiers with labels of one of the sets; labels: of the words."""
    for limit in limits:
        heads = [h for h, label in zip(tree[1:], labels, strict=True) if label in limit]
        if len(set(heads)) < len(heads):
            return False
    return True
