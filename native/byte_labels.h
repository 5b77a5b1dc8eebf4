// Scores of labels by a biaffine product of vectors that layers make of hidden states; all weights have 8
// bits. The products of a head are computed once for all of its arcs, and float32 sums have one order: scores
// are the same in any batch.
#pragma once

#include "api/encoder.h"
#include "arena.h"
#include "byte_layers.h"
#include "views.h"

namespace gpuparse {

class ByteLabelPass {
public:
    ByteLabelPass(const ByteLabels& of, f32_2 heads, i64_1 starts, f32_2 modifiers, out_f32_2 scores)
        : heads_layer_(layer(*of.heads)), modifiers_layer_(layer(*of.modifiers)), products_layer_(layer(*of.products)),
          heads_(heads), starts_(starts), modifiers_(modifiers), scores_(scores) {}

    // False: no memory.
    bool fill(Arena& arena) {
        const int64_t X = heads_layer_.outputs, Y = modifiers_layer_.outputs, widest = heads_.n1 > X ? heads_.n1 : X;
        rows_ = {arena.take<uint8_t>(ROWS * widest), arena.take<float>(ROWS), arena.take<int32_t>(ROWS), 0};
        float* x = arena.take<float>(ROWS * X);
        float* y = arena.take<float>(ROWS * Y);
        float* products = arena.take<float>(ROWS * products_layer_.outputs + Lanes<float>::count);
        if (arena.failed()) return false;
        for (int64_t first = 0; first < heads_.n0; first += ROWS) {
            const int64_t count = at_most(heads_.n0 - first);
            multiply(heads_layer_, heads_.data + first * heads_.n1, count, x, gelu);
            multiply(products_layer_, x, count, products, [](Vector<float> values) { return values; });
            int64_t head = first;
            for (int64_t arc = starts_.data[first]; arc < starts_.data[first + count]; arc += ROWS) {
                const int64_t arcs = at_most(starts_.data[first + count] - arc);
                multiply(modifiers_layer_, modifiers_.data + arc * modifiers_.n1, arcs, y, gelu);
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
    static constexpr int64_t ROWS = 16;  // whose layers are computed at a time

    static ByteLayer layer(const ByteLinear& of) {
        return {of.weights.data, of.scales.data, of.biases.data, of.weights.n1 * PANEL_INPUTS, of.scales.n0};
    }
    static int64_t at_most(int64_t count) { return count < ROWS ? count : ROWS; }
    static Vector<float> gelu(Vector<float> values) { return float_gelu(values); }

    // out (n, outputs): what `finish` makes of the outputs for n rows of inputs.
    template <class Finish>
    void multiply(const ByteLayer& layer, const float* inputs, int64_t n, float* out, Finish finish) {
        rows_.width = layer.inputs;
        for (int64_t i = 0; i < n; i++) round_row(inputs + i * layer.inputs, layer.inputs, rows_, i);
        multiply_rows(layer, rows_, n, [=](int64_t i, int64_t output, Vector<float> values) {
            store(out + i * layer.outputs + output, finish(values));
        });
    }

    // The scores of an arc. products: of its head with each number of y and then with 1, a row of labels
    // each; what is read beyond the last row is not used.
    void add_products(const float* products, const float* y, float* scores) const {
        constexpr int64_t lanes = Lanes<float>::count;
        int64_t label = 0;
        for (; label + 4 * lanes <= scores_.n1; label += 4 * lanes) add_products<4>(products, y, label, scores);
        for (; label < scores_.n1; label += lanes) add_products<1>(products, y, label, scores);
    }
    // Those of C vectors of labels.
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
    WholeRows rows_;
};

}  // namespace gpuparse
