"""MIRA: online large-margin learning of trees, one sentence at a time, without gradients.

McDonald, Crammer & Pereira (2005), figure 3, over N epochs of T sentences (x_t, y_t):

    w = 0, v = 0
    for n in 1..N:
        for t in 1..T:
            w' = the w nearest to w(i) with
                 s(x_t, y_t) - s(x_t, y) >= L(y_t, y)  for all y in best_k(x_t; w(i))
            w(i + 1) = w', v = v + w(i + 1)
    return v / (N T)

s(x, y) = w . f(x, y) is the score of a tree, f(x, y) its features, L(y_t, y) its wrong words, and
best_k the k best trees under w(i) (section 2.3.1). Each wrong tree y_j gives one constraint:

    difference  d_j = f(x_t, y_t) - f(x_t, y_j)     sparse: rows of the weights, and counts
    cost        L_j = L(y_t, y_j)
    margin      m_j = w(i) . d_j

The nearest w is w(i) + sum_j a_j d_j with Lagrange multipliers a_j >= 0, the steps, which follow
from costs, margins and the Gram matrix G_ij = d_i . d_j: for one constraint
a = max(0, (L - m) / |d|^2), for several by Hildreth's method. `max_step` bounds each a_j.

Who does the rest: `inference` finds the k best trees, `scorers/linear/embedding_bag.py` scores
their parts, `learning/averaged.py` has w and v. `learning/on_device.py` (torch) takes the steps of
this module; native code takes the same ones (native/updates.h, native/hildreth.h).
`learning/textbook.py` is the loop above over named features; both engines are compared with it.

    rule                constraints                       change of the weights
    perceptron          the best tree                     one whole step, if it is wrong
    mira                the k best trees                  the smallest that meets all
    mira-factored       every arc beside a gold arc       the smallest that meets all
    conditional         all trees, by their probability   up the gradient of the gold tree's

The last two rules search for no tree; native code alone has them (section 2.3.2 of the paper is
native/learn_factored.h; native/learn_conditional.h).
"""

from typing import NamedTuple

import numpy as np

from gpuparse.config import RULES, RunConfig

PERCEPTRON, MIRA, MIRA_FACTORED, CONDITIONAL = range(len(RULES))

HILDRETH_TOLERANCE = 1e-9  # violation, in units of cost, at which the search ends
MAX_HILDRETH_STEPS = 10_000


class UpdateRule(NamedTuple):
    """The rule of a run: the struct UpdateRule of native/api/learning.h.

    cost: added to the score of each wrong arc in the search, 0 for plain search.
    max_step: C, the aggressiveness: the largest step allowed; infinity for none.
    """

    rule: int
    cost: float
    max_step: float


def update_rule(config: RunConfig) -> UpdateRule:
    """The update rule of a run."""
    learning = config.learning
    number = list(RULES).index(learning.rule)
    return UpdateRule(number, float(learning.cost_augmented), learning.max_step or np.inf)


def find_steps(
    rule: UpdateRule, costs: np.ndarray, margins: np.ndarray, gram: np.ndarray
) -> np.ndarray:
    """The steps along the differences of one sentence, (k,) float64.

    Args:
        rule: `perceptron` takes one whole step along the first difference if its tree is wrong
            (Collins 2002); `mira` the smallest change that meets all constraints.
        costs: (k,) wrong words of each tree found; a tree that is not wrong has no features.
        margins: (k,) score of the gold tree less that of each tree found, before the step.
        gram: (k, k) products of the differences of the feature vectors.
    """
    if rule.rule == PERCEPTRON:
        is_step = (np.arange(len(costs)) == 0) & (costs > 0.0) & (gram[0, 0] > 0.0)
        return is_step.astype(np.float64)
    if len(costs) == 1:  # McDonald & Pereira (2006), section 4
        squared_norm = gram[0] if gram[0, 0] > 0.0 else np.inf
        return np.clip((costs - margins) / squared_norm, 0.0, rule.max_step)
    return hildreth(gram, costs - margins, rule.max_step)


def hildreth(gram: np.ndarray, missing: np.ndarray, max_step: float = np.inf) -> np.ndarray:
    """The steps a (k,) of the smallest change sum_j a_j d_j with d_j . change >= missing[j].

    Each turn solves the constraint that is violated most, as if it were the only one: the closed
    form of one constraint, from the steps of the others.

    Args:
        gram: (k, k) d_i . d_j; a difference without features has a row of zeros, and no step.
        missing: (k,) cost less margin, before the change.
        max_step: no step is longer.
    Cost: O(k) a turn, at most MAX_HILDRETH_STEPS turns; contradictory constraints end there.
    Source: Censor & Zenios (1997); McDonald, Crammer & Pereira (2005), section 2.3.1.
    """
    curvature, steps = gram.diagonal(), np.zeros(len(missing))
    unmet = missing.astype(np.float64)  # missing - gram @ steps
    has_features = curvature > 0.0
    lengths = np.where(has_features, curvature, 1.0)
    for _ in range(MAX_HILDRETH_STEPS):
        moves = np.clip(steps + unmet / lengths, 0.0, max_step) - steps
        gains = np.where(has_features, np.abs(moves) * curvature, 0.0)
        j = int(gains.argmax())
        if gains[j] <= HILDRETH_TOLERANCE:
            break
        steps[j] += moves[j]
        unmet -= moves[j] * gram[j]
    return steps


def steps_in_turn(
    rule: UpdateRule, costs: np.ndarray, margins: np.ndarray, gram: np.ndarray
) -> np.ndarray:
    """The steps of B sentences one after the other, (B, k) float64.

    The steps of each sentence are computed with the weights that the steps before it have moved.

    Args:
        costs, margins: (B, k) float64; the margins before any step.
        gram: (B, k, B, k) float64: products of the differences of the feature vectors.
    Cost: O((B k)^2).
    """
    steps, now = np.zeros(costs.shape), margins.copy()
    for b in range(len(costs)):
        steps[b] = find_steps(rule, costs[b], now[b], gram[b, :, b])
        now[b + 1 :] += np.tensordot(steps[b], gram[b, :, b + 1 :], 1)
    return steps
