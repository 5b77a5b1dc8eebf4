// Items of a chart, and the walk from the item of all trees down to one tree.
//
// A chart has the methods
//   top(): the item of all trees.
//   for_splits(item, visit): calls visit(r, value) for each derivation of an item, by rising split r,
//       until it returns true; the value is that of both parts and what the derivation adds.
//   parts(item, r): the two parts of a derivation.
//   arc(item, r): the arc that it adds.
// and is the only place that knows how its items are built.
#pragma once

#include "arena.h"

namespace gpuparse {

// A kind of item, as its chart numbers them, and the positions i <= j that it spans.
struct Item {
    int64_t kind, i, j;
};

struct Parts {
    Item left, right;
};

// A head and its modifier; head -1 for no arc.
struct Arc {
    int64_t head, modifier;
};

// The items of one tree that are still to be taken apart.
struct ItemStack {
    Item* items;
    int64_t depth;

    // Room for the trees of n words; returns whether there is memory.
    bool make(int64_t n, Arena& arena) {
        depth = 0, items = arena.take<Item>(2 * n + 4);
        return items != nullptr;
    }
    void push(const Item& item) {
        if (item.i < item.j) items[depth++] = item;
    }
    Item pop() { return items[--depth]; }
};

// Write the heads of the tree whose splits pick(item) chooses. The order of items is part of what
// random trees depend on: parts that only this item has come at once, its left part first.
template <class Chart, class Pick>
inline void walk(const Chart& chart, ItemStack& later, Pick pick, int64_t* heads) {
    Item now[3] = {chart.top()};
    int64_t depth = 1;
    while (depth > 0 || later.depth > 0) {
        const Item item = depth > 0 ? now[--depth] : later.pop();
        const int64_t r = pick(item);
        const Arc arc = chart.arc(item, r);
        if (arc.head >= 0) heads[arc.modifier] = arc.head;
        const Parts parts = chart.parts(item, r);
        const bool left_at_once = chart.comes_at_once(item, parts.left);
        const bool right_at_once = chart.comes_at_once(item, parts.right);
        if (!left_at_once) later.push(parts.left);
        if (!right_at_once) later.push(parts.right);
        // The part without an arc of its own is taken apart before the other.
        const bool left_last = parts.left.kind == Chart::SPLIT;
        for (int64_t turn = 0; turn < 2; turn++) {
            const bool is_left = (turn == 1) == left_last;
            const Item& part = is_left ? parts.left : parts.right;
            if ((is_left ? left_at_once : right_at_once) && part.i < part.j) now[depth++] = part;
        }
    }
}

// The smallest split of the largest value.
template <class Chart>
inline int64_t best_split(const Chart& chart, const Item& item) {
    typedef typename Chart::F F;
    F best = Chart::Semiring::zero;
    int64_t split = item.i;
    chart.for_splits(item, [&](int64_t r, F value) {
        if (value > best) best = value, split = r;
        return false;
    });
    return split;
}

}  // namespace gpuparse
