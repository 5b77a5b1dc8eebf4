// Conditional log-likelihood: a step up its gradient for each sentence.
//
// log p(y | x) = s(x, y) - log Z(x); its gradient is the features of the gold tree less the expected
// ones, the sum of every arc's features times its marginal probability. Where heads are not known, p
// is summed over all trees with the known ones, and the gradient is the difference of two
// expectations.
#pragma once
#include <math.h>

#include "confidence.h"
#include "learn.h"

namespace gpuparse {

constexpr double LEAST_COEFFICIENT = 1e-9;  // an arc with a smaller one is left out

// Learn from one sentence; gold: heads by token, -1 for those not known. wrong: raised by the words
// whose gold arc has at most half the probability. Returns a status.
inline int64_t learn_conditional_sentence(const Sentences& sentences, const Scorer& scorer,
                                          const Search& search, const UpdateRule& rule,
                                          SentencePlace place, const i64_1& gold, int64_t seen,
                                          LearnedWeights& weights, Arena& arena, double& wrong) {
    const int64_t n = place.n, nodes = n + 1;
    const int64_t* heads = gold.data + place.start;
    SentenceScores<float> scores = score_sentence<float>(sentences.values, place.start, n, scorer,
                                                         {nullptr, nodes}, arena);
    View2<double> expected{arena.take_zeros<double>(nodes * nodes), nodes};
    View2<double> wanted{arena.take_zeros<double>(nodes * nodes), nodes};
    int64_t* found = arena.take<int64_t>(max_rows_of_part(scorer, n));
    if (arena.failed()) return NO_MEMORY;
    for (int64_t h = 0; h <= n; h++)
        for (int64_t m = 1; m <= n; m++)
            if (heads[m] >= 0 && heads[m] != h) scores.arcs(h, m) += rule.cost;
    double log_partition = find_marginals(scores, search, 1.0, arena, expected);
    if (arena.failed()) return NO_MEMORY;
    if (log_partition == -INFINITY) return NO_TREE;
    int64_t missing = 0;
    for (int64_t m = 1; m <= n; m++) {
        if (heads[m] >= 0)
            wanted(heads[m], m) = 1.0;
        else
            missing++;
    }
    if (missing > 0) {
        forbid_others(scores.arcs, n, place.start, gold);
        log_partition = find_marginals(scores, search, 1.0, arena, wanted);
        if (arena.failed()) return NO_MEMORY;
        if (log_partition == -INFINITY) return NO_TREE;
    }
    for (int64_t m = 1; m <= n; m++)
        wrong += heads[m] >= 0 && expected(heads[m], m) <= 0.5;
    for (int64_t h = 0; h <= n; h++) {
        for (int64_t m = 1; m <= n; m++) {
            if (h == m) continue;
            const double step = rule.max_step * (wanted(h, m) - expected(h, m));
            if (!(fabs(step) > rule.max_step * LEAST_COEFFICIENT)) continue;
            const Part arc{ARC_PART, (int32_t)h, (int32_t)m, 0, 0, 0, 0};
            const int64_t count =
                rows_of_part(sentences.values, place.start, arc, scorer, scores.keys, found);
            for (int64_t k = 0; k < count; k++) weights.change(found[k], step, seen);
        }
    }
    return OK;
}

}  // namespace gpuparse
