// Products of float32 matrices whose sums are added in one order, whatever vectors a machine has: lanes
// are columns, or sixteen partial sums that are folded at the end.
#pragma once

#include "lanes.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace gpuparse {

// Sixteen numbers, in as many vectors as a machine needs for them.
struct FloatLine {
    enum : int64_t { PARTS = 64 / VECTOR_BYTES };
    Vector<float> part[PARTS];

    FloatLine& operator+=(const FloatLine& other) {
        for (int64_t k = 0; k < PARTS; k++) part[k] += other.part[k];
        return *this;
    }
    FloatLine operator*(const FloatLine& other) const {
        FloatLine product;
        for (int64_t k = 0; k < PARTS; k++) product.part[k] = part[k] * other.part[k];
        return product;
    }
    FloatLine operator*(float factor) const {
        FloatLine product;
        for (int64_t k = 0; k < PARTS; k++) product.part[k] = part[k] * factor;
        return product;
    }
};

constexpr int64_t LINE_FLOATS = 16;

inline FloatLine load_floats(const float* from) {
    FloatLine line;
    memcpy(&line, from, sizeof line);
    return line;
}

// The first `count` <= 16 numbers, then zeros.
inline FloatLine load_floats(const float* from, int64_t count) {
    if (count >= LINE_FLOATS) return load_floats(from);
    FloatLine line = {};
    memcpy(&line, from, (size_t)count * sizeof(float));
    return line;
}

inline void store_floats(float* to, const FloatLine& line, int64_t count = LINE_FLOATS) {
    if (count >= LINE_FLOATS)
        memcpy(to, &line, sizeof line);
    else
        memcpy(to, &line, (size_t)count * sizeof(float));
}

// The sum of all numbers: halves are added until one number is left.
inline float fold_floats(const FloatLine& line) {
    typedef float Quarter __attribute__((vector_size(16)));
    Quarter quarters[4];
    memcpy(quarters, &line, sizeof line);
    const Quarter sum = (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// Sum of a[k] b[k].
inline float dot_floats(const float* a, const float* b, int64_t count) {
    FloatLine sum = {};
    int64_t k = 0;
    for (; k + LINE_FLOATS <= count; k += LINE_FLOATS) sum += load_floats(a + k) * load_floats(b + k);
    if (k < count) sum += load_floats(a + k, count - k) * load_floats(b + k, count - k);
    return fold_floats(sum);
}

// y[k] += x a[k].
inline void add_floats(float x, const float* __restrict a, float* __restrict y, int64_t count) {
    for (int64_t k = 0; k < count; k++) y[k] += x * a[k];
}

// A matrix; element (i, j) is at data[i * row + j * column].
struct FloatMatrix {
    const float* data;
    int64_t row, column;
};

// Add rows r .. r + R - 1 of a b to the columns of c from `first` on, at most two lines of them.
template <int R>
inline void add_product_block(FloatMatrix a, int64_t depth, const float* b, int64_t b_row,
                              int64_t columns, float* c, int64_t c_row) {
    FloatLine sums[R][2];
    if (columns == 2 * LINE_FLOATS) {
        for (int r = 0; r < R; r++)
            for (int k = 0; k < 2; k++) sums[r][k] = load_floats(c + r * c_row + k * LINE_FLOATS);
        for (int64_t t = 0; t < depth; t++) {
            const FloatLine first = load_floats(b + t * b_row);
            const FloatLine second = load_floats(b + t * b_row + LINE_FLOATS);
            for (int r = 0; r < R; r++) {
                const float factor = a.data[r * a.row + t * a.column];
                sums[r][0] += first * factor;
                sums[r][1] += second * factor;
            }
        }
        for (int r = 0; r < R; r++)
            for (int k = 0; k < 2; k++) store_floats(c + r * c_row + k * LINE_FLOATS, sums[r][k]);
        return;
    }
    for (int64_t from = 0; from < columns; from += LINE_FLOATS) {
        const int64_t count = columns - from;
        for (int r = 0; r < R; r++) sums[r][0] = load_floats(c + r * c_row + from, count);
        for (int64_t t = 0; t < depth; t++) {
            const FloatLine line = load_floats(b + t * b_row + from, count);
            for (int r = 0; r < R; r++) sums[r][0] += line * a.data[r * a.row + t * a.column];
        }
        for (int r = 0; r < R; r++) store_floats(c + r * c_row + from, sums[r][0], count);
    }
}

// c (rows, columns) += a (rows, depth) b (depth, columns), every element in the order of `depth`.
inline void add_product(FloatMatrix a, const float* b, int64_t b_row, float* c, int64_t c_row,
                        int64_t rows, int64_t depth, int64_t columns) {
    constexpr int R = VECTOR_BYTES == 64 ? 4 : 2;  // sums that fit in registers
    for (int64_t from = 0; from < columns; from += 2 * LINE_FLOATS) {
        const int64_t left = columns - from;
        const int64_t count = left < 2 * LINE_FLOATS ? left : 2 * LINE_FLOATS;
        int64_t i = 0;
        for (; i + R <= rows; i += R)
            add_product_block<R>({a.data + i * a.row, a.row, a.column}, depth, b + from, b_row, count,
                                 c + i * c_row + from, c_row);
        for (; i < rows; i++)
            add_product_block<1>({a.data + i * a.row, a.row, a.column}, depth, b + from, b_row, count,
                                 c + i * c_row + from, c_row);
    }
}

constexpr int64_t BITS_AT_ONCE = 64;  // numbers of a row that are looked at together

// Bit k: whether number k of `count` <= 64 is not 0.
inline uint64_t nonzero_bits(const float* from, int64_t count) {
    uint64_t bits = 0;
#if defined(__AVX512F__)
    for (int64_t k = 0; k < count; k += 16) {
        const __mmask16 wanted = (__mmask16)(count - k < 16 ? (1 << (count - k)) - 1 : 0xFFFF);
        const __m512 line = _mm512_maskz_loadu_ps(wanted, from + k);
        bits |= (uint64_t)_mm512_cmp_ps_mask(line, _mm512_setzero_ps(), _CMP_NEQ_UQ) << k;
    }
#else
    int64_t k = 0;
#if defined(__AVX__)
    for (; k + 8 <= count; k += 8) {
        const __m256 differs = _mm256_cmp_ps(_mm256_loadu_ps(from + k), _mm256_setzero_ps(), _CMP_NEQ_UQ);
        bits |= (uint64_t)(uint8_t)_mm256_movemask_ps(differs) << k;
    }
#endif
    for (; k < count; k++) bits |= (uint64_t)(from[k] != 0.0f) << k;
#endif
    return bits;
}

// Add a (rows, depth) times L lines of b to c; depth <= 64. The last line has `last` columns.
template <int L>
inline void add_sparse_block(const float* a, int64_t a_row, int64_t rows, int64_t depth, const float* b,
                             int64_t b_row, float* c, int64_t c_row, int64_t last) {
    alignas(64) float lines[BITS_AT_ONCE * L * LINE_FLOATS];  // of b, side by side: all in the nearest cache
    const auto count = [&](int l) { return l + 1 < L ? LINE_FLOATS : last; };
    for (int64_t t = 0; t < depth; t++)
        for (int l = 0; l < L; l++)
            store_floats(lines + (t * L + l) * LINE_FLOATS, load_floats(b + t * b_row + l * LINE_FLOATS, count(l)));
    for (int64_t i = 0; i < rows; i++, a += a_row, c += c_row) {
        uint64_t bits = nonzero_bits(a, depth);
        if (!bits) continue;
        FloatLine sums[L];
        for (int l = 0; l < L; l++) {
            sums[l] = load_floats(c + l * LINE_FLOATS, count(l));
            __builtin_prefetch(c + c_row + l * LINE_FLOATS, 1);
        }
        for (; bits; bits &= bits - 1) {
            const int64_t t = __builtin_ctzll(bits);
            const float* line = lines + t * L * LINE_FLOATS;
            for (int l = 0; l < L; l++) sums[l] += load_floats(line + l * LINE_FLOATS) * a[t];
        }
        for (int l = 0; l < L; l++) store_floats(c + l * LINE_FLOATS, sums[l], count(l));
    }
}

// The same as add_product where many numbers of a are 0, which are passed over; b is finite.
inline void add_sparse_product(const float* a, int64_t a_row, const float* b, int64_t b_row, float* c,
                               int64_t c_row, int64_t rows, int64_t depth, int64_t columns) {
    constexpr int L = VECTOR_BYTES == 64 ? 8 : 4;  // lines whose sums fit in registers
    for (int64_t t = 0; t < depth; t += BITS_AT_ONCE) {
        const int64_t count = depth - t < BITS_AT_ONCE ? depth - t : BITS_AT_ONCE;
        int64_t j = 0;
        const auto add = [&](auto block, int lines) {
            const int64_t left = columns - j - (lines - 1) * LINE_FLOATS;
            block(a + t, a_row, rows, count, b + t * b_row + j, b_row, c + j, c_row,
                  left < LINE_FLOATS ? left : LINE_FLOATS);
            j += lines * LINE_FLOATS;
        };
        while (j + L * LINE_FLOATS <= columns) add(add_sparse_block<L>, L);
        while (j + L / 2 * LINE_FLOATS <= columns) add(add_sparse_block<L / 2>, L / 2);
        while (j < columns) add(add_sparse_block<1>, 1);
    }
}

// Write the transpose of a (rows, columns), whose rows are `out_row` apart.
inline void transpose_floats(const float* a, int64_t a_row, int64_t rows, int64_t columns, float* out,
                             int64_t out_row) {
    typedef float Four __attribute__((vector_size(16)));
    constexpr int64_t BLOCK = 16;
    for (int64_t j0 = 0; j0 < columns; j0 += BLOCK)
        for (int64_t i = 0; i < rows; i += 4)
            for (int64_t j = j0; j < columns && j < j0 + BLOCK; j += 4) {
                const float* from = a + i * a_row + j;
                float* to = out + j * out_row + i;
                if (i + 4 > rows || j + 4 > columns) {
                    for (int64_t y = 0; y < columns - j && y < 4; y++)
                        for (int64_t x = 0; x < rows - i && x < 4; x++) to[y * out_row + x] = from[x * a_row + y];
                    continue;
                }
                Four row[4];
                for (int64_t x = 0; x < 4; x++) memcpy(&row[x], from + x * a_row, sizeof row[x]);
                const Four low0 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
                const Four high0 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
                const Four low1 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
                const Four high1 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
                const Four columns_of[4] = {__builtin_shufflevector(low0, low1, 0, 1, 4, 5),
                                            __builtin_shufflevector(low0, low1, 2, 3, 6, 7),
                                            __builtin_shufflevector(high0, high1, 0, 1, 4, 5),
                                            __builtin_shufflevector(high0, high1, 2, 3, 6, 7)};
                for (int64_t y = 0; y < 4; y++) memcpy(to + y * out_row, &columns_of[y], sizeof columns_of[y]);
            }
}

}  // namespace gpuparse
