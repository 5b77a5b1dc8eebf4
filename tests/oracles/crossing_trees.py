"""Values of all trees under higher-order parts, crossing arcs allowed, many sentences at once."""

from functools import cache
from itertools import product

import numpy as np

from tests.oracles.brute_force import all_trees, sibling_tree_values
from tests.oracles.brute_force import parts_of as sibling_parts_of


@cache
def _all_parts(n: int, single_root: bool) -> np.ndarray:
    """(n, 4, T): h, m, s, g of every word and tree."""
    parts = [
        [(h, m, s, tree[h] if h > 0 else 0) for h, m, s in sibling_parts_of(tree)]
        for tree in all_trees(n, False, single_root)
    ]
    return np.array(parts).reshape(len(parts), n, 4).transpose(1, 2, 0)


def crossing_tree_values(
    arcs: np.ndarray, higher: dict[str, np.ndarray], single_root: bool
) -> np.ndarray:
    """Scores (B, T) of all trees, as in `all_trees`; higher: by the keywords above."""
    siblings = higher.get("sibling_scores", np.zeros((*arcs.shape, arcs.shape[1])))
    total = sibling_tree_values(
        arcs, siblings, higher.get("end_scores"), projective=False, single_root=single_root
    ).astype(np.float64)
    for h, m, s, g in _all_parts(arcs.shape[1] - 1, single_root):
        if "grandparent_scores" in higher:
            total += higher["grandparent_scores"][:, h, m, g]
        if "grand_sibling_scores" in higher:
            total += higher["grand_sibling_scores"][:, h, m, s, g]
    return total


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
