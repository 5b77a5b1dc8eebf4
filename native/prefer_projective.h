// A tree with crossing arcs gives way to a projective tree whose score is close enough.
#pragma once

#include "block_trees.h"
#include "grand_sibling.h"

namespace gpuparse {

inline bool has_crossing_arcs(int64_t n, const int64_t* heads) {
    for (int64_t m = 1; m <= n; m++) {
        const int64_t first = heads[m] < m ? heads[m] : m, last = heads[m] < m ? m : heads[m];
        for (int64_t k = 1; k <= n; k++) {
            const int64_t left = heads[k] < k ? heads[k] : k, right = heads[k] < k ? k : heads[k];
            if (left < first && first < right && right < last) return true;
        }
    }
    return false;
}

// Fill heads with the best projective tree; its score, -inf if there is none.
inline double best_projective_tree(const CrossingParts& parts, bool single_root, Arena& arena,
                                   int64_t* heads) {
    ArenaMark mark(arena);
    const Candidates& c = parts.candidates;
    Blocks<double> blocks = parts.blocks;
    if (!parts.has_grandparents) {  // blocks of siblings as grand-siblings, the same under each head
        const int64_t* start = grand_sibling_starts(c, arena);
        double* copied = take_blocks<double>(c, start, arena);
        if (!copied) return -(double)INFINITY;
        for (int64_t a = 1; a < c.n_arcs; a++) {
            const int64_t width = c.width(c.head[a]);
            for (int64_t j = 0; j <= c.rank[a]; j++)
                for (int64_t q = 0; q < width; q++)
                    copied[start[a] + j * width + q] = parts.blocks.data[parts.blocks.start[a] + j];
        }
        blocks = Blocks<double>{copied, start};
    }
    if (!eisner_grand_sibling_sentence(c, blocks, parts.ends, single_root, arena, heads))
        return -(double)INFINITY;
    return block_tree_score(CrossingParts{c, blocks, parts.ends, true}, arena, heads);
}

// Keep a tree with crossing arcs, heads[1..n], n >= 1, only if it scores more, by more than min_gain,
// than the best projective tree of the same candidates, which replaces it otherwise. So the best tree
// of all becomes the best tree where crossing arcs cost min_gain. Under limits on labels, masks and
// scores, the projective tree is the best one without limits, with the best labels that keep them;
// classes (n + 1,): those of the labels of the tree. Returns whether no choice is better: false where
// the projective tree has to give up labels and is close enough, since another projective tree may be
// better under the limits. Cost: nothing without crossing arcs or with min_gain 0, otherwise that of
// eisner_grand_sibling_sentence().
inline bool prefer_projective(const CrossingParts& parts, LabelLimits limits, bool single_root,
                              double min_gain, Arena& arena, int64_t* heads, int64_t* classes) {
    const Candidates& c = parts.candidates;
    const int64_t n = c.n;
    if (min_gain <= 0 || !has_crossing_arcs(n, heads)) return true;
    ArenaMark mark(arena);
    const int64_t* start = parts.blocks.start;
    double* with_labels = take_blocks<double>(c, start, arena);
    int64_t* projective = arena.take<int64_t>(n + 1);
    if (!with_labels || !projective || !limits.allocate(c.n_arcs, n, arena)) return false;
    for (int64_t a = 1; a < c.n_arcs; a++) {
        const double best = limits.has_labels() ? limits.best_label(a) : 0.0;
        for (int64_t i = start[a]; i < start[a + 1]; i++)
            with_labels[i] = parts.blocks.data[i] + best;
    }
    const CrossingParts labelled{c, {with_labels, start}, parts.ends, parts.has_grandparents};
    const double bound = best_projective_tree(labelled, single_root, arena, projective);
    double crossing = block_tree_score(parts, arena, heads);
    if (limits.has_labels()) crossing += limits.label_tree(c, heads);
    if (arena.failed() || crossing > bound + min_gain) return true;
    double score = block_tree_score(parts, arena, projective);
    if (limits.has_labels()) score += limits.label_tree(c, projective);
    if (crossing <= score + min_gain)
        for (int64_t m = 1; m <= n; m++) {
            heads[m] = projective[m];
            classes[m] = limits.classes[m];
        }
    return score >= bound;
}

}  // namespace gpuparse
