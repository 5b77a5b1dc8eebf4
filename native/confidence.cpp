// Exported functions of marginals, k best trees and pruning.
#include "confidence.h"

#include "labels.h"

using namespace gpuparse;

GPUPARSE(int64_t) prune_batch(const Sentences* sentences, const Scorer* scorer, const Search* search,
                              double scale, double threshold, int64_t max_heads, i64_1 firsts,
                              out_b8_1 cells) {
    const int64_t status = check_search(*sentences, *scorer, *search, firsts.n0);
    if (status != OK) return status;
    if (!has_sums(search->decoder) || !squares_fit(*sentences, firsts, cells.n0)) return BAD_SHAPE;
    return for_scored(*sentences, *scorer, nullptr,
                      [&](auto& scores, const Sentence& sentence, Arena& arena) {
        const int64_t n = sentence.n, nodes = n + 1;
        int64_t* heads = arena.take<int64_t>(nodes);
        View2<double> marginals{arena.take<double>(nodes * nodes), nodes};
        if (arena.failed()) return false;
        if (!find_tree(scores.arcs, scores, *search, arena, heads, nullptr, nullptr).found ||
            isnan(find_marginals(scores, *search, scale, arena, marginals)))
            return false;
        uint8_t* left = cells.data + firsts.data[sentence.start];
        keep_likely_arcs(marginals, heads, n, threshold, max_heads, left);
        for (int64_t m = 1; m <= n; ++m)
            if (sentences->known.n0 > 0 && sentences->known.data[sentence.start + m] >= 0)
                for (int64_t h = 0; h <= n; ++h) left[h * nodes + m] = h == heads[m];
        return true;
    });
}

GPUPARSE(int64_t) find_marginals_batch(const Sentences* sentences, const Scorer* scorer,
                                       const Search* search, double arc_scale, double label_scale,
                                       bool least_risk, out_i64_2 heads, out_i64_2 labels,
                                       out_f64_2 head_marginals, out_f64_2 label_marginals,
                                       out_f64_1 log_partitions) {
    const int64_t status = check_search(*sentences, *scorer, *search, heads.n1);
    if (status != OK) return status;
    const auto fits = [&](const auto& array) { return array.n0 == heads.n0 && array.n1 == heads.n1; };
    if (!has_sums(search->decoder) || heads.n0 < 1 || !fits(labels) || !fits(head_marginals) ||
        !fits(label_marginals) || log_partitions.n0 != sentences->starts.n0)
        return BAD_SHAPE;
    return for_scored(*sentences, *scorer, nullptr,
                      [&](auto& scores, const Sentence& sentence, Arena& arena) {
        const int64_t n = sentence.n, start = sentence.start;
        double& log_partition = log_partitions.data[sentence.b];
        View2<double> marginals{arena.take<double>((n + 1) * (n + 1)), n + 1};
        if (arena.failed()) return false;
        log_partition = find_marginals(scores, *search, arc_scale, arena, marginals);
        if (isnan(log_partition) || log_partition == -(double)INFINITY) return false;
        if (least_risk) {
            if (!find_least_risk(scores, marginals, *search, arena, heads.data + start)) return false;
            fill_tree_labels(scores, heads.data + start, labels.data + start);
        }
        for (int64_t k = 0; k < heads.n0; ++k) {
            const int64_t at = k * heads.n1 + start;
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
        return true;
    });
}

GPUPARSE(int64_t) find_k_best_batch(const Sentences* sentences, const Scorer* scorer,
                                    const Search* search, out_i64_2 heads, out_i64_2 labels,
                                    out_f64_2 totals) {
    const int64_t status = check_search(*sentences, *scorer, *search, heads.n1), k = heads.n0;
    if (status != OK) return status;
    if (!has_sums(search->decoder) || k < 1 || k > MAX_RANK || labels.n0 != k || totals.n0 != k ||
        labels.n1 != heads.n1 || totals.n1 != sentences->starts.n0)
        return BAD_SHAPE;
    return for_scored(*sentences, *scorer, nullptr,
                      [&](auto& scores, const Sentence& sentence, Arena& arena) {
        const int64_t n = sentence.n;
        View2<int64_t> found{arena.take<int64_t>(k * (n + 1)), n + 1};
        double* values = arena.take<double>(k);
        if (arena.failed()) return false;
        const int64_t count = find_k_best_trees(scores, *search, k, arena, found, values);
        for (int64_t j = 0; j < count; ++j) {
            const int64_t at = j * heads.n1 + sentence.start;
            totals.data[j * totals.n1 + sentence.b] = values[j];
            for (int64_t m = 1; m <= n; ++m) heads.data[at + m] = found(j, m);
            fill_tree_labels(scores, found.row(j), labels.data + at);
        }
        return count > 0;
    });
}
