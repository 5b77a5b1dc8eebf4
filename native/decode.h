// The best tree or graph of a scored sentence by any decoder, and its labels.
#pragma once
#include "api/parsing.h"
#include "checks.h"
#include "chu_liu_edmonds.h"
#include "decoder_numbers.h"
#include "eisner.h"
#include "higher_order.h"
#include "hill_climb.h"
#include "multi_parent.h"
#include "sentence_scores.h"

namespace gpuparse {

// True if a scorer has the parts that a decoder reads, and the labels of its limits.
inline bool can_decode(const Search& search, const Scorer& scorer) {
    if (!search_fits(search, scorer)) return false;
    const int64_t decoder = search.decoder;
    if (is_higher_order(decoder)) return scorer.plan->higher != nullptr;
    if (scorer.joint && scorer.joint->higher) return false;  // it would find trees without their labels
    if (decoder == BY_EISNER || decoder == BY_CHU_LIU_EDMONDS) return true;
    return BY_EISNER_SIBLING <= decoder && decoder <= BY_MULTI_PARENT && scorer.plan->siblings;
}

// Fill heads[1..n] with the best tree. arcs: of the sentence, perhaps changed; the other scores are
// those of `scores`. labels: (n + 1,), filled by decoders that find labels themselves, or NULL. graph: of
// BY_MULTI_PARENT, (n + 1, n + 1), filled with the arcs, of which heads are the primary ones.
// Where memory runs out, nothing is found and the arena has failed.
template<class W>
Certificate find_tree(View2<const double> arcs, const SentenceScores<W>& scores, const Search& search,
                       Arena& arena, int64_t* heads, int64_t* labels, uint8_t* graph) {
    const int64_t n = scores.n, decoder = search.decoder;
    const bool single_root = search.single_root;
    if (is_higher_order(decoder)) {
        ArenaMark mark(arena);
        if (!labels) labels = arena.take<int64_t>(n + 1);  // nothing reads them
        if (!labels) return {};
        return search_higher_order(arcs, scores.parts, search, n, arena, heads, labels);
    }
    Certificate result{false, true, 0};
    if (decoder == BY_CHU_LIU_EDMONDS)
        result.found = chu_liu_edmonds_sentence(arcs, n, single_root, arena, heads);
    else if (decoder == BY_EISNER)
        result.found = eisner_sentence(arcs, NoSiblings{}, n, single_root, arena, heads);
    else
        result.found = eisner_sentence(arcs, scores.siblings, n, single_root, arena, heads);
    if (result.found && decoder == BY_HILL_CLIMB)
        hill_climb_sentence(arcs, scores.siblings, n, single_root, -1, search.min_gain, arena, heads);
    if (result.found && decoder == BY_MULTI_PARENT) {
        multi_parent_sentence(arcs, scores.siblings, n, single_root, -1, search.min_gain, arena, heads,
                              {graph, n + 1});
        fill_primary_heads(n, graph, heads);
    }
    return result;
}

// Fill labels[1..n] with the best labels of the arcs of a tree, if labels are found with the trees;
// decoders that find labels themselves have filled them already.
template<class W>
void fill_tree_labels(const SentenceScores<W>& scores, const int64_t* heads, int64_t* labels) {
    if (!scores.has_labels || scores.labels_children) return;
    for (int64_t m = 1; m <= scores.n; ++m)
        labels[m] = find_label(heads[m], m, scores.labels, -1, 0.0).label;
}

// The arcs of a sentence that are left by pruning; NULL for all.
inline View2<const uint8_t> allowed_cells(const ArcCells* allowed, const Sentence& sentence) {
    if (!allowed || allowed->cells.n0 == 0) return {nullptr, sentence.n + 1};
    return {allowed->cells.data + allowed->firsts.data[sentence.start], sentence.n + 1};
}

// True if a batch, a scorer and a search agree, and heads are by token.
inline int64_t check_search(const Sentences& sentences, const Scorer& scorer, const Search& search,
                            int64_t n_heads) {
    const int64_t status = check_batch(sentences, scorer);
    if (status != OK) return status;
    return can_decode(search, scorer) && are_by_token(sentences, n_heads) ? OK : BAD_SHAPE;
}

// Score every sentence for the trees that have the known heads, and call visit(scores, sentence, arena).
// Returns as `for_sentences`.
template<class Visit>
int64_t for_scored(const Sentences& sentences, const Scorer& scorer, const ArcCells* allowed,
                   Visit visit) {
    return with_weights(scorer.weights.dtype, [&](auto weight) {
        Arena of_vectors;
        SentenceVectors* const vectors = make_vectors(sentences, scorer.vectors, of_vectors);
        if (of_vectors.failed()) return (int64_t)NO_MEMORY;
        return for_sentences(sentences, [&](Sentence sentence, Arena& arena) {
            if (vectors) vectors->fill(sentence);
            sentence.vectors = vectors;
            auto scores = score_sentence<decltype(weight)>(
                sentence, scorer, allowed_cells(allowed, sentence), arena);
            if (arena.failed()) return false;
            forbid_others(scores.arcs, sentence, sentences.known);
            return visit(scores, sentence, arena);
        });
    });
}

}  // namespace gpuparse
