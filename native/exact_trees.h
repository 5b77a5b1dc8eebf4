// Best tree, k best trees, sums and random trees of one sentence, by the decoders that have all
// four (`has_sums`).
#pragma once

#include "chu_liu_edmonds_kbest.h"
#include "decoder_numbers.h"
#include "eisner_kbest.h"
#include "eisner_sums.h"
#include "matrix_tree_sample.h"
#include "tree_siblings.h"

namespace gpuparse {

// The trees of one sentence of n >= 1 words. arcs: [h, m]; siblings: a provider, which only
// BY_EISNER_SIBLING reads. Where memory runs out, the arena has failed.
template <class F, class Siblings>
struct ExactTrees {
    int64_t decoder;
    View2<const F> arcs;
    Siblings siblings;
    int64_t n;
    bool single_root;

    // Fill heads[1..n] with the best tree. Returns whether there is one; if there is none,
    // heads are unchanged.
    bool find_best(Arena& arena, int64_t* heads) const {
        if (decoder == BY_CHU_LIU_EDMONDS)
            return chu_liu_edmonds_sentence(arcs, n, single_root, arena, heads);
        return with_provider([&](const auto& provider) {
            return eisner_sentence(arcs, provider, n, single_root, arena, heads);
        });
    }

    // Fill heads(t, 1..n) and scores[t] with the k best trees, best first. Returns how many there are.
    // Scores are as the search adds them: in another order the same parts may give other last bits.
    int64_t find_k_best(int64_t k, Arena& arena, View2<int64_t> heads, double* scores) const {
        if (decoder == BY_CHU_LIU_EDMONDS)
            return chu_liu_edmonds_kbest_sentence(arcs, n, single_root, k, arena, heads, scores);
        return with_provider([&](const auto& provider) {
            return eisner_kbest_sentence(arcs, provider, n, single_root, k, arena, heads, scores);
        });
    }

    // The score of a tree: its parts added in the order of the words.
    double score(const int64_t* heads) const {
        return decoder == BY_EISNER_SIBLING ? score_sibling_tree(arcs, siblings, n, heads)
                                            : tree_score(arcs, n, heads);
    }

    // The log-partition under scores times `scale`, -inf without a tree, and the marginals of all arcs
    // (0..n, 1..n) and of other parts; none where data is NULL.
    double sum(double scale, Arena& arena, const PartMarginals& marginals) const {
        if (decoder == BY_CHU_LIU_EDMONDS)
            return matrix_tree_sentence(arcs, n, single_root, scale, marginals.arcs, arena);
        return with_provider([&](const auto& provider) {
            return eisner_sums_sentence(arcs, provider, n, single_root, scale, arena, marginals);
        });
    }

    // Fill heads(t, 1..n), t < count, with random trees, each with its probability. Tree t depends on
    // the scores, the seed and t alone. Returns the log-partition, -inf without a tree.
    double draw(int64_t seed, int64_t count, Arena& arena, View2<int64_t> heads) const {
        if (decoder == BY_CHU_LIU_EDMONDS)
            return matrix_tree_sample_sentence(arcs, n, single_root, seed, count, arena, heads);
        return with_provider([&](const auto& provider) {
            return eisner_sample_sentence(arcs, provider, n, single_root, seed, count, arena, heads);
        });
    }

private:
    template <class Use>
    auto with_provider(Use use) const {
        return decoder == BY_EISNER ? use(NoSiblings{}) : use(siblings);
    }
};

}  // namespace gpuparse
