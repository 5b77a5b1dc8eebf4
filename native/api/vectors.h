// Scores from word vectors.
#pragma once
#include "parsing.h"

// Templates of one word, K of them; see gpuparse/features/word_vectors.py. Template k reads row rows[k]
// of a batch's values at the token `offsets[k]` further on; value v there has the row
// places[starts[k] + v] of the table of vectors, -1 for none, where v < sizes[k]. buckets, n_buckets: of
// distances, as in `ArcPlan`. Words in between are told apart by the numbers between_places[v] below
// n_between, -1 for none, of their values v in row between_row.
struct VectorPlan {
    i64_1 rows;
    i64_1 offsets;
    i64_1 starts;
    i64_1 sizes;
    i32_1 places;
    i64_1 buckets;
    int64_t n_buckets;
    int64_t between_row;
    i32_1 between_places;
    int64_t n_between;
};

// Word vectors as whole numbers; see gpuparse/scorers/vectors/word_vectors.py, which says what they mean and
// proves that no sum has more than 32 bits. Without labels label_constants has no numbers, and without
// siblings or grandparents the arrays of these. arc_margin: -1 if templates score all arcs, and otherwise
// only those whose vectors score at most that much less than those of the best head of their word, of words
// with several such heads. label_margin: the same of the labels of trees, whose templates score all labels
// of an arc or none.
struct WordVectors {
    const VectorPlan* plan;
    i8_2 table;
    u8_1 scales;
    i32_1 bias;
    int64_t shift;
    i8_3 heads;
    i8_3 modifiers;
    int64_t networks;
    i32_1 head_shifts;
    i32_1 modifier_shifts;
    i8_2 arcs;
    i16_2 arc_heads;
    i16_2 arc_modifiers;
    i32_1 arc_constants;
    i8_2 siblings;
    i16_2 sibling_heads;
    i16_2 sibling_modifiers;
    i32_1 sibling_constants;
    i8_2 grandparents;
    i16_2 grandparent_heads;
    i16_2 grandparent_modifiers;
    i32_1 grandparent_constants;
    i16_2 between_heads;
    i16_2 between_modifiers;
    i32_1 between_constants;
    i8_3 labels;
    i16_3 label_heads;
    i16_3 label_modifiers;
    i32_1 label_constants;
    int64_t arc_multiplier;
    int64_t arc_shift;
    int64_t sibling_multiplier;
    int64_t sibling_shift;
    int64_t grandparent_multiplier;
    int64_t grandparent_shift;
    int64_t label_multiplier;
    int64_t label_shift;
    int64_t arc_margin;
    int64_t label_margin;
};

// Sizes of vectors that are learned: of the hidden layer, 0 for none, and of what arcs, siblings,
// grandparents (0: not scored) and labels are scored with; labels; values of words in between.
struct VectorSizes {
    int64_t hidden;
    int64_t arc;
    int64_t sibling;
    int64_t grandparent;
    int64_t label;
    int64_t n_labels;
    int64_t n_between;
};

// Weights that are learned: table (rows, width), and in one array what all words share: bias (width,),
// heads and modifiers (hidden, columns), pairs (2 n_buckets, 3 arc + 1), siblings (2 n_buckets,
// 3 sibling + 1) unless sibling is 0, grandparents likewise, labels (n_labels, 3 label + 1), words in
// between (4 n_between, 2 arc + 1). columns: arc + sibling + grandparent + label; width: 2 hidden, or
// 2 columns without a hidden layer.
struct VectorTables {
    f32_2 table;
    f32_1 dense;
};

// The data learned from. loss: 0 structured hinge, 1 conditional likelihood; siblings and grandparents are learned
// by the first, with projective trees;
// cost: what a wrong head adds to a score in search; label_loss: the weight of the likelihood of labels;
// dropout: the probability that a row of a node does not count; seed: of dropped rows.
struct VectorLearning {
    int64_t loss;
    double cost;
    double label_loss;
    double dropout;
    int64_t seed;
};

// Gold heads and labels by token, -1 for none; labels may be empty.
struct VectorGold {
    i64_1 heads;
    i64_1 labels;
};

// The gradients of some sentences: nodes (nodes, width), of the sums of table rows of all nodes, sentence
// by sentence; dense, of the array of that name; occurrences (nodes K,): the rows of every node, row
// times 2^32 plus first_node plus node, -1 for rows that do not count.
struct VectorGradients {
    out_f32_2 nodes;
    out_f32_1 dense;
    out_i64_1 occurrences;
    int64_t first_node;
};

// A step of Adam: decays of the moments; steps so far, this one included.
struct VectorStep {
    double rate;
    double first_decay;
    double second_decay;
    int64_t steps;
};

// Fill the gradients of the loss of all sentences. counts (3,): raised by words with a wrong head, the
// loss of arcs, the loss of labels. Only search->decoder and search->single_root are read, of a decoder
// of arcs. Returns the first sentence without a tree (its scores are not finite), or -1.
GPUPARSE(int64_t) find_vector_gradients(const Sentences* sentences, const VectorPlan* plan,
    const VectorSizes* sizes, const VectorTables* tables, const Search* search,
    const VectorLearning* learning, const VectorGold* gold, const VectorGradients* gradients,
    out_f64_1 counts);

// Step against the sum of gradients (groups, weights), from weight `first` to before `last`. moments:
// (2, weights).
GPUPARSE(int64_t) step_vector_weights(const VectorStep* step, f32_2 gradients, int64_t first,
    int64_t last, out_f32_1 weights, out_f32_2 moments);

// The same for the rows of the table that occur. occurrences: sorted; gradients (nodes, width), which
// are multiplied by `scale`; moments (2, rows, width).
GPUPARSE(int64_t) step_vector_rows(const VectorStep* step, i64_1 occurrences, f32_2 gradients,
    double scale, out_f32_2 table, out_f32_3 moments);

// The scores that word vectors add to arcs, (B, N, N), [b, h, m], as `score_arcs_batch`, in points;
// kind: or to those of another kind of pairs, 1: siblings, 2: grandparents.
GPUPARSE(int64_t) score_vectors_batch(const Sentences* sentences, const WordVectors* vectors,
    int64_t kind, out_f64_3 pairs);
