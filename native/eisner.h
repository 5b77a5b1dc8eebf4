// The best projective tree of a sentence, of the first order and with sibling parts.
#pragma once

#include "eisner_inside.h"

namespace gpuparse {

// The best projective tree of n >= 1 words under arc_scores(h, m) and the sibling scores and ends of a
// provider, or NoSiblings: fills heads[1..n]. Of equally good splits every item takes the smallest, a
// single root the smallest word.
// Returns whether there is a tree; if not, or if memory ran out, heads are left as they were.
template <class F, class Siblings>
inline bool eisner_sentence(View2<const F> arc_scores, const Siblings& siblings, int64_t n,
                            bool single_root, Arena& arena, int64_t* heads) {
    const ArenaMark mark(arena);
    EisnerChart<MaxPlus<F>, Siblings> chart(arc_scores, siblings, n, single_root);
    ItemStack stack;
    if (!chart.make(arena) || !stack.make(n, arena)) return false;
    fill_maxima(chart);
    bool found = false;
    chart.for_splits(chart.top(), [&](int64_t, F value) {
        found |= value > MaxPlus<F>::zero;
        return found;
    });
    if (found) walk(chart, stack, [&](const Item& item) { return best_split(chart, item); }, heads);
    return found;
}

}  // namespace gpuparse
