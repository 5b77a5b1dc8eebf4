// The weight rows of any part of a sentence, as differences of gold and found trees list them.
#pragma once
#include "part_list.h"
#include "sentence_scores.h"

namespace gpuparse {

inline Part arc_part(int64_t h, int64_t m) {
    return {ARC_PART, (int32_t)h, (int32_t)m, 0, 0, 0, 0};
}

// Append the weight rows of a part; a row is repeated as often as it fires. Rows of labels found with
// the trees follow those of the other weights, label by label in each line.
// found: room for `max_rows_of_part`. keys: of the sentence.
template<class Rows>
inline void add_rows_of_part(const Sentence& sentence, const Part& part, const Scorer& scorer,
                             const SentenceKeys& keys, Rows& found) {
    const Plan& plan = *scorer.plan;
    const RowMap& rows = *scorer.rows;
    const JointLabels* joint = scorer.joint;
    const int64_t h = part.h, m = part.m;
    switch (part.kind) {
        case ARC_PART:
            add_arc_rows(sentence, h, m, *plan.arcs, rows, keys.arcs, found);
            if (plan.guide && guide_of(sentence, m, *plan.guide) == h)
                add_pair_rows(h, m, keys.guide.combination(h, m), *plan.guide->arcs, rows,
                              keys.guide, found);
            else if (plan.guide)
                skip_pair_rows(*plan.guide->arcs, found);
            return;
        case LABEL_PART:
            if (joint)
                add_label_rows(h, m, part.label, *joint, keys.labels, scorer.weights.n0, found);
            return;
        case SIBLING_PART:
            if (plan.siblings && !is_empty(*plan.siblings))
                add_sibling_rows(sentence, h, m, part.third, *plan.siblings, rows,
                                 keys.siblings.pairs, found);
            return;
        case RIGHT_END_PART:
        case LEFT_END_PART:
            if (plan.siblings && !is_empty(*plan.siblings))
                add_end_rows(h, m, part.kind == RIGHT_END_PART, *plan.siblings->ends, rows,
                             keys.siblings.ends, found);
            return;
    }
    const bool is_labelled = part.kind >= LABELLED_PART;
    const int64_t kind = part.kind - (is_labelled ? LABELLED_PART : HIGHER_PART);
    const PartWords of_kind = words_of_part(part, kind);
    const int64_t words[PART_WORDS] = {of_kind.a, of_kind.b, of_kind.c, of_kind.d};
    if (!is_labelled) {
        if (plan.higher) add_part_rows(kind, words, keys.higher, rows.rows, found);
    } else if (joint && joint->higher) {
        int64_t* row = found.end;
        add_part_rows(kind, words, keys.children, joint->weights.n0 / joint->stride, found);
        for (; row < found.end; ++row)
            if (*row >= 0) *row = scorer.weights.n0 + *row * joint->stride + part.label;
    }
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
