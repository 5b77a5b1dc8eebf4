// The forward pass of a transformer: post-layer-norm, learned positions, GELU. Sums of float32 are added in
// one order, and no row depends on another but by attention: states are the same in any batch.
#pragma once

#include <math.h>
#include <time.h>

#include "api/encoder.h"
#include "arena.h"
#include "byte_layers.h"
#include "vector_lines.h"
#include "views.h"

namespace gpuparse {

// The kinds of work whose seconds are counted.
enum EncoderPhase : int64_t {
    TO_EMBED,
    TO_ROUND,
    TO_MULTIPLY,
    TO_ATTEND,
    TO_NORMALISE,
    TO_MIX,
    ENCODER_PHASES
};

// Seconds of phases, if anyone asks for them.
struct PhaseClock {
    double* seconds;
    double last = 0.0;

    explicit PhaseClock(double* of_phases) : seconds(of_phases) {
        if (seconds) last = now();
    }
    // All time since the last call is of a phase.
    void end(EncoderPhase phase) {
        if (!seconds) return;
        const double time = now();
        seconds[phase] += time - last;
        last = time;
    }

private:
    static double now() {
        timespec time;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
    }
};

// The largest number of a row, of whole lines.
inline float largest_float(const float* row, int64_t width) {
    Vector<float> largest = load(row);
    for (int64_t k = Lanes<float>::count; k < width; k += Lanes<float>::count) {
        const Vector<float> numbers = load(row + k);
        largest = numbers > largest ? numbers : largest;
    }
    float most = largest[0];
    for (int64_t k = 1; k < Lanes<float>::count; k++) most = largest[k] > most ? largest[k] : most;
    return most;
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
    for (; i + 4 <= rows; i += 4) with_rows(RowCount<4>(), i);
    for (; i < rows; i++) with_rows(RowCount<1>(), i);
}

// A transformer over some sequences of a batch.
class EncoderPass {
public:
    EncoderPass(const Encoder& encoder, int64_t width, double* seconds)
        : of_(encoder), width_(width), padded_(encoder.words.n1),
          inner_(encoder.intermediate_scales.n1), layers_(encoder.query_key_value.n0), clock_(seconds) {}

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
        clock_.end(TO_EMBED);
        float* to = hidden + starts[0] * width_;
        memset(to, 0, (size_t)(n * width_) * sizeof(float));
        add_states(mix[0], states, n, to);
        for (int64_t l = 0; l < last; l++) {
            if (is_interrupted(n * D)) return false;
            round_rows(states, n, D);
            multiply(layer(of_.query_key_value, of_.query_key_value_scales, of_.query_key_value_biases, l, D),
                     n, wide);
            for (int64_t b = 0; b < n_sequences; b++) {
                const int64_t first = starts[b] - starts[0];
                attend(wide + first * 3 * D, starts[b + 1] - starts[b], change + first * D);
            }
            clock_.end(TO_ATTEND);
            round_rows(change, n, D);
            multiply(layer(of_.attention_output, of_.attention_output_scales, of_.attention_output_biases, l, D),
                     n, change);
            add_and_normalise(change, n, 1 + 2 * l, states);
            round_rows(states, n, D);
            multiply(layer(of_.intermediate, of_.intermediate_scales, of_.intermediate_biases, l, D), n, wide);
            round_rows<true>(wide, n, inner_);
            multiply(layer(of_.output, of_.output_scales, of_.output_biases, l, inner_), n, change);
            add_and_normalise(change, n, 2 + 2 * l, states);
            add_states(mix[l + 1], states, n, to);
        }
        return true;
    }

private:
    static constexpr int64_t QUERIES = 32;  // that attend at a time

    static ByteLayer layer(const i8_4& weights, const f32_2& scales, const f32_2& biases, int64_t l,
                           int64_t inputs) {
        const int64_t outputs = scales.n1;
        return {weights.data + l * inputs * outputs, scales.data + l * outputs, biases.data + l * outputs,
                inputs, outputs};
    }

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
        clock_.end(TO_MIX);
    }

    // has_gelu: GELU is computed of the values, in their place.
    template <bool has_gelu = false>
    void round_rows(float* values, int64_t n, int64_t width) {
        rows_.width = width;
        for (int64_t i = 0; i < n; i++) {
            float* row = values + i * width;
            for (int64_t k = 0; has_gelu && k < width; k += Lanes<float>::count)
                store(row + k, float_gelu(load(row + k)));
            round_row(row, width, rows_, i);
        }
        clock_.end(TO_ROUND);
    }

    void multiply(const ByteLayer& layer, int64_t n, float* out) {
        const int64_t row = layer.outputs;
        multiply_rows(layer, rows_, n, [=](int64_t i, int64_t output, Vector<float> values) {
            store(out + i * row + output, values);
        });
        clock_.end(TO_MULTIPLY);
    }

    // Fill context (n, D) of a sequence. projected (n, 3 D): queries, which are divided by the root of
    // their size, keys and values.
    void attend(const float* projected, int64_t n, float* context) {
        const int64_t size = width_ / of_.heads, row = 3 * padded_, stride = whole_lines<float>(n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = width_; k < padded_; k++) context[i * padded_ + k] = 0.0f;
        for (int64_t head = 0; head < of_.heads; head++) {
            const float* queries = projected + head * size;
            const float* keys = queries + padded_;
            const float* values = keys + padded_;
            for (int64_t j = 0; j < n; j++)
                for (int64_t k = 0; k < size; k++) keys_[k * stride + j] = keys[j * row + k];
            for (int64_t k = 0; k < size; k++)
                for (int64_t j = n; j < stride; j++) keys_[k * stride + j] = 0.0f;
            for (int64_t first = 0; first < n; first += QUERIES) {
                const int64_t count = n - first < QUERIES ? n - first : QUERIES;
                multiply_floats({queries + first * row, row, 1}, keys_, stride, scores_, stride, count, size, stride);
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
        FloatLine sum = {};
        for (int64_t j = 0; j < stride; j += LINE_FLOATS) sum += load_floats(scores + j);
        return fold_floats(sum);
    }

    // states = the layer norm of states + change.
    void add_and_normalise(const float* change, int64_t n, int64_t norm, float* states) {
        for (int64_t i = 0; i < n; i++) {
            float* state = states + i * padded_;
            add_floats(1.0f, change + i * padded_, state, padded_);
            normalise(norm, state);
        }
        clock_.end(TO_NORMALISE);
    }

    void normalise(int64_t norm, float* state) const {
        const float* factors = of_.norms.data + 2 * norm * padded_;
        const float* biases = factors + padded_;
        FloatLine sum = {};
        for (int64_t k = 0; k < padded_; k += LINE_FLOATS) sum += load_floats(state + k);
        const float mean = fold_floats(sum) / (float)width_;
        for (int64_t k = 0; k < width_; k++) state[k] -= mean;
        FloatLine squares = {};
        for (int64_t k = 0; k < padded_; k += LINE_FLOATS) {
            const FloatLine line = load_floats(state + k);
            squares += line * line;
        }
        const float variance = fold_floats(squares) / (float)width_;
        const float inverse = 1.0f / __builtin_sqrtf(variance + (float)of_.epsilon);
        for (int64_t k = 0; k < padded_; k++) state[k] = state[k] * inverse * factors[k] + biases[k];
    }

    const Encoder& of_;
    const int64_t width_, padded_, inner_, layers_;
    PhaseClock clock_;
    WholeRows rows_;
    float* keys_;
    float* scores_;
};

}  // namespace gpuparse
