// Search for graphs with several heads a word by single changes (McDonald & Pereira 2006, section 3).
#pragma once

#include <string.h>

#include "arc_gains.h"

namespace gpuparse {

template <class Siblings>
struct MultiParentSearch {
    using F = typename Siblings::F;
    static constexpr int64_t ADDITION = -1;  // in place of the head that is replaced

    struct Change {
        int64_t m, head, replaced;  // m = 0: no change
    };

    ArcGains<Siblings> found;
    bool single_root = false;
    double min_gain = 0.0;
    int64_t* stack = nullptr;  // (n + 1)
    uint8_t* seen = nullptr;   // (n + 1)

    bool allocate(View2<const F> arc_scores, const Siblings& siblings, int64_t n, uint8_t* graph,
                  Arena& arena) {
        stack = arena.take<int64_t>(n + 1);
        seen = arena.take<uint8_t>(n + 1);
        return found.allocate(arc_scores, siblings, n, graph, arena);
    }

    // Whether m is the word or one of its ancestors.
    bool is_above(int64_t m, int64_t word) {
        if (m == word) return true;
        memset(seen, 0, (size_t)(found.n + 1));
        stack[0] = word;
        for (int64_t depth = 1; depth > 0;) {
            const int64_t child = stack[--depth];
            for (int64_t h = 1; h <= found.n; h++) {
                if (!found.arcs(h, child) || seen[h]) continue;
                if (h == m) return true;
                seen[h] = 1;
                stack[depth++] = h;
            }
        }
        return false;
    }

    // The change with the highest gain above `min_gain`.
    Change find_best_change() {
        F best = (F)min_gain;
        Change chosen = {0, 0, ADDITION};
        for (int64_t m = 1; m <= found.n; m++) {
            const F* gains = found.gains.row(m);
            int64_t n_heads = 0, old = 0;
            F removal = -(F)INFINITY;
            for (int64_t h = 0; h <= found.n; h++) {
                if (!found.arcs(h, m)) continue;
                n_heads++;
                if (gains[h] > removal) {
                    removal = gains[h];
                    old = h;
                }
            }
            for (int64_t h = n_heads == 1 && !single_root ? 0 : 1; h <= found.n; h++) {
                if (found.arcs(h, m)) continue;
                F gain = removal + gains[h];
                int64_t replaced = old;
                if (h > 0 && gains[h] > gain) {
                    gain = gains[h];
                    replaced = ADDITION;
                }
                if (gain > best && !is_above(m, h)) {
                    best = gain;
                    chosen = {m, h, replaced};
                }
            }
        }
        return chosen;
    }
};

// The sum of arc, sibling and end score of all arcs h -> m, one by one, by m and then by h.
template <class Siblings>
inline typename Siblings::F sum_graph_parts(View2<const typename Siblings::F> arc_scores,
                                            const Siblings& siblings, int64_t n, View2<uint8_t> arcs) {
    typename Siblings::F total = 0;
    for (int64_t m = 1; m <= n; m++) {
        for (int64_t h = 0; h <= n; h++) {
            if (!arcs(h, m)) continue;
            const int64_t step = h > m ? 1 : -1;
            int64_t s = m + step;
            while (s != h && !arcs(h, s)) s += step;
            total += arc_scores(h, m);
            total += siblings.score(h, m, s);
            int64_t o = m - step;
            while (1 <= o && o <= n && !arcs(h, o)) o -= step;
            if (o < 1 || o > n) total += siblings.end(h, m);
        }
    }
    return total;
}

// From a tree to a graph by single changes. heads: as `hill_climb_sentence` but left as it is;
// graph: (n + 1, n + 1), [h, m], filled with the arcs. `gpuparse.inference.multi_parent` says what is
// searched for. Returns the number of changes, or -1 where there is no memory.
template <class Siblings>
inline int64_t multi_parent_sentence(View2<const typename Siblings::F> arc_scores,
                                     const Siblings& siblings, int64_t n, bool single_root,
                                     int64_t max_changes, double min_gain, Arena& arena,
                                     const int64_t* heads, uint8_t* graph) {
    using F = typename Siblings::F;
    ArenaMark mark(arena);
    MultiParentSearch<Siblings> search;
    if (!search.allocate(arc_scores, siblings, n, graph, arena)) return -1;
    search.single_root = single_root;
    search.min_gain = min_gain;
    ArcGains<Siblings>& found = search.found;
    const View2<uint8_t> arcs = found.arcs;
    found.start_from(heads);
    F score = 0;
    int64_t changes = 0;
    while (changes != max_changes) {
        const auto change = search.find_best_change();
        if (change.m == 0) break;
        if (changes == 0) score = sum_graph_parts(arc_scores, siblings, n, arcs);
        const bool replaces = change.replaced != search.ADDITION;
        arcs(change.head, change.m) = 1;
        if (replaces) arcs(change.replaced, change.m) = 0;
        const F raised = sum_graph_parts(arc_scores, siblings, n, arcs);
        if (!(raised > score + min_gain)) {
            // All that is left is rounding, which could go round in circles.
            arcs(change.head, change.m) = 0;
            if (replaces) arcs(change.replaced, change.m) = 1;
            break;
        }
        found.fill(change.head, change.head);
        if (replaces) found.fill(change.replaced, change.replaced);
        score = raised;
        changes++;
    }
    return changes;
}

// The primary heads of one graph, `approximate.multi_parent.primary_heads`: the nearest, of two
// as near the left one. graph: (n + 1, n + 1), [h, m]; fills heads[1..n].
inline void fill_primary_heads(int64_t n, const uint8_t* graph, int64_t* heads) {
    for (int64_t m = 1; m <= n; m++) {
        int64_t nearest = n + 1;
        for (int64_t h = 0; h <= n; h++) {
            const int64_t gap = h > m ? h - m : m - h;
            if (graph[h * (n + 1) + m] && gap < nearest) {
                nearest = gap;
                heads[m] = h;
            }
        }
    }
}

}  // namespace gpuparse
