// Checks that plans, weights and the sentences of a batch fit each other: nothing that passes them makes
// scoring read or write beyond an array.
#pragma once
#include "batch.h"
#include "joint_labels.h"
#include "part_kinds.h"
#include "sibling_scores.h"
#include "word_vectors.h"

namespace gpuparse {

// Checks a model and finds out what it reads of the values of a batch.
struct ModelChecker {
    const i32_2& values;
    bool reads_weights = true;      // false: rows of weights are listed, and there need be none
    int64_t before = 0, after = 0;  // words that are read beside a sentence
    bool reads_dense = false;       // whether values find rows themselves

    bool has_row(int64_t row) const { return is_between(0, row, values.n0); }

    bool fits_atom(int64_t row, int64_t offset) {
        if (-offset > before) before = -offset;
        if (offset > after) after = offset;
        return has_row(row) && is_between(-values.n1, offset, values.n1);
    }

    bool fit_sides(const i64_1& start, const i64_2& atoms) {
        if (!are_starts(start, atoms.n0) || (atoms.n0 && atoms.n1 != 2)) return false;
        for (int64_t a = 0; a < atoms.n0; ++a)
            if (!fits_atom(atoms.data[2 * a], atoms.data[2 * a + 1])) return false;
        return true;
    }

    // n_rows: of the weights.
    bool fit_rows(const RowMap* rows, int64_t n_rows) const {
        if (!rows || rows->rows < LINE || rows->rows % LINE || rows->rows > n_rows) return false;
        if (rows->dense < 0 || rows->dense % LINE || rows->rows > (int64_t)1 << 32) return false;
        return rows->is_power ? (rows->rows & (rows->rows - 1)) == 0 && rows->mask == rows->rows - 1
                              : true;
    }

    bool fit_codes(const ArcPlan& plan, int64_t first, int64_t second) const {
        return is_between(0, first, plan.codes.n0) && is_between(-1, second, plan.codes.n0);
    }

    // True if `count` rows from a line of the dense region on are rows of the weights.
    bool fits_dense(const RowMap& rows, int64_t line, int64_t count, int64_t n_rows) {
        reads_dense = true;
        return line >= 0 && rows.dense <= n_rows && line <= (n_rows - rows.dense) / LINE &&
               count <= n_rows - rows.dense - line * LINE;
    }

    bool fits(const ArcPlan* arcs, const RowMap& rows, int64_t n_rows) {
        if (!arcs) return false;
        const ArcPlan& plan = *arcs;
        const int64_t combinations = plan.codes.n1, sides = plan.side_start.n0 - 1;
        if (!is_between(1, plan.n_buckets, LINE) || combinations != 2 * plan.n_buckets ||
            combinations > LINE || plan.buckets.n0 < 1 ||
            !are_between(0, plan.buckets, plan.n_buckets) || !fit_sides(plan.side_start, plan.atoms) ||
            (plan.word.n0 && plan.word.n1 != 5) || (plan.pair.n0 && plan.pair.n1 != 5) ||
            (plan.between.n0 && plan.between.n1 != 9))
            return false;
        for (int64_t i = 0; i < plan.codes.n0 * combinations; ++i)
            if (plan.codes.data[i] >= LINE) return false;
        for (int64_t f = 0; f < plan.word.n0; ++f) {
            const WordFamily& of = words_of(plan)[f];
            if (!is_between(0, of.role, 2) || !is_between(0, of.side, sides) ||
                !fit_codes(plan, of.first_codes, of.second_codes))
                return false;
        }
        for (int64_t f = 0; f < plan.pair.n0; ++f) {
            const PairFamily& of = pairs_of(plan)[f];
            if (!is_between(0, of.head_side, sides) || !is_between(0, of.modifier_side, sides) ||
                !fit_codes(plan, of.first_codes, of.second_codes))
                return false;
        }
        const int64_t most = (int64_t)1 << 20;
        for (int64_t f = 0; f < plan.between.n0; ++f) {
            const BetweenFamily& of = betweens_of(plan)[f];
            if (!is_between(0, of.head_side, sides) || !is_between(0, of.modifier_side, sides) ||
                !has_row(of.row) || !is_between(1, of.n_heads, most) ||
                !is_between(1, of.n_middles, most) || !is_between(1, of.n_modifiers, most) ||
                of.n_heads * of.n_middles > most || of.n_heads * of.n_middles * of.n_modifiers > most ||
                !fits_dense(rows, of.line, of.n_heads * of.n_middles * of.n_modifiers * LINE, n_rows) ||
                !fit_codes(plan, of.first_codes, of.second_codes))
                return false;
        }
        return true;
    }

    bool fits(const SiblingPlan& plan, const RowMap& rows, int64_t n_rows) {
        if (!fits(plan.pairs, rows, n_rows) || !fits(plan.ends, rows, n_rows) ||
            (plan.triple.n0 && plan.triple.n1 != 13))
            return false;
        for (int64_t f = 0; f < plan.triple.n0; ++f) {
            const TripleFamily& of = triples_of(plan)[f];
            if (of.cells < LINE || (of.cells & (of.cells - 1)) ||
                !is_between(0, of.slots, (int64_t)1 << 31) ||
                !fits_dense(rows, of.line, of.cells, n_rows) ||
                !fit_codes(*plan.pairs, of.first_codes, of.second_codes))
                return false;
            for (int64_t role = 0; role < 3; ++role)
                if (!has_row(of.row[role]) || !is_between(0, of.shift[role], 32)) return false;
        }
        return true;
    }

    bool fits(const HigherPlan& plan) {
        const int64_t terms = plan.sides.n0, sides = plan.side_start.n0 - 1;
        if (plan.family_start.n0 != HIGHER_KINDS + 1 || !are_starts(plan.family_start, terms) ||
            (terms && plan.sides.n1 != PART_WORDS) || plan.with_direction.n0 != terms ||
            !fit_sides(plan.side_start, plan.atoms))
            return false;
        for (int64_t i = 0; i < terms * PART_WORDS; ++i)
            if (!is_between(0, plan.sides.data[i], sides)) return false;
        return true;
    }

    int64_t rows_of(int64_t n_weights) const { return reads_weights ? n_weights : (int64_t)1 << 40; }

    bool fits(const JointLabels& joint) {
        if (joint.stride < 1 || joint.stride % LABEL_LANES || !is_between(1, joint.width, joint.stride + 1))
            return false;
        const int64_t lines = rows_of(joint.weights.n0 / joint.stride);
        return fit_rows(joint.rows, lines) && fits(joint.plan, *joint.rows, lines) &&
               joint.plan->between.n0 == 0 && (!joint.higher || fits(*joint.higher));
    }

    bool fits(const Scorer& scorer) {
        if (!scorer.plan) return false;
        const Plan& plan = *scorer.plan;
        const int64_t n_rows = rows_of(scorer.weights.n0);
        return fit_rows(scorer.rows, n_rows) && fits(plan.arcs, *scorer.rows, n_rows) &&
               (!plan.siblings || fits(*plan.siblings, *scorer.rows, n_rows)) &&
               (!plan.guide || (fits(plan.guide->arcs, *scorer.rows, n_rows) &&
                                plan.guide->arcs->between.n0 == 0 && has_row(plan.guide->row))) &&
               (!plan.higher || fits(*plan.higher)) && (!scorer.joint || fits(*scorer.joint));
    }

    // True if the tokens that are read of all sentences are there.
    bool fit_sentences(const Sentences& sentences) const {
        if (sentences.starts.n0 != sentences.lengths.n0) return false;
        for (int64_t b = 0; b < sentences.starts.n0; ++b) {
            const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
            if (start < before || n < 0 || n >= values.n1 - after - start) return false;
        }
        return true;
    }

    // True if values that find rows themselves are as small as the plans say.
    bool fit_values(const Sentences& sentences, const SiblingPlan* siblings) const {
        if (!reads_dense) return true;
        for (int64_t b = 0; b < sentences.starts.n0; ++b) {
            const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
            int32_t all = 0;  // its sign: whether any value is negative
            for (int64_t r = 0; r < values.n0; ++r) {
                const int32_t* row = values.data + r * values.n1 + start;
                for (int64_t i = -before; i <= n + after; ++i) all |= row[i];
            }
            if (all < 0) return false;
            for (int64_t f = 0; siblings && f < siblings->triple.n0; ++f) {
                const TripleFamily& of = triples_of(*siblings)[f];
                for (int64_t role = 0; !of.is_hashed && role < 3; ++role) {
                    const int32_t* row = values.data + of.row[role] * values.n1 + start;
                    int32_t bits = 0;  // cells are a power of two: one value too large shows here
                    for (int64_t i = 0; i <= n; ++i) bits |= row[i];
                    if ((int64_t)bits << of.shift[role] >= of.cells) return false;
                }
            }
        }
        return true;
    }
};

// True if word vectors fit a batch, and labels that they are added to; width: of lines of label weights.
inline bool vectors_fit(const WordVectors* vectors, const Sentences& sentences, const JointLabels* joint) {
    return !vectors || (fits(*vectors, sentences) &&
                        (!joint || !has_labels(vectors) || vectors->label_constants.n0 == joint->stride));
}

// True if the sentences of a batch and their scorer agree.
inline int64_t check_batch(const Sentences& sentences, const Scorer& scorer,
                           bool reads_weights = true) {
    const int64_t dtype = scorer.weights.dtype;
    if (dtype != DT_I8 && dtype != DT_I16 && dtype != DT_F32) return BAD_TYPE;
    if (scorer.joint && scorer.joint->weights.dtype != dtype) return BAD_TYPE;
    if (sentences.known.n0 != 0 && !are_by_token(sentences, sentences.known.n0)) return BAD_SHAPE;
    ModelChecker checker{sentences.values, reads_weights};
    return checker.fits(scorer) && checker.fit_sentences(sentences) &&
                   checker.fit_values(sentences, scorer.plan->siblings) &&
                   vectors_fit(scorer.vectors, sentences, scorer.joint)
               ? OK
               : BAD_SHAPE;
}

// True if a search, a batch and its scorer agree; class_of and masks: see `Search`.
inline bool search_fits(const Search& search, const Scorer& scorer) {
    const JointLabels* joint = scorer.joint;
    const int64_t classes = search.masks.n0;
    if (!(search.min_gain >= 0.0)) return false;  // a search by single changes would not end
    return classes == 0 || (joint && joint->higher && search.class_of.n0 == joint->width &&
                            are_between(0, search.class_of, classes) &&
                            are_between(0, search.masks, (int64_t)1 << 20));
}

}  // namespace gpuparse
