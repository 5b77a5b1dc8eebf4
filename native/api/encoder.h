// Hidden states of a pretrained transformer.
#pragma once
#include "types.h"

// A transformer with L layers of width d, whose linear layers have weights of 8 bits; see
// gpuparse/scorers/encoder/quantised.py. D and F: the width and that of the inner layer, rounded up to a
// multiple of 16; what lies beyond the width is 0. words (V, D), times word_scales (V,): embeddings of
// pieces; positions (positions, D): those of positions; types (T, D): those of types of pieces; norms
// (2 L + 1, 2, D): factors and biases of the layer norms of the embeddings, of attention and of the inner
// layer. Weights of a linear layer are (L, outputs / 16, inputs / 4, 64): panels of 16 outputs, which have
// four inputs of each output side by side; scales and biases (L, outputs): of outputs. The outputs of
// query_key_value are 3 D.
struct Encoder {
    int64_t heads;
    double epsilon;
    i8_2 words;
    f32_1 word_scales;
    f32_2 positions;
    f32_2 types;
    f32_3 norms;
    i8_4 query_key_value;
    f32_2 query_key_value_scales;
    f32_2 query_key_value_biases;
    i8_4 attention_output;
    f32_2 attention_output_scales;
    f32_2 attention_output_biases;
    i8_4 intermediate;
    f32_2 intermediate_scales;
    f32_2 intermediate_biases;
    i8_4 output;
    f32_2 output_scales;
    f32_2 output_biases;
};

// types (pieces,): of each piece. Write hidden (pieces, d): of each piece of the sequences from starts[b] to starts[b + 1] the sum of its
// states after the embeddings and after each layer, times mix (L + 1,).
GPUPARSE(int64_t) encode_pieces(const Encoder* encoder, i32_1 ids, i32_1 types, i64_1 starts,
    f32_1 mix, out_f32_2 hidden);

// A linear layer with weights of 8 bits: weights (outputs / 16, inputs / 4, 64) in panels as those of
// `Encoder`, scales and biases (outputs,).
struct ByteLinear {
    i8_3 weights;
    f32_1 scales;
    f32_1 biases;
};

// Write found (rows, n): the first n outputs of a layer for rows (rows, inputs).
GPUPARSE(int64_t) multiply_byte_linear(const ByteLinear* linear, f32_2 rows, out_f32_2 found);

// Scores of arcs. The layers make X and Y numbers of the states of heads and modifiers (D,), whose GELU is
// read; products: of X numbers those by which the Y numbers are multiplied.
struct ByteArcs {
    const ByteLinear* heads;
    const ByteLinear* modifiers;
    const ByteLinear* products;
};

// Write scores (B, N, N) of head and modifier: those of the nodes 0 to lengths[b] of sentence b, whose states
// are the rows of states (T, D) from starts[b] on.
GPUPARSE(int64_t) score_byte_arcs(const ByteArcs* arcs, f32_2 states, i64_1 starts, i64_1 lengths,
    out_f32_3 scores);

// Scores of L labels. As `ByteArcs`; products has outputs j L + l, by which number j of Y is multiplied for
// label l, and outputs Y L + l, which are added.
struct ByteLabels {
    const ByteLinear* heads;
    const ByteLinear* modifiers;
    const ByteLinear* products;
};

// Write scores (A, L) of the labels of arcs. heads (H, D): states, whose arcs are starts[h] to before
// starts[h + 1]; modifiers (A, D).
GPUPARSE(int64_t) score_byte_labels(const ByteLabels* labels, f32_2 heads, i64_1 starts, f32_2 modifiers,
    out_f32_2 scores);
