"""Hildreth's method: the smallest change of the weights that meets several constraints."""

import numpy as np

from gpuparse.compiled import compiled

TOLERANCE = 1e-9  # violation, in units of cost, at which the search ends
MAX_STEPS = 10_000


@compiled
def hildreth(gram, missing, cap, ridge, steps):
    """Fill steps[j], how far to move along difference j, for all constraints together.

    Minimises half the squared length of the change, sum_j steps[j] d_j, such that every constraint
    d_j . change >= missing[j] holds. The constraint that is violated most is dealt with first.

    Args:
        gram: (K, K) float64: d_i . d_j; of a difference without features the row is zero, and the
            step stays 0.
        missing: (K,) float64: cost less margin before the step; at most 0 where nothing is missing.
        cap: the longest single step, infinity for none: violations beyond it cost so much a unit.
        ridge: added to the diagonal: violations cost their square / (2 ridge); 0 for none.
        steps: (K,) float64, filled; all are between 0 and cap.
    Cost: O(K) a step, at most MAX_STEPS steps. Constraints that contradict one another end there.
    Source: McDonald, Crammer & Pereira (2005), section 2.3.1 (Censor & Zenios 1997).
    """
    k = len(missing)
    steps[:] = 0.0
    for _ in range(MAX_STEPS):
        most, chosen, change = TOLERANCE, -1, 0.0
        for j in range(k):
            curvature = gram[j, j] + ridge
            if gram[j, j] > 0.0:
                residual = missing[j] - ridge * steps[j]
                for i in range(k):
                    residual -= steps[i] * gram[i, j]
                moved = min(cap, max(0.0, steps[j] + residual / curvature)) - steps[j]
                if abs(moved) * curvature > most:
                    most, chosen, change = abs(moved) * curvature, j, moved
        if chosen < 0:
            return
        steps[chosen] += change


@compiled
def hildreth_rows(starts, rows, counts, missing, cap, tolerance, steps, change):
    """As `hildreth`, for many constraints over few rows: no Gram matrix, the change is kept.

    Args:
        starts, rows, counts: constraint j's difference is counts[e] at rows[e], for e from
            starts[j] to starts[j + 1].
        missing, cap: as there.
        tolerance: the violation at which the search ends.
        steps: (K,) float64, changed in place: where to start from, and `change` with it.
        change: (rows,) float64: sum_j steps[j] d_j.
    Cost: O(entries) a sweep over all constraints, at most MAX_STEPS sweeps.
    """
    for _ in range(MAX_STEPS):
        most = 0.0
        for j in range(len(missing)):
            residual, squared_norm = missing[j], 0.0
            for e in range(starts[j], starts[j + 1]):
                residual -= counts[e] * change[rows[e]]
                squared_norm += counts[e] * counts[e]
            if squared_norm == 0.0:
                continue
            moved = min(cap, max(0.0, steps[j] + residual / squared_norm)) - steps[j]
            if moved != 0.0:
                most = max(most, np.float64(abs(moved) * squared_norm))
                steps[j] += moved
                for e in range(starts[j], starts[j + 1]):
                    change[rows[e]] += moved * counts[e]
        if most <= tolerance:
            return
