// Scores of trees whose parts stand in blocks, and their improvement by single changes of head.
#pragma once

#include "head_automata.h"
#include "label_limits.h"
#include "tree_rows.h"

namespace gpuparse {

// Scores trees of one sentence.
struct TreeScorer {
    const CrossingParts& parts;
    TreeRows tree{parts.candidates};

    double score(const int64_t* heads) const {
        return tree.score(parts.blocks, parts.ends, parts.has_grandparents, heads);
    }
};

// The score of one tree. Without memory the arena has failed.
inline double block_tree_score(const CrossingParts& parts, Arena& arena, const int64_t* heads) {
    ArenaMark mark(arena);
    TreeScorer scorer{parts};
    return scorer.tree.allocate(arena) ? scorer.score(heads) : -(double)INFINITY;
}

// Take every change of head that raises the score and keeps a tree, until there is none. Words and
// heads are tried in order, again and again; with a single root its modifier stays. limits: on labels,
// whose scores count too; of_labels (n + 1,): scratch; heads: changed in place. Returns the score.
inline double climb_block_tree(const TreeScorer& scorer, bool single_root, LabelLimits& limits,
                               double* of_labels, int64_t* heads) {
    const Candidates& c = scorer.parts.candidates;
    const int64_t n = c.n;
    double score = scorer.score(heads);
    for (int64_t h = 0; h <= n && limits.has_labels(); h++) {
        of_labels[h] = limits.label_head(c, heads, h);
        score += of_labels[h];
    }
    int64_t unchanged = 0, m = 0;
    while (unchanged < n) {
        m = m < n ? m + 1 : 1;
        unchanged++;
        if (is_interrupted(5 * c.width(m) * n)) return score;
        if (single_root && heads[m] == 0) continue;
        for (int64_t a = c.first[m]; a < c.first[m + 1]; a++) {
            const int64_t h = c.head[a], old = heads[m];
            if (h == old || (single_root && h == 0)) continue;
            int64_t word = h;
            while (word > 0 && word != m) word = heads[word];
            if (word == m) continue;
            heads[m] = h;
            double raised = scorer.score(heads);
            if (limits.has_labels() && raised > -(double)INFINITY) {
                const double of_old = limits.label_head(c, heads, old);
                const double of_new = limits.label_head(c, heads, h);
                for (int64_t other = 0; other <= n; other++)
                    raised += other == old ? of_old : other == h ? of_new : of_labels[other];
                if (raised > score) {
                    of_labels[old] = of_old;
                    of_labels[h] = of_new;
                }
            }
            if (raised > score) {
                score = raised;
                unchanged = 0;
            } else {
                heads[m] = old;
            }
        }
    }
    return score;
}

}  // namespace gpuparse
