// Chu-Liu/Edmonds in the path-growing form: the best spanning tree, O(n^2) time for every input.
//
// `inference/textbook/spanning_trees.py` explains the algorithm and its ties. Here the best sources of all words
// are found at once before any path grows, and the row of a word is written only when the word is
// on a cycle: where the best sources form a tree, which is frequent with trained scores, nothing
// else is done. The member that an arc enters is not kept: the expansion finds it again.
#pragma once

#include <math.h>
#include <stdint.h>

#include "arena.h"
#include "lanes.h"
#include "views.h"

namespace gpuparse {

// Integers as wide as the scores, so that one comparison selects both.
template <class F>
struct IndexOf;
template <>
struct IndexOf<double> {
    using type = int64_t;
};
template <>
struct IndexOf<float> {
    using type = int32_t;
};

// The search and its memory, which is reused from sentence to sentence. Nodes are the words 1..n
// and the super-nodes from n + 1 on, in the order in which they are made.
template <class F>
struct SpanningTreeSearch {
    using Index = typename IndexOf<F>::type;
    static constexpr int64_t count = Lanes<F>::count;
    static constexpr F NONE = -(F)INFINITY;
    static constexpr Index FREE = -1, ATTACHED = -2;  // in `position`, of words not on the path

    int64_t stride = 0;
    int64_t made = 0;           // after a search: the number after the last super-node
    F* best = nullptr;          // (2 stride): the score of the arc that node k takes
    Index* members = nullptr;   // (2 stride): super-node c has members[bounds[c] .. bounds[c + 1]]
    Index* bounds = nullptr;    // (2 stride + 1)

    // Memory for sentences of up to n words. False: there is none.
    bool allocate(int64_t n, Arena& arena) {
        stride = whole_lines<F>(n + 1);
        tail = arena.take<F>((n + 1) * count);
        rows = arena.take<F>(2 * (n + 1) * stride);
        best = arena.take<F>(4 * stride);
        source = arena.take<Index>(9 * stride + 1);
        if (!tail || !rows || !best || !source) return false;
        root = best + 2 * stride;
        path = source + 2 * stride;
        position = source + 4 * stride;
        members = source + 5 * stride;
        bounds = source + 7 * stride;
        return true;
    }

    // Fill heads[1..n] with the best tree and return whether there is one; if not, heads are left
    // as they were. arc_scores: (>= n + 1, >= n + 1), [h, m]; n as `allocate` or less.
    bool search(View2<const F> arc_scores, int64_t n, bool single_root, int64_t* heads) {
        scores = arc_scores;
        stride = whole_lines<F>(n + 1);
        find_best_sources(n, single_root);
        for (int64_t m = 1; m <= n; m++) {
            if (best[m] == NONE) return false;
        }
        for (int64_t m = 0; m < stride; m++) position[m] = FREE;
        position[0] = ATTACHED;
        if (!grow_paths(n, single_root)) return false;
        expand_super_nodes(n);
        int64_t n_roots = 0;
        for (int64_t m = 1; m <= n; m++) n_roots += source[m] == 0;
        if (single_root && n_roots > 1) return false;
        for (int64_t m = 1; m <= n; m++) heads[m] = source[m];
        return true;
    }

private:
    View2<const F> scores = {};  // of the sentence
    F* tail = nullptr;           // (n + 1, count): the scores of the last words
    F* rows = nullptr;          // (2n + 2, stride): [k, u], the best arc from u into node k
    F* root = nullptr;          // (2 stride): the best arc from the root into node k
    Index* source = nullptr;    // (2 stride): where the arc of node k comes from
    Index* path = nullptr;      // (2 stride): the nodes on the path, its start first
    Index* position = nullptr;  // (stride): where on the path the node of a word is

    // best[m] and source[m] of all words. Among equal sources the root is first, then the smallest
    // word; with a single root the root is taken only if there is no other arc.
    void find_best_sources(int64_t n, bool single_root) {
        const int64_t whole = (n + 1) / count * count;
        int64_t word = 0;
        for (; word + 4 * count <= whole; word += 4 * count) {
            find_sources_of<4>(&scores(0, word), scores.stride, word, n, single_root);
        }
        for (; word < whole; word += count) {
            find_sources_of<1>(&scores(0, word), scores.stride, word, n, single_root);
        }
        if (word > n) return;
        // A vector from the last words would reach beyond the last row.
        for (int64_t h = 0; h <= n; h++) {
            F* row = tail + h * count;
            for (int64_t i = 0; i < count; i++) row[i] = word + i <= n ? scores(h, word + i) : NONE;
        }
        find_sources_of<1>(tail, count, word, n, single_root);
    }

    // `find_best_sources` of the words that K vectors hold, from `word` on; their scores begin at
    // `from` in rows `apart` from each other. Several vectors hide the latency of the comparisons.
    template <int64_t K>
    void find_sources_of(const F* from, int64_t apart, int64_t word, int64_t n, bool single_root) {
        const Vector<F> nothing = splat(NONE);
        Vector<F> highest[K];
        Vector<Index> chosen[K], column[K], h = splat((Index)1);
        Index columns[K * count];
        for (int64_t i = 0; i < K * count; i++) columns[i] = (Index)(word + i);
        for (int64_t k = 0; k < K; k++) {
            highest[k] = single_root ? nothing : load(from + k * count);
            chosen[k] = splat((Index)0);
            column[k] = load(columns + k * count);
        }
        const F* row = from;
        for (int64_t i = 1; i <= n; i++) {
            row += apart;
            for (int64_t k = 0; k < K; k++) {
                const Vector<F> score = column[k] == h ? nothing : load(row + k * count);
                const auto is_larger = score > highest[k];
                highest[k] = is_larger ? score : highest[k];
                chosen[k] = is_larger ? h : chosen[k];
            }
            h += splat((Index)1);
        }
        for (int64_t k = 0; k < K; k++) {
            const Vector<F> from_root = load(from + k * count);
            store(best + word + k * count, highest[k] == nothing ? from_root : highest[k]);
            store(source + word + k * count, chosen[k]);
        }
    }

    // Rows of the words among path[start..end]; other members have theirs already.
    void write_rows(int64_t start, int64_t end, int64_t n) {
        for (int64_t p = start; p < end; p++) {
            const int64_t k = path[p];
            if (k > n) continue;
            root[k] = scores(0, k);
            F* row = rows + k * stride;
            for (int64_t h = 1; h <= n; h++) row[h] = scores(h, k);
            row[0] = row[k] = NONE;
            for (int64_t h = n + 1; h < stride; h++) row[h] = NONE;
        }
    }

    // The row of the super-node `made`: row[made][u] = max over members k of row[k][u] - best[k],
    // -inf for the words inside, whose position becomes `start`. The members are path[start..end].
    void merge_rows(int64_t start, int64_t end) {
        int64_t word = 0;
        for (; word + 4 * count <= stride; word += 4 * count) merge_vectors<4>(start, end, word);
        for (; word < stride; word += count) merge_vectors<1>(start, end, word);
    }

    template <int64_t K>
    void merge_vectors(int64_t start, int64_t end, int64_t word) {
        const Vector<F> nothing = splat(NONE);
        Vector<F> highest[K];
        for (int64_t k = 0; k < K; k++) highest[k] = nothing;
        for (int64_t p = start; p < end; p++) {
            const F* row = rows + path[p] * stride + word;
            const Vector<F> lost = splat(best[path[p]]);
            for (int64_t k = 0; k < K; k++) {
                const Vector<F> entering = load(row + k * count) - lost;
                highest[k] = entering > highest[k] ? entering : highest[k];
            }
        }
        const Vector<Index> at_start = splat((Index)start);
        for (int64_t k = 0; k < K; k++) {
            Index* const where = position + word + k * count;
            const auto is_inside = load(where) >= at_start;
            store(rows + made * stride + word + k * count, is_inside ? nothing : highest[k]);
            store(where, is_inside ? at_start : load(where));
        }
    }

    // The smallest u with the largest row[u], u < stride.
    int64_t first_largest(const F* row) const {
        Vector<F> highest = load(row);
        Vector<Index> where = splat((Index)0), block = where;
        for (int64_t u = count; u < stride; u += count) {
            block += splat((Index)count);
            const Vector<F> value = load(row + u);
            const auto is_larger = value > highest;
            highest = is_larger ? value : highest;
            where = is_larger ? block : where;
        }
        int64_t chosen = where[0];
        F top = highest[0];
        for (int64_t lane = 1; lane < count; lane++) {
            const int64_t u = where[lane] + lane;
            if (highest[lane] > top || (highest[lane] == top && u < chosen)) {
                top = highest[lane];
                chosen = u;
            }
        }
        return chosen;
    }

    // Attach all words: the sources become those of words and super-nodes. False: there is no tree.
    bool grow_paths(int64_t n, bool single_root) {
        made = n + 1;
        bounds[made] = 0;
        for (int64_t first = 1; first <= n; first++) {
            if (position[first] == ATTACHED) continue;
            path[0] = (Index)first;
            position[first] = 0;
            int64_t k = first, end = 1;
            while (true) {
                const int64_t u = source[k], start = position[u];
                if (start == ATTACHED) break;
                if (start == FREE) {
                    position[u] = (Index)end;
                    path[end] = (Index)u;
                    k = u;
                    end++;
                    continue;
                }
                if (!contract_cycle(start, end, n, single_root)) return false;
                k = path[start];
                end = start + 1;
            }
            for (int64_t m = 1; m <= n; m++) position[m] = position[m] >= 0 ? ATTACHED : position[m];
        }
        return true;
    }

    // Make the super-node of path[start..end], put it at `start` and find its best source. False:
    // no arc enters it.
    bool contract_cycle(int64_t start, int64_t end, int64_t n, bool single_root) {
        write_rows(start, end, n);
        merge_rows(start, end);
        F from_root = NONE;
        for (int64_t p = start; p < end; p++) {
            const int64_t k = path[p];
            const F value = root[k] - best[k];
            from_root = value > from_root ? value : from_root;
            members[bounds[made] + p - start] = (Index)k;
        }
        bounds[made + 1] = (Index)(bounds[made] + end - start);
        const int64_t k = made++;
        path[start] = (Index)k;
        root[k] = from_root;
        const F* row = rows + k * stride;
        int64_t chosen = first_largest(row);
        F highest = row[chosen];
        if (single_root ? highest == NONE : from_root >= highest) {
            chosen = 0;
            highest = from_root;
        }
        source[k] = (Index)chosen;
        best[k] = highest;
        return highest != NONE;
    }

    // Expand the super-nodes: the arc that enters one enters the member with the highest gain.
    void expand_super_nodes(int64_t n) {
        for (int64_t c = made - 1; c > n; c--) {
            const int64_t u = source[c];
            F highest = NONE;
            int64_t entered = members[bounds[c]];
            for (int64_t i = bounds[c]; i < bounds[c + 1]; i++) {
                const int64_t k = members[i];
                const F value = (u == 0 ? root[k] : rows[k * stride + u]) - best[k];
                if (value > highest || (value == highest && k < entered)) {
                    entered = k;
                    highest = value;
                }
            }
            source[entered] = (Index)u;
        }
    }
};

// The best tree of one sentence: as `SpanningTreeSearch::search`, in memory of the arena. False
// also where the arena has no memory left.
template <class F>
inline bool chu_liu_edmonds_sentence(View2<const F> scores, int64_t n, bool single_root,
                                     Arena& arena, int64_t* heads) {
    ArenaMark mark(arena);
    SpanningTreeSearch<F> tree;
    return tree.allocate(n, arena) && tree.search(scores, n, single_root, heads);
}

}  // namespace gpuparse
