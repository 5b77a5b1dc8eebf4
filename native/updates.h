// Update rules: from the constraints of one sentence to steps along gold minus found features.
//
// A constraint says that gold is to score at least its cost more than one wrong structure.
#pragma once
#include "api/learning.h"
#include "hildreth.h"

namespace gpuparse {

// In the order of RULES in `gpuparse/config/schema.py`.
enum RuleNumber : int64_t { PERCEPTRON, MIRA, MIRA_FACTORED, CONDITIONAL };

// The step along f(x, gold) - f(x, found) of one constraint; 0 where nothing changes.
//
// PERCEPTRON: one whole step (Collins 2002). All others: the smallest step after which gold scores at
// least `cost` above what was found (McDonald & Pereira 2006, section 4).
// cost: of the mistakes, in words. margin: score of gold minus score of the tree found, before the
// step. squared_norm: squared length of the difference of the feature vectors.
inline double step_size(const UpdateRule& rule, double cost, double margin, double squared_norm) {
    if (squared_norm == 0.0) return 0.0;
    if (rule.rule == PERCEPTRON) return cost > 0.0 ? 1.0 : 0.0;
    return between_zero_and(rule.max_step, (cost - margin) / squared_norm);
}

// As `step_size` for k constraints together: fill steps[j].
//
// PERCEPTRON looks at the first alone. MIRA: McDonald, Crammer & Pereira (2005), section 2.3.1, no
// step longer than max_step.
// costs, margins: (k,); gram: (k, k) products of the differences of the feature vectors.
// missing: (k,) working memory.
inline void find_steps(const UpdateRule& rule, int64_t k, const double* costs, const double* margins,
                       const double* gram, double* missing, double* steps) {
    if (k == 1 || rule.rule == PERCEPTRON) {
        for (int64_t j = 1; j < k; j++) steps[j] = 0.0;
        steps[0] = step_size(rule, costs[0], margins[0], gram[0]);
        return;
    }
    for (int64_t j = 0; j < k; j++) missing[j] = costs[j] - margins[j];
    hildreth_steps(k, gram, missing, rule.max_step, steps);
}

}  // namespace gpuparse
