// All scores of one sentence, as decoders read them, and the weight rows of its parts.
#pragma once
#include "joint_labels.h"
#include "part_keys.h"
#include "sibling_scores.h"

#include <limits>

namespace gpuparse {

// Keys of the words of one sentence, for all templates of a model.
struct SentenceKeys {
    ArcKeys arcs, guide, labels;
    SiblingKeys siblings;
    PartKeys higher, children;
};

// Where memory runs out, the arena has failed.
inline SentenceKeys fill_sentence_keys(const Sentence& sentence, const Scorer& scorer,
                                       Arena& arena) {
    const Plan& plan = *scorer.plan;
    const JointLabels* joint = scorer.joint;
    SentenceKeys keys;
    keys.arcs = fill_arc_keys(sentence, *plan.arcs, *scorer.rows, arena);
    if (plan.guide) keys.guide = fill_arc_keys(sentence, *plan.guide->arcs, *scorer.rows, arena);
    if (plan.siblings && !is_empty(*plan.siblings))
        keys.siblings = fill_sibling_keys(sentence, *plan.siblings, *scorer.rows, arena);
    if (plan.higher) keys.higher = fill_part_keys(sentence, *plan.higher, arena);
    if (joint) keys.labels = fill_arc_keys(sentence, *joint->plan, *joint->rows, arena);
    if (joint && joint->higher) keys.children = fill_part_keys(sentence, *joint->higher, arena);
    return keys;
}

// The head that a guide gives word m, -1 for none.
inline int64_t guide_of(const Sentence& sentence, int64_t m, const GuidePlan& plan) {
    const int64_t h = (int64_t)sentence.row(plan.row)[m] - 1;
    return h <= sentence.n ? h : -1;
}

// Add the guide features of one sentence to scores(h, m).
template<class W>
void add_guides(const Sentence& sentence, const GuidePlan& plan, const W* weights,
                const RowMap& rows, const ArcKeys& keys, Arena& arena, View2<Sum<W>> scores) {
    int64_t* room = arena.take<int64_t>(max_rows(*plan.arcs, 0));
    if (!room) return;
    for (int64_t m = 1; m <= sentence.n; ++m) {
        const int64_t h = guide_of(sentence, m, plan);
        if (h < 0) continue;
        RowList found{room};
        add_pair_rows(h, m, keys.combination(h, m), *plan.arcs, rows, keys, found);
        for (int64_t k = 0; k < found.count(); ++k) scores(h, m) += weights[room[k]];
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
    SentenceVectors* vectors = nullptr;  // NULL: none
};

// Fill lowest[1..n] with the least score of an open arc into each word: at most `margin` below the best.
// Where that is one arc alone, none is open. second: room.
template<class S>
inline void find_lowest(int64_t n, View2<const S> scores, S margin, S* __restrict second,
                        S* __restrict lowest) {
    const S least = std::numeric_limits<S>::lowest(), most = std::numeric_limits<S>::max();
    for (int64_t m = 1; m <= n; ++m) lowest[m] = scores(0, m), second[m] = least;
    for (int64_t h = 1; h <= n; ++h) {
        const S* __restrict row = scores.row(h);
        const S best_of = lowest[h], second_of = second[h];  // the diagonal is no arc
        for (int64_t m = 1; m <= n; ++m) {
            const S lower = row[m] > lowest[m] ? lowest[m] : row[m];
            second[m] = lower > second[m] ? lower : second[m];
            lowest[m] = row[m] > lowest[m] ? row[m] : lowest[m];
        }
        lowest[h] = best_of, second[h] = second_of;
    }
    for (int64_t m = 1; m <= n; ++m) {
        lowest[m] -= margin;
        lowest[m] = second[m] >= lowest[m] ? lowest[m] : most;
    }
}

// Add the templates of arcs to the scores by word vectors of those arcs that vectors leave open. The rows
// of an arc are prefetched while those of the one before are summed.
template<class W>
void add_open_arcs(const Sentence& sentence, const ArcPlan& plan, const W* weights, const RowMap& rows,
                   const ArcKeys& keys, Sum<W> margin, Arena& arena, View2<Sum<W>> scores) {
    const int64_t n = sentence.n, most = max_rows(plan, n);
    Sum<W>* lowest = arena.take<Sum<W>>(n + 1);
    Sum<W>* second = arena.take<Sum<W>>(n + 1);
    int64_t* room = arena.take<int64_t>(2 * most);
    int64_t* open = arena.take<int64_t>(n + 1);  // modifiers of one head
    if (arena.failed()) return;
    find_lowest<Sum<W>>(n, {scores.data, scores.stride}, margin, second, lowest);
    RowList found{room}, next{room + most};
    Sum<W>* score = nullptr;  // of the arc whose rows are found
    const auto sum_found = [&] {
        if (!score) return;
        Sum<W> sum = 0;
        for (const int64_t* row = found.rows; row < found.end; ++row) sum = add(sum, (Sum<W>)weights[*row]);
        *score = add(*score, sum);
    };
    Pace pace;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(5 * n); ++h) {
        int64_t count = 0;
        for (int64_t m = 1; m <= n; ++m) open[count] = m, count += scores(h, m) >= lowest[m];
        for (int64_t k = 0; k < count; ++k) {
            const int64_t m = open[k];
            if (h == m) continue;
            next.end = next.rows;
            add_arc_rows(sentence, h, m, plan, rows, keys, next);
            for (const int64_t* row = next.rows; row < next.end; ++row) __builtin_prefetch(weights + *row);
            sum_found();
            const RowList summed = found;
            found = next;
            next = summed;
            score = &scores(h, m);
        }
    }
    sum_found();
}

// Fill scores(0..n, 1..n) of arcs without labels, guide features and word vectors included. vectors: of
// the sentence, or NULL.
template<class W>
void score_sentence_arcs(const Sentence& sentence, const Scorer& scorer, const SentenceKeys& keys,
                         const SentenceVectors* vectors, Arena& arena, View2<Sum<W>> scores) {
    const Plan& plan = *scorer.plan;
    const W* weights = (const W*)scorer.weights.data;
    if (vectors && vectors->of->arc_margin >= 0) {
        Pace pace;
        for (int64_t h = 0; h <= sentence.n && !pace.is_interrupted(sentence.n); ++h)
            memset(scores.row(h), 0, (size_t)scores.stride * sizeof(Sum<W>));
        add_vector_pairs(*vectors, ARC_PAIRS, arena, scores);
        const ScoreUnit unit = vector_pairs(*vectors->of, ARC_PAIRS).unit;
        const Sum<W> margin = (Sum<W>)unit.points((int32_t)vectors->of->arc_margin);
        if (!arena.failed())
            add_open_arcs(sentence, *plan.arcs, weights, *scorer.rows, keys.arcs, margin, arena, scores);
    } else {
        score_arcs(sentence, *plan.arcs, weights, *scorer.rows, keys.arcs, arena, scores);
        if (vectors && !arena.failed()) add_vector_pairs(*vectors, ARC_PAIRS, arena, scores);
    }
    if (plan.guide && !arena.failed())
        add_guides(sentence, *plan.guide, weights, *scorer.rows, keys.guide, arena, scores);
}

// Score all parts of a sentence. allowed: (n + 1, n + 1), the arcs that a higher-order decoder may
// use, data NULL for all. arena.failed() where memory runs out.
template<class W>
SentenceScores<W> score_sentence(const Sentence& sentence, const Scorer& scorer,
                                 View2<const uint8_t> allowed, Arena& arena) {
    const Plan& plan = *scorer.plan;
    const W* weights = (const W*)scorer.weights.data;
    const int64_t n = sentence.n, nodes = n + 1;
    SentenceScores<W> found;
    found.n = n;
    found.keys = fill_sentence_keys(sentence, scorer, arena);
    SentenceVectors* const vectors =
        sentence.vectors ? sentence.vectors : find_vectors(sentence, scorer.vectors, arena);
    found.vectors = vectors;
    found.arcs = {arena.take<double>(nodes * nodes), nodes};
    View2<Sum<W>> sums{arena.take<Sum<W>>(nodes * nodes), nodes};
    if (arena.failed()) return found;
    score_sentence_arcs<W>(sentence, scorer, found.keys, vectors, arena, sums);
    if (arena.failed()) return found;
    Pace pace;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(2 * n); ++h) {
        found.arcs(h, 0) = 0;
        sums(h, 0) = 0;
        sums(h, h) = 0;  // the diagonal is undefined, and nothing reads it
        for (int64_t m = 1; m <= n; ++m) found.arcs(h, m) = sums(h, m);
    }
    const JointLabels* joint = scorer.joint;
    found.has_labels = joint != nullptr;
    found.labels_children = joint && joint->higher;
    if (joint) {
        found.labels = sum_label_words<W>(*joint, found.keys.labels, vectors, arena);
        if (arena.failed()) return found;
        if (!found.labels_children) {
            View2<Sum<W>> best{arena.take_zeros<Sum<W>>(nodes * nodes), nodes};
            if (arena.failed()) return found;
            add_best_labels(found.labels, best, found.arcs);
            found.best_labels = best;
        }
    }
    if (plan.siblings) {
        found.siblings = score_siblings(sentence, *plan.siblings, weights, *scorer.rows,
                                        found.keys.siblings, arena, vectors);
        found.has_siblings = true;
    }
    if (!plan.higher) return found;
    found.has_higher = true;
    PartProvider<W, Sum<W>, double>& parts = found.parts;
    parts.has_siblings = found.has_siblings;
    if (found.has_siblings) parts.siblings = found.siblings;
    parts.allowed = allowed;
    parts.keys = found.keys.higher;
    parts.grandparents = {nullptr, nodes};
    if (vectors && has_pairs(vectors->of, GRANDPARENT_PAIRS)) {
        View2<double> pair{arena.take_zeros<double>(nodes * nodes), nodes};
        if (arena.failed()) return found;
        add_vector_parts<W>(*vectors, GRANDPARENT_PAIRS, 0, arena, pair);
        parts.grandparents = pair;
    }
    parts.table = weights;
    parts.cells = scorer.rows->rows;
    parts.has_labels = found.labels_children;
    if (!found.labels_children) return found;
    View3<Sum<W>> arcs{arena.take<Sum<W>>(nodes * nodes * joint->stride), nodes * joint->stride,
                       joint->stride};
    if (arena.failed()) return found;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(50 * n); ++h)
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
inline void forbid_others(View2<double> scores, const Sentence& sentence, const i64_1& known) {
    if (known.n0 == 0) return;
    for (int64_t m = 1; m <= sentence.n; ++m) {
        const int64_t given = known.data[sentence.start + m];
        if (given < 0) continue;
        for (int64_t h = 0; h <= sentence.n; ++h)
            if (h != given) scores(h, m) = -(double)INFINITY;
    }
}

}  // namespace gpuparse
