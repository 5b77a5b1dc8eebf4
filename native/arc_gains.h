// The change that one arc more or less makes to the score of a graph with sibling parts.
//
// Only the chain of modifiers of that head, on that side, is different afterwards: where m comes
// between s and o, the part (h, s, o) gives way to (h, s, m) and (h, m, o). So the gains of all arcs
// of one head are found in one walk over the words, O(n).
#pragma once

#include <math.h>
#include <string.h>

#include "arena.h"
#include "sibling_provider.h"
#include "views.h"

namespace gpuparse {

template <class Siblings>
struct ArcGains {
    using F = typename Siblings::F;

    View2<const F> arc_scores = {};
    const Siblings* siblings = nullptr;
    int64_t n = 0;
    View2<F> gains = {};        // [m, h]: what the arc h -> m adds to the score if it is absent, what
                                // its removal adds if it is there; -inf on the diagonal
    View2<uint8_t> arcs = {};   // [h, m]: the arcs of the graph

    // Memory for one sentence but `graph`, [h, m], where the arcs are kept. False: there is none.
    bool allocate(View2<const F> scores, const Siblings& given, int64_t n_words, View2<uint8_t> graph,
                  Arena& arena) {
        arc_scores = scores;
        siblings = &given;
        n = n_words;
        arcs = graph;
        const int64_t nodes = n + 1;
        gains = {arena.take<F>(nodes * nodes), nodes};
        near = {arena.take<int64_t>(nodes * nodes), nodes};
        next = {arena.take<int64_t>(nodes * nodes), nodes};
        at = {arena.take<F>(nodes * nodes), nodes};
        beyond = {arena.take<F>(nodes * nodes), nodes};
        return !arena.failed();
    }

    // The arcs of a tree, and the gains of all arcs.
    void start_from(const int64_t* heads) {
        for (int64_t h = 0; h <= n; h++) memset(arcs.row(h), 0, (size_t)(n + 1));
        for (int64_t m = 1; m <= n; m++) arcs(heads[m], m) = 1;
        Pace pace;
        for (int64_t h = 0; h <= n && !pace.is_interrupted(10 * n); h++) fill(h, h);
    }

    // gains(m, h) of the heads h = first..last and all words m.
    void fill(int64_t first, int64_t last) {
        for (int64_t h = first; h <= last; h++) fill_neighbours(h);
        siblings->fill_sibling_rows(n, first, last, near, next, at, beyond);
        for (int64_t h = first; h <= last; h++) {
            for (int64_t m = 1; m <= n; m++) {
                if (m == h) {
                    gains(h, h) = -(F)INFINITY;
                    continue;
                }
                const int64_t s = near(h, m), o = next(h, m);
                const F end = s != h ? siblings->end(h, s) : (F)0;
                F gain;
                if (arcs(h, m)) {
                    gain = -arc_scores(h, m) - at(h, m);
                    gain += o >= 0 ? siblings->score(h, o, s) - beyond(h, m)
                                   : end - siblings->end(h, m);
                } else {
                    gain = arc_scores(h, m) + at(h, m);
                    gain += o >= 0 ? beyond(h, m) - at(h, o) : siblings->end(h, m) - end;
                }
                gains(m, h) = gain;
            }
        }
    }

private:
    View2<int64_t> near = {}, next = {};  // [h, m]: the modifier of h just inside m, or h; just
                                          // beyond m, or -1
    View2<F> at = {}, beyond = {};        // sibling scores of m, and of the modifier beyond

    void fill_neighbours(int64_t h) {
        int64_t s = h;
        for (int64_t m = h + 1; m <= n; m++) {
            near(h, m) = s;
            if (arcs(h, m)) s = m;
        }
        s = h;
        for (int64_t m = h - 1; m > 0; m--) {
            near(h, m) = s;
            if (arcs(h, m)) s = m;
        }
        int64_t o = -1;
        for (int64_t m = n; m > h; m--) {
            next(h, m) = o;
            if (arcs(h, m)) o = m;
        }
        o = -1;
        for (int64_t m = 1; m < h; m++) {
            next(h, m) = o;
            if (arcs(h, m)) o = m;
        }
    }
};

}  // namespace gpuparse
