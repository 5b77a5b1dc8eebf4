// Marginals, minimum Bayes risk trees, k best trees and pruning of one scored sentence.
//
// A tree has the probability exp(scale * score) over the sum of all trees; scores are integers for
// frozen weights, and `scale` says how many nats one point is worth.
#pragma once
#include "decode.h"
#include "exact_trees.h"

namespace gpuparse {

template<class W>
using ScoredTrees = ExactTrees<double, FactoredSiblings<W, double>>;

// The trees of a decoder with sums.
template<class W>
ScoredTrees<W> trees_of(const SentenceScores<W>& scores, const Search& search) {
    return {search.decoder, scores.arcs, scores.siblings, scores.n, search.single_root};
}

// Fill heads(j, 1..n) with the k best trees, the best first, and totals (k,) with their scores, which
// may be NULL. Returns how many there are, -1 where memory runs out.
template<class W>
int64_t find_k_best_trees(const SentenceScores<W>& scores, const Search& search, int64_t k,
                          Arena& arena, View2<int64_t> heads, double* totals = nullptr) {
    ArenaMark mark(arena);
    if (!totals) totals = arena.take<double>(k);
    return totals ? trees_of(scores, search).find_k_best(k, arena, heads, totals) : -1;
}

// Fill marginals(0..n, 1..n) of all arcs under the trees of a decoder; returns the log-partition, -inf
// where there is no tree, NaN where memory runs out.
template<class W>
double find_marginals(const SentenceScores<W>& scores, const Search& search, double scale, Arena& arena,
                      View2<double> marginals) {
    return scores.n == 0 ? 0.0 : trees_of(scores, search).sum(scale, arena, marginals);
}

// Fill heads[1..n] with the tree of the largest sum of marginals, forbidden arcs left out. False: there
// is none, or no memory.
template<class W>
bool find_least_risk(const SentenceScores<W>& scores, View2<double> marginals, const Search& search,
                     Arena& arena, int64_t* heads) {
    const int64_t n = scores.n;
    for (int64_t h = 0; h <= n; ++h)
        for (int64_t m = 1; m <= n; ++m)
            if (scores.arcs(h, m) == -(double)INFINITY) marginals(h, m) = -(double)INFINITY;
    const View2<const double> risks = marginals;
    return search.decoder == BY_CHU_LIU_EDMONDS
               ? chu_liu_edmonds_sentence(risks, n, search.single_root, arena, heads)
               : eisner_sentence(risks, NoSiblings{}, n, search.single_root, arena, heads);
}

// Mark the arcs that are kept: those of the best tree, and of each word at most max_heads arcs in all
// whose marginal is at least `threshold` times that of the likeliest. cells: (n + 1, n + 1).
inline void keep_likely_arcs(View2<const double> marginals, const int64_t* heads, int64_t n,
                             double threshold, int64_t max_heads, uint8_t* cells) {
    const int64_t nodes = n + 1;
    memset(cells, 0, (size_t)(nodes * nodes));
    for (int64_t m = 1; m <= n; ++m) {
        double likeliest = 0.0;
        for (int64_t h = 0; h <= n; ++h)
            if (h != m && marginals(h, m) > likeliest) likeliest = marginals(h, m);
        cells[heads[m] * nodes + m] = 1;
        for (int64_t kept = 1; kept < max_heads; ++kept) {
            double best = 0.0;
            int64_t chosen = -1;
            for (int64_t h = 0; h <= n; ++h)
                if (h != m && marginals(h, m) > best && !cells[h * nodes + m]) {
                    best = marginals(h, m);
                    chosen = h;
                }
            if (chosen < 0 || best < threshold * likeliest) break;
            cells[chosen * nodes + m] = 1;
        }
    }
}

}  // namespace gpuparse
