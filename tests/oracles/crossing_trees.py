"""Trees with crossing arcs under higher-order parts, and their labels under limits."""

from itertools import product

import numpy as np

from tests.oracles.brute_force import all_trees
from tests.oracles.higher_order_values import part_values


def crossing_tree_values(
    arcs: np.ndarray, higher: dict[str, np.ndarray], single_root: bool
) -> np.ndarray:
    """Scores (B, T) of all trees, as in `all_trees`; higher: by the keywords of decoders."""
    return part_values({"arc_scores": arcs, **higher}, projective=False, single_root=single_root)


def best_labelled_value(
    arcs: np.ndarray,
    higher: dict[str, np.ndarray],
    label_scores: np.ndarray,
    limits: list[set[int]],
    single_root: bool,
) -> float:
    """The highest score of one sentence (1, ...) under limits, every labelling being tried."""
    n, n_labels = arcs.shape[1] - 1, label_scores.shape[3]
    values = crossing_tree_values(arcs, higher, single_root)[0]
    best = -np.inf
    for tree, value in zip(all_trees(n, False, single_root), values, strict=True):
        for labels in product(range(n_labels), repeat=n):
            if keeps_limits(tree, labels, limits):
                of_labels = sum(
                    float(label_scores[0, tree[m], m, labels[m - 1]]) for m in range(1, n + 1)
                )
                best = max(best, value + of_labels)
    return best


def keeps_limits(tree: np.ndarray, labels: tuple[int, ...], limits: list[set[int]]) -> bool:
    """True if no head has two modifiers with labels of one of the sets; labels: of the words."""
    for limit in limits:
        heads = [h for h, label in zip(tree[1:], labels, strict=True) if label in limit]
        if len(set(heads)) < len(heads):
            return False
    return True
