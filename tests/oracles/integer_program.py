"""The best tree with higher-order parts, crossing arcs allowed, by an integer program.

A variable x[h, m] in {0, 1} says that h is the head of m; z[h, m, s] in [0, 1] that s is besides
the inner sibling of m, or that there is none (s == h); y[h, m, g] that g is the head of h. The sum
of all parts that hold is highest subject to

    sum over h of x[h, m] = 1                  every word has one head
    f[h, m] <= n x[h, m]                       what flows from the root through the arcs
    sum of f into m - sum of f out of m = 1    leaves one unit at every word: there is no cycle
    sum over s of z[h, m, s] = x[h, m]         every arc has one predecessor
    sum over m of z[h, m, s] <= x[h, s]        a modifier has at most one successor
    sum over m of z[h, m, h] <= 1              so has the head itself, on each side
    sum over g of y[h, m, g] = x[h, m]         every arc has one grandparent
    y[h, m, g] <= x[g, h]                      which is the head of its head, 0 if that is the root

The k modifiers of a head on one side have k predecessors further inside, among themselves and the
head, no two the same: the nearest must have the head, the next the nearest, and so on. So z is the
chain of siblings, and x[h, s] less its successors says that s is the end of one. For grand-siblings
v[h, m, s, g] stands for both: its sum over g is z[h, m, s], and its sum over s is y[h, m, g].
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

LARGEST = 1024.0  # cost of a variable, all scaled alike; the solver's tolerances are absolute, 1e-6
INFEASIBLE = 2  # the solver's state


def integer_program(parts: Mapping[str, np.ndarray], *, single_root: bool) -> list[int] | None:
    """Heads (N,) of the best tree of one sentence, -1 at the root; None if there is no tree.

    Args: parts: scores of one sentence, of arcs and those that `dual_decomposition` reads.
    """
    arcs = parts["arc"]
    n = len(arcs) - 1
    words = range(1, n + 1)
    scores: dict[tuple, float] = {
        ("x", h, m): float(arcs[h, m]) for h in range(n + 1) for m in words if h != m
    }
    rows: dict[tuple, dict[tuple, float]] = defaultdict(dict)
    bounds: dict[tuple, tuple[float, float]] = {}

    def row(name: tuple, variable: tuple, factor: float, low: float, high: float) -> None:
        rows[name][variable] = factor
        bounds[name] = low, high

    pairs = [key[1:] for key in scores]
    for h, m in pairs:
        x, f = ("x", h, m), ("f", h, m)
        scores[f] = 0.0
        row(("head", m), x, 1, 1, 1)
        if single_root and h == 0:
            row(("root",), x, 1, 1, 1)
        row(("room", h, m), f, 1, -np.inf, 0)
        row(("room", h, m), x, -n, -np.inf, 0)
        row(("flow", m), f, 1, 1, 1)
        if h > 0:
            row(("flow", h), f, -1, 1, 1)
    siblings, ends = parts.get("sibling"), parts.get("end")
    grandparents, both = parts.get("grandparent"), parts.get("grand_sibling")
    inner = {(h, m): [h, *range(min(h, m) + 1, max(h, m))] for h, m in pairs}
    above = {(h, m): [g for g in range(n + 1) if h and g not in (h, m)] or [0] for h, m in pairs}
    if siblings is not None or ends is not None or both is not None:
        for h, m in pairs:
            if ends is not None:
                scores["e", h, m] = float(ends[h, m])
                row(("next", h, m), ("e", h, m), 1, 0, 0)
            for s in inner[h, m]:
                z = ("z", h, m, s)
                scores[z] = 0.0 if siblings is None else float(siblings[h, m, s])
                row(("inner", h, m), z, 1, 0, 0)
                if s == h:
                    row(("first", h, m > h), z, 1, 0, 1)
                else:
                    row(("next", h, s), z, 1, 0 if ends is not None else -np.inf, 0)
            row(("inner", h, m), ("x", h, m), -1, 0, 0)
            row(("next", h, m), ("x", h, m), -1, 0 if ends is not None else -np.inf, 0)
    if grandparents is not None or both is not None:
        for h, m in pairs:
            for g in above[h, m]:
                y = ("y", h, m, g)
                scores[y] = 0.0 if grandparents is None else float(grandparents[h, m, g])
                row(("above", h, m), y, 1, 0, 0)
                if h > 0:
                    row(("is above", h, m, g), y, 1, -np.inf, 0)
                    row(("is above", h, m, g), ("x", g, h), -1, -np.inf, 0)
            row(("above", h, m), ("x", h, m), -1, 0, 0)
    if both is not None:
        for h, m in pairs:
            for s, g in product(inner[h, m], above[h, m]):
                v = ("v", h, m, s, g)
                scores[v] = float(both[h, m, s, g])
                for name, of in (("of z", ("z", h, m, s)), ("of y", ("y", h, m, g))):
                    row((name, of), v, 1, 0, 0)
                    row((name, of), of, -1, 0, 0)
    return _solved(n, scores, rows, bounds)


def _solved(
    n: int, scores: Mapping[tuple, float], rows: Mapping[tuple, dict[tuple, float]],
    bounds: Mapping[tuple, tuple[float, float]],
) -> list[int] | None:  # fmt: skip
    if n == 0:
        return [-1]
    number = {variable: k for k, variable in enumerate(scores)}
    entries = [
        (r, number[variable], factor)
        for r, of_row in enumerate(rows.values()) for variable, factor in of_row.items()
    ]  # fmt: skip
    r, k, factors = zip(*entries, strict=True)
    matrix = csr_array((factors, (r, k)), shape=(len(rows), len(scores)))
    values = np.array(list(scores.values()))
    is_allowed = np.isfinite(values)
    costs = np.where(is_allowed, -values, 0.0)
    most = np.where([variable[0] == "f" for variable in scores], float(n), 1.0)
    low, high = np.array([bounds[name] for name in rows]).T
    found = milp(
        costs * LARGEST / max(np.abs(costs).max(), 1e-300),
        integrality=np.array([variable[0] == "x" for variable in scores]),
        bounds=Bounds(0.0, np.where(is_allowed, most, 0.0)),
        constraints=LinearConstraint(matrix, low, high),
        options={"mip_rel_gap": 0.0},
    )
    if found.status == INFEASIBLE:
        return None
    assert found.success, found.message
    heads = [-1] * (n + 1)
    for variable, value in zip(scores, found.x.tolist(), strict=True):
        if variable[0] == "x" and value > 0.5:
            heads[variable[2]] = variable[1]
    return heads
