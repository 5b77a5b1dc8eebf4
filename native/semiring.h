// Semirings: what the recurrences of a chart compute.
//
// Each has scalars F, `zero`, `one`, and `plus` and `times` of scalars and of vectors.
#pragma once

#include <math.h>

#include "lanes.h"

namespace gpuparse {

// The best derivation. Of equal values `plus` keeps the second one.
template <class Number>
struct MaxPlus {
    typedef Number F;
    typedef Vector<F> V;
    static constexpr F zero = -__builtin_inf();
    static constexpr F one = 0;
    static F plus(F x, F y) { return x > y ? x : y; }
    static F times(F x, F y) { return x + y; }
    static V plus(const V& x, const V& y) { return x > y ? x : y; }
    static V times(const V& x, const V& y) { return x + y; }
};

// The sum over all derivations, as plain numbers.
template <class Number>
struct SumProduct {
    typedef Number F;
    typedef Vector<F> V;
    static constexpr F zero = 0;
    static constexpr F one = 1;
    static F plus(F x, F y) { return x + y; }
    static F times(F x, F y) { return x * y; }
    static V plus(const V& x, const V& y) { return x + y; }
    static V times(const V& x, const V& y) { return x * y; }
};

}  // namespace gpuparse
