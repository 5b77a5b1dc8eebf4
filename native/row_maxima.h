// Maxima of sums of rows, a vector at a time, for charts that are indexed by arcs.
//
// Whole vectors are loaded: an array must have room for a vector after the last element that is
// asked for. The values there do not change any result.
#pragma once

#include <math.h>
#include <stdint.h>

#include "lanes.h"

namespace gpuparse {

// Lane by lane maximum, y where they are equal or one is NaN.
template <class V>
inline V larger(V x, V y) {
    return x > y ? x : y;
}

template <class F>
inline Vector<F> no_value() {
    return splat<F>(-(F)INFINITY);
}

// The largest lane, from vectors of half the length in every step.
template <class V>
inline auto largest_lane(V v) {
    constexpr int64_t lanes = (int64_t)(sizeof(V) / sizeof(v[0]));
    if constexpr (lanes == 16) {
        const auto low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
        return largest_lane(larger(low, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)));
    } else if constexpr (lanes == 8) {
        const auto low = __builtin_shufflevector(v, v, 0, 1, 2, 3);
        return largest_lane(larger(low, __builtin_shufflevector(v, v, 4, 5, 6, 7)));
    } else if constexpr (lanes == 4) {
        const auto low = __builtin_shufflevector(v, v, 0, 1);
        return largest_lane(larger(low, __builtin_shufflevector(v, v, 2, 3)));
    } else {
        return v[0] > v[1] ? v[0] : v[1];
    }
}

// max of x[k] + y[k] over k < count, -inf for none.
template <class F>
inline F largest_sum(const F* x, const F* y, int64_t count) {
    typedef decltype(Vector<F>{} > Vector<F>{}) Ints;  // as wide as the lanes
    Ints lane;
    for (int64_t k = 0; k < Lanes<F>::count; k++) lane[k] = k;
    Vector<F> best = no_value<F>();
    int64_t k = 0;
    for (; k + Lanes<F>::count <= count; k += Lanes<F>::count)
        best = larger<Vector<F>>(load<F>(x + k) + load<F>(y + k), best);
    if (k < count) {
        const Vector<F> sum = load<F>(x + k) + load<F>(y + k);
        const Ints left = (decltype(lane[0] + 0))(count - k) - Ints{};
        best = larger<Vector<F>>(lane < left ? sum : no_value<F>(), best);
    }
    return largest_lane(best);
}

// One vector of max of blocks[t * width] + sums[t] over t < count, -inf for none.
template <class F>
inline Vector<F> best_row(const F* sums, const F* blocks, int64_t width, int64_t count) {
    Vector<F> best = no_value<F>();
    for (int64_t t = 0; t < count; t++)
        best = larger<Vector<F>>(load<F>(blocks + t * width) + splat<F>(sums[t]), best);
    return best;
}

}  // namespace gpuparse
