"""Spanning trees and searches by single changes as textbook loops: for readers, and for tests.

`arc_scores[h][m]` and `sibling_scores[h][m][s]` may be nested lists or arrays; searches add in the
type of their cells, and scores of trees in float64, so that float32 arrays give the very bits of
the fast float32 forms.
Nothing here is fast.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gpuparse.errors import NoTreeError
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.textbook.projective import (
    Cube,
    Matrix,
    sibling_tree_score,
    tree_score,
    zero_of_sums,
)

FORBIDDEN = float("-inf")


def chu_liu_edmonds(arc_scores: Matrix, *, single_root: bool = False) -> tuple[list[int], Any]:
    """Best tree, crossing arcs allowed, by Chu-Liu/Edmonds in the path-growing form.

    Every super-node k keeps a row: row[k][u] is the best way into k from the word or root u outside
    it. A path grows backwards over best sources until it meets the root or an attached word; a
    source on the path closes a cycle, which becomes one super-node:
    row[c][u] = max over members k of (row[k][u] - best[k]). At the end the super-nodes are taken
    apart, last made first: the arc that enters one enters its member with the maximum.

    Single root: compare scores as pairs, first (minus the number of arcs from the root), then the
    score. An arc from the root is (-1, s), any other (0, s). The root is on no cycle, so best[k] of
    a cycle's members is always (0, s), and subtracting it never changes the count of an entering
    arc. So the pairs need not be kept: a super-node takes the root only if no other source is
    allowed. The best pair has the fewest possible arcs from the root; more than one means that no
    single-root tree exists.

    Args:
        arc_scores: (n+1, n+1), score of head h -> modifier m; column 0 and diagonal are not read.
        single_root: exactly one modifier of the root; otherwise one or more.
    Returns: heads (n+1), -1 at the root, and the sum of the tree's arcs in the order of the words.
        Paths start at the smallest free word; equally good sources: the smallest u (the root before
        the words); equally good members on taking apart: the smallest word, else the oldest
        super-node.
    Raises: NoTreeError: forbidden arcs leave no tree.
    Cost: O(n^2) in the fast forms; O(n^2) here too, but for the searches in the path.
    Source: slides, "Spanning Tree Parsing"; path growing: Gabow, Galil, Spencer & Tarjan 1986;
    one arc from the root by an ordering of pairs, after Gabow & Tarjan 1984 and Zmigrod, Vieira &
    Cotterell 2020, "Please Mind the Root"; differs: no swaps and no second run.
    """
    n = len(arc_scores) - 1
    row = {
        m: [FORBIDDEN if u == m else arc_scores[u][m] for u in range(n + 1)]
        for m in range(1, n + 1)
    }
    inside = {m: {m} for m in row}  # words of each super-node
    members: dict[int, list[int]] = {}  # of each super-node, in the order of making
    best: dict[int, Any] = {}
    source: dict[int, int] = {}
    attached = {0}
    for start in range(1, n + 1):
        path = [] if start in attached else [start]
        while path:
            end = path[-1]
            best[end], source[end] = _best_source(row[end], single_root)
            u = source[end]
            if best[end] == FORBIDDEN:
                raise NoTreeError("no tree: too many arcs are forbidden")
            if u in attached:
                attached.update(*(inside[k] for k in path))
                path = []
            elif not any(u in inside[k] for k in path):
                path.append(u)
            else:
                p = next(p for p, k in enumerate(path) if u in inside[k])
                made = n + 1 + len(members)
                members[made] = sorted(path[p:])
                inside[made] = set().union(*(inside[k] for k in path[p:]))
                row[made] = [
                    FORBIDDEN if u in inside[made] else max(row[k][u] - best[k] for k in path[p:])
                    for u in range(n + 1)
                ]
                path[p:] = [made]
    for made in reversed(members):
        u = source[made]
        _, entered = _first_best([(row[k][u] - best[k], k) for k in members[made]])
        source[entered] = u
    heads = [NO_HEAD] + [source[m] for m in range(1, n + 1)]
    if single_root and heads.count(0) > 1:
        raise NoTreeError("no tree with a single root word: too many arcs are forbidden")
    return heads, tree_score(arc_scores, heads)


def chu_liu_edmonds_kbest(
    arc_scores: Matrix, k: int, *, single_root: bool = False
) -> tuple[list[list[int]], list[Any]]:
    """The k best trees, best first.

    The best tree splits all other trees by the first word with a different head: set m has the
    trees that agree with it before word m, and not at m. The best of the best trees of all sets is
    next, and splits its set in the same way, from the word m on at which the set was made; and so
    on.

    Args:
        arc_scores: (n+1, n+1), score of head h -> modifier m; column 0 and diagonal are not read.
        k: the number of trees.
        single_root: exactly one modifier of the root; otherwise one or more.
    Returns: heads, (n+1) each with -1 at the root, and scores of k trees, or of all if there are
        fewer. A score is the sum of the tree's arcs in the order of the words, or, where rounding
        would put that above the score of the tree whose part it was found in, that one. Ties: the
        part split off first comes first, of those split off at once that of the smallest word; its
        best tree is that of `chu_liu_edmonds`.
    Raises: NoTreeError: forbidden arcs leave no tree.
    Cost: n k searches.
    Source: Lawler 1972; Zmigrod, Vieira & Cotterell 2021 for the problem with a single root;
    differs from Camerini, Fratta & Maffioli 1980 in what the trees are split by.
    """
    n = len(arc_scores) - 1
    heads, score = chu_liu_edmonds(arc_scores, single_root=single_root)
    found, scores = [heads], [score]
    # (best tree of the part, its score, the word, the heads forbidden there), in order of making.
    parts: list[tuple[list[int], Any, int, set[int]]] = []
    first, forbidden = 1, set[int]()
    while len(found) < k:
        for m in range(first, n + 1):
            taken = {found[-1][m]} | (forbidden if m == first else set())
            part = _part(arc_scores, found[-1], m, taken)
            try:
                heads, _ = chu_liu_edmonds(part, single_root=single_root)
            except NoTreeError:
                continue
            parts.append((heads, min(tree_score(arc_scores, heads), scores[-1]), m, taken))
        if not parts:
            break
        best = max(range(len(parts)), key=lambda i: (parts[i][1], -i))
        heads, score, first, forbidden = parts.pop(best)
        found.append(heads)
        scores.append(score)
    return found[:k], scores[:k]


def _part(arc_scores: Matrix, heads: list[int], word: int, taken: set[int]) -> list[list[Any]]:
    """Scores that leave only trees with these heads before the word, and none of `taken` there."""
    nothing = type(arc_scores[0][0])(FORBIDDEN)
    part = [list(row) for row in arc_scores]
    for h in range(len(heads)):
        for m in range(1, word):
            if h != heads[m]:
                part[h][m] = nothing
        if h in taken:
            part[h][word] = nothing
    return part


def _best_source(row: list[Any], single_root: bool) -> tuple[Any, int]:
    """Best score into a super-node and its source; with a single root the root comes last."""
    best, u = _first_best([(score, u) for u, score in enumerate(row) if u > 0])
    takes_root = best == FORBIDDEN if single_root else row[0] >= best
    return (row[0], 0) if takes_root else (best, u)


def _first_best(candidates: list[tuple[Any, int]]) -> tuple[Any, int]:
    """The highest (value, choice); the first of equals."""
    best, chosen = candidates[0]
    for value, choice in candidates:
        if value > best:
            best, chosen = value, choice
    return best, chosen


def hill_climb(
    arc_scores: Matrix,
    sibling_scores: Cube,
    start: Sequence[int],
    *,
    end_scores: Matrix | None = None,
    max_changes: int | None = None,
    min_gain: float = 0,
    single_root: bool = False,
) -> tuple[list[int], Any, int]:
    """A tree that no single change of head improves, found from `start` by re-scoring all trees.

    Args:
        arc_scores, sibling_scores, end_scores: as `eisner_sibling` reads them.
        start: heads (n+1) of a tree without forbidden parts.
        max_changes: most changes; None: no limit.
        min_gain: changes are made that raise the score by more than this.
        single_root: exactly one modifier of the root, in the start too; otherwise one or more.
    Returns: heads (n+1), their score, the number of changes. The highest gain wins; among equal
        ones the smallest modifier, then the smallest new head.
    Cost: O(n^3) or more for each change.
    Source: McDonald & Pereira 2006, figure 4.
    """
    heads, changes = list(start), 0
    score = sibling_tree_score(arc_scores, sibling_scores, heads, end_scores)
    while changes != max_changes:
        best, chosen = score + min_gain, None
        for m in range(1, len(heads)):
            for h in range(len(heads)):
                changed = [*heads[:m], h, *heads[m + 1 :]]
                arcs = {(k, w) for w, k in enumerate(changed) if w > 0}
                if has_cycle(arcs) or (single_root and changed.count(0) > 1):
                    continue
                value = sibling_tree_score(arc_scores, sibling_scores, changed, end_scores)
                if value > best:
                    best, chosen = value, changed
        if chosen is None:
            break
        heads, score, changes = chosen, best, changes + 1
    return heads, score, changes


Arcs = set[tuple[int, int]]
"""Arcs (h, m) of a graph."""


def multi_parent(
    arc_scores: Matrix,
    sibling_scores: Cube,
    start: Sequence[int],
    *,
    end_scores: Matrix | None = None,
    max_changes: int | None = None,
    min_gain: float = 0,
    single_root: bool = False,
) -> tuple[Arcs, Any, int]:
    """A graph that no permitted single change improves, found from `start` by re-scoring.

    Args: as `hill_climb`.
    Returns: the arcs, their score, the number of changes. The highest gain wins; among equal ones
        the smallest modifier, then the smallest new head, then a replacement, of the smallest head.
    Cost: O(n^4) or more for each change.
    Source: McDonald & Pereira 2006, section 3.
    """
    arcs = {(h, m) for m, h in enumerate(start) if m > 0}
    score, changes = sibling_graph_score(arc_scores, sibling_scores, arcs, end_scores), 0
    while changes != max_changes:
        best, chosen = score + min_gain, None
        for changed in changed_graphs(arcs, len(start) - 1, single_root=single_root):
            value = sibling_graph_score(arc_scores, sibling_scores, changed, end_scores)
            if value > best:
                best, chosen = value, changed
        if chosen is None:
            break
        arcs, score, changes = chosen, best, changes + 1
    return arcs, score, changes


def changed_graphs(arcs: Arcs, n: int, *, single_root: bool = False) -> Iterator[Arcs]:
    """All graphs that one permitted change makes of one over n words, in the order of ties.

    A head of a word is replaced by a word that is not its head, or such a word is added; the root
    is never added, and replaces the only head of a word. No graph has a cycle.
    """
    for m in range(1, n + 1):
        heads = [h for h in range(n + 1) if (h, m) in arcs]
        for k in range(n + 1):
            if k in heads or (k == 0 and (single_root or len(heads) > 1)):
                continue
            changed = [arcs - {(h, m)} | {(k, m)} for h in heads]
            if k > 0:
                changed.append(arcs | {(k, m)})
            yield from (graph for graph in changed if not has_cycle(graph))


def sibling_graph_score(
    arc_scores: Matrix, sibling_scores: Cube, arcs: Arcs, end_scores: Matrix | None = None
) -> Any:
    """Sum of arc, sibling and end score of all arcs, one by one, by modifier and then by head."""
    total, n = zero_of_sums(arc_scores[0][0]), len(arc_scores) - 1
    for h, m in sorted(arcs, key=lambda arc: arc[::-1]):
        inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
        s = next((s for s in inside if (h, s) in arcs), h)
        total += arc_scores[h][m]
        total += sibling_scores[h][m][s]
        beyond = range(m + 1, n + 1) if h < m else range(m - 1, 0, -1)
        if end_scores is not None and not any((h, o) in arcs for o in beyond):
            total += end_scores[h][m]
    return total


def has_cycle(arcs: Arcs) -> bool:
    """True if taking away words without modifiers, again and again, leaves any."""
    left = set(arcs)
    while True:
        inner = {(h, m) for h, m in left if any(head == m for head, _ in left)}
        if inner == left:
            return bool(left)
        left = inner
