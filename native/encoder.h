// The forward pass of a transformer: post-layer-norm, learned positions, GELU. Sums of float32 are added in
// one order, and no row depends on another but by attention: states are the same in any batch.
#pragma once

#include <math.h>

#include "api/encoder.h"
#include "arena.h"
#include "byte_layers.h"
#include "vector_lines.h"
#include "views.h"

namespace gpuparse {

// The largest number of a row, of whole lines.
inline float largest_float(const float* row, int64_t width) {
    Vector<float> largest = load(row);
    for (int64_t k = Lanes<float>::count; k < width; k += Lanes<float>::count) {
        const Vector<float> numbers = load(row + k);
        largest = numbers > largest ? numbers : largest;
    }
    return of_order(largest_lane(in_order((Vector<int32_t>)largest)));
}

template <int R>
struct RowCount {
    static constexpr int value = R;
};

// Rows i .. i + R - 1 of c = a b, of C vectors of columns from j on; see `multiply_floats`.
template <int R, int C>
inline void multiply_floats_tile(FloatMatrix a, int64_t depth, const float* b, int64_t b_row, float* c,
                                 int64_t c_row) {
    constexpr int64_t lanes = Lanes<float>::count;
    Vector<float> sums[R][C] = {};
    for (int64_t t = 0; t < depth; t++) {
        Vector<float> of_b[C];
        for (int k = 0; k < C; k++) of_b[k] = load(b + t * b_row + k * lanes);
        for (int r = 0; r < R; r++) {
            const Vector<float> factor = splat(a.data[r * a.row + t * a.column]);
            for (int k = 0; k < C; k++) sums[r][k] += factor * of_b[k];
        }
    }
    for (int r = 0; r < R; r++)
        for (int k = 0; k < C; k++) store(c + r * c_row + k * lanes, sums[r][k]);
}

// c (rows, columns) = a (rows, depth) b (depth, columns), every element in the order of `depth`.
inline void multiply_floats(FloatMatrix a, const float* b, int64_t b_row, float* c, int64_t c_row,
                            int64_t rows, int64_t depth, int64_t columns) {
    constexpr int64_t lanes = Lanes<float>::count;
    const auto with_rows = [&](auto of_rows, int64_t i) {
        constexpr int R = decltype(of_rows)::value;
        const FloatMatrix of_a{a.data + i * a.row, a.row, a.column};
        int64_t j = 0;
        for (; j + 2 * lanes <= columns; j += 2 * lanes)
            multiply_floats_tile<R, 2>(of_a, depth, b + j, b_row, c + i * c_row + j, c_row);
        for (; j + lanes <= columns; j += lanes)
            multiply_floats_tile<R, 1>(of_a, depth, b + j, b_row, c + i * c_row + j, c_row);
        for (; j < columns; j++)
            for (int r = 0; r < R; r++) {
                float sum = 0.0f;
                for (int64_t t = 0; t < depth; t++)
                    sum += of_a.data[r * a.row + t * a.column] * b[t * b_row + j];
                c[(i + r) * c_row + j] = sum;
            }
    };
    int64_t i = 0;
    for (; VECTOR_BYTES == 64 && i + 8 <= rows; i += 8) with_rows(RowCount<8>(), i);
    for (; i + 4 <= rows; i += 4) with_rows(RowCount<4>(), i);
    for (; i < rows; i++) with_rows(RowCount<1>(), i);
}

// The sum of of(k), a vector of the numbers from k on, for a width of whole lines.
template <class Of>
inline float sum_vectors(int64_t width, Of of) {
    Vector<float> parts[FloatLine::PARTS] = {};
    for (int64_t k = 0; k < width; k += LINE_FLOATS)
        for (int64_t p = 0; p < FloatLine::PARTS; p++) parts[p] += of(k + p * Lanes<float>::count);
    FloatLine line;
    memcpy(&line, parts, sizeof line);
    return fold_floats(line);
}

// A transformer over some sequences of a batch.
class EncoderPass {
public:
    EncoderPass(const Encoder& encoder, int64_t width, Arena& arena)
        : of_(encoder), width_(width), padded_(encoder.words.n1), inner_(encoder.intermediate_scales.n1),
          layers_(encoder.query_key_value.n0), linear_(arena.take<LayerWeights>(layers_)) {
        const Encoder& e = encoder;
        const auto of = [&](const i8_4& weights, const f32_2& scales, const f32_2& biases, int64_t l) {
            const int64_t inputs = weights.n2 * PANEL_INPUTS, outputs = scales.n1, first = l * outputs;
            return with_totals({weights.data + first * inputs, scales.data + first, biases.data + first, inputs,
                                outputs, nullptr}, arena);
        };
        for (int64_t l = 0; linear_ && l < layers_; l++)
            linear_[l] = {of(e.query_key_value, e.query_key_value_scales, e.query_key_value_biases, l),
                          of(e.attention_output, e.attention_output_scales, e.attention_output_biases, l),
                          of(e.intermediate, e.intermediate_scales, e.intermediate_biases, l),
                          of(e.output, e.output_scales, e.output_biases, l)};
    }

    // Fill the states of sequences; starts (n_sequences + 1,): of all pieces. False: no memory.
    bool encode(const int32_t* ids, const int32_t* types, const int64_t* starts, int64_t n_sequences,
                const float* mix, float* hidden, Arena& arena) {
        const int64_t n = starts[n_sequences] - starts[0], D = padded_;
        const int64_t widest = inner_ > D ? inner_ : D;
        float* states = arena.take<float>(n * D);
        float* change = arena.take<float>(n * D);
        float* wide = arena.take<float>(n * (inner_ > 3 * D ? inner_ : 3 * D));
        rows_ = {arena.take<uint8_t>(n * widest), arena.take<float>(n), arena.take<int32_t>(n), D};
        int64_t longest = 0;
        for (int64_t b = 0; b < n_sequences; b++)
            if (starts[b + 1] - starts[b] > longest) longest = starts[b + 1] - starts[b];
        const int64_t stride = whole_lines<float>(longest);
        keys_ = arena.take<float>(width_ / of_.heads * stride);
        scores_ = arena.take<float>(QUERIES * stride);
        if (arena.failed()) return false;

        int64_t last = layers_;  // later ones change nothing
        while (last > 0 && mix[last] == 0.0f) last--;
        embed(ids + starts[0], types + starts[0], starts, n_sequences, states);
        float* to = hidden + starts[0] * width_;
        memset(to, 0, (size_t)(n * width_) * sizeof(float));
        add_states(mix[0], states, n, to);
        for (int64_t l = 0; l < last; l++) {
            if (is_interrupted(n * D)) return false;
            round_rows(states, n, D);
            multiply<false>(linear_[l].query_key_value, n, wide);
            for (int64_t b = 0; b < n_sequences; b++) {
                const int64_t first = starts[b] - starts[0];
                attend(wide + first * 3 * D, starts[b + 1] - starts[b], change + first * D);
            }
            round_rows(change, n, D);
            multiply<false>(linear_[l].attention_output, n, change);
            add_and_normalise(change, n, 1 + 2 * l, states);
            round_rows(states, n, D);
            multiply<true>(linear_[l].intermediate, n, wide);
            round_rows(wide, n, inner_);
            multiply<false>(linear_[l].output, n, change);
            add_and_normalise(change, n, 2 + 2 * l, states);
            add_states(mix[l + 1], states, n, to);
        }
        return true;
    }

private:
    static constexpr int64_t QUERIES = 32;  // that attend at a time

    struct LayerWeights {
        ByteLayer query_key_value, attention_output, intermediate, output;
    };

    void embed(const int32_t* ids, const int32_t* types, const int64_t* starts, int64_t n_sequences,
               float* states) {
        for (int64_t b = 0, i = 0; b < n_sequences; b++) {
            for (int64_t position = 0; position < starts[b + 1] - starts[b]; position++, i++) {
                const int8_t* word = of_.words.data + ids[i] * padded_;
                const float scale = of_.word_scales.data[ids[i]];
                const float* place = of_.positions.data + position * padded_;
                const float* type = of_.types.data + types[i] * padded_;
                float* state = states + i * padded_;
                for (int64_t k = 0; k < padded_; k++) state[k] = (float)word[k] * scale + place[k] + type[k];
                normalise(0, state);
            }
        }
    }

    // hidden (n, width) += factor * states.
    void add_states(float factor, const float* states, int64_t n, float* hidden) {
        if (factor != 0.0f)
            for (int64_t i = 0; i < n; i++)
                add_floats(factor, states + i * padded_, hidden + i * width_, width_);
    }

    void round_rows(const float* values, int64_t n, int64_t width) {
        rows_.width = width;
        for (int64_t i = 0; i < n; i++) round_row(values + i * width, width, rows_, i);
    }

    // out (n, outputs): the outputs, or their GELU.
    template <bool has_gelu>
    void multiply(const ByteLayer& layer, int64_t n, float* out) {
        const int64_t row = layer.outputs;
        multiply_rows(layer, rows_, n, [=](int64_t i, int64_t output, Vector<float> values) {
            store(out + i * row + output, has_gelu ? float_gelu(values) : values);
        });
    }

    // Fill context (n, D) of a sequence. projected (n, 3 D): queries, which are divided by the root of
    // their size, keys and values.
    void attend(const float* projected, int64_t n, float* context) {
        constexpr int64_t lanes = Lanes<float>::count;
        const int64_t size = width_ / of_.heads, row = 3 * padded_, stride = whole_lines<float>(n);
        const int64_t columns = (n + lanes - 1) / lanes * lanes;
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = width_; k < padded_; k++) context[i * padded_ + k] = 0.0f;
        for (int64_t head = 0; head < of_.heads; head++) {
            const float* queries = projected + head * size;
            const float* keys = queries + padded_;
            const float* values = keys + padded_;
            transpose_floats(keys, row, n, size, keys_, stride);
            for (int64_t k = 0; k < size; k++)
                for (int64_t j = n; j < stride; j++) keys_[k * stride + j] = 0.0f;
            for (int64_t first = 0; first < n; first += QUERIES) {
                const int64_t count = n - first < QUERIES ? n - first : QUERIES;
                multiply_floats({queries + first * row, row, 1}, keys_, stride, scores_, stride, count, size, columns);
                float* of_head = context + first * padded_ + head * size;
                float factors[QUERIES];
                for (int64_t i = 0; i < count; i++) factors[i] = 1.0f / exponentials(scores_ + i * stride, n);
                multiply_floats({scores_, stride, 1}, values, row, of_head, padded_, count, n, size);
                for (int64_t i = 0; i < count; i++)
                    for (int64_t k = 0; k < size; k++) of_head[i * padded_ + k] *= factors[i];
            }
        }
    }

    // Replace n scores by exp of their difference from the largest; returns the sum.
    static float exponentials(float* scores, int64_t n) {
        const int64_t stride = whole_lines<float>(n);
        for (int64_t j = n; j < stride; j++) scores[j] = -INFINITY;
        const Vector<float> most = splat(largest_float(scores, stride));
        for (int64_t j = 0; j < stride; j += Lanes<float>::count)
            store(scores + j, float_exp(load(scores + j) - most));
        return sum_vectors(stride, [=](int64_t j) { return load(scores + j); });
    }

    // states = the layer norm of states + change.
    void add_and_normalise(const float* change, int64_t n, int64_t norm, float* states) {
        for (int64_t i = 0; i < n; i++) {
            float* state = states + i * padded_;
            add_floats(1.0f, change + i * padded_, state, padded_);
            normalise(norm, state);
        }
    }

    void normalise(int64_t norm, float* state) const {
        const float* factors = of_.norms.data + 2 * norm * padded_;
        const float* biases = factors + padded_;
        const float mean = sum_vectors(padded_, [=](int64_t k) { return load(state + k); }) / (float)width_;
        for (int64_t k = 0; k < width_; k++) state[k] -= mean;
        const auto square = [=](int64_t k) { return load(state + k) * load(state + k); };
        const float variance = sum_vectors(padded_, square) / (float)width_;
        const float inverse = 1.0f / __builtin_sqrtf(variance + (float)of_.epsilon);
        for (int64_t k = 0; k < padded_; k++) state[k] = state[k] * inverse * factors[k] + biases[k];
    }

    const Encoder& of_;
    const int64_t width_, padded_, inner_, layers_;
    LayerWeights* const linear_;
    WholeRows rows_;
    float* keys_;
    float* scores_;
};

}  // namespace gpuparse
