// Biaffine scores of arcs and labels, of vectors that layers make of hidden states; all weights have 8 bits.
// float32 sums have one order: scores are the same in any batch.
#pragma once

#include "api/encoder.h"
#include "arena.h"
#include "byte_layers.h"
#include "encoder.h"
#include "views.h"

namespace gpuparse {

// Computes layers for at most ROWS rows at a time.
class ByteRows {
public:
    static constexpr int64_t ROWS = 16;

    // widest: the most inputs of a layer.
    ByteRows(int64_t widest, Arena& arena)
        : rows_{arena.take<uint8_t>(ROWS * widest), arena.take<float>(ROWS), arena.take<int32_t>(ROWS), 0} {}

    static ByteLayer layer(const ByteLinear& of, Arena& arena) {
        const int64_t inputs = of.weights.n1 * PANEL_INPUTS, outputs = of.scales.n0;
        return with_totals({of.weights.data, of.scales.data, of.biases.data, inputs, outputs, nullptr}, arena);
    }
    static int64_t at_most(int64_t count) { return count < ROWS ? count : ROWS; }

    // out (n, outputs): the outputs for n rows of inputs, or their GELU.
    template <bool has_gelu>
    void multiply(const ByteLayer& layer, const float* inputs, int64_t n, float* out) {
        rows_.width = layer.inputs;
        for (int64_t first = 0; first < n; first += ROWS) {
            const int64_t count = at_most(n - first);
            for (int64_t i = 0; i < count; i++)
                round_row(inputs + (first + i) * layer.inputs, layer.inputs, rows_, i);
            multiply_rows(layer, rows_, count, [=](int64_t i, int64_t output, Vector<float> values) {
                store(out + (first + i) * layer.outputs + output, has_gelu ? float_gelu(values) : values);
            });
        }
    }

private:
    WholeRows rows_;
};

// Scores of all arcs of sentences.
class ByteArcPass {
public:
    ByteArcPass(const ByteArcs& of, Arena& arena)
        : heads_(ByteRows::layer(*of.heads, arena)), modifiers_(ByteRows::layer(*of.modifiers, arena)),
          products_(ByteRows::layer(*of.products, arena)) {}

    // Fill scores[h][m] of the n nodes with some states; row: cells of a head. False: no memory.
    bool fill(const float* states, int64_t n, float* scores, int64_t row, Arena& arena) const {
        const int64_t X = heads_.outputs, Y = modifiers_.outputs, stride = whole_lines<float>(n);
        ByteRows rows(heads_.inputs > X ? heads_.inputs : X, arena);
        float* x = arena.take<float>(n * X);
        float* y = arena.take<float>(n * Y);
        float* turned = arena.take<float>(Y * stride);
        float* of_heads = arena.take<float>(n * Y);
        float* found = arena.take<float>(n * stride);
        if (arena.failed()) return false;
        if (is_interrupted(n * n)) return false;
        rows.multiply<true>(heads_, states, n, x);
        rows.multiply<true>(modifiers_, states, n, y);
        rows.multiply<false>(products_, x, n, of_heads);
        transpose_floats(y, Y, n, Y, turned, stride);
        for (int64_t j = 0; j < Y; j++)
            for (int64_t m = n; m < stride; m++) turned[j * stride + m] = 0.0f;
        multiply_floats({of_heads, Y, 1}, turned, stride, found, stride, n, Y, stride);
        for (int64_t h = 0; h < n; h++) memcpy(scores + h * row, found + h * stride, (size_t)n * sizeof(float));
        return true;
    }

private:
    const ByteLayer heads_, modifiers_, products_;
};

// Scores of labels of arcs. The products of a head are computed once for all of its arcs.
class ByteLabelPass {
public:
    static constexpr int64_t ROWS = ByteRows::ROWS;

    ByteLabelPass(const ByteLabels& of, f32_2 heads, i64_1 starts, f32_2 modifiers, out_f32_2 scores, Arena& arena)
        : heads_layer_(ByteRows::layer(*of.heads, arena)), modifiers_layer_(ByteRows::layer(*of.modifiers, arena)),
          products_layer_(ByteRows::layer(*of.products, arena)), heads_(heads), starts_(starts), modifiers_(modifiers), scores_(scores) {}

    // False: no memory.
    bool fill(Arena& arena) {
        const int64_t X = heads_layer_.outputs, Y = modifiers_layer_.outputs, widest = heads_.n1 > X ? heads_.n1 : X;
        ByteRows rows(widest, arena);
        float* x = arena.take<float>(ROWS * X);
        float* y = arena.take<float>(ROWS * Y);
        float* products = arena.take<float>(ROWS * products_layer_.outputs + Lanes<float>::count);
        if (arena.failed()) return false;
        for (int64_t first = 0; first < heads_.n0; first += ROWS) {
            const int64_t count = ByteRows::at_most(heads_.n0 - first);
            if (is_interrupted(count * products_layer_.outputs)) return false;
            rows.multiply<true>(heads_layer_, heads_.data + first * heads_.n1, count, x);
            rows.multiply<false>(products_layer_, x, count, products);
            int64_t head = first;
            for (int64_t arc = starts_.data[first]; arc < starts_.data[first + count]; arc += ROWS) {
                const int64_t arcs = ByteRows::at_most(starts_.data[first + count] - arc);
                rows.multiply<true>(modifiers_layer_, modifiers_.data + arc * modifiers_.n1, arcs, y);
                for (int64_t i = 0; i < arcs; i++) {
                    while (starts_.data[head + 1] <= arc + i) head++;
                    add_products(products + (head - first) * products_layer_.outputs, y + i * Y,
                                 scores_.data + (arc + i) * scores_.n1);
                }
            }
        }
        return true;
    }

private:
    // The scores of an arc. products: of its head with each number of y and then with 1, a row of labels
    // each; what is read beyond the last row is not used.
    void add_products(const float* products, const float* y, float* scores) const {
        constexpr int64_t lanes = Lanes<float>::count;
        int64_t label = 0;
        for (; label + 4 * lanes <= scores_.n1; label += 4 * lanes) add_products<4>(products, y, label, scores);
        for (; label < scores_.n1; label += lanes) add_products<1>(products, y, label, scores);
    }
    // The heads of C vectors of labels.
    template <int C>
    void add_products(const float* products, const float* y, int64_t label, float* scores) const {
        constexpr int64_t lanes = Lanes<float>::count;
        const int64_t labels = scores_.n1, Y = modifiers_layer_.outputs;
        Vector<float> sums[C];
        for (int c = 0; c < C; c++) sums[c] = load(products + Y * labels + label + c * lanes);
        for (int64_t j = 0; j < Y; j++) {
            const Vector<float> factor = splat(y[j]);
            for (int c = 0; c < C; c++) sums[c] += factor * load(products + j * labels + label + c * lanes);
        }
        float found[C * lanes];
        for (int c = 0; c < C; c++) store(found + c * lanes, sums[c]);
        const int64_t left = labels - label;
        memcpy(scores + label, found, (size_t)(left < C * lanes ? left : C * lanes) * sizeof(float));
    }

    const ByteLayer heads_layer_, modifiers_layer_, products_layer_;
    const f32_2 heads_;
    const i64_1 starts_;
    const f32_2 modifiers_;
    const out_f32_2 scores_;
};

}  // namespace gpuparse
