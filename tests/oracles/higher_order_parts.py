"""The parts of three and four words of a tree, by looking at all of it."""

from collections.abc import Iterator, Sequence

import numpy as np

from tests.oracles.brute_force import ends_of, parts_of


def higher_order_parts_of(tree: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...], int, bool]]:
    """Kind, words, modifier, and whether that is its head's outermost one on its side.

    tree: heads of words 1..n behind one of no meaning. Words are in the order of the kind's roles,
    0 for who is not there.
    """
    n, heads = len(tree) - 1, np.array(tree)
    children = {h: [m for m in range(1, n + 1) if tree[m] == h] for h in range(n + 1)}
    siblings = {m: (s if s != h else 0) for h, m, s in parts_of(heads)}
    outermost = {m for _, m in ends_of(heads)}
    for m in range(1, n + 1):
        h, s, is_last = tree[m], siblings[m], m in outermost
        g = tree[h] if h else 0
        t = siblings[s] if s else 0
        low, high = min(h, m), max(h, m)
        inner = [c for c in children[m] if low < c < high]
        outer = [c for c in children[m] if (c > m) == (m > h)]
        yield "grandparent", (g, h, m), m, is_last
        yield "grand_sibling", (g, h, s, m), m, is_last
        yield "tri_sibling", (h, t, s, m), m, is_last
        yield "head_child", (h, m, s), m, is_last
        for kind, those in (("inner_grandchild", inner), ("outer_grandchild", outer)):
            furthest = max(those, key=lambda c: abs(c - m), default=0)
            yield kind, (h, m, furthest), m, is_last
