// Third-order Eisner with grand-sibling parts: Model 1 of Koo & Collins 2010.
#pragma once

#include "arc_chart.h"

namespace gpuparse {

// Follow the modifiers of h, the modifier of arc a, from the outermost one inwards.
//
// rows: I(h,m) under every head of h, a row for each arc, in the order of `arcs`. part(b, t): the score
// of arc b with no inner sibling (t = 0), or with the modifier of rank t - 1.
template <class F, class Part>
inline void follow_grand_siblings(ArcChart<F>& chart, const F* rows, int64_t a, int64_t e,
                                  int64_t* heads, Part part) {
    const Candidates& c = chart.c;
    const int64_t h = c.modifier[a], q = a - c.first[h];
    const bool is_right = h < e;
    const int64_t position = chart.position(is_right ? 0 : 1, h);
    int64_t t = chart.outermost_modifier(a, e);
    chart.stack.push(chart.arcs[position + t], e);
    while (true) {
        const int64_t b = chart.arcs[position + t];
        heads[c.modifier[b]] = h;
        F best = chart.inside(b) + part(b, 0);
        int64_t sibling = -1;
        for (int64_t k = 0; k < t; k++) {
            const int64_t u = is_right ? k : t - 1 - k;
            const F sum = chart.best_inside(is_right, chart.arcs[position + u], b) + part(b, u + 1);
            const F value = rows[(position + u) * chart.row_size + q] + sum;
            if (value > best) {
                best = value;
                sibling = u;
            }
        }
        if (sibling < 0) return chart.push_inside(b);
        chart.push_between(b, chart.arcs[position + sibling]);
        t = sibling;
    }
}

// I(h,m) under every head of h: a row for each arc, in the order of `arcs`.
template <class F>
struct GrandSiblingItems {
    Blocks<F> blocks;
    const F* ends;
    F* rows;

    void fill(ArcChart<F>& chart, int64_t a, int64_t position) {
        const Candidates& c = chart.c;
        const int64_t h = c.head[a], rank = c.rank[a], width = c.width(h), row_size = chart.row_size;
        const bool is_right = h < c.modifier[a];
        F* sums = chart.sums;
        for (int64_t t = 0; t < rank; t++)
            sums[t] = chart.best_inside(is_right, chart.arcs[position + t], a);
        // I(h,m) = C(m,h+1) + part(none)
        const F* none = blocks.data + blocks.start[a];
        const F inside = chart.inside(a);
        F* own = rows + (position + rank) * row_size;
        const F* first = rows + position * row_size;
        // I(h,m) = max_s I(h,s) + (S(s,m) + part(s))
        const F* parts = none + width;
        F* outer = chart.outer + (position + rank) * row_size;
        for (int64_t q = 0; q < width; q += Lanes<F>::count) {
            Vector<F> best = splat<F>(inside) + load<F>(none + q);
            for (int64_t t = 0; t < rank; t++) {
                const Vector<F> part = splat<F>(sums[t]) + load<F>(parts + t * width + q);
                best = larger<Vector<F>>(load<F>(first + t * row_size + q) + part, best);
            }
            store<F>(own + q, best);
            store<F>(outer + q, best + splat<F>(ends[a]));
        }
    }

    F of_root(int64_t a, F halves) const { return (halves + blocks.data[blocks.start[a]]) + ends[a]; }

    void follow(ArcChart<F>& chart, int64_t a, int64_t e, int64_t* heads) const {
        const Candidates& c = chart.c;
        const int64_t h = c.modifier[a], q = a - c.first[h], width = c.width(h);
        follow_grand_siblings(chart, rows, a, e, heads, [&](int64_t b, int64_t t) {
            return blocks.data[blocks.start[b] + t * width + q];
        });
    }
};

// Fill heads[1..n] with the best projective tree over the candidates; whether there is one (if not,
// heads are left as they were; without memory there is none, and the arena has failed).
// blocks: as grand_sibling_starts() says, with a vector after them, each number with all scores that belong to the part; ends
// (n_arcs,): of the modifier of each arc being the outermost one of its head on that side; -inf is
// forbidden. n >= 1.
// Cost: O(n^4) without pruning, O(n k^3 + n^2 k^2) with k heads per word and as many modifiers.
template <class F>
inline bool eisner_grand_sibling_sentence(const Candidates& candidates, Blocks<F> blocks, const F* ends,
                                          bool single_root, Arena& arena, int64_t* heads) {
    ArenaMark mark(arena);
    ArcChart<F> chart{candidates};
    if (!chart.allocate(arena)) return false;
    F* rows = arena.take<F>(candidates.n_arcs * chart.row_size);
    if (!rows) return false;
    GrandSiblingItems<F> items{blocks, ends, rows};
    return best_arc_chart_tree(chart, items, single_root, heads);
}

}  // namespace gpuparse
