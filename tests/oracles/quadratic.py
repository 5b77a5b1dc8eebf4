"""The smallest change that meets some constraints, by trying every set of constraints that bind."""

from itertools import product

import numpy as np


def smallest_steps(gram: np.ndarray, missing: np.ndarray, cap: float = np.inf) -> np.ndarray:
    """Steps (P, K) along the differences of P problems, NaN where nothing meets the constraints.

    That is, of the least squared length of sum_j steps[j] d_j with which each d_j gains
    missing[j].

    Args:
        gram: (P, K, K) products of the differences. missing: (P, K).
        cap: no step is longer.
    Cost: 2^K systems of linear equations a problem, 3^K with a cap.
    """
    n_problems, k = missing.shape
    has_features = gram[:, range(k), range(k)] > 0
    wanted = np.where(has_features, missing, 0.0)
    steps, tolerance = np.full((n_problems, k), np.nan), 1e-9 * (1 + np.abs(wanted).max())
    for states in product((0, 1, 2) if np.isfinite(cap) else (0, 1), repeat=k):
        state = np.array(states)
        free = np.flatnonzero(state == 1)
        tried = np.zeros((n_problems, k))
        tried[:, state == 2] = cap
        if len(free):
            left = (wanted - np.einsum("pij,pj->pi", gram, tried))[:, free]
            inverse = np.linalg.pinv(gram[:, free[:, None], free], rcond=1e-10, hermitian=True)
            tried[:, free] = np.einsum("pij,pj->pi", inverse, left)
        unmet = wanted - np.einsum("pij,pj->pi", gram, tried)
        holds = (tried >= -tolerance) & (tried <= cap + tolerance)
        holds &= np.where(state == 0, unmet, 0) <= tolerance
        holds &= np.abs(np.where(state == 1, unmet, 0)) <= tolerance
        holds &= np.where(state == 2, unmet, 0) >= -tolerance
        found = holds.all(axis=1) & np.isnan(steps[:, 0])
        steps[found] = tried[found]
        if not np.isnan(steps).any():
            break
    return steps
