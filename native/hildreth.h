// Hildreth's method: the smallest change of the weights that meets several constraints.
//
// McDonald, Crammer & Pereira (2005), section 2.3.1 (Censor & Zenios 1997).
#pragma once
#include <math.h>
#include <stdint.h>

#include "interrupts.h"

namespace gpuparse {

constexpr double HILDRETH_TOLERANCE = 1e-9;  // violation, in units of cost, at which the search ends
constexpr int64_t MAX_HILDRETH_STEPS = 10000;

// x where it lies between 0 and cap, else the end that is nearer.
inline double between_zero_and(double cap, double x) {
    x = x > 0.0 ? x : 0.0;
    return x < cap ? x : cap;
}

// Fill steps[j], how far to move along difference j, for k constraints together.
//
// Minimises half the squared length of the change, sum_j steps[j] d_j, such that every constraint
// d_j . change >= missing[j] holds. The constraint that is violated most is dealt with first.
//
// gram: (k, k): d_i . d_j; of a difference without features the row is zero, and its step stays 0.
// missing: (k): cost less margin before the step.
// cap: the longest single step, infinity for none: violations beyond it cost `cap` a unit.
// Cost: O(k^2) a step, at most MAX_HILDRETH_STEPS steps. Constraints that contradict one another
// end there.
inline void hildreth_steps(int64_t k, const double* gram, const double* missing, double cap,
                           double* steps) {
    for (int64_t j = 0; j < k; j++) steps[j] = 0.0;
    for (int64_t turn = 0; turn < MAX_HILDRETH_STEPS && !is_interrupted(k * k); turn++) {
        double most = HILDRETH_TOLERANCE, change = 0.0;
        int64_t chosen = -1;
        for (int64_t j = 0; j < k; j++) {
            if (!(gram[j * k + j] > 0.0)) continue;
            const double curvature = gram[j * k + j];
            double residual = missing[j];
            for (int64_t i = 0; i < k; i++) residual -= steps[i] * gram[i * k + j];
            const double moved =
                between_zero_and(cap, steps[j] + residual / curvature) - steps[j];
            if (fabs(moved) * curvature > most) {
                most = fabs(moved) * curvature;
                chosen = j;
                change = moved;
            }
        }
        if (chosen < 0) return;
        steps[chosen] += change;
    }
}

// Differences of many constraints over few rows: constraint j has counts[e] at rows[e] for e from
// starts[j] to starts[j + 1].
struct SparseConstraints {
    int64_t count;
    const int64_t* starts;
    const int64_t* rows;
    const int32_t* counts;
    const double* missing;
};

// As `hildreth_steps`, without a Gram matrix: the change itself is kept.
//
// tolerance: the violation at which the search ends.
// steps: (constraints,), changed in place: where to start from; change: (rows,), with it:
// sum_j steps[j] d_j.
// Cost: O(entries) a sweep over all constraints, at most MAX_HILDRETH_STEPS sweeps.
inline void hildreth_sparse_steps(const SparseConstraints& constraints, double cap,
                                  double tolerance, double* steps, double* change) {
    const int64_t* rows = constraints.rows;
    const int32_t* counts = constraints.counts;
    const int64_t n_entries = constraints.count ? constraints.starts[constraints.count] : 0;
    for (int64_t sweep = 0; sweep < MAX_HILDRETH_STEPS && !is_interrupted(2 * n_entries); sweep++) {
        double most = 0.0;
        for (int64_t j = 0; j < constraints.count; j++) {
            const int64_t first = constraints.starts[j], end = constraints.starts[j + 1];
            double residual = constraints.missing[j];
            int64_t squared_norm = 0;
            for (int64_t e = first; e < end; e++) {
                residual -= counts[e] * change[rows[e]];
                squared_norm += (int64_t)counts[e] * counts[e];
            }
            if (squared_norm == 0) continue;
            const double norm = (double)squared_norm;
            const double moved = between_zero_and(cap, steps[j] + residual / norm) - steps[j];
            if (moved == 0.0) continue;
            most = fabs(moved) * norm > most ? fabs(moved) * norm : most;
            steps[j] += moved;
            for (int64_t e = first; e < end; e++) change[rows[e]] += moved * counts[e];
        }
        if (most <= tolerance) return;
    }
}

}  // namespace gpuparse
