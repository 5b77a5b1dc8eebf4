// The chart of projective third-order searches, indexed by candidate arcs.
//
// A half of a word h knows the head of h: `right` holds C_R and `left` C_L, for every arc (g, h) a row
// over ends e, the best half of h that reaches to e while g is the head of h. `outer` holds I + end:
// for every arc (h, m) a row over the candidate heads of h, the best item of that arc where m is the
// outermost modifier, in the order of `arcs`. A head of h that stands between h and e is computed like
// any other and never used: its row is read only where the span stops short of that head.
//
// Starts of spans run from the last word to the first: when start i begins, everything about later
// starts is known. There are no back-pointers: the back-trace finds the first best choice again.
#pragma once

#include <math.h>
#include <stdint.h>

#include "arena.h"
#include "candidates.h"
#include "row_maxima.h"

namespace gpuparse {

// Arcs that the back-trace has still to follow: the half under `arc` that reaches to `end`.
struct HalfStack {
    int64_t* pairs = nullptr;
    int64_t depth = 0;

    void push(int64_t arc, int64_t end) {
        pairs[2 * depth] = arc;
        pairs[2 * depth + 1] = end;
        depth++;
    }
    void pop(int64_t* arc, int64_t* end) {
        depth--;
        *arc = pairs[2 * depth];
        *end = pairs[2 * depth + 1];
    }
};

template <class F>
struct ArcChart {
    const Candidates& c;
    int64_t n = 0;
    int64_t stride = 0;       // n + 1, from row to row of right and left
    int64_t row_size = 0;     // from row to row of outer: whole vectors for the most candidate heads
    int64_t n_right = 0;      // arcs to the right: in `arcs`, those to the left come after them
    int64_t* arcs = nullptr;  // by head, the nearest modifier first; to the right, then to the left
    F *right = nullptr, *left = nullptr, *outer = nullptr;
    F *row = nullptr, *sums = nullptr;  // scratch for one row, and for one number of each word
    HalfStack stack = {};

    // Where the arcs of h on side d begin in `arcs`.
    int64_t position(int64_t d, int64_t h) const { return (d ? n_right : 0) + c.side[d][h]; }

    // False: no memory.
    bool allocate(Arena& arena) {
        n = c.n;
        stride = n + 1;
        n_right = c.side[0][n + 1];
        int64_t most = 1;
        for (int64_t h = 1; h <= n; h++) most = c.width(h) > most ? c.width(h) : most;
        row_size = (most + Lanes<F>::count - 1) / Lanes<F>::count * Lanes<F>::count;
        arcs = arena.take<int64_t>(c.n_arcs);
        right = arena.take<F>(c.n_arcs * stride + Lanes<F>::count);
        left = arena.take<F>(c.n_arcs * stride + Lanes<F>::count);
        outer = arena.take<F>(c.n_arcs * row_size);
        row = arena.take<F>(row_size);
        sums = arena.take<F>(stride);
        stack.pairs = arena.take<int64_t>(2 * (2 * n + 4));
        if (arena.failed()) return false;
        for (int64_t d = 0; d < 2; d++)
            for (int64_t h = 0; h <= n; h++)
                for (int64_t k = c.side[d][h]; k < c.side[d][h + 1]; k++)
                    arcs[(d ? n_right : 0) + k] = c.number(h, c.modifiers[d][k]);
        for (int64_t a = 0; a < c.n_arcs; a++)
            right[a * stride + c.modifier[a]] = left[a * stride + c.modifier[a]] = 0;
        return true;
    }

    // The half of the arc a = (h, m) that faces h: C(m, h + 1) or C(m, h - 1).
    F inside(int64_t a) const {
        const int64_t h = c.head[a], m = c.modifier[a];
        return h < m ? left[a * stride + h + 1] : right[a * stride + h - 1];
    }

    // S(i,j) = max_{i<=r<j} C_R(i,r) + C_L(r+1,j), the modifiers of the arcs b, i, and a, j, i < j.
    F best_between(int64_t b, int64_t a) const {
        const int64_t i = c.modifier[b], j = c.modifier[a];
        return largest_sum(right + b * stride + i, left + a * stride + i + 1, j - i);
    }

    // The same for arcs to either side: b has the modifier inside that of a.
    F best_inside(bool is_right, int64_t b, int64_t a) const {
        return is_right ? best_between(b, a) : best_between(a, b);
    }

    // C(h,e) = max_m (I(h,m) + end(h,m)) + C(m,e) under every head of h, over the first `count`
    // modifiers of h from `position` on.
    void fill_halves(F* halves, int64_t h, int64_t e, int64_t position, int64_t count) {
        for (int64_t t = 0; t < count; t++) sums[t] = halves[arcs[position + t] * stride + e];
        const int64_t width = c.width(h);
        const F* items = outer + position * row_size;
        for (int64_t q = 0; q < width; q += Lanes<F>::count)
            store<F>(row + q, best_row(sums, items + q, row_size, count));
        F* cell = halves + c.first[h] * stride + e;
        for (int64_t q = 0; q < width; q++) cell[q * stride] = row[q];
    }

    // All right halves of i; of the root only the half of the whole sentence.
    void fill_right_halves(int64_t i) {
        const int64_t begin = c.side[0][i], stop = c.side[0][i + 1];
        int64_t count = 0;
        for (int64_t e = i > 0 ? i + 1 : n; e <= n; e++) {
            while (begin + count < stop && c.modifiers[0][begin + count] <= e) count++;
            fill_halves(right, i, e, begin, count);
        }
    }

    // All left halves that end in i.
    void fill_left_halves(int64_t i) {
        for (int64_t h = i + 1; h <= n; h++) {
            const int64_t begin = c.side[1][h];
            int64_t count = c.side[1][h + 1] - begin;
            while (count > 0 && c.modifiers[1][begin + count - 1] < i) count--;
            fill_halves(left, h, i, n_right + begin, count);
        }
    }

    // The rank of the smallest best m of C(h,e) under the arc a = (g, h).
    int64_t outermost_modifier(int64_t a, int64_t e) const {
        const int64_t h = c.modifier[a], q = a - c.first[h], d = h < e ? 0 : 1;
        const int64_t begin = position(d, h), count = c.side[d][h + 1] - c.side[d][h];
        const F* halves = d == 0 ? right : left;
        F best = -(F)INFINITY;
        int64_t chosen = 0;
        for (int64_t k = 0; k < count; k++) {
            const int64_t t = d == 0 ? k : count - 1 - k, b = arcs[begin + t];
            if (d == 0 ? c.modifier[b] > e : c.modifier[b] < e) continue;
            const F value = outer[(begin + t) * row_size + q] + halves[b * stride + e];
            if (value > best) {
                best = value;
                chosen = t;
            }
        }
        return chosen;
    }

    // Note the two halves between the modifiers of the arcs b and a; the smallest best split.
    void push_between(int64_t b, int64_t a) {
        if (c.modifier[b] > c.modifier[a]) {
            const int64_t other = a;
            a = b;
            b = other;
        }
        const int64_t i = c.modifier[b], j = c.modifier[a];
        F best = -(F)INFINITY;
        int64_t split = i;
        for (int64_t r = i; r < j; r++) {
            const F value = right[b * stride + r] + left[a * stride + r + 1];
            if (value > best) {
                best = value;
                split = r;
            }
        }
        stack.push(b, split);
        stack.push(a, split + 1);
    }

    // Note the half of the arc a that faces its head.
    void push_inside(int64_t a) {
        const int64_t h = c.head[a];
        stack.push(a, h < c.modifier[a] ? h + 1 : h - 1);
    }
};

// The best projective tree under items of one kind of part. Items has:
//   fill(chart, a, position): the items of the arc a, the arcs of whose head and side begin there;
//   of_root(a): what the only arc of a root with one modifier scores besides its two halves, added
//     to `halves` in the order of the chart;
//   follow(chart, a, e, heads): the heads of all modifiers in the half under a that reaches to e.
// Fills heads[1..n] and returns whether there is a tree; if not, heads are left as they were.
template <class F, class Items>
inline bool best_arc_chart_tree(ArcChart<F>& chart, Items& items, bool single_root, int64_t* heads) {
    const Candidates& c = chart.c;
    const int64_t n = chart.n;
    for (int64_t i = n; i >= (single_root ? 1 : 0); i--) {
        if (is_interrupted((n - i) * n * n / 4)) return false;
        for (int64_t k = c.side[0][i]; k < c.side[0][i + 1]; k++)
            items.fill(chart, chart.arcs[k], chart.position(0, i));
        chart.fill_right_halves(i);
        if (i == 0) break;
        for (int64_t a = c.first[i]; a < c.first[i + 1]; a++)
            if (c.head[a] > i) items.fill(chart, a, chart.position(1, c.head[a]));
        chart.fill_left_halves(i);
    }
    if (single_root) {
        // max over m of (C_L(1,m) + C_R(m,n)) + the parts of 0 -> m
        F best = -(F)INFINITY;
        int64_t root = 0;
        for (int64_t k = 0; k < c.side[0][1]; k++) {
            const int64_t a = chart.arcs[k];
            const F halves = chart.left[a * chart.stride + 1] + chart.right[a * chart.stride + n];
            const F value = items.of_root(a, halves);
            if (value > best) {
                best = value;
                root = a;
            }
        }
        if (root == 0) return false;
        heads[c.modifier[root]] = 0;
        chart.stack.push(root, 1);
        chart.stack.push(root, n);
    } else {
        if (chart.right[n] == -(F)INFINITY) return false;
        chart.stack.push(0, n);
    }
    while (chart.stack.depth > 0) {
        int64_t a, e;
        chart.stack.pop(&a, &e);
        if (e != c.modifier[a]) items.follow(chart, a, e, heads);
    }
    return true;
}

}  // namespace gpuparse
