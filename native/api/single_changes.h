// Searches by single changes, and checks of trees and scores.
//
// Scores of a batch have type float32 or float64 and the shape (B, N, N), [h, m]; sibling scores
// (B N, N, N) with B N rows, [h, m, s], s == h for no inner sibling. Searches take scores of siblings
// and ends, or neither. lengths (B,): words of each sentence, at most N - 1. Functions return BAD_SHAPE
// where shapes do not agree.
#pragma once

#include "types.h"

// Limits of a search by single changes. max_changes: of a sentence, -1 for no limit; min_gain: each
// change raises the score by more.
struct ChangeLimits {
    bool single_root;
    int64_t max_changes;
    double min_gain;
};

// Improve trees by single changes of head, in place: heads (B, N); totals (B,), -inf where the start
// has a forbidden part; changes (B,). sibling (B N, N, N), end (B, N, N) of the arcs' type.
GPUPARSE(int64_t) hill_climb_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
    const ChangeLimits* limits, out_i64_2 heads, out_f64_1 totals, out_i64_1 changes);

// From the trees `heads` (B, N) to graphs by single changes: arcs (B, N, N), [h, m]; totals (B,).
GPUPARSE(int64_t) multi_parent_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
    const ChangeLimits* limits, i64_2 heads, out_b8_3 arcs, out_f64_1 totals);

// Faults of given trees: heads (R, N) under lengths (R,); faults and words (R,), a TreeFault of
// native/trees.h and the word, 0 for none. is_projective: whether arcs must not cross. -1, a head that
// is not known, is a fault unless is_partial; arcs of such trees may cross.
GPUPARSE(int64_t) find_tree_faults(i64_2 heads, i64_1 lengths, bool single_root, bool is_projective,
    bool is_partial, out_i32_1 faults, out_i32_1 words);

// The first sentence with a length out of range or an unusable score in a cell that is read: neither
// -inf nor within the largest float / (4 n + 4); -1 if there is none.
GPUPARSE(int64_t) find_unusable_arc(any_3 scores, i64_1 lengths);
