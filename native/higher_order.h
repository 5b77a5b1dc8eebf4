// The best tree of one sentence by the decoders that read parts of three and four words.
//
// They read scores from a provider, a class with these methods, and know nothing else of it; `c` are
// the candidates, `start` says where the block of each arc begins:
//   View2<const uint8_t> allowed: [h, m], the arcs that a decoder may use; data NULL: all
//   bool has(kind): whether there are parts of that kind (part_kinds.h)
//   int64_t n_labels(): labels of an arc that are found with the tree, 1 without labels
//   double label_score(h, m, label): read under limits on labels only
//   double* end_blocks(c, arena)
//   fill_sibling_blocks(scores, c, start, blocks)
//   fill_grand_sibling_blocks(scores, c, start, with_arcs, arena, blocks)
//   fill_tri_sibling_blocks(scores, c, start, blocks)
//   fill_child_blocks(scores, c, starts, of_siblings, of_inner, of_outer, arena)
#pragma once

#include <math.h>
#include <stdint.h>

#include "decoder_numbers.h"
#include "dual_decomposition.h"
#include "grand_sibling.h"
#include "grandchild.h"
#include "part_kinds.h"
#include "prefer_projective.h"
#include "tri_sibling.h"

namespace gpuparse {

// What is fixed for a batch. The last four are of dual decomposition alone.
struct HigherOrderSearch {
    int64_t decoder;                // a `DecoderNumber`
    bool single_root;
    double min_gain = 0.0;          // of trees with crossing arcs, see prefer_projective()
    int64_t max_iterations = 1000;  // solutions of all sub-problems
    double granularity = 0.0;       // two scores are equal or differ by at least this; 0: unknown
    // Limits on labels (label_limits.h): the class of each label, and the limits of each class as bits;
    // no class: there are no limits, and no labels are found.
    const int64_t* label_classes = nullptr;
    int64_t n_labels = 0;
    const int64_t* class_masks = nullptr;
    int64_t n_classes = 0;
};

template <class Provider>
inline bool search_grand_siblings(View2<const double> scores, const Provider& parts,
                                  const Candidates& c, bool single_root, Arena& arena, int64_t* heads) {
    const int64_t* start = grand_sibling_starts(c, arena);
    double* blocks = start ? arena.take<double>(start[c.n_arcs]) : nullptr;
    if (!blocks) return false;
    parts.fill_grand_sibling_blocks(scores, c, start, true, arena, blocks);
    const double* ends = parts.end_blocks(c, arena);
    if (arena.failed()) return false;
    return eisner_grand_sibling_sentence<double>(c, {blocks, start}, ends, single_root, arena, heads);
}

template <class Provider>
inline bool search_tri_siblings(View2<const double> scores, const Provider& parts, const Candidates& c,
                                bool single_root, Arena& arena, int64_t* heads) {
    const int64_t* start = tri_sibling_starts(c, arena);
    const int64_t* grand_start = grand_sibling_starts(c, arena);
    if (arena.failed()) return false;
    double* blocks = arena.take<double>(start[c.n_arcs]);
    double* outermost = arena.take<double>(grand_start[c.n_arcs]);
    if (arena.failed()) return false;
    parts.fill_tri_sibling_blocks(scores, c, start, blocks);
    parts.fill_grand_sibling_blocks(scores, c, grand_start, false, arena, outermost);
    const double* ends = parts.end_blocks(c, arena);
    if (arena.failed()) return false;
    return eisner_tri_sibling_sentence<double>(c, {blocks, start}, {outermost, grand_start}, ends,
                                               single_root, arena, heads);
}

template <class Provider>
inline bool search_grandchildren(View2<const double> scores, const Provider& parts, const Candidates& c,
                                 bool single_root, Arena& arena, int64_t* heads, int64_t* labels) {
    GrandchildStarts starts;
    if (!grandchild_starts(c, parts.n_labels(), arena, &starts)) return false;
    double* of_siblings = arena.take<double>(starts.sibling[c.n_arcs]);
    double* of_inner = arena.take<double>(starts.inner[c.n_arcs]);
    double* of_outer = arena.take<double>(starts.outer[c.n_arcs]);
    if (arena.failed()) return false;
    parts.fill_child_blocks(scores, c, starts, of_siblings, of_inner, of_outer, arena);
    if (arena.failed()) return false;
    const GrandchildBlocks<double> blocks{parts.n_labels(),
                                          {of_siblings, starts.sibling},
                                          {of_inner, starts.inner},
                                          {of_outer, starts.outer}};
    return eisner_grandchild_sentence(c, blocks, single_root, arena, heads, labels);
}

// The blocks of parts that dual decomposition and prefer_projective() read. No memory: the arena has
// failed.
template <class Provider>
inline CrossingParts crossing_parts(View2<const double> scores, const Provider& parts,
                                    const Candidates& c, Arena& arena) {
    const bool has_grandparents = parts.has(GRANDPARENT) || parts.has(GRAND_SIBLING);
    const int64_t* start = has_grandparents ? grand_sibling_starts(c, arena) : sibling_starts(c, arena);
    double* blocks = start ? arena.take<double>(start[c.n_arcs]) : nullptr;
    const double* ends = parts.end_blocks(c, arena);
    if (!arena.failed()) {
        if (has_grandparents)
            parts.fill_grand_sibling_blocks(scores, c, start, true, arena, blocks);
        else
            parts.fill_sibling_blocks(scores, c, start, blocks);
    }
    return {c, {blocks, start}, ends, has_grandparents};
}

template <class Provider>
inline Certificate search_crossing(View2<const double> scores, const Provider& provider,
                                   const Candidates& c, const HigherOrderSearch& search, Arena& arena,
                                   int64_t* heads, int64_t* labels) {
    const CrossingParts parts = crossing_parts(scores, provider, c, arena);
    if (arena.failed()) return {};
    if (search.n_classes == 0) {
        const Certificate found = dual_decomposition_sentence(
            parts, search.single_root, search.max_iterations, search.granularity, arena, heads);
        if (found.found) prefer_projective(parts, search.single_root, search.min_gain, arena, heads);
        return found;
    }
    LabelLimits limits;
    limits.masks = search.class_masks;
    limits.n_classes = search.n_classes;
    double* best = arena.take_filled<double>(c.n_arcs * search.n_classes, -(double)INFINITY);
    double* row = arena.take<double>(search.n_labels);
    int64_t* classes = arena.take<int64_t>(c.n + 1);
    if (arena.failed()) return {};
    for (int64_t a = 1; a < c.n_arcs; a++)
        for (int64_t k = 0; k < search.n_labels; k++) {
            double& of_class = best[a * search.n_classes + search.label_classes[k]];
            const double score = provider.label_score(c.head[a], c.modifier[a], k);
            of_class = score > of_class ? score : of_class;
        }
    limits.scores = best;
    Certificate found = dual_decomposition_labelled_sentence(
        parts, limits, search.single_root, search.max_iterations, search.granularity, arena, heads,
        classes);
    if (!found.found) return found;
    found.is_proven &= prefer_projective_labelled(parts, limits, search.single_root, search.min_gain,
                                                  arena, heads, classes);
    for (int64_t m = 1; m <= c.n; m++) {
        for (int64_t k = 0; k < search.n_labels; k++) row[k] = provider.label_score(heads[m], m, k);
        labels[m] = first_best_label(row, search.label_classes, search.n_labels, classes[m]);
    }
    return found;
}

// Fill heads[1..n] with the best tree, n >= 1, and labels[1..n] where labels are found with the tree:
// by grandchildren, and by dual decomposition under limits on labels. scores: of arcs, (>= n + 1,
// >= n + 1). A chart's tree is always proven, in 0 iterations. Without memory nothing is found, and the
// arena has failed.
template <class Provider>
inline Certificate search_higher_order(View2<const double> scores, const Provider& parts,
                                       const HigherOrderSearch& search, int64_t n, Arena& arena,
                                       int64_t* heads, int64_t* labels) {
    ArenaMark mark(arena);
    const Candidates c =
        find_candidates(allowed_arcs(scores, parts.allowed, n, arena), n, arena);
    if (arena.failed()) return {};
    switch (search.decoder) {
    case BY_EISNER_GRAND_SIBLING:
        return {search_grand_siblings(scores, parts, c, search.single_root, arena, heads), true, 0};
    case BY_EISNER_TRI_SIBLING:
        return {search_tri_siblings(scores, parts, c, search.single_root, arena, heads), true, 0};
    case BY_EISNER_GRANDCHILD:
        return {search_grandchildren(scores, parts, c, search.single_root, arena, heads, labels), true,
                0};
    case BY_DUAL_DECOMPOSITION:
        return search_crossing(scores, parts, c, search, arena, heads, labels);
    }
    return {};
}

}  // namespace gpuparse
