// Learning: weights are changed in place.
#pragma once
#include "parsing.h"

// The kind of step. rule: 0 perceptron, 1 MIRA, 2 factored MIRA, 3 conditional (native/updates.h).
// cost: what a mistake adds to the scores that are searched with, 0 for plain
// search. max_step: the largest step, infinity for none; the learning rate of the conditional rule.
struct UpdateRule {
    int64_t rule;
    double cost;
    double max_step;
};

// Gold trees and those that are found, by token; -1 for what is no word. gold: heads, -1 where gold
// lacks one. found: (k, tokens), -1 where there are fewer than k trees. Labels are empty where they
// are not found with the trees. target: gold, completed where is_partial; otherwise gold itself.
struct GoldTrees {
    i64_1 gold;
    out_i64_2 found;
    i64_1 gold_labels;
    out_i64_2 found_labels;
    out_i64_1 target;
    out_i64_1 target_labels;
    bool is_partial;
};

// Gold graphs and those that are found: the arc h -> m of a sentence of n words at its first cell,
// firsts[token of its root], + h * (n + 1) + m.
struct GoldGraphs {
    b8_1 gold;
    out_b8_1 found;
    i64_1 firsts;
};

// Weights that are learned, and the sums that their averages are made of: every change times the
// number of sentences before it. Those of labels are empty where labels are not found with the trees.
struct LearnedTables {
    out_f32_1 weights;
    out_f32_1 sums;
    out_f32_1 label_weights;
    out_f32_1 label_sums;
};

// Find the trees or graphs of all sentences, mistakes costing rule->cost; one of trees and graphs is
// NULL. The scorer's weights are float32, and it has no word vectors. Returns as `parse_batch`: a
// sentence has no tree where its scores are not finite.
GPUPARSE(int64_t) predict_batch(const Sentences* sentences, const Scorer* scorer,
    const Search* search, const UpdateRule* rule, const GoldTrees* trees,
    const GoldGraphs* graphs, const ArcCells* allowed);

// Learn from all sentences one after the other; `seen` came before. is_predicted: their trees have
// been found by `predict_batch`; otherwise each is predicted here, with the weights of that moment.
// The scorer's weights are those of the tables. wrong (1,): raised by wrong words, or arcs of graphs.
// Two rules search for no tree, and gold heads may be missing. Factored: constraints over all arcs;
// wrong are words with an arc not 1 below gold's. Conditional: gradient steps of the length
// rule->max_step, with a cost softmax-margin (Gimpel & Smith 2010), over the trees of the decoder;
// wrong are words whose gold arc has at most half the probability. Returns as `predict_batch`.
GPUPARSE(int64_t) learn_batch(const Sentences* sentences, const Scorer* scorer,
    const Search* search, const UpdateRule* rule, const GoldTrees* trees,
    const GoldGraphs* graphs, const ArcCells* allowed, const LearnedTables* tables, int64_t seen,
    bool is_predicted, out_f64_1 wrong);

// Learn second-stage labels from finished trees, or from every arc of gold graphs, whose primary heads
// are `heads`, sentence by sentence. gold: the label of each token, or arc; -1 is passed over.
// weights: (lines, labels), sums: (lines * labels,). Returns how many had another label first.
GPUPARSE(int64_t) learn_labels(const Sentences* sentences, const LabelPlan* plan,
    const UpdateRule* rule, i64_1 heads, const GraphHeads* graphs, i64_1 gold, int64_t seen,
    out_f32_2 weights, out_f32_1 sums);

// The parts in which two trees differ: of each the kind, h, m, third, fourth and label as in `Part` of
// native/part_list.h, and 1 if only gold has it or -1 if gold lacks it. Heads and labels, or none, are
// at 1..n. higher, children: plans of the listed kinds, those of children with labels, or NULL.
// Returns how many parts there are; parts beyond the size of `parts` are not written.
GPUPARSE(int64_t) list_tree_difference(i64_1 gold, i64_1 found, i64_1 gold_labels,
    i64_1 found_labels, bool siblings, const HigherPlan* higher, const HigherPlan* children,
    out_i64_2 parts);
