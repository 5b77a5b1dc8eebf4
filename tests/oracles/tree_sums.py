"""Sums over trees by looking at every tree, many matrices at once."""

from dataclasses import dataclass

import numpy as np

from tests.oracles.tree_parts import parts_of


@dataclass(frozen=True)
class TreeSums:
    """Sums over a batch's trees: log_partition (B,), probabilities (B, T), entropy (B,)."""

    log_partition: np.ndarray
    probabilities: np.ndarray
    entropy: np.ndarray


def sums_of_values(values: np.ndarray) -> TreeSums:
    """Sums over trees with the scores (B, T), of which at least one a row is finite."""
    top = values.max(axis=1, keepdims=True)
    log_partition = top[:, 0] + np.log(np.exp(values - top).sum(axis=1))
    probabilities = np.exp(values - log_partition[:, None])
    logs = np.where(probabilities > 0, values - log_partition[:, None], 0.0)
    return TreeSums(log_partition, probabilities, -(probabilities * logs).sum(axis=1))


def arc_marginals(probabilities: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """(B, n+1, n+1) from probabilities (B, T) of the heads vectors (T, n+1)."""
    n_nodes = trees.shape[1]
    has_arc = np.zeros((len(trees), n_nodes, n_nodes))
    for m in range(1, n_nodes):
        has_arc[np.arange(len(trees)), trees[:, m], m] = 1
    return np.einsum("bt,thm->bhm", probabilities, has_arc)


def sibling_marginals(probabilities: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """(B, n+1, n+1, n+1), [b, h, m, s] as sibling scores."""
    n_nodes = trees.shape[1]
    has_part = np.zeros((len(trees), n_nodes, n_nodes, n_nodes))
    for t, tree in enumerate(trees):
        for part in parts_of("sibling", tree):
            has_part[(t, *part)] = 1
    return np.einsum("bt,thms->bhms", probabilities, has_part)
