// Exported functions of scores and weight rows.
#include "api/scoring.h"

#include "batch_checks.h"
#include "labels.h"
#include "part_rows.h"
#include "sentence_scores.h"

using namespace gpuparse;

namespace {

// The type of dense scores.
template<class W> struct DenseType { using type = double; };
template<> struct DenseType<float> { using type = float; };
template<class W> using Dense = typename DenseType<W>::type;

// Call function(W(), arena, b, start, n) for every sentence, in an arena that is emptied in between.
template<class Function>
int64_t for_sentences(const Sentences& sentences, int64_t dtype, Function function) {
    return with_weights(dtype, [&](auto weight) {
        Arena arena;
        for (int64_t b = 0; b < sentences.starts.n0; ++b) {
            ArenaMark mark(arena);
            function(weight, arena, b, sentences.starts.data[b], sentences.lengths.data[b]);
            if (arena.failed()) return (int64_t)NO_MEMORY;
        }
        return (int64_t)OK;
    });
}

// Whether dense scores have a row for every sentence and node, and the type of sums of the weights.
template<class Scores>
int64_t check_dense(const Sentences& sentences, const Scorer& scorer, const Scores& scores) {
    const int64_t status = check_batch(sentences, scorer);
    if (status != OK) return status;
    if (scores.dtype != (scorer.weights.dtype == DT_F32 ? DT_F32 : DT_F64)) return BAD_TYPE;
    if (scores.n0 != sentences.starts.n0 || scores.n1 != scores.n2) return BAD_SHAPE;
    for (int64_t b = 0; b < sentences.lengths.n0; ++b)
        if (sentences.lengths.data[b] >= scores.n1) return BAD_SHAPE;
    return OK;
}

template<class W>
void score_arcs(const Sentences& sentences, const Scorer& scorer, int64_t b, Arena& arena,
                Dense<W>* out, int64_t N) {
    const int64_t n = sentences.lengths.data[b], nodes = n + 1;
    PairSums<W> sums = take_pair_sums<W>(*scorer.plan->arcs, n, arena);
    View2<Sum<W>> scores{arena.take<Sum<W>>(nodes * nodes), nodes};
    if (arena.failed()) return;
    score_arcs_sentence(sentences.values, sentences.starts.data[b], n, *scorer.plan->arcs,
                        (const W*)scorer.weights.data, *scorer.rows, sums, arena, scores);
    for (int64_t h = 0; h <= n; ++h)
        for (int64_t m = 1; m <= n; ++m)
            if (h != m) out[h * N + m] = scores(h, m);
}

template<class W>
void score_guides(const Sentences& sentences, const Scorer& scorer, int64_t b, Arena& arena,
                  Dense<W>* out, int64_t N) {
    const int64_t n = sentences.lengths.data[b], start = sentences.starts.data[b], nodes = n + 1;
    const GuidePlan& plan = *scorer.plan->guide;
    ArcKeys keys = take_arc_keys(*plan.arcs, n, arena);
    int64_t* found = arena.take<int64_t>(max_rows(*plan.arcs, 0) + 1);
    View2<Sum<W>> scores{arena.take_zeros<Sum<W>>(nodes * nodes), nodes};
    if (arena.failed()) return;
    fill_arc_keys(sentences.values, start, n, *plan.arcs, *scorer.rows, keys);
    add_guides(sentences.values, start, n, plan, (const W*)scorer.weights.data, *scorer.rows, keys,
               found, scores);
    for (int64_t h = 0; h <= n; ++h)
        for (int64_t m = 1; m <= n; ++m) out[h * N + m] = scores(h, m);
}

template<class W>
void score_all_siblings(const Sentences& sentences, const Scorer& scorer, int64_t b, Arena& arena,
                        Dense<W>* out, Dense<W>* ends, int64_t N) {
    const int64_t n = sentences.lengths.data[b];
    SiblingKeys keys;
    const FactoredSiblings<W, double> siblings =
        score_siblings(sentences.values, sentences.starts.data[b], n, *scorer.plan->siblings,
                       (const W*)scorer.weights.data, *scorer.rows, arena, keys);
    if (arena.failed()) return;
    for (int64_t h = 0; h <= n; ++h) {
        for (int64_t m = 1; m <= n; ++m) {
            ends[h * N + m] = (Dense<W>)siblings.end(h, m);
            if (h == m) continue;
            Dense<W>* row = out + (h * N + m) * N;
            row[h] = (Dense<W>)siblings.score(h, m, h);
            for (int64_t s = (h < m ? h : m) + 1; s < (h < m ? m : h); ++s)
                row[s] = (Dense<W>)siblings.score(h, m, s);
        }
    }
}

template<class W>
void score_all_labels(const Sentences& sentences, const Scorer& scorer, int64_t b, Arena& arena,
                      Dense<W>* out, int64_t N, int64_t width) {
    const int64_t n = sentences.lengths.data[b];
    LabelSums<W> labels = take_label_sums<W>(*scorer.joint, n, arena);
    if (arena.failed()) return;
    fill_label_sums(sentences.values, sentences.starts.data[b], labels);
    for (int64_t h = 0; h <= n; ++h)
        for (int64_t m = 1; m <= n; ++m) {
            if (h == m) continue;
            sum_labels(h, m, labels, labels.sums);
            for (int64_t label = 0; label < width; ++label)
                out[(h * N + m) * width + label] = labels.sums[label];
        }
}

bool are_nodes(int64_t n, int64_t one, int64_t other) {
    return 0 <= one && one <= n && 0 <= other && other <= n;
}

}  // namespace

GPUPARSE(int64_t) score_arcs_batch(const Sentences* sentences, const Scorer* scorer, out_any_3 arcs) {
    const int64_t status = check_dense(*sentences, *scorer, arcs);
    if (status != OK) return status;
    return for_sentences(*sentences, scorer->weights.dtype,
                         [&](auto weight, Arena& arena, int64_t b, int64_t, int64_t) {
        using W = decltype(weight);
        score_arcs<W>(*sentences, *scorer, b, arena, (Dense<W>*)arcs.data + b * arcs.n1 * arcs.n2, arcs.n2);
    });
}

GPUPARSE(int64_t) score_guides_batch(const Sentences* sentences, const Scorer* scorer, out_any_3 arcs) {
    const int64_t status = check_dense(*sentences, *scorer, arcs);
    if (status != OK) return status;
    if (!scorer->plan->guide) return BAD_SHAPE;
    return for_sentences(*sentences, scorer->weights.dtype,
                         [&](auto weight, Arena& arena, int64_t b, int64_t, int64_t) {
        using W = decltype(weight);
        score_guides<W>(*sentences, *scorer, b, arena, (Dense<W>*)arcs.data + b * arcs.n1 * arcs.n2,
                        arcs.n2);
    });
}

GPUPARSE(int64_t) score_siblings_batch(const Sentences* sentences, const Scorer* scorer,
                                       out_any_4 siblings, out_any_3 ends) {
    int64_t status = check_dense(*sentences, *scorer, ends);
    if (status == OK) status = check_dense(*sentences, *scorer, siblings);
    if (status != OK) return status;
    const int64_t N = ends.n1;
    if (!scorer->plan->siblings || siblings.n1 != N || siblings.n3 != N) return BAD_SHAPE;
    return for_sentences(*sentences, scorer->weights.dtype,
                         [&](auto weight, Arena& arena, int64_t b, int64_t, int64_t) {
        using W = decltype(weight);
        score_all_siblings<W>(*sentences, *scorer, b, arena, (Dense<W>*)siblings.data + b * N * N * N,
                              (Dense<W>*)ends.data + b * N * N, N);
    });
}

GPUPARSE(int64_t) score_labels_batch(const Sentences* sentences, const Scorer* scorer,
                                     out_any_4 labels) {
    const int64_t status = check_dense(*sentences, *scorer, labels);
    if (status != OK) return status;
    const int64_t N = labels.n1;
    if (!scorer->joint || labels.n3 != scorer->joint->width) return BAD_SHAPE;
    return for_sentences(*sentences, scorer->weights.dtype,
                         [&](auto weight, Arena& arena, int64_t b, int64_t, int64_t) {
        using W = decltype(weight);
        score_all_labels<W>(*sentences, *scorer, b, arena,
                            (Dense<W>*)labels.data + b * N * N * labels.n3, N, labels.n3);
    });
}

GPUPARSE(int64_t) list_part_rows(const Sentences* sentences, const Scorer* scorer, i64_2 parts,
                                 out_i64_2 rows) {
    const int64_t status = check_batch(*sentences, *scorer);
    if (status != OK) return status;
    if (sentences->starts.n0 != 1 || parts.n1 != 6 || rows.n0 != parts.n0) return BAD_SHAPE;
    const int64_t start = sentences->starts.data[0], n = sentences->lengths.data[0];
    if (rows.n1 < max_rows_of_part(*scorer, n)) return BAD_SHAPE;
    Arena arena;
    const SentenceKeys keys = fill_sentence_keys(sentences->values, start, n, *scorer, arena);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t p = 0; p < parts.n0; ++p) {
        const int64_t* of = parts.data + 6 * p;
        if (!are_nodes(n, of[1], of[2]) || !are_nodes(n, of[3], of[4])) return BAD_SHAPE;
        if (of[0] < 0 || of[0] >= LABELLED_PART + HIGHER_KINDS || of[5] < 0) return BAD_SHAPE;
        const Part part{(int32_t)of[0], (int32_t)of[1], (int32_t)of[2], (int32_t)of[3],
                        (int32_t)of[4], (int32_t)of[5], -1};
        int64_t* found = rows.data + p * rows.n1;
        for (int64_t k = rows_of_part(sentences->values, start, part, *scorer, keys, found);
             k < rows.n1; ++k)
            found[k] = -1;
    }
    return OK;
}

GPUPARSE(int64_t) most_part_rows(const Scorer* scorer, int64_t n) {
    return max_rows_of_part(*scorer, n);
}

GPUPARSE(int64_t) list_label_lines(const Sentences* sentences, const LabelPlan* plan, int64_t n_lines,
                                   i64_1 heads, i64_2 arcs, out_i64_2 lines) {
    if (sentences->starts.n0 != 1 || sentences->lengths.n0 != 1 || arcs.n1 != 2) return BAD_SHAPE;
    if (!are_by_token(*sentences, heads.n0) || lines.n0 != arcs.n0 || lines.n1 != plan->direction.n0)
        return BAD_SHAPE;
    const int64_t start = sentences->starts.data[0], n = sentences->lengths.data[0];
    Arena arena;
    LabelPositions positions;
    if (!positions.take(n, arena)) return NO_MEMORY;
    positions.fill(heads.data + start, n);
    for (int64_t a = 0; a < arcs.n0; ++a) {
        const int64_t h = arcs.data[2 * a], m = arcs.data[2 * a + 1];
        if (!are_nodes(n, h, m)) return BAD_SHAPE;
        positions.turn_to_arc(heads.data + start, n, h, m);
        fill_label_lines(sentences->values, start, *plan, n_lines, 1, positions.of(m),
                         lines.data + a * lines.n1);
    }
    return OK;
}
