// The best projective tree under scores of pairs of words: arcs, inner siblings, grandparents.
//
// The search is that of grand_sibling.h; parts of more words are sums of pairs, so that no array of
// them is made.
#pragma once

#include "grand_sibling.h"

namespace gpuparse {

// siblings: [s, m]; grandparents: [g, m], of modifiers m of words alone, not of the root.
template <class F>
struct PairItems {
    View2<const F> arcs, siblings, grandparents;
    const int32_t* modifiers;  // by arc
    F* rows;                   // as GrandSiblingItems has them
    F* grand;                  // a row of zeros, up to whole vectors

    F part(int64_t h, int64_t m, int64_t s) const { return arcs(h, m) + siblings(s, m); }

    void fill(ArcChart<F>& chart, int64_t a, int64_t position) {
        const Candidates& c = chart.c;
        const int64_t h = c.head[a], m = c.modifier[a], rank = c.rank[a], width = c.width(h);
        const bool is_right = h < m;
        F* sums = chart.sums;
        for (int64_t t = 0; t < rank; t++) {
            const int64_t b = chart.arcs[position + t];
            sums[t] = chart.best_inside(is_right, b, a) + part(h, m, c.modifier[b]);
        }
        for (int64_t q = 0; h > 0 && q < width; q++) grand[q] = grandparents(c.head[c.first[h] + q], m);
        if (h == 0) grand[0] = 0;
        const F none = chart.inside(a) + arcs(h, m);
        const F* first = rows + position * chart.row_size;
        F *own = rows + (position + rank) * chart.row_size,
          *outer = chart.outer + (position + rank) * chart.row_size;
        for (int64_t q = 0; q < width; q += Lanes<F>::count) {
            Vector<F> best = splat<F>(none);
            for (int64_t t = 0; t < rank; t++)
                best = larger<Vector<F>>(load<F>(first + t * chart.row_size + q) + splat<F>(sums[t]), best);
            best = best + load<F>(grand + q);
            store<F>(own + q, best);
            store<F>(outer + q, best);
        }
    }

    F of_root(int64_t a, F halves) const { return halves + arcs(0, modifiers[a]); }

    void follow(ArcChart<F>& chart, int64_t a, int64_t e, int64_t* heads) const {
        const Candidates& c = chart.c;
        const int64_t h = c.modifier[a], position = chart.position(h < e ? 0 : 1, h);
        follow_grand_siblings(chart, rows, a, e, heads, [&](int64_t b, int64_t t) {
            const int64_t m = c.modifier[b];
            return t == 0 ? arcs(h, m) : part(h, m, c.modifier[chart.arcs[position + t - 1]]);
        });
    }
};

// Fill heads[1..n] with the best projective tree; whether there is one (if not, heads are left as they
// were; without memory there is none, and the arena has failed). arcs: [h, m], -inf is forbidden, and no
// other score is; siblings, grandparents: as PairItems has them; n >= 1.
// Cost: O(n^4) time, O(n^3) memory.
template <class F>
inline bool best_pair_tree(View2<const F> arcs, View2<const F> siblings, View2<const F> grandparents,
                           int64_t n, bool single_root, Arena& arena, int64_t* heads) {
    ArenaMark mark(arena);
    const Candidates c = find_candidates(allowed_arcs(arcs, {}, n, arena), n, arena);
    if (arena.failed()) return false;
    ArcChart<F> chart{c};
    if (!chart.allocate(arena)) return false;
    F* rows = arena.take<F>(c.n_arcs * chart.row_size);
    F* grand = arena.take_zeros<F>(chart.row_size);
    if (arena.failed()) return false;
    PairItems<F> items{arcs, siblings, grandparents, c.modifier, rows, grand};
    return best_arc_chart_tree(chart, items, single_root, heads);
}

}  // namespace gpuparse
