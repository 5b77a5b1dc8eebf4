// The parts in which a gold structure and found structures differ, listed for one sentence.
//
// A part is a kind with its words: an arc, an arc with its label, two siblings of one head, the
// end of a head's modifiers on a side, a part of three or four words. Several found trees share
// most of their parts: each part is in the list once, with a sign for each found structure, +1 if
// only gold has it and -1 if gold lacks it. The order of the list decides the order in which
// margins are summed.
#pragma once
#include <stdint.h>
#include <string.h>

#include "arena.h"
#include "part_kinds.h"
#include "tree_siblings.h"

namespace gpuparse {

// Kinds of listed parts. HIGHER_PART + k: the k-th higher-order kind; LABELLED_PART + k: the same
// with a label.
enum {
    ARC_PART, LABEL_PART, SIBLING_PART, RIGHT_END_PART, LEFT_END_PART, HIGHER_PART,
    LABELLED_PART = HIGHER_PART + HIGHER_KINDS
};

// h, m: head and modifier; of an end, m is the outermost modifier, or h where there is none.
// third: the inner sibling (h for none in a sibling part), the child, or of a grandparent part the
// grandparent. fourth: of a grand-sibling the grandparent, of a tri-sibling the inner sibling's
// inner sibling. label: of parts with a label, else 0. next: in the chain of the same h and m.
struct Part { int32_t kind, h, m, third, fourth, label, next; };

// The words of a higher-order part in the order of its kind's roles.
struct PartWords { int32_t a, b, c, d; };

inline PartWords words_of_part(const Part& part, int64_t kind) {
    switch (kind) {
        case GRANDPARENT: return {part.third, part.h, part.m, ABSENT_WORD};
        case GRAND_SIBLING: return {part.fourth, part.h, part.third, part.m};
        case TRI_SIBLING: return {part.h, part.fourth, part.third, part.m};
        default: return {part.h, part.m, part.third, ABSENT_WORD};
    }
}

// An array in an arena that grows; the values before stay.
template <class T>
struct GrowingArray {
    T* data = nullptr;
    int64_t count = 0, capacity = 0;

    // Room for `more` values after the first `count`; false: out of memory.
    bool reserve(int64_t more, Arena& arena) {
        if (count + more <= capacity) return true;
        const int64_t wanted = 2 * (count + more) + 64;
        T* bigger = arena.take<T>(wanted);
        if (!bigger) return false;
        if (count) memcpy(bigger, data, (size_t)count * sizeof(T));
        data = bigger;
        capacity = wanted;
        return true;
    }
    void append(T value) { data[count++] = value; }
};

struct PartList {
    Arena& arena;
    int64_t k;                    // found structures
    int64_t nodes;                // n + 1
    GrowingArray<Part> parts;
    GrowingArray<int32_t> signs;  // (parts, k)
    int32_t* first;               // (nodes, nodes): the last part listed with this h and m, -1 for none
    double* costs;                // (k,): of the mistakes of each found structure, in words or arcs

    // An empty list, for sentences of n words. Out of memory, the arena has failed.
    PartList(int64_t n, int64_t k, Arena& arena)
        : arena(arena), k(k), nodes(n + 1), first(arena.take_filled<int32_t>(nodes * nodes, -1)),
          costs(arena.take<double>(k)) {}

    // Add `sign` for found structure j to a part, which is appended unless it is listed. Out of
    // memory, the part is left out.
    void add(int64_t j, int32_t sign, int64_t kind, int64_t h, int64_t m, int64_t third = 0,
             int64_t fourth = 0, int64_t label = 0) {
        int32_t& last = first[h * nodes + m];
        int32_t p = last;
        while (p >= 0) {
            const Part& part = parts.data[p];
            if (part.kind == kind && part.third == third && part.fourth == fourth &&
                part.label == label)
                break;
            p = part.next;
        }
        if (p < 0) {
            if (!parts.reserve(1, arena) || !signs.reserve(k, arena)) return;
            p = (int32_t)parts.count;
            parts.append({(int32_t)kind, (int32_t)h, (int32_t)m, (int32_t)third, (int32_t)fourth,
                          (int32_t)label, last});
            last = p;
            for (int64_t i = 0; i < k; i++) signs.append(0);
        }
        signs.data[p * k + j] += sign;
    }
};

// One tree of a sentence: heads, and labels or NULL, at 1..n; and a second one to compare with.
struct TreePair {
    int64_t n;
    const int64_t* gold;
    const int64_t* found;
    const int64_t* gold_labels;   // NULL where labels are not found with the trees
    const int64_t* found_labels;
};

// The parts listed besides arcs. higher, labelled: the ranges of templates of each kind, as the
// plan's family_start has them, or NULL; a kind without templates is left out.
struct ListedKinds {
    bool siblings;
    const int64_t* higher;
    bool only_last;  // parts with a grandparent are those of outermost modifiers alone
    const int64_t* labelled;
};

inline void list_arcs(const TreePair& trees, int64_t j, PartList& list) {
    for (int64_t m = 1; m <= trees.n; m++) {
        if (trees.gold[m] == trees.found[m]) continue;
        list.add(j, 1, ARC_PART, trees.gold[m], m);
        list.add(j, -1, ARC_PART, trees.found[m], m);
    }
}

inline void list_labels(const TreePair& trees, int64_t j, PartList& list) {
    const int64_t *gold = trees.gold_labels, *found = trees.found_labels;
    for (int64_t m = 1; m <= trees.n; m++) {
        if (trees.gold[m] == trees.found[m] && gold[m] == found[m]) continue;
        list.add(j, 1, LABEL_PART, trees.gold[m], m, 0, 0, gold[m]);
        list.add(j, -1, LABEL_PART, trees.found[m], m, 0, 0, found[m]);
    }
}

// Inner siblings of the arcs of a graph, h for none, NO_ARC where there is no arc: (nodes, nodes).
struct InnerSiblings {
    static constexpr int32_t NO_ARC = -1;
    int64_t nodes;
    int32_t* inner;
    int32_t* of(int64_t h) const { return inner + h * nodes; }
};

// is_arc(h, m): whether there is the arc. inner is NULL: out of memory.
template<class IsArc>
inline InnerSiblings find_inner_siblings(int64_t n, IsArc is_arc, Arena& arena) {
    InnerSiblings siblings{n + 1, arena.take<int32_t>((n + 1) * (n + 1))};
    for (int64_t h = 0; siblings.inner && h <= n; h++) {
        int32_t* row = siblings.of(h);
        row[0] = row[h] = InnerSiblings::NO_ARC;
        for (int64_t step = -1; step <= 1; step += 2) {
            int32_t s = (int32_t)h;
            for (int64_t m = h + step; 1 <= m && m <= n; m += step) {
                row[m] = is_arc(h, m) ? s : InnerSiblings::NO_ARC;
                if (is_arc(h, m)) s = (int32_t)m;
            }
        }
    }
    return siblings;
}

// The outermost modifier of h on its right or left side, h for none.
inline int64_t outermost_modifier(const InnerSiblings& siblings, int64_t h, int64_t n,
                                  bool is_right) {
    const int64_t step = is_right ? -1 : 1;
    int64_t m = is_right ? n : 1;
    while (m != h && siblings.of(h)[m] == InnerSiblings::NO_ARC) m += step;
    return m;
}

// List the arcs, sibling parts and ends that only one of two graphs has.
inline void list_arcs_and_siblings(int64_t n, const InnerSiblings& gold,
                                   const InnerSiblings& found, int64_t j, PartList& list) {
    constexpr int32_t NO_ARC = InnerSiblings::NO_ARC;
    for (int64_t h = 0; h <= n; h++) {
        for (int64_t m = 1; m <= n; m++) {
            const int32_t of_gold = gold.of(h)[m], of_found = found.of(h)[m];
            if (of_gold == of_found) continue;
            if (of_gold == NO_ARC) list.add(j, -1, ARC_PART, h, m);
            if (of_found == NO_ARC) list.add(j, 1, ARC_PART, h, m);
            if (of_gold != NO_ARC) list.add(j, 1, SIBLING_PART, h, m, of_gold);
            if (of_found != NO_ARC) list.add(j, -1, SIBLING_PART, h, m, of_found);
        }
    }
    for (int64_t h = 0; h <= n; h++) {
        for (int side = 0; side < 2; side++) {
            const bool is_right = side == 0;
            if (h == 0 && !is_right) continue;
            const int64_t of_gold = outermost_modifier(gold, h, n, is_right);
            const int64_t of_found = outermost_modifier(found, h, n, is_right);
            if (of_gold == of_found) continue;
            const int64_t kind = is_right ? RIGHT_END_PART : LEFT_END_PART;
            list.add(j, 1, kind, h, of_gold);
            list.add(j, -1, kind, h, of_found);
        }
    }
}

// The words around each word of a tree, ABSENT_WORD for none: (nodes,) each.
struct Relatives {
    int32_t* sibling;       // its inner sibling
    int32_t* next_sibling;  // the inner sibling of that
    int32_t* grandparent;
    int32_t* inner;         // its furthest modifier between it and its head
    int32_t* outer;         // its furthest modifier on the other side
    int32_t* is_last;       // whether it is its head's outermost modifier on its side
};

// sibling is NULL: out of memory.
inline Relatives relatives_of(int64_t n, const int64_t* heads, Arena& arena) {
    const int64_t nodes = n + 1;
    int32_t* all = arena.take<int32_t>(6 * nodes);
    Relatives tree{all, all + nodes, all + 2 * nodes, all + 3 * nodes, all + 4 * nodes,
                   all + 5 * nodes};
    if (!all) return tree;
    memset(all, 0, (size_t)(6 * nodes) * sizeof(int32_t));
    for (int64_t m = 1; m <= n; m++) tree.is_last[m] = 1;
    for (int64_t m = 1; m <= n; m++) {
        const int64_t h = heads[m];
        if (h > 0) {
            tree.grandparent[m] = (int32_t)heads[h];
            const bool is_between = heads[h] > h ? m > h : m < h;
            // From left to right, the first modifier met on the left side is the furthest there.
            int32_t* furthest = is_between ? tree.inner : tree.outer;
            if (m > h || furthest[h] == ABSENT_WORD) furthest[h] = (int32_t)m;
        }
        const int64_t s = inner_sibling_of(heads, m);
        if (s == h) continue;
        tree.sibling[m] = (int32_t)s;
        tree.is_last[s] = 0;
    }
    for (int64_t m = 1; m <= n; m++)
        if (tree.sibling[m] != ABSENT_WORD) tree.next_sibling[m] = tree.sibling[tree.sibling[m]];
    return tree;
}

struct FurtherWords { int32_t third, fourth; };

// The words, besides head and modifier, of the part of a higher-order kind at the word m.
inline FurtherWords further_words(int64_t kind, int64_t m, const Relatives& tree) {
    switch (kind) {
        case TRI_SIBLING: return {tree.sibling[m], tree.next_sibling[m]};
        case HEAD_CHILD: return {tree.sibling[m], 0};
        case INNER_GRANDCHILD: return {tree.inner[m], 0};
        case OUTER_GRANDCHILD: return {tree.outer[m], 0};
        case GRANDPARENT: return {tree.grandparent[m], 0};
        default: return {tree.sibling[m], tree.grandparent[m]};
    }
}

// List the differing parts of the kinds with templates, in the ranges `templates`; labelled: with the
// labels of their arcs.
inline void list_higher_parts(const TreePair& trees, const ListedKinds& kinds, bool labelled,
                              const Relatives& gold, const Relatives& found, int64_t j,
                              PartList& list) {
    const int64_t* templates = labelled ? kinds.labelled : kinds.higher;
    for (int64_t kind = labelled ? HEAD_CHILD : 0; kind < HIGHER_KINDS; kind++) {
        if (templates[kind] == templates[kind + 1]) continue;
        const int64_t listed = (labelled ? LABELLED_PART : HIGHER_PART) + kind;
        const bool only_last = kinds.only_last && kind <= GRAND_SIBLING;
        for (int64_t m = 1; m <= trees.n; m++) {
            const bool has = !only_last || gold.is_last[m], had = !only_last || found.is_last[m];
            const FurtherWords of_gold = further_words(kind, m, gold);
            const FurtherWords of_found = further_words(kind, m, found);
            const int64_t right = labelled ? trees.gold_labels[m] : 0;
            const int64_t guess = labelled ? trees.found_labels[m] : 0;
            if (has == had && trees.gold[m] == trees.found[m] && right == guess &&
                of_gold.third == of_found.third && of_gold.fourth == of_found.fourth)
                continue;
            if (has)
                list.add(j, 1, listed, trees.gold[m], m, of_gold.third, of_gold.fourth, right);
            if (had)
                list.add(j, -1, listed, trees.found[m], m, of_found.third, of_found.fourth,
                         guess);
        }
    }
}

// List the parts that only one of two trees has; j: the number of the found tree.
inline void list_differing_parts(const TreePair& trees, const ListedKinds& kinds, int64_t j,
                                 PartList& list) {
    Arena& arena = list.arena;
    if (kinds.siblings) {
        const auto siblings_of = [&](const int64_t* heads) {
            return find_inner_siblings(
                trees.n, [&](int64_t h, int64_t m) { return heads[m] == h; }, arena);
        };
        const InnerSiblings gold = siblings_of(trees.gold), found = siblings_of(trees.found);
        if (!gold.inner || !found.inner) return;
        list_arcs_and_siblings(trees.n, gold, found, j, list);
    } else {
        list_arcs(trees, j, list);
    }
    if (trees.gold_labels) list_labels(trees, j, list);
    if (!kinds.higher && !kinds.labelled) return;
    const Relatives gold = relatives_of(trees.n, trees.gold, arena);
    const Relatives found = relatives_of(trees.n, trees.found, arena);
    if (!gold.sibling || !found.sibling) return;
    if (kinds.higher) list_higher_parts(trees, kinds, false, gold, found, j, list);
    if (kinds.labelled) list_higher_parts(trees, kinds, true, gold, found, j, list);
}

// List the parts that only one of two graphs has, and the cost of the mistakes: arcs that only one
// has. gold, found: (n + 1, n + 1), whether there is the arc h -> m.
inline void list_differing_graph_parts(int64_t n, const uint8_t* gold, const uint8_t* found,
                                       PartList& list) {
    int64_t wrong = 0;
    for (int64_t cell = 0; cell < (n + 1) * (n + 1); cell++) wrong += !gold[cell] != !found[cell];
    list.costs[0] = (double)wrong;
    if (wrong == 0) return;
    const auto siblings_of = [&](const uint8_t* cells) {
        return find_inner_siblings(
            n, [&](int64_t h, int64_t m) { return cells[h * (n + 1) + m] != 0; }, list.arena);
    };
    const InnerSiblings of_gold = siblings_of(gold), of_found = siblings_of(found);
    if (!of_gold.inner || !of_found.inner) return;
    list_arcs_and_siblings(n, of_gold, of_found, 0, list);
}

// The cost of the mistakes of a found tree: words with a known gold head whose head, or known label,
// is another. gold, gold_labels: -1 where nothing is known.
inline double cost_of_tree(const TreePair& trees) {
    int64_t wrong = 0;
    for (int64_t m = 1; m <= trees.n; m++) {
        if (trees.gold[m] < 0) continue;
        bool is_wrong = trees.gold[m] != trees.found[m];
        if (trees.gold_labels && trees.gold_labels[m] >= 0)
            is_wrong |= trees.gold_labels[m] != trees.found_labels[m];
        wrong += is_wrong;
    }
    return (double)wrong;
}

}  // namespace gpuparse
