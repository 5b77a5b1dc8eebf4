// All scores of one sentence, as decoders read them, and the weight rows of its parts.
#pragma once
#include "joint_labels.h"
#include "part_keys.h"
#include "sibling_scores.h"

namespace gpuparse {

// Keys of the words of one sentence, for all templates of a model.
struct SentenceKeys {
    int64_t n;
    ArcKeys arcs, guide, labels;
    SiblingKeys siblings;
    PartKeys higher, children;
};

// Fill the keys of a sentence without scoring it: what rows of parts are found from.
inline SentenceKeys fill_sentence_keys(const i32_2& values, int64_t start, int64_t n,
                                       const Scorer& scorer, Arena& arena) {
    const Plan& plan = *scorer.plan;
    const RowMap& rows = *scorer.rows;
    SentenceKeys keys;
    keys.n = n;
    const auto fill = [&](const ArcPlan& arcs, const RowMap& map) {
        ArcKeys of_arcs = take_arc_keys(arcs, n, arena);
        if (!arena.failed()) fill_arc_keys(values, start, n, arcs, map, of_arcs);
        return of_arcs;
    };
    keys.arcs = fill(*plan.arcs, rows);
    if (plan.guide) keys.guide = fill(*plan.guide->arcs, rows);
    if (plan.siblings) {
        keys.siblings.pairs = take_arc_keys(*plan.siblings->pairs, n, arena);
        if (!arena.failed())
            fill_sibling_keys(values, start, n, *plan.siblings->pairs, rows, keys.siblings.pairs);
        keys.siblings.ends = fill(*plan.siblings->ends, rows);
    }
    if (plan.higher) keys.higher = fill_part_keys(values, start, n, *plan.higher, arena);
    if (scorer.joint) {
        keys.labels = fill(*scorer.joint->plan, *scorer.joint->rows);
        if (scorer.joint->higher)
            keys.children = fill_part_keys(values, start, n, *scorer.joint->higher, arena);
    }
    return keys;
}

// Append the rows of an arc's guide features to found[count..], if the guide has the arc; returns the
// new count.
inline int64_t guide_rows(const i32_2& values, int64_t start, int64_t n, int64_t h, int64_t m,
                          const GuidePlan& plan, const RowMap& rows, const ArcKeys& keys,
                          int64_t* found, int64_t count) {
    if (values.data[plan.row * values.n1 + start + m] != h + 1) return count;
    return count + pair_rows(h, m, keys.combination[n + m - h], *plan.arcs, rows, keys,
                             found + count);
}

// Add the guide features of one sentence to scores(h, m). found: max_rows of the plan and 0.
template<class W>
void add_guides(const i32_2& values, int64_t start, int64_t n, const GuidePlan& plan,
                const W* weights, const RowMap& rows, const ArcKeys& keys, int64_t* found,
                View2<Sum<W>> scores) {
    for (int64_t m = 1; m <= n; ++m) {
        const int64_t h = (int64_t)values.data[plan.row * values.n1 + start + m] - 1;
        if (h < 0 || h > n) continue;
        const int64_t count =
            pair_rows(h, m, keys.combination[n + m - h], *plan.arcs, rows, keys, found);
        for (int64_t k = 0; k < count; ++k) scores(h, m) += weights[found[k]];
    }
}

// The scores of one sentence. All of it lies in the arena of `score_sentence`.
template<class W>
struct SentenceScores {
    int64_t n;
    View2<double> arcs;  // [h, m], the best label of each arc included; exact for integer weights
    bool has_siblings = false;
    FactoredSiblings<W, double> siblings;
    bool has_higher = false;
    PartProvider<W, Sum<W>, double> parts;
    bool has_labels = false;            // whether labels are found with the trees
    bool labels_children = false;       // whether parts of children have labels too
    LabelSums<W> labels;
    View2<const Sum<W>> best_labels;    // what the best label of each arc scores, without children
    SentenceKeys keys;
};

// Fill scores(0..n, 1..n) of arcs without labels, guide features included.
template<class W>
void score_sentence_arcs(const i32_2& values, int64_t start, int64_t n, const Scorer& scorer,
                         Arena& arena, View2<Sum<W>> scores, SentenceKeys& keys) {
    const Plan& plan = *scorer.plan;
    const W* weights = (const W*)scorer.weights.data;
    PairSums<W> sums = take_pair_sums<W>(*plan.arcs, n, arena);
    keys.n = n;
    keys.arcs = sums.keys;
    if (arena.failed()) return;
    score_arcs_sentence(values, start, n, *plan.arcs, weights, *scorer.rows, sums, arena, scores);
    if (!plan.guide) return;
    keys.guide = take_arc_keys(*plan.guide->arcs, n, arena);
    int64_t* found = arena.take<int64_t>(max_rows(*plan.guide->arcs, 0) + 1);
    if (arena.failed()) return;
    fill_arc_keys(values, start, n, *plan.guide->arcs, *scorer.rows, keys.guide);
    add_guides(values, start, n, *plan.guide, weights, *scorer.rows, keys.guide, found, scores);
}

// Score all parts of the sentence whose root is the token `start`. allowed: (n + 1, n + 1), the arcs
// that a higher-order decoder may use, data NULL for all. arena.failed() where memory runs out.
template<class W>
SentenceScores<W> score_sentence(const i32_2& values, int64_t start, int64_t n,
                                 const Scorer& scorer, View2<const uint8_t> allowed,
                                 Arena& arena) {
    const Plan& plan = *scorer.plan;
    const W* weights = (const W*)scorer.weights.data;
    const int64_t nodes = n + 1;
    SentenceScores<W> found;
    found.n = n;
    found.arcs = {arena.take<double>(nodes * nodes), nodes};
    View2<Sum<W>> sums{arena.take<Sum<W>>(nodes * nodes), nodes};
    if (arena.failed()) return found;
    score_sentence_arcs<W>(values, start, n, scorer, arena, sums, found.keys);
    if (arena.failed()) return found;
    for (int64_t h = 0; h <= n; ++h) {
        found.arcs(h, 0) = 0;
        sums(h, 0) = 0;
        sums(h, h) = 0;  // the diagonal is undefined, and nothing reads it
        for (int64_t m = 1; m <= n; ++m) found.arcs(h, m) = sums(h, m);
    }
    const JointLabels* joint = scorer.joint;
    found.has_labels = joint != nullptr;
    found.labels_children = joint && joint->higher;
    if (joint) {
        found.labels = take_label_sums<W>(*joint, n, arena);
        found.keys.labels = found.labels.keys;
        if (arena.failed()) return found;
        fill_label_sums(values, start, found.labels);
        if (!found.labels_children) {
            View2<Sum<W>> best{arena.take_zeros<Sum<W>>(nodes * nodes), nodes};
            if (arena.failed()) return found;
            add_best_labels(found.labels, best, found.arcs);
            found.best_labels = best;
        }
    }
    if (plan.siblings) {
        found.siblings = score_siblings(values, start, n, *plan.siblings, weights, *scorer.rows,
                                        arena, found.keys.siblings);
        found.has_siblings = true;
    }
    if (!plan.higher) return found;
    found.has_higher = true;
    found.keys.higher = fill_part_keys(values, start, n, *plan.higher, arena);
    PartProvider<W, Sum<W>, double>& parts = found.parts;
    parts.has_siblings = found.has_siblings;
    if (found.has_siblings) parts.siblings = found.siblings;
    parts.allowed = allowed;
    parts.keys = found.keys.higher;
    parts.table = weights;
    parts.cells = scorer.rows->rows;
    parts.has_labels = found.labels_children;
    if (!found.labels_children) return found;
    found.keys.children = fill_part_keys(values, start, n, *joint->higher, arena);
    View3<Sum<W>> arcs{arena.take<Sum<W>>(nodes * nodes * joint->stride), nodes * joint->stride,
                       joint->stride};
    if (arena.failed()) return found;
    for (int64_t h = 0; h <= n; ++h)
        for (int64_t m = 1; m <= n; ++m)
            if (h != m && (!allowed.data || allowed(h, m)))
                sum_labels(h, m, found.labels, arcs.row(h, m));
    parts.labels = {arcs, found.keys.children, (const W*)joint->weights.data,
                    joint->weights.n0 / joint->stride, joint->stride, joint->width,
                    nullptr, nullptr, 0.0};
    return found;
}

// Forbid every arc into a word whose head is known, but for the one from it. known: heads by token,
// -1 for those to be found; empty for none.
inline void forbid_others(View2<double> scores, int64_t n, int64_t start, const i64_1& known) {
    if (known.n0 == 0) return;
    for (int64_t m = 1; m <= n; ++m) {
        const int64_t given = known.data[start + m];
        if (given < 0) continue;
        for (int64_t h = 0; h <= n; ++h)
            if (h != given) scores(h, m) = -(double)INFINITY;
    }
}

}  // namespace gpuparse
