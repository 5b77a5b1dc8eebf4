// Dense scores of the parts of one sentence, as part_blocks.h reads them.
#pragma once

#include <math.h>

#include "arena.h"
#include "part_kinds.h"
#include "views.h"

namespace gpuparse {

// Arrays as `HigherOrderScores` of api/higher.h has them, with N = n_nodes, which may be more than the
// words need; one that is NULL counts as 0. Cells of parts that cannot be are not read. With labels,
// 1 or more, arc [h, m, l], siblings, inner and outer [h, m, c, l]; limited [h, m, l]: scores of labels
// under limits, or NULL.
template <class Number>
struct DenseParts {
    typedef Number F;
    int64_t n_nodes, labels;
    const F *arc, *siblings, *grandparent, *grand_sibling, *tri_sibling, *inner, *outer, *ends;
    const double* limited;
    int64_t n_limited;
    View2<const uint8_t> allowed;  // all

    int64_t cell(int64_t h, int64_t m) const { return h * n_nodes + m; }
    int64_t cell(int64_t h, int64_t m, int64_t s) const { return cell(h, m) * n_nodes + s; }

    bool has(int64_t kind) const {
        return (kind == GRANDPARENT ? grandparent : grand_sibling) != nullptr;
    }
    int64_t n_labels() const { return labels; }
    double label_score(int64_t h, int64_t m, int64_t label) const {
        return limited[cell(h, m) * n_limited + label];
    }
    F sibling(int64_t h, int64_t m, int64_t s) const { return siblings ? siblings[cell(h, m, s)] : 0; }
    F end(int64_t h, int64_t m) const { return ends ? ends[cell(h, m)] : 0; }

    // The scores of arcs without labels: of the best one; -inf without any label under limits. data
    // NULL: no memory.
    View2<const F> arc_scores(int64_t n, Arena& arena) const {
        if (labels == 1 && n_limited == 0) return {arc, n_nodes};
        View2<F> scores{arena.take_filled<F>((n + 1) * (n + 1), -(F)INFINITY), n + 1};
        for (int64_t h = 0; scores.data && h <= n; h++)
            for (int64_t m = 1; m <= n; m++) {
                bool has_label = n_limited == 0;
                for (int64_t k = 0; k < n_limited; k++)
                    has_label |= label_score(h, m, k) > -(double)INFINITY;
                const F* of_arc = arc + cell(h, m) * labels;
                for (int64_t k = 0; has_label && k < labels; k++)
                    scores(h, m) = of_arc[k] > scores(h, m) ? of_arc[k] : scores(h, m);
            }
        return scores;
    }

    void add_grandparents(int64_t h, int64_t m, const int32_t* heads, int64_t width, F* out) const {
        if (!grandparent) return;
        const F* of_heads = grandparent + cell(h, m, 0);
        for (int64_t q = 0; q < width; q++) out[q] += of_heads[heads[q]];
    }

    void add_grand_siblings(int64_t h, int64_t m, const int32_t* heads, int64_t width,
                            const int32_t* inner_siblings, int64_t rank, Arena&, F* block) const {
        for (int64_t j = 0; grand_sibling && j <= rank; j++, block += width) {
            const F* of_heads = grand_sibling + cell(h, m, j > 0 ? inner_siblings[j - 1] : h) * n_nodes;
            for (int64_t q = 0; q < width; q++) block[q] += of_heads[heads[q]];
        }
    }

    void add_tri_siblings(int64_t h, int64_t m, const int32_t* inner_siblings, int64_t j,
                          F* block) const {
        if (!tri_sibling) return;
        const F* of_siblings = tri_sibling + cell(h, m, j > 0 ? inner_siblings[j - 1] : h) * n_nodes;
        block[0] += of_siblings[h];
        for (int64_t i = 1; i < j; i++) block[i] += of_siblings[inner_siblings[i - 1]];
    }

    void fill_children(int64_t kind, int64_t h, int64_t m, F, const int32_t* children, int64_t count,
                       F* block) const {
        const bool has_arc = kind == HEAD_CHILD;
        const F* scores = has_arc ? siblings : kind == INNER_GRANDCHILD ? inner : outer;
        const F* of_children = scores ? scores + cell(h, m, 0) * labels : nullptr;
        const F* of_arc = arc + cell(h, m) * labels;
        const int64_t none = has_arc ? h : m;
        for (int64_t k = 0; k < labels; k++) {
            const F added = has_arc ? of_arc[k] : 0;
            block[k] = added + (scores ? of_children[none * labels + k] : 0);
            for (int64_t j = 1; j < count; j++)
                block[j * labels + k] = added + (scores ? of_children[children[j] * labels + k] : 0);
        }
    }
};

}  // namespace gpuparse
