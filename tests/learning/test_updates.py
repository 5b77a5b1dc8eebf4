"""Step sizes against the definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.learning.updates import (
    CONDITIONAL,
    FACTORED,
    MIRA,
    PASSIVE_AGGRESSIVE,
    PERCEPTRON,
    RULES,
    step_size,
)

NUMBERS = st.floats(-100, 100)


def test_names() -> None:
    assert {name: rule.number for name, rule in RULES.items()} == {
        "perceptron": PERCEPTRON,
        "mira": MIRA,
        "passive-aggressive": PASSIVE_AGGRESSIVE,
        "mira-factored": FACTORED,
        "conditional": CONDITIONAL,
    }


@settings(deadline=None)
@given(st.integers(1, 40), NUMBERS, st.floats(0.5, 1e4))
def test_perceptron_takes_whole_steps_for_mistakes(
    cost: int, margin: float, squared_norm: float
) -> None:
    assert step_size(PERCEPTRON, float(cost), margin, squared_norm, math.inf) == 1.0
    assert step_size(PERCEPTRON, 0.0, margin, squared_norm, math.inf) == 0.0


@settings(deadline=None)
@given(st.integers(1, 40), NUMBERS, st.integers(1, 1000))
def test_mira_makes_the_margin_the_cost_and_no_more(
    cost: int, margin: float, squared_norm: int
) -> None:
    step = step_size(MIRA, float(cost), margin, float(squared_norm), math.inf)
    if margin >= cost:
        assert step == 0.0
    else:
        assert margin + step * squared_norm == pytest.approx(cost)


@settings(deadline=None)
@given(st.integers(1, 40), NUMBERS, st.integers(1, 1000), st.floats(1e-3, 2))
def test_no_step_is_longer_than_the_cap(
    cost: int, margin: float, squared_norm: int, cap: float
) -> None:
    free = step_size(MIRA, float(cost), margin, float(squared_norm), math.inf)
    assert step_size(MIRA, float(cost), margin, float(squared_norm), cap) == min(free, cap)


@settings(deadline=None)
@given(st.data())
def test_mira_is_the_shortest_change_that_meets_the_constraint(data: st.DataObject) -> None:
    """Any other change of the weights that meets it is at least as long."""
    vectors = st.lists(st.integers(-3, 3), min_size=4, max_size=4).map(np.array)
    difference = data.draw(vectors.filter(lambda v: v.any()))
    weights, other = data.draw(vectors), data.draw(vectors)
    cost = data.draw(st.integers(1, 9))
    margin, squared_norm = float(weights @ difference), float(difference @ difference)
    step = step_size(MIRA, float(cost), margin, squared_norm, math.inf)
    change = step * difference
    assert (weights + change) @ difference >= cost - 1e-9
    if (weights + other) @ difference >= cost:
        assert other @ other >= change @ change - 1e-9


@pytest.mark.parametrize("rule", [PERCEPTRON, MIRA])
def test_nothing_moves_along_no_difference(rule: int) -> None:
    assert step_size(rule, 3.0, 0.0, 0.0, math.inf) == 0.0
