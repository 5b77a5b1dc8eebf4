// The online learning step: predict a sentence, compare with gold, move the weights.
//
// McDonald, Crammer & Pereira (2005), figure 3, and McDonald & Pereira (2006), figure 6. The average
// is lazy: the sums gather every change multiplied by the number of sentences seen before it, so
// that the mean of the weights after each of T sentences is weights - sums / T, and a sentence costs
// nothing but its own changes.
#pragma once
#include "confidence.h"
#include "difference.h"
#include "part_rows.h"

namespace gpuparse {

// The parts listed besides arcs: parts of siblings, of higher order, of children with labels.
inline ListedKinds listed_kinds(bool siblings, const HigherPlan* higher, const HigherPlan* children) {
    return {siblings, higher ? higher->family_start.data : nullptr, higher && higher->only_last,
            children ? children->family_start.data : nullptr};
}

// The gold tree and the found trees of one sentence, by node.
struct SentenceTrees {
    int64_t n, k, stride;         // stride: from found tree to found tree
    const int64_t* gold;
    int64_t* found;               // (k, stride): -1 at word 1 of trees that are not there
    const int64_t* gold_labels;   // NULL where labels are not found with the trees
    int64_t* found_labels;        // (k, stride)
    int64_t* target;              // gold, completed where it lacks heads
    int64_t* target_labels;

    SentenceTrees(const GoldTrees& trees, const Sentence& sentence)
        : n(sentence.n), k(trees.found.n0), stride(trees.found.n1),
          gold(trees.gold.data + sentence.start), found(trees.found.data + sentence.start),
          gold_labels(nullptr), found_labels(nullptr), target(trees.target.data + sentence.start),
          target_labels(nullptr) {
        if (!trees.gold_labels.data) return;
        gold_labels = trees.gold_labels.data + sentence.start;
        found_labels = trees.found_labels.data + sentence.start;
        target_labels = trees.target_labels.data + sentence.start;
    }

    bool has_found(int64_t j) const { return found[j * stride + 1] >= 0; }
    TreePair pair(const int64_t* heads, const int64_t* labels, int64_t j) const {
        return {n, heads, found + j * stride, labels,
                gold_labels ? found_labels + j * stride : nullptr};
    }
};

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
                          const Sentence& sentence, const GoldTrees& gold, const Search& search,
                          Arena& arena) {
    const int64_t n = trees.n, nodes = n + 1;
    int64_t missing = 0;
    for (int64_t m = 1; m <= n; m++)
        missing += trees.gold[m] < 0 || (scores.labels_children && trees.gold_labels[m] < 0);
    int64_t* labels = arena.take<int64_t>(nodes);
    if (!labels) return false;
    if (missing > 0) {
        View2<double> given{arena.take<double>(nodes * nodes), nodes};
        if (!given.data) return false;
        memcpy(given.data, scores.arcs.data, (size_t)(nodes * nodes) * sizeof(double));
        forbid_others(given, sentence, gold.gold);
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

// One batch of sentences: what is predicted, what is learned, with which weights.
struct Learner {
    const Sentences& sentences;
    const Scorer& scorer;
    const Search& search;
    const UpdateRule& rule;
    const GoldTrees* trees;    // one of these two is NULL
    const GoldGraphs* graphs;
    const ArcCells* allowed;
    LearnedWeights weights{};
    int64_t seen = 0;          // sentences before the first
    double wrong = 0.0;        // the cost of all mistakes
    Difference difference{};   // working memory, and more of it
    Arena scratch{};

    int64_t found_structures() const { return trees ? trees->found.n0 : 1; }

    SentenceScores<float> score(const Sentence& sentence, Arena& arena) const {
        return score_sentence<float>(sentence, scorer, allowed_cells(allowed, sentence), arena);
    }

    // Fill the found structures of a sentence; false: there are none, or no memory.
    bool predict(const Sentence& sentence, SentenceScores<float>& scores, Arena& arena) const {
        if (trees) return predict_trees(sentence, scores, arena);
        const int64_t first = graphs->firsts.data[sentence.start];
        int64_t* heads = arena.take<int64_t>(sentence.n + 1);
        int64_t* labels = arena.take<int64_t>(sentence.n + 1);
        if (arena.failed()) return false;
        add_graph_cost(scores.arcs, sentence.n, graphs->gold.data + first, rule.cost);
        return find_tree<float>(scores.arcs, scores, search, arena, heads, labels,
                                graphs->found.data + first).found;
    }

    // Learn from the found structures of a sentence. predict: whether they are found here, with the
    // weights of this moment; otherwise they have been found before. False: none, or no memory.
    bool learn(const Sentence& sentence, bool is_predicted, Arena& arena) {
        SentenceScores<float> scores;
        if (!is_predicted) {
            scores = score(sentence, arena);
            if (arena.failed() || !predict(sentence, scores, arena)) return false;
        }
        PartList list(sentence.n, found_structures(), arena);
        if (arena.failed()) return false;
        list_parts(sentence, list);
        if (arena.failed()) return false;
        wrong += list.costs[0];
        if (list.parts.count == 0) return true;
        if (is_predicted) scores.keys = fill_sentence_keys(sentence, scorer, arena);
        int64_t* room = arena.take<int64_t>(max_rows_of_part(scorer, sentence.n));
        if (arena.failed()) return false;
        difference.clear();
        for (int64_t p = 0; p < list.parts.count; p++) {
            RowList found{room};
            add_rows_of_part(sentence, list.parts.data[p], scorer, scores.keys, found);
            if (!difference.add(found, list.signs.data + p * list.k)) return arena.fail();
        }
        return take_step(difference, list.costs, rule, seen + sentence.b, weights, arena);
    }

private:
    // Find the best trees under the scores plus the costs of mistakes, and complete gold.
    bool predict_trees(const Sentence& sentence, SentenceScores<float>& scores, Arena& arena) const {
        const SentenceTrees of{*trees, sentence};
        if (trees->is_partial && !complete_tree(scores, of, sentence, *trees, search, arena))
            return false;
        add_tree_cost(scores.arcs, of.n, of.gold, rule.cost);
        if (scores.has_labels && !add_label_cost(scores, of, rule.cost, arena)) return false;
        if (of.k > 1) {
            const View2<int64_t> heads{of.found, of.stride};
            const int64_t count = find_k_best_trees(scores, search, of.k, arena, heads);
            for (int64_t j = count > 0 ? count : 0; j < of.k; j++) heads(j, 1) = -1;
            if (count <= 0) return false;
        } else {
            // Some decoders write a label for each word even where there are none to be found.
            int64_t* labels =
                scores.labels_children ? of.found_labels : arena.take<int64_t>(of.n + 1);
            if (!labels || !find_tree<float>(scores.arcs, scores, search, arena, of.found, labels,
                                             nullptr).found)
                return false;
        }
        if (scores.has_labels && !scores.labels_children) fill_found_labels(scores, of, rule.cost);
        return true;
    }

    // List the parts in which gold and found structures differ, and the costs of the found ones.
    void list_parts(const Sentence& sentence, PartList& list) const {
        if (graphs) {
            const int64_t first = graphs->firsts.data[sentence.start];
            return list_differing_graph_parts(sentence.n, graphs->gold.data + first,
                                              graphs->found.data + first, list);
        }
        const SentenceTrees of{*trees, sentence};
        const Plan& plan = *scorer.plan;
        const ListedKinds kinds =
            listed_kinds(plan.siblings, plan.higher, scorer.joint ? scorer.joint->higher : nullptr);
        for (int64_t j = 0; j < of.k; j++) {
            list.costs[j] = 0.0;
            if (of.has_found(j)) list.costs[j] = cost_of_tree(of.pair(of.gold, of.gold_labels, j));
            if (list.costs[j] > 0.0)
                list_differing_parts(of.pair(of.target, of.target_labels, j), kinds, j, list);
        }
    }
};

}  // namespace gpuparse
