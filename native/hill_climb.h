// Second-order search by single changes of head (McDonald & Pereira 2006, figure 4); gains are kept
// from change to change.
#pragma once

#include "arc_gains.h"
#include "tree_siblings.h"

namespace gpuparse {

// True if a word is m or below it.
inline bool is_below(const int64_t* heads, int64_t word, int64_t m) {
    while (word > 0 && word != m) word = heads[word];
    return word == m;
}

// The change (m, new head) with the highest gain; m = 0 if none is above `min_gain`.
template <class Siblings>
inline int64_t find_best_change(const ArcGains<Siblings>& found, bool single_root, double min_gain,
                                const int64_t* heads, int64_t* new_head) {
    using F = typename Siblings::F;
    F best = (F)min_gain;
    int64_t chosen = 0;
    for (int64_t m = 1; m <= found.n; m++) {
        const F* gains = found.gains.row(m);
        const F removal = gains[heads[m]];
        for (int64_t h = single_root ? 1 : 0; h <= found.n; h++) {
            // Few changes are tested for a cycle.
            if (removal + gains[h] > best && h != heads[m] && !is_below(heads, h, m)) {
                best = removal + gains[h];
                chosen = m;
                *new_head = h;
            }
        }
    }
    return chosen;
}

// Improve a tree by single changes, in place. heads: a tree without forbidden parts at 1..n, n >= 1,
// with a single modifier of the root if single_root; max_changes: -1 for no limit; each change raises
// the score by more than min_gain. `gpuparse.inference.hill_climb` says what is searched for.
// Returns the number of changes, or -1 where there is no memory.
template <class Siblings>
inline int64_t hill_climb_sentence(View2<const typename Siblings::F> arc_scores,
                                   const Siblings& siblings, int64_t n, bool single_root,
                                   int64_t max_changes, double min_gain, Arena& arena,
                                   int64_t* heads) {
    ArenaMark mark(arena);
    ArcGains<Siblings> found;
    const View2<uint8_t> graph = {arena.take<uint8_t>((n + 1) * (n + 1)), n + 1};
    if (!found.allocate(arc_scores, siblings, n, graph, arena)) return -1;
    found.start_from(heads);
    double score = 0;
    int64_t changes = 0;
    while (changes != max_changes) {
        if (is_interrupted(2 * n * n)) return -1;
        int64_t k = 0;
        const int64_t m = find_best_change(found, single_root, min_gain, heads, &k);
        if (m == 0) break;
        if (changes == 0) score = score_sibling_tree(arc_scores, siblings, n, heads);
        const int64_t h = heads[m];
        heads[m] = k;
        const double raised = score_sibling_tree(arc_scores, siblings, n, heads);
        if (!(raised > score + min_gain)) {
            // All that is left is rounding, which could go round in circles.
            heads[m] = h;
            break;
        }
        found.arcs(h, m) = 0;
        found.arcs(k, m) = 1;
        found.fill(h, h);
        found.fill(k, k);
        score = raised;
        changes++;
    }
    return changes;
}

// True if heads[1..n] are a tree, with a single modifier of the root if single_root. seen: (n + 1).
inline bool is_tree(const int64_t* heads, int64_t n, bool single_root, int64_t* seen) {
    int64_t n_roots = 0;
    for (int64_t m = 1; m <= n; m++) {
        if (heads[m] < 0 || heads[m] > n) return false;
        n_roots += heads[m] == 0;
        seen[m] = 0;
    }
    if (single_root && n_roots > 1) return false;
    for (int64_t m = 1; m <= n; m++) {  // up to the root, or to where an earlier word came by
        int64_t word = m;
        while (word > 0 && seen[word] == 0) {
            seen[word] = m;
            word = heads[word];
        }
        if (word > 0 && seen[word] == m) return false;
    }
    return true;
}

}  // namespace gpuparse
