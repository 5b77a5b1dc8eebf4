// Blocks of part scores from dense arrays of one sentence; an array that is NULL counts as 0.
#pragma once

#include <math.h>
#include <stdint.h>

#include "candidates.h"
#include "grandchild.h"

namespace gpuparse {

// N = n_nodes, which may be more than the words of the sentence need.
template <class F>
struct DenseParts {
    int64_t n_nodes;
    const F *arc, *sibling, *grandparent, *grand_sibling, *tri_sibling, *outermost, *end;

    int64_t cell(int64_t h, int64_t m) const { return h * n_nodes + m; }
    int64_t cell(int64_t h, int64_t m, int64_t s) const { return cell(h, m) * n_nodes + s; }

    // (arc + sibling), s == h for none.
    F of_two(int64_t h, int64_t m, int64_t s) const {
        F score = arc[cell(h, m)];
        if (sibling) score += sibling[cell(h, m, s)];
        return score;
    }

    // The inner siblings of an arc by row: h itself for none, then by rank.
    static int64_t sibling_of_row(const Candidates& c, int64_t h, int64_t m, int64_t j) {
        return j > 0 ? c.inner_siblings(h, m)[j - 1] : h;
    }

    const F* ends(const Candidates& c, Arena& arena) const {
        F* of_arcs = arena.take_zeros<F>(c.n_arcs);
        for (int64_t a = 1; of_arcs && end && a < c.n_arcs; a++)
            of_arcs[a] = end[cell(c.head[a], c.modifier[a])];
        return of_arcs;
    }

    // ((arc + sibling) + grandparent) + grand-sibling; see grand_sibling_starts().
    Blocks<F> grand_siblings(const Candidates& c, Arena& arena) const {
        const int64_t* start = grand_sibling_starts(c, arena);
        F* blocks = start ? arena.take<F>(start[c.n_arcs]) : nullptr;
        for (int64_t a = 1; blocks && a < c.n_arcs; a++) {
            const int64_t h = c.head[a], m = c.modifier[a], width = c.width(h);
            const int32_t* heads = c.head + c.first[h];
            F* row = blocks + start[a];
            for (int64_t j = 0; j <= c.rank[a]; j++, row += width) {
                const int64_t s = sibling_of_row(c, h, m, j);
                const F score = of_two(h, m, s);
                for (int64_t q = 0; q < width; q++) row[q] = score;
                if (grandparent) {
                    const F* of_heads = grandparent + cell(h, m, 0);
                    for (int64_t q = 0; q < width; q++) row[q] += of_heads[heads[q]];
                }
                if (grand_sibling) {
                    const F* of_heads = grand_sibling + cell(h, m, s) * n_nodes;
                    for (int64_t q = 0; q < width; q++) row[q] += of_heads[heads[q]];
                }
            }
        }
        return {blocks, start};
    }

    // Grand-sibling parts of outermost modifiers, as they are.
    Blocks<F> outermost_pairs(const Candidates& c, Arena& arena) const {
        const int64_t* start = grand_sibling_starts(c, arena);
        F* blocks = start ? arena.take_zeros<F>(start[c.n_arcs]) : nullptr;
        for (int64_t a = 1; blocks && outermost && a < c.n_arcs; a++) {
            const int64_t h = c.head[a], m = c.modifier[a], width = c.width(h);
            const int32_t* heads = c.head + c.first[h];
            F* row = blocks + start[a];
            for (int64_t j = 0; j <= c.rank[a]; j++, row += width) {
                const F* of_heads = outermost + cell(h, m, sibling_of_row(c, h, m, j)) * n_nodes;
                for (int64_t q = 0; q < width; q++) row[q] = of_heads[heads[q]];
            }
        }
        return {blocks, start};
    }

    // (arc + sibling) + tri-sibling; see tri_sibling_starts().
    Blocks<F> tri_siblings(const Candidates& c, Arena& arena) const {
        const int64_t* start = tri_sibling_starts(c, arena);
        F* blocks = start ? arena.take<F>(start[c.n_arcs]) : nullptr;
        for (int64_t a = 1; blocks && a < c.n_arcs; a++) {
            const int64_t h = c.head[a], m = c.modifier[a];
            F* block = blocks + start[a];
            for (int64_t j = 0; j <= c.rank[a]; j++) {
                const int64_t s = sibling_of_row(c, h, m, j), count = j > 1 ? j : 1;
                const F score = of_two(h, m, s);
                for (int64_t k = 0; k < count; k++) {
                    block[k] = score;
                    if (!tri_sibling) continue;
                    block[k] += tri_sibling[cell(h, m, s) * n_nodes + sibling_of_row(c, h, m, k)];
                }
                block += count;
            }
        }
        return {blocks, start};
    }

    // arc + sibling; see sibling_starts().
    Blocks<F> siblings(const Candidates& c, Arena& arena) const {
        const int64_t* start = sibling_starts(c, arena);
        F* blocks = start ? arena.take<F>(start[c.n_arcs]) : nullptr;
        for (int64_t a = 1; blocks && a < c.n_arcs; a++)
            for (int64_t j = 0; j <= c.rank[a]; j++) {
                const int64_t h = c.head[a], m = c.modifier[a];
                blocks[start[a] + j] = of_two(h, m, sibling_of_row(c, h, m, j));
            }
        return {blocks, start};
    }
};

// Dense scores of grandchild parts of one sentence with n_labels labels for each arc: arc [h, m, l],
// all others [h, m, c, l]. Cells of parts that cannot be are not read. Cost: O(n^3 L).
template <class F>
struct DenseGrandchildParts {
    int64_t n_nodes, n_labels;
    const F *arc, *sibling, *inner, *outer;

    // (n + 1, n + 1): the arcs with a label that is not forbidden. NULL: no memory.
    uint8_t* allowed_arcs(int64_t n, Arena& arena) const {
        uint8_t* allowed = arena.take_zeros<uint8_t>((n + 1) * (n + 1));
        for (int64_t h = 0; allowed && h <= n; h++)
            for (int64_t m = 1; m <= n; m++)
                for (int64_t k = 0; k < n_labels; k++)
                    allowed[h * (n + 1) + m] |=
                        arc[(h * n_nodes + m) * n_labels + k] > -(F)INFINITY;
        return allowed;
    }

    // False: no memory.
    bool fill(const Candidates& c, Arena& arena, GrandchildBlocks<F>* blocks) const {
        GrandchildStarts starts;
        if (!grandchild_starts(c, n_labels, arena, &starts)) return false;
        F* of_siblings = arena.take<F>(starts.sibling[c.n_arcs]);
        F* of_inner = arena.take<F>(starts.inner[c.n_arcs]);
        F* of_outer = arena.take<F>(starts.outer[c.n_arcs]);
        if (arena.failed()) return false;
        for (int64_t a = 1; a < c.n_arcs; a++) {
            const int64_t h = c.head[a], m = c.modifier[a], d = h < m ? 0 : 1;
            const int64_t of_arc = (h * n_nodes + m) * n_labels, row = of_arc * n_nodes;
            const int32_t* near = c.modifiers[1 - d] + c.side[1 - d][m];
            const int32_t* far = c.modifiers[d] + c.side[d][m];
            const auto size = [&](const int64_t* start) { return start[a + 1] - start[a]; };
            F* block = of_siblings + starts.sibling[a];
            copy(sibling + row, h, c.inner_siblings(h, m), size(starts.sibling), block);
            for (int64_t i = 0; i < size(starts.sibling); i += n_labels)
                for (int64_t k = 0; k < n_labels; k++) block[i + k] = arc[of_arc + k] + block[i + k];
            copy(inner + row, m, near, size(starts.inner), of_inner + starts.inner[a]);
            copy(outer + row, m, far, size(starts.outer), of_outer + starts.outer[a]);
        }
        *blocks = {n_labels,
                   {of_siblings, starts.sibling},
                   {of_inner, starts.inner},
                   {of_outer, starts.outer}};
        return true;
    }

private:
    // The labels of `none`, then of each modifier.
    void copy(const F* scores, int64_t none, const int32_t* modifiers, int64_t size, F* block) const {
        for (int64_t k = 0; k < n_labels; k++) block[k] = scores[none * n_labels + k];
        if (n_labels == 1) {
            for (int64_t i = 1; i < size; i++) block[i] = scores[modifiers[i - 1]];
            return;
        }
        for (int64_t i = n_labels; i < size; i += n_labels, modifiers++)
            for (int64_t k = 0; k < n_labels; k++)
                block[i + k] = scores[*modifiers * n_labels + k];
    }
};

}  // namespace gpuparse
