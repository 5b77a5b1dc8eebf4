// Exported functions of searches by single changes, and of checks of trees and scores.
#include "api/single_changes.h"

#include "batch_scores.h"
#include "check_scores.h"
#include "hill_climb.h"
#include "multi_parent.h"
#include "trees.h"

using namespace gpuparse;

namespace {

// Call search(arcs, siblings, b, n, arena), which returns the new score, for each sentence b whose start
// has words and no forbidden part; other starts keep their score. starts (B, N): heads.
template <class F, class Search>
int64_t search_from(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths, const int64_t* starts,
                    double* totals, Search search) {
    return for_sentences(lengths, [&](int64_t b, int64_t n, Arena& arena) {
        const auto arcs = scores_of_sentence<F>(arc, b);
        const auto search_under = [&](const auto& siblings) {
            totals[b] = score_sibling_tree(arcs, siblings, n, starts + b * arc.n1);
            if (n > 0 && totals[b] > -(double)INFINITY) totals[b] = search(arcs, siblings, b, n, arena);
        };
        if (sibling.dtype) search_under(siblings_of_sentence<F>(sibling, end, b));
        else search_under(ZeroSiblings<F>{});
    });
}

// The first sentence whose start is no tree, or has several modifiers of the root under single_root, or -1.
int64_t find_bad_tree(i64_2 heads, i64_1 lengths, bool single_root) {
    if (!lengths_fit(lengths, heads.n0, heads.n1)) return BAD_SHAPE;
    Arena arena;
    int64_t* seen = arena.take<int64_t>(heads.n1);
    if (!seen) return NO_MEMORY;
    for (int64_t b = 0; b < heads.n0; b++)
        if (!is_tree(heads.data + b * heads.n1, lengths.data[b], single_root, seen)) return b;
    return -1;
}

int64_t check_parts(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths, const ChangeLimits* limits,
                    i64_2 starts, out_f64_1 totals) {
    if (!scores_fit(arc, lengths) || totals.n0 != arc.n0 || starts.n0 != arc.n0 ||
        starts.n1 != arc.n1)
        return BAD_SHAPE;
    if ((sibling.dtype || end.dtype) && !siblings_fit(arc, sibling, end)) return BAD_SHAPE;
    if (!(limits->min_gain >= 0.0)) return BAD_SHAPE;  // the search would not end
    if (sibling.dtype != end.dtype || (sibling.dtype && end.dtype != arc.dtype)) return BAD_TYPE;
    const int64_t bad = find_bad_tree(starts, lengths, limits->single_root);
    return bad == NO_MEMORY ? bad : bad >= 0 ? BAD_SHAPE : OK;
}

}  // namespace

GPUPARSE(int64_t) hill_climb_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
                                   const ChangeLimits* limits, out_i64_2 heads, out_f64_1 totals,
                                   out_i64_1 changes) {
    const i64_2 starts = {heads.data, heads.n0, heads.n1};
    const int64_t status = check_parts(arc, sibling, end, lengths, limits, starts, totals);
    if (status != OK) return status;
    if (changes.n0 != arc.n0) return BAD_SHAPE;
    for (int64_t b = 0; b < arc.n0; b++) changes.data[b] = 0;
    return of_float_type(arc.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        return search_from<F>(
            arc, sibling, end, lengths, heads.data, totals.data,
            [&](View2<const F> arcs, const auto& siblings, int64_t b, int64_t n, Arena& arena) {
                int64_t* const tree = heads.data + b * heads.n1;
                changes.data[b] =
                    hill_climb_sentence(arcs, siblings, n, limits->single_root, limits->max_changes,
                                        limits->min_gain, arena, tree);
                return score_sibling_tree(arcs, siblings, n, tree);
            });
    });
}

GPUPARSE(int64_t) multi_parent_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
                                     const ChangeLimits* limits, i64_2 heads, out_b8_3 arcs,
                                     out_f64_1 totals) {
    const int64_t status = check_parts(arc, sibling, end, lengths, limits, heads, totals),
                  nodes = arc.n1;
    if (status != OK) return status;
    if (arcs.n0 != arc.n0 || arcs.n1 != nodes || arcs.n2 != nodes) return BAD_SHAPE;
    memset(arcs.data, 0, (size_t)(arc.n0 * nodes * nodes));
    return of_float_type(arc.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        return search_from<F>(
            arc, sibling, end, lengths, heads.data, totals.data,
            [&](View2<const F> of_arcs, const auto& siblings, int64_t b, int64_t n, Arena& arena) {
                const View2<uint8_t> graph = {arcs.data + b * nodes * nodes, nodes};
                return multi_parent_sentence(of_arcs, siblings, n, limits->single_root,
                                             limits->max_changes, limits->min_gain, arena,
                                             heads.data + b * nodes, graph);
            });
    });
}

GPUPARSE(int64_t) find_tree_faults(i64_2 heads, i64_1 lengths, bool single_root, bool is_projective,
                                  bool is_partial, out_i32_1 faults, out_i32_1 words) {
    if (!lengths_fit(lengths, heads.n0, heads.n1) || faults.n0 != heads.n0 || words.n0 != heads.n0)
        return BAD_SHAPE;
    const int64_t room = heads.n1;
    Arena arena;
    int32_t* tree = arena.take<int32_t>(6 * room);
    if (!tree) return NO_MEMORY;
    int32_t *seen = tree + room, *child = tree + 2 * room, *sibling = tree + 3 * room;
    int32_t *first = tree + 4 * room, *last = tree + 5 * room;
    for (int64_t r = 0; r < heads.n0; ++r) {
        const int64_t* given = heads.data + r * room + 1;
        const int32_t n = (int32_t)lengths.data[r];
        int64_t lowest = 0;
        for (int32_t m = 0; m < n; ++m) {
            // Beyond 32 bits a number becomes the one next to the range of heads, which is wrong too.
            const int64_t h = given[m] > n ? n + 1 : given[m] < -1 ? -2 : given[m];
            tree[m] = (int32_t)h;
            lowest = h < lowest ? h : lowest;
        }
        const FaultyWord found = check_heads(tree, n, single_root, is_partial, seen);
        faults.data[r] = found.fault;
        words.data[r] = found.word;
        if (found.fault != WELL_FORMED || !is_projective || lowest < 0) continue;
        number_in_preorder(tree, n, child, sibling, first, last);
        words.data[r] = find_crossing(tree, n, first, last);
        faults.data[r] = words.data[r] ? CROSSING : WELL_FORMED;
    }
    return OK;
}

GPUPARSE(int64_t) find_unusable_arc(any_3 scores, i64_1 lengths) {
    if (scores.n1 != scores.n2 || lengths.n0 != scores.n0) return BAD_SHAPE;
    const int64_t nodes = scores.n1;
    return of_float_type(scores.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        return find_unusable_arcs(view3((const F*)scores.data, nodes, nodes), lengths, nodes);
    });
}
