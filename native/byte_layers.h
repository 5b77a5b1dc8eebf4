// Linear layers with weights of 8 bits: rows of float32 are rounded to whole numbers of 12 bits, products
// are summed exactly, and the sums are scaled.
#pragma once

#include "dots.h"
#include "float_functions.h"

namespace gpuparse {

constexpr int64_t PANEL = 16;         // outputs that are side by side
constexpr int64_t PANEL_INPUTS = 4;   // of an output that are side by side
constexpr float MOST_INPUT = 2047.0f;
// No sum of so many products of 2047 and 127 exceeds 32 bits.
constexpr int64_t MOST_INPUTS = 8192;

// Rows of numbers below 2^11; row i stands for scales[i] times its numbers.
struct WholeRows {
    int16_t* numbers;
    float* scales;
    int64_t width;
};

// Round a row to whole numbers, the largest one to 2047. Where a number is not finite the scale is not
// either, and so no output. width: a multiple of 16.
inline void round_row(const float* row, int64_t width, int16_t* numbers, float* scale) {
    constexpr int64_t lanes = Lanes<float>::count;
    Vector<int32_t> largest = {};  // bits of numbers without signs are in the order of the numbers
    for (int64_t k = 0; k < width; k += lanes) {
        const Vector<int32_t> bits = (Vector<int32_t>)load(row + k) & 0x7FFFFFFF;
        largest = bits > largest ? bits : largest;
    }
    const int32_t most_bits = largest_lane(largest);
    float most;
    memcpy(&most, &most_bits, sizeof most);
    const bool is_zero = most < 0x1p-100f;
    const float factor = is_zero ? 0.0f : MOST_INPUT / most;
    *scale = is_zero ? 0.0f : most / MOST_INPUT;
    typedef int16_t Narrow __attribute__((vector_size(VECTOR_BYTES / 2)));
    for (int64_t k = 0; k < width; k += lanes) {
        const Vector<float> shifted = load(row + k) * factor + 12582912.0f;  // rounded, as in float_exp
        const auto whole = (Vector<int32_t>)((Vector<uint32_t>)shifted - 0x4B400000u);
        const Narrow narrow = __builtin_convertvector(whole, Narrow);
        memcpy(numbers + k, &narrow, sizeof narrow);
    }
}

// A linear layer; see `Encoder`. inputs, outputs: multiples of 16.
struct ByteLayer {
    const int8_t* weights;
    const float* scales;
    const float* biases;
    int64_t inputs, outputs;
};

constexpr int64_t STRIP = VECTOR_BYTES / 4;  // outputs that are summed together, in two vectors

// Sums of two halves of four products: of the outputs of two vectors, which have two lanes each.
inline Sums add_pairs_of_lanes(Sums a, Sums b) {
#if defined(__AVX512F__)
    const Sums even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const Sums odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return plus(even, odd);
#elif defined(__AVX2__)
    return (Sums)_mm256_permute4x64_epi64(_mm256_hadd_epi32((__m256i)a, (__m256i)b), 0xD8);
#elif !defined(__AVX__)
    const Sums even = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    return plus(even, __builtin_shufflevector(a, b, 1, 3, 5, 7));
#else
    const Sums even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    return plus(even, __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15));
#endif
}

// Outputs of R rows, of a strip. weights: of its first four inputs.
template <int R, class Finish>
inline void multiply_tile(const ByteLayer& layer, const int8_t* weights, const WholeRows& rows, int64_t i,
                          int64_t output, Finish finish) {
    Sums sums[R][2] = {};
    const int16_t* of_rows[R];
    for (int r = 0; r < R; r++) of_rows[r] = rows.numbers + (i + r) * rows.width;
    for (int64_t k = 0; k < layer.inputs; k += PANEL_INPUTS) {
        const Words first = widen(weights), second = widen(weights + VECTOR_BYTES / 2);
        weights += PANEL * PANEL_INPUTS;
        for (int r = 0; r < R; r++) {
            int64_t four;
            memcpy(&four, of_rows[r] + k, sizeof four);
            const Words inputs = (Words)splat(four);
            sums[r][0] = add_word_dots(sums[r][0], first, inputs);
            sums[r][1] = add_word_dots(sums[r][1], second, inputs);
        }
    }
    const Vector<float> scales = load(layer.scales + output), biases = load(layer.biases + output);
    for (int r = 0; r < R; r++) {
        const Sums whole = add_pairs_of_lanes(sums[r][0], sums[r][1]);
        const Vector<float> sum = __builtin_convertvector(whole, Vector<float>);
        finish(i + r, output, sum * (scales * rows.scales[i + r]) + biases);
    }
}

// Call finish(row, output, values) for all rows, and outputs of the layer in whole vectors.
template <class Finish>
inline void multiply_rows(const ByteLayer& layer, const WholeRows& rows, int64_t n_rows, Finish finish) {
    constexpr int R = VECTOR_BYTES == 64 ? 12 : 6;  // sums that fit in registers
    for (int64_t output = 0; output < layer.outputs; output += STRIP) {
        const int8_t* weights = layer.weights + output / PANEL * PANEL * layer.inputs +
                                output % PANEL * PANEL_INPUTS;
        int64_t i = 0;
        for (; i + R <= n_rows; i += R) multiply_tile<R>(layer, weights, rows, i, output, finish);
        for (; i + 6 <= n_rows; i += 6) multiply_tile<6>(layer, weights, rows, i, output, finish);
        switch (n_rows - i) {
            case 5: multiply_tile<5>(layer, weights, rows, i, output, finish); break;
            case 4: multiply_tile<4>(layer, weights, rows, i, output, finish); break;
            case 3: multiply_tile<3>(layer, weights, rows, i, output, finish); break;
            case 2: multiply_tile<2>(layer, weights, rows, i, output, finish); break;
            case 1: multiply_tile<1>(layer, weights, rows, i, output, finish); break;
        }
    }
}

}  // namespace gpuparse
