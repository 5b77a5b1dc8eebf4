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

// An array in an arena that grows; the values before stay.
template <class T>
struct GrowingArray {
    T* data = nullptr;
    int64_t count = 0, capacity = 0;

    // Room for `more` values after the first `count`; false: out of memory.
    bool reserve(int64_t more, Arena& arena) {
        if (count + more <= capacity) return true;
        const int64_t wanted = 2 * (count + more) + 64;
        T* bigger = arena.take<T>(wanted);
        if (!bigger) return false;
        if (count) memcpy(bigger, data, (size_t)count * sizeof(T));
        data = bigger;
        capacity = wanted;
        return true;
    }
    void append(T value) { data[count++] = value; }
};

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
    bool append(const int64_t* of_gold, int64_t n_gold, const int64_t* of_other, int64_t n_other,
                const float* weights) {
        const int64_t most = n_gold + n_other;
        const int32_t plus = 1, minus = -1;
        if (!rows.add(of_gold, n_gold, &plus) || !rows.add(of_other, n_other, &minus)) return false;
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
        append_entries(of_gold, n_gold);
        append_entries(of_other, n_other);
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
    void append_entries(const int64_t* found, int64_t n_found) {
        for (int64_t k = 0; k < n_found; k++) {
            const int64_t number = rows.entry_of(found[k]);
            if (rows.counts[number] == 0) continue;
            entry_rows.append(number);
            entry_counts.append(rows.counts[number]);
            rows.counts[number] = 0;
        }
    }
};

// Append the constraints that the scores violate and that are not in the set; false: out of memory.
// list_arc(h, m, found): writes the rows of an arc, at most `most`, and returns how many there are.
template <class ListArc>
inline bool append_violated(int64_t n, ListArc list_arc, int64_t most, View2<const float> scores,
                            const int64_t* gold, uint8_t* is_listed, const float* weights,
                            Arena& scratch, ConstraintSet& constraints) {
    int64_t* of_gold = scratch.take<int64_t>(most);
    int64_t* of_other = scratch.take<int64_t>(most);
    if (scratch.failed()) return false;
    for (int64_t m = 1; m <= n; m++) {
        const int64_t right = gold[m];
        int64_t n_gold = -1;
        if (right < 0) continue;
        for (int64_t h = 0; h <= n; h++) {
            if (h == m || h == right || is_listed[h * (n + 1) + m]) continue;
            const double margin = (double)scores(right, m) - (double)scores(h, m);
            if (margin >= 1.0 - MARGIN_TOLERANCE) continue;
            if (n_gold < 0) n_gold = list_arc(right, m, of_gold);
            const int64_t n_other = list_arc(h, m, of_other);
            if (!constraints.append(of_gold, n_gold, of_other, n_other, weights)) return false;
            is_listed[h * (n + 1) + m] = 1;
        }
    }
    return true;
}

// Learn from one sentence; wrong: raised by the words with an arc that was not 1 below gold's.
inline bool learn_factored_sentence(const Sentences& sentences, const Scorer& scorer,
                                    SentencePlace place, const int64_t* gold, double cap,
                                    int64_t seen, Difference& rows, LearnedWeights& weights,
                                    Arena& arena, double& wrong) {
    const int64_t n = place.n, nodes = n + 1;
    uint8_t* is_listed = arena.take_zeros<uint8_t>(nodes * nodes);
    if (!is_listed) return false;
    rows.clear();
    ConstraintSet constraints{arena, rows, {}, {}, {}, {}, {}, {}, {}};
    Arena scratch;
    while (true) {
        ArenaMark mark(scratch);
        const int64_t listed = constraints.missing.count;
        View2<float> scores{scratch.take<float>(nodes * nodes), nodes};
        if (scratch.failed()) return false;
        SentenceKeys keys;
        score_sentence_arcs<float>(sentences.values, place.start, n, scorer, scratch, scores, keys);
        if (scratch.failed()) return false;
        const auto list_arc = [&](int64_t h, int64_t m, int64_t* found) {
            const Part arc{ARC_PART, (int32_t)h, (int32_t)m, 0, 0, 0, 0};
            return rows_of_part(sentences.values, place.start, arc, scorer, keys, found);
        };
        if (!append_violated(n, list_arc, max_rows_of_part(scorer, n), scores, gold, is_listed,
                             weights.arcs, scratch, constraints))
            return false;
        if (constraints.missing.count == listed) break;
        constraints.solve(cap);
        for (int64_t e = 0; e < rows.count; e++)
            weights.arcs[rows.rows[e]] =
                (float)(constraints.before.data[e] + constraints.change.data[e]);
    }
    for (int64_t e = 0; e < rows.count; e++) {
        const int64_t row = rows.rows[e];
        const float moved = weights.arcs[row] - constraints.before.data[e];
        float& weighted = weights.arcs_weighted[row];
        weighted = (float)(weighted + (double)seen * (double)moved);
    }
    for (int64_t m = 1; m <= n; m++) {
        bool is_wrong = false;
        for (int64_t h = 0; h <= n; h++) is_wrong |= is_listed[h * nodes + m] != 0;
        wrong += is_wrong;
    }
    return true;
}

}  // namespace gpuparse
