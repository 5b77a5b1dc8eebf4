// The best projective tree of a sentence, of the first order and with sibling parts.
#pragma once

#include "eisner_blocks.h"

namespace gpuparse {

// Words up to which charts of the first order are filled by diagonal. Trees are the same.
constexpr int64_t MOST_BY_DIAGONAL = 160;

// The best projective tree of n >= 1 words under arc_scores(h, m) and the sibling scores and ends of a
// provider, or NoSiblings: fills heads[1..n]. Of equally good splits every item takes the smallest, a
// single root the smallest word.
// Returns whether there is a tree; if not, or if memory ran out, heads are left as they were.
template <class F, class Siblings>
inline bool eisner_sentence(View2<const F> arc_scores, const Siblings& siblings, int64_t n,
                            bool single_root, Arena& arena, int64_t* heads) {
    if constexpr (EisnerChart<MaxPlus<F>, Siblings>::BY_DIAGONAL)
        if (n > MOST_BY_DIAGONAL)
            return eisner_sentence(arc_scores, NoSiblingsByRow{}, n, single_root, arena, heads);
    const ArenaMark mark(arena);
    EisnerChart<MaxPlus<F>, Siblings> chart(arc_scores, siblings, n, single_root);
    ItemStack stack;
    if (!chart.make(arena) || !stack.make(n, arena)) return false;
    if constexpr (EisnerChart<MaxPlus<F>, Siblings>::BY_BLOCK)
        fill_by_block(chart);
    else
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
