// The k best spanning trees, by splitting the set of all trees and bounding the parts.
//
// `inference/textbook/spanning_trees.py` says which subsets the set of all trees is split
// into. Here the best tree of a subset is searched for only when no other subset can hold a better
// one. The bound of a subset comes from the tree that it was split from, whose search leaves a dual
// variable for every word and super-node, `best`: the score of any tree is at most the sum of all
// dual variables, less the reduced costs of its arcs, rc[h -> m] = (dual variables of the sets with
// m inside and h outside) - score >= 0. For the best tree equality holds. A tree without its arc e
// has another arc into every set that e enters, so it loses at least the second smallest rc into
// any of them. The bound is rounded up by more than all rounding errors, so it decides how much work
// is done, never what is found.
#pragma once

#include <float.h>

#include "chu_liu_edmonds.h"
#include "tree_siblings.h"

namespace gpuparse {

// A subset: the trees that share the heads of tree `rank` before `word`, and not that of `word`.
template <class F>
struct SpanningTreesKBest {
    static constexpr F NONE = -(F)INFINITY;

    // Memory for k trees of sentences of up to n words. False: there is none.
    bool allocate(int64_t n, int64_t k, Arena& arena) {
        const int64_t nodes = n + 1;
        allowed = {arena.take<F>(nodes * nodes), nodes};
        reduced = {arena.take<double>(nodes * nodes), nodes};
        losses = arena.take<double>(nodes);
        tree = arena.take<int64_t>(nodes);
        top = arena.take<int64_t>(nodes);
        parent = arena.take<int64_t>(2 * nodes);
        values = arena.take<double>(k * nodes);
        known = arena.take<int8_t>(k * nodes);
        made_from = arena.take<int64_t>(k);
        best_of_rank = arena.take<int64_t>(k);
        return one.allocate(n, arena) && !arena.failed();
    }

    // The k best trees of one sentence, best first: heads(rank, 1..n) and scores[rank] are filled.
    // Returns the number of trees: k or, if fewer exist, all of them.
    int64_t search(View2<const F> given, int64_t n_words, bool with_single_root, int64_t k,
                   View2<int64_t> heads, double* scores) {
        arc_scores = given;
        n = n_words;
        single_root = with_single_root;
        const int64_t nodes = n + 1;
        for (int64_t h = 0; h <= n; h++) {
            for (int64_t m = 1; m <= n; m++) allowed(h, m) = arc_scores(h, m);
        }
        if (!search_allowed()) return 0;
        const double slack = bound_rounding();
        double highest = INFINITY;
        int64_t found_in = -1, first = 1, count = 0, searched = -1;
        while (true) {
            // The best tree of the subset `found_in` is in `tree`, and its search in `one`.
            const double score = tree_score<F>(arc_scores, n, tree);
            scores[count] = highest < score ? highest : score;
            for (int64_t m = 1; m <= n; m++) heads(count, m) = tree[m];
            made_from[count] = found_in;
            if (++count == k) return count;
            fill_losses();
            const int64_t begin = (count - 1) * nodes;
            for (int64_t m = 0; m <= n; m++) {
                known[begin + m] = m >= first && losses[m] < INFINITY ? BOUND : EMPTY;
                const double lost = losses[m] - slack;
                values[begin + m] = scores[count - 1] - (lost > 0.0 ? lost : 0.0);
            }
            find_best_of_rank(count - 1);
            while (true) {
                if (is_interrupted(2 * n * n)) return count;
                found_in = find_best_subset(count);
                if (found_in < 0) return count;
                const int64_t rank = found_in / nodes;
                first = found_in % nodes;
                if (found_in != searched) {
                    forbid_all_but(rank, first, heads);
                    searched = found_in;
                    if (!search_allowed()) {
                        known[found_in] = EMPTY;
                        find_best_of_rank(rank);
                        continue;
                    }
                }
                if (known[found_in] == EXACT) break;
                known[found_in] = EXACT;
                const double value = tree_score<F>(arc_scores, n, tree);
                values[found_in] = value < scores[rank] ? value : scores[rank];
                find_best_of_rank(rank);
            }
            highest = values[found_in];
            known[found_in] = EMPTY;
            find_best_of_rank(found_in / nodes);
        }
    }

private:
    enum : int8_t { EMPTY, BOUND, EXACT };  // what is known of the best score of a subset

    SpanningTreeSearch<F> one;
    View2<const F> arc_scores = {};
    int64_t n = 0;
    bool single_root = false;
    View2<F> allowed = {};            // (N, N): the scores, -inf where a subset forbids the arc
    View2<double> reduced = {};       // (N, N): [m, h], reduced costs
    double* losses = nullptr;         // (N): what a tree with another head of m loses at least
    int64_t* tree = nullptr;          // (N)
    int64_t* top = nullptr;           // (N): the outermost super-node around each word
    int64_t* parent = nullptr;        // (2 N): of words and super-nodes, 0 for none
    double* values = nullptr;         // (k, N): by subset, its best score or a bound
    int8_t* known = nullptr;          // (k, N)
    int64_t* made_from = nullptr;     // (k): the subset in which each tree was found
    int64_t* best_of_rank = nullptr;  // (k): the word of the best subset of each tree, -1 for none

    bool search_allowed() {
        return one.search({allowed.data, allowed.stride}, n, single_root, tree);
    }

    // `allowed` of the subset (rank, word): the heads of earlier words are fixed, and the head of
    // `word` is none that an earlier split of the same subset has taken.
    void forbid_all_but(int64_t rank, int64_t word, View2<int64_t> heads) {
        for (int64_t h = 0; h <= n; h++) {
            for (int64_t m = 1; m < word; m++) {
                allowed(h, m) = h == heads(rank, m) ? arc_scores(h, m) : NONE;
            }
            for (int64_t m = word; m <= n; m++) allowed(h, m) = arc_scores(h, m);
        }
        allowed(heads(rank, word), word) = NONE;
        while (rank > 0 && made_from[rank] % (n + 1) == word) {
            rank = made_from[rank] / (n + 1);
            allowed(heads(rank, word), word) = NONE;
        }
    }

    // Reduced costs of all arcs, and the parents of words and super-nodes.
    void fill_reduced() {
        for (int64_t m = 1; m <= n; m++) {
            parent[m] = 0;
            top[m] = m;
            for (int64_t h = 0; h <= n; h++) {
                reduced(m, h) = h != m ? (double)(F)(one.best[m] - allowed(h, m)) : INFINITY;
            }
        }
        top[0] = 0;
        for (int64_t c = n + 1; c < one.made && !is_interrupted(n * n / 4); c++) {
            parent[c] = 0;
            for (int64_t i = one.bounds[c]; i < one.bounds[c + 1]; i++) parent[one.members[i]] = c;
            for (int64_t m = 1; m <= n; m++) top[m] = parent[top[m]] == c ? c : top[m];
            for (int64_t m = 1; m <= n; m++) {
                if (top[m] != c) continue;
                for (int64_t h = 0; h <= n; h++) {
                    if (top[h] != c) reduced(m, h) += one.best[c];
                }
            }
        }
    }

    void fill_losses() {
        fill_reduced();
        int64_t at_root = 0;
        for (int64_t m = 1; m <= n; m++) at_root = tree[m] == 0 ? top[m] : at_root;
        for (int64_t m = 1; m <= n; m++) {
            if (single_root && top[m] != at_root) {
                // A second modifier of the root: another set would have no head but the root.
                reduced(m, 0) = INFINITY;
            }
            losses[m] = INFINITY;
            for (int64_t h = 0; h <= n; h++) {
                if (h != tree[m] && reduced(m, h) < losses[m]) losses[m] = reduced(m, h);
            }
        }
        losses[0] = INFINITY;
        for (int64_t m = 1; m <= n; m++) top[m] = m;
        for (int64_t c = n + 1; c < one.made && !is_interrupted(n * n / 4); c++) {
            double least = INFINITY;
            int64_t entered = 0;
            for (int64_t m = 1; m <= n; m++) top[m] = parent[top[m]] == c ? c : top[m];
            for (int64_t m = 1; m <= n; m++) {
                if (top[m] != c) continue;
                for (int64_t h = 0; h <= n; h++) {
                    if (top[h] == c) continue;
                    if (h == tree[m]) {
                        entered = m;
                    } else if (reduced(m, h) < least) {
                        least = reduced(m, h);
                    }
                }
            }
            losses[entered] = losses[entered] > least ? losses[entered] : least;
        }
    }

    // More than all rounding errors of a search and its reduced costs.
    double bound_rounding() const {
        double largest = 0.0;
        for (int64_t h = 0; h <= n; h++) {
            for (int64_t m = 1; m <= n; m++) {
                const double size = fabs((double)arc_scores(h, m));
                if (h != m && arc_scores(h, m) > NONE && size > largest) largest = size;
            }
        }
        const double epsilon = sizeof(F) == 4 ? (double)FLT_EPSILON : DBL_EPSILON;
        return 8.0 * (double)(n + 2) * epsilon * largest;
    }

    void find_best_of_rank(int64_t rank) {
        const int64_t begin = rank * (n + 1);
        int64_t chosen = -1;
        double highest = -INFINITY;
        for (int64_t m = 1; m <= n; m++) {
            if (known[begin + m] != EMPTY && values[begin + m] > highest) {
                chosen = m;
                highest = values[begin + m];
            }
        }
        best_of_rank[rank] = chosen;
    }

    // The first subset with the highest value, rank * (n + 1) + word; -1 if all are empty.
    int64_t find_best_subset(int64_t count) const {
        int64_t chosen = -1;
        double highest = -INFINITY;
        for (int64_t rank = 0; rank < count; rank++) {
            const int64_t i = rank * (n + 1) + best_of_rank[rank];
            if (best_of_rank[rank] >= 0 && values[i] > highest) {
                chosen = i;
                highest = values[i];
            }
        }
        return chosen;
    }
};

// The k best trees of n >= 1 words, best first: heads(t, 1..n) and scores[t]. Returns how many trees
// there are, at most k, or -1 if memory ran out.
template <class F>
inline int64_t chu_liu_edmonds_kbest_sentence(View2<const F> scores, int64_t n, bool single_root,
                                              int64_t k, Arena& arena, View2<int64_t> heads,
                                              double* totals) {
    const ArenaMark mark(arena);
    SpanningTreesKBest<F> trees;
    return trees.allocate(n, k, arena) ? trees.search(scores, n, single_root, k, heads, totals) : -1;
}

}  // namespace gpuparse
