// From token values to trees and labels: score, decode and label the sentences of a batch.
#pragma once
#include "scoring.h"
#include "types.h"

// How trees are searched for. decoder: a number of `DecoderNumber` in native/decode.h, which
// gpuparse/inference/decoders.py names. min_gain: of searches by single changes, and of trees with
// crossing arcs. Of dual decomposition: max_iterations, granularity, and under limits on labels
// class_of (labels,), the class of each label, and masks (classes,), the limits of each class as bits.
struct Search {
    int64_t decoder;
    bool single_root;
    double min_gain;
    int64_t max_iterations;
    double granularity;
    i64_1 class_of;
    i64_1 masks;
};

// The arcs left by pruning: h -> m of the sentence whose root is the token t at
// firsts[t] + h * (n + 1) + m of cells.
struct ArcCells {
    i64_1 firsts;
    b8_1 cells;
};

// Write the best tree of every sentence to heads, and its labels if they are found with the trees, by
// token. allowed: for higher-order decoders, or NULL: all arcs. marks: (2, tokens), at the token of
// each root whether no tree scores more, and iterations; or empty.
// Returns the index of the first sentence without a tree, or -1.
GPUPARSE(int64_t) parse_batch(const Sentences* sentences, const Scorer* scorer, const Search* search,
    const ArcCells* allowed, out_i64_1 heads, out_i64_1 labels, out_i64_2 marks);

// The same for graphs, without labels: heads are the primary heads; the arc h -> m of sentence b goes
// to cells[firsts[b] + h * (n + 1) + m].
GPUPARSE(int64_t) parse_graphs_batch(const Sentences* sentences, const Scorer* scorer,
    const Search* search, i64_1 firsts, out_i64_1 heads, out_b8_1 cells);

// Write the best label of every arc of finished trees, heads (tokens,), the first of equals.
// weights: (lines, labels).
GPUPARSE(int64_t) label_batch(const Sentences* sentences, const LabelPlan* plan, any_2 weights,
    i64_1 heads, out_i64_1 labels);

// The same for graphs: the token t has the heads arc_heads[arc_starts[t] .. arc_starts[t + 1]], one of
// which, heads[t], is primary. may_be_primary: (labels,), labels that arcs from primary heads may have.
GPUPARSE(int64_t) label_graphs_batch(const Sentences* sentences, const LabelPlan* plan, any_2 weights,
    i64_1 heads, i64_1 arc_starts, i64_1 arc_heads, b8_1 may_be_primary, out_i64_1 labels);

// Write the probability of the label of each token, given its head, where the label is not negative.
// scale: nats a point of the label scores.
GPUPARSE(int64_t) find_label_marginals_batch(const Sentences* sentences, const LabelPlan* plan,
    any_2 weights, double scale, i64_1 heads, i64_1 labels, out_f64_1 marginals);
