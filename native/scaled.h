// Rows of positive numbers, plain or with exponents of their own.
//
// Plain numbers are doubles. A scaled number is mantissa * 2^exponent, the exponent an integral
// double, so that products of thousands of probabilities neither overflow nor underflow. An
// operation on a scaled number costs about four times as much as on a plain one, and no logarithm.
// `Plain` and `Scaled` have the same functions; algorithms are templates over them.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "arena.h"
#include "lanes.h"

namespace gpuparse {

constexpr double LN2 = 0.69314718055994530942;
// ln(2) in three parts, the first two of 21 bits: their products with integers of up to 32 bits are
// exact.
constexpr double LN2_LARGEST = 0x1.62e43p-1, LN2_MIDDLE = -0x1.05c61p-29;
constexpr double LN2_SMALLEST = -0x1.950d871319ff0p-54;
constexpr double ROUND_TO_INTEGER = 1.5 * 4503599627370496.0;  // 1.5 * 2^52: leaves it in the low bits

using Doubles = Vector<double>;
using Int64s = Vector<int64_t>;

template <class To, class From>
inline To same_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// 2^x of integral x from -1023 to 1023, where 2^-1023 is taken for 0.
template <class V, class Bits>
inline V power_of_two(V x) {
    const V biased = x + 1023.0 + ROUND_TO_INTEGER;
    return same_bits<V>(same_bits<Bits>(biased) << 52);
}

// exp of a remainder of at most ln(2) / 2: the Taylor series.
template <class V>
inline V exponential_series(V rest) {
    V sum = rest * (1 / 6227020800.0) + 1 / 479001600.0;
    sum = sum * rest + 1 / 39916800.0;
    sum = sum * rest + 1 / 3628800.0;
    sum = sum * rest + 1 / 362880.0;
    sum = sum * rest + 1 / 40320.0;
    sum = sum * rest + 1 / 5040.0;
    sum = sum * rest + 1 / 720.0;
    sum = sum * rest + 1 / 120.0;
    sum = sum * rest + 1 / 24.0;
    sum = sum * rest + 1 / 6.0;
    sum = sum * rest + 1 / 2.0;
    sum = sum * rest + 1.0;
    return sum * rest + 1.0;
}

// Numbers that are known to stay within the range of a double.
struct Plain {
    static constexpr bool SKIPS_ZEROS = false;  // a branch costs more than a product
    using Number = double;
    struct Row {
        double* values = nullptr;
        Row from(int64_t i) const { return {values + i}; }
    };

    static Row take(int64_t count, Arena& arena) { return {arena.take<double>(count)}; }
    static Row take_zeros(int64_t count, Arena& arena) { return {arena.take_zeros<double>(count)}; }
    static Number zero() { return 0.0; }
    static Number get(Row row, int64_t i) { return row.values[i]; }
    static void set(Row row, int64_t i, Number x) { row.values[i] = x; }
    static bool is_zero(Number x) { return !(x > 0.0); }
    static bool is_at_least(Number x, double least) { return x >= least && x < INFINITY; }
    static Number plus(Number x, Number y) { return x + y; }
    static Number times(Number x, Number y) { return x * y; }
    static Number over(Number x, Number y) { return x / y; }
    static Number scale(double factor, Number x) { return factor * x; }
    static Number minus_small(Number x, Number y) { return x - y; }
    static bool is_negative(Number x) { return x < 0.0; }
    static double ratio(Number x, Number total) { return x / total; }
    static void copy(Row to, Row from, int64_t count) {
        memcpy(to.values, from.values, count * sizeof(double));
    }
    static void normalize(Row, int64_t) {}

    // The sum of row[0], row[apart], ..., `count` numbers.
    static Number sum(Row row, int64_t apart, int64_t count) {
        double total = 0.0;
        for (int64_t i = 0; i < count; i++) total += row.values[i * apart];
        return total;
    }

    // to[i] += factor * from[i], i < count rounded up to whole vectors.
    static void add_product(Row to, Row from, Number factor, int64_t count) {
        const Doubles factors = splat(factor);
        for (int64_t i = 0; i < count; i += Lanes<double>::count) {
            store(to.values + i, load(to.values + i) + factors * load(from.values + i));
        }
    }

    // row[i] = exp(row[i]), i < count rounded up to whole vectors: right to two units in the last
    // place from -700 to 0, and 0 below.
    static void exponentiate(Row row, int64_t count) {
        for (int64_t i = 0; i < count; i += Lanes<double>::count) {
            const Doubles x = load(row.values + i);
            const Doubles shifted = x * (1 / LN2) + ROUND_TO_INTEGER;
            const Doubles whole = shifted - ROUND_TO_INTEGER;
            // ln(2) in two parts, the first of 33 bits.
            Doubles rest = x - whole * 0.693147180369123816490;
            rest = rest - whole * 1.90821492927058770002e-10;
            const Doubles value = exponential_series(rest) * power_of_two<Doubles, Int64s>(whole);
            store(row.values + i, x >= -700.0 ? value : Doubles{});
        }
    }
};

// Numbers of any size. Mantissas are positive, or 0 for zero; arithmetic keeps those that were
// normalized within a factor of a few times the number of additions.
struct Scaled {
    static constexpr bool SKIPS_ZEROS = true;
    struct Number {
        double mantissa, exponent;
    };
    struct Row {
        double* mantissas = nullptr;
        double* exponents = nullptr;
        Row from(int64_t i) const { return {mantissas + i, exponents + i}; }
    };
    static constexpr double OF_ZERO = -1e300;  // an exponent far below that of any other number

    static Row take(int64_t count, Arena& arena) {
        double* mantissas = arena.take<double>(count);
        double* exponents = arena.take<double>(count);
        return {exponents ? mantissas : nullptr, exponents};
    }
    static Row take_zeros(int64_t count, Arena& arena) {
        double* mantissas = arena.take_zeros<double>(count);
        return {mantissas, arena.take_zeros<double>(count)};
    }
    static Number zero() { return {0.0, OF_ZERO}; }
    static Number get(Row row, int64_t i) { return {row.mantissas[i], row.exponents[i]}; }
    static void set(Row row, int64_t i, Number x) {
        row.mantissas[i] = x.mantissa;
        row.exponents[i] = x.exponent;
    }
    static bool is_zero(Number x) { return !(x.mantissa > 0.0); }
    static bool is_at_least(Number x, double) { return x.mantissa > 0.0; }
    static double power(double x) { return power_of_two<double, uint64_t>(x < -1023.0 ? -1023.0 : x); }
    static Number plus(Number x, Number y) {
        if (x.exponent < y.exponent) {
            const Number larger = y;
            y = x;
            x = larger;
        }
        return {x.mantissa + y.mantissa * power(y.exponent - x.exponent), x.exponent};
    }
    static Number normalized(Number x) {
        if (is_zero(x)) return zero();
        const int64_t bits = same_bits<int64_t>(x.mantissa);
        const int64_t mantissa = (bits & 0xFFFFFFFFFFFFF) | (int64_t)1023 << 52;
        return {same_bits<double>(mantissa), x.exponent + (double)((bits >> 52) - 1023)};
    }
    static Number times(Number x, Number y) {
        return normalized({x.mantissa * y.mantissa, x.exponent + y.exponent});
    }
    static Number over(Number x, Number y) {
        return normalized({x.mantissa / y.mantissa, x.exponent - y.exponent});
    }
    static Number scale(double factor, Number x) { return {factor * x.mantissa, x.exponent}; }
    static Number minus_small(Number x, Number y) {
        return {x.mantissa - y.mantissa * power(y.exponent - x.exponent), x.exponent};
    }
    static bool is_negative(Number x) { return x.mantissa < 0.0; }
    static double ratio(Number x, Number total) {
        const double difference = x.exponent - total.exponent;
        return x.mantissa / total.mantissa * power(difference < 1000.0 ? difference : 1000.0);
    }
    static void copy(Row to, Row from, int64_t count) {
        memcpy(to.mantissas, from.mantissas, count * sizeof(double));
        memcpy(to.exponents, from.exponents, count * sizeof(double));
    }

    // Mantissas of row[0..count], rounded up to whole vectors, become numbers from 1 to 2.
    static void normalize(Row row, int64_t count) {
        for (int64_t i = 0; i < count; i += Lanes<double>::count) {
            const Doubles mantissa = load(row.mantissas + i);
            const Int64s bits = same_bits<Int64s>(mantissa);
            const Int64s one = (bits & 0xFFFFFFFFFFFFF) | (int64_t)1023 << 52;
            const Doubles power = __builtin_convertvector((bits >> 52) - 1023, Doubles);
            const auto is_there = mantissa > 0.0;
            store(row.mantissas + i, is_there ? same_bits<Doubles>(one) : Doubles{});
            store(row.exponents + i, is_there ? load(row.exponents + i) + power : splat(OF_ZERO));
        }
    }

    static Number sum(Row row, int64_t apart, int64_t count) {
        double top = OF_ZERO;
        for (int64_t i = 0; i < count; i++) {
            const double exponent = row.exponents[i * apart];
            top = exponent > top ? exponent : top;
        }
        double total = 0.0;
        for (int64_t i = 0; i < count; i++) {
            total += row.mantissas[i * apart] * power(row.exponents[i * apart] - top);
        }
        return normalized({total, top});
    }

    static void add_product(Row to, Row from, Number factor, int64_t count) {
        const Doubles mantissas = splat(factor.mantissa), exponents = splat(factor.exponent);
        for (int64_t i = 0; i < count; i += Lanes<double>::count) {
            const Doubles old = load(to.mantissas + i), old_exponent = load(to.exponents + i);
            const Doubles added = mantissas * load(from.mantissas + i);
            const Doubles exponent = exponents + load(from.exponents + i);
            const auto is_larger = old_exponent >= exponent;
            const Doubles top = is_larger ? old_exponent : exponent;
            Doubles apart = (is_larger ? exponent : old_exponent) - top;
            apart = apart > -1023.0 ? apart : splat(-1023.0);
            const Doubles smaller = (is_larger ? added : old) * power_of_two<Doubles, Int64s>(apart);
            store(to.mantissas + i, (is_larger ? old : added) + smaller);
            store(to.exponents + i, top);
        }
    }

    // row[i] = exp(row.mantissas[i]), i < count rounded up to whole vectors, of numbers up to 0.
    static void exponentiate(Row row, int64_t count) {
        constexpr double LOWEST = -1125899906842624.0;  // -2^50
        for (int64_t i = 0; i < count; i += Lanes<double>::count) {
            const Doubles x = load(row.mantissas + i);
            const auto is_near = x > LOWEST;
            const Doubles near = is_near ? x : splat(LOWEST);
            const Doubles whole = near * (1 / LN2) + ROUND_TO_INTEGER - ROUND_TO_INTEGER;
            Doubles rest = near - whole * LN2_LARGEST;
            rest = rest - whole * LN2_MIDDLE;
            rest = rest - whole * LN2_SMALLEST;
            rest = rest < 1.0 ? rest : splat(1.0);
            rest = rest > -1.0 ? rest : splat(-1.0);
            const auto is_there = x > -INFINITY;
            store(row.mantissas + i,
                  is_near ? exponential_series(rest) : (is_there ? splat(1.0) : Doubles{}));
            // Numbers below -2^50 have no digits after the point.
            store(row.exponents + i,
                  is_near ? whole : (is_there ? x * (1 / LN2) : splat(OF_ZERO)));
        }
    }
};

}  // namespace gpuparse
