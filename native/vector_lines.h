// Products of float32 matrices whose sums are added in one order, whatever vectors a machine has: lanes
// are columns, or sixteen partial sums that are folded at the end.
#pragma once

#include "lanes.h"

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

// Write the transpose (columns, rows) of a (rows, columns).
inline void transpose_floats(const float* a, int64_t a_row, int64_t rows, int64_t columns, float* out) {
    constexpr int64_t BLOCK = 16;
    for (int64_t i0 = 0; i0 < rows; i0 += BLOCK)
        for (int64_t j0 = 0; j0 < columns; j0 += BLOCK)
            for (int64_t j = j0; j < columns && j < j0 + BLOCK; j++)
                for (int64_t i = i0; i < rows && i < i0 + BLOCK; i++) out[j * rows + i] = a[i * a_row + j];
}

}  // namespace gpuparse
