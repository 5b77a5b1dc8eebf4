// Third-order Eisner with tri-sibling parts: Model 2 of Koo & Collins 2010.
//
// An item of the arc (h, m) knows the inner sibling of m in place of the head of h, which is read only
// where m turns out to be the outermost modifier: items are a row for each arc, over inner siblings by
// rank, no sibling first.
#pragma once

#include "arc_chart.h"
#include "tree_rows.h"

namespace gpuparse {

template <class F>
struct TriSiblingItems {
    Blocks<F> blocks;     // tri-sibling parts
    Blocks<F> outermost;  // grand-sibling parts of the outermost modifiers
    const F* ends;
    const int64_t* own_start;  // where the items of each arc begin
    F* items;

    void fill(ArcChart<F>& chart, int64_t a, int64_t position) {
        const Candidates& c = chart.c;
        const int64_t h = c.head[a], rank = c.rank[a], width = c.width(h);
        const bool is_right = h < c.modifier[a];
        F* own = items + own_start[a];
        // J(h,m,none) = C(m,h+1) + part(none)
        int64_t block = blocks.start[a];
        own[0] = chart.inside(a) + blocks.data[block];
        block++;
        // J(h,m,s) = max_t (J(h,s,t) + part(s,t)) + S(s,m)
        for (int64_t t = 0; t < rank; t++) {
            const int64_t b = chart.arcs[position + t];
            own[t + 1] = largest_sum(items + own_start[b], blocks.data + block, t + 1) +
                         chart.best_inside(is_right, b, a);
            block += t + 1;
        }
        // I(h,m) = max_s J(h,m,s) + outermost(s), then the end
        F* outer = chart.outer + (position + rank) * chart.row_size;
        const F* last = outermost.data + outermost.start[a];
        for (int64_t q = 0; q < width; q += Lanes<F>::count)
            store<F>(outer + q, best_row(own, last + q, width, rank + 1) + splat<F>(ends[a]));
    }

    F of_root(int64_t a, F halves) const {
        return ((halves + blocks.data[blocks.start[a]]) + outermost.data[outermost.start[a]]) + ends[a];
    }

    // The first best inner sibling, its rank + 1, 0 for none: the largest of[j] + parts[j * width].
    static int64_t best_sibling(const F* of, const F* parts, int64_t width, int64_t t, bool is_right) {
        F best = of[0] + parts[0];
        int64_t sibling = 0;
        for (int64_t k = 0; k < t; k++) {
            const int64_t j = is_right ? k + 1 : t - k;
            const F value = of[j] + parts[j * width];
            if (value > best) {
                best = value;
                sibling = j;
            }
        }
        return sibling;
    }

    void follow(ArcChart<F>& chart, int64_t a, int64_t e, int64_t* heads) const {
        const Candidates& c = chart.c;
        const int64_t h = c.modifier[a], q = a - c.first[h];
        const bool is_right = h < e;
        const int64_t position = chart.position(is_right ? 0 : 1, h);
        int64_t t = chart.outermost_modifier(a, e);
        int64_t b = chart.arcs[position + t];
        chart.stack.push(b, e);
        int64_t sibling = best_sibling(items + own_start[b], outermost.data + outermost.start[b] + q,
                                       c.width(h), t, is_right);
        while (sibling > 0) {
            const int64_t inner = chart.arcs[position + sibling - 1];
            heads[c.modifier[b]] = h;
            chart.push_between(b, inner);
            t = sibling - 1;
            const F* parts = blocks.data + blocks.start[b] + 1 + t * (t + 1) / 2;
            sibling = best_sibling(items + own_start[inner], parts, 1, t, is_right);
            b = inner;
        }
        heads[c.modifier[b]] = h;
        chart.push_inside(b);
    }
};

// Fill heads[1..n] with the best projective tree over the candidates; whether there is one, as
// eisner_grand_sibling_sentence() does.
// blocks: as tri_sibling_starts() says, with a vector after them, each number with the arc and all else that belongs to it;
// outermost: as grand_sibling_starts() says, read where the modifier is the outermost one of its head
// on that side; ends (n_arcs,): of the same modifier. n >= 1.
// Cost: as eisner_grand_sibling_sentence().
template <class F>
inline bool eisner_tri_sibling_sentence(const Candidates& candidates, Blocks<F> blocks,
                                        Blocks<F> outermost, const F* ends, bool single_root,
                                        Arena& arena, int64_t* heads) {
    ArenaMark mark(arena);
    ArcChart<F> chart{candidates};
    if (!chart.allocate(arena)) return false;
    const int64_t n_arcs = candidates.n_arcs;
    const int64_t* own_start = sibling_starts(candidates, arena);
    F* own = own_start ? arena.take<F>(own_start[n_arcs] + Lanes<F>::count) : nullptr;
    if (!own) return false;
    TriSiblingItems<F> items{blocks, outermost, ends, own_start, own};
    return best_arc_chart_tree(chart, items, single_root, heads);
}

// The sum over words 1, 2, ..., n of the part of a word, and if it is outermost, of that score and end.
template <class F>
inline F tri_sibling_tree_score(const TreeRows& tree, Blocks<F> blocks, Blocks<F> outermost,
                                const F* ends, const int64_t* heads) {
    const Candidates& c = tree.c;
    tree.fill(heads);
    F total = 0;
    for (int64_t m = 1; m <= c.n; m++) {
        const int64_t h = heads[m], a = c.number(h, m), row = tree.row[m];
        const int64_t s = row > 0 ? c.inner_siblings(h, m)[row - 1] : h;
        total += blocks.data[blocks.start[a] + (row > 0 ? 1 + row * (row - 1) / 2 + tree.row[s] : 0)];
        if (!tree.is_outermost(h, m)) continue;
        const int64_t q = h > 0 ? c.number(heads[h], h) - c.first[h] : 0;
        total += outermost.data[outermost.start[a] + row * c.width(h) + q];
        total += ends[a];
    }
    return total;
}

}  // namespace gpuparse
