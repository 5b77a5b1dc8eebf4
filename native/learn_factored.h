// Factored MIRA: every gold arc is to score at least 1 more than any other arc into its modifier.
//
// McDonald, Crammer & Pereira (2005), section 2.3.1. A sentence has n^2 constraints, and no tree is
// searched for. Violated constraints are listed, the smallest change that meets all listed ones is
// found, and constraints that the changed weights violate are added until there are none: the change
// is the smallest that meets all n^2.
#pragma once
#include "learn.h"

namespace gpuparse {

constexpr double MARGIN_TOLERANCE = 1e-5;  // single precision weights allow no smaller one

// The constraints of one sentence over its own rows, and the change that meets them. Rows are
// numbered in the order in which they were first used.
struct ConstraintSet {
    Arena& arena;
    Difference& rows;                   // from weight rows to numbers; counts of one constraint
    GrowingArray<float> before;         // weights before the sentence, by number
    GrowingArray<double> change;        // by number
    GrowingArray<int64_t> starts;       // constraint j has the entries starts[j] : starts[j + 1]
    GrowingArray<int64_t> entry_rows;   // numbers
    GrowingArray<int32_t> entry_counts;
    GrowingArray<double> missing;       // 1 less the margin before the sentence
    GrowingArray<double> steps;

    // Append the constraint of a gold arc and another arc, given the rows of both.
    bool append(const RowList& of_gold, const RowList& of_other, const float* weights) {
        const int64_t most = of_gold.count() + of_other.count();
        const int32_t plus = 1, minus = -1;
        if (!rows.add(of_gold, &plus) || !rows.add(of_other, &minus)) return arena.fail();
        if (!before.reserve(most, arena) || !change.reserve(most, arena) ||
            !starts.reserve(2, arena) || !entry_rows.reserve(most, arena) ||
            !entry_counts.reserve(most, arena) || !missing.reserve(1, arena) ||
            !steps.reserve(1, arena))
            return false;
        for (int64_t e = before.count; e < rows.count; e++) {
            before.append(weights[rows.rows[e]]);
            change.append(0.0);
        }
        if (starts.count == 0) starts.append(0);
        const int64_t first = entry_rows.count;
        append_entries(of_gold);
        append_entries(of_other);
        double margin = 0.0;
        for (int64_t e = first; e < entry_rows.count; e++)
            margin += entry_counts.data[e] * (double)before.data[entry_rows.data[e]];
        missing.append(1.0 - margin);
        steps.append(0.0);
        starts.append(entry_rows.count);
        return true;
    }

    // Find the smallest change that meets all constraints.
    void solve(double cap) {
        const SparseConstraints all{missing.count, starts.data, entry_rows.data, entry_counts.data,
                                    missing.data};
        hildreth_sparse_steps(all, cap, MARGIN_TOLERANCE / 10, steps.data, change.data);
    }

private:
    // Move the counts of rows to the entries.
    void append_entries(const RowList& found) {
        for (int64_t k = 0; k < found.count(); k++) {
            const int64_t number = rows.entry_of(found.rows[k]);
            if (rows.counts[number] == 0) continue;
            entry_rows.append(number);
            entry_counts.append(rows.counts[number]);
            rows.counts[number] = 0;
        }
    }
};

// Append the constraints that the scores violate and that are not in the set; false: out of memory.
inline bool append_violated(Learner& learner, const Sentence& sentence, uint8_t* is_listed,
                            ConstraintSet& constraints) {
    const int64_t n = sentence.n, nodes = n + 1;
    const Scorer& scorer = learner.scorer;
    const int64_t* gold = learner.trees->gold.data + sentence.start;
    Arena& arena = learner.scratch;
    ArenaMark mark(arena);
    const SentenceKeys keys = fill_sentence_keys(sentence, scorer, arena);
    View2<float> scores{arena.take<float>(nodes * nodes), nodes};
    const int64_t most = max_rows_of_part(scorer, n);
    int64_t* room = arena.take<int64_t>(2 * most);
    if (arena.failed()) return false;
    score_sentence_arcs<float>(sentence, scorer, keys, nullptr, arena, scores);
    if (arena.failed()) return false;
    for (int64_t m = 1; m <= n; m++) {
        const int64_t right = gold[m];
        RowList of_gold{room};
        if (right < 0) continue;
        for (int64_t h = 0; h <= n; h++) {
            if (h == m || h == right || is_listed[h * nodes + m]) continue;
            const double margin = (double)scores(right, m) - (double)scores(h, m);
            if (margin >= 1.0 - MARGIN_TOLERANCE) continue;
            if (of_gold.count() == 0)
                add_rows_of_part(sentence, arc_part(right, m), scorer, keys, of_gold);
            RowList of_other{room + most};
            add_rows_of_part(sentence, arc_part(h, m), scorer, keys, of_other);
            if (!constraints.append(of_gold, of_other, learner.weights.arcs.weights)) return false;
            is_listed[h * nodes + m] = 1;
        }
    }
    return true;
}

// Learn from one sentence; wrong: raised by the words with an arc that was not 1 below gold's. False:
// no memory.
inline bool learn_factored(Learner& learner, const Sentence& sentence, Arena& arena) {
    const int64_t n = sentence.n, nodes = n + 1;
    LearnedTable& table = learner.weights.arcs;
    Difference& rows = learner.difference;
    uint8_t* is_listed = arena.take_zeros<uint8_t>(nodes * nodes);
    if (!is_listed) return false;
    rows.clear();
    ConstraintSet constraints{arena, rows, {}, {}, {}, {}, {}, {}, {}};
    while (true) {
        const int64_t listed = constraints.missing.count;
        if (!append_violated(learner, sentence, is_listed, constraints)) return arena.fail();
        if (constraints.missing.count == listed) break;
        constraints.solve(learner.rule.max_step);
        for (int64_t e = 0; e < rows.count; e++)
            table.weights[rows.rows[e]] =
                (float)(constraints.before.data[e] + constraints.change.data[e]);
    }
    for (int64_t e = 0; e < rows.count; e++) {
        const int64_t row = rows.rows[e];
        const float moved = table.weights[row] - constraints.before.data[e];
        table.count(row, (double)moved, learner.seen + sentence.b);
    }
    for (int64_t m = 1; m <= n; m++) {
        bool is_wrong = false;
        for (int64_t h = 0; h <= n; h++) is_wrong |= is_listed[h * nodes + m] != 0;
        learner.wrong += is_wrong;
    }
    return true;
}

}  // namespace gpuparse
