// Linear layers with weights of 8 bits: rows of float32 are rounded to whole numbers of 8 bits, products
// are summed exactly, and the sums are scaled.
#pragma once

#include "arena.h"
#include "dots.h"
#include "float_functions.h"

namespace gpuparse {

constexpr int64_t PANEL = 16;         // outputs that are side by side
constexpr int64_t PANEL_INPUTS = 4;   // of an output that are side by side
constexpr float RANGE = 254.0f;       // of the whole numbers of a row: two of them are rounded
constexpr int64_t MOST_INPUTS = 8192;  // whose sums of products fit in 32 bits

// Rows of bytes; row i stands for scales[i] times (bytes - zeros[i]). Bytes are signed, plus DOT_OFFSET.
struct WholeRows {
    uint8_t* numbers;
    float* scales;
    int32_t* zeros;
    int64_t width;
};

// Whole numbers in the order of floats; numbers that are not finite are the least or the largest ones.
inline Vector<int32_t> in_order(Vector<int32_t> bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); }
inline float of_order(int32_t number) {
    const int32_t bits = number ^ ((number >> 31) & 0x7FFFFFFF);
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

typedef uint8_t Narrow __attribute__((vector_size(VECTOR_BYTES / 4)));

// The last byte of every lane.
inline Narrow last_bytes(Vector<uint32_t> lanes) {
#if defined(__AVX__) && !defined(__AVX512F__)
    const auto bytes = (Vector<uint8_t>)lanes;  // g++ would move each lane alone
    return __builtin_shufflevector(bytes, bytes, 0, 4, 8, 12, 16, 20, 24, 28);
#else
    return __builtin_convertvector(lanes, Narrow);
#endif
}

// Round row i to bytes that reach from its least number to its largest one, 0 among them. Where a number
// is not finite the scale is not either, and so no output. width: a multiple of 16.
inline void round_row(const float* row, int64_t width, const WholeRows& rows, int64_t i) {
    constexpr int64_t lanes = Lanes<float>::count;
    Vector<int32_t> largest = {}, least = {};
    for (int64_t k = 0; k < width; k += lanes) {
        const Vector<int32_t> number = in_order((Vector<int32_t>)load(row + k));
        largest = number > largest ? number : largest;
        least = number < least ? number : least;
    }
    const float low = of_order(~largest_lane(~least));
    const float range = of_order(largest_lane(largest)) - low;
    const bool is_zero = range < 0x1p-100f;
    const float factor = is_zero ? 0.0f : RANGE / range;
    rows.scales[i] = is_zero ? 0.0f : range / RANGE;
    // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the last bits.
    const float shifted_zero = 12582912.0f - low * factor;
    int32_t zero;
    memcpy(&zero, &shifted_zero, sizeof zero);
    zero = (int32_t)((uint32_t)zero - 0x4B400000u) + DOT_OFFSET - 128;
    rows.zeros[i] = zero;
    uint8_t* numbers = rows.numbers + i * width;
    for (int64_t k = 0; k < width; k += lanes) {
        const Vector<float> shifted = load(row + k) * factor + 12582912.0f;
        const auto whole = (Vector<uint32_t>)shifted + (uint32_t)zero;  // the last byte
        const Narrow narrow = last_bytes(whole);
        memcpy(numbers + k, &narrow, sizeof narrow);
    }
}

// sums[k] + the dots of a0 and b0 and of a1 and b1; see `add_byte_dots`. a0, a1: from 0 to 255. The
// positive ones of b0[2 i], b0[2 i + 1], b1[2 i] and b1[2 i + 1] are at most 128 together, and the negative
// ones: sums of four products do not exceed 16 bits.
inline Sums add_byte_dots(Sums sums, Bytes a0, Bytes b0, Bytes a1, Bytes b1) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    return add_byte_dots(add_byte_dots(sums, a0, b0), a1, b1);
#elif defined(__AVX512BW__)
    const __m512i first = _mm512_maddubs_epi16((__m512i)a0, (__m512i)b0);
    const __m512i fours = _mm512_add_epi16(first, _mm512_maddubs_epi16((__m512i)a1, (__m512i)b1));
    return plus(sums, (Sums)_mm512_madd_epi16(fours, _mm512_set1_epi16(1)));
#elif defined(__AVX2__)
    const __m256i first = _mm256_maddubs_epi16((__m256i)a0, (__m256i)b0);
    const __m256i fours = _mm256_add_epi16(first, _mm256_maddubs_epi16((__m256i)a1, (__m256i)b1));
    return plus(sums, (Sums)_mm256_madd_epi16(fours, _mm256_set1_epi16(1)));
#elif defined(__SSSE3__) && !defined(__AVX__)
    const __m128i first = _mm_maddubs_epi16((__m128i)a0, (__m128i)b0);
    const __m128i fours = _mm_add_epi16(first, _mm_maddubs_epi16((__m128i)a1, (__m128i)b1));
    return plus(sums, (Sums)_mm_madd_epi16(fours, _mm_set1_epi16(1)));
#else
    return add_byte_dots(add_byte_dots(sums, a0, b0), a1, b1);
#endif
}

// A linear layer; see `Encoder`. inputs, outputs: multiples of 16. weights: as `add_byte_dots` reads `b`.
// totals: the sum of the weights of each output, which a byte of 1 in place of each 0 adds.
struct ByteLayer {
    const int8_t* weights;
    const float* scales;
    const float* biases;
    int64_t inputs, outputs;
    int32_t* totals;

    // The weights of a vector of outputs, for the first inputs; those of the next ones are 64 bytes on.
    const int8_t* of_outputs(int64_t output) const {
        return weights + output / PANEL * PANEL * inputs + output % PANEL * PANEL_INPUTS;
    }
};

constexpr int64_t OUTPUTS = VECTOR_BYTES / PANEL_INPUTS;  // of a vector

// A layer with its totals; without memory the arena has failed.
inline ByteLayer with_totals(ByteLayer layer, Arena& arena) {
    layer.totals = arena.take<int32_t>(layer.outputs);
    const uint8_t ones[4] = {1, 1, 1, 1};
    for (int64_t output = 0; layer.totals && output < layer.outputs; output += OUTPUTS) {
        Sums sums[4] = {};  // which do not wait for each other
        const int8_t* weights = layer.of_outputs(output);
        for (int64_t k = 0; k < layer.inputs; k += 4 * PANEL_INPUTS)
            for (int64_t j = 0; j < 4; j++, weights += PANEL * PANEL_INPUTS)
                sums[j] = add_byte_dots(sums[j], splat_bytes(ones), load(weights));
        store(layer.totals + output, plus(plus(sums[0], sums[1]), plus(sums[2], sums[3])));
    }
    return layer;
}

// Call finish(row, output, values) for R rows and C vectors of outputs.
template <int R, int C, class Finish>
inline void multiply_tile(const ByteLayer& layer, const WholeRows& rows, int64_t i, int64_t output,
                          Finish finish) {
    Sums sums[R][C] = {};
    const uint8_t* of_rows[R];
    const int8_t* of_outputs[C];
    for (int r = 0; r < R; r++) of_rows[r] = rows.numbers + (i + r) * rows.width;
    for (int c = 0; c < C; c++) of_outputs[c] = layer.of_outputs(output + c * OUTPUTS);
    for (int64_t k = 0; k < layer.inputs; k += 2 * PANEL_INPUTS) {
        Bytes weights0[C], weights1[C];
        for (int c = 0; c < C; c++) {
            weights0[c] = load(of_outputs[c] + k * PANEL);
            weights1[c] = load(of_outputs[c] + (k + PANEL_INPUTS) * PANEL);
        }
        for (int r = 0; r < R; r++) {
            const Bytes inputs0 = splat_bytes(of_rows[r] + k), inputs1 = splat_bytes(of_rows[r] + k + PANEL_INPUTS);
            for (int c = 0; c < C; c++)
                sums[r][c] = add_byte_dots(sums[r][c], inputs0, weights0[c], inputs1, weights1[c]);
        }
    }
    for (int c = 0; c < C; c++) {
        const int64_t first = output + c * OUTPUTS;
        const Vector<float> scales = load(layer.scales + first), biases = load(layer.biases + first);
        for (int r = 0; r < R; r++) {
            const auto of_zeros = (Vector<uint32_t>)load(layer.totals + first) * (uint32_t)rows.zeros[i + r];
            const auto sum = __builtin_convertvector(minus(sums[r][c], (Sums)of_zeros), Vector<float>);
            finish(i + r, first, sum * (scales * rows.scales[i + r]) + biases);
        }
    }
}

// As `multiply_rows`, for C vectors of outputs.
template <int C, class Finish>
inline void multiply_strip(const ByteLayer& layer, const WholeRows& rows, int64_t n_rows, int64_t output,
                           Finish finish) {
    // Sums that fit in registers, beside a vector of inputs, those of weights, and what dots need.
    constexpr int R = VECTOR_BYTES == 64 ? 12 : 4;
    int64_t i = 0;
    for (; i + R <= n_rows; i += R) multiply_tile<R, C>(layer, rows, i, output, finish);
    for (; i + 4 <= n_rows; i += 4) multiply_tile<4, C>(layer, rows, i, output, finish);
    switch (n_rows - i) {
        case 3: multiply_tile<3, C>(layer, rows, i, output, finish); break;
        case 2: multiply_tile<2, C>(layer, rows, i, output, finish); break;
        case 1: multiply_tile<1, C>(layer, rows, i, output, finish); break;
    }
}

// Call finish(row, output, values) for all rows, and outputs of the layer in whole vectors.
template <class Finish>
inline void multiply_rows(const ByteLayer& layer, const WholeRows& rows, int64_t n_rows, Finish finish) {
    int64_t output = 0;
    for (; output + 2 * OUTPUTS <= layer.outputs; output += 2 * OUTPUTS)
        multiply_strip<2>(layer, rows, n_rows, output, finish);
    for (; output < layer.outputs; output += OUTPUTS) multiply_strip<1>(layer, rows, n_rows, output, finish);
}

}  // namespace gpuparse
