// The best projective tree of a sentence, of the first order and with sibling parts.
#pragma once

#include "eisner_blocks.h"

namespace gpuparse {

// Words up to which charts of the first order are filled by diagonal. Trees are the same.
constexpr int64_t MOST_BY_DIAGONAL = 160;

// The best tree of a chart whose inside values fill(chart) computes; as `eisner_sentence`.
template <class Chart, class Fill>
inline bool best_tree(Chart& chart, Fill fill, Arena& arena, int64_t* heads) {
    typedef typename Chart::F F;
    ItemStack stack;
    if (!chart.make(arena) || !stack.make(chart.n, arena)) return false;
    fill(chart);
    if (arena.failed()) return false;
    bool found = false;
    chart.for_splits(chart.top(), [&](int64_t, F value) {
        found |= value > MaxPlus<F>::zero;
        return found;
    });
    if (found) walk(chart, stack, [&](const Item& item) { return best_split(chart, item); }, heads);
    return found;
}

// Not inline, since the code for short sentences is slower beside it.
template <class F>
__attribute__((noinline)) bool eisner_long_sentence(View2<const F> arc_scores, int64_t n,
                                                    bool single_root, Arena& arena, int64_t* heads) {
    const ArenaMark mark(arena);
    const NoSiblingsByRow none;
    EisnerChart<MaxPlus<F>, NoSiblingsByRow> chart(arc_scores, none, n, single_root);
    return best_tree(chart, [](const auto& of) { fill_by_block(of); }, arena, heads);
}

// The best projective tree of n >= 1 words under arc_scores(h, m) and the sibling scores and ends of a
// provider, or NoSiblings: fills heads[1..n]. Of equally good splits every item takes the smallest, a
// single root the smallest word.
// Returns whether there is a tree; if not, or if memory ran out, heads are left as they were.
template <class F, class Siblings>
inline bool eisner_sentence(View2<const F> arc_scores, const Siblings& siblings, int64_t n,
                            bool single_root, Arena& arena, int64_t* heads) {
    typedef EisnerChart<MaxPlus<F>, Siblings> Chart;
    if constexpr (Chart::BY_DIAGONAL && !Chart::PAIRS)
        if (n > MOST_BY_DIAGONAL)
            return eisner_long_sentence(arc_scores, n, single_root, arena, heads);
    const ArenaMark mark(arena);
    Chart chart(arc_scores, siblings, n, single_root);
    return best_tree(chart, [](const auto& of) { fill_maxima(of); }, arena, heads);
}

// The same tree, sooner found where all scores of siblings are those of pairs.
template <class Weight>
inline bool eisner_sentence(View2<const double> arc_scores,
                            const FactoredSiblings<Weight, double>& siblings, int64_t n,
                            bool single_root, Arena& arena, int64_t* heads) {
    if (siblings.are_pairs && n <= MOST_BY_DIAGONAL)
        return eisner_sentence(arc_scores, PairSiblings{siblings.pair}, n, single_root, arena, heads);
    return eisner_sentence<double, FactoredSiblings<Weight, double>>(arc_scores, siblings, n, single_root,
                                                                     arena, heads);
}

}  // namespace gpuparse
