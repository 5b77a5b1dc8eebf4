// Decoders beyond the second order, over batches of dense scores.
#pragma once

#include "types.h"

// Scores of a batch, one type of float32 and float64; one row a sentence, N nodes. A score that was
// not given has no elements, and counts as 0. arc, end: (B, N N), [h, m]; sibling: (B, N^3), [h, m, s],
// s == h for no inner sibling; grandparent: (B, N^3), [h, m, g]; grand_sibling, outermost: (B, N^4),
// [h, m, s, g]; tri_sibling: (B, N^4), [h, m, s, t].
struct HigherOrderScores {
    any_2 arc;
    any_2 sibling;
    any_2 grandparent;
    any_2 grand_sibling;
    any_2 tri_sibling;
    any_2 outermost;
    any_2 end;
};

// Best projective trees under grand-sibling parts: heads (B, N), -1 where no word is; totals (B,), in
// the type of the scores, -inf for a sentence without a tree, which gets no heads.
GPUPARSE(int64_t) eisner_grand_sibling_batch(const HigherOrderScores* scores, i64_1 lengths,
    bool single_root, out_i64_2 heads, out_any_1 totals);

// The same under tri-sibling parts, and grand-sibling parts of outermost modifiers.
GPUPARSE(int64_t) eisner_tri_sibling_batch(const HigherOrderScores* scores, i64_1 lengths,
    bool single_root, out_i64_2 heads, out_any_1 totals);

// Scores with labels, one type: arc (B, N N L), [h, m, l]; others (B, N^3 L), [h, m, c, l], c == h
// for no sibling, c == m for no modifier of m.
struct GrandchildScores {
    any_2 arc;
    any_2 sibling;
    any_2 inner;
    any_2 outer;
    int64_t n_labels;
};

// Best projective trees under siblings and grandchildren with their labels; as above, labels (B, N).
GPUPARSE(int64_t) eisner_grandchild_batch(const GrandchildScores* scores, i64_1 lengths,
    bool single_root, out_i64_2 heads, out_i64_2 labels, out_any_1 totals);

// Scores of labels and hard limits on them: scores (B, N N L), [h, m, l]; class_of (L,), the class of
// each label; masks (D,), the limits that each class is under, as bits, none: there are no labels.
struct LimitedLabels {
    f64_2 scores;
    i64_1 class_of;
    i64_1 masks;
};

// Limits of a search: max_iterations, solutions of all sub-problems; granularity: two scores are equal
// or differ by at least this much, below 0: 1 where all scores are whole, else 0; min_gain: a tree with
// crossing arcs must score more, by more than this, than the best projective tree.
struct DualLimits {
    bool single_root;
    int64_t max_iterations;
    double granularity;
    double min_gain;
};

// Best trees, crossing arcs allowed: heads and, under limits on labels, labels (B, N), -1 where no word
// is; totals (B,), -inf for a sentence without a tree; certified (B,): no tree scores more;
// iterations (B,).
GPUPARSE(int64_t) dual_decomposition_batch(const HigherOrderScores* scores, const LimitedLabels* labels,
    i64_1 lengths, bool has_grandparents, const DualLimits* limits, out_i64_2 heads,
    out_i64_2 best_labels, out_f64_1 totals, out_b8_1 certified, out_i64_1 iterations);

// The best labels of given trees under limits: best_labels (B, N), filled at the words if the limits
// leave any; sums (B,), of the labels' scores over words 1, 2, ..., n, -inf if there are none.
GPUPARSE(int64_t) best_labels_batch(const LimitedLabels* labels, i64_1 lengths, i64_2 heads,
    out_i64_2 best_labels, out_f64_1 sums);

// Whether any number of a sentence, read or not, is unusable. scores: (B, N, M), of which the rows
// 0 .. length are read; limit (B,), the largest number of each sentence.
GPUPARSE(int64_t) find_suspicious_sentences(any_3 scores, i64_1 lengths, f64_1 limit,
    out_b8_1 suspicious);
