"""The parts of three and four words of a tree, by looking at all of it."""

from collections.abc import Iterator, Sequence

from tests.oracles.tree_parts import cells_of


def higher_order_parts_of(tree: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...], int, bool]]:
    """Kind, words, modifier, and whether that is its head's outermost one on its side.

    tree: heads of words 1..n behind one of no meaning. Words are in the order of the kind's roles,
    0 for who is not there.
    """
    for m, cells in enumerate(cells_of(tree), start=1):
        h, _, s, g = cells["grand_sibling"]
        t = cells["tri_sibling"][3]
        s, t = (0 if sibling == h else sibling for sibling in (s, t))
        is_last = cells["end"] is not None
        yield "grandparent", (g, h, m), m, is_last
        yield "grand_sibling", (g, h, s, m), m, is_last
        yield "tri_sibling", (h, t, s, m), m, is_last
        yield "head_child", (h, m, s), m, is_last
        for kind in ("inner_grandchild", "outer_grandchild"):
            child = cells[kind][2]
            yield kind, (h, m, 0 if child == m else child), m, is_last
