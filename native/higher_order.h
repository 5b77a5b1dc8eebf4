// The best tree of one sentence by the decoders that read parts of three and four words, from a
// provider of scores (part_blocks.h).
#pragma once

#include <math.h>
#include <stdint.h>

#include "api/higher.h"
#include "decoder_numbers.h"
#include "dual_decomposition.h"
#include "grand_sibling.h"
#include "grandchild.h"
#include "part_blocks.h"
#include "prefer_projective.h"
#include "tri_sibling.h"

namespace gpuparse {

// Values as float64; NULL: no memory.
template <class F>
inline const double* widen(const F* values, int64_t count, Arena& arena) {
    double* wide = values ? arena.take<double>(count) : nullptr;
    for (int64_t i = 0; wide && i < count; i++) wide[i] = (double)values[i];
    return wide;
}
inline const double* widen(const double* values, int64_t, Arena&) { return values; }

// 1 if all scores that are finite are whole, and so small that sums are exact; else 0.
inline double granularity_of(const double* scores, int64_t count) {
    const double largest_whole = 4503599627370496.0;  // 2^52
    for (int64_t i = 0; i < count; i++) {
        const double score = scores[i], size = fabs(score);
        if (size < (double)INFINITY && (score != floor(score) || size > largest_whole)) return 0.0;
    }
    return 1.0;
}

// The best label of each class under limits, for every arc. scores is NULL without limits; without
// memory the arena has failed.
template <class Provider>
inline LabelLimits label_limits(const Provider& parts, const Candidates& c, const Search& search,
                                Arena& arena) {
    LabelLimits limits;
    limits.masks = search.masks.data;
    limits.n_classes = search.masks.n0;
    if (!limits.has_labels()) return limits;
    double* best = arena.take_filled<double>(c.n_arcs * limits.n_classes, -(double)INFINITY);
    for (int64_t a = 1; best && a < c.n_arcs; a++)
        for (int64_t k = 0; k < search.class_of.n0; k++) {
            double& of_class = best[a * limits.n_classes + search.class_of.data[k]];
            const double score = parts.label_score(c.head[a], c.modifier[a], k);
            of_class = score > of_class ? score : of_class;
        }
    limits.scores = best;
    return limits;
}

template <class Provider, class F = typename Provider::F>
inline Certificate search_crossing(View2<const F> scores, const Provider& provider,
                                   const Candidates& c, const Search& search, Arena& arena,
                                   int64_t* heads, int64_t* labels) {
    const bool has_grandparents = provider.has(GRANDPARENT) || provider.has(GRAND_SIBLING);
    const Blocks<F> blocks = has_grandparents ? grand_sibling_blocks(scores, provider, c, true, arena)
                                              : sibling_blocks(scores, provider, c, arena);
    const F* ends = end_blocks(provider, c, arena);
    LabelLimits limits = label_limits(provider, c, search, arena);
    int64_t* classes = arena.take<int64_t>(c.n + 1);
    double* of_labels = arena.take<double>(search.class_of.n0);
    if (arena.failed()) return {};
    const int64_t size = blocks.start[c.n_arcs];
    const CrossingParts parts{c, {widen(blocks.data, size, arena), blocks.start},
                              widen(ends, c.n_arcs, arena), has_grandparents};
    if (arena.failed()) return {};
    double granularity = search.granularity;
    if (granularity < 0)
        granularity = granularity_of(parts.blocks.data, size) * granularity_of(parts.ends, c.n_arcs) *
                      granularity_of(limits.scores, limits.has_labels() ? c.n_arcs * limits.n_classes : 0);
    Certificate found = dual_decomposition_sentence(parts, limits, search.single_root,
                                                    search.max_iterations, granularity, arena, heads,
                                                    classes);
    if (!found.found) return found;
    found.is_proven &= prefer_projective(parts, limits, search.single_root, search.min_gain, arena,
                                         heads, classes);
    found.score = block_tree_score(parts, arena, heads);
    for (int64_t m = 1; m <= c.n && limits.has_labels(); m++) {
        for (int64_t k = 0; k < search.class_of.n0; k++)
            of_labels[k] = provider.label_score(heads[m], m, k);
        labels[m] = first_best_label(of_labels, search.class_of.data, search.class_of.n0, classes[m]);
        found.score += of_labels[labels[m]];
    }
    return found;
}

// Fill heads[1..n] with the best tree, n >= 1, and labels[1..n] where labels are found with the tree:
// by grandchildren, and by dual decomposition under limits on labels. scores: of arcs, (>= n + 1,
// >= n + 1). A chart's tree is always proven, in 0 iterations. Without memory nothing is found, and the
// arena has failed.
template <class Provider, class F = typename Provider::F>
inline Certificate search_higher_order(View2<const F> scores, const Provider& parts,
                                       const Search& search, int64_t n, Arena& arena, int64_t* heads,
                                       int64_t* labels) {
    if (arena.failed()) return {};
    ArenaMark mark(arena);
    const Candidates c = find_candidates(allowed_arcs(scores, parts.allowed, n, arena), n, arena);
    if (arena.failed()) return {};
    if (search.decoder == BY_DUAL_DECOMPOSITION)
        return search_crossing(scores, parts, c, search, arena, heads, labels);
    Certificate result{false, true, 0};
    if (search.decoder == BY_EISNER_GRANDCHILD) {
        const GrandchildBlocks<F> blocks = grandchild_blocks(scores, parts, c, arena);
        if (arena.failed()) return {};
        result.found = eisner_grandchild_sentence(c, blocks, search.single_root, arena, heads, labels);
        if (result.found) result.score = grandchild_tree_score(c, blocks, heads, labels);
        return result;
    }
    const bool reads_three = search.decoder == BY_EISNER_TRI_SIBLING;
    const Blocks<F> of_three = reads_three ? tri_sibling_blocks(scores, parts, c, arena) : Blocks<F>{};
    const Blocks<F> grand = grand_sibling_blocks(scores, parts, c, !reads_three, arena);
    const F* ends = end_blocks(parts, c, arena);
    TreeRows tree{c};
    if (!tree.allocate(arena) || arena.failed()) return {};
    result.found = reads_three ? eisner_tri_sibling_sentence(c, of_three, grand, ends,
                                                             search.single_root, arena, heads)
                               : eisner_grand_sibling_sentence(c, grand, ends, search.single_root,
                                                               arena, heads);
    if (result.found)
        result.score = reads_three ? tri_sibling_tree_score(tree, of_three, grand, ends, heads)
                                   : tree.score(grand, ends, true, heads);
    return result;
}

}  // namespace gpuparse
