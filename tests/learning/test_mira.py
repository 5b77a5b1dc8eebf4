"""Steps of MIRA and the perceptron against the smallest change, found by trying all constraints."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.learning.mira import MIRA, PERCEPTRON, UpdateRule, find_steps, hildreth
from tests.oracles.quadratic import smallest_steps
from tests.strategies import some

N_PROBLEMS, N_FEATURES = 1500, 7
MANY_FEATURES = 80  # as the trees of a sentence have
NUMBERS = st.floats(-100, 100)


class Problems(NamedTuple):
    differences: np.ndarray  # (P, K, F)
    gram: np.ndarray  # (P, K, K)
    missing: np.ndarray  # (P, K)


def problems(k: int, seed: int, *, singular: bool, n_features: int = N_FEATURES) -> Problems:
    """Random small ones; there is a change, of any size, that meets all constraints of each."""
    rng = np.random.default_rng(seed)
    differences = rng.integers(-2, 3, (N_PROBLEMS, k, n_features)).astype(float)
    if singular:
        for j in range(1, k):  # one as before, the sum of the first two, or without features
            kind = rng.integers(0, 4, N_PROBLEMS)
            differences[kind == 1, j] = differences[kind == 1, j // 2]
            differences[kind == 2, j] = differences[kind == 2, :2].sum(axis=1)
            differences[kind == 3, j] = 0
    witness = rng.normal(0, 1, (N_PROBLEMS, n_features))
    missing = np.einsum("pkf,pf->pk", differences, witness)
    missing -= rng.exponential(0.5, missing.shape) * rng.integers(0, 2, missing.shape)
    gram = np.einsum("pif,pjf->pij", differences, differences)
    return Problems(differences, gram, missing)


def solved(given: Problems, cap: float) -> np.ndarray:
    both = zip(given.gram, given.missing, strict=True)
    return np.array([hildreth(gram, missing, cap) for gram, missing in both])


def change(given: Problems, steps: np.ndarray) -> np.ndarray:
    return np.einsum("pk,pkf->pf", steps, given.differences)


def step_of(rule: int, cost: float, margin: float, squared_norm: float, cap: float) -> float:
    """The step for one constraint."""
    of_rule, gram = UpdateRule(rule, 0.0, cap), np.array([[squared_norm]])
    return float(find_steps(of_rule, np.array([cost]), np.array([margin]), gram)[0])


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


@pytest.mark.parametrize("rule", [PERCEPTRON, MIRA])
def test_nothing_moves_along_no_difference(rule: int) -> None:
    assert step_of(rule, 3.0, 0.0, 0.0, 1.0) == 0.0


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize("cap", [np.inf, 0.1])
def test_the_change_is_the_smallest(k: int, singular: bool, cap: float) -> None:
    given = problems(k, k, singular=singular)
    steps = solved(given, cap)
    expected = smallest_steps(given.gram, given.missing, cap)
    assert np.isfinite(expected).all()
    # Steps along differences that depend on one another are not unique, but the change is.
    np.testing.assert_allclose(change(given, steps), change(given, expected), atol=1e-6)
    assert ((steps >= 0) & (steps <= cap)).all()
    assert np.count_nonzero((steps > 0).all(axis=1)) > 0
    assert np.count_nonzero(~steps.any(axis=1)) > N_PROBLEMS // 50
    if np.isfinite(cap):
        assert np.count_nonzero(steps == cap) > N_PROBLEMS // 10


@pytest.mark.parametrize("k", [2, 5, 10, 20])
@pytest.mark.parametrize("cap", [np.inf, 0.1])
def test_the_conditions_of_karush_kuhn_and_tucker_hold(k: int, cap: float) -> None:
    """Binding constraints hold with equality, all others have no step."""
    given = Problems(
        *(
            array[: some(300)]
            for array in problems(k, 10 + k, singular=True, n_features=MANY_FEATURES)
        )
    )
    steps = solved(given, cap)
    unmet = given.missing - np.einsum("pij,pj->pi", given.gram, steps)
    counts = given.gram[:, range(k), range(k)] > 0
    assert not steps[~counts].any()
    assert (np.abs(unmet[counts & (steps > 0) & (steps < cap)]) < 1e-6).all()
    assert (unmet[counts & (steps == 0)] < 1e-6).all()
    assert (unmet[counts & (steps == cap)] > -1e-6).all()
    assert ((steps >= 0) & (steps <= cap)).all()
    assert np.count_nonzero(steps) > len(steps) // 4


def test_constraints_that_contradict_one_another_end_with_finite_steps() -> None:
    gram = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert np.isfinite(hildreth(gram, np.ones(2))).all()
    assert hildreth(gram, np.ones(2), 0.25).tolist() == [0.25, 0.25]


def test_the_perceptron_looks_at_the_first_constraint_alone() -> None:
    for cost in (0.0, 2.0):
        steps = find_steps(
            UpdateRule(PERCEPTRON, 0.0, math.inf),
            np.array([cost, 1.0, 3.0]),
            np.zeros(3),
            np.eye(3),
        )
        assert steps.tolist() == [float(cost > 0), 0.0, 0.0]


@pytest.mark.parametrize("cap", [math.inf, 0.1])
def test_constraints_without_features_change_nothing_for_the_others(cap: float) -> None:
    """Where there are fewer than k trees, the step is that of one constraint."""
    rng, rule = np.random.default_rng(1), UpdateRule(MIRA, 0.0, cap)
    for _ in range(50):
        gram = np.zeros((3, 3))
        gram[0, 0] = rng.integers(1, 9)
        costs, margins = rng.integers(0, 6, 1).astype(float), rng.normal(0, 1, 1)
        alone = find_steps(rule, costs, margins, gram[:1, :1])
        among = find_steps(rule, np.append(costs, [0, 0]), np.append(margins, [0, 0]), gram)
        np.testing.assert_allclose(among, [*alone, 0.0, 0.0], atol=1e-9)
