// The check of scores: one pass over the cells that decoders read.
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "views.h"

namespace gpuparse {

template <class F>
inline F largest_float();
template <>
inline float largest_float<float>() {
    return FLT_MAX;
}
template <>
inline double largest_float<double>() {
    return DBL_MAX;
}

// True if any of `count` cells is neither -inf nor between -limit and limit.
template <class F>
inline bool has_unusable(const F* cells, int64_t count, F limit) {
    // Written so that NaN fails, without an early end and in integers of 32 bits: the compiler makes
    // vectors of it.
    int32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        const F score = cells[i];
        bad |= (int32_t)!((score <= limit) & ((score >= -limit) | (score == -(F)INFINITY)));
    }
    return bad != 0;
}

// True if an arc score of a sentence of n words is unusable in a cell that is read. Limits leave room
// for sums of 4 scores per word.
template <class F>
inline bool has_unusable_arcs(View2<const F> scores, int64_t n) {
    const F limit = (F)((double)largest_float<F>() / (double)(4 * (n + 1)));
    // Rows whole, in one sweep; only where that fails, without the cells that are never read.
    if (!has_unusable(scores.data, (n + 1) * scores.stride, limit)) return false;
    if (has_unusable(scores.data + 1, n, limit)) return true;
    for (int64_t h = 1; h <= n; h++) {
        if (has_unusable(scores.row(h) + 1, h - 1, limit)) return true;
        if (has_unusable(scores.row(h) + h + 1, n - h, limit)) return true;
    }
    return false;
}

// The first sentence with a length out of range or an unusable arc score, or -1.
template <class F>
inline int64_t find_unusable_arcs(View3<const F> scores, i64_1 lengths, int64_t n_nodes) {
    for (int64_t b = 0; b < lengths.n0; b++) {
        const int64_t n = lengths.data[b];
        if (n < 0 || n >= n_nodes || has_unusable_arcs(scores(b), n)) return b;
    }
    return -1;
}

}  // namespace gpuparse
