"""Projective trees beyond the second order, one sentence at a time, from the rules of their charts.

Scores are nested lists or arrays; sums are computed in the type of their cells.
"""

from collections.abc import Sequence
from typing import Any

from gpuparse.charts import grand_sibling, grandchild, tri_sibling
from gpuparse.charts.rules import Chart
from gpuparse.errors import NoTreeError
from gpuparse.inference.scores import NO_HEAD
from gpuparse.inference.textbook.interpreter import Derivation, Scores, heads_of, k_best

Matrix = Sequence[Sequence[Any]]
Cube = Sequence[Matrix]
Tesseract = Sequence[Cube]


def eisner_grand_sibling(
    arc_scores: Matrix,
    sibling_scores: Cube | None = None,
    grandparent_scores: Cube | None = None,
    grand_sibling_scores: Tesseract | None = None,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> tuple[list[int], Any]:
    """Best projective tree under scores of arcs, siblings, grandparents, grand-siblings and ends.

    Args:
        arc_scores: (n+1, n+1), [h][m]; sibling_scores: [h][m][s], s == h for none;
        grandparent_scores: [h][m][g], g the head of h, 0 for h == 0; grand_sibling_scores:
        [h][m][s][g]; end_scores: [h][m], m the outermost modifier of h on its side. None: all 0.
        single_root: exactly one modifier of the root; otherwise one or more.

    Returns:
        heads (n+1), -1 at the root, and the sum over words 1..n of ((arc + sibling) + grandparent)
        + grand-sibling score, and then the end's. Ties: as `gpuparse.charts.grand_sibling` says.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^4).
    """
    scores = {
        "arc": _of_cells(arc_scores, arc_scores),
        "sib": _of_cells(sibling_scores, arc_scores),
        "grand": _of_cells(grandparent_scores, arc_scores),
        "grand_sib": _of_cells(grand_sibling_scores, arc_scores),
        "end": _of_cells(end_scores, arc_scores),
    }
    heads = heads_of(*_best_tree(grand_sibling.CHART, scores, arc_scores, single_root))
    total = _zero(arc_scores)
    for h, m, s, _, g, is_outermost in parts_of_tree(heads):
        part = scores["arc"](h, m) + scores["sib"](h, m, s)
        total += (part + scores["grand"](h, m, g)) + scores["grand_sib"](h, m, s, g)
        total += scores["end"](h, m) if is_outermost else 0
    return heads, total


def eisner_tri_sibling(
    arc_scores: Matrix,
    sibling_scores: Cube | None = None,
    tri_sibling_scores: Tesseract | None = None,
    outermost_scores: Tesseract | None = None,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> tuple[list[int], Any]:
    """Best projective tree under scores of arcs, up to three siblings, outermost pairs and ends.

    Args:
        arc_scores: (n+1, n+1), [h][m]; sibling_scores: [h][m][s], s == h for none;
        tri_sibling_scores: [h][m][s][t], t the inner sibling of s, h for none and where s == h;
        outermost_scores: [h][m][s][g], m the outermost modifier of h on its side, g the head of h,
        0 for h == 0; end_scores: [h][m], of the same m. None: all 0.
        single_root: exactly one modifier of the root; otherwise one or more.

    Returns:
        heads (n+1), -1 at the root, and the sum over words 1..n of (arc + sibling) + tri-sibling
        score, and then the outermost pair's and the end's. Ties: as `gpuparse.charts.tri_sibling`
        says.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^4).
    """
    scores = {
        "arc": _of_cells(arc_scores, arc_scores),
        "sib": _of_cells(sibling_scores, arc_scores),
        "tri_sib": _of_cells(tri_sibling_scores, arc_scores),
        "outermost": _of_cells(outermost_scores, arc_scores),
        "end": _of_cells(end_scores, arc_scores),
    }
    heads = heads_of(*_best_tree(tri_sibling.CHART, scores, arc_scores, single_root))
    total = _zero(arc_scores)
    for h, m, s, t, g, is_outermost in parts_of_tree(heads):
        total += (scores["arc"](h, m) + scores["sib"](h, m, s)) + scores["tri_sib"](h, m, s, t)
        if is_outermost:
            total += scores["outermost"](h, m, s, g)
            total += scores["end"](h, m)
    return heads, total


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
    arc_scores: Cube, sibling: Tesseract, inner: Tesseract, outer: Tesseract, *, single_root: bool
) -> tuple[list[int], list[int], Any]:
    """Best projective tree with labels under scores of siblings and grandchildren.

    Args:
        arc_scores: (n+1, n+1, L), [h][m][l]; column 0 and the diagonal are not read.
        sibling: (n+1, n+1, n+1, L), [h][m][c][l]: c is the modifier of h between h and m closest to
            m; c == h: there is none.
        inner, outer: likewise, the modifier of m furthest from m between h and m, and on the side
            away from h; c == m: there is none.
        single_root: exactly one modifier of the root; otherwise one or more.

    Returns:
        heads and labels (n+1), -1 at the root, and the sum over words 1..n of arc + sibling, inner
        and outer score, one by one. Ties: as `gpuparse.charts.grandchild` says.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^4 L).
    """
    cells = {"arc": arc_scores, "sib": sibling, "inner": inner, "outer": outer}
    scores = {name: _of_cells(of_part, arc_scores) for name, of_part in cells.items()}
    tree, n = _best_tree(grandchild.CHART, scores, arc_scores, single_root)
    heads, labels = heads_of(tree, n), [NO_HEAD] * (n + 1)
    for _, m, label in tree.arcs:
        labels[m] = label
    total = _zero(arc_scores[0])
    for m in range(1, n + 1):
        h, label = heads[m], labels[m]
        step, beyond = (1, n + 1) if h < m else (-1, 0)
        c_h = _last_modifier(heads, h, range(h + step, m, step))
        total += scores["arc"](h, m, label) + scores["sib"](h, m, c_h, label)
        total += scores["inner"](h, m, _last_modifier(heads, m, range(m - step, h, -step)), label)
        total += scores["outer"](
            h, m, _last_modifier(heads, m, range(m + step, beyond, step)), label
        )
    return heads, labels, total


def parts_of_tree(heads: Sequence[int]) -> list[tuple[int, int, int, int, int, bool]]:
    """(h, m, s, t, g, whether m is outermost) of every word; s, t: h for none."""

    def inner(m: int) -> int:
        h = heads[m]
        return _last_modifier(heads, h, range(h + 1, m) if h < m else range(h - 1, m, -1))

    parts = []
    for m in range(1, len(heads)):
        h, s = heads[m], inner(m)
        beyond = range(m + 1, len(heads)) if h < m else range(1, m)
        t, g = inner(s) if s != h else h, heads[h] if h > 0 else 0
        parts.append((h, m, s, t, g, all(heads[o] != h for o in beyond)))
    return parts


def _best_tree(
    chart: Chart, scores: Scores, arc_scores: Sequence[Any], single_root: bool
) -> tuple[Derivation, int]:
    """The best tree, and the number of words."""
    n = len(arc_scores) - 1
    if n == 0:
        return Derivation(0, (), ()), 0
    cell = arc_scores[0][0]
    sizes = {"L": len(cell)} if hasattr(cell, "__len__") else {}
    found = k_best(chart, scores, n, 1, single_root=single_root, sizes=sizes)
    if not found:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    return found[0], n


def _of_cells(cells: Any, arc_scores: Sequence[Any]) -> Any:
    """The cell at some positions; 0 where no scores were given."""
    if cells is None:
        return lambda *at: _zero(arc_scores)

    def cell(*at: int) -> Any:
        found = cells
        for position in at:
            found = found[position]
        return found

    return cell


def _last_modifier(heads: Sequence[int], h: int, words: range) -> int:
    """The last of these words whose head is h; h if there is none."""
    return next((m for m in reversed(words) if heads[m] == h), h)


def _zero(arc_scores: Matrix) -> Any:
    """0 in the type of the cells."""
    return type(arc_scores[0][0])(0)
