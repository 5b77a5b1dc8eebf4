"""Labels of the modifiers of one head, at most one from each of some sets: exact, compiled.

The labels that belong to the same sets are one class, and only the best label of a class counts. A
class is the set of its sets, as bits: the labels of no set at all have the mask 0. Modifiers are
gone through one by one, and for every set of used-up sets the best score is kept.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.head_automata import BARRED, FORCED


class LabelLimits(NamedTuple):
    """The classes of labels of one sentence with A arcs, and what was chosen last.

    masks: int64 (D,), of the classes; D = 0: there are no labels. scores: float64 (A, D), of the
    best label of each class, -inf for none. as_labelled: int8 (A,), 1 for the arcs that are chosen.
    values: float64 (N + 1, S), by how many arcs have been gone through and by used sets; choices:
    int16 (N + 1, S), the class that the last arc took, -1 if the arc was not taken. classes: int64
    (N,), of the words' labels in the tree scored last.
    """

    masks: np.ndarray
    scores: np.ndarray
    as_labelled: np.ndarray
    values: np.ndarray
    choices: np.ndarray
    classes: np.ndarray


@compiled
def make_label_limits(masks: np.ndarray, scores: np.ndarray, n_arcs: int, n: int) -> LabelLimits:
    """Limits on labels of a sentence; nothing is chosen yet.

    Args: masks (D,), scores (A, D).
    """
    n_sets = 1
    for d in range(len(masks)):
        while n_sets <= masks[d]:
            n_sets *= 2
    return LabelLimits(
        masks,
        scores,
        np.zeros(n_arcs, np.int8),
        np.empty((n + 1, n_sets)),
        np.empty((n + 1, n_sets), np.int16),
        np.zeros(n + 1, np.int64),
    )


@compiled
def _take_arc(
    a: int,
    price: float,
    may_take: bool,
    may_leave: bool,
    before: np.ndarray,
    after: np.ndarray,
    choice: np.ndarray,
    masks: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Best scores after an arc, by used sets, from those before it."""
    n_sets = len(before)
    for used in range(n_sets):
        after[used] = before[used] if may_leave else -np.inf
        choice[used] = -1
    if may_take:
        for d in range(len(masks)):
            gain, mask = scores[a, d] - price, masks[d]
            for used in range(n_sets):
                if used & mask == 0 and before[used] + gain > after[used | mask]:
                    after[used | mask] = before[used] + gain
                    choice[used | mask] = d


@compiled
def solve_label_limits(
    limits: LabelLimits,
    n: int,
    side: np.ndarray,
    chain: np.ndarray,
    state: np.ndarray,
    prices: np.ndarray,
) -> float:
    """For every head the best modifiers and labels: fills as_labelled.

    Args: side, chain: of the automata; state (A,): of the arcs; prices (A,).
    Returns: the sum of all scores, -inf if there is no choice.
    """
    masks, scores, taken = limits.masks, limits.scores, limits.as_labelled
    values, choices = limits.values, limits.choices
    taken[:] = 0
    total = 0.0
    for h in range(n + 1):
        values[0] = -np.inf
        values[0, 0] = 0.0
        count = 0
        for s in range(2):
            for k in range(side[s, h], side[s, h + 1]):
                a = chain[s, k]
                _take_arc(
                    a, prices[a], state[a] != BARRED, state[a] != FORCED, values[count],
                    values[count + 1], choices[count + 1], masks, scores,
                )  # fmt: skip
                count += 1
        used = np.argmax(values[count])
        total += values[count, used]
        if not total > -np.inf:
            return -np.inf
        for s in range(1, -1, -1):
            for k in range(side[s, h + 1] - 1, side[s, h] - 1, -1):
                d = choices[count, used]
                if d >= 0:
                    taken[chain[s, k]] = 1
                    used -= masks[d]
                count -= 1
    return total


@compiled
def label_head(limits: LabelLimits, n: int, number: np.ndarray, heads: np.ndarray, h: int) -> float:
    """The best labels of the modifiers of h in a tree; fills their classes.

    Returns: the sum of their scores, -inf if the limits leave none.
    """
    masks, values, choices = limits.masks, limits.values, limits.choices
    values[0] = -np.inf
    values[0, 0] = 0.0
    count = 0
    for m in range(1, n + 1):
        if heads[m] == h:
            _take_arc(
                number[h, m], 0.0, True, False, values[count], values[count + 1],
                choices[count + 1], masks, limits.scores,
            )  # fmt: skip
            count += 1
    used = np.argmax(values[count])
    best = values[count, used]
    if best > -np.inf:
        for m in range(n, 0, -1):
            if heads[m] == h:
                d = choices[count, used]
                limits.classes[m] = d
                used -= masks[d]
                count -= 1
    return best
