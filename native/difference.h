// Gold minus found features as sparse vectors, and the step of the weights along them.
#pragma once
#include <stdint.h>
#include <string.h>

#include "feature_rows.h"
#include "part_list.h"
#include "updates.h"

namespace gpuparse {

// Weights that are learned, and the sums that their averages are made of: every change times the
// number of sentences seen before it.
struct LearnedTable {
    float* weights;
    float* sums;

    void change(int64_t row, double change, int64_t seen) {
        weights[row] = (float)(weights[row] + change);
        count(row, change, seen);
    }
    void count(int64_t row, double change, int64_t seen) {
        sums[row] = (float)(sums[row] + (double)seen * change);
    }
};

// The weights of trees. Rows of labels found with the trees are counted on after those of arcs.
struct LearnedWeights {
    int64_t n_arcs;
    LearnedTable arcs, labels;

    float of(int64_t row) const {
        return row < n_arcs ? arcs.weights[row] : labels.weights[row - n_arcs];
    }
    void change(int64_t row, double change, int64_t seen) {
        if (row < n_arcs)
            arcs.change(row, change, seen);
        else
            labels.change(row - n_arcs, change, seen);
    }
};

// k sparse vectors of small whole numbers by weight row; entries are in the order in which their
// rows were first added, which decides the order of sums.
struct Difference {
    int64_t k = 1;
    int64_t count = 0;          // entries
    int64_t capacity = 0;       // of the table: a power of two, more than twice `count`
    int32_t* table = nullptr;   // (capacity,): entry + 1, or 0 where free
    int64_t* rows = nullptr;    // (capacity / 2,)
    int32_t* counts = nullptr;  // (capacity / 2, k)
    Arena memory;               // of the arrays above

    bool start(int64_t structures) {
        k = structures;
        return grow(4096);
    }

    // Add `signs` (k,) at each of the rows; false: out of memory.
    bool add(const RowList& found, const int32_t* signs) {
        while (2 * (count + found.count()) >= capacity)
            if (!grow(2 * capacity)) return false;
        for (int64_t i = 0; i < found.count(); i++) {
            int32_t& slot = table[slot_of(found.rows[i])];
            if (slot == 0) {
                slot = (int32_t)++count;
                rows[count - 1] = found.rows[i];
                for (int64_t j = 0; j < k; j++) counts[(count - 1) * k + j] = 0;
            }
            int32_t* here = counts + (slot - 1) * k;
            for (int64_t j = 0; j < k; j++) here[j] += signs[j];
        }
        return true;
    }

    // The entry of a row, -1 for none.
    int64_t entry_of(int64_t row) const { return (int64_t)table[slot_of(row)] - 1; }

    void clear() {
        for (int64_t e = 0; e < count; e++) {
            // All entries go, so that gaps in the chains of the table do no harm.
            uint64_t slot = home_of(rows[e]);
            while (table[slot] != 0) {
                table[slot] = 0;
                slot = (slot + 1) & (uint64_t)(capacity - 1);
            }
        }
        count = 0;
    }

private:
    uint64_t home_of(int64_t row) const {
        return ((uint64_t)(row + 1) * 0x9E3779B1u >> 7) & (uint64_t)(capacity - 1);
    }

    // The slot of a row in the table, or the free one for it.
    uint64_t slot_of(int64_t row) const {
        uint64_t slot = home_of(row);
        while (table[slot] != 0 && rows[table[slot] - 1] != row)
            slot = (slot + 1) & (uint64_t)(capacity - 1);
        return slot;
    }

    bool grow(int64_t wanted) {
        int32_t* bigger = memory.take_zeros<int32_t>(wanted);
        int64_t* more_rows = memory.take<int64_t>(wanted / 2);
        int32_t* more_counts = memory.take<int32_t>(wanted / 2 * k);
        if (!bigger || !more_rows || !more_counts) return false;
        if (count) {
            memcpy(more_rows, rows, (size_t)count * sizeof(int64_t));
            memcpy(more_counts, counts, (size_t)(count * k) * sizeof(int32_t));
        }
        table = bigger;
        rows = more_rows;
        counts = more_counts;
        capacity = wanted;
        for (int64_t e = 0; e < count; e++) table[slot_of(rows[e])] = (int32_t)e + 1;
        return true;
    }
};

// Move the weights along the differences. costs: (k,) what the mistakes of each found structure
// cost; seen: sentences before this one. False: out of memory.
inline bool take_step(const Difference& difference, const double* costs, const UpdateRule& rule,
                      int64_t seen, LearnedWeights& weights, Arena& arena) {
    const int64_t k = difference.k;
    double* margins = arena.take_zeros<double>(k);
    double* gram = arena.take_zeros<double>(k * k);
    double* steps = arena.take<double>(k);
    double* missing = arena.take<double>(k);
    if (!margins || !gram || !steps || !missing) return false;
    for (int64_t e = 0; e < difference.count; e++) {
        const double weight = weights.of(difference.rows[e]);
        const int32_t* counts = difference.counts + e * k;
        for (int64_t j = 0; j < k; j++) {
            const double count = counts[j];
            margins[j] += count * weight;
            for (int64_t i = 0; i <= j; i++) gram[j * k + i] += count * counts[i];
        }
    }
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < j; i++) gram[i * k + j] = gram[j * k + i];
    find_steps(rule, k, costs, margins, gram, missing, steps);
    for (int64_t e = 0; e < difference.count; e++) {
        const int32_t* counts = difference.counts + e * k;
        double change = 0.0;
        for (int64_t j = 0; j < k; j++) change += steps[j] * counts[j];
        if (change != 0.0) weights.change(difference.rows[e], change, seen);
    }
    return true;
}

}  // namespace gpuparse
