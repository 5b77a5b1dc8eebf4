"""Properties of a tree given by its heads.

Everywhere here heads[i] is the head of word i + 1: 0 for the artificial root, 1..n for a word.
"""

from collections.abc import Sequence

import numpy as np

from gpuparse.data import plain


def is_tree(heads: Sequence[int] | np.ndarray) -> bool:
    """Whether every word has a head in 0..n and every chain of heads ends in 0.

    Args: heads (n,). Returns: True for n = 0 too. Cost: linear.
    """
    return bool(plain.call("check_tree", _as_heads(heads)))


def is_projective(heads: Sequence[int] | np.ndarray) -> bool:
    """Whether the tree has no non-projective arc; see nonprojective_arcs."""
    return not nonprojective_arcs(heads).any()


def nonprojective_arcs(
    heads: Sequence[int] | np.ndarray, word_starts: np.ndarray | None = None
) -> np.ndarray:
    """The words with a non-projective arc from their head.

    An arc from h to m is non-projective if some word between them is not below h. Arcs from 0 never
    are.

    Args:
        heads: (n,); negative for a word without a head.
        word_starts: (S + 1,) if heads has several sentences one after the other, as in Treebank.
    Returns: bool (n,).
    Raises: ValueError where the heads of a sentence are not a tree.
    Cost: the sum of the lengths of the arcs, at most.
    """
    trees = _as_heads(heads)
    starts = np.array([0, len(trees)]) if word_starts is None else word_starts
    marks = np.zeros(len(trees), np.bool_)
    wrong = plain.call("mark_nonprojective", trees, np.ascontiguousarray(starts, np.int64), marks)
    if wrong >= 0:
        raise ValueError(f"the heads of sentence {wrong} are not a tree")
    return marks


def nesting_order(heads: Sequence[int] | np.ndarray) -> np.ndarray:
    """The projective order of the words of a tree.

    The left modifiers of a word and their descendants come before it, the right modifiers and
    their descendants after it; modifiers on one side of their head keep their order.

    Args:
        heads: (n,) heads of a tree.
    Returns: (n,) int64, the numbers 1..n of the words in their new order; 1, 2, ..., n just for
        projective trees.
    Cost: linear.
    Source: McDonald, Crammer & Pereira (2005), section 3: "rearrange the words in the training set
        so that all trees are nested"; which of the possible orders they took is not said.
    """
    n = len(heads)
    left: list[list[int]] = [[] for _ in range(n + 1)]
    right: list[list[int]] = [[] for _ in range(n + 1)]
    for m, h in enumerate(_as_heads(heads).tolist(), 1):
        (left if m < h else right)[h].append(m)
    order, waiting = [], [(0, False)]
    while waiting:
        node, is_next = waiting.pop()
        if is_next:
            order.append(node)
            continue
        waiting += [(m, False) for m in reversed(right[node])]
        waiting.append((node, True))
        waiting += [(m, False) for m in reversed(left[node])]
    return np.array(order[1:], np.int64)


def reordered(heads: Sequence[int] | np.ndarray, order: np.ndarray) -> np.ndarray:
    """The same tree over words in another order.

    Args:
        heads: (n,). order: (n,) the numbers of the words, 1..n, in their new order.
    Returns: (n,) int64 heads in the new order and numbering. A negative head stays.
    Cost: linear.
    """
    tree = np.asarray(heads, np.int64)
    place = np.zeros(len(tree) + 1, np.int64)
    place[order] = np.arange(1, len(tree) + 1)
    moved = tree[order - 1]
    return np.where(moved < 0, moved, place[moved])


def n_roots(heads: Sequence[int] | np.ndarray) -> int:
    """Number of words attached to the root."""
    return int(np.count_nonzero(_as_heads(heads) == 0))


def _as_heads(heads: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(heads, np.int32)
