"""Sums over projective trees as textbook loops over plain numbers: for readers, and for tests.

Nothing is shifted or scaled here: scores must be small. Nothing here is fast.
"""

from collections.abc import Sequence
from math import exp, log

Matrix = Sequence[Sequence[float]]
Cube = Sequence[Matrix]
FORBIDDEN = float("-inf")


def eisner_log_partition(arc_scores: Matrix, *, single_root: bool = False) -> float:
    """Logarithm of the sum of exp(score) over all projective trees; -inf if there is none.

    Args:
        arc_scores: (n+1, n+1), score of head h -> modifier m; column 0 and diagonal are not read.
        single_root: exactly one modifier of the root; otherwise one or more.

    Cost: O(n^3).
    Source: `reference.eisner`, whose derivations and trees are one to one, with sums for maxima.
    """
    n = len(arc_scores) - 1
    first = 1 if single_root else 0
    I_R, I_L, C_R, C_L = ([[1.0] * (n + 1) for _ in range(n + 1)] for _ in range(4))
    for w in range(1, n + 1 - first):
        for i in range(first, n + 1 - w):
            j = i + w
            total = sum(C_R[i][r] * C_L[r + 1][j] for r in range(i, j))
            I_R[i][j] = total * exp(arc_scores[i][j])
            I_L[i][j] = total * exp(arc_scores[j][i]) if i > 0 else 0.0
            C_R[i][j] = sum(I_R[i][r] * C_R[r][j] for r in range(i + 1, j + 1))
            C_L[i][j] = sum(C_L[i][r] * I_L[r][j] for r in range(i, j))
    if n == 0:
        return 0.0
    total = C_R[0][n]
    if single_root:
        total = sum(C_L[1][m] * C_R[m][n] * exp(arc_scores[0][m]) for m in range(1, n + 1))
    return log(total) if total > 0 else FORBIDDEN


def eisner_sibling_log_partition(
    arc_scores: Matrix,
    sibling_scores: Cube,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> float:
    """As `eisner_log_partition`, under scores of arcs, of siblings and of ends.

    Args:
        as `reference.eisner_sibling`.

    Cost: O(n^3).
    Source: `reference.eisner_sibling` with sums for maxima.
    """
    n = len(arc_scores) - 1
    first = 1 if single_root else 0
    arc, sib, end = arc_scores, sibling_scores, end_scores
    if end is None:
        end = [[0.0] * (n + 1) for _ in range(n + 1)]
    I_R, I_L, C_R, C_L, S = ([[1.0] * (n + 1) for _ in range(n + 1)] for _ in range(5))
    for w in range(1, n + 1 - first):
        for i in range(first, n + 1 - w):
            j = i + w
            S[i][j] = sum(C_R[i][r] * C_L[r + 1][j] for r in range(i, j))
            total = C_L[i + 1][j] * exp(sib[i][j][i])
            for k in range(i + 1, j):
                total += I_R[i][k] * S[k][j] * exp(sib[i][j][k])
            I_R[i][j] = total * exp(arc[i][j])
            I_L[i][j] = 0.0
            if i > 0:
                total = C_R[i][j - 1] * exp(sib[j][i][j])
                for k in range(i + 1, j):
                    total += S[i][k] * I_L[k][j] * exp(sib[j][i][k])
                I_L[i][j] = total * exp(arc[j][i])
            C_R[i][j] = sum(I_R[i][r] * exp(end[i][r]) * C_R[r][j] for r in range(i + 1, j + 1))
            C_L[i][j] = sum(C_L[i][r] * I_L[r][j] * exp(end[j][r]) for r in range(max(i, 1), j))
    if n == 0:
        return 0.0
    total = C_R[0][n]
    if single_root:
        total = sum(
            C_L[1][m] * C_R[m][n] * exp(sib[0][m][0] + end[0][m] + arc[0][m])
            for m in range(1, n + 1)
        )
    return log(total) if total > 0 else FORBIDDEN
