// The weight rows of any part of a sentence, as differences of gold and found trees list them.
#pragma once
#include "part_list.h"
#include "sentence_scores.h"

namespace gpuparse {

// Write the weight rows of a part; returns how many there are. A row is repeated as often as it fires.
// Rows of labels found with the trees follow those of the other weights, label by label in each line.
// found: `max_rows_of_part` numbers. keys: of the sentence whose root is the token `start`.
inline int64_t rows_of_part(const i32_2& values, int64_t start, const Part& part,
                            const Scorer& scorer, const SentenceKeys& keys, int64_t* found) {
    const Plan& plan = *scorer.plan;
    const RowMap& rows = *scorer.rows;
    const JointLabels* joint = scorer.joint;
    const int64_t n = keys.n, h = part.h, m = part.m;
    int64_t count = 0;
    switch (part.kind) {
        case ARC_PART:
            count = arc_rows(values, start, n, h, m, *plan.arcs, rows, keys.arcs, found);
            if (plan.guide)
                count = guide_rows(values, start, n, h, m, *plan.guide, rows, keys.guide, found, count);
            return count;
        case LABEL_PART:
            if (!joint) return 0;
            count = label_rows(n, h, m, part.label, *joint, keys.labels, found);
            for (int64_t k = 0; k < count; ++k) found[k] += scorer.weights.n0;
            return count;
        case SIBLING_PART:
            if (!plan.siblings) return 0;
            return sibling_rows(values, start, n, h, m, part.third, *plan.siblings, rows,
                                keys.siblings.pairs, found);
        case RIGHT_END_PART:
        case LEFT_END_PART:
            if (!plan.siblings) return 0;
            return end_rows(n, h, m, part.kind == RIGHT_END_PART, *plan.siblings, rows,
                            keys.siblings.ends, found);
    }
    const bool is_labelled = part.kind >= LABELLED_PART;
    const int64_t kind = part.kind - (is_labelled ? LABELLED_PART : HIGHER_PART);
    const PartWords of_kind = words_of_part(part, kind);
    const int64_t words[PART_WORDS] = {of_kind.a, of_kind.b, of_kind.c, of_kind.d};
    if (!is_labelled)
        return plan.higher ? part_rows(kind, words, keys.higher, rows.rows, found) : 0;
    if (!joint || !joint->higher) return 0;
    count = part_rows(kind, words, keys.children, joint->weights.n0 / joint->stride, found);
    for (int64_t k = 0; k < count; ++k)
        found[k] = scorer.weights.n0 + found[k] * joint->stride + part.label;
    return count;
}

// No part of a sentence of n words has more rows than this.
inline int64_t max_rows_of_part(const Scorer& scorer, int64_t n) {
    const Plan& plan = *scorer.plan;
    int64_t most = max_rows(*plan.arcs, n) + (plan.guide ? max_rows(*plan.guide->arcs, 0) : 0);
    const auto at_least = [&](int64_t count) { most = count > most ? count : most; };
    if (plan.siblings) at_least(max_sibling_rows(*plan.siblings));
    if (plan.higher) at_least(max_part_rows(*plan.higher));
    if (scorer.joint) at_least(max_rows(*scorer.joint->plan, 0));
    if (scorer.joint && scorer.joint->higher) at_least(max_part_rows(*scorer.joint->higher));
    return most;
}

}  // namespace gpuparse
