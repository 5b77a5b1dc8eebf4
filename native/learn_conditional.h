// Conditional log-likelihood: a step up its gradient for each sentence.
//
// log p(y | x) = s(x, y) - log Z(x); its gradient is the features of the gold tree less the expected
// ones, the sum of every arc's features times its marginal probability. Where heads are not known, p
// is summed over all trees with the known ones, and the gradient is the difference of two
// expectations.
#pragma once
#include "learn.h"

namespace gpuparse {

constexpr double LEAST_COEFFICIENT = 1e-9;  // an arc with a smaller one is left out

// Learn from one sentence; wrong: raised by the words whose gold arc has at most half the probability.
// False: there is no tree, or no memory.
inline bool learn_conditional(Learner& learner, const Sentence& sentence, Arena& arena) {
    const int64_t n = sentence.n, nodes = n + 1;
    const UpdateRule& rule = learner.rule;
    const int64_t* heads = learner.trees->gold.data + sentence.start;
    SentenceScores<float> scores = learner.score(sentence, arena);
    View2<double> expected{arena.take_zeros<double>(nodes * nodes), nodes};
    View2<double> wanted{arena.take_zeros<double>(nodes * nodes), nodes};
    int64_t* room = arena.take<int64_t>(max_rows_of_part(learner.scorer, n));
    if (arena.failed()) return false;
    const auto has_sum = [&](View2<double> marginals) {
        return find_marginals(scores, learner.search, 1.0, arena, marginals) != -INFINITY &&
               !arena.failed();
    };
    for (int64_t h = 0; h <= n; h++)
        for (int64_t m = 1; m <= n; m++)
            if (heads[m] >= 0 && heads[m] != h) scores.arcs(h, m) += rule.cost;
    if (!has_sum(expected)) return false;
    int64_t missing = 0;
    for (int64_t m = 1; m <= n; m++) {
        if (heads[m] >= 0)
            wanted(heads[m], m) = 1.0;
        else
            missing++;
    }
    if (missing > 0) {
        forbid_others(scores.arcs, sentence, learner.trees->gold);
        if (!has_sum(wanted)) return false;
    }
    for (int64_t m = 1; m <= n; m++)
        learner.wrong += heads[m] >= 0 && expected(heads[m], m) <= 0.5;
    for (int64_t h = 0; h <= n; h++) {
        for (int64_t m = 1; m <= n; m++) {
            if (h == m) continue;
            const double step = rule.max_step * (wanted(h, m) - expected(h, m));
            if (!(fabs(step) > rule.max_step * LEAST_COEFFICIENT)) continue;
            RowList found{room};
            add_rows_of_part(sentence, arc_part(h, m), learner.scorer, scores.keys, found);
            for (int64_t k = 0; k < found.count(); k++)
                learner.weights.change(room[k], step, learner.seen + sentence.b);
        }
    }
    return true;
}

}  // namespace gpuparse
