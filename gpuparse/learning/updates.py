"""Update rules: from the constraints of one sentence to steps along gold minus found features.

    rule                constraints                       change of the weights
    perceptron          the best tree                     one whole step, if it is wrong
    mira                the k best trees                  the smallest that meets all
    passive-aggressive  the k best trees                  as mira, violations squared cost C
    mira-factored       every arc beside a gold arc       the smallest that meets all
    conditional         all trees, by their probability   up the gradient of the gold tree's

A constraint says that gold is to score at least its cost more than one wrong tree. The last two
rules search for no tree. Native code has all rules (native/updates.h); the steps of the first three
for one constraint a sentence are here too, for the torch engine.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.config import RunConfig

PERCEPTRON, MIRA, PASSIVE_AGGRESSIVE, FACTORED, CONDITIONAL = range(5)


class Rule(NamedTuple):
    """The number of a rule in native code, and what it needs."""

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


class UpdateRule(NamedTuple):
    """The rule of a run: the struct UpdateRule of native/api/learning.h.

    cost: what a mistake adds to the scores that are searched with, 0 for plain search.
    max_step: C, the aggressiveness: the largest step allowed; infinity for none.
    """

    rule: int
    cost: float
    max_step: float


def update_rule(config: RunConfig) -> UpdateRule:
    """The update rule of a run."""
    learning = config.learning
    return UpdateRule(
        RULES[learning.rule].number, float(learning.cost_augmented), learning.max_step or np.inf
    )


def step_size(rule: UpdateRule, cost: float, margin: float, squared_norm: float) -> float:
    """How far to move along f(x, gold) - f(x, found), of one constraint.

    Args:
        rule: perceptron: one whole step (Collins 2002). Passive-aggressive: number II of Crammer et
            al. (2006). MIRA: the smallest step after which gold scores at least `cost` above what
            was found (McDonald & Pereira 2006, section 4); with a largest step it is number I.
        cost: of the mistakes, in words.
        margin: score of gold minus score of what was found, before the step.
        squared_norm: squared length of the difference of the feature vectors.
    Returns:
        The step, 0 where nothing is to be changed.
    """
    if squared_norm == 0.0:
        return 0.0
    if rule.rule == PERCEPTRON:
        return 1.0 if cost > 0.0 else 0.0
    if rule.rule == PASSIVE_AGGRESSIVE:
        return max(0.0, (cost - margin) / (squared_norm + 0.5 / rule.max_step))
    return min(rule.max_step, max(0.0, (cost - margin) / squared_norm))


def steps_in_turn(
    rule: UpdateRule, costs: np.ndarray, margins: np.ndarray, gram: np.ndarray
) -> np.ndarray:
    """The steps of B sentences one after the other, (B,) float64.

    Each step is computed with the weights that the steps before it have moved.

    Args:
        costs, margins: (B,) float64; the margins before any step.
        gram: (B, B) float64: products of the differences of the feature vectors.
    Cost: O(B^2).
    """
    steps, now = np.zeros(len(costs)), margins.copy()
    for b in range(len(costs)):
        steps[b] = step_size(rule, float(costs[b]), float(now[b]), float(gram[b, b]))
        now[b + 1 :] += steps[b] * gram[b + 1 :, b]
    return steps
