"""The k best trees, crossing arcs allowed, by splitting alone: plain, and slow."""

from typing import Any

from gpuparse.errors import NoTreeError
from gpuparse.inference import reference
from gpuparse.inference.reference import FORBIDDEN, Matrix


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

    Returns:
        heads, (n+1) each with -1 at the root, and scores of k trees, or of all if there are fewer.
        A score is the sum of the tree's arcs in the order of the words, or, where rounding would
        put that above the score of the tree whose part it was found in, that one. Ties: the part
        split off first comes first, of those split off at once that of the smallest word; its best
        tree is that of `reference.chu_liu_edmonds`.

    Raises:
        NoTreeError: forbidden arcs leave no tree.

    Cost: n k searches.
    Source: Lawler 1972; Zmigrod, Vieira & Cotterell 2021 for the problem with a single root;
    differs from Camerini, Fratta & Maffioli 1980 in what the trees are split by.
    """
    n = len(arc_scores) - 1
    heads, score = reference.chu_liu_edmonds(arc_scores, single_root=single_root)
    found, scores = [heads], [score]
    # (best tree of the part, its score, the word, the heads forbidden there), in order of making.
    parts: list[tuple[list[int], Any, int, set[int]]] = []
    first, forbidden = 1, set[int]()
    while len(found) < k:
        for m in range(first, n + 1):
            taken = {found[-1][m]} | (forbidden if m == first else set())
            part = _part(arc_scores, found[-1], m, taken)
            try:
                heads, _ = reference.chu_liu_edmonds(part, single_root=single_root)
            except NoTreeError:
                continue
            score = sum((arc_scores[heads[m]][m] for m in range(1, n + 1)), start=scores[0] * 0)
            parts.append((heads, min(score, scores[-1]), m, taken))
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
