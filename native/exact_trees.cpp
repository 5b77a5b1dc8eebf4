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

// True if the scores of a batch are those that a decoder reads.
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
                                  bool single_root, out_f64_3 marginals, out_f64_4 of_siblings,
                                  out_f64_3 of_ends, out_f64_1 log_partitions) {
    const int64_t nodes = arc.n1, cells = nodes * nodes;
    const auto is_like_arcs = [&](const out_f64_3& array) {
        return array.n0 == arc.n0 && array.n1 == nodes && array.n2 == nodes;
    };
    if (!fits(decoder, arc, sibling, end, lengths) || log_partitions.n0 != arc.n0 ||
        (marginals.data && !is_like_arcs(marginals)))
        return BAD_SHAPE;
    if (of_siblings.data &&
        (decoder != BY_EISNER_SIBLING || !marginals.data || !of_ends.data || !is_like_arcs(of_ends) ||
         of_siblings.n0 != arc.n0 || of_siblings.n1 != nodes || of_siblings.n2 != nodes ||
         of_siblings.n3 != nodes))
        return BAD_SHAPE;
    return first_without_tree(lengths, [&](int64_t b, int64_t n, Arena& arena) {
        double* const of_arcs = marginals.data ? marginals.data + b * cells : nullptr;
        if (of_arcs) memset(of_arcs, 0, (size_t)cells * sizeof(double));
        PartMarginals found({of_arcs, nodes});
        if (of_siblings.data) {
            found.siblings = view3(of_siblings.data + b * cells * nodes, nodes, nodes);
            found.ends = view2(of_ends.data + b * cells, nodes);
            memset(found.siblings.data, 0, (size_t)(cells * nodes) * sizeof(double));
            memset(found.ends.data, 0, (size_t)cells * sizeof(double));
        }
        log_partitions.data[b] =
            n == 0 ? 0.0
                   : trees_of<double>(decoder, arc, sibling, end, b, n, single_root)
                         .sum(1.0, arena, found);
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
