// Semirings: what the recurrences of a chart compute.
//
// A semiring has numbers (`Value`), vectors of them (`V`), cells of type F in which they are stored,
// `zero`, `one`, `plus` and `times`. It is an object, because a cell may need more than one address.
#pragma once

#include <math.h>

#include "lanes.h"
#include "vector_exp.h"

namespace gpuparse {

// The best derivation. Of equal values `plus` keeps the second one.
template <class Number>
struct MaxPlus {
    typedef Number F;
    typedef Number Value;
    typedef Vector<F> V;
    static constexpr bool is_sum = false;
    static constexpr int64_t planes_of_cells = 1;
    static constexpr F zero = -__builtin_inf();
    static constexpr F one = 0;

    void set_cells(int64_t) {}
    static V load(const F* cell) { return gpuparse::load(cell); }
    static V splat(const F* cell) { return gpuparse::splat(*cell); }
    static V all(F value) { return gpuparse::splat(value); }
    static void store(F* cell, const V& value) { gpuparse::store<F>(cell, value); }
    static Value get(const F* cell) { return *cell; }
    static void put(F* cell, Value value) { *cell = value; }

    static F plus(F x, F y) { return x > y ? x : y; }
    static F times(F x, F y) { return x + y; }
    static V plus(const V& x, const V& y) { return x > y ? x : y; }
    static V times(const V& x, const V& y) { return x + y; }
    // The vector in this lane, zero in all others.
    static V only(const V& x, int64_t lane) {
        V result = all(zero);
        result[lane] = x[lane];
        return result;
    }
};

// The sum over all derivations, as plain numbers: for sums that exp can represent.
struct SumProduct {
    typedef double F;
    typedef double Value;
    typedef Vector<F> V;
    static constexpr bool is_sum = true;
    static constexpr int64_t planes_of_cells = 1;
    static constexpr double zero = 0;
    static constexpr double one = 1;

    void set_cells(int64_t) {}
    static V load(const F* cell) { return gpuparse::load(cell); }
    static V splat(const F* cell) { return gpuparse::splat(*cell); }
    static V all(F value) { return gpuparse::splat(value); }
    static void store(F* cell, const V& value) { gpuparse::store<F>(cell, value); }
    static Value get(const F* cell) { return *cell; }
    static void put(F* cell, Value value) { *cell = value; }
    static Value normalized(Value value) { return value; }
    static void store_raw(F* cell, const V& value) { store(cell, value); }
    static void fill_zero(F* cells, int64_t count) { memset(cells, 0, (size_t)count * sizeof(F)); }
    static void copy(F* to, const F* from, int64_t count) {
        memcpy(to, from, (size_t)count * sizeof(F));
    }

    static double plus(double x, double y) { return x + y; }
    static double times(double x, double y) { return x * y; }
    static double over(double x, double y) { return x / y; }
    static bool is_zero(double x) { return !(x > 0); }
    static V plus(const V& x, const V& y) { return x + y; }
    static V times(const V& x, const V& y) { return x * y; }
    static V only(const V& x, int64_t lane) {
        V result = all(zero);
        result[lane] = x[lane];
        return result;
    }
    static V turned(const V& x, int64_t lanes) { return turned_lanes(x, lanes); }
    static double lane(const V& x, int64_t k) { return x[k]; }

    static double ratio(double x, double y) { return x / y; }
    static double log_of(double x) { return log(x); }
    // exp of the scores in valid lanes, 0 elsewhere.
    static void store_exp(F* cell, Vector<double> scores, Vector<int64_t> is_there) {
        store(cell, is_there ? vector_exp(scores) : all(zero));
    }
};

// The sum over all derivations as numbers m * 2^e, m in [1, 2) or 0: for scores of any size. The cell
// of e stands `cells` cells behind that of m.
struct ScaledSum {
    typedef double F;
    struct Value {
        double m, e;
    };
    struct V {
        Vector<double> m, e;
    };
    static constexpr bool is_sum = true;
    static constexpr int64_t planes_of_cells = 2;
    static constexpr double NO_EXPONENT = -1e300;  // of 0
    static constexpr Value zero = {0, NO_EXPONENT};
    static constexpr Value one = {1, 0};

    int64_t cells = 0;

    void set_cells(int64_t count) { cells = count; }
    V load(const F* cell) const { return {gpuparse::load(cell), gpuparse::load(cell + cells)}; }
    V splat(const F* cell) const { return {gpuparse::splat(*cell), gpuparse::splat(cell[cells])}; }
    static V all(Value value) { return {gpuparse::splat(value.m), gpuparse::splat(value.e)}; }
    void store(F* cell, const V& value) const {
        typedef Vector<int64_t> Bits;
        const Bits bits = (Bits)value.m, exponent = bits >> 52;  // of numbers that are not below 0
        const Bits is_zero = exponent == 0;
        const Bits m = (bits & MANTISSA) | ONE;
        const Vector<double> e = value.e + ((Vector<double>)(exponent + ROUND_BITS) - (ROUND + 1023));
        gpuparse::store<F>(cell, (Vector<double>)(m & ~is_zero));
        gpuparse::store<F>(cell + cells, is_zero ? gpuparse::splat(NO_EXPONENT) : e);
    }
    Value get(const F* cell) const { return {*cell, cell[cells]}; }
    void put(F* cell, const Value& value) const {
        const Value of_cell = normalized(value);
        *cell = of_cell.m, cell[cells] = of_cell.e;
    }
    // The same number with m in [1, 2).
    static Value normalized(Value value) {
        if (value.m == 0) return zero;
        int64_t bits;
        memcpy(&bits, &value.m, sizeof bits);
        value.e += (double)((bits >> 52) - 1023);
        bits = (bits & MANTISSA) | ONE;
        memcpy(&value.m, &bits, sizeof bits);
        return value;
    }
    // Without bringing m to [1, 2): for sums of few numbers that are stored again.
    void store_raw(F* cell, const V& value) const {
        gpuparse::store<F>(cell, value.m);
        gpuparse::store<F>(cell + cells, value.e);
    }
    void fill_zero(F* from, int64_t count) const {
        memset(from, 0, (size_t)count * sizeof(F));
        for (int64_t k = 0; k < count; k++) from[cells + k] = NO_EXPONENT;
    }

    void copy(F* to, const F* from, int64_t count) const {
        memcpy(to, from, (size_t)count * sizeof(F));
        memcpy(to + cells, from + cells, (size_t)count * sizeof(F));
    }

    static Value times(const Value& x, const Value& y) { return {x.m * y.m, x.e + y.e}; }
    static Value over(const Value& x, const Value& y) { return {x.m / y.m, x.e - y.e}; }
    static bool is_zero(const Value& x) { return !(x.m > 0); }
    static V times(const V& x, const V& y) { return {x.m * y.m, x.e + y.e}; }
    static Value plus(const Value& x, const Value& y) {
        const double e = x.e > y.e ? x.e : y.e;
        return {x.m * power_of_two(x.e - e) + y.m * power_of_two(y.e - e), e};
    }
    static V plus(const V& x, const V& y) {
        const Vector<int64_t> is_larger = x.e > y.e;
        const Vector<double> e = is_larger ? x.e : y.e, less = is_larger ? y.e : x.e;
        return {(is_larger ? x.m : y.m) + (is_larger ? y.m : x.m) * power_of_two(less - e), e};
    }
    static V only(const V& x, int64_t lane) {
        V result = all(zero);
        result.m[lane] = x.m[lane], result.e[lane] = x.e[lane];
        return result;
    }
    static V turned(const V& x, int64_t lanes) {
        return {turned_lanes(x.m, lanes), turned_lanes(x.e, lanes)};
    }
    static Value lane(const V& x, int64_t k) { return {x.m[k], x.e[k]}; }

    static double ratio(const Value& x, const Value& y) {
        if (x.m == 0) return 0;
        const double e = x.e - y.e;
        return e < -1022 ? 0.0 : ldexp(x.m / y.m, e > 2000 ? 2000 : (int)e);
    }
    static double log_of(const Value& x) {
        return x.m == 0 ? -__builtin_inf() : log(x.m) + x.e * LN_2_LOW + x.e * LN_2_HIGH;
    }
    void store_exp(F* cell, Vector<double> scores, Vector<int64_t> is_there) const {
        is_there &= scores > gpuparse::splat(-__builtin_inf());
        Vector<double> e;
        const Vector<double> m =
            vector_exp_reduced(is_there ? scores : gpuparse::splat(0.0), e);
        store(cell, {is_there ? m : gpuparse::splat(0.0), e});
    }

private:
    static constexpr int64_t MANTISSA = (1LL << 52) - 1;
    static constexpr int64_t ONE = 1023LL << 52;
};

// Replace the scores in row[from..to) by their exp in a semiring of sums. The row begins at a whole
// vector; cells around that are in the same vectors become zero. `look` sees each vector of scores
// and where it stands, 0 in the cells around.
template <class S, class Look>
inline void exp_cells(const S& semiring, double* row, int64_t from, int64_t to, Look look) {
    const int64_t count = Lanes<double>::count;
    for (int64_t j = from / count * count; j < to; j += count) {
        const Vector<int64_t> is_there = lanes_between(j, from, to);
        const Vector<double> scores = is_there ? load(row + j) : splat(0.0);
        look(j, scores);
        semiring.store_exp(row + j, scores, is_there);
    }
}

template <class S>
inline void exp_cells(const S& semiring, double* row, int64_t from, int64_t to) {
    exp_cells(semiring, row, from, to, [](int64_t, const Vector<double>&) {});
}

}  // namespace gpuparse
