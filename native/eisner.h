// The best projective tree of a sentence, of the first order and with sibling parts.
#pragma once

#include "eisner_inside.h"

namespace gpuparse {

// Fill heads[1..n] from a chart of maxima. Returns whether there is a tree and memory.
template <class Chart>
inline bool find_best(Chart& chart, Arena& arena, int64_t* heads) {
    typedef typename Chart::F F;
    ItemStack stack;
    if (!chart.make(arena) || !stack.make(chart.n, arena)) return false;
    fill_maxima(chart);
    const F zero = Chart::Semiring::zero;
    F best = zero;
    chart.for_splits(chart.top(), [&](int64_t, F value) {
        best = value > best ? value : best;
        return false;
    });
    if (!(best > zero)) return false;
    walk(chart, stack, [&](const Item& item) { return best_split(chart, item); }, heads);
    return true;
}

// The best projective tree of n >= 1 words under arc_scores(h, m): fills heads[1..n]. Of equally good
// splits every item takes the smallest, a single root the smallest word.
// Returns whether there is a tree; if not, or if memory ran out, heads are left as they were.
template <class F>
inline bool eisner_sentence(View2<const F> arc_scores, int64_t n, bool single_root, Arena& arena,
                            int64_t* heads) {
    const ArenaMark mark(arena);
    const NoSiblings none;
    EisnerChart<MaxPlus<F>, NoSiblings> chart(arc_scores, none, n, single_root);
    return find_best(chart, arena, heads);
}

// The same with the sibling scores and ends of a provider; see sibling_provider.h.
template <class F, class Siblings>
inline bool eisner_sibling_sentence(View2<const F> arc_scores, const Siblings& siblings, int64_t n,
                                    bool single_root, Arena& arena, int64_t* heads) {
    const ArenaMark mark(arena);
    EisnerChart<MaxPlus<F>, Siblings> chart(arc_scores, siblings, n, single_root);
    return find_best(chart, arena, heads);
}

// The sum of a tree's arcs in the order of the words.
template <class F>
inline F tree_score(View2<const F> arc_scores, int64_t n, const int64_t* heads) {
    F total = 0;
    for (int64_t m = 1; m <= n; m++) total += arc_scores(heads[m], m);
    return total;
}

}  // namespace gpuparse
