"""Dual decomposition as textbook loops, one sentence at a time: for readers, and for tests.

Koo, Rush, Collins, Jaakkola & Sontag 2010, with steps towards the best tree met in the place of
steps that shrink as the bound rises.
"""

from collections.abc import Callable, Sequence
from typing import Any

from gpuparse.errors import NoTreeError
from gpuparse.inference.textbook.spanning_trees import chu_liu_edmonds

FORBIDDEN = float("-inf")
PATIENCE = 4  # iterations without a lower bound after which steps are halved
GRAIN = 2.0**-20  # multipliers are multiples of this: sums with whole scores are exact
STEP_WITHOUT_A_TREE = 1.0  # where no tree has been met yet

Part = Callable[[int, int, int, int], float]
"""(h, m, s, g) -> the score of m as a modifier of h, s its inner sibling or h, g the head of h."""


def dual_decomposition(
    arc_scores: Sequence[Sequence[Any]],
    sibling_scores: Any = None,
    grandparent_scores: Any = None,
    grand_sibling_scores: Any = None,
    end_scores: Any = None,
    *,
    single_root: bool = False,
    max_iterations: int = 100,
    granularity: float = 0.0,
) -> tuple[list[int], float, bool, int]:
    """The best tree met, and whether it is certainly the best one.

    The Lagrange multiplier u[h][m] is subtracted where the automaton of h takes m as a modifier,
    v[h][m] where the automaton of m takes h as its head; the tree adds both. u and v begin with a
    half and minus a quarter of the arc's score (u alone with a half where there are no
    grandparents, and then the automata choose no heads).

    Args: The scores of `gpuparse.inference.dual_decomposition` for one sentence; None: zeros.
    Returns: heads (n + 1), -1 at the root; its score; certified; iterations.
    Raises: NoTreeError: no tree without forbidden arcs, or none without forbidden parts was met.
    """
    n = len(arc_scores) - 1
    if n == 0:
        return [-1], 0.0, True, 0
    nodes = range(n + 1)
    has_grandparents = grandparent_scores is not None or grand_sibling_scores is not None

    def part(h: int, m: int, s: int, g: int) -> float:
        total = float(arc_scores[h][m])
        total += float(sibling_scores[h][m][s]) if sibling_scores is not None else 0.0
        total += float(grandparent_scores[h][m][g]) if grandparent_scores is not None else 0.0
        total += (
            float(grand_sibling_scores[h][m][s][g]) if grand_sibling_scores is not None else 0.0
        )
        return total

    def end(h: int, m: int) -> float:
        return float(end_scores[h][m]) if end_scores is not None else 0.0

    arcs = [(h, m) for m in nodes[1:] for h in nodes if h != m and arc_scores[h][m] > FORBIDDEN]
    u = {(h, m): 0.5 * _whole(arc_scores[h][m]) for h, m in arcs}
    v = {a: (-0.5 * u[a] if has_grandparents else 0.0) for a in arcs}
    best, best_heads, lowest, pace, stalled = FORBIDDEN, [-1] * (n + 1), float("inf"), 1.0, 0
    for iteration in range(1, max_iterations + 1):
        multipliers = [[FORBIDDEN] * (n + 1) for _ in nodes]
        for h, m in arcs:
            multipliers[h][m] = u[h, m] + v[h, m]
        heads, bound = chu_liu_edmonds(multipliers, single_root=single_root)
        as_modifiers, as_heads = set[tuple[int, int]](), set[tuple[int, int]]()
        for h in nodes:
            total, g, modifiers = _best_automaton(h, n, has_grandparents, arcs, part, end, u, v)
            bound += total
            as_modifiers.update((h, m) for m in modifiers)
            as_heads.add((g, h))
        score = tree_score(heads, part, end)
        if score > best:
            best, best_heads = score, heads
        in_tree = {(heads[m], m) for m in nodes[1:]}
        apart = len(in_tree ^ as_modifiers)
        if has_grandparents:
            apart += len(in_tree ^ (as_heads - {(0, 0)}))
        is_proven = best > FORBIDDEN and (bound < best + granularity or bound <= best)
        if apart == 0 or is_proven or bound == FORBIDDEN:
            if best == FORBIDDEN:
                raise NoTreeError("no tree: too many parts are forbidden")
            return best_heads, best, True, iteration
        stalled = 0 if bound < lowest else stalled + 1
        lowest = min(bound, lowest)
        if stalled == PATIENCE:
            pace, stalled = 0.5 * pace, 0
        gap = bound - best if best > FORBIDDEN else STEP_WITHOUT_A_TREE * apart
        step = round(pace * gap / apart / GRAIN) * GRAIN
        for a in arcs:
            u[a] -= step * ((a in in_tree) - (a in as_modifiers))
            if has_grandparents:
                v[a] -= step * ((a in in_tree) - (a in as_heads))
    if best == FORBIDDEN:
        raise NoTreeError("no tree was met: too many parts are forbidden")
    return best_heads, best, False, max_iterations


def _whole(score: Any) -> float:
    """The score as a multiple of the grain."""
    return round(float(score) / GRAIN) * GRAIN


def _best_automaton(
    h: int,
    n: int,
    has_grandparents: bool,
    arcs: list[tuple[int, int]],
    part: Part,
    end: Callable[[int, int], float],
    u: dict[tuple[int, int], float],
    v: dict[tuple[int, int], float],
) -> tuple[float, int, list[int]]:
    """The best score of h with its head and modifiers; of equally good heads the first."""
    candidates = [g for g in range(n + 1) if (g, h) in v] if has_grandparents and h > 0 else [0]
    best, chosen, modifiers = FORBIDDEN, candidates[0] if candidates else 0, []
    for g in candidates:
        right = [m for m in range(h + 1, n + 1) if (h, m) in u]
        left = [m for m in range(h - 1, 0, -1) if (h, m) in u]
        of_right, on_right = _best_chain(h, g, right, has_grandparents, part, end, u)
        of_left, on_left = _best_chain(h, g, left, has_grandparents, part, end, u)
        total = of_right + of_left - (v[g, h] if has_grandparents and h > 0 else 0.0)
        if total > best:
            best, chosen, modifiers = total, g, on_right + on_left
    return best, chosen, modifiers


def _best_chain(
    h: int,
    g: int,
    side: list[int],
    has_grandparents: bool,
    part: Part,
    end: Callable[[int, int], float],
    u: dict[tuple[int, int], float],
) -> tuple[float, list[int]]:
    """The best modifiers of h on one side, whose candidates are given from the inside out.

    Among equals no modifier comes first, and then the innermost.
    """
    best, best_chain = 0.0, list[int]()
    chart: list[tuple[float, list[int]]] = []  # up to each candidate, which is taken
    for m in side:
        if has_grandparents and m == g:
            chart.append((FORBIDDEN, [m]))
            continue
        value, chain = part(h, m, h, g), list[int]()
        for k, s in enumerate(side[: len(chart)]):
            through = chart[k][0] + part(h, m, s, g) if chart[k][0] > FORBIDDEN else FORBIDDEN
            if through > value:
                value, chain = through, chart[k][1]
        chart.append((value - u[h, m], [*chain, m]))
        value += end(h, m) - u[h, m]
        if value > best:
            best, best_chain = value, chart[-1][1]
    return best, best_chain


def tree_score(heads: Sequence[int], part: Part, end: Callable[[int, int], float]) -> float:
    """The sum over words 1, 2, ..., n of part and end."""
    total, n = 0.0, len(heads) - 1
    for m in range(1, n + 1):
        h = heads[m]
        inside = range(m - 1, h, -1) if h < m else range(m + 1, h)
        beyond = range(m + 1, n + 1) if h < m else range(1, m)
        s = next((s for s in inside if heads[s] == h), h)
        total += part(h, m, s, heads[h] if h > 0 else 0)
        if all(heads[o] != h for o in beyond):
            total += end(h, m)
    return total
