"""Third-order recurrences as textbook loops, one sentence at a time: for readers, and for tests.

Spans carry the head of their head: C[g, h, e] is the best half of h up to e, I[g, h, m] the best
item of the arc h -> m, while g is the head of h; g stands outside the span, and is 0 for h == 0.
"""

from collections.abc import Sequence
from typing import Any

from gpuparse.errors import NoTreeError
from gpuparse.inference.reference import Cube, Matrix
from gpuparse.tensors import NO_HEAD

Tesseract = Sequence[Cube]
Chart = dict[tuple[int, int, int], Any]
Choice = dict[tuple[int, int, int], int]
FORBIDDEN = float("-inf")


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
        + grand-sibling score, and then the end's. Among equally good choices no inner sibling wins,
        then the smallest r, m or s in every span, then the smallest root word.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^4).
    Source: Koo & Collins 2010, Model 1; single root: Carreras 2007, section 2.1.
    """
    n = len(arc_scores) - 1

    def part(h: int, m: int, s: int, g: int) -> Any:
        score = arc_scores[h][m] + (sibling_scores[h][m][s] if sibling_scores is not None else 0)
        if grandparent_scores is not None:
            score = score + grandparent_scores[h][m][g]
        if grand_sibling_scores is not None:
            score = score + grand_sibling_scores[h][m][s][g]
        return score

    def end(h: int, m: int) -> Any:
        return _zero(arc_scores) if end_scores is None else end_scores[h][m]

    C = _single_words(arc_scores)
    I: Chart = {}  # noqa: E741
    S: Chart = {}  # between the modifiers i and j of h: [h, i, j]
    sibling: Choice = {}
    split: Choice = {}
    for i, j in _spans(n):
        _join_halves(C, S, split, i, j, n)
        for h, m, step in ((i, j, 1), (j, i, -1)):
            for g in _heads_above(h, i, j, n) if m > 0 else ():
                none = [(C[h, m, h + step] + part(h, m, h, g), h)]
                inner = [
                    (I[g, h, s] + (S[h, min(s, m), max(s, m)] + part(h, m, s, g)), s)
                    for s in range(i + 1, j)
                ]
                I[g, h, m], sibling[g, h, m] = _first_best(none + inner)
        _close(C, {arc: I[arc] + end(*arc[1:]) for arc in I if _ends_in(arc, i, j)}, split, i, j, n)
    root = 0
    if single_root and n > 0:
        best, root = _first_best(
            [
                (((C[0, m, 1] + C[0, m, n]) + part(0, m, 0, 0)) + end(0, m), m)
                for m in range(1, n + 1)
            ]
        )
    else:
        best = C[0, 0, n]
    if best == FORBIDDEN:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    heads = [NO_HEAD] * (n + 1)
    agenda = [(0, root, n), (0, root, 1)] if root else [(0, 0, n)]
    if root:
        heads[root] = 0
    while agenda:
        g, h, e = agenda.pop()
        if h == e:
            continue
        m = split[g, h, e]
        agenda.append((h, m, e))
        heads[m] = h
        while sibling[g, h, m] != h:
            s = sibling[g, h, m]
            agenda += _halves_between(split, h, s, m)
            heads[s], m = h, s
        agenda.append((h, m, h + 1 if h < m else h - 1))
    total = _zero(arc_scores)
    for h, m, s, _, g, is_outermost in parts_of_tree(heads):
        total += part(h, m, s, g)
        total += end(h, m) if is_outermost else 0
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
        score, and then the outermost pair's and the end's. Ties: as `eisner_grand_sibling`.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^4).
    Source: Koo & Collins 2010, Model 2; single root: Carreras 2007, section 2.1.
    """
    n = len(arc_scores) - 1

    def part(h: int, m: int, s: int, t: int) -> Any:
        score = arc_scores[h][m] + (sibling_scores[h][m][s] if sibling_scores is not None else 0)
        return score if tri_sibling_scores is None else score + tri_sibling_scores[h][m][s][t]

    def outermost(h: int, m: int, s: int, g: int) -> Any:
        return _zero(arc_scores) if outermost_scores is None else outermost_scores[h][m][s][g]

    def end(h: int, m: int) -> Any:
        return _zero(arc_scores) if end_scores is None else end_scores[h][m]

    C = _single_words(arc_scores)
    J: Chart = {}  # of m with the inner sibling s: [h, m, s]
    S: Chart = {}
    inner_of: Choice = {}  # the inner sibling of s beside m: [h, m, s]
    sibling: Choice = {}  # of m as the outermost one: [g, h, m]
    split: Choice = {}
    outer: Chart = {}
    for i, j in _spans(n):
        _join_halves(C, S, split, i, j, n)
        for h, m, step in ((i, j, 1), (j, i, -1)):
            if m == 0:
                continue
            J[h, m, h] = C[h, m, h + step] + part(h, m, h, h)
            for s in range(i + 1, j):
                inside = range(i + 1, s) if h < m else range(s + 1, j)
                best, inner_of[h, m, s] = _first_best(
                    [(J[h, s, t] + part(h, m, s, t), t) for t in (h, *inside)]
                )
                J[h, m, s] = best + S[h, min(s, m), max(s, m)]
            for g in _heads_above(h, i, j, n):
                best, sibling[g, h, m] = _first_best(
                    [(J[h, m, s] + outermost(h, m, s, g), s) for s in (h, *range(i + 1, j))]
                )
                outer[g, h, m] = best + end(h, m)
        _close(C, outer, split, i, j, n)
    root = 0
    if single_root and n > 0:
        best, root = _first_best(
            [
                (
                    (((C[0, m, 1] + C[0, m, n]) + part(0, m, 0, 0)) + outermost(0, m, 0, 0))
                    + end(0, m),
                    m,
                )
                for m in range(1, n + 1)
            ]
        )
    else:
        best = C[0, 0, n]
    if best == FORBIDDEN:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    heads = [NO_HEAD] * (n + 1)
    agenda = [(0, root, n), (0, root, 1)] if root else [(0, 0, n)]
    if root:
        heads[root] = 0
    while agenda:
        g, h, e = agenda.pop()
        if h == e:
            continue
        m = split[g, h, e]
        agenda.append((h, m, e))
        heads[m], s = h, sibling[g, h, m]
        while s != h:
            agenda += _halves_between(split, h, s, m)
            heads[s], m, s = h, s, inner_of[h, m, s]
        agenda.append((h, m, h + 1 if h < m else h - 1))
    total = _zero(arc_scores)
    for h, m, s, t, g, is_outermost in parts_of_tree(heads):
        total += part(h, m, s, t)
        if is_outermost:
            total += outermost(h, m, s, g)
            total += end(h, m)
    return heads, total


def parts_of_tree(heads: Sequence[int]) -> list[tuple[int, int, int, int, int, bool]]:
    """(h, m, s, t, g, whether m is outermost) of every word; s, t: h for none."""
    words = range(1, len(heads))

    def inner(m: int) -> int:
        h = heads[m]
        inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
        return next((s for s in inside if heads[s] == h), h)

    parts = []
    for m in words:
        h, s = heads[m], inner(m)
        beyond = range(m + 1, len(heads)) if h < m else range(1, m)
        t, g = inner(s) if s != h else h, heads[h] if h > 0 else 0
        parts.append((h, m, s, t, g, all(heads[o] != h for o in beyond)))
    return parts


def _spans(n: int) -> list[tuple[int, int]]:
    """All i < j, the narrowest first."""
    return [(i, i + w) for w in range(1, n + 1) for i in range(n + 1 - w)]


def _single_words(arc_scores: Matrix) -> Chart:
    nodes = range(len(arc_scores))
    return {(g, h, h): _zero(arc_scores) for g in nodes for h in nodes}


def _heads_above(h: int, i: int, j: int, n: int) -> list[int]:
    """What can be the head of h, one end of the span i..j."""
    return [0] if h == 0 else [g for g in range(n + 1) if not i <= g <= j]


def _join_halves(C: Chart, S: Chart, split: Choice, i: int, j: int, n: int) -> None:
    """S[h,i,j] = max_{i<=r<j} C[h,i,r] + C[h,j,r+1]; its split stands at [h, i, j, ...]."""
    for h in range(n + 1):
        if i > 0 and not i <= h <= j:
            S[h, i, j], split[-1 - h, i, j] = _first_best(
                [(C[h, i, r] + C[h, j, r + 1], r) for r in range(i, j)]
            )


def _halves_between(split: Choice, h: int, s: int, m: int) -> list[tuple[int, int, int]]:
    i, j = min(s, m), max(s, m)
    r = split[-1 - h, i, j]
    return [(h, i, r), (h, j, r + 1)]


def _ends_in(arc: tuple[int, int, int], i: int, j: int) -> bool:
    """Whether an arc [g, h, m] from one end of the span stays within it."""
    _, h, m = arc
    return (h == i and m <= j) or (h == j and m >= i)


def _close(C: Chart, outer: Chart, split: Choice, i: int, j: int, n: int) -> None:
    """C[g,h,e] = max_m outer[g,h,m] + C[h,m,e] for the half of either end of the span i..j."""
    for h, e, between in ((i, j, range(i + 1, j + 1)), (j, i, range(i, j))):
        for g in _heads_above(h, i, j, n) if e > 0 else ():
            C[g, h, e], split[g, h, e] = _first_best(
                [(outer[g, h, m] + C[h, m, e], m) for m in between]
            )


def _first_best(candidates: list[tuple[Any, int]]) -> tuple[Any, int]:
    """The highest (value, choice); the first of equals."""
    return max(candidates, key=lambda candidate: candidate[0])


def _zero(arc_scores: Matrix) -> Any:
    """0 in the type of the cells."""
    return type(arc_scores[0][0])(0)
