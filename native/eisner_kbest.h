// The k best derivations of a chart of maxima, lazily (Huang & Chiang 2005, algorithm 3).
//
// The best tree is unfolded from the top. Each item in it gets the list of its best splits; then, from
// the parts up, each item that is asked for its next best derivation takes it from its list, to which
// the successors of the last one are added. The top item then has the next best tree, which is
// unfolded in its turn. Only items of the trees that are found are looked at, O(n) a tree.
//
// A derivation of an item is a split r and a rank for each of its two parts: (value, r, a, b). A list
// is sorted, the highest value first and among equals the smallest (r, a, b). The successors of
// (r, a, b) are (r, a, b + 1) and, only if b = 0, (r, a + 1, 0): so each derivation is met once. No
// successor comes before it in the order, because sums of floats never fall when a part rises. So no
// heap is needed, and a list keeps no more derivations than can still be asked for.
#pragma once

#include "eisner.h"

namespace gpuparse {

enum : int64_t { RANK_BITS = 20, MAX_RANK = (1 << RANK_BITS) - 1 };

// Split and ranks in one number that orders as they do.
inline int64_t packed(int64_t r, int64_t a, int64_t b) {
    return r << (2 * RANK_BITS) | a << RANK_BITS | b;
}

// An item of one tree; `asks`: whether its next derivation is asked for.
struct Entry {
    Item item;
    int64_t rank;
    bool asks;
};

// The lists of derivations of a chart and the items of the tree that is being read.
template <class Chart>
struct KBest {
    typedef typename Chart::F F;

    const Chart& chart;
    const int64_t k;
    // List x holds lengths[x] derivations from x * k on; asked[x] of them were asked for. Values are
    // without what the item adds to all of them.
    F* values = nullptr;
    int64_t *splits = nullptr, *lengths = nullptr, *asked = nullptr;
    int32_t* list_of = nullptr;  // of each item, or -1
    Entry* entries = nullptr;
    int64_t n_lists = 0, size = 0;

    KBest(const Chart& of, int64_t count) : chart(of), k(count) {}

    // A tree has two items of more than one position for every word at most, and the top.
    bool make(Arena& arena) {
        const int64_t of_tree = 2 * chart.n + 2;
        const int64_t n_items = (Chart::SIBLINGS ? 5 : 3) * chart.n * (chart.n + 1) / 2 + 1;
        const int64_t lists = k < n_items / of_tree ? k * of_tree : n_items;
        const int64_t n_cells = (Chart::TOP + 1) * chart.plane;
        list_of = arena.take<int32_t>(n_cells);
        lengths = arena.take<int64_t>(lists), asked = arena.take<int64_t>(lists);
        entries = arena.take<Entry>(of_tree);
        values = arena.take<F>(lists * k), splits = arena.take<int64_t>(lists * k);
        if (arena.failed()) return false;
        memset(list_of, -1, (size_t)n_cells * sizeof *list_of);
        return true;
    }

    int32_t& list(const Item& item) const {
        return list_of[item.kind * chart.plane + chart.at(item.i, item.j)];
    }

    // Find the next tree t = 0, 1, ...: fill heads[1..n] and its value. Returns whether there is one.
    bool next(int64_t t, int64_t* heads, F& value) {
        if (t > 0) {
            advance(t - 1);
            if (lengths[0] == t) return false;
        }
        unfold(t, heads);
        value = values[t];
        return lengths[0] > 0;
    }

private:
    void enter(const Item& item, int64_t rank, bool asks) {
        // A part S of two words has a single derivation and no arc.
        if (item.j - item.i > (item.kind == Chart::SPLIT ? 1 : 0)) entries[size++] = {item, rank, asks};
    }

    // Put a derivation in its place in the list x. If the list would then hold more than `room` and
    // more than before, the last one is left out.
    void insert(int64_t x, int64_t room, F value, int64_t split) {
        F* const list_values = values + x * k;
        int64_t* const list_splits = splits + x * k;
        const auto stands_before = [&](int64_t p) {
            return list_values[p] > value || (list_values[p] == value && list_splits[p] < split);
        };
        int64_t end = lengths[x];
        if (end >= room) {
            if (stands_before(end - 1)) return;
            end--;
        }
        lengths[x] = end + 1;
        for (; end > 0 && !stands_before(end - 1); end--)
            list_values[end] = list_values[end - 1], list_splits[end] = list_splits[end - 1];
        list_values[end] = value, list_splits[end] = split;
    }

    // Enter the items of tree t and write its heads. Items that have no list get one.
    void unfold(int64_t t, int64_t* heads) {
        size = 0;
        entries[size++] = {chart.top(), t, true};
        for (int64_t p = 0; p < size; p++) {
            Entry& entry = entries[p];
            const Item item = entry.item;
            if (p > 0 && Chart::is_single(item)) {
                const Arc arc = chart.only_arc(item);
                heads[arc.modifier] = arc.head;
                entry.asks = false;
                continue;
            }
            int32_t& x = list(item);
            if (x < 0) {
                x = (int32_t)n_lists++;
                lengths[x] = 0, asked[x] = 1;
                const int64_t room = k - t;
                F least = Chart::Semiring::zero;
                const F* const last = values + x * k + room - 1;
                chart.for_splits(item, [&](int64_t r, F value) {
                    if (value > least) {
                        insert(x, room, value, packed(r, 0, 0));
                        if (lengths[x] == room) least = *last;
                    }
                    return false;
                });
                if (lengths[x] == 0) return;  // of the top
            }
            const int64_t rank = entry.rank;
            if (asked[x] > rank + 1) entry.asks = false;
            const bool asks = entry.asks;
            const int64_t split = splits[x * k + rank];
            const int64_t r = split >> (2 * RANK_BITS);
            const int64_t a = split >> RANK_BITS & MAX_RANK, b = split & MAX_RANK;
            const Arc arc = chart.arc(item, r);
            if (arc.head >= 0) heads[arc.modifier] = arc.head;
            const Parts parts = chart.parts(item, r);
            enter(parts.left, a, asks && b == 0);
            enter(parts.right, b, asks);
        }
    }

    // Find the next derivation of all items of tree t that are asked for it, parts first.
    void advance(int64_t t) {
        for (int64_t p = size - 1; p >= 0; p--) {
            if (!entries[p].asks) continue;
            const Item& item = entries[p].item;
            const int64_t rank = entries[p].rank, x = list(item), split = splits[x * k + rank];
            asked[x] = rank + 2;
            const int64_t r = split >> (2 * RANK_BITS);
            const int64_t a = split >> RANK_BITS & MAX_RANK, b = split & MAX_RANK;
            const Parts parts = chart.parts(item, r);
            const int64_t left = list_of_part(parts.left), right = list_of_part(parts.right);
            const F* const value_a = left >= 0 && a > 0 ? values + left * k + a : nullptr;
            const int64_t room = k - t + rank;
            if (b == 0 && left >= 0 && lengths[left] > a + 1) {
                const F value = chart.derivation(item, r, values + left * k + a + 1, nullptr);
                insert(x, room, value, packed(r, a + 1, b));
            }
            if (right >= 0 && lengths[right] > b + 1) {
                const F value = chart.derivation(item, r, value_a, values + right * k + b + 1);
                insert(x, room, value, packed(r, a, b + 1));
            }
        }
    }

    int64_t list_of_part(const Item& part) const { return part.i < part.j ? list(part) : -1; }
};

// The k best projective trees of n >= 1 words, 1 <= k <= MAX_RANK, the best first: heads(t, 1..n), and
// their scores as the chart adds them, which never rise. Returns how many trees there are, at most k, or
// -1 if memory ran out.
template <class F, class Siblings>
inline int64_t eisner_kbest_sentence(View2<const F> arc_scores, const Siblings& siblings, int64_t n,
                                     bool single_root, int64_t k, Arena& arena, View2<int64_t> heads,
                                     double* scores) {
    const ArenaMark mark(arena);
    typedef EisnerChart<MaxPlus<F>, Siblings> Chart;
    Chart chart(arc_scores, siblings, n, single_root);
    KBest<Chart> search(chart, k);
    if (!chart.make(arena) || !search.make(arena)) return -1;
    fill_maxima(chart);
    for (int64_t t = 0; t < k; t++) {
        if (is_interrupted(100 * n)) return -1;
        F score;
        if (!search.next(t, heads.row(t), score)) return t;
        scores[t] = score;
    }
    return k;
}

}  // namespace gpuparse
