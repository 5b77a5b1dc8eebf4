"""Step sizes against the definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse import native
from gpuparse.learning.updates import (
    MIRA,
    PASSIVE_AGGRESSIVE,
    PERCEPTRON,
    UpdateRule,
    step_size,
)
from tests.oracles.quadratic import smallest_steps
from tests.strategies import some

NUMBERS = st.floats(-100, 100)


def find_steps(
    rule: int, costs: np.ndarray, margins: np.ndarray, gram: np.ndarray, cap: float
) -> np.ndarray:
    """The steps of native code."""
    steps = np.full(len(costs), np.nan)
    native.call("find_update_steps", UpdateRule(rule, 0.0, cap), costs, margins, gram, steps)
    return steps


def step_of(rule: int, cost: float, margin: float, squared_norm: float, cap: float) -> float:
    """The step for one constraint, which native code finds too."""
    step = step_size(UpdateRule(rule, 0.0, cap), cost, margin, squared_norm)
    found = find_steps(rule, np.array([cost]), np.array([margin]), np.array([[squared_norm]]), cap)
    assert found.tolist() == [step]
    return step


@settings(deadline=None)
@given(st.integers(1, 40), NUMBERS, st.floats(0.5, 1e4))
def test_perceptron_takes_whole_steps_for_mistakes(
    cost: int, margin: float, squared_norm: float
) -> None:
    assert step_of(PERCEPTRON, float(cost), margin, squared_norm, math.inf) == 1.0
    assert step_of(PERCEPTRON, 0.0, margin, squared_norm, math.inf) == 0.0


@settings(deadline=None)
@given(st.integers(1, 40), NUMBERS, st.integers(1, 1000))
def test_mira_makes_the_margin_the_cost_and_no_more(
    cost: int, margin: float, squared_norm: int
) -> None:
    step = step_of(MIRA, float(cost), margin, float(squared_norm), math.inf)
    if margin >= cost:
        assert step == 0.0
    else:
        assert margin + step * squared_norm == pytest.approx(cost)


@settings(deadline=None)
@given(st.integers(1, 40), NUMBERS, st.integers(1, 1000), st.floats(1e-3, 2))
def test_no_step_is_longer_than_the_cap(
    cost: int, margin: float, squared_norm: int, cap: float
) -> None:
    free = step_of(MIRA, float(cost), margin, float(squared_norm), math.inf)
    assert step_of(MIRA, float(cost), margin, float(squared_norm), cap) == min(free, cap)


@settings(deadline=None)
@given(st.data())
def test_mira_is_the_shortest_change_that_meets_the_constraint(data: st.DataObject) -> None:
    """Any other change of the weights that meets it is at least as long."""
    vectors = st.lists(st.integers(-3, 3), min_size=4, max_size=4).map(np.array)
    difference = data.draw(vectors.filter(lambda v: v.any()))
    weights, other = data.draw(vectors), data.draw(vectors)
    cost = data.draw(st.integers(1, 9))
    margin, squared_norm = float(weights @ difference), float(difference @ difference)
    step = step_of(MIRA, float(cost), margin, squared_norm, math.inf)
    change = step * difference
    assert (weights + change) @ difference >= cost - 1e-9
    if (weights + other) @ difference >= cost:
        assert other @ other >= change @ change - 1e-9


@pytest.mark.parametrize("rule", [PERCEPTRON, MIRA, PASSIVE_AGGRESSIVE])
def test_nothing_moves_along_no_difference(rule: int) -> None:
    assert step_of(rule, 3.0, 0.0, 0.0, 1.0) == 0.0


@settings(deadline=None)
@given(st.integers(1, 40), NUMBERS, st.integers(1, 1000), st.floats(1e-3, 10))
def test_passive_aggressive_weighs_the_step_against_what_is_missing(
    cost: int, margin: float, squared_norm: int, cap: float
) -> None:
    """No other step along the difference makes length^2 / 2 + C violation^2 smaller."""

    def objective(step: float) -> float:
        unmet = max(0.0, cost - margin - step * squared_norm)
        return step * step * squared_norm / 2 + cap * unmet * unmet

    step = step_of(PASSIVE_AGGRESSIVE, float(cost), margin, float(squared_norm), cap)
    assert step >= 0
    assert (step > 0) == (cost > margin)
    for other in (step * 0.99, step * 1.01, step + 1e-3, max(0.0, step - 1e-3), 0.0):
        assert objective(step) <= objective(other) * (1 + 1e-9) + 1e-9


def constraints(seed: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(differences, costs, margins) of k constraints that a change can meet."""
    rng = np.random.default_rng(seed)
    differences = rng.integers(-2, 3, (k, 8)).astype(float)
    costs = rng.integers(0, 6, k).astype(float)
    return differences, costs, costs - differences @ rng.normal(0, 1, 8)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize(
    ("rule", "cap"), [(MIRA, math.inf), (MIRA, 0.2), (PASSIVE_AGGRESSIVE, 1.0)]
)
def test_steps_of_several_constraints_are_the_smallest_change(
    k: int, rule: int, cap: float
) -> None:
    moved = 0
    for seed in range(some(1000)):
        differences, costs, margins = constraints(seed, k)
        gram = differences @ differences.T
        steps = find_steps(rule, costs, margins, gram, cap)
        limits = (math.inf, 0.5 / cap) if rule == PASSIVE_AGGRESSIVE else (cap, 0.0)
        expected = smallest_steps(gram[np.newaxis], (costs - margins)[np.newaxis], *limits)[0]
        np.testing.assert_allclose(steps @ differences, expected @ differences, atol=1e-6)
        moved += np.count_nonzero(steps) == k
    assert moved > 1


@pytest.mark.parametrize("k", [1, 3])
def test_the_perceptron_looks_at_the_first_constraint_alone(k: int) -> None:
    _, costs, margins = constraints(1, k)
    for cost in (0.0, 2.0):
        costs[0] = cost
        steps = find_steps(PERCEPTRON, costs, margins, np.eye(k), math.inf)
        assert steps.tolist() == [float(cost > 0)] + [0.0] * (k - 1)


@pytest.mark.parametrize(
    ("rule", "cap"), [(MIRA, math.inf), (MIRA, 0.1), (PASSIVE_AGGRESSIVE, 2.0)]
)
def test_constraints_without_features_change_nothing_for_the_others(rule: int, cap: float) -> None:
    """Where there are fewer than k trees, the step is that of one constraint."""
    for seed in range(50):
        differences, costs, margins = constraints(seed, 1)
        gram = np.zeros((3, 3))
        gram[0, 0] = differences[0] @ differences[0]
        alone = find_steps(rule, costs, margins, gram[:1, :1].copy(), cap)
        among = find_steps(rule, np.append(costs, [0, 0]), np.append(margins, [0, 0]), gram, cap)
        assert among.tolist() == [*alone.tolist(), 0.0, 0.0]
