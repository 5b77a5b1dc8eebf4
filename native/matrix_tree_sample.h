// Random spanning trees, exact, from the elimination of matrix_tree.h.
//
// Words n, n-1, ..., 2 are eliminated, then put back one by one, 2 first, each into a random tree
// over the words before it. Every arc h -> m of that tree stands for the arc itself or for a way
// through an eliminated word: w[h, m] + sum over e of w[h, e] w[e, m] / T[e], e > max(h, m). One term
// is drawn by its share when the arc is made. Now e comes back. Where a way through e was drawn, m
// is attached to e. The head of e is then drawn, by w[h, e], from the words that are still connected
// to the root: all of them if nothing is attached to e. That is exact: over the ways in which the
// words below e can have been attached to the rest and to each other, the products of w[h, e] / T[e]
// sum to the share of T[e] that leads to the root's part (the same identity that makes the
// determinant a sum over trees). Each new arc stands for sums in turn.
//
// Unlike walks that erase their loops (Wilson 1996), it takes O(n^2) draws at the worst, even where
// some cycle outweighs every tree.
#pragma once

#include "matrix_tree.h"

namespace gpuparse {

template <class S>
struct TreeSampler {
    TreeSums<S>& sums;
    const int64_t n, width;
    double* original = nullptr;  // (n + 1, width): [h, m - 1], the weights of all arcs
    double* into = nullptr;      // (n, width): [m - 1, h], the weights into m when it was eliminated
    int64_t* way = nullptr;      // (n + 1): the word through which the arc into each word leads, or 0
    int8_t* cut = nullptr;       // (n + 1)

    explicit TreeSampler(TreeSums<S>& of) : sums(of), n(of.n), width(of.full_width) {}

    // Eliminate all words. False: no tree, or numbers that do not do, or no memory.
    bool start(Arena& arena, double& log_partition) {
        original = sums.spare;
        into = original + (n + 1) * width;
        way = arena.take<int64_t>(n + 1);
        cut = arena.take<int8_t>(n + 1);
        if (arena.failed()) return false;
        sums.s.copy(original, sums.all.weights, (n + 1) * width);
        return sums.eliminate_all(into, log_partition);
    }

    // Fill heads[1..n] with a random tree.
    void draw_tree(Random random, int64_t* heads) {
        for (int64_t m = 0; m <= n; m++) way[m] = 0;
        for (int64_t e = 1; e <= n; e++) {
            const bool any_cut = mark_cut_off(heads, e);
            for (int64_t h = 0; h < e; h++) {
                sums.terms[h] = cut[h] == CONNECTED ? sums.s.get(into + (e - 1) * width + h) : S::zero;
                sums.terms_late[h] = h == 0 && sums.all.late[e - 1];
            }
            const int64_t head = sums.draw_term(e, random);
            for (int64_t m = 1; any_cut && m < e; m++) {
                if (way[m] != e) continue;
                heads[m] = e;
                way[m] = draw_way(e, m, random);
            }
            heads[e] = head;
            way[e] = draw_way(head, e, random);
        }
    }

private:
    enum : int8_t { UNKNOWN, CUT_OFF, CONNECTED };

    // cut[m] of the words before e: whether m, or a word above it, has a way through e.
    bool mark_cut_off(const int64_t* heads, int64_t e) {
        bool any_cut = false;
        for (int64_t m = 1; m < e; m++) {
            cut[m] = way[m] == e ? CUT_OFF : UNKNOWN;
            any_cut |= way[m] == e;
        }
        cut[0] = CONNECTED;
        for (int64_t m = 1; m < e; m++) {
            int64_t u = m;
            while (cut[u] == UNKNOWN) u = heads[u];
            const int8_t found = cut[u];
            for (u = m; cut[u] == UNKNOWN; u = heads[u]) cut[u] = found;
        }
        return any_cut;
    }

    // The meaning of the arc h -> m: the word that it leads through, or 0 for the arc itself.
    int64_t draw_way(int64_t h, int64_t m, Random& random) {
        const int64_t first = h > m ? h : m;
        sums.terms[0] = sums.s.get(original + h * width + m - 1);
        sums.terms_late[0] = h == 0 && sums.single_root;
        for (int64_t e = first + 1; e <= n; e++) {
            const int64_t i = n - e;  // when e was eliminated
            const auto through = S::times(sums.s.get(into + (e - 1) * width + h),
                                          sums.s.get(sums.all.weights + e * width + m - 1));
            sums.terms[e - first] = S::over(through, sums.totals[i]);
            sums.terms_late[e - first] = h == 0 && sums.all.escape_late[i];
        }
        const int64_t chosen = sums.draw_term(n - first + 1, random);
        return chosen > 0 ? first + chosen : 0;
    }
};

// `count` random trees of n >= 1 words: tree t fills heads(t, 1..n) and depends on the scores, the seed
// and t alone. Returns the log-partition, -inf where there is no tree, NaN if memory ran out.
inline double matrix_tree_sample_sentence(View2<const double> arc_scores, int64_t n, bool single_root,
                                          int64_t seed, int64_t count, Arena& arena,
                                          View2<int64_t> heads) {
    const int64_t cells = (2 * n + 1) * whole_lines<double>(n);
    return with_tree_sums(
        {arc_scores, 1.0}, n, single_root, cells, arena, [&](auto& sums, double& log_partition) {
            TreeSampler sampler(sums);
            if (!sampler.start(arena, log_partition)) return false;
            for (int64_t t = 0; t < count; t++) {
                if (is_interrupted(n * n)) return false;
                const uint64_t begin = (uint64_t)seed + (uint64_t)t * 0xD1342543DE82EF95u;
                sampler.draw_tree(Random(Random::mixed(begin)), heads.row(t));
            }
            return true;
        });
}

}  // namespace gpuparse
