// Labels of the modifiers of one head, at most one label from each of some sets: exact.
//
// Each set is a limit. The labels that are in the same limits are one class, and only the best label of
// a class counts. A class is a bit mask: bit k is 1 if its labels are in limit k. Labels in no limit have
// the mask 0. Modifiers are taken one by one; for each mask of limits used up, the best score is kept.
#pragma once

#include <math.h>
#include <stdint.h>

#include "arena.h"
#include "candidates.h"
#include "head_automata.h"

namespace gpuparse {

struct LabelLimits {
    const int64_t* masks = nullptr;  // (n_classes,), of the classes; none: there are no labels
    int64_t n_classes = 0;
    const double* scores = nullptr;  // (n_arcs, n_classes), of the best label, -inf for none
    int64_t n = 0;
    int64_t n_sets = 1;              // of used sets: the length of the rows below
    int8_t* as_labelled = nullptr;   // (n_arcs,), 1 for the arcs that are chosen
    double* values = nullptr;        // (n + 1, n_sets), by how many arcs have been taken
    int16_t* choices = nullptr;      // the same: the class that the last arc took, -1 if it was left
    int64_t* classes = nullptr;      // (n + 1,), of the words' labels in the tree labelled last

    bool has_labels() const { return n_classes > 0; }

    // False: no memory.
    bool allocate(int64_t n_arcs, int64_t n_words, Arena& arena) {
        n = n_words;
        n_sets = 1;
        for (int64_t d = 0; d < n_classes; d++)
            while (n_sets <= masks[d]) n_sets *= 2;
        as_labelled = arena.take_zeros<int8_t>(n_arcs);
        values = arena.take<double>((n + 1) * n_sets);
        choices = arena.take<int16_t>((n + 1) * n_sets);
        classes = arena.take_zeros<int64_t>(n + 1);
        return !arena.failed();
    }

    // The score of the best label of an arc, -inf for none.
    double best_label(int64_t a) const {
        double best = -(double)INFINITY;
        for (int64_t d = 0; d < n_classes; d++)
            best = scores[a * n_classes + d] > best ? scores[a * n_classes + d] : best;
        return best;
    }

    void begin_head() {
        for (int64_t used = 0; used < n_sets; used++) values[used] = -(double)INFINITY;
        values[0] = 0.0;
    }

    // Best scores after the arc a, the count-th one from 0, by used sets.
    void take_arc(int64_t count, int64_t a, double multiplier, bool may_take, bool may_leave) {
        const double* before = values + count * n_sets;
        double* after = values + (count + 1) * n_sets;
        int16_t* choice = choices + (count + 1) * n_sets;
        for (int64_t used = 0; used < n_sets; used++) {
            after[used] = may_leave ? before[used] : -(double)INFINITY;
            choice[used] = -1;
        }
        if (!may_take) return;
        for (int64_t d = 0; d < n_classes; d++) {
            const double gain = scores[a * n_classes + d] - multiplier;
            const int64_t mask = masks[d];
            for (int64_t used = 0; used < n_sets; used++)
                if ((used & mask) == 0 && before[used] + gain > after[used | mask]) {
                    after[used | mask] = before[used] + gain;
                    choice[used | mask] = (int16_t)d;
                }
        }
    }

    // The first best set of used sets after `count` arcs.
    int64_t best_used(int64_t count) const {
        const double* row = values + count * n_sets;
        int64_t best = 0;
        for (int64_t used = 1; used < n_sets; used++) best = row[used] > row[best] ? used : best;
        return best;
    }

    // For every head the best modifiers and labels: fills as_labelled. Returns the sum of all scores,
    // -inf if there is no choice. chain: of the automata; state, multipliers (n_arcs,).
    double solve(const Candidates& c, int32_t* const* chain, const int8_t* state,
                 const double* multipliers) {
        memset(as_labelled, 0, (size_t)c.n_arcs);
        double total = 0.0;
        for (int64_t h = 0; h <= n; h++) {
            begin_head();
            int64_t count = 0;
            for (int64_t d = 0; d < 2; d++)
                for (int64_t k = c.side[d][h]; k < c.side[d][h + 1]; k++) {
                    const int64_t a = chain[d][k];
                    take_arc(count, a, multipliers[a], state[a] != ARC_BARRED, state[a] != ARC_FORCED);
                    count++;
                }
            int64_t used = best_used(count);
            total += values[count * n_sets + used];
            if (!(total > -(double)INFINITY)) return -(double)INFINITY;
            for (int64_t d = 1; d >= 0; d--)
                for (int64_t k = c.side[d][h + 1] - 1; k >= c.side[d][h]; k--) {
                    const int64_t chosen = choices[count * n_sets + used];
                    if (chosen >= 0) {
                        as_labelled[chain[d][k]] = 1;
                        used -= masks[chosen];
                    }
                    count--;
                }
        }
        return total;
    }

    // The best labels of the modifiers of h in a tree; fills their classes. Returns the sum of their
    // scores, -inf if the limits leave none.
    double label_head(const Candidates& c, const int64_t* heads, int64_t h) {
        begin_head();
        int64_t count = 0;
        for (int64_t m = 1; m <= n; m++)
            if (heads[m] == h) take_arc(count++, c.number(h, m), 0.0, true, false);
        int64_t used = best_used(count);
        const double best = values[count * n_sets + used];
        if (best > -(double)INFINITY)
            for (int64_t m = n; m >= 1; m--)
                if (heads[m] == h) {
                    const int64_t chosen = choices[count * n_sets + used];
                    classes[m] = chosen;
                    used -= masks[chosen];
                    count--;
                }
        return best;
    }

    // The score of the best labels of a tree; fills their classes.
    double label_tree(const Candidates& c, const int64_t* heads) {
        double total = 0.0;
        for (int64_t h = 0; h <= n; h++) total += label_head(c, heads, h);
        return total;
    }
};

// The first best label of a class, -1 for none; label_scores, class_of: (n_labels,).
inline int64_t first_best_label(const double* label_scores, const int64_t* class_of, int64_t n_labels,
                                int64_t d) {
    int64_t best = -1;
    double highest = -(double)INFINITY;
    for (int64_t k = 0; k < n_labels; k++)
        if (class_of[k] == d && label_scores[k] > highest) {
            best = k;
            highest = label_scores[k];
        }
    return best;
}

}  // namespace gpuparse
