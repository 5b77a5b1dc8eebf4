"""Hildreth's method against the smallest change, found by trying all sets of constraints."""

from typing import NamedTuple

import numpy as np
import pytest

from gpuparse import native
from tests.oracles.quadratic import smallest_steps

N_PROBLEMS, N_FEATURES = 1500, 7
MANY_FEATURES = 80  # as the trees of a sentence have


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


def solved(given: Problems, cap: float, ridge: float) -> np.ndarray:
    steps = np.full(given.missing.shape, np.nan)
    for gram, missing, found in zip(given.gram, given.missing, steps, strict=True):
        native.call("hildreth", gram, missing, cap, ridge, found)
    return steps


def change(given: Problems, steps: np.ndarray) -> np.ndarray:
    return np.einsum("pk,pkf->pf", steps, given.differences)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize(
    ("cap", "ridge"), [(np.inf, 0.0), (0.1, 0.0), (np.inf, 0.5), (np.inf, 0.2)]
)
def test_the_change_is_the_smallest(k: int, singular: bool, cap: float, ridge: float) -> None:
    given = problems(k, k, singular=singular)
    steps = solved(given, cap, ridge)
    expected = smallest_steps(given.gram, given.missing, cap, ridge)
    assert np.isfinite(expected).all()
    # Steps along differences that depend on one another are not unique, but the change is.
    np.testing.assert_allclose(change(given, steps), change(given, expected), atol=1e-6)
    if ridge:
        np.testing.assert_allclose(steps, expected, atol=1e-6)
    assert ((steps >= 0) & (steps <= cap)).all()
    assert np.count_nonzero((steps > 0).all(axis=1)) > 0
    assert np.count_nonzero(~steps.any(axis=1)) > N_PROBLEMS // 50
    if np.isfinite(cap):
        assert np.count_nonzero(steps == cap) > N_PROBLEMS // 10


@pytest.mark.parametrize("k", [2, 5, 10, 20])
@pytest.mark.parametrize(("cap", "ridge"), [(np.inf, 0.0), (0.1, 0.0), (np.inf, 0.5)])
def test_the_conditions_of_karush_kuhn_and_tucker_hold(k: int, cap: float, ridge: float) -> None:
    """What binds is met to the point, and what does not bind has no step."""
    given = problems(k, 10 + k, singular=not ridge, n_features=MANY_FEATURES)
    steps = solved(given, cap, ridge)
    unmet = given.missing - np.einsum("pij,pj->pi", given.gram, steps) - ridge * steps
    counts = given.gram[:, range(k), range(k)] > 0
    assert not steps[~counts].any()
    assert (np.abs(unmet[counts & (steps > 0) & (steps < cap)]) < 1e-6).all()
    assert (unmet[counts & (steps == 0)] < 1e-6).all()
    assert (unmet[counts & (steps == cap)] > -1e-6).all()
    assert ((steps >= 0) & (steps <= cap)).all()
    assert np.count_nonzero(steps) > N_PROBLEMS // 4


def test_constraints_that_contradict_one_another_end_with_finite_steps() -> None:
    steps = np.zeros(2)
    native.call("hildreth", np.array([[1.0, -1.0], [-1.0, 1.0]]), np.ones(2), np.inf, 0.0, steps)
    assert np.isfinite(steps).all()
    native.call("hildreth", np.array([[1.0, -1.0], [-1.0, 1.0]]), np.ones(2), 0.25, 0.0, steps)
    assert steps.tolist() == [0.25, 0.25]


@pytest.mark.parametrize("cap", [np.inf, 0.1])
@pytest.mark.parametrize("goes_on", [False, True])
def test_rows_give_the_change_that_the_gram_matrix_gives(cap: float, goes_on: bool) -> None:
    """Also when it goes on from the steps of fewer constraints, or from none."""
    given = problems(6, 30, singular=True)
    expected = change(given, solved(given, cap, 0.0))
    for problem, (differences, missing) in enumerate(
        zip(given.differences, given.missing, strict=True)
    ):
        firsts, rows = map(np.ascontiguousarray, np.nonzero(differences))
        starts = np.searchsorted(firsts, np.arange(7))
        counts = differences[firsts, rows].astype(np.int32)
        steps, found = np.zeros(6), np.zeros(N_FEATURES)
        for known in (3, 6) if goes_on else (6,):
            native.call(
                "hildreth_rows",
                starts[: known + 1],
                rows[: starts[known]],
                counts[: starts[known]],
                missing[:known],
                cap,
                1e-10,
                steps[:known],
                found,
            )
        np.testing.assert_allclose(found, expected[problem], atol=1e-6)
        np.testing.assert_allclose(found, steps @ differences, atol=1e-9)
