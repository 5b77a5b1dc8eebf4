// From token values to trees and labels: score, decode and label the sentences of a batch.
#pragma once
#include "higher.h"
#include "scoring.h"
#include "types.h"

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

// The scores of given trees of all sentences, as decoders add them, the best labels included if they are
// found with the trees: heads by token, scores (B,). Returns as `parse_batch`: a decoder of higher order
// finds no tree where it could not find the given one.
GPUPARSE(int64_t) score_trees_batch(const Sentences* sentences, const Scorer* scorer,
    const Search* search, i64_1 heads, out_f64_1 scores);

// Mark the arcs of every sentence that are left for a higher-order decoder: those whose marginal is at
// least `threshold` times that of the likeliest head, at most max_heads of each word. The arcs of the
// best tree always stay. search: of a first-order decoder; scale: nats a point of the scores; cells:
// written as in `ArcCells`. Returns as `parse_batch`.
// Source: Koo & Collins (2010): marginals of a first-order model, a threshold relative to the likeliest
// head; differs: the best tree stays, and there may be a limit of heads.
GPUPARSE(int64_t) prune_batch(const Sentences* sentences, const Scorer* scorer, const Search* search,
    double scale, double threshold, int64_t max_heads, i64_1 firsts, out_b8_1 cells);

// Probabilities of the arcs of K trees of every sentence, (K, tokens): of heads where heads are not
// negative, of labels, given the heads, where both are not negative and labels are found with the
// trees. arc_scale, label_scale: nats a point of the scores. least_risk: first write the trees with
// the most expected right heads to heads[0], and their labels to labels[0] where these are found with
// the trees. log_partitions (B,): in nats. Returns as `parse_batch`.
GPUPARSE(int64_t) find_marginals_batch(const Sentences* sentences, const Scorer* scorer,
    const Search* search, double arc_scale, double label_scale, bool least_risk, out_i64_2 heads,
    out_i64_2 labels, out_f64_2 head_marginals, out_f64_2 label_marginals, out_f64_1 log_partitions);

// The K best trees of every sentence, with their labels if found with the trees: heads, labels
// (K, tokens), scores (K, B), written where there is a tree. Returns as `parse_batch`.
GPUPARSE(int64_t) find_k_best_batch(const Sentences* sentences, const Scorer* scorer,
    const Search* search, out_i64_2 heads, out_i64_2 labels, out_f64_2 scores);

// Graphs: the word at token t has the heads heads[starts[t] : starts[t + 1]]. may_be_primary:
// (labels,), the labels that arcs from primary heads may have.
struct GraphHeads {
    i64_1 starts;
    i64_1 heads;
    b8_1 may_be_primary;
};

// Write the best label of every arc of finished trees, the first of equals: heads, labels (tokens,);
// or of graphs: labels (arcs,), heads the primary ones. weights: (lines, labels). vectors: what adds to
// the scores, or NULL.
GPUPARSE(int64_t) label_batch(const Sentences* sentences, const LabelPlan* plan, any_2 weights,
    const WordVectors* vectors, i64_1 heads, const GraphHeads* graphs, out_i64_1 labels);

// The scores of all labels of every arc, as `label_batch` compares them: scores (tokens, labels), or
// (arcs, labels), written where there is an arc.
GPUPARSE(int64_t) score_tree_labels_batch(const Sentences* sentences, const LabelPlan* plan, any_2 weights,
    const WordVectors* vectors, i64_1 heads, const GraphHeads* graphs, out_f64_2 scores);

// Write the probability of the label of each token, given its head, where the label is not negative.
// scale: nats a point of the label scores.
GPUPARSE(int64_t) find_label_marginals_batch(const Sentences* sentences, const LabelPlan* plan,
    any_2 weights, const WordVectors* vectors, double scale, i64_1 heads, i64_1 labels, out_f64_1 marginals);
