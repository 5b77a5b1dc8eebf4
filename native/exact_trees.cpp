// Exported functions of best and k best trees, sums and random trees.
#include "exact_trees.h"

#include "api/exact_trees.h"
#include "batch_scores.h"
#include "check_scores.h"

using namespace gpuparse;

namespace {

constexpr int64_t NO_HEAD = -1, ALL_HAVE_TREES = -1;

// Call find(b, n, arena) for each sentence b of n words; it returns whether there is a tree. Returns the
// first sentence without one, ALL_HAVE_TREES or NO_MEMORY.
template <class Find>
int64_t first_without_tree(i64_1 lengths, Find find) {
    int64_t first = ALL_HAVE_TREES;
    const int64_t status = for_sentences(lengths, [&](int64_t b, int64_t n, Arena& arena) {
        if (!find(b, n, arena) && first == ALL_HAVE_TREES) first = b;
    });
    return status == OK ? first : status;
}

// Whether the scores of a batch are those that a decoder reads.
template <class Array>
bool fits(int64_t decoder, const Array& arc, const Array& sibling, const Array& end, i64_1 lengths) {
    return has_sums(decoder) && scores_fit(arc, lengths) &&
           (decoder != BY_EISNER_SIBLING || siblings_fit(arc, sibling, end));
}

// The trees of sentence b, as the others of its batch.
template <class F, class Array>
ExactTrees<F, DenseSiblings<F>> trees_of(int64_t decoder, const Array& arc, const Array& sibling,
                                         const Array& end, int64_t b, int64_t n, bool single_root) {
    return {decoder, scores_of_sentence<F>(arc, b), siblings_of_sentence<F>(sibling, end, b), n,
            single_root};
}

// The heads (t, 0..) of sentence b, all of them NO_HEAD.
View2<int64_t> no_trees(const out_i64_3& heads, int64_t b) {
    const View2<int64_t> trees{heads.data + b * heads.n1 * heads.n2, heads.n2};
    for (int64_t t = 0; t < heads.n1 && !is_interrupted(2 * heads.n2); t++)
        for (int64_t m = 0; m < heads.n2; m++) trees(t, m) = NO_HEAD;
    return trees;
}

template <class F>
bool find_trees(const ExactTrees<F, DenseSiblings<F>>& trees, int64_t k, Arena& arena,
                View2<int64_t> heads, double* totals) {
    int64_t count = trees.n == 0;
    if (trees.n > 0 && !has_unusable_arcs(trees.arcs, trees.n))
        count = k == 1 ? trees.find_best(arena, heads.data) : trees.find_k_best(k, arena, heads, totals);
    for (int64_t t = 0; t < k; t++) {
        const double total = t < count ? trees.score(heads.row(t)) : -(double)INFINITY;
        totals[t] = t > 0 && totals[t - 1] < total ? totals[t - 1] : total;
    }
    return count > 0;
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

template <class Weight>
int64_t search_tables(f64_2 arc, const SiblingTables& tables, bool single_root, double scale,
                      out_i64_2 heads, out_f64_1 totals, out_f64_2 marginals,
                      out_f64_1 log_partition) {
    Arena arena;
    const ExactTrees<double, FactoredSiblings<Weight, double>> trees = {
        BY_EISNER_SIBLING, view(arc), provider_of<Weight>(tables), arc.n1 - 1, single_root};
    int64_t count;
    if (heads.n0 == 1) {
        count = trees.find_best(arena, heads.data);
        if (count) totals.data[0] = trees.score(heads.data);
    } else {
        count = trees.find_k_best(heads.n0, arena, view(heads), totals.data);
    }
    if (log_partition.n0) log_partition.data[0] = trees.sum(scale, arena, view(marginals));
    return arena.failed() ? (int64_t)NO_MEMORY : count;
}

}  // namespace

GPUPARSE(int64_t) find_trees_batch(int64_t decoder, any_3 arc, any_3 sibling, any_3 end, i64_1 lengths,
                                   bool single_root, out_i64_3 heads, out_f64_2 totals) {
    const int64_t k = heads.n1;
    for (int64_t b = 0; b < lengths.n0; b++)
        if (lengths.data[b] < 0 || lengths.data[b] >= arc.n1) return b;
    if (!fits(decoder, arc, sibling, end, lengths) || heads.n0 != arc.n0 || heads.n2 != arc.n1 ||
        totals.n0 != arc.n0 || totals.n1 != k || k < 1 || k > MAX_RANK)
        return BAD_SHAPE;
    if (decoder == BY_EISNER_SIBLING && (sibling.dtype != arc.dtype || end.dtype != arc.dtype))
        return BAD_TYPE;
    return of_float_type(arc.dtype, [&](auto* number) {
        typedef __typeof__(*number + 0) F;
        return first_without_tree(lengths, [&](int64_t b, int64_t n, Arena& arena) {
            return find_trees(trees_of<F>(decoder, arc, sibling, end, b, n, single_root), k, arena,
                              no_trees(heads, b), totals.data + b * k);
        });
    });
}

GPUPARSE(int64_t) sum_trees_batch(int64_t decoder, f64_3 arc, f64_3 sibling, f64_3 end, i64_1 lengths,
                                  bool single_root, out_f64_3 marginals, out_f64_1 log_partitions) {
    const int64_t nodes = arc.n1, cells = nodes * nodes;
    if (!fits(decoder, arc, sibling, end, lengths) || log_partitions.n0 != arc.n0 ||
        (marginals.data &&
         (marginals.n0 != arc.n0 || marginals.n1 != nodes || marginals.n2 != nodes)))
        return BAD_SHAPE;
    return first_without_tree(lengths, [&](int64_t b, int64_t n, Arena& arena) {
        double* const of_arcs = marginals.data ? marginals.data + b * cells : nullptr;
        if (of_arcs) memset(of_arcs, 0, (size_t)cells * sizeof(double));
        log_partitions.data[b] =
            n == 0 ? 0.0
                   : trees_of<double>(decoder, arc, sibling, end, b, n, single_root)
                         .sum(1.0, arena, {of_arcs, nodes});
        return log_partitions.data[b] > -(double)INFINITY;
    });
}

GPUPARSE(int64_t) draw_trees_batch(int64_t decoder, f64_3 arc, f64_3 sibling, f64_3 end, i64_1 lengths,
                                   bool single_root, i64_1 seeds, out_i64_3 heads,
                                   out_f64_1 log_partitions) {
    if (!fits(decoder, arc, sibling, end, lengths) || seeds.n0 != arc.n0 || heads.n0 != arc.n0 ||
        heads.n2 != arc.n1 || log_partitions.n0 != arc.n0)
        return BAD_SHAPE;
    return first_without_tree(lengths, [&](int64_t b, int64_t n, Arena& arena) {
        const View2<int64_t> trees = no_trees(heads, b);
        log_partitions.data[b] =
            n == 0 ? 0.0
                   : trees_of<double>(decoder, arc, sibling, end, b, n, single_root)
                         .draw(seeds.data[b], heads.n1, arena, trees);
        return log_partitions.data[b] > -(double)INFINITY;
    });
}

GPUPARSE(int64_t) eisner_sibling_of_tables(f64_2 arc, const SiblingTables* tables, bool single_root,
                                           double scale, out_i64_2 heads, out_f64_1 totals,
                                           out_f64_2 marginals, out_f64_1 log_partition) {
    const int64_t nodes = arc.n0, k = heads.n0;
    if (arc.n1 != nodes || !tables_fit(*tables, nodes) || heads.n1 != nodes || k < 1 || k > MAX_RANK ||
        totals.n0 != k || log_partition.n0 > 1 ||
        (marginals.n0 && (marginals.n0 != nodes || marginals.n1 != nodes)))
        return BAD_SHAPE;
    switch (tables->table.dtype) {
        case DT_F64:
            return search_tables<double>(arc, *tables, single_root, scale, heads, totals, marginals,
                                         log_partition);
        case DT_F32:
            return search_tables<float>(arc, *tables, single_root, scale, heads, totals, marginals,
                                        log_partition);
        case DT_I16:
            return search_tables<int16_t>(arc, *tables, single_root, scale, heads, totals, marginals,
                                          log_partition);
        case DT_I8:
            return search_tables<int8_t>(arc, *tables, single_root, scale, heads, totals, marginals,
                                         log_partition);
        default:
            return BAD_TYPE;
    }
}
