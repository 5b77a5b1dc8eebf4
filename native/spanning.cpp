// Exported functions of spanning trees, searches by single changes, and checks of scores.
#include "api/spanning.h"

#include "check_scores.h"
#include "chu_liu_edmonds.h"
#include "chu_liu_edmonds_kbest.h"
#include "hill_climb.h"
#include "matrix_tree.h"
#include "matrix_tree_sample.h"
#include "multi_parent.h"

using namespace gpuparse;

namespace {

constexpr int64_t NO_HEAD = -1;

// Call `function` with a null pointer of the type of scores; BAD_TYPE for other types than floats.
template <class Function>
int64_t of_float_type(int64_t dtype, Function function) {
    if (dtype == DT_F64) return function((const double*)nullptr);
    if (dtype == DT_F32) return function((const float*)nullptr);
    return BAD_TYPE;
}

// The scores (N, N) of sentence b.
template <class F>
View2<const F> sentence_scores(any_3 scores, int64_t b) {
    return {static_cast<const F*>(scores.data) + b * scores.n1 * scores.n2, scores.n2};
}

bool lengths_fit(i64_1 lengths, int64_t n_batch, int64_t n_nodes) {
    if (lengths.n0 != n_batch) return false;
    for (int64_t b = 0; b < n_batch; b++) {
        if (lengths.data[b] < 0 || lengths.data[b] >= n_nodes) return false;
    }
    return true;
}

bool scores_fit(any_3 scores, i64_1 lengths) {
    return scores.n1 == scores.n2 && lengths_fit(lengths, scores.n0, scores.n1);
}

// Whether arc, sibling and end scores fit each other.
bool parts_fit(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths) {
    return scores_fit(arc, lengths) && sibling.dtype == arc.dtype && end.dtype == arc.dtype &&
           sibling.n0 == arc.n0 * arc.n1 && sibling.n1 == arc.n1 && sibling.n2 == arc.n1 &&
           end.n0 == arc.n0 && end.n1 == arc.n1 && end.n2 == arc.n1;
}

template <class F>
DenseSiblings<F> sentence_siblings(any_3 sibling, any_3 end, int64_t b) {
    const int64_t nodes = sibling.n1;
    const F* scores = static_cast<const F*>(sibling.data) + b * nodes * nodes * nodes;
    return {{scores, nodes * nodes, nodes}, sentence_scores<F>(end, b)};
}

int64_t* fill_no_heads(int64_t* heads, int64_t count) {
    for (int64_t i = 0; i < count; i++) heads[i] = NO_HEAD;
    return heads;
}

template <class F>
int64_t find_best_trees(any_3 scores, i64_1 lengths, bool single_root, out_i64_2 heads, F* totals) {
    Arena arena;
    for (int64_t b = 0; b < scores.n0; b++) {
        const int64_t n = lengths.data[b];
        int64_t* tree = fill_no_heads(heads.data + b * heads.n1, heads.n1);
        const auto given = sentence_scores<F>(scores, b);
        const bool found = chu_liu_edmonds_sentence(given, n, single_root, arena, tree);
        totals[b] = found ? sum_tree_arcs(given, n, tree) : -(F)INFINITY;
    }
    return arena.failed() ? (int64_t)NO_MEMORY : (int64_t)OK;
}

template <class F>
int64_t find_k_best_trees(any_3 scores, i64_1 lengths, bool single_root, out_i64_3 heads, F* totals) {
    Arena arena;
    int64_t longest = 0;
    for (int64_t b = 0; b < scores.n0; b++) longest = lengths.data[b] > longest ? lengths.data[b] : longest;
    const int64_t k = heads.n1;
    SpanningTreesKBest<F> search;
    if (!search.allocate(longest, k, arena)) return NO_MEMORY;
    for (int64_t b = 0; b < scores.n0; b++) {
        int64_t* trees = fill_no_heads(heads.data + b * k * heads.n2, k * heads.n2);
        for (int64_t i = 0; i < k; i++) totals[b * k + i] = -(F)INFINITY;
        search.search(sentence_scores<F>(scores, b), lengths.data[b], single_root, k,
                      {trees, heads.n2}, totals + b * k);
    }
    return OK;
}

template <class F>
int64_t climb_trees(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths, const ChangeLimits& limits,
                    out_i64_2 heads, F* totals, int64_t* changes) {
    Arena arena;
    for (int64_t b = 0; b < arc.n0; b++) {
        const int64_t n = lengths.data[b];
        int64_t* tree = heads.data + b * heads.n1;
        const auto arcs = sentence_scores<F>(arc, b);
        const auto siblings = sentence_siblings<F>(sibling, end, b);
        changes[b] = 0;
        totals[b] = score_sibling_tree(arcs, siblings, n, tree);
        if (n == 0 || totals[b] == -(F)INFINITY) continue;
        changes[b] = hill_climb_sentence(arcs, siblings, n, limits.single_root, limits.max_changes,
                                         limits.min_gain, arena, tree);
        if (changes[b] < 0) return NO_MEMORY;
        totals[b] = score_sibling_tree(arcs, siblings, n, tree);
    }
    return OK;
}

template <class F>
int64_t climb_graphs(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths, const ChangeLimits& limits,
                     i64_2 heads, out_b8_3 graphs, F* totals) {
    Arena arena;
    for (int64_t b = 0; b < arc.n0; b++) {
        ArenaMark mark(arena);
        const int64_t n = lengths.data[b], nodes = graphs.n1;
        const int64_t* tree = heads.data + b * heads.n1;
        uint8_t* out = graphs.data + b * nodes * nodes;
        memset(out, 0, (size_t)(nodes * nodes));
        const auto arcs = sentence_scores<F>(arc, b);
        const auto siblings = sentence_siblings<F>(sibling, end, b);
        totals[b] = score_sibling_tree(arcs, siblings, n, tree);
        if (n == 0 || totals[b] == -(F)INFINITY) continue;
        uint8_t* graph = arena.take<uint8_t>((n + 1) * (n + 1));
        if (multi_parent_sentence(arcs, siblings, n, limits.single_root, limits.max_changes,
                                  limits.min_gain, arena, tree, graph) < 0) {
            return NO_MEMORY;
        }
        totals[b] = sum_graph_parts(arcs, siblings, n, View2<uint8_t>{graph, n + 1});
        for (int64_t h = 0; h <= n; h++) {
            memcpy(out + h * nodes, graph + h * (n + 1), (size_t)(n + 1));
        }
    }
    return OK;
}

}  // namespace

GPUPARSE(int64_t) chu_liu_edmonds_batch(any_3 scores, i64_1 lengths, bool single_root,
    out_i64_2 heads, out_any_1 totals) {
    if (!scores_fit(scores, lengths) || heads.n0 != scores.n0 || heads.n1 != scores.n1 ||
        totals.n0 != scores.n0 || totals.dtype != scores.dtype) {
        return BAD_SHAPE;
    }
    return of_float_type(scores.dtype, [&](auto* type) {
        using F = decltype(*type + 0);
        return find_best_trees<F>(scores, lengths, single_root, heads, static_cast<F*>(totals.data));
    });
}

GPUPARSE(int64_t) chu_liu_edmonds_kbest_batch(any_3 scores, i64_1 lengths, bool single_root,
    out_i64_3 heads, out_any_2 totals) {
    if (!scores_fit(scores, lengths) || heads.n0 != scores.n0 || heads.n2 != scores.n1 ||
        totals.n0 != scores.n0 || totals.n1 != heads.n1 || totals.dtype != scores.dtype) {
        return BAD_SHAPE;
    }
    return of_float_type(scores.dtype, [&](auto* type) {
        using F = decltype(*type + 0);
        return find_k_best_trees<F>(scores, lengths, single_root, heads, static_cast<F*>(totals.data));
    });
}

GPUPARSE(int64_t) matrix_tree_batch(f64_3 scores, i64_1 lengths, bool single_root,
    out_f64_3 marginals, out_f64_1 log_partitions) {
    const bool with_marginals = marginals.data != nullptr;
    const int64_t nodes = scores.n1;
    if (scores.n2 != nodes || !lengths_fit(lengths, scores.n0, nodes) ||
        log_partitions.n0 != scores.n0 ||
        (with_marginals &&
         (marginals.n0 != scores.n0 || marginals.n1 != nodes || marginals.n2 != nodes))) {
        return BAD_SHAPE;
    }
    Arena arena;
    for (int64_t b = 0; b < scores.n0; b++) {
        const int64_t begin = b * nodes * nodes;
        double* cells = with_marginals ? marginals.data + begin : nullptr;
        log_partitions.data[b] =
            matrix_tree_sentence({scores.data + begin, nodes}, lengths.data[b], single_root,
                                 with_marginals, {cells, nodes}, arena);
    }
    return arena.failed() ? (int64_t)NO_MEMORY : (int64_t)OK;
}

GPUPARSE(int64_t) matrix_tree_sample_batch(f64_3 scores, i64_1 lengths, bool single_root, u64_1 seeds,
    out_i64_3 heads, out_b8_1 has_tree) {
    const int64_t nodes = scores.n1, count = heads.n1;
    if (scores.n2 != nodes || !lengths_fit(lengths, scores.n0, nodes) || seeds.n0 != scores.n0 ||
        heads.n0 != scores.n0 || heads.n2 != nodes || has_tree.n0 != scores.n0) {
        return BAD_SHAPE;
    }
    Arena arena;
    for (int64_t b = 0; b < scores.n0; b++) {
        const int64_t n = lengths.data[b];
        const View2<int64_t> trees = {heads.data + b * count * nodes, nodes};
        fill_no_heads(trees.data, count * nodes);
        has_tree.data[b] = n == 0 || draw_spanning_trees_sentence({scores.data + b * nodes * nodes, nodes},
                                                                  n, single_root, count,
                                                                  seeds.data[b], trees, arena);
    }
    return arena.failed() ? (int64_t)NO_MEMORY : (int64_t)OK;
}

GPUPARSE(int64_t) hill_climb_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
    const ChangeLimits* limits, out_i64_2 heads, out_any_1 totals, out_i64_1 changes) {
    if (!parts_fit(arc, sibling, end, lengths) || heads.n0 != arc.n0 || heads.n1 != arc.n1 ||
        totals.n0 != arc.n0 || totals.dtype != arc.dtype || changes.n0 != arc.n0) {
        return BAD_SHAPE;
    }
    return of_float_type(arc.dtype, [&](auto* type) {
        using F = decltype(*type + 0);
        return climb_trees<F>(arc, sibling, end, lengths, *limits, heads,
                              static_cast<F*>(totals.data), changes.data);
    });
}

GPUPARSE(int64_t) multi_parent_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
    const ChangeLimits* limits, i64_2 heads, out_b8_3 arcs, out_any_1 totals) {
    if (!parts_fit(arc, sibling, end, lengths) || heads.n0 != arc.n0 || heads.n1 != arc.n1 ||
        arcs.n0 != arc.n0 || arcs.n1 != arc.n1 || arcs.n2 != arc.n1 || totals.n0 != arc.n0 ||
        totals.dtype != arc.dtype) {
        return BAD_SHAPE;
    }
    return of_float_type(arc.dtype, [&](auto* type) {
        using F = decltype(*type + 0);
        return climb_graphs<F>(arc, sibling, end, lengths, *limits, heads, arcs,
                               static_cast<F*>(totals.data));
    });
}

GPUPARSE(int64_t) find_bad_tree(i64_2 heads, i64_1 lengths, bool single_root) {
    if (!lengths_fit(lengths, heads.n0, heads.n1)) return BAD_SHAPE;
    Arena arena;
    int64_t* seen = arena.take<int64_t>(heads.n1);
    if (!seen) return NO_MEMORY;
    for (int64_t b = 0; b < heads.n0; b++) {
        if (!is_tree(heads.data + b * heads.n1, lengths.data[b], single_root, seen)) return b;
    }
    return -1;
}

GPUPARSE(int64_t) find_unusable_arc(any_3 scores, i64_1 lengths) {
    if (scores.n1 != scores.n2 || lengths.n0 != scores.n0) return BAD_SHAPE;
    const int64_t nodes = scores.n1;
    return of_float_type(scores.dtype, [&](auto* type) {
        using F = decltype(*type + 0);
        return find_unusable_arcs<F>({static_cast<const F*>(scores.data), nodes * nodes, nodes},
                                     lengths, nodes);
    });
}

GPUPARSE(int64_t) find_unusable_sibling(any_3 scores, i64_1 lengths) {
    const int64_t nodes = scores.n1;
    if (scores.n2 != nodes || scores.n0 != lengths.n0 * nodes ||
        !lengths_fit(lengths, lengths.n0, nodes)) {
        return BAD_SHAPE;
    }
    return of_float_type(scores.dtype, [&](auto* type) {
        using F = decltype(*type + 0);
        return find_unusable_siblings<F>(
            {static_cast<const F*>(scores.data), nodes * nodes * nodes, nodes * nodes, nodes},
            lengths, nodes);
    });
}
