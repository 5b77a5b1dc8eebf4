"""Every recurrence as textbook loops, one sentence at a time: for readers, and for tests.

`arc_scores[h][m]` and `sibling_scores[h][m][s]` may be nested lists or arrays; arithmetic happens
in the type of their cells, so that float32 arrays give the very bits of the fast float32 forms.
Nothing here is fast.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gpuparse.errors import NoTreeError
from gpuparse.tensors import NO_HEAD

Matrix = Sequence[Sequence[Any]]
Cube = Sequence[Matrix]
FORBIDDEN = float("-inf")


def eisner(arc_scores: Matrix, *, single_root: bool = False) -> tuple[list[int], Any]:
    """Best projective tree by Eisner's algorithm.

    Args:
        arc_scores: (n+1, n+1), score of head h -> modifier m; column 0 and diagonal are not read.
        single_root: exactly one modifier of the root; otherwise one or more.

    Returns:
        heads (n+1), -1 at the root, and the sum of the tree's arcs in the order of the words.
        Among equally good splits the smallest r wins in every span, then the smallest root word.

    Raises:
        NoTreeError: forbidden arcs leave no tree.

    Cost: O(n^3).
    Source: McDonald, Crammer & Pereira 2005, section 2.2 and figure 2; single root: Carreras 2007,
    section 2.1.
    """
    n = len(arc_scores) - 1
    first = 1 if single_root else 0
    spans = range(n + 1)
    # C_R[i][j]: complete, head i; C_L: complete, head j. I_R, I_L: incomplete, with the arc i, j.
    I_R, I_L, C_R, C_L = ([[_zero(arc_scores)] * (n + 1) for _ in spans] for _ in range(4))
    split_I, split_R, split_L = ([[0] * (n + 1) for _ in spans] for _ in range(3))
    for w in range(1, n + 1 - first):
        for i in range(first, n + 1 - w):
            j = i + w
            best, r = _first_best([(C_R[i][r] + C_L[r + 1][j], r) for r in range(i, j)])
            split_I[i][j] = r
            I_R[i][j] = best + arc_scores[i][j]
            I_L[i][j] = best + arc_scores[j][i] if i > 0 else FORBIDDEN
            C_R[i][j], split_R[i][j] = _first_best(
                [(I_R[i][r] + C_R[r][j], r) for r in range(i + 1, j + 1)]
            )
            C_L[i][j], split_L[i][j] = _first_best(
                [(C_L[i][r] + I_L[r][j], r) for r in range(i, j)]
            )
    heads = [NO_HEAD] * (n + 1)
    if n == 0:
        return heads, _zero(arc_scores)
    if single_root:
        best, m = _first_best(
            [(C_L[1][m] + C_R[m][n] + arc_scores[0][m], m) for m in range(1, n + 1)]
        )
        heads[m] = 0
        agenda = [(1, m, False), (m, n, True)]
    else:
        best = C_R[0][n]
        agenda = [(0, n, True)]
    if best == FORBIDDEN:
        raise NoTreeError("no projective tree: too many arcs are forbidden")
    while agenda:
        i, j, is_right = agenda.pop()
        if i == j:
            continue
        if is_right:
            r = split_R[i][j]
            heads[r] = i
            agenda.append((r, j, True))
            start, end = i, r
        else:
            r = split_L[i][j]
            heads[r] = j
            agenda.append((i, r, False))
            start, end = r, j
        r = split_I[start][end]
        agenda += [(start, r, True), (r + 1, end, False)]
    return heads, _tree_score(arc_scores, heads)


def eisner_sibling(
    arc_scores: Matrix,
    sibling_scores: Cube,
    end_scores: Matrix | None = None,
    *,
    single_root: bool = False,
) -> tuple[list[int], Any]:
    """Best projective tree under scores of arcs, of siblings and of ends.

    Args:
        arc_scores: (n+1, n+1), score of head h -> modifier m; column 0 and diagonal are not read.
        sibling_scores: (n+1, n+1, n+1), [h][m][s]: s is the modifier of h just inside m on the same
            side, or h if there is none; other cells are not read.
        end_scores: (n+1, n+1), [h][m]: m is the outermost modifier of h on its side; None: all 0.
        single_root: exactly one modifier of the root; otherwise one or more.

    Returns:
        heads (n+1), -1 at the root, and `sibling_tree_score`. Among equally good choices no inner
        sibling wins, then the smallest r or k in every span, then the smallest root word.

    Raises:
        NoTreeError: forbidden parts leave no tree.

    Cost: O(n^3).
    Source: McDonald & Pereira 2006, section 2.2 and figure 3; single root: Carreras 2007, section
    2.1; differs: arc scores are kept apart, and a modifier has a score for being the last one.
    """
    arc, sib, n = arc_scores, sibling_scores, len(arc_scores) - 1
    end = _zeros(arc) if end_scores is None else end_scores
    first = 1 if single_root else 0
    spans = range(n + 1)
    # Charts and splits as in `eisner`; S: between two successive modifiers i and j of one head.
    I_R, I_L, C_R, C_L, S = ([[_zero(arc)] * (n + 1) for _ in spans] for _ in range(5))
    split_S, split_R, split_L = ([[0] * (n + 1) for _ in spans] for _ in range(3))
    sibling: dict[tuple[int, int], int] = {}  # of the modifier m of h: [h, m]
    for w in range(1, n + 1 - first):
        for i in range(first, n + 1 - w):
            j = i + w
            S[i][j], split_S[i][j] = _first_best(
                [(C_R[i][r] + C_L[r + 1][j], r) for r in range(i, j)]
            )
            none = [(C_L[i + 1][j] + sib[i][j][i], i)]
            inner = [(I_R[i][k] + (S[k][j] + sib[i][j][k]), k) for k in range(i + 1, j)]
            best, sibling[i, j] = _first_best(none + inner)
            I_R[i][j] = best + arc[i][j]
            I_L[i][j] = FORBIDDEN
            if i > 0:
                none = [(C_R[i][j - 1] + sib[j][i][j], j)]
                inner = [((S[i][k] + sib[j][i][k]) + I_L[k][j], k) for k in range(i + 1, j)]
                best, sibling[j, i] = _first_best(none + inner)
                I_L[i][j] = best + arc[j][i]
            C_R[i][j], split_R[i][j] = _first_best(
                [((I_R[i][r] + end[i][r]) + C_R[r][j], r) for r in range(i + 1, j + 1)]
            )
            # No word has the root as a modifier, and no cell of end says what it would score.
            lefts = [I_L[r][j] + end[j][r] if r > 0 else FORBIDDEN for r in range(i, j)]
            C_L[i][j], split_L[i][j] = _first_best(
                [(C_L[i][i + d] + left, i + d) for d, left in enumerate(lefts)]
            )
    heads = [NO_HEAD] * (n + 1)
    if n == 0:
        return heads, _zero(arc)
    if single_root:
        best, m = _first_best(
            [
                (C_L[1][m] + C_R[m][n] + (sib[0][m][0] + end[0][m]) + arc[0][m], m)
                for m in range(1, n + 1)
            ]
        )
        heads[m] = 0
        agenda = [(1, m, False), (m, n, True)]
    else:
        best = C_R[0][n]
        agenda = [(0, n, True)]
    if best == FORBIDDEN:
        raise NoTreeError("no projective tree: too many parts are forbidden")
    while agenda:
        i, j, is_right = agenda.pop()
        if i == j:
            continue
        if is_right:
            h, m = i, split_R[i][j]
            agenda.append((m, j, True))
        else:
            h, m = j, split_L[i][j]
            agenda.append((i, m, False))
        heads[m] = h
        while sibling[h, m] != h:
            s = sibling[h, m]
            i, j = min(s, m), max(s, m)
            r = split_S[i][j]
            agenda += [(i, r, True), (r + 1, j, False)]
            heads[s], m = h, s
        agenda.append((h + 1, m, False) if h < m else (m, h - 1, True))
    return heads, sibling_tree_score(arc_scores, sibling_scores, heads, end)


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

    Returns:
        heads (n+1), -1 at the root, and the sum of the tree's arcs in the order of the words.
        Paths start at the smallest free word; equally good sources: the smallest u (the root before
        the words); equally good members on taking apart: the smallest word, else the oldest
        super-node.

    Raises:
        NoTreeError: forbidden arcs leave no tree.

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
    return heads, _tree_score(arc_scores, heads)


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


def _zero(arc_scores: Matrix) -> Any:
    """0 in the type of the cells (the cell read may hold anything)."""
    return type(arc_scores[0][0])(0)


def _tree_score(arc_scores: Matrix, heads: list[int]) -> Any:
    """Sum of the arcs into words 1, 2, ..., n, added from the left."""
    total = _zero(arc_scores)
    for m in range(1, len(heads)):
        total += arc_scores[heads[m]][m]
    return total


def _zeros(arc_scores: Matrix) -> Matrix:
    """A matrix of the size of the scores."""
    return [[_zero(arc_scores)] * len(arc_scores) for _ in arc_scores]


def sibling_tree_score(
    arc_scores: Matrix,
    sibling_scores: Cube,
    heads: Sequence[int],
    end_scores: Matrix | None = None,
) -> Any:
    """Sum over words 1, 2, ..., n of arc, sibling and end score, one by one from the left."""
    arcs = {(h, m) for m, h in enumerate(heads) if m > 0}
    return sibling_graph_score(arc_scores, sibling_scores, arcs, end_scores)


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

    Returns:
        heads (n+1), their score, the number of changes. The highest gain wins; among equal ones the
        smallest modifier, then the smallest new head.

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
                if _has_cycle(arcs) or (single_root and changed.count(0) > 1):
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

    Args:
        as `hill_climb`.

    Returns:
        the arcs, their score, the number of changes. The highest gain wins; among equal ones the
        smallest modifier, then the smallest new head, then a replacement, of the smallest head.

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
            yield from (graph for graph in changed if not _has_cycle(graph))


def sibling_graph_score(
    arc_scores: Matrix, sibling_scores: Cube, arcs: Arcs, end_scores: Matrix | None = None
) -> Any:
    """Sum of arc, sibling and end score of all arcs, one by one, by modifier and then by head."""
    total, n = _zero(arc_scores), len(arc_scores) - 1
    for h, m in sorted(arcs, key=lambda arc: arc[::-1]):
        inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
        s = next((s for s in inside if (h, s) in arcs), h)
        total += arc_scores[h][m]
        total += sibling_scores[h][m][s]
        beyond = range(m + 1, n + 1) if h < m else range(m - 1, 0, -1)
        if end_scores is not None and not any((h, o) in arcs for o in beyond):
            total += end_scores[h][m]
    return total


def _has_cycle(arcs: Arcs) -> bool:
    """Whether taking away words without modifiers, again and again, leaves any."""
    left = set(arcs)
    while True:
        inner = {(h, m) for h, m in left if any(head == m for head, _ in left)}
        if inner == left:
            return bool(left)
        left = inner
