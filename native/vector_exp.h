// exp of vectors of float64, within two units in the last place, the same for vectors of any length.
#pragma once

#include <math.h>

#include "lanes.h"

namespace gpuparse {

constexpr double LOG2_E = 1.44269504088896340736;
constexpr double LN_2_HIGH = 6.93147180369123816490e-01;  // 33 bits: exact times a whole number
constexpr double LN_2_LOW = 1.90821492927058770002e-10;
// In three parts, the first two of 21 bits: exact times whole numbers of 32 bits.
constexpr double LN_2_LARGEST = 0x1.62e43p-1, LN_2_MIDDLE = -0x1.05c61p-29;
constexpr double LN_2_SMALLEST = -0x1.950d871319ff0p-54;
// Adding ROUND rounds to a whole number and leaves it in the last bits, which ROUND_BITS begin.
constexpr double ROUND = 6755399441055744.0;
constexpr int64_t ROUND_BITS = 0x4338000000000000;

// 2^e for whole numbers e <= 0; 2^-1000 below that.
inline Vector<double> power_of_two(Vector<double> e) {
    const Vector<double> least = splat(-1000.0);
    e = e > least ? e : least;
    return (Vector<double>)((Vector<int64_t>)(e + (ROUND + 1023)) << 52);
}

inline double power_of_two(double e) {
    const double shifted = (e > -1000 ? e : -1000) + (ROUND + 1023);
    int64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (int64_t)((uint64_t)bits << 52);
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

// exp of |r| <= log(2) / 2: the Taylor series to r^13.
inline Vector<double> exp_series(Vector<double> r) {
    const double inverse[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                              1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                              1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5,
                              1.0,              1.0};
    Vector<double> sum = splat(inverse[0]);
    for (int k = 1; k < 14; k++) sum = sum * r + inverse[k];
    return sum;
}

// m in [0.7, 1.5) and a whole number e with m * 2^e = exp(x). Numbers beyond 2^50 have no digits after
// the point: m is 1.
inline Vector<double> vector_exp_reduced(Vector<double> x, Vector<double>& e) {
    const Vector<double> high = splat(0x1p50);
    const Vector<int64_t> is_near = (x < high) & (x > -high);
    x = is_near ? x : x * LOG2_E;
    e = is_near ? x * LOG2_E + ROUND - ROUND : x;
    const Vector<double> r = x - e * LN_2_LARGEST - e * LN_2_MIDDLE - e * LN_2_SMALLEST;
    return exp_series(is_near ? r : splat(0.0));
}

// 0 below -708, inf above 709.
inline Vector<double> vector_exp(Vector<double> x) {
    const Vector<double> low = splat(-708.0), high = splat(709.0), infinite = splat(__builtin_inf());
    const Vector<int64_t> is_zero = x < low, is_large = x > high;
    x = is_zero ? low : (is_large ? high : x);
    const Vector<double> e = x * LOG2_E + ROUND - ROUND;
    const Vector<double> m = exp_series(x - e * LN_2_HIGH - e * LN_2_LOW);
    const Vector<int64_t> shift = (Vector<int64_t>)(e + ROUND) - ROUND_BITS;
    const Vector<double> value = (Vector<double>)((Vector<int64_t>)m + (shift << 52));
    return is_zero ? splat(0.0) : (is_large ? infinite : value);
}

// Turn `count` scores into probabilities; returns the log of the sum of exp.
inline double fill_probabilities(double* scores, int64_t count) {
    double most = scores[0], sum = 0.0;
    for (int64_t k = 1; k < count; k++)
        if (scores[k] > most) most = scores[k];
    for (int64_t k = 0; k < count; k += Lanes<double>::count) {
        Vector<double> some = splat(0.0);
        const int64_t rest = count - k < Lanes<double>::count ? count - k : Lanes<double>::count;
        memcpy(&some, scores + k, (size_t)rest * sizeof(double));
        some = vector_exp(some - most);
        memcpy(scores + k, &some, (size_t)rest * sizeof(double));
    }
    for (int64_t k = 0; k < count; k++) sum += scores[k];
    for (int64_t k = 0; k < count; k++) scores[k] /= sum;
    return most + log(sum);
}

}  // namespace gpuparse
