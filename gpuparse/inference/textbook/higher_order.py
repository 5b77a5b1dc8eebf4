"""Projective trees beyond the second order, one sentence at a time, from the rules of their charts.

Scores are nested lists or arrays; charts add in the type of their cells, and scores of trees in
float64.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuparse.data.parts import axes_of
from gpuparse.errors import NoTreeError
from gpuparse.inference.charts import grand_sibling, grandchild, tri_sibling
from gpuparse.inference.charts.rules import Chart
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.textbook.interpreter import heads_of, k_best
from gpuparse.inference.textbook.projective import zero_of_sums

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
        + grand-sibling score, and then the end's. Ties: as `inference.charts.grand_sibling` says.
    Raises: NoTreeError: forbidden parts leave no tree.
    Cost: O(n^4).
    """
    cells = {
        "arc": arc_scores, "sibling": sibling_scores, "grandparent": grandparent_scores,
        "grand_sibling": grand_sibling_scores, "end": end_scores,
    }  # fmt: skip
    heads, _, total = _best_tree(grand_sibling.CHART, cells, single_root)
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
    Returns: heads (n+1), -1 at the root, and the sum over words 1..n of (arc + sibling) +
        tri-sibling score, and then the outermost pair's and the end's. Ties: as
        `inference.charts.tri_sibling` says.
    Raises: NoTreeError: forbidden parts leave no tree.
    Cost: O(n^4).
    """
    cells = {
        "arc": arc_scores, "sibling": sibling_scores, "tri_sibling": tri_sibling_scores,
        "outermost": outermost_scores, "end": end_scores,
    }  # fmt: skip
    heads, _, total = _best_tree(tri_sibling.CHART, cells, single_root)
    return heads, total


def eisner_grandchild(
    arc_scores: Matrix, sibling: Cube, inner: Cube, outer: Cube, *, single_root: bool = False
) -> tuple[list[int], Any]:
    """`eisner_grandchild_labelled` with one label for every arc; the scores lack the last axis.

    Returns: heads (n+1), -1 at the root, and the score of the tree.
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
    Returns: heads and labels (n+1), -1 at the root, and the sum over words 1..n of arc + sibling,
        inner and outer score, one by one. Ties: as `inference.charts.grandchild` says.
    Raises: NoTreeError: forbidden parts leave no tree.
    Cost: O(n^4 L).
    """
    cells = {
        "arc": arc_scores, "sibling": sibling, "inner_grandchild": inner, "outer_grandchild": outer,
    }  # fmt: skip
    return _best_tree(grandchild.CHART, cells, single_root)


def _best_tree(
    chart: Chart, cells: Mapping[str, Any], single_root: bool
) -> tuple[list[int], list[int], Any]:
    """heads, labels and score of the best tree; cells: by the names of scores, None for zeros."""
    arcs = cells["arc"]
    n, cell = len(arcs) - 1, arcs[0][0]
    has_labels = hasattr(cell, "__len__")
    cell_type = type(cell[0] if has_labels else cell)
    zero, zero_sum = cell_type(0), zero_of_sums(cell_type(0))
    scores = {name: _of_cells(of_part, zero) for name, of_part in cells.items()}
    if n == 0:
        return [NO_HEAD], [NO_HEAD], zero_sum
    sizes = {"L": len(cell)} if has_labels else {}
    found = k_best(chart, scores, n, 1, single_root=single_root, sizes=sizes)
    if not found:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    heads, labels = heads_of(found[0], n), [NO_HEAD] * (n + 1)
    for _, m, *label in found[0].arcs:
        labels[m] = label[0] if label else NO_HEAD
    return heads, labels, tree_score(scores, heads, labels if has_labels else None, zero_sum)


def tree_score(scores: Mapping[str, Any], heads: Sequence[int], labels: Any, zero: Any) -> Any:
    """The sum over words 1..n of scores, by the fields of `Scores`.

    What belongs to an arc with its siblings and grandparents is summed first; the outermost pair,
    the end and grandchildren are added one by one.
    """
    total = zero
    for m in range(1, len(heads)):
        h, n = heads[m], len(heads) - 1
        inside, beyond = range(m - 1, h, -1), range(m + 1, n + 1)
        if h > m:
            inside, beyond = range(m + 1, h), range(m - 1, 0, -1)
        s = _inner_sibling(heads, m)
        t, g = _inner_sibling(heads, s) if s != h else h, heads[h] if h > 0 else 0
        word = {"h": h, "m": m, "e": m, "s": s, "t": t, "g": g}
        is_outermost = all(heads[o] != h for o in beyond)
        of_arc, after = zero, []
        for name, score in scores.items():
            among = inside if name == "inner_grandchild" else beyond
            child = next((c for c in reversed(among) if heads[c] == m), m)
            place = [{**word, "c": child}[axis] for axis in axes_of(name)]
            value = score(*place, *([] if labels is None else [labels[m]]))
            if name in ("outermost", "end", "inner_grandchild", "outer_grandchild"):
                needs_outermost = name in ("outermost", "end")
                after += [value] if is_outermost or not needs_outermost else []
            else:
                of_arc += value
        total += of_arc
        for value in after:
            total += value
    return total


def _inner_sibling(heads: Sequence[int], m: int) -> int:
    """The modifier of m's head just inside m; the head itself if there is none."""
    h = heads[m]
    inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
    return next((s for s in inside if heads[s] == h), h)


def _of_cells(cells: Any, zero: Any) -> Any:
    """The cell at some positions; 0 where no scores were given."""
    if cells is None:
        return lambda *at: zero

    def cell(*at: int) -> Any:
        found = cells
        for position in at:
            found = found[position]
        return found

    return cell
