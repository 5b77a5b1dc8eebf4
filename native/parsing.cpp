// Exported functions from token values to trees and labels.
#include "api/parsing.h"

#include "batch_checks.h"
#include "decode.h"
#include "labels.h"

using namespace gpuparse;

namespace {

constexpr int64_t NO_FAILURE = -1;  // every sentence has a tree

template<class W>
int64_t parse(const Sentences& sentences, const Scorer& scorer, const Search& search,
              const ArcCells* allowed, out_i64_1 heads, out_i64_1 labels, out_i64_2 marks) {
    Arena arena;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        ArenaMark mark(arena);
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        SentenceScores<W> scores = score_sentence<W>(sentences.values, start, n, scorer,
                                                     allowed_cells(allowed, start, n), arena);
        int64_t* own_labels = labels.n0 ? labels.data + start : arena.take<int64_t>(n + 1);
        if (arena.failed()) return NO_MEMORY;
        forbid_others(scores.arcs, n, start, sentences.known);
        // Labels are written only where they are found with the trees.
        int64_t* decoded = scores.labels_children ? own_labels : arena.take<int64_t>(n + 1);
        const Certificate result = find_tree<W>(scores.arcs, scores, search, arena,
                                                 heads.data + start, decoded, nullptr);
        if (arena.failed()) return NO_MEMORY;
        if (!result.found) return b;
        fill_tree_labels(scores, heads.data + start, own_labels);
        if (marks.n1 > 0) {
            marks.data[start] = result.is_proven;
            marks.data[marks.n1 + start] = result.iterations;
        }
    }
    return NO_FAILURE;
}

template<class W>
int64_t parse_graphs(const Sentences& sentences, const Scorer& scorer, const Search& search,
                     i64_1 firsts, out_i64_1 heads, out_b8_1 cells) {
    Arena arena;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        ArenaMark mark(arena);
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        SentenceScores<W> scores =
            score_sentence<W>(sentences.values, start, n, scorer, {nullptr, n + 1}, arena);
        if (arena.failed()) return NO_MEMORY;
        forbid_others(scores.arcs, n, start, sentences.known);
        const bool found = find_tree<W>(scores.arcs, scores, search, arena, heads.data + start,
                                        nullptr, cells.data + firsts.data[b]).found;
        if (arena.failed()) return NO_MEMORY;
        if (!found) return b;
    }
    return NO_FAILURE;
}

// Calls visit(start, n, positions) for each sentence with the positions of its tree; stops where
// memory runs out.
template<class Visit>
void visit_trees(const Sentences& sentences, i64_1 heads, Arena& arena, Visit visit) {
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        ArenaMark mark(arena);
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        LabelPositions positions;
        if (!positions.take(n, arena) || arena.failed()) return;
        positions.fill(heads.data + start, n);
        visit(start, n, positions);
    }
}

template<class W>
void label_trees(const Sentences& sentences, const LabelPlan& plan, const W* weights, int64_t n_lines,
                 int64_t width, i64_1 heads, out_i64_1 labels, Arena& arena) {
    int64_t* lines = arena.take<int64_t>(plan.direction.n0);
    Sum<W>* sums = arena.take<Sum<W>>(width);
    visit_trees(sentences, heads, arena, [&](int64_t start, int64_t n, LabelPositions& positions) {
        for (int64_t m = 1; m <= n; ++m) {
            fill_label_lines(sentences.values, start, plan, n_lines, width, positions.of(m), lines);
            sum_label_lines(weights, lines, plan.direction.n0, width, sums);
            labels.data[start + m] = first_best(sums, width);
        }
    });
}

template<class W>
void label_graphs(const Sentences& sentences, const LabelPlan& plan, const W* weights, int64_t n_lines,
                  int64_t width, i64_1 heads, i64_1 arc_starts, i64_1 arc_heads, b8_1 may_be_primary,
                  out_i64_1 labels, Arena& arena) {
    int64_t* lines = arena.take<int64_t>(plan.direction.n0);
    Sum<W>* sums = arena.take<Sum<W>>(width);
    visit_trees(sentences, heads, arena, [&](int64_t start, int64_t n, LabelPositions& positions) {
        for (int64_t m = 1; m <= n; ++m) {
            for (int64_t a = arc_starts.data[start + m]; a < arc_starts.data[start + m + 1]; ++a) {
                positions.turn_to_arc(heads.data + start, n, arc_heads.data[a], m);
                const int64_t* of_arc = positions.of(m);
                fill_label_lines(sentences.values, start, plan, n_lines, width, of_arc, lines);
                sum_label_lines(weights, lines, plan.direction.n0, width, sums);
                labels.data[a] = of_arc[OF_OTHER] == NO_NODE
                                     ? best_permitted(sums, width, may_be_primary.data, -1)
                                     : first_best(sums, width);
            }
        }
    });
}

template<class W>
void find_label_marginals(const Sentences& sentences, const LabelPlan& plan, const W* weights,
                          int64_t n_lines, int64_t width, double scale, i64_1 heads, i64_1 labels,
                          out_f64_1 marginals, Arena& arena) {
    int64_t* lines = arena.take<int64_t>(plan.direction.n0);
    Sum<W>* sums = arena.take<Sum<W>>(width);
    visit_trees(sentences, heads, arena, [&](int64_t start, int64_t n, LabelPositions& positions) {
        for (int64_t m = 1; m <= n; ++m) {
            const int64_t label = labels.data[start + m];
            if (label < 0) continue;
            fill_label_lines(sentences.values, start, plan, n_lines, width, positions.of(m), lines);
            sum_label_lines(weights, lines, plan.direction.n0, width, sums);
            marginals.data[start + m] = label_probability(sums, width, label, scale);
        }
    });
}

}  // namespace

GPUPARSE(int64_t) parse_batch(const Sentences* sentences, const Scorer* scorer, const Search* search,
                              const ArcCells* allowed, out_i64_1 heads, out_i64_1 labels,
                              out_i64_2 marks) {
    const int64_t status = check_batch(*sentences, *scorer);
    if (status != OK) return status;
    if (!can_decode(*search, *scorer) || search->decoder == BY_MULTI_PARENT) return BAD_SHAPE;
    if (!are_by_token(*sentences, heads.n0) || (labels.n0 && !are_by_token(*sentences, labels.n0)))
        return BAD_SHAPE;
    if (marks.n1 && (marks.n0 != 2 || !are_by_token(*sentences, marks.n1))) return BAD_SHAPE;
    if (allowed && allowed->cells.n0 && !are_by_token(*sentences, allowed->firsts.n0))
        return BAD_SHAPE;
    return with_weights(scorer->weights.dtype, [&](auto weight) {
        return parse<decltype(weight)>(*sentences, *scorer, *search, allowed, heads, labels, marks);
    });
}

GPUPARSE(int64_t) parse_graphs_batch(const Sentences* sentences, const Scorer* scorer,
                                     const Search* search, i64_1 firsts, out_i64_1 heads,
                                     out_b8_1 cells) {
    const int64_t status = check_batch(*sentences, *scorer);
    if (status != OK) return status;
    if (!can_decode(*search, *scorer) || search->decoder != BY_MULTI_PARENT) return BAD_SHAPE;
    if (!are_by_token(*sentences, heads.n0) || firsts.n0 != sentences->starts.n0) return BAD_SHAPE;
    return with_weights(scorer->weights.dtype, [&](auto weight) {
        return parse_graphs<decltype(weight)>(*sentences, *scorer, *search, firsts, heads, cells);
    });
}

GPUPARSE(int64_t) label_batch(const Sentences* sentences, const LabelPlan* plan, any_2 weights,
                              i64_1 heads, out_i64_1 labels) {
    if (!are_by_token(*sentences, heads.n0) || !are_by_token(*sentences, labels.n0)) return BAD_SHAPE;
    Arena arena;
    const int64_t status = with_weights(weights.dtype, [&](auto weight) {
        label_trees(*sentences, *plan, (const decltype(weight)*)weights.data, weights.n0, weights.n1,
                    heads, labels, arena);
        return (int64_t)OK;
    });
    return arena.failed() ? (int64_t)NO_MEMORY : status;
}

GPUPARSE(int64_t) label_graphs_batch(const Sentences* sentences, const LabelPlan* plan, any_2 weights,
                                     i64_1 heads, i64_1 arc_starts, i64_1 arc_heads,
                                     b8_1 may_be_primary, out_i64_1 labels) {
    if (!are_by_token(*sentences, heads.n0) || !are_by_token(*sentences, arc_starts.n0 - 1) ||
        arc_heads.n0 != labels.n0 || may_be_primary.n0 != weights.n1)
        return BAD_SHAPE;
    Arena arena;
    const int64_t status = with_weights(weights.dtype, [&](auto weight) {
        label_graphs(*sentences, *plan, (const decltype(weight)*)weights.data, weights.n0, weights.n1,
                     heads, arc_starts, arc_heads, may_be_primary, labels, arena);
        return (int64_t)OK;
    });
    return arena.failed() ? (int64_t)NO_MEMORY : status;
}

GPUPARSE(int64_t) find_label_marginals_batch(const Sentences* sentences, const LabelPlan* plan,
                                             any_2 weights, double scale, i64_1 heads, i64_1 labels,
                                             out_f64_1 marginals) {
    if (!are_by_token(*sentences, heads.n0) || !are_by_token(*sentences, labels.n0) ||
        !are_by_token(*sentences, marginals.n0))
        return BAD_SHAPE;
    Arena arena;
    const int64_t status = with_weights(weights.dtype, [&](auto weight) {
        find_label_marginals(*sentences, *plan, (const decltype(weight)*)weights.data, weights.n0,
                             weights.n1, scale, heads, labels, marginals, arena);
        return (int64_t)OK;
    });
    return arena.failed() ? (int64_t)NO_MEMORY : status;
}
