// The score of a tree given by heads, and its siblings.
#pragma once
#include <stdint.h>

#include "views.h"

namespace gpuparse {

// The sum of a tree's arcs in the order of the words.
template <class F>
inline double tree_score(View2<const F> arc_scores, int64_t n, const int64_t* heads) {
    double total = 0;
    for (int64_t m = 1; m <= n; m++) total += arc_scores(heads[m], m);
    return total;
}

// The modifier of m's head just inside m; the head itself if there is none.
inline int64_t inner_sibling_of(const int64_t* heads, int64_t m) {
    const int64_t h = heads[m], step = h > m ? 1 : -1;
    int64_t s = m + step;
    while (s != h && heads[s] != h) s += step;
    return s;
}

// True if m's head has no modifier beyond m.
inline bool is_outermost_modifier(const int64_t* heads, int64_t n, int64_t m) {
    const int64_t step = heads[m] < m ? 1 : -1;
    int64_t o = m + step;
    while (1 <= o && o <= n && heads[o] != heads[m]) o += step;
    return !(1 <= o && o <= n);
}

// The sum over words 1, 2, ..., n of arc, sibling and end score, one by one from the left.
template <class F, class Siblings>
inline double score_sibling_tree(View2<const F> arc_scores, const Siblings& siblings, int64_t n,
                                 const int64_t* heads) {
    double total = 0;
    for (int64_t m = 1; m <= n; m++) {
        total += arc_scores(heads[m], m);
        total += siblings.score(heads[m], m, inner_sibling_of(heads, m));
        if (is_outermost_modifier(heads, n, m)) total += siblings.end(heads[m], m);
    }
    return total;
}

}  // namespace gpuparse
