"""Learning of labels, compiled: the online step of `online`, one word's arc at a time.

McDonald, Lerman & Pereira (2006): a second stage labels the arcs of a finished tree, or of a graph
where words have several heads. Each arc is one constraint: its gold label is to score at least 1
above the best other label that labelling could choose there.
"""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.features.label_plan import NONE
from gpuparse.learning.updates import CONDITIONAL, PERCEPTRON, step_size
from gpuparse.scoring.cpu_graph_labels import best_permitted, turn_to_arc
from gpuparse.scoring.cpu_labels import OTHER, fill_lines, fill_positions, sum_lines


@compiled
def _best_other(scores, gold):
    """The label other than gold with the highest score, the first of equals."""
    best = 1 if gold == 0 else 0
    for label in range(len(scores)):
        if label != gold and scores[label] > scores[best]:
            best = label
    return best


@compiled
def _squared_norm(lines):
    """Squared length of gold minus guessed features: lines that coincide count together."""
    ones, pairs = 0, 0
    for f in range(len(lines)):
        if lines[f] >= 0:
            ones += 1
            for g in range(f):
                pairs += lines[f] == lines[g]
    return 2.0 * (ones + 2 * pairs)


@compiled
def _learn_softly(scores, lines, right, weights, weighted, seen, step):
    """A step up the gradient of the gold label's log-probability; scores become probabilities."""
    scores -= np.max(scores)
    np.exp(scores, scores)
    scores /= np.sum(scores)
    for label in range(len(scores)):
        change = step * ((label == right) - np.float64(scores[label]))
        for line in lines:
            if line >= 0:
                weights[line + label] += change
                weighted[line + label] += seen * change


@compiled
def _learn_arc(scores, lines, right, guess, weights, weighted, seen, rule, cap):
    """Learn from one arc, `guess` being the best wrong label; whether it scores as high."""
    margin = np.float64(scores[right]) - np.float64(scores[guess])
    if rule == CONDITIONAL:
        _learn_softly(scores, lines, right, weights, weighted, seen, cap)
        return margin <= 0
    cost = 1.0 if rule != PERCEPTRON or margin <= 0 else 0.0
    step = step_size(rule, cost, margin, _squared_norm(lines), cap)
    if step > 0.0:
        for line in lines:
            if line >= 0:
                weights[line + right] += step
                weights[line + guess] -= step
                weighted[line + right] += seen * step
                weighted[line + guess] -= seen * step
    return margin <= 0


@compiled
def learn_labels(
    values, starts, lengths, heads, gold, plan, weights, weighted, n_lines, seen, rule, cap, scratch
):  # fmt: skip
    """Learn from the sentences one after the other.

    Args:
        heads, gold: (T,) gold trees and labels by place; a word with the label -1 is passed over.
        weights, weighted: (n_lines * labels,) float32, changed in place, as in `online`.
        seen: sentences learned from before.
    Returns:
        Words whose gold label did not score highest.
    """
    wrong, width = 0, len(scratch.scores)
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        fill_positions(heads, start, n, scratch.positions)
        for m in range(1, n + 1):
            right = gold[start + m]
            if right < 0 or width == 1:
                continue
            fill_lines(values, start, m, plan, n_lines, width, scratch.positions, scratch.lines)
            sum_lines(weights, scratch.lines, scratch.scores)
            guess = _best_other(scratch.scores, right)
            wrong += _learn_arc(
                scratch.scores, scratch.lines, right, guess, weights, weighted, seen + b, rule, cap
            )  # fmt: skip
    return wrong


@compiled
def learn_graph_labels(
    values, starts, lengths, heads, arc_starts, arc_heads, gold, plan, weights, weighted, n_lines,
    seen, may_be_primary, rule, cap, scratch,
):  # fmt: skip
    """As `learn_labels`, from every arc of gold graphs; a tree teaches what it teaches there.

    The best wrong label of a primary arc is sought among those that such an arc may have, as
    labelling does: learning is to part right labels from those that it could mistake them for.

    Args:
        heads: (T,) gold primary heads by place.
        arc_starts, arc_heads: (T + 1,), (A,) gold heads of the words, as in `label_graphs`.
        gold: (A,) gold labels; an arc with the label -1 is passed over.
        may_be_primary: (labels,) bool: labels that arcs from primary heads may have.
    Returns:
        Arcs whose gold label did not score highest.
    """
    wrong, width = 0, len(scratch.scores)
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        fill_positions(heads, start, n, scratch.positions)
        for m in range(1, n + 1):
            for arc in range(arc_starts[start + m], arc_starts[start + m + 1]):
                right = gold[arc]
                if right < 0 or width == 1:
                    continue
                turn_to_arc(heads, start, n, arc_heads[arc], m, scratch.positions)
                fill_lines(values, start, m, plan, n_lines, width, scratch.positions, scratch.lines)
                sum_lines(weights, scratch.lines, scratch.scores)
                if scratch.positions[m, OTHER] == NONE:
                    guess = best_permitted(scratch.scores, may_be_primary, right)
                else:
                    guess = _best_other(scratch.scores, right)
                if guess >= 0:
                    wrong += _learn_arc(
                        scratch.scores, scratch.lines, right, guess, weights, weighted, seen + b,
                        rule, cap,
                    )  # fmt: skip
    return wrong
