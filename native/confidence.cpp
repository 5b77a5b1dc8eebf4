// Exported functions of marginals, k best trees and pruning.
#include "confidence.h"

#include "api/parsing.h"
#include "batch_checks.h"
#include "labels.h"

using namespace gpuparse;

namespace {

constexpr int64_t NO_FAILURE = -1;  // every sentence has a tree

// Score every sentence and call function(scores, b, start, n, arena), which returns OK, NO_MEMORY or
// that there is no tree. Returns the index of the first sentence without a tree, or NO_FAILURE.
constexpr int64_t NO_TREE_FOUND = 1;

template<class W, class Function>
int64_t for_scored(const Sentences& sentences, const Scorer& scorer, Function function) {
    Arena arena;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        ArenaMark mark(arena);
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        SentenceScores<W> scores =
            score_sentence<W>(sentences.values, start, n, scorer, {nullptr, n + 1}, arena);
        if (arena.failed()) return NO_MEMORY;
        forbid_others(scores.arcs, n, start, sentences.known);
        const int64_t status = function(scores, b, start, n, arena);
        if (status == NO_TREE_FOUND) return b;
        if (status != OK) return status;
        if (arena.failed()) return NO_MEMORY;
    }
    return NO_FAILURE;
}

template<class W>
int64_t prune(const Sentences& sentences, const Scorer& scorer, const Search& search, double scale,
              double threshold, int64_t max_heads, i64_1 firsts, out_b8_1 cells) {
    return for_scored<W>(sentences, scorer, [&](SentenceScores<W>& scores, int64_t, int64_t start,
                                                int64_t n, Arena& arena) -> int64_t {
        const int64_t nodes = n + 1;
        int64_t* heads = arena.take<int64_t>(nodes);
        View2<double> marginals{arena.take<double>(nodes * nodes), nodes};
        if (arena.failed()) return NO_MEMORY;
        if (!find_tree<W>(scores.arcs, scores, search, arena, heads, nullptr, nullptr).found)
            return arena.failed() ? (int64_t)NO_MEMORY : NO_TREE_FOUND;
        if (isnan(find_marginals(scores, search, scale, arena, marginals))) return NO_MEMORY;
        const int64_t first = firsts.data[start];
        if (first < 0 || first + nodes * nodes > cells.n0) return BAD_SHAPE;
        uint8_t* left = cells.data + first;
        keep_likely_arcs(marginals, heads, n, threshold, max_heads, left);
        for (int64_t m = 1; m <= n; ++m)
            if (sentences.known.n0 > 0 && sentences.known.data[start + m] >= 0)
                for (int64_t h = 0; h <= n; ++h) left[h * nodes + m] = h == heads[m];
        return OK;
    });
}

template<class W>
int64_t fill_marginals(const Sentences& sentences, const Scorer& scorer, const Search& search,
                       double arc_scale, double label_scale, bool least_risk, out_i64_2 heads,
                       out_i64_2 labels, out_f64_2 head_marginals, out_f64_2 label_marginals,
                       out_f64_1 log_partitions) {
    const int64_t tokens = heads.n1;
    return for_scored<W>(sentences, scorer, [&](SentenceScores<W>& scores, int64_t b, int64_t start,
                                                int64_t n, Arena& arena) -> int64_t {
        View2<double> marginals{arena.take<double>((n + 1) * (n + 1)), n + 1};
        if (arena.failed()) return NO_MEMORY;
        log_partitions.data[b] = find_marginals(scores, search, arc_scale, arena, marginals);
        if (isnan(log_partitions.data[b])) return NO_MEMORY;
        if (log_partitions.data[b] == -(double)INFINITY) return NO_TREE_FOUND;
        if (least_risk) {
            if (!find_least_risk(scores, marginals, search, arena, heads.data + start))
                return arena.failed() ? (int64_t)NO_MEMORY : NO_TREE_FOUND;
            fill_tree_labels(scores, heads.data + start, labels.data + start);
        }
        for (int64_t k = 0; k < heads.n0; ++k) {
            const int64_t at = k * tokens + start;
            for (int64_t m = 1; m <= n; ++m) {
                const int64_t h = heads.data[at + m], label = labels.data[at + m];
                if (h < 0 || h > n) continue;
                double marginal = marginals(h, m);
                marginal = marginal > 0.0 ? marginal : 0.0;
                head_marginals.data[at + m] = marginal < 1.0 ? marginal : 1.0;
                if (!scores.has_labels || label < 0 || label >= scores.labels.joint->width) continue;
                sum_labels(h, m, scores.labels, scores.labels.sums);
                // Padding lanes are so low that they add nothing.
                label_marginals.data[at + m] = label_probability(
                    scores.labels.sums, scores.labels.joint->stride, label, label_scale);
            }
        }
        return OK;
    });
}

template<class W>
int64_t fill_k_best(const Sentences& sentences, const Scorer& scorer, const Search& search,
                    out_i64_2 heads, out_i64_2 labels, out_f64_2 totals) {
    const int64_t k = heads.n0, tokens = heads.n1;
    return for_scored<W>(sentences, scorer, [&](SentenceScores<W>& scores, int64_t b, int64_t start,
                                                int64_t n, Arena& arena) -> int64_t {
        View2<int64_t> found{arena.take<int64_t>(k * (n + 1)), n + 1};
        double* values = arena.take<double>(k);
        if (arena.failed()) return NO_MEMORY;
        const int64_t count = find_k_best_trees(scores, search, k, arena, found, values);
        if (count < 0) return NO_MEMORY;
        if (count == 0) return NO_TREE_FOUND;
        for (int64_t j = 0; j < count; ++j) {
            totals.data[j * totals.n1 + b] = values[j];
            for (int64_t m = 1; m <= n; ++m) heads.data[j * tokens + start + m] = found(j, m);
            fill_tree_labels(scores, found.row(j), labels.data + j * tokens + start);
        }
        return OK;
    });
}

}  // namespace

GPUPARSE(int64_t) prune_batch(const Sentences* sentences, const Scorer* scorer, const Search* search,
                              double scale, double threshold, int64_t max_heads, i64_1 firsts,
                              out_b8_1 cells) {
    const int64_t status = check_batch(*sentences, *scorer);
    if (status != OK) return status;
    if (!has_sums(search->decoder) || !can_decode(*search, *scorer)) return BAD_SHAPE;
    if (!are_by_token(*sentences, firsts.n0)) return BAD_SHAPE;
    return with_weights(scorer->weights.dtype, [&](auto weight) {
        return prune<decltype(weight)>(*sentences, *scorer, *search, scale, threshold, max_heads,
                                       firsts, cells);
    });
}

GPUPARSE(int64_t) find_marginals_batch(const Sentences* sentences, const Scorer* scorer,
                                       const Search* search, double arc_scale, double label_scale,
                                       bool least_risk, out_i64_2 heads, out_i64_2 labels,
                                       out_f64_2 head_marginals, out_f64_2 label_marginals,
                                       out_f64_1 log_partitions) {
    const int64_t status = check_batch(*sentences, *scorer);
    if (status != OK) return status;
    if (!has_sums(search->decoder) || !can_decode(*search, *scorer)) return BAD_SHAPE;
    const auto fits = [&](int64_t n0, int64_t n1) {
        return n0 == heads.n0 && are_by_token(*sentences, n1);
    };
    if (!fits(heads.n0, heads.n1) || !fits(labels.n0, labels.n1) || heads.n0 < 1 ||
        !fits(head_marginals.n0, head_marginals.n1) ||
        !fits(label_marginals.n0, label_marginals.n1) ||
        log_partitions.n0 != sentences->starts.n0)
        return BAD_SHAPE;
    return with_weights(scorer->weights.dtype, [&](auto weight) {
        return fill_marginals<decltype(weight)>(*sentences, *scorer, *search, arc_scale, label_scale,
                                                least_risk, heads, labels, head_marginals,
                                                label_marginals, log_partitions);
    });
}

GPUPARSE(int64_t) find_k_best_batch(const Sentences* sentences, const Scorer* scorer,
                                    const Search* search, out_i64_2 heads, out_i64_2 labels,
                                    out_f64_2 totals) {
    const int64_t status = check_batch(*sentences, *scorer);
    if (status != OK) return status;
    if (!has_sums(search->decoder) || !can_decode(*search, *scorer)) return BAD_SHAPE;
    if (heads.n0 < 1 || heads.n0 > MAX_RANK || labels.n0 != heads.n0 || totals.n0 != heads.n0 ||
        !are_by_token(*sentences, heads.n1) || !are_by_token(*sentences, labels.n1) ||
        totals.n1 != sentences->starts.n0)
        return BAD_SHAPE;
    return with_weights(scorer->weights.dtype, [&](auto weight) {
        return fill_k_best<decltype(weight)>(*sentences, *scorer, *search, heads, labels, totals);
    });
}
