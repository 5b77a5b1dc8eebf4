// Labels of finished trees and graphs: for every arc, the label with the highest score.
//
// A label template sees one arc and the words around it in the tree; its key is a hash of all values
// that it reads, and finds a line of weights, one weight a label.
#pragma once
#include <math.h>

#include "api/scoring.h"
#include "arc_scores.h"
#include "arena.h"

namespace gpuparse {

enum LabelRole : int64_t {
    OF_HEAD, OF_MODIFIER, OF_GRANDPARENT, OF_BEFORE, OF_AFTER, OF_LEFTMOST, OF_RIGHTMOST, OF_OTHER,
    LABEL_ROLES
};
constexpr int64_t NO_NODE = -1;  // node of a role that a tree does not fill
constexpr int32_t NO_NODE_VALUE = 3;  // value read there: that of the edge after the last word

// Nodes of all roles for every word of a tree. heads: by node, heads[1..n].
struct LabelPositions {
    int64_t* nodes;  // (n + 1, LABEL_ROLES)

    int64_t* of(int64_t m) const { return nodes + m * LABEL_ROLES; }

    // False: no memory.
    bool take(int64_t n, Arena& arena) {
        nodes = arena.take<int64_t>((n + 1) * LABEL_ROLES);
        return nodes != nullptr;
    }

    void fill(const int64_t* heads, int64_t n) {
        for (int64_t at = 0; at < (n + 1) * LABEL_ROLES; ++at) nodes[at] = NO_NODE;
        for (int64_t m = 1; m <= n; ++m) {
            const int64_t h = heads[m];
            if (h < 0 || h > n) continue;  // no head: all nodes are missing
            of(m)[OF_HEAD] = h;
            of(m)[OF_MODIFIER] = m;
            if (h > 0 && heads[h] >= 0 && heads[h] <= n) of(m)[OF_GRANDPARENT] = heads[h];
            // Going right, the rightmost modifier of h so far is the one just before m.
            const int64_t previous = of(h)[OF_RIGHTMOST];
            if (previous == NO_NODE) {
                of(h)[OF_LEFTMOST] = m;
            } else {
                of(m)[OF_BEFORE] = previous;
                of(previous)[OF_AFTER] = m;
            }
            of(h)[OF_RIGHTMOST] = m;
        }
    }

    // Make row m, as `fill` or another arc into m left it, that of the arc h -> m. heads: the tree of
    // primary heads. A word with one head keeps its row: its label is that of the tree.
    void turn_to_arc(const int64_t* heads, int64_t n, int64_t h, int64_t m) {
        int64_t* row = of(m);
        if (row[OF_HEAD] == h) return;
        row[OF_HEAD] = h;
        row[OF_GRANDPARENT] = h > 0 ? heads[h] : NO_NODE;
        row[OF_OTHER] = heads[m] != h ? heads[m] : NO_NODE;
        int64_t before = m - 1, after = m + 1;
        while (before > 0 && heads[before] != h) --before;
        while (after <= n && heads[after] != h) ++after;
        row[OF_BEFORE] = before > 0 ? before : NO_NODE;
        row[OF_AFTER] = after <= n ? after : NO_NODE;
    }
};

// Fill lines[f] with the first weight of the line of each feature of an arc, -1 for one that does not
// fire. positions: of the arc's modifier; width: labels.
inline void fill_label_lines(const i32_2& values, int64_t start, const LabelPlan& plan,
                             int64_t n_lines, int64_t width, const int64_t* positions,
                             int64_t* lines) {
    const int64_t h = positions[OF_HEAD], m = positions[OF_MODIFIER];
    int64_t at = (h < m ? m - h : h - m) - 1;
    if (at < 0) at = 0;
    if (at > plan.buckets.n0 - 1) at = plan.buckets.n0 - 1;
    const int64_t bucket = plan.buckets.data[at];
    for (int64_t f = 0; f < plan.direction.n0; ++f) {
        uint32_t key = 0;
        bool on = true;
        for (int64_t a = plan.start.data[f]; a < plan.start.data[f + 1]; ++a) {
            const int64_t node = positions[plan.role.data[a]];
            int32_t value = NO_NODE_VALUE;
            if (node != NO_NODE)
                value = values.data[plan.row.data[a] * values.n1 + start + node +
                                    plan.offset.data[a]];
            on &= value != 0;
            key = fold(key, (uint32_t)value);
        }
        if (plan.direction.data[f]) key = fold(key, h < m);
        if (plan.distance.data[f]) key = fold(key, (uint32_t)bucket);
        key = mix(key, (uint32_t)(f + 1));
        lines[f] = on ? (int64_t)(((uint64_t)key * (uint64_t)n_lines) >> 32) * width : -1;
    }
}

// sums[l] = the sum of the weights of label l over the lines.
template<class W>
void sum_label_lines(const W* weights, const int64_t* lines, int64_t n_lines, int64_t width,
                     Sum<W>* __restrict sums) {
    for (int64_t label = 0; label < width; ++label) sums[label] = 0;
    for (int64_t f = 0; f < n_lines; ++f) {
        if (lines[f] < 0) continue;
        const W* __restrict line = weights + lines[f];
        for (int64_t label = 0; label < width; ++label) sums[label] += line[label];
    }
}

// The first of the labels with the highest sum.
template<class S>
int64_t first_best(const S* sums, int64_t width) {
    int64_t best = 0;
    for (int64_t label = 1; label < width; ++label)
        if (sums[label] > sums[best]) best = label;
    return best;
}

// The permitted label with the highest sum, the first of equals, `left_out` not counted; -1 for none.
template<class S>
int64_t best_permitted(const S* sums, int64_t width, const uint8_t* permitted, int64_t left_out) {
    int64_t best = -1;
    for (int64_t label = 0; label < width; ++label)
        if (permitted[label] && label != left_out && (best < 0 || sums[label] > sums[best]))
            best = label;
    return best;
}

// log of the sum over labels of exp(scale * (sums - top)), top the largest sum. Smaller terms than
// exp(-40) are lost among the rounding errors of a sum of at least 1.
template<class S>
double log_excess(const S* sums, int64_t width, double top, double scale) {
    double total = 0.0;
    for (int64_t label = 0; label < width; ++label) {
        const double below = scale * ((double)sums[label] - top);
        if (below > -40.0) total += exp(below);
    }
    return log(total);
}

// The probability of one label of an arc.
template<class S>
double label_probability(const S* sums, int64_t width, int64_t label, double scale) {
    double top = sums[0];
    for (int64_t other = 1; other < width; ++other)
        if ((double)sums[other] > top) top = sums[other];
    return exp(scale * ((double)sums[label] - top) - log_excess(sums, width, top, scale));
}

}  // namespace gpuparse
