// The online learning step: predict a sentence, compare with gold, move the weights.
//
// McDonald, Crammer & Pereira (2005), figure 3, and McDonald & Pereira (2006), figure 6. The average
// is lazy: the sums gather every change multiplied by the number of sentences seen before it, so
// that the mean of the weights after each of T sentences is weights - sums / T, and a sentence costs
// nothing but its own changes.
#pragma once
#include "api/learning.h"
#include "confidence.h"
#include "decode.h"
#include "difference.h"
#include "part_rows.h"

namespace gpuparse {

constexpr int64_t NO_TREE = -1;  // a sentence has no tree: its scores are not finite

// A sentence of a batch: its number, the token of its root, and its words.
struct SentencePlace { int64_t b, start, n; };

// The gold tree and the found trees of one sentence, by node.
struct SentenceTrees {
    int64_t n, k, stride;         // stride: from found tree to found tree
    const int64_t* gold;
    int64_t* found;               // (k, stride): -1 at word 1 of trees that are not there
    const int64_t* gold_labels;   // NULL where labels are not found with the trees
    int64_t* found_labels;        // (k, stride)
    int64_t* target;              // gold, completed where it lacks heads
    int64_t* target_labels;

    bool has_found(int64_t j) const { return found[j * stride + 1] >= 0; }
    TreePair pair(const int64_t* heads, const int64_t* labels, int64_t j) const {
        if (!gold_labels) return {n, heads, found + j * stride, nullptr, nullptr};
        return {n, heads, found + j * stride, labels, found_labels + j * stride};
    }
};

inline SentenceTrees trees_of_sentence(const GoldTrees& trees, SentencePlace place) {
    SentenceTrees of{place.n, trees.found.n0, trees.found.n1, trees.gold.data + place.start,
                     trees.found.data + place.start, nullptr, nullptr,
                     trees.target.data + place.start, nullptr};
    if (trees.gold_labels.data) {
        of.gold_labels = trees.gold_labels.data + place.start;
        of.found_labels = trees.found_labels.data + place.start;
        of.target_labels = trees.target_labels.data + place.start;
    }
    return of;
}

// Raise the score of every arc but those of the gold tree: each wrong head costs `cost`.
inline void add_tree_cost(View2<double> scores, int64_t n, const int64_t* gold, double cost) {
    for (int64_t h = 0; h <= n; h++)
        for (int64_t m = 1; m <= n; m++) scores(h, m) += cost;
    for (int64_t m = 1; m <= n; m++)
        if (gold[m] >= 0) scores(gold[m], m) -= cost;
}

// Raise arcs that are not in the gold graph and lower those that are: each false positive costs
// `cost`, and, up to a constant, each false negative.
inline void add_graph_cost(View2<double> scores, int64_t n, const uint8_t* gold, double cost) {
    for (int64_t h = 0; h <= n; h++)
        for (int64_t m = 1; m <= n; m++) scores(h, m) += gold[h * (n + 1) + m] ? -cost : cost;
}

// Let wrong labels of gold arcs cost as much as wrong heads.
inline bool add_label_cost(SentenceScores<float>& scores, const SentenceTrees& trees, double cost,
                           Arena& arena) {
    const int64_t n = trees.n;
    if (scores.labels_children) {
        int64_t* heads = arena.take<int64_t>(n + 1);
        if (!heads) return false;
        for (int64_t m = 1; m <= n; m++)
            heads[m] = trees.gold_labels[m] >= 0 ? trees.gold[m] : -1;
        scores.parts.labels.right_head = heads;
        scores.parts.labels.right_label = trees.gold_labels;
        scores.parts.labels.cost = cost;
        return true;
    }
    if (!(cost > 0.0)) return true;
    for (int64_t m = 1; m <= n; m++) {
        const int64_t h = trees.gold[m], right = trees.gold_labels[m];
        if (h < 0 || right < 0) continue;
        const double most = find_label(h, m, scores.labels, right, cost).score;
        scores.arcs(h, m) += most - scores.best_labels(h, m);
    }
    return true;
}

// Fill in the heads and labels that gold lacks: those of the best tree with all known heads. Returns
// whether there is such a tree.
inline bool complete_tree(const SentenceScores<float>& scores, const SentenceTrees& trees,
                          SentencePlace place, const GoldTrees& gold, const Search& search,
                          Arena& arena) {
    const int64_t n = trees.n, nodes = n + 1;
    int64_t missing = 0;
    for (int64_t m = 1; m <= n; m++) missing += trees.gold[m] < 0;
    int64_t* labels = arena.take<int64_t>(nodes);
    if (!labels) return false;
    if (missing > 0) {
        View2<double> given{arena.take<double>(nodes * nodes), nodes};
        if (!given.data) return false;
        memcpy(given.data, scores.arcs.data, (size_t)(nodes * nodes) * sizeof(double));
        forbid_others(given, n, place.start, gold.gold);
        if (!find_tree<float>(given, scores, search, arena, trees.target, labels, nullptr).found)
            return false;
    }
    if (!scores.has_labels) return true;
    for (int64_t m = 1; m <= n; m++) {
        if (trees.gold_labels[m] >= 0) continue;
        trees.target_labels[m] = scores.labels_children
            ? labels[m]
            : find_label(trees.target[m], m, scores.labels, -1, 0.0).label;
    }
    return true;
}

// The labels of the found trees, mistakes costing `cost`.
inline void fill_found_labels(const SentenceScores<float>& scores, const SentenceTrees& trees,
                              double cost) {
    for (int64_t j = 0; j < trees.k; j++) {
        if (!trees.has_found(j)) continue;
        for (int64_t m = 1; m <= trees.n; m++) {
            // On an arc that is wrong every label costs the same.
            const int64_t h = trees.found[j * trees.stride + m], right = trees.gold_labels[m];
            const double of_cost = h == trees.gold[m] && right >= 0 ? cost : 0.0;
            trees.found_labels[j * trees.stride + m] =
                find_label(h, m, scores.labels, right, of_cost).label;
        }
    }
}

// Find the best trees of a sentence under the scores plus the costs of mistakes, and complete gold.
// False: there is no tree, or no memory.
inline bool predict_trees(SentenceScores<float>& scores, const SentenceTrees& trees,
                          SentencePlace place, const GoldTrees& gold, const Search& search,
                          double cost, Arena& arena) {
    if (gold.is_partial && !complete_tree(scores, trees, place, gold, search, arena)) return false;
    add_tree_cost(scores.arcs, trees.n, trees.gold, cost);
    if (scores.has_labels && !add_label_cost(scores, trees, cost, arena)) return false;
    if (trees.k > 1) {
        const View2<int64_t> heads{trees.found, trees.stride};
        const int64_t count = find_k_best_trees(scores, search, trees.k, arena, heads);
        for (int64_t j = count > 0 ? count : 0; j < trees.k; j++) heads(j, 1) = -1;
        if (count <= 0) return false;
    } else {
        // Some decoders write a label for each word even where there are none to be found.
        int64_t* labels = scores.labels_children ? trees.found_labels
                                                 : arena.take<int64_t>(trees.n + 1);
        if (!labels || !find_tree<float>(scores.arcs, scores, search, arena, trees.found, labels,
                                         nullptr).found)
            return false;
    }
    if (scores.has_labels && !scores.labels_children) fill_found_labels(scores, trees, cost);
    return true;
}

// Move the weights along gold minus found features of a sentence, whose parts are in the list.
// start: the token of its root. False: out of memory.
inline bool update_sentence(const PartList& list, const i32_2& values, int64_t start,
                            const Scorer& scorer, const SentenceKeys& keys, StepRule step,
                            int64_t seen, Difference& difference, LearnedWeights& weights,
                            Arena& arena) {
    int64_t* found = arena.take<int64_t>(max_rows_of_part(scorer, keys.n));
    if (!found) return false;
    difference.clear();
    for (int64_t p = 0; p < list.count; p++) {
        const int64_t count = rows_of_part(values, start, list.parts[p], scorer, keys, found);
        if (!difference.add(found, count, list.signs + p * list.k)) return false;
    }
    return take_step(difference, list.costs, step, seen, weights, arena);
}

// List the parts in which gold and found trees differ, and the costs of the found trees.
inline void list_parts_of_trees(const SentenceTrees& trees, const Scorer& scorer, PartList& list) {
    const Plan& plan = *scorer.plan;
    const HigherPlan* children = scorer.joint ? scorer.joint->higher : nullptr;
    const ListedKinds kinds{plan.siblings != nullptr,
                            plan.higher ? plan.higher->family_start.data : nullptr,
                            plan.higher && plan.higher->only_last,
                            children ? children->family_start.data : nullptr};
    for (int64_t j = 0; j < trees.k; j++) {
        list.costs[j] = 0.0;
        if (trees.has_found(j))
            list.costs[j] = cost_of_tree(trees.pair(trees.gold, trees.gold_labels, j));
        if (list.costs[j] > 0.0)
            list_differing_parts(trees.pair(trees.target, trees.target_labels, j), kinds, j, list);
    }
}

// One batch of sentences: what is predicted, what is learned, with which weights.
struct LearningBatch {
    const Sentences& sentences;
    const Scorer& scorer;
    const Search& search;
    const UpdateRule& rule;
    const GoldTrees* trees;    // one of these two is NULL
    const GoldGraphs* graphs;
    const ArcCells* allowed;

    SentencePlace place(int64_t b) const {
        return {b, sentences.starts.data[b], sentences.lengths.data[b]};
    }

    SentenceScores<float> score(SentencePlace place, Arena& arena) const {
        return score_sentence<float>(sentences.values, place.start, place.n, scorer,
                                     allowed_cells(allowed, place.start, place.n), arena);
    }

    // Fill the found structures of a sentence; false: there are none, or no memory.
    bool predict(SentencePlace place, SentenceScores<float>& scores, Arena& arena) const {
        if (trees)
            return predict_trees(scores, trees_of_sentence(*trees, place), place, *trees, search,
                                 rule.cost, arena);
        const int64_t first = graphs->firsts.data[place.start];
        int64_t* heads = arena.take<int64_t>(place.n + 1);
        int64_t* labels = arena.take<int64_t>(place.n + 1);
        if (arena.failed()) return false;
        add_graph_cost(scores.arcs, place.n, graphs->gold.data + first, rule.cost);
        return find_tree<float>(scores.arcs, scores, search, arena, heads, labels,
                                graphs->found.data + first).found;
    }

    // List the parts in which gold and found structures of a sentence differ.
    void list_parts(SentencePlace place, PartList& list) const {
        if (trees) {
            list_parts_of_trees(trees_of_sentence(*trees, place), scorer, list);
            return;
        }
        const int64_t first = graphs->firsts.data[place.start];
        list_differing_graph_parts(place.n, graphs->gold.data + first, graphs->found.data + first,
                                   list);
    }

    int64_t found_structures() const { return trees ? trees->found.n0 : 1; }
};

// Fill the found structures of all sentences, all with the same weights. Returns a status.
inline int64_t predict_all(const LearningBatch& batch) {
    Arena arena;
    for (int64_t b = 0; b < batch.sentences.starts.n0; b++) {
        ArenaMark mark(arena);
        const SentencePlace place = batch.place(b);
        SentenceScores<float> scores = batch.score(place, arena);
        if (arena.failed()) return NO_MEMORY;
        if (!batch.predict(place, scores, arena)) return arena.failed() ? NO_MEMORY : NO_TREE;
    }
    return OK;
}

// Learn from all sentences one after the other. predict: whether they are predicted here, each with
// the weights of that moment; otherwise their structures have been found before. seen: sentences
// before the first. wrong: raised by the cost of all mistakes. Returns a status.
inline int64_t learn_all(const LearningBatch& batch, LearnedWeights weights, int64_t seen,
                         bool predict, double& wrong) {
    Arena arena;
    Difference difference;
    const StepRule step{batch.rule.rule, batch.rule.max_step};
    if (!difference.start(batch.found_structures())) return NO_MEMORY;
    for (int64_t b = 0; b < batch.sentences.starts.n0; b++) {
        ArenaMark mark(arena);
        const SentencePlace place = batch.place(b);
        SentenceScores<float> scores;
        if (predict) {
            scores = batch.score(place, arena);
            if (arena.failed()) return NO_MEMORY;
            if (!batch.predict(place, scores, arena)) return arena.failed() ? NO_MEMORY : NO_TREE;
        }
        PartList list;
        if (!start_part_list(list, place.n, batch.found_structures(), arena)) return NO_MEMORY;
        batch.list_parts(place, list);
        if (arena.failed()) return NO_MEMORY;
        wrong += list.costs[0];
        if (list.count == 0) continue;
        if (!predict)
            scores.keys = fill_sentence_keys(batch.sentences.values, place.start, place.n,
                                             batch.scorer, arena);
        if (arena.failed()) return NO_MEMORY;
        if (!update_sentence(list, batch.sentences.values, place.start, batch.scorer, scores.keys,
                             step, seen + b, difference, weights, arena))
            return NO_MEMORY;
    }
    return OK;
}

}  // namespace gpuparse
