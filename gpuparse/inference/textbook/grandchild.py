"""Siblings and grandchildren as textbook loops, one sentence at a time: for readers and tests."""

from collections.abc import Sequence
from typing import Any

from gpuparse.errors import NoTreeError
from gpuparse.inference.reference import FORBIDDEN, Cube, Matrix, _first_best
from gpuparse.tensors import NO_HEAD

Labelled = Sequence[Cube]


def eisner_grandchild(
    arc_scores: Matrix, sibling: Cube, inner: Cube, outer: Cube, *, single_root: bool = False
) -> tuple[list[int], Any]:
    """`eisner_grandchild_labelled` with one label for every arc; the scores lack the last axis.

    Returns:
        heads (n+1), -1 at the root, and the score of the tree.
    """
    arcs = [[[score] for score in row] for row in arc_scores]
    parts = (
        [[[[score] for score in of_arc] for of_arc in row] for row in part]
        for part in (sibling, inner, outer)
    )
    heads, _, score = eisner_grandchild_labelled(arcs, *parts, single_root=single_root)
    return heads, score


def eisner_grandchild_labelled(
    arc_scores: Cube, sibling: Labelled, inner: Labelled, outer: Labelled, *, single_root: bool
) -> tuple[list[int], list[int], Any]:
    """Best projective tree with labels, by the algorithm of Carreras.

    Args:
        arc_scores: (n+1, n+1, L), [h][m][l]; column 0 and the diagonal are not read.
        sibling: (n+1, n+1, n+1, L), [h][m][c][l]: c is the modifier of h between h and m closest to
            m; c == h: there is none.
        inner, outer: likewise, the modifier of m furthest from m between h and m, and on the side
            away from h; c == m: there is none.
        single_root: exactly one modifier of the root; otherwise one or more.

    Returns:
        heads and labels (n+1), -1 at the root, and `grandchild_tree_score`. Of equally good choices
        the first wins: of modifiers none, then the one nearest to its head; the smallest label; the
        smallest r. They are made in this order for an arc: outer grandchild, label, r, sibling and
        inner grandchild.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^4 L).
    Source: Carreras 2007, section 2.1.
    """
    n, n_labels = len(arc_scores) - 1, len(arc_scores[0][0])
    zero = type(arc_scores[0][0][0])(0)
    opened: dict[tuple[int, int, int], Any] = {}  # Open(h,m,l), and r, c_h, c_mi
    closed: dict[tuple[int, int, int], Any] = {}  # Closed(h,e,m), and l, c_mo

    def half(h: int, e: int) -> list[tuple[Any, int]]:
        """All ways to fill the span h..e under h: (value, last modifier, or h for none)."""
        if h == e:
            return [(zero, h)]
        step = 1 if h < e else -1
        return [(closed[h, e, m][0], m) for m in range(h + step, e + step, step)]

    def best_split(h: int, m: int, label: int) -> tuple[Any, int, int, int]:
        options = []
        for r in range(min(h, m), max(h, m)):
            of_h, of_m = (r, r + 1) if h < m else (r + 1, r)
            siblings = half(h, of_h)
            if single_root and h == 0 and r > 0:
                siblings = [(FORBIDDEN, c) for _, c in siblings]
            left, c_h = _first_best(
                [
                    (value + (arc_scores[h][m][label] + sibling[h][m][c][label]), c)
                    for value, c in siblings
                ]
            )
            right, c_mi = _first_best(
                [(value + inner[h][m][c][label], c) for value, c in half(m, of_m)]
            )
            options.append((left + right, (r, c_h, c_mi)))
        best, choice = options[0]
        for value, chosen in options:
            if value > best:
                best, choice = value, chosen
        return best, *choice

    def best_end(h: int, e: int, m: int) -> tuple[Any, int, int]:
        options = []
        for value, c in half(m, e):
            of_labels = [(opened[h, m, k][0] + outer[h][m][c][k], k) for k in range(n_labels)]
            best, label = _first_best(of_labels)
            options.append((best + value, (label, c)))
        best, choice = options[0]
        for value, chosen in options:
            if value > best:
                best, choice = value, chosen
        return best, *choice

    for w in range(1, n + 1):
        for i in range(n + 1 - w):
            j = i + w
            for h, m in ((i, j), (j, i)) if i > 0 else ((i, j),):
                for label in range(n_labels):
                    opened[h, m, label] = best_split(h, m, label)
                step = 1 if h < m else -1
                for last in range(h + step, m + step, step):
                    closed[h, m, last] = best_end(h, m, last)
    heads, labels = [NO_HEAD] * (n + 1), [NO_HEAD] * (n + 1)
    if n == 0:
        return heads, labels, zero
    best, last = _first_best(half(0, n))
    if best == FORBIDDEN:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    agenda = [(0, n, last)]
    while agenda:
        h, e, m = agenda.pop()
        if h == m:
            continue
        _, label, c_mo = closed[h, e, m]
        _, r, c_h, c_mi = opened[h, m, label]
        heads[m], labels[m] = h, label
        of_h, of_m = (r, r + 1) if h < m else (r + 1, r)
        agenda += [(m, e, c_mo), (h, of_h, c_h), (m, of_m, c_mi)]
    scores = arc_scores, sibling, inner, outer
    return heads, labels, grandchild_tree_score(*scores, heads, labels)


def grandchild_tree_score(
    arc_scores: Cube,
    sibling: Labelled,
    inner: Labelled,
    outer: Labelled,
    heads: Sequence[int],
    labels: Sequence[int],
) -> Any:
    """Sum over words 1, 2, ..., n of arc + sibling, inner and outer score, one by one."""
    total = type(arc_scores[0][0][0])(0)
    for m in range(1, len(heads)):
        h, label = heads[m], labels[m]
        step = 1 if h < m else -1
        beyond = len(heads) if h < m else 0
        c_h = _last_modifier(heads, h, range(h + step, m, step))
        c_mi = _last_modifier(heads, m, range(m - step, h, -step))
        c_mo = _last_modifier(heads, m, range(m + step, beyond, step))
        total += arc_scores[h][m][label] + sibling[h][m][c_h][label]
        total += inner[h][m][c_mi][label]
        total += outer[h][m][c_mo][label]
    return total


def _last_modifier(heads: Sequence[int], h: int, words: range) -> int:
    """The last of these words whose head is h; h if there is none."""
    return next((m for m in reversed(words) if heads[m] == h), h)
