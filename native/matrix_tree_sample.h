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

// The generator SplitMix64 (Steele, Lea & Flood 2014).
struct SplitMix64 {
    uint64_t state;

    static uint64_t mix(uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    // The next number in [0, 1).
    double uniform() {
        state += 0x9E3779B97F4A7C15u;
        return (double)(mix(state) >> 11) * 0x1p-53;
    }
};

template <class Kind>
struct TreeSampler {
    using Number = typename Kind::Number;
    using Row = typename Kind::Row;

    TreeSums<Kind> sums;
    int64_t n = 0, width = 0;
    Row original = {};          // (n + 1, width): [h, m - 1], the weights of all arcs
    Row into = {};              // (n, width): [m - 1, h], the weights into m when it was eliminated
    int64_t* way = nullptr;     // (n + 1): the word through which the arc into each word leads, or 0
    int8_t* cut = nullptr;      // (n + 1)
    Number* terms = nullptr;    // (n + 1)
    bool* terms_late = nullptr; // (n + 1)

    // Prepare a sentence. False: no tree, or plain numbers do not do, or no memory.
    bool prepare(View2<const double> scores, int64_t n_words, const ScoreShifts& shifted,
                 Arena& arena) {
        n = n_words;
        if (!sums.allocate(n, false, arena)) return false;
        width = sums.full_width;
        original = Kind::take((n + 1) * width, arena);
        into = Kind::take((n + 1) * whole_lines<double>(n + 1), arena);
        way = arena.take<int64_t>(n + 1);
        cut = arena.take<int8_t>(n + 1);
        terms = arena.take<Number>(n + 2);
        terms_late = arena.take<bool>(n + 2);
        if (arena.failed()) return false;
        sums.least = shifted.has_forbidden ? LEAST_TOTAL : 0.0;
        sums.fill_weights(scores, shifted);
        Kind::copy(original, sums.levels[0].weights, (n + 1) * width);
        if (!sums.eliminate(sums.levels[0], 1, false, into)) return false;
        const Number last = Kind::get(sums.levels[0].weights, 0);
        Kind::set(into, 0, last);
        return Kind::is_at_least(last, sums.least) && !Kind::is_zero(last);
    }

    // Fill heads[1..n] with a random tree.
    void draw_tree(SplitMix64& random, int64_t* heads) {
        for (int64_t m = 0; m <= n; m++) way[m] = 0;
        for (int64_t e = 1; e <= n; e++) {
            const bool any_cut = mark_cut_off(heads, e);
            for (int64_t h = 0; h < e; h++) {
                terms[h] = cut[h] == CONNECTED ? Kind::get(into, (e - 1) * width + h) : Kind::zero();
                terms_late[h] = h == 0 && sums.levels[0].late[e - 1];
            }
            const int64_t head = draw(e, random);
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

    // An index below `count` by terms[index], among those with the lowest power of t.
    int64_t draw(int64_t count, SplitMix64& random) {
        Number total = Kind::zero();
        bool is_late = true;
        for (int64_t i = 0; i < count; i++) {
            if (Kind::is_zero(terms[i])) continue;
            if (Kind::is_zero(total) || (is_late && !terms_late[i])) {
                total = terms[i];
                is_late = terms_late[i];
            } else if (terms_late[i] == is_late) {
                total = Kind::plus(total, terms[i]);
            }
        }
        double left = random.uniform();
        int64_t chosen = -1;
        for (int64_t i = 0; i < count; i++) {
            if (Kind::is_zero(terms[i]) || terms_late[i] != is_late) continue;
            chosen = i;
            left -= Kind::ratio(terms[i], total);
            if (left < 0.0) break;
        }
        return chosen;
    }

    // What the arc h -> m stands for: the word that it leads through, or 0 for the arc itself.
    int64_t draw_way(int64_t h, int64_t m, SplitMix64& random) {
        const int64_t first = h > m ? h : m;
        const Row weights = sums.levels[0].weights;
        terms[0] = Kind::get(original, h * width + m - 1);
        terms_late[0] = h == 0 && sums.single_root;
        for (int64_t e = first + 1; e <= n; e++) {
            const int64_t i = n - e;  // when e was eliminated
            const Number through = Kind::times(Kind::get(into, (e - 1) * width + h),
                                               Kind::get(weights, e * width + m - 1));
            terms[e - first] = Kind::over(through, sums.totals[i]);
            terms_late[e - first] = h == 0 && sums.levels[0].escape_late[i];
        }
        const int64_t chosen = draw(n - first + 1, random);
        return chosen > 0 ? first + chosen : 0;
    }
};

template <class Kind>
inline bool draw_trees_in(View2<const double> scores, int64_t n, const ScoreShifts& shifted,
                          int64_t count, uint64_t seed, View2<int64_t> heads, Arena& arena) {
    ArenaMark mark(arena);
    TreeSampler<Kind>* sampler = arena.take<TreeSampler<Kind>>(1);
    if (!sampler) return false;
    *sampler = TreeSampler<Kind>();
    if (!sampler->prepare(scores, n, shifted, arena)) return false;
    for (int64_t s = 0; s < count; s++) {
        SplitMix64 random = {SplitMix64::mix(seed + (uint64_t)s * 0xD1342543DE82EF95u)};
        sampler->draw_tree(random, heads.row(s));
        int64_t n_roots = 0;
        for (int64_t m = 1; m <= n; m++) n_roots += heads(s, m) == 0;
        if (shifted.single_root && n_roots > 1) return false;
    }
    return true;
}

// `count` random trees of one sentence, n >= 1: tree s fills heads(s, 1..n) and depends on the
// scores, the seed and s alone. False: there is no tree, or no memory.
inline bool draw_spanning_trees_sentence(View2<const double> scores, int64_t n, bool single_root,
                                         int64_t count, uint64_t seed, View2<int64_t> heads,
                                         Arena& arena) {
    ArenaMark mark(arena);
    ScoreShifts shifted;
    shifted.shifts = arena.take<double>(n + 1);
    if (!shifted.shifts || !shift_scores(scores, n, single_root, shifted)) return false;
    if (shifted.width <= WIDEST &&
        draw_trees_in<Plain>(scores, n, shifted, count, seed, heads, arena)) {
        return true;
    }
    return !arena.failed() && draw_trees_in<Scaled>(scores, n, shifted, count, seed, heads, arena);
}

}  // namespace gpuparse
