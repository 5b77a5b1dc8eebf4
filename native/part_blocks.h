// Blocks of scores of parts, as searches read them, from a provider of the scores of one sentence.
//
// A provider has the type F of its scores and the methods below. h -> m is an arc among the candidates
// c; `inner` are the possible inner siblings of m, the nearest to h first.
//   View2<const uint8_t> allowed: [h, m], the arcs that a decoder may use; data NULL: all
//   bool has(kind): whether there are parts of that kind (part_kinds.h)
//   int64_t n_labels(): labels of an arc that are found with the tree, 1 without labels
//   double label_score(h, m, label): read under limits on labels only
//   F sibling(h, m, s): s == h for no inner sibling;  F end(h, m)
//   add_grandparents(h, m, heads, width, out): to out[q] the part under heads[q], the head of h
//   add_grand_siblings(h, m, heads, width, inner, rank, arena, block): to block[j * width + q] the
//     part with the inner sibling inner[j - 1], none for j = 0, under heads[q]
//   add_tri_siblings(h, m, inner, j, block): to block[i] the part with the inner sibling inner[j - 1],
//     none for j = 0, and inside that one inner[i - 1], none for i = 0
//   fill_children(kind, h, m, arc_score, children, count, block): write rows of labels, row j for the
//     child children[j], none for j = 0; a head child's with the score of the arc
#pragma once

#include "candidates.h"
#include "grandchild.h"
#include "part_kinds.h"

namespace gpuparse {

// (n_arcs,): the score of each arc's modifier being its head's outermost one on its side.
template <class Provider, class F = typename Provider::F>
inline F* end_blocks(const Provider& parts, const Candidates& c, Arena& arena) {
    F* ends = arena.take_zeros<F>(c.n_arcs);
    for (int64_t a = 1; ends && a < c.n_arcs; a++) ends[a] = parts.end(c.head[a], c.modifier[a]);
    return ends;
}

// The score of an arc with the inner sibling of row j of its blocks.
template <class Provider, class F = typename Provider::F>
inline F score_of_two(View2<const F> scores, const Provider& parts, const Candidates& c, int64_t h,
                      int64_t m, int64_t j) {
    return scores(h, m) + parts.sibling(h, m, j > 0 ? c.inner_siblings(h, m)[j - 1] : h);
}

// Arcs and siblings, as sibling_starts() says. No memory, here and below: the arena has failed.
template <class Provider, class F = typename Provider::F>
inline Blocks<F> sibling_blocks(View2<const F> scores, const Provider& parts, const Candidates& c,
                                Arena& arena) {
    const int64_t* start = sibling_starts(c, arena);
    F* blocks = take_blocks<F>(c, start, arena);
    Pace pace;
    for (int64_t a = 1; blocks && a < c.n_arcs && !pace.is_interrupted(5 * (c.rank[a] + 1)); a++)
        for (int64_t j = 0; j <= c.rank[a]; j++)
            blocks[start[a] + j] = score_of_two(scores, parts, c, c.head[a], c.modifier[a], j);
    return {blocks, start};
}

// Grandparents and grand-siblings, as grand_sibling_starts() says; with_arcs: and arcs and siblings.
template <class Provider, class F = typename Provider::F>
inline Blocks<F> grand_sibling_blocks(View2<const F> scores, const Provider& parts,
                                      const Candidates& c, bool with_arcs, Arena& arena) {
    const int64_t* start = grand_sibling_starts(c, arena);
    F* blocks = take_blocks<F>(c, start, arena);
    ArenaMark mark(arena);
    F* grand = arena.take<F>(c.n + 1);
    Pace pace;
    for (int64_t a = 1; !arena.failed() && a < c.n_arcs; a++) {
        const int64_t h = c.head[a], m = c.modifier[a], width = c.width(h);
        if (pace.is_interrupted(10 * width * (c.rank[a] + 1))) break;
        const int32_t* heads = c.head + c.first[h];
        for (int64_t q = 0; q < width; q++) grand[q] = 0;
        parts.add_grandparents(h, m, heads, width, grand);
        F* block = blocks + start[a];
        for (int64_t j = 0; j <= c.rank[a]; j++) {
            const F of_two = with_arcs ? score_of_two(scores, parts, c, h, m, j) : 0;
            for (int64_t q = 0; q < width; q++) block[j * width + q] = of_two + grand[q];
        }
        parts.add_grand_siblings(h, m, heads, width, c.inner_siblings(h, m), c.rank[a], arena, block);
        for (int64_t q = 0; q < width; q++)  // no part: its scores may be anything
            for (int64_t j = 0; heads[q] == m && j <= c.rank[a]; j++)
                block[j * width + q] = -(F)INFINITY;
    }
    return {blocks, start};
}

// Arcs, siblings and tri-siblings, as tri_sibling_starts() says.
template <class Provider, class F = typename Provider::F>
inline Blocks<F> tri_sibling_blocks(View2<const F> scores, const Provider& parts, const Candidates& c,
                                    Arena& arena) {
    const int64_t* start = tri_sibling_starts(c, arena);
    F* blocks = take_blocks<F>(c, start, arena);
    Pace pace;
    for (int64_t a = 1; blocks && a < c.n_arcs; a++) {
        const int64_t h = c.head[a], m = c.modifier[a];
        if (pace.is_interrupted(5 * (c.rank[a] + 1) * (c.rank[a] + 1))) break;
        F* block = blocks + start[a];
        for (int64_t j = 0; j <= c.rank[a]; j++) {
            const int64_t count = j > 1 ? j : 1;
            const F of_two = score_of_two(scores, parts, c, h, m, j);
            for (int64_t i = 0; i < count; i++) block[i] = of_two;
            parts.add_tri_siblings(h, m, c.inner_siblings(h, m), j, block);
            block += count;
        }
    }
    return {blocks, start};
}

// An arc with a child, in `n_labels()` columns.
template <class Provider, class F = typename Provider::F>
inline GrandchildBlocks<F> grandchild_blocks(View2<const F> scores, const Provider& parts,
                                             const Candidates& c, Arena& arena) {
    const int64_t n_labels = parts.n_labels();
    GrandchildBlocks<F> found{n_labels, {}};
    F* data[3];
    for (int64_t which = 0; which < 3; which++) {
        const int64_t* start = child_starts(c, which, n_labels, arena);
        found.of_kind[which] = {data[which] = take_blocks<F>(c, start, arena), start};
    }
    ArenaMark mark(arena);
    int32_t* children = arena.take<int32_t>(c.n + 1);
    Pace pace;
    for (int64_t a = 1; !arena.failed() && a < c.n_arcs; a++) {
        const int64_t h = c.head[a], m = c.modifier[a], away = h < m ? 0 : 1;
        if (pace.is_interrupted(20 * (c.side[0][m + 1] - c.side[0][m] + c.side[1][m + 1] - c.side[1][m]))) break;
        const int32_t* of_kind[3] = {c.inner_siblings(h, m), c.modifiers[1 - away] + c.side[1 - away][m],
                                     c.modifiers[away] + c.side[away][m]};
        for (int64_t which = 0; which < 3; which++) {
            const int64_t count = found.rows(which, a);
            children[0] = ABSENT_WORD;
            for (int64_t j = 1; j < count; j++) children[j] = of_kind[which][j - 1];
            parts.fill_children(HEAD_CHILD + which, h, m, scores(h, m), children, count,
                                data[which] + found.of_kind[which].start[a]);
        }
    }
    return found;
}

}  // namespace gpuparse
