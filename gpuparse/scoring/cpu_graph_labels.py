"""Compiled labelling of graphs: the label of every arc, where a word may have several heads."""

from gpuparse.compiled import compiled
from gpuparse.features.label_plan import NONE
from gpuparse.scoring.cpu_labels import (
    AFTER,
    BEFORE,
    GRANDPARENT,
    HEAD,
    OTHER,
    fill_lines,
    fill_positions,
    sum_lines,
)


@compiled
def turn_to_arc(heads, start, n, h, m, positions):
    """Make row m, as `fill_positions` left it or another arc into m, that of the arc h -> m.

    A word with one head keeps its row, and its label is that of the tree of primary arcs.
    """
    if positions[m, HEAD] == h:
        return
    positions[m, HEAD] = h
    positions[m, GRANDPARENT] = heads[start + h] if h > 0 else NONE
    positions[m, OTHER] = heads[start + m] if heads[start + m] != h else NONE
    before, after = m - 1, m + 1
    while before > 0 and heads[start + before] != h:
        before -= 1
    while after <= n and heads[start + after] != h:
        after += 1
    positions[m, BEFORE] = before if before > 0 else NONE
    positions[m, AFTER] = after if after <= n else NONE


@compiled
def best_permitted(scores, permitted, left_out):
    """The permitted label with the highest score, the first of equals, `left_out` not counted.

    Returns -1 where there is none.
    """
    best = -1
    for label in range(len(scores)):
        if permitted[label] and label != left_out and (best < 0 or scores[label] > scores[best]):
            best = label
    return best


@compiled
def label_graphs(
    values, starts, lengths, heads, arc_starts, arc_heads, plan, weights, n_lines, may_be_primary,
    scratch, labels,
):  # fmt: skip
    """Fill labels (A,) of every arc of every sentence: the first of the best labels.

    Args:
        heads: (T,) primary heads by place.
        arc_starts, arc_heads: (T + 1,), (A,): the word at place t has the heads
            arc_heads[arc_starts[t] : arc_starts[t + 1]].
        weights: (n_lines * labels,), a line of one weight a label for each hash value.
        may_be_primary: (labels,) bool: labels that arcs from primary heads may have.
    """
    width = len(scratch.scores)
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        fill_positions(heads, start, n, scratch.positions)
        for m in range(1, n + 1):
            for arc in range(arc_starts[start + m], arc_starts[start + m + 1]):
                turn_to_arc(heads, start, n, arc_heads[arc], m, scratch.positions)
                fill_lines(values, start, m, plan, n_lines, width, scratch.positions, scratch.lines)
                sum_lines(weights, scratch.lines, scratch.scores)
                if scratch.positions[m, OTHER] == NONE:
                    labels[arc] = best_permitted(scratch.scores, may_be_primary, -1)
                else:
                    labels[arc] = scratch.scores.argmax()
