"""Scores from word vectors: float weights as learned.

The rows of a node's values are summed, and the sum makes two vectors, of the node as a head (u) and
as a modifier (v), through a hidden layer or without one. With c the combination of direction and
distance, the score of an arc is a product of both vectors with numbers of c, and products of each:

    sum_k arcs[c, k] u_k v_k + sum_k arc_heads[c, k] u_k + sum_k arc_modifiers[c, k] v_k
        + arc_constants[c]

Labels have further columns of the vectors, and numbers of the label in place of those of c.
"""

from typing import NamedTuple

import numpy as np


class VectorWeights(NamedTuple):
    """Word vectors as learned, float32: R rows, H hidden numbers a role, Q numbers a vector.

    Of Q the first P score arcs, the last PL labels. H = 0: no hidden layer, and the width W of a
    row is 2 Q instead of 2 H; its first half is of the head. C: combinations, direction * buckets
    + bucket.
    """

    table: np.ndarray  # (R, W)
    bias: np.ndarray  # (W,)
    heads: np.ndarray  # (H, Q)
    modifiers: np.ndarray  # (H, Q)
    arcs: np.ndarray  # (C, 3 P + 1): of products, of heads, of modifiers, constant
    labels: np.ndarray  # (L, 3 PL + 1)

    @property
    def n_arc(self) -> int:
        """P."""
        return (self.arcs.shape[1] - 1) // 3

    @property
    def n_label(self) -> int:
        """PL."""
        return (self.labels.shape[1] - 1) // 3
