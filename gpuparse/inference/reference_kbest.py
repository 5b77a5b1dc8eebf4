"""The k best projective trees as textbook loops: every item keeps its k best derivations.

As `reference.py`; nothing is lazy here, so that nothing can be overlooked.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpuparse.errors import NoTreeError
from gpuparse.inference.reference import FORBIDDEN, Cube, Matrix, sibling_tree_score
from gpuparse.tensors import NO_HEAD


class Derivation(NamedTuple):
    """One way to derive an item: its value, what it was made of, and the arcs (h, m) in it.

    place: the split and the ranks of the parts in their items' lists. Of equal values the smallest
    place comes first.
    """

    value: Any
    place: tuple[int, int, int]
    parts: tuple[Any, ...]

    def arcs(self) -> list[tuple[int, int]]:
        """All arcs below: a part is an arc or another derivation."""
        found: list[tuple[int, int]] = []
        for part in self.parts:
            found += part.arcs() if isinstance(part, Derivation) else [part]
        return found


Items = list[list[list[Derivation]]]
"""The lists of all items of one kind, [i][j], best first."""


def eisner_kbest(
    arc_scores: Matrix, k: int, *, single_root: bool = False
) -> tuple[list[list[int]], list[Any]]:
    """The k best projective trees, or all if there are fewer.

    Args:
        arc_scores, single_root: as of `reference.eisner`.
        k: most trees.

    Returns:
        heads (count, n+1), -1 at the root, best first; scores (count). Order: in every item by
        value, then by split, by the rank of the left part and by that of the right part; the first
        tree is that of `reference.eisner`. Scores: see `never_rising`.

    Raises:
        NoTreeError: forbidden arcs leave no tree.

    Cost: O(n^3 k log k).
    Source: Huang & Chiang 2005, algorithm 0; McDonald, Crammer & Pereira 2005,
    section 2.3.1.
    """
    n, first = len(arc_scores) - 1, 1 if single_root else 0
    if n == 0:
        return [[NO_HEAD]], [_zero(arc_scores)]
    C_R, C_L, S = _complete(arc_scores, n), _complete(arc_scores, n), _nothing(n)
    for w in range(1, n + 1 - first):
        for i in range(first, n + 1 - w):
            j = i + w
            # I_R(i,j) = S(i,j) + arc(i,j), I_L(i,j) = S(i,j) + arc(j,i)
            S[i][j] = best_of(
                k,
                (
                    (r, left.value + right.value, a, b, (left, right))
                    for r in range(i, j)
                    for a, left, b, right in pairs(k, C_R[i][r], C_L[r + 1][j])
                ),
            )
            C_R[i][j] = best_of(
                k,
                (
                    (r, (s.value + arc_scores[i][r]) + right.value, a, b, (s, right, (i, r)))
                    for r in range(i + 1, j + 1)
                    for a, s, b, right in pairs(k, S[i][r], C_R[r][j])
                ),
            )
            C_L[i][j] = best_of(
                k,
                (
                    (r, left.value + (s.value + arc_scores[j][r]), a, b, (left, s, (j, r)))
                    for r in range(max(i, 1), j)
                    for a, left, b, s in pairs(k, C_L[i][r], S[r][j])
                ),
            )
    best = C_R[0][n]
    if single_root:
        best = best_of(
            k,
            (
                (m, left.value + right.value + arc_scores[0][m], a, b, (left, right, (0, m)))
                for m in range(1, n + 1)
                for a, left, b, right in pairs(k, C_L[1][m], C_R[m][n])
            ),
        )
    if not best:
        raise NoTreeError("no projective tree: too many arcs are forbidden")
    trees = [_heads(derivation, n) for derivation in best]
    return trees, never_rising([_tree_score(arc_scores, heads) for heads in trees])


def never_rising(scores: list[Any]) -> list[Any]:
    """Each score, or the one before it if that is smaller.

    Trees are in the order of the charts' sums. Sums in the order of the words can differ from those
    in the last bits, and only there can one be larger than the one before.
    """
    return [min(scores[: t + 1]) for t in range(len(scores))]


Candidate = tuple[int, Any, int, int, tuple[Any, ...]]
"""Split, value, ranks of the left and of the right part, parts."""


def best_of(k: int, candidates: Iterable[Candidate]) -> list[Derivation]:
    """The k best derivations, without forbidden ones."""
    made = [
        Derivation(value, (r, a, b), parts)
        for r, value, a, b, parts in candidates
        if value > FORBIDDEN
    ]
    return sorted(made, key=lambda derivation: (-derivation.value, derivation.place))[:k]


def pairs(
    k: int, lefts: Sequence[Derivation], rights: Sequence[Derivation]
) -> list[tuple[int, Derivation, int, Derivation]]:
    """(a, left, b, right) of all pairs that fewer than k pairs of the same lists are ahead of."""
    return [
        (a, left, b, right)
        for a, left in enumerate(lefts)
        for b, right in enumerate(rights[: k // (a + 1)])
    ]


def _nothing(n: int) -> Items:
    return [[[] for _ in range(n + 1)] for _ in range(n + 1)]


def _complete(arc_scores: Matrix, n: int) -> Items:
    """C_R or C_L, in which C(i,i) has one derivation, of value 0."""
    items = _nothing(n)
    for i in range(n + 1):
        items[i][i] = [Derivation(_zero(arc_scores), (i, 0, 0), ())]
    return items


def _zero(arc_scores: Matrix) -> Any:
    """0 in the type of the cells."""
    return type(arc_scores[0][0])(0)


def _tree_score(arc_scores: Matrix, heads: list[int]) -> Any:
    total = _zero(arc_scores)
    for m in range(1, len(heads)):
        total += arc_scores[heads[m]][m]
    return total


def _heads(derivation: Derivation, n: int) -> list[int]:
    head_of = {m: h for h, m in derivation.arcs()}
    return [NO_HEAD] + [head_of[m] for m in range(1, n + 1)]


def eisner_sibling_kbest(
    arc_scores: Matrix,
    sibling_scores: Cube,
    k: int,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> tuple[list[list[int]], list[Any]]:
    """The k best projective trees under scores of arcs, siblings and ends, or all if fewer.

    Args:
        arc_scores, sibling_scores, end_scores, single_root: as of `reference.eisner_sibling`.
        k: most trees.

    Returns:
        as `eisner_kbest`; the split of an arc is its inner sibling, which none comes before. The
        first tree is that of `reference.eisner_sibling`.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^3 k log k).
    Source: Huang & Chiang 2005, algorithm 0; McDonald & Pereira 2006, section 2.2.
    """
    n, first = len(arc_scores) - 1, 1 if single_root else 0
    if n == 0:
        return [[NO_HEAD]], [_zero(arc_scores)]
    end = [[_zero(arc_scores)] * (n + 1)] * (n + 1) if end_scores is None else end_scores
    C_R, C_L = _complete(arc_scores, n), _complete(arc_scores, n)
    S, I_R, I_L = _nothing(n), _nothing(n), _nothing(n)
    for w in range(1, n + 1 - first):
        for i in range(first, n + 1 - w):
            j = i + w
            S[i][j] = best_of(
                k,
                (
                    (r, left.value + right.value, a, b, (left, right))
                    for r in range(i, j)
                    for a, left, b, right in pairs(k, C_R[i][r], C_L[r + 1][j])
                ),
            )
            I_R[i][j] = _to_right(arc_scores, sibling_scores, k, i, j, C_L, I_R, S)
            if i > 0:
                I_L[i][j] = _to_left(arc_scores, sibling_scores, k, i, j, C_R, I_L, S)
            C_R[i][j] = best_of(
                k,
                (
                    (r, (arc.value + end[i][r]) + right.value, a, b, (arc, right))
                    for r in range(i + 1, j + 1)
                    for a, arc, b, right in pairs(k, I_R[i][r], C_R[r][j])
                ),
            )
            C_L[i][j] = best_of(
                k,
                (
                    (r, left.value + (arc.value + end[j][r]), a, b, (left, arc))
                    for r in range(max(i, 1), j)
                    for a, left, b, arc in pairs(k, C_L[i][r], I_L[r][j])
                ),
            )
    best = C_R[0][n]
    if single_root:
        of_root = [sibling_scores[0][m][0] + end[0][m] if m > 0 else 0 for m in range(n + 1)]
        best = best_of(
            k,
            (
                (m, left.value + right.value + of_root[m] + arc_scores[0][m], a, b,
                 (left, right, (0, m)))
                for m in range(1, n + 1)
                for a, left, b, right in pairs(k, C_L[1][m], C_R[m][n])
            ),
        )  # fmt: skip
    if not best:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    trees = [_heads(derivation, n) for derivation in best]
    scores = [sibling_tree_score(arc_scores, sibling_scores, heads, end) for heads in trees]
    return trees, never_rising(scores)


def _to_right(
    arc: Matrix, sib: Cube, k: int, i: int, j: int, C_L: Items, I_R: Items, S: Items
) -> list[Derivation]:
    """I_R(i,j): C_L(i+1,j), or I_R(i,s) and S(s,j); then the arc."""
    none: list[Candidate] = [
        (i, inside.value + sib[i][j][i], 0, b, (inside, (i, j)))
        for b, inside in enumerate(C_L[i + 1][j])
    ]
    inner: list[Candidate] = [
        (s, left.value + (right.value + sib[i][j][s]), a, b, (left, right, (i, j)))
        for s in range(i + 1, j)
        for a, left, b, right in pairs(k, I_R[i][s], S[s][j])
    ]
    return _with_arc(best_of(k, none + inner), arc[i][j])


def _to_left(
    arc: Matrix, sib: Cube, k: int, i: int, j: int, C_R: Items, I_L: Items, S: Items
) -> list[Derivation]:
    """I_L(i,j): C_R(i,j-1), or S(i,s) and I_L(s,j); then the arc."""
    none: list[Candidate] = [
        (i, inside.value + sib[j][i][j], 0, b, (inside, (j, i)))
        for b, inside in enumerate(C_R[i][j - 1])
    ]
    inner: list[Candidate] = [
        (s, (left.value + sib[j][i][s]) + right.value, a, b, (left, right, (j, i)))
        for s in range(i + 1, j)
        for a, left, b, right in pairs(k, S[i][s], I_L[s][j])
    ]
    return _with_arc(best_of(k, none + inner), arc[j][i])


def _with_arc(derivations: list[Derivation], score: Any) -> list[Derivation]:
    return [
        derivation._replace(value=derivation.value + score)
        for derivation in derivations
        if score > FORBIDDEN
    ]
