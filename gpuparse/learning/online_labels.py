"""Learning of labels, compiled: the online step of `online`, one word's arc at a time.

McDonald, Lerman & Pereira (2006): a second stage labels the arcs of a finished tree. Each word is
one constraint: its gold label is to score at least 1 above the best other label.
"""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.learning.updates import PERCEPTRON, step_size
from gpuparse.scoring.cpu_labels import fill_lines, fill_positions, sum_lines


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
    total = 0.0
    for f in range(len(lines)):
        if lines[f] >= 0:
            for g in range(len(lines)):
                total += lines[f] == lines[g]
    return 2.0 * total


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
            margin = np.float64(scratch.scores[right]) - np.float64(scratch.scores[guess])
            wrong += margin <= 0
            squared_norm = _squared_norm(scratch.lines)
            cost = 1.0 if rule != PERCEPTRON or margin <= 0 else 0.0
            step = step_size(rule, cost, margin, squared_norm, cap)
            if step > 0.0:
                for line in scratch.lines:
                    if line >= 0:
                        weights[line + right] += step
                        weights[line + guess] -= step
                        weighted[line + right] += (seen + b) * step
                        weighted[line + guess] -= (seen + b) * step
    return wrong
