// Scores of parts: what is read of a model and a batch.
#pragma once
#include "types.h"

// Templates that look at two words, as arrays; see gpuparse/features/plan.py, which compiles them.
struct ArcPlan {
    i64_1 buckets;
    int64_t n_buckets;
    u32_2 codes;
    i64_1 side_start;
    i64_2 atoms;
    i64_2 word;
    i64_2 pair;
    i64_2 between;
    int64_t dense_lines;
};

// From keys to base rows of the weights: a table of `rows` rows, then the dense region.
struct RowMap {
    int64_t rows;
    bool is_power;
    int64_t mask;
    int64_t dense;
};

// Fill out[b, 0:n+1, 1:n+1] with the scores of all arcs of every sentence; the type of `out` is
// float64.
GPUPARSE(int64_t) score_arcs_batch(i32_2 values, i64_1 starts, i64_1 lengths, const ArcPlan* plan,
    any_1 weights, const RowMap* rows, out_f64_3 out);
