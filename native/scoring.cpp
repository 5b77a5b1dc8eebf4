// Exported functions of scores and weight rows.
#include "checks.h"
#include "labels.h"
#include "part_rows.h"

using namespace gpuparse;

namespace {

// The type of dense scores.
template<class W> struct DenseType { using type = double; };
template<> struct DenseType<float> { using type = float; };
template<class W> using Dense = typename DenseType<W>::type;

template<class F>
View2<F> of_sentence(const out_any_3& scores, int64_t b) {
    return view2((F*)scores.data + b * scores.n1 * scores.n2, scores.n2);
}
template<class F>
View3<F> of_sentence(const out_any_4& scores, int64_t b) {
    return view3((F*)scores.data + b * scores.n1 * scores.n2 * scores.n3, scores.n2, scores.n3);
}

// True if dense scores have a row for every sentence and node, and the type of sums of the weights.
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

// Call score(W(), sentence, keys, arena) for every sentence; W: the type of the weights.
template<class Score>
int64_t score_all(const Sentences& sentences, const Scorer& scorer, Score score) {
    const int64_t result = with_weights(scorer.weights.dtype, [&](auto weight) {
        return for_sentences(sentences, [&](const Sentence& sentence, Arena& arena) {
            const SentenceKeys keys = fill_sentence_keys(sentence, scorer, arena);
            if (!arena.failed()) score(weight, sentence, keys, arena);
            return true;
        });
    });
    return result == NO_FAILURE ? (int64_t)OK : result;
}

bool are_nodes(int64_t n, int64_t one, int64_t other) {
    return 0 <= one && one <= n && 0 <= other && other <= n;
}

}  // namespace

GPUPARSE(int64_t) score_arcs_batch(const Sentences* sentences, const Scorer* scorer, out_any_3 arcs) {
    const int64_t status = check_dense(*sentences, *scorer, arcs);
    if (status != OK) return status;
    return score_all(*sentences, *scorer, [&](auto weight, const Sentence& sentence,
                                              const SentenceKeys& keys, Arena& arena) {
        using W = decltype(weight);
        const int64_t n = sentence.n;
        View2<Sum<W>> scores{arena.take<Sum<W>>((n + 1) * (n + 1)), n + 1};
        if (arena.failed()) return;
        score_arcs(sentence, *scorer->plan->arcs, (const W*)scorer->weights.data, *scorer->rows,
                   keys.arcs, arena, scores);
        const auto out = of_sentence<Dense<W>>(arcs, sentence.b);
        for (int64_t h = 0; h <= n; ++h)
            for (int64_t m = 1; m <= n; ++m)
                if (h != m) out(h, m) = scores(h, m);
    });
}

GPUPARSE(int64_t) score_guides_batch(const Sentences* sentences, const Scorer* scorer, out_any_3 arcs) {
    const int64_t status = check_dense(*sentences, *scorer, arcs);
    if (status != OK) return status;
    if (!scorer->plan->guide) return BAD_SHAPE;
    return score_all(*sentences, *scorer, [&](auto weight, const Sentence& sentence,
                                              const SentenceKeys& keys, Arena& arena) {
        using W = decltype(weight);
        const int64_t n = sentence.n;
        View2<Sum<W>> scores{arena.take_zeros<Sum<W>>((n + 1) * (n + 1)), n + 1};
        if (arena.failed()) return;
        add_guides(sentence, *scorer->plan->guide, (const W*)scorer->weights.data, *scorer->rows,
                   keys.guide, arena, scores);
        const auto out = of_sentence<Dense<W>>(arcs, sentence.b);
        for (int64_t h = 0; h <= n; ++h)
            for (int64_t m = 1; m <= n; ++m) out(h, m) = scores(h, m);
    });
}

GPUPARSE(int64_t) score_vectors_batch(const Sentences* sentences, const WordVectors* vectors,
                                      int64_t kind, out_f64_3 pairs) {
    if (!fits(*vectors, *sentences) || !is_between(0, kind, PAIR_KINDS) || !has_pairs(vectors, kind) ||
        pairs.n0 != sentences->starts.n0 || pairs.n1 != pairs.n2)
        return BAD_SHAPE;
    for (int64_t b = 0; b < sentences->lengths.n0; ++b)
        if (sentences->lengths.data[b] >= pairs.n1) return BAD_SHAPE;
    const int64_t result = for_sentences(*sentences, [&](const Sentence& sentence, Arena& arena) {
        const int64_t n = sentence.n, nodes = n + 1;
        const View2<int32_t> sums{arena.take_zeros<int32_t>(nodes * nodes), nodes};
        const SentenceVectors* found = find_vectors(sentence, vectors, arena);
        if (arena.failed()) return false;
        add_vector_pairs(*found, kind, arena, sums);
        double* out = pairs.data + sentence.b * pairs.n1 * pairs.n2;
        for (int64_t h = 0; h <= n; ++h)
            for (int64_t m = 1; m <= n; ++m)
                if (h != m) out[h * pairs.n2 + m] = sums(h, m);
        return true;
    });
    return result == NO_FAILURE ? (int64_t)OK : result;
}

GPUPARSE(int64_t) score_siblings_batch(const Sentences* sentences, const Scorer* scorer,
                                       out_any_4 siblings, out_any_3 ends) {
    int64_t status = check_dense(*sentences, *scorer, ends);
    if (status == OK) status = check_dense(*sentences, *scorer, siblings);
    if (status != OK) return status;
    if (!scorer->plan->siblings || siblings.n1 != ends.n1 || siblings.n3 != ends.n1) return BAD_SHAPE;
    return score_all(*sentences, *scorer, [&](auto weight, const Sentence& sentence,
                                              const SentenceKeys& keys, Arena& arena) {
        using W = decltype(weight);
        const int64_t n = sentence.n;
        const FactoredSiblings<W, double> found =
            score_siblings(sentence, *scorer->plan->siblings, (const W*)scorer->weights.data,
                           *scorer->rows, keys.siblings, arena);
        if (arena.failed()) return;
        const auto out = of_sentence<Dense<W>>(siblings, sentence.b);
        const auto out_ends = of_sentence<Dense<W>>(ends, sentence.b);
        for (int64_t h = 0; h <= n && !is_interrupted(5 * n * n); ++h) {
            for (int64_t m = 1; m <= n; ++m) {
                out_ends(h, m) = (Dense<W>)found.end(h, m);
                if (h == m) continue;
                out(h, m, h) = (Dense<W>)found.score(h, m, h);
                for (int64_t s = (h < m ? h : m) + 1; s < (h < m ? m : h); ++s)
                    out(h, m, s) = (Dense<W>)found.score(h, m, s);
            }
        }
    });
}

GPUPARSE(int64_t) score_labels_batch(const Sentences* sentences, const Scorer* scorer,
                                     out_any_4 labels) {
    const int64_t status = check_dense(*sentences, *scorer, labels);
    if (status != OK) return status;
    if (!scorer->joint || labels.n3 != scorer->joint->width) return BAD_SHAPE;
    return score_all(*sentences, *scorer, [&](auto weight, const Sentence& sentence,
                                              const SentenceKeys& keys, Arena& arena) {
        using W = decltype(weight);
        const LabelSums<W> found =
            sum_label_words<W>(*scorer->joint, keys.labels,
                               find_vectors(sentence, scorer->vectors, arena), arena);
        if (arena.failed()) return;
        const auto out = of_sentence<Dense<W>>(labels, sentence.b);
        for (int64_t h = 0; h <= sentence.n && !is_interrupted(50 * sentence.n); ++h)
            for (int64_t m = 1; m <= sentence.n; ++m) {
                if (h == m) continue;
                sum_labels(h, m, found, found.sums);
                for (int64_t label = 0; label < labels.n3; ++label)
                    out(h, m, label) = found.sums[label];
            }
    });
}

GPUPARSE(int64_t) list_part_rows(const Sentences* sentences, const Scorer* scorer, i64_2 parts,
                                 out_i64_2 rows) {
    const int64_t status = check_batch(*sentences, *scorer, false);
    if (status != OK) return status;
    if (sentences->starts.n0 != 1 || parts.n1 != 6 || rows.n0 != parts.n0) return BAD_SHAPE;
    const Sentence sentence{sentences->values, 0, sentences->starts.data[0],
                            sentences->lengths.data[0]};
    const int64_t most = max_rows_of_part(*scorer, sentence.n);
    if (rows.n1 < most) return most;
    Arena arena;
    const SentenceKeys keys = fill_sentence_keys(sentence, *scorer, arena);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t p = 0; p < parts.n0; ++p) {
        const int64_t* of = parts.data + 6 * p;
        if (!are_nodes(sentence.n, of[1], of[2]) || !are_nodes(sentence.n, of[3], of[4]))
            return BAD_SHAPE;
        if (of[0] < 0 || of[0] >= LABELLED_PART + HIGHER_KINDS || of[5] < 0) return BAD_SHAPE;
        const Part part{(int32_t)of[0], (int32_t)of[1], (int32_t)of[2], (int32_t)of[3],
                        (int32_t)of[4], (int32_t)of[5], -1};
        PlacedRows found{{rows.data + p * rows.n1}};
        add_rows_of_part(sentence, part, *scorer, keys, found);
        while (found.count() < rows.n1) *found.end++ = -1;
    }
    return most;
}
