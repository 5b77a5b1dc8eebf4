// Exported decoders beyond the second order, over batches of dense scores.
#include "api/higher.h"

#include "check_scores.h"
#include "dense_blocks.h"
#include "dual_decomposition.h"
#include "grand_sibling.h"
#include "grandchild.h"
#include "prefer_projective.h"
#include "tri_sibling.h"

using namespace gpuparse;

namespace {

// So that the numbers of scores of four words, and of three with a label, fit in 64 bits.
constexpr int64_t MOST_NODES = 1 << 15, MOST_LABELS = 1 << 16;

// -1 where no word is.
void clear_row(const out_i64_2& rows, int64_t b) {
    for (int64_t m = 0; m < rows.n1; m++) rows.data[b * rows.n1 + m] = -1;
}

// Row b of scores, NULL if they have no elements.
template <class F>
const F* row_of(const any_2& scores, int64_t b) {
    return scores.n1 > 0 ? static_cast<const F*>(scores.data) + b * scores.n1 : nullptr;
}

const double* row_of(const f64_2& scores, int64_t b) { return scores.data + b * scores.n1; }

template <class F>
DenseParts<F> parts_of(const HigherOrderScores& scores, int64_t n_nodes, int64_t b) {
    return {n_nodes,
            row_of<F>(scores.arc, b),
            row_of<F>(scores.sibling, b),
            row_of<F>(scores.grandparent, b),
            row_of<F>(scores.grand_sibling, b),
            row_of<F>(scores.tri_sibling, b),
            row_of<F>(scores.outermost, b),
            row_of<F>(scores.end, b)};
}

// Whether scores are not given, or (B, cells) of the type.
bool fit(const any_2& scores, int64_t dtype, int64_t n_batch, int64_t cells) {
    return !scores.n1 || (scores.dtype == dtype && scores.n0 == n_batch && scores.n1 == cells);
}

bool are_lengths(i64_1 lengths, int64_t n_batch, int64_t n_nodes) {
    if (lengths.n0 != n_batch) return false;
    for (int64_t b = 0; b < n_batch; b++)
        if (lengths.data[b] < 0 || lengths.data[b] >= n_nodes) return false;
    return true;
}

int64_t check(const HigherOrderScores& scores, i64_1 lengths, const out_i64_2& heads) {
    const int64_t dtype = scores.arc.dtype, n_batch = heads.n0, N = heads.n1;
    if (dtype != DT_F32 && dtype != DT_F64) return BAD_TYPE;
    if (N > MOST_NODES) return BAD_SHAPE;
    const bool fits = scores.arc.n1 == N * N && fit(scores.arc, dtype, n_batch, N * N) &&
                      fit(scores.end, dtype, n_batch, N * N) &&
                      fit(scores.sibling, dtype, n_batch, N * N * N) &&
                      fit(scores.grandparent, dtype, n_batch, N * N * N) &&
                      fit(scores.grand_sibling, dtype, n_batch, N * N * N * N) &&
                      fit(scores.tri_sibling, dtype, n_batch, N * N * N * N) &&
                      fit(scores.outermost, dtype, n_batch, N * N * N * N);
    return fits && are_lengths(lengths, n_batch, N) ? OK : BAD_SHAPE;
}

template <class F>
Candidates find_dense_candidates(const DenseParts<F>& parts, int64_t n, Arena& arena) {
    const View2<const F> arcs{parts.arc, parts.n_nodes};
    return find_candidates(allowed_arcs(arcs, View2<const uint8_t>{}, n, arena), n, arena);
}

template <class F>
bool by_grand_siblings(const DenseParts<F>& parts, int64_t n, bool single_root, Arena& arena,
                       int64_t* heads, F* total) {
    const Candidates c = find_dense_candidates(parts, n, arena);
    const Blocks<F> blocks = parts.grand_siblings(c, arena);
    const F* ends = parts.ends(c, arena);
    if (arena.failed() || !eisner_grand_sibling_sentence(c, blocks, ends, single_root, arena, heads))
        return false;
    *total = grand_sibling_tree_score(c, blocks, ends, heads);
    return true;
}

template <class F>
bool by_tri_siblings(const DenseParts<F>& parts, int64_t n, bool single_root, Arena& arena,
                     int64_t* heads, F* total) {
    const Candidates c = find_dense_candidates(parts, n, arena);
    const Blocks<F> blocks = parts.tri_siblings(c, arena);
    const Blocks<F> outermost = parts.outermost_pairs(c, arena);
    const F* ends = parts.ends(c, arena);
    if (arena.failed() ||
        !eisner_tri_sibling_sentence(c, blocks, outermost, ends, single_root, arena, heads))
        return false;
    *total = tri_sibling_tree_score(c, blocks, outermost, ends, heads);
    return true;
}

template <class F>
using Search = bool (*)(const DenseParts<F>&, int64_t, bool, Arena&, int64_t*, F*);

template <class F>
int64_t search_all(Search<F> search, const HigherOrderScores& scores, i64_1 lengths, bool single_root,
                   const out_i64_2& heads, F* totals) {
    Arena arena;
    for (int64_t b = 0; b < heads.n0; b++) {
        ArenaMark mark(arena);
        clear_row(heads, b);
        totals[b] = 0;
        if (lengths.data[b] == 0) continue;
        int64_t* of_sentence = heads.data + b * heads.n1;
        if (!search(parts_of<F>(scores, heads.n1, b), lengths.data[b], single_root, arena, of_sentence,
                    totals + b))
            totals[b] = -(F)INFINITY;
        if (arena.failed()) return NO_MEMORY;
    }
    return OK;
}

int64_t search_all(Search<float> single, Search<double> wide, const HigherOrderScores& scores,
                   i64_1 lengths, bool single_root, const out_i64_2& heads, const out_any_1& totals) {
    const int64_t status = check(scores, lengths, heads);
    if (status != OK) return status;
    if (totals.dtype != scores.arc.dtype) return BAD_TYPE;
    if (totals.n0 != heads.n0) return BAD_SHAPE;
    if (scores.arc.dtype == DT_F32)
        return search_all(single, scores, lengths, single_root, heads, (float*)totals.data);
    return search_all(wide, scores, lengths, single_root, heads, (double*)totals.data);
}

template <class F>
int64_t grandchildren(const GrandchildScores& scores, i64_1 lengths, bool single_root,
                      const out_i64_2& heads, const out_i64_2& labels, F* totals) {
    Arena arena;
    for (int64_t b = 0; b < heads.n0; b++) {
        ArenaMark mark(arena);
        clear_row(heads, b);
        clear_row(labels, b);
        totals[b] = 0;
        const int64_t n = lengths.data[b];
        if (n == 0) continue;
        const DenseGrandchildParts<F> parts{heads.n1,
                                            scores.n_labels,
                                            row_of<F>(scores.arc, b),
                                            row_of<F>(scores.sibling, b),
                                            row_of<F>(scores.inner, b),
                                            row_of<F>(scores.outer, b)};
        const Candidates c = find_candidates(parts.allowed_arcs(n, arena), n, arena);
        GrandchildBlocks<F> blocks;
        if (arena.failed() || !parts.fill(c, arena, &blocks)) return NO_MEMORY;
        int64_t *of_heads = heads.data + b * heads.n1, *of_labels = labels.data + b * labels.n1;
        if (eisner_grandchild_sentence(c, blocks, single_root, arena, of_heads, of_labels))
            totals[b] = grandchild_tree_score(c, blocks, of_heads, of_labels);
        else
            totals[b] = -(F)INFINITY;
        if (arena.failed()) return NO_MEMORY;
    }
    return OK;
}

// 1 if all scores that are finite are whole, and so small that sums are exact; else 0.
double granularity_of(const double* scores, int64_t count) {
    const double largest_whole = 4503599627370496.0;  // 2^52
    for (int64_t i = 0; i < count; i++) {
        const double score = scores[i], size = fabs(score);
        if (size < (double)INFINITY && (score != floor(score) || size > largest_whole)) return 0.0;
    }
    return 1.0;
}

// The labels of one sentence.
struct DenseLabels {
    const double* scores;  // [h, m, l]
    int64_t n_nodes;
    const LimitedLabels& labels;

    int64_t n_labels() const { return labels.class_of.n0; }
    const double* of_arc(int64_t h, int64_t m) const { return scores + (h * n_nodes + m) * n_labels(); }

    // Only arcs with a label that is not forbidden stay allowed.
    void restrict_arcs(int64_t n, uint8_t* allowed) const {
        for (int64_t h = 0; h <= n; h++)
            for (int64_t m = 1; m <= n; m++) {
                if (!allowed[h * (n + 1) + m]) continue;
                bool has_label = false;
                for (int64_t k = 0; k < n_labels(); k++) has_label |= of_arc(h, m)[k] > -(double)INFINITY;
                allowed[h * (n + 1) + m] = has_label;
            }
    }

    // Limits with the best label of each class; scores NULL: no memory.
    LabelLimits limits(const Candidates& c, Arena& arena) const {
        LabelLimits limits;
        limits.masks = labels.masks.data;
        limits.n_classes = labels.masks.n0;
        double* best = arena.take_filled<double>(c.n_arcs * limits.n_classes, -(double)INFINITY);
        for (int64_t a = 1; best && a < c.n_arcs; a++)
            for (int64_t k = 0; k < n_labels(); k++) {
                double& of_class = best[a * limits.n_classes + labels.class_of.data[k]];
                const double score = of_arc(c.head[a], c.modifier[a])[k];
                of_class = score > of_class ? score : of_class;
            }
        limits.scores = best;
        return limits;
    }

    // The first best label of each class of a tree; added to `total` in the order of the words.
    double take_labels(int64_t n, const int64_t* heads, const int64_t* classes, double total,
                       int64_t* chosen) const {
        for (int64_t m = 1; m <= n; m++) {
            const double* row = of_arc(heads[m], m);
            chosen[m] = first_best_label(row, labels.class_of.data, n_labels(), classes[m]);
            total += row[chosen[m]];
        }
        return total;
    }
};

struct DualResults {
    out_i64_2 heads, labels;
    double* totals;
    uint8_t* certified;
    int64_t* iterations;
};

// (count,) as float64; NULL: no memory.
template <class F>
const double* widen(const F* values, int64_t count, Arena& arena) {
    double* wide = values ? arena.take<double>(count) : nullptr;
    for (int64_t i = 0; wide && i < count; i++) wide[i] = (double)values[i];
    return wide;
}
inline const double* widen(const double* values, int64_t, Arena&) { return values; }

template <class F>
int64_t decompose(const HigherOrderScores& scores, const LimitedLabels& given, i64_1 lengths,
                  bool has_grandparents, const DualLimits& options, const DualResults& results) {
    Arena arena;
    const int64_t n_nodes = results.heads.n1;
    const bool has_labels = given.masks.n0 > 0;
    for (int64_t b = 0; b < results.heads.n0; b++) {
        ArenaMark mark(arena);
        const int64_t n = lengths.data[b];
        clear_row(results.heads, b);
        if (has_labels) clear_row(results.labels, b);
        const DenseParts<F> dense = parts_of<F>(scores, n_nodes, b);
        const DenseLabels labels{row_of(given.scores, b), n_nodes, given};
        uint8_t* allowed =
            allowed_arcs(View2<const F>{dense.arc, n_nodes}, View2<const uint8_t>{}, n, arena);
        if (!allowed) return NO_MEMORY;
        if (has_labels) labels.restrict_arcs(n, allowed);
        const Candidates c = find_candidates(allowed, n, arena);
        const Blocks<F> of_type =
            has_grandparents ? dense.grand_siblings(c, arena) : dense.siblings(c, arena);
        if (arena.failed()) return NO_MEMORY;
        const Blocks<double> blocks{widen(of_type.data, of_type.start[c.n_arcs], arena), of_type.start};
        const double* ends = widen(dense.ends(c, arena), c.n_arcs, arena);
        const LabelLimits limits = has_labels ? labels.limits(c, arena) : LabelLimits{};
        int64_t* classes = arena.take<int64_t>(n + 1);
        if (arena.failed()) return NO_MEMORY;
        double granularity = options.granularity;
        if (granularity < 0)
            granularity = granularity_of(blocks.data, blocks.start[c.n_arcs]) *
                          granularity_of(ends, c.n_arcs) *
                          granularity_of(limits.scores, c.n_arcs * limits.n_classes);
        const CrossingParts parts{c, blocks, ends, has_grandparents};
        int64_t* heads = results.heads.data + b * n_nodes;
        Certificate found;
        if (has_labels) {
            found = dual_decomposition_labelled_sentence(parts, limits, options.single_root,
                                                         options.max_iterations, granularity, arena,
                                                         heads, classes);
            if (found.found)
                found.is_proven &= prefer_projective_labelled(parts, limits, options.single_root,
                                                              options.min_gain, arena, heads, classes);
        } else {
            found = dual_decomposition_sentence(parts, options.single_root, options.max_iterations,
                                                granularity, arena, heads);
            if (found.found)
                prefer_projective(parts, options.single_root, options.min_gain, arena, heads);
        }
        double total = found.found ? block_tree_score(parts, arena, heads) : -(double)INFINITY;
        if (found.found && has_labels)
            total = labels.take_labels(n, heads, classes, total, results.labels.data + b * n_nodes);
        if (arena.failed()) return NO_MEMORY;
        results.totals[b] = total;
        results.certified[b] = found.is_proven;
        results.iterations[b] = found.iterations;
    }
    return OK;
}

bool are_classes(const LimitedLabels& labels) {
    for (int64_t k = 0; k < labels.class_of.n0; k++)
        if (labels.class_of.data[k] < 0 || labels.class_of.data[k] >= labels.masks.n0) return false;
    for (int64_t d = 0; d < labels.masks.n0; d++)
        if (labels.masks.data[d] < 0 || labels.masks.data[d] >= 1 << 20) return false;
    return labels.masks.n0 < INT16_MAX;
}

template <class F>
void find_suspicious(const any_3& scores, i64_1 lengths, f64_1 limit, uint8_t* suspicious) {
    const int64_t row = scores.n1 * scores.n2;
    for (int64_t b = 0; b < scores.n0; b++) {
        const F* of_sentence = static_cast<const F*>(scores.data) + b * row;
        suspicious[b] =
            has_unusable(of_sentence, (lengths.data[b] + 1) * scores.n2, (F)limit.data[b]);
    }
}

}  // namespace

GPUPARSE(int64_t) eisner_grand_sibling_batch(const HigherOrderScores* scores, i64_1 lengths,
                                             bool single_root, out_i64_2 heads, out_any_1 totals) {
    return search_all(by_grand_siblings<float>, by_grand_siblings<double>, *scores, lengths,
                      single_root, heads, totals);
}

GPUPARSE(int64_t) eisner_tri_sibling_batch(const HigherOrderScores* scores, i64_1 lengths,
                                           bool single_root, out_i64_2 heads, out_any_1 totals) {
    return search_all(by_tri_siblings<float>, by_tri_siblings<double>, *scores, lengths, single_root,
                      heads, totals);
}

GPUPARSE(int64_t) eisner_grandchild_batch(const GrandchildScores* scores, i64_1 lengths,
                                          bool single_root, out_i64_2 heads, out_i64_2 labels,
                                          out_any_1 totals) {
    const int64_t dtype = scores->arc.dtype, n_batch = heads.n0, N = heads.n1, L = scores->n_labels;
    if ((dtype != DT_F32 && dtype != DT_F64) || totals.dtype != dtype) return BAD_TYPE;
    if (N > MOST_NODES || L < 1 || L > MOST_LABELS) return BAD_SHAPE;
    const any_2 parts[3] = {scores->sibling, scores->inner, scores->outer};
    for (const any_2& part : parts)
        if (part.n1 != N * N * N * L || !fit(part, dtype, n_batch, part.n1)) return BAD_SHAPE;
    if (scores->arc.n1 != N * N * L || scores->arc.n0 != n_batch || totals.n0 != n_batch ||
        labels.n0 != n_batch || labels.n1 != N || !are_lengths(lengths, n_batch, N))
        return BAD_SHAPE;
    if (dtype == DT_F32)
        return grandchildren(*scores, lengths, single_root, heads, labels, (float*)totals.data);
    return grandchildren(*scores, lengths, single_root, heads, labels, (double*)totals.data);
}

GPUPARSE(int64_t) dual_decomposition_batch(const HigherOrderScores* scores,
                                           const LimitedLabels* labels, i64_1 lengths,
                                           bool has_grandparents, const DualLimits* limits,
                                           out_i64_2 heads, out_i64_2 best_labels, out_f64_1 totals,
                                           out_b8_1 certified, out_i64_1 iterations) {
    const int64_t status = check(*scores, lengths, heads), N = heads.n1;
    if (status != OK) return status;
    if (totals.n0 != heads.n0 || certified.n0 != heads.n0 || iterations.n0 != heads.n0) return BAD_SHAPE;
    const LimitedLabels none = {};
    const LimitedLabels& given = labels ? *labels : none;
    if (given.masks.n0 > 0) {
        if (given.class_of.n0 > MOST_LABELS) return BAD_SHAPE;
        const int64_t cells = N * N * given.class_of.n0;
        if (!are_classes(given) || given.scores.n0 != heads.n0 || given.scores.n1 != cells ||
            best_labels.n0 != heads.n0 || best_labels.n1 != N)
            return BAD_SHAPE;
    }
    const DualResults results{heads, best_labels, totals.data, certified.data, iterations.data};
    if (scores->arc.dtype == DT_F32)
        return decompose<float>(*scores, given, lengths, has_grandparents, *limits, results);
    return decompose<double>(*scores, given, lengths, has_grandparents, *limits, results);
}

GPUPARSE(int64_t) best_labels_batch(const LimitedLabels* given, i64_1 lengths, i64_2 heads,
                                    out_i64_2 best_labels, out_f64_1 sums) {
    const int64_t n_nodes = heads.n1;
    if (n_nodes > MOST_NODES || given->class_of.n0 > MOST_LABELS) return BAD_SHAPE;
    if (!are_classes(*given) || !are_lengths(lengths, heads.n0, n_nodes) || sums.n0 != heads.n0 ||
        given->scores.n0 != heads.n0 || given->scores.n1 != n_nodes * n_nodes * given->class_of.n0 ||
        best_labels.n0 != heads.n0 || best_labels.n1 != n_nodes)
        return BAD_SHAPE;
    Arena arena;
    for (int64_t b = 0; b < heads.n0; b++) {
        ArenaMark mark(arena);
        const int64_t n = lengths.data[b];
        const int64_t* of_sentence = heads.data + b * n_nodes;
        uint8_t* allowed = arena.take_zeros<uint8_t>((n + 1) * (n + 1));
        if (!allowed) return NO_MEMORY;
        for (int64_t m = 1; m <= n; m++) {
            if (of_sentence[m] < 0 || of_sentence[m] > n || of_sentence[m] == m) return BAD_SHAPE;
            allowed[of_sentence[m] * (n + 1) + m] = 1;
        }
        const Candidates c = find_candidates(allowed, n, arena);
        if (arena.failed()) return NO_MEMORY;
        const DenseLabels labels{row_of(given->scores, b), n_nodes, *given};
        LabelLimits limits = labels.limits(c, arena);
        if (!limits.allocate(c.n_arcs, n, arena)) return NO_MEMORY;
        bool has_labels = true;
        for (int64_t h = 0; h <= n; h++)
            has_labels &= limits.label_head(c, of_sentence, h) > -(double)INFINITY;
        sums.data[b] = -(double)INFINITY;
        if (!has_labels) continue;
        int64_t* chosen = best_labels.data + b * n_nodes;
        sums.data[b] = labels.take_labels(n, of_sentence, limits.classes, 0.0, chosen);
    }
    return OK;
}

GPUPARSE(int64_t) find_suspicious_sentences(any_3 scores, i64_1 lengths, f64_1 limit,
                                            out_b8_1 suspicious) {
    if (limit.n0 != scores.n0 || suspicious.n0 != scores.n0 ||
        !are_lengths(lengths, scores.n0, scores.n1))
        return BAD_SHAPE;
    if (scores.dtype == DT_F32)
        find_suspicious<float>(scores, lengths, limit, suspicious.data);
    else if (scores.dtype == DT_F64)
        find_suspicious<double>(scores, lengths, limit, suspicious.data);
    else
        return BAD_TYPE;
    return OK;
}
