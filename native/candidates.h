// Candidate arcs: the arcs that a higher-order search may use, and the blocks of their part scores.
//
// Parts of three and four words are many, and most of them hold an arc that no good tree has. The
// searches read part scores from blocks, one block for each candidate arc: without pruning these are
// all arcs, with pruning a few for each word. Everything here is of one sentence.
#pragma once

#include <math.h>
#include <stdint.h>

#include "arena.h"
#include "lanes.h"
#include "views.h"

namespace gpuparse {

// The arcs h -> m of a sentence of n words, numbered by modifier, then by head, ascending. Arc 0 is
// no arc: it stands for the head of the root, so that every node has at least one candidate head.
struct Candidates {
    int64_t n = 0;
    int64_t n_arcs = 0;                 // with arc 0
    const int32_t* numbers = nullptr;   // (n + 1, n + 1), see number()
    const int32_t* head = nullptr;      // (n_arcs,)
    const int32_t* modifier = nullptr;  // (n_arcs,)
    // (n + 2,): the arcs into m are first[m] .. first[m + 1] - 1, one for each candidate head of m.
    const int32_t* first = nullptr;
    // (n + 2,) for each side, 0 right, 1 left: the candidate modifiers of h on side d are
    // modifiers[d][side[d][h] .. side[d][h + 1] - 1], the nearest first.
    const int32_t* side[2] = {nullptr, nullptr};
    const int32_t* modifiers[2] = {nullptr, nullptr};
    // (n_arcs,): how many candidates of the same head and side stand inside the modifier of an arc.
    // Its possible inner siblings have the ranks 0 .. rank - 1.
    const int32_t* rank = nullptr;

    // The number of an arc, -1 for what is no candidate.
    int64_t number(int64_t h, int64_t m) const { return numbers[h * (n + 1) + m]; }
    // The number of candidate heads of h.
    int64_t width(int64_t h) const { return first[h + 1] - first[h]; }
    // The first of the inner siblings of m under h, in the order of their ranks.
    const int32_t* inner_siblings(int64_t h, int64_t m) const {
        const int64_t d = h < m ? 0 : 1;
        return modifiers[d] + side[d][h];
    }
};

// Scores of parts in blocks: the block of arc a is data[start[a] .. start[a + 1] - 1].
template <class F>
struct Blocks {
    const F* data;
    const int64_t* start;
};

// (n + 1, n + 1): the arcs that are left and whose score is not -inf. left.data == NULL: all arcs.
template <class F>
inline uint8_t* allowed_arcs(View2<const F> scores, View2<const uint8_t> left, int64_t n, Arena& arena) {
    uint8_t* allowed = arena.take_zeros<uint8_t>((n + 1) * (n + 1));
    if (!allowed) return nullptr;
    for (int64_t h = 0; h <= n; h++)
        for (int64_t m = 1; m <= n; m++)
            allowed[h * (n + 1) + m] =
                h != m && (!left.data || left(h, m)) && scores(h, m) > -(F)INFINITY;
    return allowed;
}

// The candidates among allowed (n + 1, n + 1), of which column 0 and the diagonal are not read. Cost:
// O(n^2). Without memory there is no arc at all, not even arc 0, and the arena has failed.
inline Candidates find_candidates(const uint8_t* allowed, int64_t n, Arena& arena) {
    Candidates none;
    if (!allowed) return none;
    const int64_t n_nodes = n + 1;
    int64_t n_arcs = 1;
    for (int64_t h = 0; h <= n; h++)
        for (int64_t m = 1; m <= n; m++) n_arcs += h != m && allowed[h * n_nodes + m];
    int32_t* numbers = arena.take_filled<int32_t>(n_nodes * n_nodes, -1);
    int32_t* head = arena.take_zeros<int32_t>(n_arcs);
    int32_t* modifier = arena.take_zeros<int32_t>(n_arcs);
    int32_t* rank = arena.take_zeros<int32_t>(n_arcs);
    int32_t* first = arena.take_filled<int32_t>(n + 2, 1);
    int32_t* side = arena.take_zeros<int32_t>(2 * (n + 2));
    int32_t* modifiers = arena.take_zeros<int32_t>(2 * n_arcs);
    if (arena.failed()) return none;
    first[0] = 0;
    int32_t a = 1;
    for (int64_t m = 1; m <= n; m++) {
        for (int64_t h = 0; h <= n; h++) {
            if (h == m || !allowed[h * n_nodes + m]) continue;
            numbers[h * n_nodes + m] = a;
            head[a] = (int32_t)h;
            modifier[a] = (int32_t)m;
            a++;
        }
        first[m + 1] = a;
    }
    int32_t *right_side = side, *left_side = side + n + 2;
    int32_t *to_right = modifiers, *to_left = modifiers + n_arcs;
    int32_t right = 0, left = 0;
    for (int64_t h = 0; h <= n; h++) {
        const int32_t* of_head = numbers + h * n_nodes;
        for (int64_t m = h + 1; m <= n; m++) {
            if (of_head[m] < 0) continue;
            to_right[right] = (int32_t)m;
            rank[of_head[m]] = right - right_side[h];
            right++;
        }
        for (int64_t m = h - 1; m > 0; m--) {
            if (of_head[m] < 0) continue;
            to_left[left] = (int32_t)m;
            rank[of_head[m]] = left - left_side[h];
            left++;
        }
        right_side[h + 1] = right;
        left_side[h + 1] = left;
    }
    Candidates found;
    found.n = n;
    found.n_arcs = n_arcs;
    found.numbers = numbers;
    found.head = head;
    found.modifier = modifier;
    found.first = first;
    found.side[0] = right_side;
    found.side[1] = left_side;
    found.modifiers[0] = to_right;
    found.modifiers[1] = to_left;
    found.rank = rank;
    return found;
}

// (n_arcs + 1,) where the block of each arc begins, from its size; the last number is the size of all
// blocks. The block of arc 0 is empty. NULL: no memory.
template <class Size>
inline int64_t* block_starts(const Candidates& candidates, Arena& arena, Size size) {
    int64_t* start = arena.take<int64_t>(candidates.n_arcs + 1);
    if (!start) return nullptr;
    start[0] = 0;
    if (candidates.n_arcs > 0) start[1] = 0;
    for (int64_t a = 1; a < candidates.n_arcs; a++) start[a + 1] = start[a] + size(a);
    return start;
}

// Memory for blocks, with a vector of zeros after the last one: searches load whole vectors. NULL: no
// memory.
template <class F>
inline F* take_blocks(const Candidates& c, const int64_t* start, Arena& arena) {
    F* blocks = start ? arena.take<F>(start[c.n_arcs] + Lanes<F>::count) : nullptr;
    if (blocks) store<F>(blocks + start[c.n_arcs], Vector<F>{});
    return blocks;
}

// Blocks of grand-sibling parts. The block of h -> m is (rank + 1, candidate heads of h): row 0 is for
// no inner sibling, row j for the one of rank j - 1; column q for the q-th candidate head of h.
inline int64_t* grand_sibling_starts(const Candidates& c, Arena& arena) {
    return block_starts(c, arena, [&](int64_t a) { return (c.rank[a] + 1) * c.width(c.head[a]); });
}

// Blocks of tri-sibling parts. The block of an arc has 1 number for no inner sibling, then for the
// inner sibling of each rank r = 0, 1, ... r + 1 numbers: no sibling inside that one, or the one of
// rank 0 .. r - 1. So the numbers of the sibling of rank r begin at 1 + r (r + 1) / 2.
inline int64_t* tri_sibling_starts(const Candidates& c, Arena& arena) {
    return block_starts(c, arena, [&](int64_t a) {
        return 1 + (int64_t)c.rank[a] * (c.rank[a] + 1) / 2;
    });
}

// Blocks of sibling parts. The block of an arc is (rank + 1,): no inner sibling, then rank 0, 1, ...
inline int64_t* sibling_starts(const Candidates& c, Arena& arena) {
    return block_starts(c, arena, [&](int64_t a) { return (int64_t)c.rank[a] + 1; });
}

}  // namespace gpuparse
