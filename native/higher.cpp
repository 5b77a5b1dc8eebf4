// Exported decoders of higher orders, over batches of dense scores.
#include "api/higher.h"

#include "check_scores.h"
#include "dense_parts.h"
#include "higher_order.h"

using namespace gpuparse;

namespace {

// So that the numbers of scores of four words, and of three with a label, fit in 64 bits.
constexpr int64_t MOST_NODES = 1 << 15, MOST_LABELS = 1 << 16, MOST_SETS = 1 << 20;

// Row b of scores, NULL if they have no elements.
template <class F>
const F* row_of(const any_2& scores, int64_t b) {
    return scores.n1 > 0 ? static_cast<const F*>(scores.data) + b * scores.n1 : nullptr;
}

bool are_lengths(i64_1 lengths, int64_t n_batch, int64_t n_nodes) {
    if (lengths.n0 != n_batch) return false;
    for (int64_t b = 0; b < n_batch; b++)
        if (lengths.data[b] < 0 || lengths.data[b] >= n_nodes) return false;
    return true;
}

bool are_limits(const Search& search) {
    for (int64_t k = 0; k < search.class_of.n0; k++)
        if (search.class_of.data[k] < 0 || search.class_of.data[k] >= search.masks.n0) return false;
    for (int64_t d = 0; d < search.masks.n0; d++)
        if (search.masks.data[d] < 0 || search.masks.data[d] >= MOST_SETS) return false;
    return search.class_of.n0 <= MOST_LABELS && search.masks.n0 < INT16_MAX;
}

// True if all arrays agree with B and N, and scores that are given have the cells of their words.
bool fit(const HigherOrderScores& scores, const Search& search, int64_t n_batch, int64_t N) {
    const int64_t L = scores.n_labels, cells = search.class_of.n0;
    if (N > MOST_NODES || L < 1 || L > MOST_LABELS || !are_limits(search)) return false;
    if (L > 1 && search.decoder != BY_EISNER_GRANDCHILD) return false;
    const auto is_fit = [&](const any_2& part, int64_t size) {
        return !part.n1 || (part.dtype == scores.arc.dtype && part.n0 == n_batch && part.n1 == size);
    };
    if (search.masks.n0 > 0 && (scores.limited.n0 != n_batch || scores.limited.n1 != N * N * cells))
        return false;
    return scores.arc.n1 == N * N * L && scores.arc.n0 == n_batch && is_fit(scores.end, N * N) &&
           is_fit(scores.sibling, N * N * N * L) && is_fit(scores.inner_grandchild, N * N * N * L) &&
           is_fit(scores.outer_grandchild, N * N * N * L) && is_fit(scores.grandparent, N * N * N) &&
           is_fit(scores.grand_sibling, N * N * N * N) && is_fit(scores.tri_sibling, N * N * N * N);
}

template <class F>
DenseParts<F> parts_of(const HigherOrderScores& scores, int64_t n_limited, int64_t n_nodes, int64_t b) {
    return {n_nodes, scores.n_labels, row_of<F>(scores.arc, b), row_of<F>(scores.sibling, b),
            row_of<F>(scores.grandparent, b), row_of<F>(scores.grand_sibling, b),
            row_of<F>(scores.tri_sibling, b), row_of<F>(scores.inner_grandchild, b),
            row_of<F>(scores.outer_grandchild, b), row_of<F>(scores.end, b),
            scores.limited.data + b * scores.limited.n1, n_limited, {}};
}

struct Results {
    out_i64_2 heads, labels;
    uint8_t* certified;
    int64_t* iterations;
};

template <class F>
int64_t search_all(const HigherOrderScores& scores, const Search& search, i64_1 lengths,
                   const Results& results) {
    Arena arena;
    const int64_t N = results.heads.n1;
    for (int64_t b = 0; b < results.heads.n0; b++) {
        ArenaMark mark(arena);
        const int64_t n = lengths.data[b];
        int64_t *heads = results.heads.data + b * N, *labels = results.labels.data + b * N;
        for (int64_t m = 0; m < N; m++) heads[m] = labels[m] = -1;
        Certificate found{true, true, 0};
        if (n > 0) {
            const DenseParts<F> parts = parts_of<F>(scores, search.class_of.n0, N, b);
            found = search_higher_order(parts.arc_scores(n, arena), parts, search, n, arena, heads, labels);
        }
        if (arena.failed()) return NO_MEMORY;
        results.certified[b] = found.is_proven;
        results.iterations[b] = found.iterations;
    }
    return OK;
}

// The sentences that have an unusable number, and their count.
template <class F>
int64_t find_suspicious(const any_4& scores, i64_1 lengths, uint8_t* suspicious) {
    const int64_t N = scores.n1, of_head = scores.n2 * scores.n3;
    int64_t count = 0;
    for (int64_t b = 0; b < scores.n0; b++) {
        const F* of_sentence = static_cast<const F*>(scores.data) + b * N * of_head;
        const int64_t n = lengths.data[b];
        // A little less than the largest score that is accepted, which is rounded.
        const F limit = (F)((double)largest_float<F>() / (double)(8 * n + 9));
        bool is_bad = scores.n2 == N && has_unusable(of_sentence, (n + 1) * of_head, limit);
        for (int64_t h = 0; scores.n2 > N && h <= n; h++)
            for (int64_t m = 1; m <= n; m++) {
                // h, for no inner sibling, and the words between are rows next to each other.
                const int64_t s = h < m ? h : m + 1, rows = h < m ? m - h : h - m;
                is_bad |= has_unusable(of_sentence + h * of_head + (m * N + s) * scores.n3,
                                       rows * scores.n3, limit);
            }
        suspicious[b] = is_bad;
        count += is_bad;
    }
    return count;
}

}  // namespace

GPUPARSE(int64_t) higher_order_batch(const HigherOrderScores* scores, const Search* search,
                                     i64_1 lengths, out_i64_2 heads, out_i64_2 labels,
                                     out_b8_1 certified, out_i64_1 iterations) {
    const int64_t n_batch = heads.n0, N = heads.n1;
    const bool is_single = scores->arc.dtype == DT_F32;
    if (!is_single && scores->arc.dtype != DT_F64) return BAD_TYPE;
    if (!is_higher_order(search->decoder) || !fit(*scores, *search, n_batch, N) ||
        !are_lengths(lengths, n_batch, N) || labels.n0 != n_batch || labels.n1 != N ||
        certified.n0 != n_batch || iterations.n0 != n_batch)
        return BAD_SHAPE;
    const Results results{heads, labels, certified.data, iterations.data};
    return is_single ? search_all<float>(*scores, *search, lengths, results)
                     : search_all<double>(*scores, *search, lengths, results);
}

GPUPARSE(int64_t) find_suspicious_sentences(any_4 scores, i64_1 lengths, out_b8_1 suspicious) {
    const int64_t N = scores.n1;
    if (suspicious.n0 != scores.n0 || (scores.n2 != N && scores.n2 != N * N) ||
        !are_lengths(lengths, scores.n0, N))
        return BAD_SHAPE;
    if (scores.dtype == DT_F32) return find_suspicious<float>(scores, lengths, suspicious.data);
    if (scores.dtype == DT_F64) return find_suspicious<double>(scores, lengths, suspicious.data);
    return BAD_TYPE;
}
