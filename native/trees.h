// Properties of a tree given by its heads: heads[m - 1] is the head of word m, 0 for the root.
#pragma once

#include <stdint.h>

#include "arena.h"

namespace gpuparse {

// Numbers the nodes 0..n so that k is below h just when first[h] <= first[k] <= last[h]. A negative
// head counts as 0. Returns whether every word was reached, that is, whether `heads` is a tree.
// `child`, `sibling`, `first`, `last`: n + 1 numbers each; all are written.
inline bool number_in_preorder(const int32_t* heads, int64_t n, int32_t* child, int32_t* sibling,
                               int32_t* first, int32_t* last) {
    for (int64_t v = 0; v <= n; ++v) child[v] = 0;
    for (int64_t m = n; m > 0; --m) {
        int32_t h = heads[m - 1] > 0 ? heads[m - 1] : 0;
        if (h > n) return false;
        sibling[m] = child[h];
        child[h] = (int32_t)m;
    }
    int32_t reached = 0, v = 0;
    first[0] = 0;
    while (true) {
        int32_t down = child[v];
        if (down > 0) {
            child[v] = sibling[down];
            first[down] = ++reached;
            v = down;
        } else {
            last[v] = reached;
            if (v == 0) return reached == n;
            v = heads[v - 1] > 0 ? heads[v - 1] : 0;
        }
    }
}

// The first fault of a sentence; the codes are those of gpuparse/data/faults.py.
enum TreeFault {
    WELL_FORMED, MISSING_HEAD, NO_HEAD_NUMBER, HEAD_OUT_OF_RANGE, SELF_HEAD, CYCLE, SEVERAL_ROOTS, CROSSING
};

struct FaultyWord {
    TreeFault fault;
    int32_t word;
};

// `seen`: n + 1 numbers of scratch.
inline FaultyWord check_heads(const int32_t* heads, int32_t n, bool single_root, bool is_partial,
                              int32_t* seen) {
    int32_t n_roots = 0, any_bad = 0;
    for (int32_t m = 1; m <= n; ++m) {  // without an early end, so that the compiler makes vectors of it
        const int32_t h = heads[m - 1];
        any_bad |= (int32_t)((uint32_t)h > (uint32_t)n) | (int32_t)(h == m);
        n_roots += h == 0;
        seen[m] = 0;
    }
    for (int32_t m = 1; any_bad && m <= n; ++m) {
        const int32_t h = heads[m - 1];
        if (h < -1) return {NO_HEAD_NUMBER, m};
        if (h > n) return {HEAD_OUT_OF_RANGE, m};
        if (h == m) return {SELF_HEAD, m};
        if (h == -1 && !is_partial) return {MISSING_HEAD, m};
    }
    seen[0] = -1;  // where every climb ends
    for (int32_t m = 1; m <= n; ++m) {  // seen[v]: the word whose climb to the root passed v first
        if (seen[m] != 0) continue;
        int32_t v = m;
        do {
            seen[v] = m;
            v = heads[v - 1] > 0 ? heads[v - 1] : 0;
        } while (seen[v] == 0);
        if (seen[v] == m) return {CYCLE, v};
    }
    return {single_root && n_roots > 1 ? SEVERAL_ROOTS : WELL_FORMED, 0};
}

// The first word of a tree whose arc crosses another one, that is, has a word between it and its head
// that is not below the head; 0 if there is none. `first`, `last`: as number_in_preorder numbers it.
inline int32_t find_crossing(const int32_t* heads, int32_t n, const int32_t* first, const int32_t* last) {
    for (int32_t m = 1; m <= n; ++m) {
        const int32_t h = heads[m - 1];
        if (h <= 0) continue;
        for (int32_t k = (h < m ? h : m) + 1; k < (h < m ? m : h); ++k)
            if (first[k] < first[h] || first[k] > last[h]) return m;
    }
    return 0;
}

// The graph of one sentence and what is kept of it. Nodes count from 1, 0 is the root.
struct SentenceGraph {
    const int64_t* starts;  // of the sentence's words
    const int32_t* heads;   // of all arcs
    const int32_t* primary;
    int32_t n;
    uint8_t* kept;   // of all arcs
    int32_t* added;  // of the sentence's words, -1 for none
    int32_t* stack;  // n + 1 numbers of scratch
    int64_t* seen;   // n + 1 numbers, at first 0
    int64_t mark = 0;

    // Would an arc from h to m close a cycle: is m above h, by arcs kept and added?
    bool closes_cycle(int32_t h, int32_t m) {
        if (h == 0) return false;
        ++mark;
        int32_t size = 0;
        auto push = [&](int32_t v) {
            if (v <= 0 || seen[v] == mark) return;
            seen[v] = mark;
            stack[size++] = v;
        };
        push(h);
        while (size > 0) {
            int32_t v = stack[--size];
            if (v == m) return true;
            push(added[v - 1]);
            for (int64_t a = starts[v - 1]; a < starts[v]; ++a)
                if (kept[a]) push(heads[a]);
        }
        return false;
    }

    bool has_head(int32_t m) const {
        for (int64_t a = starts[m - 1]; a < starts[m]; ++a)
            if (kept[a]) return true;
        return added[m - 1] != -1;
    }

    // Keeps arcs while no cycle arises: those from a word's primary head; then those of words without
    // such an arc, then the rest. A word left without a head gets its primary one, or else the root.
    // `headed`: n numbers of scratch.
    void choose(uint8_t* headed) {
        for (int32_t m = 1; m <= n; ++m) {
            headed[m - 1] = starts[m - 1] == starts[m];
            added[m - 1] = headed[m - 1] ? primary[m - 1] : -1;
            for (int64_t a = starts[m - 1]; a < starts[m]; ++a) {
                kept[a] = heads[a] == primary[m - 1];
                headed[m - 1] |= kept[a];
            }
        }
        for (uint8_t turn = 0; turn < 2; ++turn)
            for (int32_t m = 1; m <= n; ++m) {
                if (headed[m - 1] != turn) continue;
                for (int64_t a = starts[m - 1]; a < starts[m]; ++a)
                    if (!kept[a]) kept[a] = !closes_cycle(heads[a], m);
            }
        for (int32_t m = 1; m <= n; ++m)
            if (!has_head(m)) added[m - 1] = closes_cycle(primary[m - 1], m) ? 0 : primary[m - 1];
    }
};

}  // namespace gpuparse
