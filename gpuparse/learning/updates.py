"""Update rules: from one violated constraint to a step along gold minus predicted features."""

import numpy as np

from gpuparse.compiled import compiled

PERCEPTRON, MIRA = 0, 1
RULES = {"perceptron": PERCEPTRON, "mira": MIRA}  # name in the config -> rule


@compiled
def step_size(rule, cost, margin, squared_norm, cap):
    """How far to move along f(x, gold) - f(x, predicted).

    Args:
        rule: PERCEPTRON: one whole step (Collins 2002). MIRA: the smallest step after which
            gold scores at least `cost` above the prediction (McDonald & Pereira 2006, section 4).
        cost: what the prediction's mistakes cost, in words.
        margin: score of gold minus score of the prediction, before the step.
        squared_norm: squared length of the difference of the feature vectors.
        cap: the largest step allowed; infinity for none.
    Returns:
        The step, 0 where nothing is to be changed.
    """
    if squared_norm == 0.0:
        return 0.0
    if rule == PERCEPTRON:
        return 1.0 if cost > 0.0 else 0.0
    return np.float64(min(cap, max(0.0, (cost - margin) / squared_norm)))
