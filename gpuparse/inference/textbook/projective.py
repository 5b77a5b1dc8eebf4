"""Projective trees of the first order and with siblings, from the rules of their charts.

`arc_scores[h][m]` and `sibling_scores[h][m][s]` may be nested lists or arrays; charts add in the
type of their cells, and scores of trees in float64, so that float32 arrays give the same bits as
the fast float32 forms.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuparse.errors import NoTreeError
from gpuparse.inference.charts import eisner as eisner_page
from gpuparse.inference.charts import eisner_sibling as sibling_page
from gpuparse.inference.charts.rules import Chart
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.textbook import interpreter
from gpuparse.inference.textbook.interpreter import Scores

Matrix = Sequence[Sequence[Any]]
Cube = Sequence[Matrix]


def eisner(arc_scores: Matrix, *, single_root: bool = False) -> tuple[list[int], Any]:
    """Best projective tree.

    Args:
        arc_scores: (n+1, n+1), score of head h -> modifier m; column 0 and diagonal are not read.
        single_root: exactly one modifier of the root; otherwise one or more.
    Returns: heads (n+1), -1 at the root, and the sum of the tree's arcs in the order of the words.
        Ties: as `gpuparse.inference.charts.eisner` says.
    Raises: NoTreeError: forbidden arcs leave no tree.
    Cost: O(n^3).
    """
    trees, scores = eisner_kbest(arc_scores, 1, single_root=single_root)
    return trees[0], scores[0]


def eisner_sibling(
    arc_scores: Matrix,
    sibling_scores: Cube,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> tuple[list[int], Any]:
    """Best projective tree under scores of arcs, of siblings and of ends.

    Args:
        arc_scores, single_root: as `eisner`.
        sibling_scores: (n+1, n+1, n+1), [h][m][s]: s is the modifier of h just inside m on the same
            side, or h if there is none; other cells are not read.
        end_scores: (n+1, n+1), [h][m]: m is the outermost modifier of h on its side; None: all 0.
    Returns: heads (n+1), -1 at the root, and `sibling_tree_score`. Ties: as
        `gpuparse.inference.charts.eisner_sibling` says.
    Raises: NoTreeError: forbidden parts leave no tree.
    Cost: O(n^3).
    """
    trees, scores = eisner_sibling_kbest(
        arc_scores, sibling_scores, 1, end_scores, single_root=single_root
    )
    return trees[0], scores[0]


def eisner_kbest(
    arc_scores: Matrix, k: int | None, *, single_root: bool = False
) -> tuple[list[list[int]], list[Any]]:
    """The k best projective trees, or all if there are fewer or k is None.

    Args:
        arc_scores, single_root: as `eisner`.
        k: most trees.
    Returns: heads (count, n+1), -1 at the root, best first; scores (count), see
        `interpreter.never_rising`.
    Raises: NoTreeError: forbidden arcs leave no tree.
    Cost: O(n^3 k log k).
    """

    def score(heads: list[int]) -> Any:
        return tree_score(arc_scores, heads)

    n = len(arc_scores) - 1
    return _trees(eisner_page.CHART, _arcs(arc_scores), n, k, single_root, score)


def eisner_sibling_kbest(
    arc_scores: Matrix,
    sibling_scores: Cube,
    k: int | None,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> tuple[list[list[int]], list[Any]]:
    """As `eisner_kbest`, under scores of arcs, siblings and ends, which are as `eisner_sibling`."""

    def score(heads: list[int]) -> Any:
        return sibling_tree_score(arc_scores, sibling_scores, heads, end_scores)

    scores = _siblings(arc_scores, sibling_scores, end_scores)
    n = len(arc_scores) - 1
    return _trees(sibling_page.CHART, scores, n, k, single_root, score)


def eisner_log_partition(arc_scores: Matrix, *, single_root: bool = False) -> float:
    """Logarithm of the sum of exp(score) over all projective trees; -inf if there is none.

    Args: as `eisner`. Scores must be small: nothing is shifted or scaled here.
    Cost: O(n^3).
    """
    n = len(arc_scores) - 1
    if n == 0:
        return 0.0
    scores = _arcs(arc_scores)
    return interpreter.log_partition(eisner_page.CHART, scores, n, single_root=single_root)


def eisner_sibling_log_partition(
    arc_scores: Matrix,
    sibling_scores: Cube,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> float:
    """As `eisner_log_partition`, under scores of arcs, siblings and ends."""
    n = len(arc_scores) - 1
    if n == 0:
        return 0.0
    scores = _siblings(arc_scores, sibling_scores, end_scores)
    return interpreter.log_partition(sibling_page.CHART, scores, n, single_root=single_root)


def tree_score(arc_scores: Matrix, heads: Sequence[int]) -> Any:
    """Sum of the tree's arcs in the order of the words."""
    total = zero_of_sums(arc_scores[0][0])
    for m in range(1, len(heads)):
        total += arc_scores[heads[m]][m]
    return total


def sibling_tree_score(
    arc_scores: Matrix, sibling_scores: Cube, heads: Sequence[int], end_scores: Matrix | None = None
) -> Any:
    """Sum over words 1, 2, ..., n of arc, sibling and end score, one by one from the left."""
    total, n = zero_of_sums(arc_scores[0][0]), len(heads) - 1
    for m in range(1, n + 1):
        h = heads[m]
        inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
        beyond = range(m + 1, n + 1) if h < m else range(m - 1, 0, -1)
        s = next((s for s in inside if heads[s] == h), h)
        total += arc_scores[h][m]
        total += sibling_scores[h][m][s]
        if end_scores is not None and all(heads[o] != h for o in beyond):
            total += end_scores[h][m]
    return total


def _trees(
    chart: Chart,
    scores: Scores,
    n: int,
    k: int | None,
    single_root: bool,
    score: Callable[[list[int]], Any],
) -> tuple[list[list[int]], list[Any]]:
    if n == 0:
        return [[NO_HEAD]], [score([NO_HEAD])]
    found = interpreter.k_best(chart, scores, n, k, single_root=single_root)
    if not found:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    trees = [interpreter.heads_of(tree, n) for tree in found]
    return trees, interpreter.never_rising([score(heads) for heads in trees])


def _arcs(arc_scores: Matrix) -> Scores:
    return {"arc": lambda h, m: arc_scores[h][m]}


def _siblings(arc_scores: Matrix, sibling_scores: Cube, end_scores: Matrix | None) -> Scores:
    zero = _zero(arc_scores)
    return {
        "arc": lambda h, m: arc_scores[h][m],
        "sib": lambda h, m, s: sibling_scores[h][m][s],
        "end": lambda h, m: zero if end_scores is None else end_scores[h][m],
    }


def zero_of_sums(cell: Any) -> Any:
    """0 in the type in which the parts of a tree are added: float64 for a float of NumPy."""
    return np.float64(0) if isinstance(cell, np.floating) else type(cell)(0)


def _zero(arc_scores: Matrix) -> Any:
    """0 in the type of the cells."""
    return type(arc_scores[0][0])(0)
