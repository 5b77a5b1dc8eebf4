// Linear models of sequences: each position gets one of its candidate tags. Sequence s has the positions
// starts[s] : starts[s + 1] of N.
//
// Tag k has the parts tag_parts[tag_starts[k] : tag_starts[k + 1]], at least one. Parts of the same block
// of 8 have weights one after the other: that of part p for a feature is at
// ((feature ^ blocks[p / 8]) & (weights - 8)) + p % 8. The score of a part at a position is the sum of its
// weights over the features of the position that are present; the score of a tag there is the sum over
// its parts. Contexts, which
// read the tags before, are features too, but only of the first three parts of a tag. A feature is
// present if it is not 0 and bit feature >> 8 of `known` is set. `folded` has the bits of all 16 parts of `known`.
#pragma once

#include "types.h"

// The tags coarse_starts[c] : coarse_starts[c + 1] are those of the coarse class c, and have the same first part.
// contexts: (C, 4) each a number that tells it apart from others; what it reads of the tag one before and
// of the tag two before: 0 nothing, 1 the coarse class, 2 the tag; and the column of features that it is
// combined with, -1 for none.
// beam: at a position without candidates, the most coarse classes and tags that are kept, by the scores of
// their first part and of all parts. Of more candidates than tags of the beam, the
// best ones by the scores of all parts are kept. A third number leaves out of the search the candidates whose
// scores are further below the best one; sums have them.
// outputs (parts, H), output_constants (parts,): none, or what a network (tagging.h) adds to the score of each
// part: (the product of its row with the hidden numbers of a position + its constant) times the multiplier,
// shifted by the shift. Their parts are rounded up to whole blocks; H is a multiple of 64.
// pair_weights: empty, or of a model of two tags with one part each, whose contexts read one tag before: the weights
// of both parts for all features, (weights / 8, 2).
struct SequenceModel {
    any_1 weights;
    u32_1 known;
    u32_1 folded;
    u32_1 blocks;
    i64_1 tag_starts;
    i32_1 tag_parts;
    i64_1 coarse_starts;
    i32_2 contexts;
    i64_1 beam;
    i8_2 outputs;
    i32_1 output_constants;
    int64_t output_multiplier;
    int64_t output_shift;
    i16_2 pair_weights;
};

// features: (N, T). The candidates of position i are candidates[candidate_starts[i] :
// candidate_starts[i + 1]]; where there are none, they are found by the beam. hidden (N, H): of a network,
// from 0 to 127; those of positions with one candidate are not read.
struct SequenceBatch {
    u32_2 features;
    i64_1 starts;
    i64_1 candidate_starts;
    i32_1 candidates;
    u8_2 hidden;
};

// T templates of features: template t is the hash keys[t], mixed with the values of its atoms
// atoms[starts[t] : starts[t + 1]], numbers of `reads`: (R, 2) a row of values, and how many places after the
// position the value is.
struct SequenceTemplates {
    u32_1 keys;
    i64_1 starts;
    i64_1 atoms;
    i64_2 reads;
};

// The features (N, T) of positions: values (F, P) of fields at all places, 0 for no value; places (N,) of the
// positions. A feature is 0 where one of its values is.
GPUPARSE(int64_t) sequence_features(const SequenceTemplates* templates, u32_2 values, i64_1 places,
                                    out_u32_2 features);

// The tags (N,) with the highest sums, exact over the candidates; of equal ones that whose last tag, then
// the one before, ... comes first among the candidates. Weights are int16 or float32.
GPUPARSE(int64_t) find_sequences(const SequenceModel* model, const SequenceBatch* batch, out_i32_1 tags);

// Probabilities of the candidates of sequences whose probability is proportional to exp(score * scale):
// tags (N, k) the most probable ones of each position, -1 where there are fewer; probabilities (N, k).
GPUPARSE(int64_t) sum_sequences(const SequenceModel* model, const SequenceBatch* batch, double scale,
                                out_i32_2 tags, out_f64_2 probabilities);

// Learn from the sequences of `order`, one after the other; `seen` came before. gold (N,): tags, which
// become candidates where they are not. cost: what each wrong tag adds to scores in the search.
// max_step: 0 for the perceptron, whose step is 1; otherwise the step of the passive-aggressive rule is
// at most this, and a coordinate of its difference counts as often as it occurs.
// sums: every change times the number of sequences before it. wrong (1,): raised by wrong tags.
// changed: a filter as the model's; the features of positions where a weight may have changed are added.
GPUPARSE(int64_t) learn_sequences(const SequenceModel* model, const SequenceBatch* batch, i32_1 gold,
                                  i64_1 order, int64_t seen, double cost, double max_step,
                                  out_f32_1 weights, out_f64_1 sums, out_i64_1 wrong,
                                  out_u32_1 changed);
