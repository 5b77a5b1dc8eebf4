"""Update rules: from the constraints of one sentence to steps along gold minus found features.

    rule                constraints                       change of the weights
    perceptron          the best tree                     one whole step, if it is wrong
    mira                the k best trees                  the smallest that meets all
    passive-aggressive  the k best trees                  as mira, violations squared cost C
    mira-factored       every arc beside a gold arc       the smallest that meets all
    conditional         all trees, by their probability   up the gradient of the gold tree's

The first three are `find_steps`. A constraint says that gold is to score at least its cost above
one wrong tree. The last two see no search: `online_factored`, `online_conditional`.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.learning.hildreth import hildreth

PERCEPTRON, MIRA, PASSIVE_AGGRESSIVE, FACTORED, CONDITIONAL = range(5)


class Rule(NamedTuple):
    """What a rule of the config is, and what it needs."""

    number: int
    takes_k_best: bool
    needs_max_step: bool
    searches: bool  # whether it learns from trees that were searched for; if not, of first order


RULES = {
    "perceptron": Rule(PERCEPTRON, False, False, True),
    "mira": Rule(MIRA, True, False, True),
    "passive-aggressive": Rule(PASSIVE_AGGRESSIVE, True, True, True),
    "mira-factored": Rule(FACTORED, False, False, False),
    "conditional": Rule(CONDITIONAL, False, True, False),
}


@compiled
def step_size(rule, cost, margin, squared_norm, cap):
    """How far to move along f(x, gold) - f(x, found), of one constraint.

    Args:
        rule: PERCEPTRON: one whole step (Collins 2002). PASSIVE_AGGRESSIVE: number II of Crammer et
            al. (2006). All others: the smallest step after which gold scores at least `cost` above
            what was found (McDonald & Pereira 2006, section 4), with a cap passive-aggressive I.
        cost: what the mistakes cost, in words.
        margin: score of gold minus score of what was found, before the step.
        squared_norm: squared length of the difference of the feature vectors.
        cap: C, the aggressiveness: the largest step allowed; infinity for none.
    Returns:
        The step, 0 where nothing is to be changed.
    """
    if squared_norm == 0.0:
        return 0.0
    if rule == PERCEPTRON:
        return 1.0 if cost > 0.0 else 0.0
    if rule == PASSIVE_AGGRESSIVE:
        return np.float64(max(0.0, (cost - margin) / (squared_norm + 0.5 / cap)))
    return np.float64(min(cap, max(0.0, (cost - margin) / squared_norm)))


@compiled
def find_steps(rule, costs, margins, gram, cap, steps):
    """As `step_size` for K constraints together: fill steps[j].

    Args:
        rule: PERCEPTRON looks at the first alone. MIRA: McDonald, Crammer & Pereira (2005), section
            2.3.1, each step at most `cap`; PASSIVE_AGGRESSIVE: violations squared cost `cap`.
        costs, margins, steps: (K,) float64.
        gram: (K, K) float64: products of the differences of the feature vectors.
    """
    if len(costs) == 1 or rule == PERCEPTRON:
        steps[:] = 0.0
        steps[0] = step_size(rule, costs[0], margins[0], gram[0, 0], cap)
    elif rule == PASSIVE_AGGRESSIVE:
        hildreth(gram, costs - margins, np.inf, 0.5 / cap, steps)
    else:
        hildreth(gram, costs - margins, cap, 0.0, steps)


@compiled
def steps_in_turn(rule, costs, margins, gram, cap, steps):
    """As `step_size` for B sentences one after the other: fill steps[b].

    Each step sees the weights that the steps before it have moved.

    Args:
        rule, cap: as there.
        costs, margins, steps: (B,) float64; the margins before any step.
        gram: (B, B) float64: products of the differences of the feature vectors.
    Cost: O(B^2).
    """
    for b in range(len(costs)):
        margin = margins[b]
        for a in range(b):
            margin += steps[a] * gram[b, a]
        steps[b] = step_size(rule, costs[b], margin, gram[b, b], cap)
