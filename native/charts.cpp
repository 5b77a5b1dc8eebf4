// Exported functions of projective trees of the first order and with sibling parts.
#include "api/charts.h"

#include "batch_scores.h"
#include "eisner.h"
#include "eisner_kbest.h"
#include "eisner_sums.h"
#include "tree_siblings.h"

using namespace gpuparse;

namespace {

constexpr int64_t NO_HEAD = -1;

int64_t status_of(const Arena& arena) { return arena.failed() ? (int64_t)NO_MEMORY : (int64_t)OK; }

int64_t* fill_no_heads(int64_t* heads, int64_t count) {
    for (int64_t i = 0; i < count; i++) heads[i] = NO_HEAD;
    return heads;
}

// The searches of one sentence b, of the first order ...
template <class Number>
struct FirstOrder {
    typedef Number F;
    any_3 arc;

    View2<const F> arcs(int64_t b) const { return scores_of_sentence<F>(arc, b); }
    bool best(int64_t b, int64_t n, bool single_root, Arena& arena, int64_t* heads) const {
        return eisner_sentence(arcs(b), n, single_root, arena, heads);
    }
    int64_t k_best(int64_t b, int64_t n, bool single_root, int64_t k, Arena& arena,
                   View2<int64_t> heads, F* scores) const {
        return eisner_kbest_sentence(arcs(b), n, single_root, k, arena, heads, scores);
    }
    F score(int64_t b, int64_t n, const int64_t* heads) const { return tree_score(arcs(b), n, heads); }
};

// ... and with siblings.
template <class Number>
struct SecondOrder {
    typedef Number F;
    any_3 arc, sibling, end;

    View2<const F> arcs(int64_t b) const { return scores_of_sentence<F>(arc, b); }
    DenseSiblings<F> siblings(int64_t b) const { return siblings_of_sentence<F>(sibling, end, b); }
    bool best(int64_t b, int64_t n, bool single_root, Arena& arena, int64_t* heads) const {
        return eisner_sibling_sentence(arcs(b), siblings(b), n, single_root, arena, heads);
    }
    int64_t k_best(int64_t b, int64_t n, bool single_root, int64_t k, Arena& arena,
                   View2<int64_t> heads, F* scores) const {
        return eisner_sibling_kbest_sentence(arcs(b), siblings(b), n, single_root, k, arena, heads,
                                             scores);
    }
    F score(int64_t b, int64_t n, const int64_t* heads) const {
        return score_sibling_tree(arcs(b), siblings(b), n, heads);
    }
};

template <class Order>
int64_t find_trees(const Order& order, i64_1 lengths, bool single_root, out_i64_2 heads,
                   typename Order::F* totals) {
    Arena arena;
    for (int64_t b = 0; b < lengths.n0; b++) {
        const int64_t n = lengths.data[b];
        int64_t* const tree = fill_no_heads(heads.data + b * heads.n1, heads.n1);
        const bool found = n == 0 || order.best(b, n, single_root, arena, tree);
        totals[b] = found ? order.score(b, n, tree) : -(typename Order::F)INFINITY;
    }
    return status_of(arena);
}

template <class Order>
int64_t find_k_trees(const Order& order, i64_1 lengths, bool single_root, out_i64_3 heads,
                     typename Order::F* totals) {
    typedef typename Order::F F;
    Arena arena;
    const int64_t k = heads.n1;
    for (int64_t b = 0; b < lengths.n0 && !arena.failed(); b++) {
        const int64_t n = lengths.data[b];
        const View2<int64_t> trees = {heads.data + b * k * heads.n2, heads.n2};
        F* const scores = totals + b * k;
        fill_no_heads(trees.data, k * heads.n2);
        for (int64_t t = 0; t < k; t++) scores[t] = n == 0 && t == 0 ? 0 : -(F)INFINITY;
        if (n == 0) continue;
        const int64_t count = order.k_best(b, n, single_root, k, arena, trees, scores);
        for (int64_t t = 0; t < k; t++) {
            const F total = t < count ? order.score(b, n, trees.row(t)) : -(F)INFINITY;
            scores[t] = t > 0 && scores[t - 1] < total ? scores[t - 1] : total;
            if (t >= count) fill_no_heads(trees.row(t), heads.n2);
        }
    }
    return status_of(arena);
}

// Log-partitions and marginals; of(b, n, arena, marginals) sums over the trees of one sentence.
template <class Sums>
int64_t sum_trees(i64_1 lengths, out_f64_3 marginals, out_f64_1 log_partitions, Sums of) {
    Arena arena;
    const int64_t nodes = marginals.n1;
    if (marginals.data)
        memset(marginals.data, 0, (size_t)(marginals.n0 * nodes * nodes) * sizeof(double));
    for (int64_t b = 0; b < lengths.n0; b++) {
        const int64_t n = lengths.data[b];
        double* const cells = marginals.data ? marginals.data + b * nodes * nodes : nullptr;
        log_partitions.data[b] = n == 0 ? 0.0 : of(b, n, arena, View2<double>{cells, nodes});
    }
    return status_of(arena);
}

// Random trees; of(b, n, arena, trees) draws those of one sentence and returns its log-partition.
template <class Samples>
int64_t draw_trees(i64_1 lengths, out_i64_3 heads, out_f64_1 log_partitions, Samples of) {
    Arena arena;
    fill_no_heads(heads.data, heads.n0 * heads.n1 * heads.n2);
    for (int64_t b = 0; b < lengths.n0; b++) {
        const int64_t n = lengths.data[b];
        const View2<int64_t> trees = {heads.data + b * heads.n1 * heads.n2, heads.n2};
        log_partitions.data[b] = n == 0 ? 0.0 : of(b, n, arena, trees);
    }
    return status_of(arena);
}

// The provider over tables of one type.
template <class Weight>
FactoredSiblings<Weight, double> provider_of(const SiblingTables& tables) {
    const int64_t nodes = tables.first.n1, terms = tables.firsts.n0;
    const auto of_role = [&](const i64_3& array, int64_t role) {
        return View2<const int64_t>{array.data + role * terms * nodes, nodes};
    };
    return {view(tables.first), view(tables.pair), view(tables.end),
            (const Weight*)tables.table.data, terms, tables.firsts.data,
            of_role(tables.places, 0), of_role(tables.places, 1), of_role(tables.places, 2),
            of_role(tables.masks, 0), of_role(tables.masks, 1), of_role(tables.masks, 2),
            view(tables.gaps), tables.gaps.n1 / 2};
}

bool tables_fit(const SiblingTables& tables, int64_t nodes) {
    const f64_2* const matrices[] = {&tables.first, &tables.pair, &tables.end};
    const i64_3* const roles[] = {&tables.places, &tables.masks};
    const int64_t terms = tables.firsts.n0;
    for (const f64_2* matrix : matrices)
        if (matrix->n0 != nodes || matrix->n1 != nodes) return false;
    for (const i64_3* role : roles)
        if (role->n0 != 3 || role->n1 != terms || role->n2 != nodes) return false;
    return nodes >= 2 && tables.gaps.n0 == terms && tables.gaps.n1 >= 2 * nodes + 1;
}

template <class Siblings>
int64_t search_sentence(f64_2 arc, const Siblings& siblings, bool single_root, double scale,
                        out_i64_2 heads, out_f64_1 totals, out_f64_2 marginals,
                        out_f64_1 log_partition) {
    Arena arena;
    const int64_t n = arc.n1 - 1, k = heads.n0;
    int64_t count;
    if (k == 1) {
        count = eisner_sibling_sentence(view(arc), siblings, n, single_root, arena, heads.data);
        if (count) totals.data[0] = score_sibling_tree(view(arc), siblings, n, heads.data);
    } else {
        count = eisner_sibling_kbest_sentence(view(arc), siblings, n, single_root, k, arena,
                                              view(heads), totals.data);
    }
    if (log_partition.n0)
        log_partition.data[0] = eisner_sibling_marginals_sentence(view(arc), siblings, n, single_root,
                                                                  scale, arena, view(marginals));
    return arena.failed() ? (int64_t)NO_MEMORY : count;
}

bool marginals_fit(const f64_3& arc, const out_f64_3& marginals) {
    return marginals.n0 * marginals.n1 * marginals.n2 == 0 ||
           (marginals.n0 == arc.n0 && marginals.n1 == arc.n1 && marginals.n2 == arc.n1);
}

template <class Array>
bool trees_fit(const Array& arc, const out_i64_2& heads) {
    return heads.n0 == arc.n0 && heads.n1 == arc.n1;
}

template <class Array>
bool trees_fit(const Array& arc, const out_i64_3& heads) {
    return heads.n0 == arc.n0 && heads.n2 == arc.n1;
}

}  // namespace

GPUPARSE(int64_t) eisner_batch(any_3 arc, i64_1 lengths, bool single_root, out_i64_2 heads,
                               out_any_1 totals) {
    if (!scores_fit(arc, lengths) || !trees_fit(arc, heads) || totals.n0 != arc.n0) return BAD_SHAPE;
    if (totals.dtype != arc.dtype) return BAD_TYPE;
    return of_float_type(arc.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        return find_trees(FirstOrder<F>{arc}, lengths, single_root, heads, (F*)totals.data);
    });
}

GPUPARSE(int64_t) eisner_sibling_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
                                       bool single_root, out_i64_2 heads, out_any_1 totals) {
    if (!sibling_scores_fit(arc, sibling, end, lengths) || !trees_fit(arc, heads) ||
        totals.n0 != arc.n0)
        return BAD_SHAPE;
    if (sibling.dtype != arc.dtype || end.dtype != arc.dtype || totals.dtype != arc.dtype)
        return BAD_TYPE;
    return of_float_type(arc.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        const SecondOrder<F> order = {arc, sibling, end};
        return find_trees(order, lengths, single_root, heads, (F*)totals.data);
    });
}

GPUPARSE(int64_t) eisner_kbest_batch(any_3 arc, i64_1 lengths, bool single_root, out_i64_3 heads,
                                     out_any_2 totals) {
    const int64_t k = heads.n1;
    if (!scores_fit(arc, lengths) || !trees_fit(arc, heads) || totals.n0 != arc.n0 ||
        totals.n1 != k || k < 1 || k > MAX_RANK)
        return BAD_SHAPE;
    if (totals.dtype != arc.dtype) return BAD_TYPE;
    return of_float_type(arc.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        return find_k_trees(FirstOrder<F>{arc}, lengths, single_root, heads, (F*)totals.data);
    });
}

GPUPARSE(int64_t) eisner_sibling_kbest_batch(any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
                                             bool single_root, out_i64_3 heads, out_any_2 totals) {
    const int64_t k = heads.n1;
    if (!sibling_scores_fit(arc, sibling, end, lengths) || !trees_fit(arc, heads) ||
        totals.n0 != arc.n0 || totals.n1 != k || k < 1 || k > MAX_RANK)
        return BAD_SHAPE;
    if (sibling.dtype != arc.dtype || end.dtype != arc.dtype || totals.dtype != arc.dtype)
        return BAD_TYPE;
    return of_float_type(arc.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        const SecondOrder<F> order = {arc, sibling, end};
        return find_k_trees(order, lengths, single_root, heads, (F*)totals.data);
    });
}

GPUPARSE(int64_t) eisner_sums_batch(f64_3 arc, i64_1 lengths, bool single_root, out_f64_3 marginals,
                                    out_f64_1 log_partitions) {
    if (!scores_fit(arc, lengths) || !marginals_fit(arc, marginals) || log_partitions.n0 != arc.n0)
        return BAD_SHAPE;
    return sum_trees(lengths, marginals, log_partitions,
                     [&](int64_t b, int64_t n, Arena& arena, View2<double> of_sentence) {
                         return eisner_marginals_sentence(scores_of_sentence<double>(arc, b), n,
                                                          single_root, 1.0, arena, of_sentence);
                     });
}

GPUPARSE(int64_t) eisner_sibling_sums_batch(f64_3 arc, f64_3 sibling, f64_3 end, i64_1 lengths,
                                            bool single_root, out_f64_3 marginals,
                                            out_f64_1 log_partitions) {
    if (!sibling_scores_fit(arc, sibling, end, lengths) || !marginals_fit(arc, marginals) ||
        log_partitions.n0 != arc.n0)
        return BAD_SHAPE;
    return sum_trees(lengths, marginals, log_partitions,
                     [&](int64_t b, int64_t n, Arena& arena, View2<double> of_sentence) {
                         return eisner_sibling_marginals_sentence(
                             scores_of_sentence<double>(arc, b),
                             siblings_of_sentence<double>(sibling, end, b), n, single_root, 1.0, arena,
                             of_sentence);
                     });
}

GPUPARSE(int64_t) eisner_sample_batch(f64_3 arc, i64_1 lengths, bool single_root, i64_1 seeds,
                                      out_i64_3 heads, out_f64_1 log_partitions) {
    if (!scores_fit(arc, lengths) || !trees_fit(arc, heads) || seeds.n0 != arc.n0 ||
        log_partitions.n0 != arc.n0)
        return BAD_SHAPE;
    return draw_trees(lengths, heads, log_partitions,
                      [&](int64_t b, int64_t n, Arena& arena, View2<int64_t> trees) {
                          return samples_of(scores_of_sentence<double>(arc, b), NoSiblings{}, n,
                                            single_root, seeds.data[b], heads.n1, arena, trees);
                      });
}

GPUPARSE(int64_t) eisner_sibling_sample_batch(f64_3 arc, f64_3 sibling, f64_3 end, i64_1 lengths,
                                              bool single_root, i64_1 seeds, out_i64_3 heads,
                                              out_f64_1 log_partitions) {
    if (!sibling_scores_fit(arc, sibling, end, lengths) || !trees_fit(arc, heads) ||
        seeds.n0 != arc.n0 || log_partitions.n0 != arc.n0)
        return BAD_SHAPE;
    return draw_trees(lengths, heads, log_partitions,
                      [&](int64_t b, int64_t n, Arena& arena, View2<int64_t> trees) {
                          return samples_of(scores_of_sentence<double>(arc, b),
                                            siblings_of_sentence<double>(sibling, end, b), n,
                                            single_root, seeds.data[b], heads.n1, arena, trees);
                      });
}

GPUPARSE(int64_t) eisner_sibling_of_tables(f64_2 arc, const SiblingTables* tables, bool single_root,
                                           double scale, out_i64_2 heads, out_f64_1 totals,
                                           out_f64_2 marginals, out_f64_1 log_partition) {
    const int64_t nodes = arc.n0;
    if (arc.n1 != nodes || !tables_fit(*tables, nodes) || heads.n1 != nodes || heads.n0 < 1 ||
        heads.n0 > MAX_RANK || totals.n0 != heads.n0 || log_partition.n0 > 1 ||
        (marginals.n0 && (marginals.n0 != nodes || marginals.n1 != nodes)))
        return BAD_SHAPE;
    const auto search = [&](const auto& siblings) {
        return search_sentence(arc, siblings, single_root, scale, heads, totals, marginals,
                               log_partition);
    };
    switch (tables->table.dtype) {
        case DT_F64:
            return search(provider_of<double>(*tables));
        case DT_F32:
            return search(provider_of<float>(*tables));
        case DT_I16:
            return search(provider_of<int16_t>(*tables));
        case DT_I8:
            return search(provider_of<int8_t>(*tables));
        default:
            return BAD_TYPE;
    }
}
