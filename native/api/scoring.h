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

// Templates of two modifiers of one head, and of a head with its outermost modifier on a side.
struct SiblingPlan {
    const ArcPlan* pairs;
    i64_2 triple;
    const ArcPlan* ends;
};

// Templates of the arcs that another parser proposes: `row` of the values is its head + 1, 0 for none.
struct GuidePlan {
    const ArcPlan* arcs;
    int64_t row;
};

// Templates of parts of three and four words.
struct HigherPlan {
    i64_1 family_start;
    i64_2 sides;
    b8_1 with_direction;
    i64_1 side_start;
    i64_2 atoms;
    bool only_last;
};

// All templates that trees are searched for with; NULL for what there is none of.
struct Plan {
    const ArcPlan* arcs;
    const SiblingPlan* siblings;
    const GuidePlan* guide;
    const HigherPlan* higher;
};

// From keys to base rows of the weights: a table of `rows` rows, then the dense region.
struct RowMap {
    int64_t rows;
    bool is_power;
    int64_t mask;
    int64_t dense;
};

// What labels are scored with that are found with the trees: `stride` weights of each line, of
// which the first `width` are those of the labels. higher: templates of children, or NULL.
struct JointLabels {
    const ArcPlan* plan;
    const RowMap* rows;
    any_1 weights;
    int64_t stride;
    int64_t width;
    const HigherPlan* higher;
};

// What parts are scored with. Weights are int8, int16 or float32; those of labels have the same
// type. joint: NULL where labels are not found with the trees.
struct Scorer {
    const Plan* plan;
    any_1 weights;
    const RowMap* rows;
    const JointLabels* joint;
};

// Label templates of finished trees.
struct LabelPlan {
    i64_1 buckets;
    i64_1 start;
    i64_1 role;
    i64_1 row;
    i64_1 offset;
    b8_1 direction;
    b8_1 distance;
};

// Sentences of a batch: the root of sentence b is the token starts[b] of `values`, which has one row
// a field. known: heads by token that trees shall have, -1 for those to be found; or empty.
struct Sentences {
    i32_2 values;
    i64_1 starts;
    i64_1 lengths;
    i64_1 known;
};

// Fill out[b, 0:n+1, 1:n+1] with the scores of all arcs of every sentence; the type of `out` is
// float64.
GPUPARSE(int64_t) score_arcs_batch(i32_2 values, i64_1 starts, i64_1 lengths, const ArcPlan* plan,
    any_1 weights, const RowMap* rows, out_f64_3 out);
