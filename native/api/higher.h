// Decoders of higher orders, over batches of dense scores.
#pragma once

#include "types.h"

// Options of the search for trees. decoder: a number of `DecoderNumber` in native/decoder_numbers.h, which
// gpuparse/inference/decoders.py names. min_gain: of searches by single changes, and of trees with
// crossing arcs. Of dual decomposition: max_iterations, solutions of all sub-problems; granularity,
// two scores are equal or differ by at least this much, 0 if unknown, below 0: 1 where all scores are
// whole, else 0; and under limits on labels class_of (labels,), the class of each label, and masks
// (classes,), the limits of each class as bits.
struct Search {
    int64_t decoder;
    bool single_root;
    double min_gain;
    int64_t max_iterations;
    double granularity;
    i64_1 class_of;
    i64_1 masks;
};

// Scores of a batch, one type of float32 and float64; one row per sentence, N nodes. A score that was
// not given has no elements, and counts as 0. arc, end: (B, N N), [h, m]; sibling: (B, N^3), [h, m, s],
// s == h for no inner sibling; grandparent: (B, N^3), [h, m, g]; grand_sibling: (B, N^4),
// [h, m, s, g], with tri-siblings of outermost modifiers m alone; tri_sibling: (B, N^4), [h, m, s, t];
// inner and outer grandchild: (B, N^3), [h, m, c], c == m for none. Of grandchildren, arcs, siblings
// and grandchildren have a last axis of n_labels >= 1 labels. limited: labels under limits, (B, N N L),
// [h, m, l], or no elements.
struct HigherOrderScores {
    any_2 arc;
    any_2 sibling;
    any_2 grandparent;
    any_2 grand_sibling;
    any_2 tri_sibling;
    any_2 inner_grandchild;
    any_2 outer_grandchild;
    any_2 end;
    int64_t n_labels;
    f64_2 limited;
};

// Best trees by a decoder of higher order: heads (B, N), -1 where no word is; labels (B, N), written
// where labels are found with the trees; a sentence without a tree gets no heads. certified (B,): no
// tree scores more; iterations (B,).
GPUPARSE(int64_t) higher_order_batch(const HigherOrderScores* scores, const Search* search,
    i64_1 lengths, out_i64_2 heads, out_i64_2 labels, out_b8_1 certified, out_i64_1 iterations);

// Which sentences have a number that may be unusable; how many. scores: (B, N, N, M), [h, m, ...], of
// which all cells of words are looked at; or (B, N, N N, M), [h, (m, s), ...], of which the s that are
// h or between h and m are, where all cells are that decoders read.
GPUPARSE(int64_t) find_suspicious_sentences(any_4 scores, i64_1 lengths, out_b8_1 suspicious);
