// Exported functions from token values to trees and labels.
#include "api/parsing.h"

#include "decode.h"
#include "labels.h"

using namespace gpuparse;

namespace {

// Call visit(arc, whether it is a second one of its modifier, what all labels score) for every arc.
template<class Visit>
int64_t for_label_sums(const Sentences& sentences, const LabelPlan& plan, const any_2& weights,
                       const WordVectors* vectors, const TreeArcs& arcs, Visit visit) {
    return with_weights(weights.dtype, [&](auto weight) {
        using W = decltype(weight);
        Arena arena;
        LabelScorer<W> scorer(plan, (const W*)weights.data, weights.n0, weights.n1, arena);
        scorer.add_vectors(vectors, sentences, arcs, arena);
        if (arena.failed()) return (int64_t)NO_MEMORY;
        return for_scored_arcs(sentences, arcs, scorer, [&](int64_t a, bool is_second) {
            visit(a, is_second, scorer.sums);
        });
    });
}

}  // namespace

GPUPARSE(int64_t) parse_batch(const Sentences* sentences, const Scorer* scorer, const Search* search,
                              const ArcCells* allowed, out_i64_1 heads, out_i64_1 labels,
                              out_i64_2 marks) {
    const int64_t status = check_search(*sentences, *scorer, *search, heads.n0);
    if (status != OK) return status;
    if (search->decoder == BY_MULTI_PARENT || !cells_fit(*sentences, allowed)) return BAD_SHAPE;
    if (labels.n0 && !are_by_token(*sentences, labels.n0)) return BAD_SHAPE;
    if (marks.n1 && (marks.n0 != 2 || !are_by_token(*sentences, marks.n1))) return BAD_SHAPE;
    if (!kept_fit(scorer->vectors, *sentences)) return BAD_SHAPE;
    int64_t node = 0;
    return for_scored(*sentences, *scorer, allowed,
                      [&](auto& scores, const Sentence& sentence, Arena& arena) {
        const int64_t start = sentence.start;
        int64_t* scratch = arena.take<int64_t>(sentence.n + 1);
        if (!scratch) return false;
        if (sentences->vectors.n0)
            scores.vectors->keep_labels(sentences->vectors.data + node * sentences->vectors.n1);
        node += sentence.n + 1;
        int64_t* own_labels = labels.n0 ? labels.data + start : scratch;
        // Labels are written only where they are found with the trees.
        const Certificate result =
            find_tree(scores.arcs, scores, *search, arena, heads.data + start,
                      scores.labels_children ? own_labels : scratch, nullptr);
        if (!result.found) return false;
        fill_tree_labels(scores, heads.data + start, own_labels);
        if (marks.n1 > 0) {
            marks.data[start] = result.is_proven;
            marks.data[marks.n1 + start] = result.iterations;
        }
        return true;
    });
}

GPUPARSE(int64_t) parse_graphs_batch(const Sentences* sentences, const Scorer* scorer,
                                     const Search* search, i64_1 firsts, out_i64_1 heads,
                                     out_b8_1 cells) {
    const int64_t status = check_search(*sentences, *scorer, *search, heads.n0);
    if (status != OK) return status;
    if (search->decoder != BY_MULTI_PARENT || firsts.n0 != sentences->starts.n0) return BAD_SHAPE;
    for (int64_t b = 0; b < firsts.n0; ++b)
        if (!is_square(firsts.data[b], sentences->lengths.data[b] + 1, cells.n0)) return BAD_SHAPE;
    return for_scored(*sentences, *scorer, nullptr,
                      [&](auto& scores, const Sentence& sentence, Arena& arena) {
        return find_tree(scores.arcs, scores, *search, arena, heads.data + sentence.start, nullptr,
                         cells.data + firsts.data[sentence.b]).found;
    });
}

GPUPARSE(int64_t) score_trees_batch(const Sentences* sentences, const Scorer* scorer,
                                    const Search* search, i64_1 heads, out_f64_1 scores) {
    const int64_t status = check_search(*sentences, *scorer, *search, heads.n0);
    if (status != OK) return status;
    if (search->decoder == BY_MULTI_PARENT || scores.n0 != sentences->starts.n0) return BAD_SHAPE;
    if (!are_heads(*sentences, heads, false)) return BAD_SHAPE;
    Sentences given = *sentences;
    given.known = heads;
    return for_scored(given, *scorer, nullptr,
                      [&](auto& found, const Sentence& sentence, Arena& arena) {
        const int64_t* const tree = heads.data + sentence.start;
        double& score = scores.data[sentence.b];
        if (!is_higher_order(search->decoder)) {
            score = search->decoder == BY_EISNER || search->decoder == BY_CHU_LIU_EDMONDS
                        ? tree_score<double>(found.arcs, sentence.n, tree)
                        : score_sibling_tree<double>(found.arcs, found.siblings, sentence.n, tree);
            return true;
        }
        int64_t* searched = arena.take<int64_t>(sentence.n + 1);
        if (!searched) return false;
        const Certificate result =
            find_tree(found.arcs, found, *search, arena, searched, nullptr, nullptr);
        score = result.score;
        return result.found;
    });
}

GPUPARSE(int64_t) label_batch(const Sentences* sentences, const LabelPlan* plan, any_2 weights,
                              const WordVectors* vectors, i64_1 heads, const GraphHeads* graphs,
                              out_i64_1 labels) {
    const int64_t width = weights.n1;
    if (!arcs_fit(*sentences, *plan, weights, vectors, heads, graphs, labels.n0)) return BAD_SHAPE;
    return for_label_sums(*sentences, *plan, weights, vectors, {heads, graphs},
                          [&](int64_t a, bool is_second, const auto* sums) {
        labels.data[a] = graphs && !is_second
                             ? best_permitted(sums, width, graphs->may_be_primary.data, -1)
                             : first_best(sums, width);
    });
}

GPUPARSE(int64_t) score_tree_labels_batch(const Sentences* sentences, const LabelPlan* plan,
                                          any_2 weights, const WordVectors* vectors, i64_1 heads,
                                          const GraphHeads* graphs, out_f64_2 scores) {
    const int64_t width = weights.n1;
    if (!arcs_fit(*sentences, *plan, weights, vectors, heads, graphs, scores.n0) || scores.n1 != width)
        return BAD_SHAPE;
    return for_label_sums(*sentences, *plan, weights, vectors, {heads, graphs},
                          [&](int64_t a, bool, const auto* sums) {
        for (int64_t label = 0; label < width; ++label)
            scores.data[a * width + label] = (double)sums[label];
    });
}

GPUPARSE(int64_t) find_label_marginals_batch(const Sentences* sentences, const LabelPlan* plan,
                                             any_2 weights, const WordVectors* vectors, double scale,
                                             i64_1 heads, i64_1 labels, out_f64_1 marginals) {
    const int64_t width = weights.n1;
    if (!arcs_fit(*sentences, *plan, weights, vectors, heads, nullptr, labels.n0) ||
        marginals.n0 != labels.n0)
        return BAD_SHAPE;
    return for_label_sums(*sentences, *plan, weights, vectors, {heads, nullptr},
                          [&](int64_t t, bool, const auto* sums) {
        if (labels.data[t] < 0 || labels.data[t] >= width) return;
        marginals.data[t] = label_probability(sums, width, labels.data[t], scale);
    });
}
