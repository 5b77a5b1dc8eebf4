// exp and GELU of vectors of float32, in basic operations: the same for vectors of any length.
#pragma once

#include "lanes.h"

namespace gpuparse {

// exp within 2 units in the last place, for x from -87 to 88; 0 below. Not a number stays so.
inline Vector<float> float_exp(Vector<float> x) {
    const Vector<float> low = splat(-87.0f);
    const Vector<int32_t> is_zero = x < low;
    x = is_zero ? low : x;
    // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the last bits.
    const Vector<float> shifted = x * 1.44269504f + 12582912.0f;
    const Vector<float> e = shifted - 12582912.0f;
    const Vector<float> r = x - e * 0.693359375f - e * -2.12194440e-4f;
    const float inverse[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    Vector<float> sum = splat(inverse[0]);
    for (int k = 1; k < 8; k++) sum = sum * r + inverse[k];
    const auto bits = ((Vector<uint32_t>)shifted - 0x4B400000u + 127u) << 23;
    return is_zero ? splat(0.0f) : sum * (Vector<float>)bits;
}

// x (1 + erf(x / sqrt(2))) / 2 within 2.5e-6. erf is a quotient of polynomials, fitted to it within 5e-7
// from -3.92 to 3.92, and constant beyond.
inline Vector<float> float_gelu(Vector<float> x) {
    const float over[] = {-1.4422984591346663e-06f, 0.0002537507228486152f, 0.01013247189520109f,
                          0.0723904459167222f,      0.3626529084698641f,    1.1283820421656698f};
    const float under[] = {0.0023676813105760934f, 0.028074810492561976f, 0.1823968820660466f,
                           0.654738980711837f, 1.0f};
    Vector<float> u = x * 0.70710678f;
    u = u > splat(3.92f) ? splat(3.92f) : u;
    u = u < splat(-3.92f) ? splat(-3.92f) : u;
    const Vector<float> z = u * u;
    Vector<float> p = splat(over[0]), q = splat(under[0]);
    for (int k = 1; k < 6; k++) p = p * z + over[k];
    for (int k = 1; k < 5; k++) q = q * z + under[k];
    const Vector<float> half = x * 0.5f;
    return half + half * (u * p / q);
}

}  // namespace gpuparse
