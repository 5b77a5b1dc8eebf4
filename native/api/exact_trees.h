// Trees of all decoders that have best and k best trees, sums and random trees.
//
// decoder: BY_EISNER, BY_CHU_LIU_EDMONDS or BY_EISNER_SIBLING of native/decoder_numbers.h. Scores of a
// batch are (B, N, N), [h, m]; sibling scores (B, N, N, N), [h, m, s], s == h for no inner sibling,
// with B N rows; end scores (B, N, N); only BY_EISNER_SIBLING has siblings and ends. All scores have
// one type, float32 or float64. lengths (B,): words of each sentence, at most N - 1. Functions return
// BAD_SHAPE where shapes do not agree,
// otherwise the first sentence without a tree, -1 if all have trees.
#pragma once

#include "types.h"

// The k best trees, best first: heads (B, k, N), -1 where no word is; totals (B, k), falling. Where
// there are no more trees, heads are -1 and totals -inf. A sentence with a length out of range or an
// unusable arc score that is read has no tree.
GPUPARSE(int64_t) find_trees_batch(int64_t decoder, any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
    bool single_root, out_i64_3 heads, out_f64_2 totals);

// Log-partitions (B,) in nats, -inf for a sentence without a tree, and marginals (B, N, N) of arcs;
// empty: only log-partitions. By BY_EISNER_SIBLING also those of siblings (B, N, N, N) and ends
// (B, N, N), both or none, laid out as their scores.
GPUPARSE(int64_t) sum_trees_batch(int64_t decoder, f64_3 arc, f64_3 sibling, f64_3 end, i64_1 lengths,
    bool single_root, out_f64_3 marginals, out_f64_4 of_siblings, out_f64_3 of_ends,
    out_f64_1 log_partitions);

// Random trees: heads (B, samples, N), -1 where no word is, and log-partitions (B,). Tree t of a
// sentence depends on its scores, its seed and t alone.
GPUPARSE(int64_t) draw_trees_batch(int64_t decoder, f64_3 arc, f64_3 sibling, f64_3 end, i64_1 lengths,
    bool single_root, i64_1 seeds, out_i64_3 heads, out_f64_1 log_partitions);
