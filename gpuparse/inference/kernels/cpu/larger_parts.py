"""Where searches over larger parts read scores from: sums of a table's cells, block by block.

The score of a part of up to four words is a sum over looks, of one table:
table[((words[look, 0, a] ^ words[look, 1, b] ^ ...) * cells) >> 32], ^ being XOR, for those looks
that all of its words are on for. Nothing here knows what a look looks at.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.siblings import FactoredSiblings, sibling_score

GRANDPARENT, GRAND_SIBLING, TRI_SIBLING, HEAD_CHILD, INNER_GRANDCHILD, OUTER_GRANDCHILD = range(6)
NOBODY = 0  # stands for whoever is not there


class LabelParts(NamedTuple):
    """What labels add to arcs and children: a line of a table for a look, a number for a label.

    arcs: (N, N, >= labels), [h, m, l]: what each label of an arc scores.
    kinds, words, on, right: as of LargerParts. table: (lines * stride,), the line of a cell from
    cell * stride on. width: how many labels there are.
    gold, labels: int64 (N,): of words whose head is gold[m], every label but labels[m] scores
    cost[0] more; -1 for no such word.
    """

    arcs: np.ndarray
    kinds: np.ndarray
    words: np.ndarray
    on: np.ndarray
    right: np.ndarray
    table: np.ndarray
    lines: int
    stride: int
    width: int
    gold: np.ndarray
    labels: np.ndarray
    cost: np.ndarray


class LargerParts(NamedTuple):
    """The parts of one sentence of n words, N > n.

    siblings: what those of two modifiers score, None for nothing.
    allowed: bool (N, N), [h, m]: the arcs that a search may use; any, if it is empty.
    kinds: int64 (7,): the looks of kind k are kinds[k]:kinds[k + 1].
    words: uint32 (looks, 4, N), by look, place of the word in the part, word. on: the same, bool.
    right, below: uint32 (looks,): into the XOR if h < m, if g < h.
    table: (R,), numbers of any type, of which the first `cells` are in use.
    labelled: what labels add, where a search over children finds them with the tree; else None.
    """

    siblings: FactoredSiblings | None
    allowed: np.ndarray
    kinds: np.ndarray
    words: np.ndarray
    on: np.ndarray
    right: np.ndarray
    below: np.ndarray
    table: np.ndarray
    cells: int
    labelled: LabelParts | None


@inlined
def cell_of(key: np.uint32, cells: int) -> np.uint64:
    """The cell of a key."""
    return (np.uint64(key) * np.uint64(cells)) >> np.uint64(32)


def _sibling(siblings: Any, h: Any, m: Any, s: Any) -> float:
    """The score of two siblings, 0 where there are none of them."""
    raise TypeError("only compiled code can call this")


@overload(_sibling)
def _choose_sibling(siblings, h, m, s):
    if isinstance(siblings, types.NoneType):
        return lambda siblings, h, m, s: 0.0
    return lambda siblings, h, m, s: sibling_score(siblings, h, m, s)


def _end(siblings: Any, h: Any, m: Any) -> float:
    raise TypeError("only compiled code can call this")


@overload(_end)
def _choose_end(siblings, h, m):
    if isinstance(siblings, types.NoneType):
        return lambda siblings, h, m: 0.0
    return lambda siblings, h, m: siblings.ends[h, m]


@compiled
def end_blocks(siblings, head, modifier):
    """(A,) the score of each arc's modifier being its head's outermost one on its side."""
    ends = np.zeros(len(head))
    for a in range(1, len(head)):
        ends[a] = _end(siblings, head[a], modifier[a])
    return ends


@compiled
def _add_grandparents(h, m, heads, first, last, words, on, right, below, table, cells, out):
    """Add to out[q] the looks first..last - 1 of the arc h -> m under the q-th of h's heads."""
    for look in range(first, last):
        if not (on[look, 1, h] and on[look, 2, m]):
            continue
        key = words[look, 1, h] ^ words[look, 2, m]
        if h < m:
            key ^= right[look]
        for q in range(len(heads)):
            g = heads[q]
            if on[look, 0, g]:
                of_g = key ^ words[look, 0, g] ^ (below[look] if g < h else np.uint32(0))
                out[q] += table[cell_of(of_g, cells)]


@compiled
def _add_grand_siblings(
    h, m, heads, sibling, first, last, words, on, right, below, table, cells, block
):
    """Add to block[j, q] the looks of h -> m with the j-th inner sibling under the q-th head."""
    width = len(heads)
    keys = np.empty(width, np.uint32)
    is_on = np.empty(width, np.bool_)
    for look in range(first, last):
        if not (on[look, 1, h] and on[look, 3, m]):
            continue
        key = words[look, 1, h] ^ words[look, 3, m]
        if h < m:
            key ^= right[look]
        for q in range(width):
            g = heads[q]
            is_on[q] = on[look, 0, g]
            keys[q] = key ^ words[look, 0, g] ^ (below[look] if g < h else np.uint32(0))
        for j in range(len(sibling)):
            s = sibling[j]
            if on[look, 2, s]:
                of_s = words[look, 2, s]
                for q in range(width):
                    if is_on[q]:
                        block[j * width + q] += table[cell_of(keys[q] ^ of_s, cells)]


@compiled
def _inner_siblings(h, m, rank, side, beyond):
    """The possible inner siblings of m under h: nobody, then those by rank."""
    sibling = np.empty(rank + 1, np.int64)
    sibling[0] = NOBODY
    which = 0 if h < m else 1
    for r in range(rank):
        sibling[r + 1] = beyond[which, side[which, h] + r]
    return sibling


@compiled
def fill_grand_sibling_blocks(scores, candidates, start, parts, with_arcs, blocks):
    """Fill the blocks of grand-siblings.

    Args: start: of `grand_sibling_blocks`; with_arcs: whether what arcs and siblings score is
    folded in, besides grandparents and grand-siblings.
    Cost: a look for each of the numbers.
    """
    siblings, kinds = parts.siblings, parts.kinds
    words, on, right, below = parts.words, parts.on, parts.right, parts.below
    table, cells = parts.table, parts.cells
    head, modifier, first, rank = (
        candidates.head, candidates.modifier, candidates.first, candidates.rank
    )  # fmt: skip
    for a in range(1, len(head)):
        h, m = np.int64(head[a]), np.int64(modifier[a])
        heads = head[first[h] : first[h + 1]]
        sibling = _inner_siblings(h, m, rank[a], candidates.side, candidates.beyond)
        grand = np.zeros(len(heads))
        _add_grandparents(
            h, m, heads, kinds[GRANDPARENT], kinds[GRANDPARENT + 1], words, on, right, below, table,
            cells, grand,
        )  # fmt: skip
        block = blocks[start[a] : start[a + 1]]
        for j in range(len(sibling)):
            of_two = 0.0
            if with_arcs:
                s = sibling[j] if j > 0 else h
                of_two = scores[h, m] + _sibling(siblings, h, m, s)
            for q in range(len(heads)):
                block[j * len(heads) + q] = of_two + grand[q]
        _add_grand_siblings(
            h, m, heads, sibling, kinds[GRAND_SIBLING], kinds[GRAND_SIBLING + 1], words, on, right,
            below, table, cells, block,
        )  # fmt: skip


@compiled
def fill_sibling_blocks(scores, candidates, start, siblings, blocks):
    """Fill blocks of arcs and siblings alone: (rank + 1) numbers for each arc."""
    head, modifier, rank = candidates.head, candidates.modifier, candidates.rank
    for a in range(1, len(head)):
        h, m = np.int64(head[a]), np.int64(modifier[a])
        sibling = _inner_siblings(h, m, rank[a], candidates.side, candidates.beyond)
        for j in range(len(sibling)):
            s = sibling[j] if j > 0 else h
            blocks[start[a] + j] = scores[h, m] + _sibling(siblings, h, m, s)


@compiled
def fill_tri_sibling_blocks(scores, candidates, start, parts, blocks):
    """Fill the blocks of three siblings, with what arcs and two siblings score folded in.

    Args: start: of `tri_sibling_blocks`.
    """
    kinds, words, on, right = parts.kinds, parts.words, parts.on, parts.right
    head, modifier, rank = candidates.head, candidates.modifier, candidates.rank
    for a in range(1, len(head)):
        h, m = np.int64(head[a]), np.int64(modifier[a])
        sibling = _inner_siblings(h, m, rank[a], candidates.side, candidates.beyond)
        at = start[a]
        for j in range(len(sibling)):
            s = sibling[j] if j > 0 else h
            of_two = scores[h, m] + _sibling(parts.siblings, h, m, s)
            for i in range(max(j, 1)):
                blocks[at + i] = of_two
            for look in range(kinds[TRI_SIBLING], kinds[TRI_SIBLING + 1]):
                if not (on[look, 0, h] and on[look, 3, m] and on[look, 2, sibling[j]]):
                    continue
                key = words[look, 0, h] ^ words[look, 3, m] ^ words[look, 2, sibling[j]]
                if h < m:
                    key ^= right[look]
                for i in range(max(j, 1)):
                    t = sibling[i]
                    if on[look, 1, t]:
                        cell = cell_of(key ^ words[look, 1, t], parts.cells)
                        blocks[at + i] += parts.table[cell]
            at += max(j, 1)


@compiled
def _add_children(h, m, children, kind, kinds, words, on, right, table, cells, block):
    """Add to block[j] the looks of a kind at h -> m and the j-th child."""
    for look in range(kinds[kind], kinds[kind + 1]):
        if on[look, 0, h] and on[look, 1, m]:
            key = words[look, 0, h] ^ words[look, 1, m]
            if h < m:
                key ^= right[look]
            for j in range(len(children)):
                c = children[j]
                if on[look, 2, c]:
                    block[j] += table[cell_of(key ^ words[look, 2, c], cells)]


@compiled
def fill_child_blocks(scores, candidates, starts, parts, of_siblings, of_inner, of_outer):
    """Fill the blocks of an arc with a child, the arc's own score folded into the first.

    Args: starts: where the blocks of inner siblings, inner and outer grandchildren begin, of
    `grandchild_blocks`, for `n_labels` of the parts.
    Cost: a look for each of the rows; with labels, a line of the table.
    """
    kinds, words, on, right = parts.kinds, parts.words, parts.on, parts.right
    table, cells = parts.table, parts.cells
    head, modifier, rank = candidates.head, candidates.modifier, candidates.rank
    side, beyond, most = candidates.side, candidates.beyond, len(candidates.first)
    row, children = np.empty(most), np.empty(most, np.int64)
    for a in range(1, len(head)):
        h, m = np.int64(head[a]), np.int64(modifier[a])
        towards = 1 if h < m else 0  # the side of m where h is
        for kind in range(HEAD_CHILD, OUTER_GRANDCHILD + 1):
            block = (of_siblings, of_inner, of_outer)[kind - HEAD_CHILD]
            start = starts[kind - HEAD_CHILD]
            block = block[start[a] : start[a + 1]]
            count = len(block) // n_labels(parts.labelled)
            if kind == HEAD_CHILD:
                sibling = _inner_siblings(h, m, rank[a], side, beyond)
                for j in range(count):
                    children[j] = sibling[j]
                    s = sibling[j] if j > 0 else h
                    row[j] = scores[h, m] + _sibling(parts.siblings, h, m, s)
            else:
                which = towards if kind == INNER_GRANDCHILD else 1 - towards
                _first_modifiers(m, which, count, side, beyond, children)
                row[:count] = 0
            _add_children(h, m, children[:count], kind, kinds, words, on, right, table, cells, row)
            _spread_labels(h, m, children[:count], kind, row, parts.labelled, block)


def n_labels(labelled: LabelParts | None) -> int:
    """How many labels an arc has, 1 where they are not found with the tree."""
    raise TypeError("only compiled code can call this")


@overload(n_labels)
def _choose_n_labels(labelled):
    if isinstance(labelled, types.NoneType):
        return lambda labelled: 1
    return lambda labelled: labelled.width


def _spread_labels(h, m, children, kind, row, labelled, block):
    """Write the rows of a block, with what each label adds."""
    raise TypeError("only compiled code can call this")


@overload(_spread_labels)
def _choose_spread_labels(h, m, children, kind, row, labelled, block):
    def copy(h, m, children, kind, row, labelled, block):
        for j in range(len(children)):
            block[j] = row[j]

    def spread(h, m, children, kind, row, labelled, block):
        width = labelled.width
        for j in range(len(children)):
            for label in range(width):
                block[j * width + label] = row[j]
            if kind == HEAD_CHILD:
                costs = labelled.cost[0] if labelled.gold[m] == h else 0.0
                for label in range(width):
                    of_wrong = costs if label != labelled.labels[m] else 0.0
                    block[j * width + label] += labelled.arcs[h, m, label] + of_wrong
        _add_lines(
            h, m, children, labelled.kinds[kind], labelled.kinds[kind + 1], labelled.words,
            labelled.on, labelled.right, labelled.table, labelled.lines, labelled.stride, width,
            block,
        )  # fmt: skip

    return copy if isinstance(labelled, types.NoneType) else spread


@compiled
def _add_lines(h, m, children, first, last, words, on, right, table, lines, stride, width, block):
    """Add to each row of a block the lines of the looks first .. last - 1."""
    for look in range(first, last):
        if on[look, 0, h] and on[look, 1, m]:
            key = words[look, 0, h] ^ words[look, 1, m]
            if h < m:
                key ^= right[look]
            for j in range(len(children)):
                c = children[j]
                if on[look, 2, c]:
                    at = cell_of(key ^ words[look, 2, c], lines) * np.uint64(stride)
                    to = np.uint64(j * width)
                    for label in range(width):
                        block[to + np.uint64(label)] += table[at + np.uint64(label)]


@compiled
def _first_modifiers(m, which, count, side, beyond, children):
    """Fill in nobody, then the nearest modifiers of m on a side, `count` in all."""
    children[0] = NOBODY
    for j in range(1, count):
        children[j] = beyond[which, side[which, m] + j - 1]
