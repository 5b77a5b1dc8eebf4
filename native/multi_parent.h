// Search for graphs with several heads per word by single changes (McDonald & Pereira 2006, section 3).
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
    View2<uint8_t> by_modifier = {};  // [m, h]: the same arcs, in rows of whole 8 bytes
    int64_t* stack = nullptr;         // (n + 1)
    uint8_t* seen = nullptr;          // (n + 1), and to the next multiple of 8

    bool allocate(View2<const F> arc_scores, const Siblings& siblings, int64_t n, View2<uint8_t> graph,
                  Arena& arena) {
        stack = arena.take<int64_t>(n + 1);
        const int64_t width = (n + 8) / 8 * 8;
        seen = arena.take<uint8_t>(width);
        by_modifier = {arena.take_zeros<uint8_t>((n + 1) * width), width};
        return found.allocate(arc_scores, siblings, n, graph, arena);
    }

    void set_arc(int64_t h, int64_t m, bool is_there) {
        found.arcs(h, m) = by_modifier(m, h) = is_there;
    }

    void make(const Change& change, bool is_made) {
        set_arc(change.head, change.m, is_made);
        if (change.replaced != ADDITION) set_arc(change.replaced, change.m, !is_made);
    }

    // True if m is the word or one of its ancestors.
    bool is_above(int64_t m, int64_t word) {
        if (m == word) return true;
        memset(seen, 0, (size_t)by_modifier.stride);
        seen[0] = 1;  // the root has no heads
        stack[0] = word;
        for (int64_t depth = 1; depth > 0;) {
            const uint8_t* heads = by_modifier.row(stack[--depth]);
            if (heads[m]) return true;
            for (int64_t first = 0; first <= found.n; first += 8) {  // 8 heads at a time
                uint64_t left, done;
                memcpy(&left, heads + first, 8);
                memcpy(&done, seen + first, 8);
                for (left &= ~done; left; left &= left - 1) {
                    const int64_t h = first + __builtin_ctzll(left) / 8;  // the lowest byte is the first
                    seen[h] = 1;
                    stack[depth++] = h;
                }
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
            const uint8_t* heads = by_modifier.row(m);
            int64_t n_heads = 0, old = 0;
            F removal = -(F)INFINITY;
            for (int64_t h = 0; h <= found.n; h++) {
                if (!heads[h]) continue;
                n_heads++;
                if (gains[h] > removal) {
                    removal = gains[h];
                    old = h;
                }
            }
            for (int64_t h = n_heads == 1 && !single_root ? 0 : 1; h <= found.n; h++) {
                const F addition = h > 0 ? gains[h] : -(F)INFINITY;
                const F replacement = removal + gains[h];
                const F gain = addition > replacement ? addition : replacement;
                // Few changes are tested for a cycle.
                if (gain > best && !heads[h] && !is_above(m, h)) {
                    best = gain;
                    chosen = {m, h, addition > replacement ? ADDITION : old};
                }
            }
        }
        return chosen;
    }

    // The sum of arc, sibling and end score of all arcs h -> m, one by one, by m and then by h.
    double sum_parts() const {
        double total = 0;
        for (int64_t m = 1; m <= found.n; m++) {
            const uint8_t* heads = by_modifier.row(m);
            for (int64_t h = 0; h <= found.n; h++) {
                if (!heads[h]) continue;
                const uint8_t* modifiers = found.arcs.row(h);
                const int64_t step = h > m ? 1 : -1;
                int64_t s = m + step;
                while (s != h && !modifiers[s]) s += step;
                total += found.arc_scores(h, m);
                total += found.siblings->score(h, m, s);
                int64_t o = m - step;
                while (1 <= o && o <= found.n && !modifiers[o]) o -= step;
                if (o < 1 || o > found.n) total += found.siblings->end(h, m);
            }
        }
        return total;
    }
};

// From a tree to a graph by single changes. heads: as `hill_climb_sentence` but left as it is;
// graph: [h, m], filled with the arcs. `gpuparse.inference.multi_parent` says what is searched for.
// Returns the score of the graph, as `sum_parts` adds it; where memory runs out, the arena has failed.
template <class Siblings>
inline double multi_parent_sentence(View2<const typename Siblings::F> arc_scores,
                                    const Siblings& siblings, int64_t n, bool single_root,
                                    int64_t max_changes, double min_gain, Arena& arena,
                                    const int64_t* heads, View2<uint8_t> graph) {
    ArenaMark mark(arena);
    MultiParentSearch<Siblings> search;
    if (!search.allocate(arc_scores, siblings, n, graph, arena)) return 0;
    search.single_root = single_root;
    search.min_gain = min_gain;
    search.found.start_from(heads);
    for (int64_t m = 1; m <= n; m++) search.by_modifier(m, heads[m]) = 1;
    double score = search.sum_parts();
    for (int64_t changes = 0; changes != max_changes && !is_interrupted(2 * n * n); changes++) {
        const auto change = search.find_best_change();
        if (change.m == 0) break;
        search.make(change, true);
        const double raised = search.sum_parts();
        if (!(raised > score + min_gain)) {
            // All that is left is rounding, which could go round in circles.
            search.make(change, false);
            break;
        }
        search.found.fill(change.head, change.head);
        if (change.replaced != search.ADDITION) search.found.fill(change.replaced, change.replaced);
        score = raised;
    }
    return score;
}

// The primary heads of one graph, `approximate.hill_climb.primary_heads`: the nearest, of two
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
