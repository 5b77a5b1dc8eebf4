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

// The scorer of labels that are found with the trees: `stride` weights of each line, of
// which the first `width` are those of the labels. higher: templates of children, or NULL.
struct JointLabels {
    const ArcPlan* plan;
    const RowMap* rows;
    any_1 weights;
    int64_t stride;
    int64_t width;
    const HigherPlan* higher;
};

// Word vectors; see vectors.h.
struct WordVectors;

// The scorer of parts. Weights are int8, int16 or float32; those of labels have the same
// type. joint: NULL where labels are not found with the trees. vectors: what adds to the scores of arcs
// and of joint labels, or NULL.
struct Scorer {
    const Plan* plan;
    any_1 weights;
    const RowMap* rows;
    const JointLabels* joint;
    const WordVectors* vectors;
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
// a field. known: heads by token that trees shall have, -1 for those to be found; or empty. vectors:
// (nodes, 2 PL), of all nodes sentence by sentence, numbers of their vectors as heads and as modifiers
// that score labels: parse_batch writes them, label_batch reads them and finds none itself; or empty.
struct Sentences {
    i32_2 values;
    i64_1 starts;
    i64_1 lengths;
    i64_1 known;
    out_i16_2 vectors;
};

// Dense scores, float64 for integer weights and float32 for float32 weights; N nodes. The diagonal,
// column 0 and padding are undefined.

// arcs (B, N, N), [b, h, m]: all arc templates, those of guides not included.
GPUPARSE(int64_t) score_arcs_batch(const Sentences* sentences, const Scorer* scorer, out_any_3 arcs);

// arcs (B, N, N): what guide templates add, 0 for arcs that no guide has.
GPUPARSE(int64_t) score_guides_batch(const Sentences* sentences, const Scorer* scorer, out_any_3 arcs);

// siblings (B, N, N, N), [b, h, m, s], s == h for no inner sibling; ends (B, N, N).
GPUPARSE(int64_t) score_siblings_batch(const Sentences* sentences, const Scorer* scorer,
    out_any_4 siblings, out_any_3 ends);

// labels (B, N, N, L), [b, h, m, l]: of labels that are found with the trees.
GPUPARSE(int64_t) score_labels_batch(const Sentences* sentences, const Scorer* scorer,
    out_any_4 labels);

// The weight rows of P parts of one sentence: parts (P, 6), of each the kind, h, m, third, fourth and
// label as in `Part` of native/part_list.h; rows (P, R), in the order of the plan's templates, -1 for
// one that does not fire and beyond the last one. Templates of words in between have a row for each of
// these words. Rows of labels are numbers of single weights, and follow those of `weights`. Returns the
// least R that is enough; nothing is written where R is smaller. The weights themselves are not read.
GPUPARSE(int64_t) list_part_rows(const Sentences* sentences, const Scorer* scorer, i64_2 parts,
    out_i64_2 rows);
