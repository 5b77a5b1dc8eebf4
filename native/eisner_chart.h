// The charts of Eisner, of the first order and with sibling parts: their items and rules.
//
// With i <= j, products and sums being those of a semiring:
//
//   S(i,j)   = sum over i <= r < j of C_R(i,r) C_L(r+1,j)
//   C_R(i,j) = sum over i < r <= j of E_R(i,r) C_R(r,j)
//   C_L(i,j) = sum over i <= r < j of C_L(i,r) E_L(r,j)
//   C_R(i,i) = C_L(i,i) = 1
// of the first order (McDonald, Crammer & Pereira 2005, section 2.2)
//   I_R(i,j) = E_R(i,j) = S(i,j) arc(i,j)
//   I_L(i,j) = E_L(i,j) = S(i,j) arc(j,i)
// with siblings (McDonald & Pereira 2006, section 2.2) and ends of outermost modifiers
//   I_R(i,j) = (C_L(i+1,j) first(i,j) + sum over i < k < j of I_R(i,k) (S(k,j) sib(i,j,k))) arc(i,j)
//   I_L(i,j) = (C_R(i,j-1) first(j,i) + sum over i < k < j of (S(i,k) sib(j,i,k)) I_L(k,j)) arc(j,i)
//   E_R(i,j) = I_R(i,j) end(i,j)
//   E_L(i,j) = I_L(i,j) end(j,i)
// and of all trees
//   C_R(0,n), or with a single root word
//   TOP(1,n) = sum over 1 <= m <= n of C_L(1,m) C_R(m,n) (first(0,m) end(0,m)) arc(0,m)
//
// Maxima of the first order, and of siblings without parts of heads, are stored by diagonal, all other
// values by row: see eisner_inside.h.
#pragma once

#include "arena.h"
#include "chart.h"
#include "semiring.h"
#include "sibling_provider.h"
#include "views.h"

namespace gpuparse {

// The provider of a chart of the first order, and of one whose maxima are stored by row: see
// eisner_blocks.h.
struct NoSiblings {};
struct NoSiblingsByRow {};

// The chart of one sentence over a semiring.
template <class S, class Provider>
struct EisnerChart {
    typedef S Semiring;
    typedef typename S::F F;
    typedef typename S::Value Value;
    struct Order {
        static constexpr int of(const NoSiblings*) { return 1; }
        static constexpr int of(const NoSiblingsByRow*) { return -1; }
        static constexpr int of(const PairSiblings*) { return 3; }
        static constexpr int of(const void*) { return 2; }
    };
    static constexpr bool PAIRS = Order::of((const Provider*)nullptr) == 3;
    static constexpr bool SIBLINGS = PAIRS || Order::of((const Provider*)nullptr) == 2;
    static constexpr bool HEADS = SIBLINGS && !PAIRS;  // whether parts of siblings depend on heads
    static constexpr bool BY_DIAGONAL =
        !S::is_sum && (PAIRS || Order::of((const Provider*)nullptr) == 1);
    static constexpr bool BY_BLOCK = !S::is_sum && Order::of((const Provider*)nullptr) == -1;
    static constexpr bool STORES_SPLITS = S::is_sum || SIBLINGS;  // what reads s_r
    static constexpr int64_t BLOCK = 64;  // rows and ends of a block

    enum Kind : int64_t { C_R, C_L, SPLIT, I_R, I_L, TOP };

    View2<const F> arc_scores;  // [h, m]
    const Provider& siblings;
    int64_t n;
    bool single_root;
    double scale;  // what the scores of sums are multiplied by

    S semiring{};
    // Positions of items count from `offset`, from 0 to `last`.
    int64_t offset = 0, last = 0, stride = 0, plane = 0;
    // Planes, [at(i, j)]. Until a span is filled, the planes of I hold its arcs and those of E its
    // ends; for maxima, s_r and s_l hold the parts of the pairs of siblings (modifier j, sibling i)
    // and (modifier i, sibling j), which S is kept with there. Sums keep arcs and ends in planes of
    // their own, and the parts of pairs with those of three words.
    F *c_r = nullptr, *c_l = nullptr, *s_r = nullptr, *s_l = nullptr, *i_r = nullptr, *i_l = nullptr;
    F *e_r = nullptr, *e_l = nullptr, *first_r = nullptr, *first_l = nullptr;
    F *arcs_r = nullptr, *arcs_l = nullptr, *ends_r = nullptr, *ends_l = nullptr;
    F *right = nullptr, *left = nullptr;  // parts of three words of one start, [k * stride + j]
    F* row = nullptr;   // parts of one modifier and its siblings, [k]
    // For sums, by modifier: the largest scores of arcs, sibling parts and ends.
    F *arc_tops = nullptr, *part_tops = nullptr, *end_tops = nullptr;
    F* outside = nullptr;  // of sums: OUTSIDE_PLANES planes and as many rows
    static constexpr int64_t OUTSIDE_PLANES = !S::is_sum ? 0 : 5;
    F* partial = nullptr;  // of one block of a chart by block: S(i,j) of the splits in other blocks
    F *root_arcs = nullptr, *root_parts = nullptr;  // what TOP multiplies, [m]
    F* cells = nullptr;
    int64_t n_cells = 0;

    EisnerChart(View2<const F> arcs, const Provider& provider, int64_t words, bool single,
                double multiplier = 1.0)
        : arc_scores(arcs), siblings(provider), n(words), single_root(single), scale(multiplier) {}

    int64_t at(int64_t i, int64_t j) const {
        return BY_DIAGONAL ? (j - i) * stride + i : i * stride + j;
    }
    Value get(const F* of, int64_t i, int64_t j) const { return semiring.get(of + at(i, j)); }

    // Take the memory; returns whether there is enough.
    bool make(Arena& arena) {
        offset = BY_DIAGONAL && single_root ? 1 : 0;
        last = n - offset;
        stride = whole_lines<F>(last + 1);
        // Whole blocks, and a line more, so that equal columns are in different sets of a cache.
        if (BY_BLOCK) stride = (last + BLOCK) / BLOCK * BLOCK + whole_lines<F>(1);
        plane = (last + 2) * stride;
        struct Plane { F** cells; bool is_there; };
        const bool of_sums = S::is_sum, best_siblings = SIBLINGS && !S::is_sum;
        const Plane planes[] = {
            {&c_r, true}, {&c_l, true}, {&s_r, STORES_SPLITS}, {&i_r, true}, {&i_l, true},
            {&e_r, HEADS}, {&e_l, HEADS}, {&first_r, HEADS}, {&first_l, HEADS},
            {&s_l, best_siblings}, {&right, HEADS}, {&left, HEADS},
            {&arcs_r, of_sums}, {&arcs_l, of_sums},
            {&ends_r, of_sums && SIBLINGS}, {&ends_l, of_sums && SIBLINGS},
        };
        int64_t count = 0;
        for (const Plane& each : planes) count += each.is_there;
        n_cells = (count + OUTSIDE_PLANES) * plane + (6 + OUTSIDE_PLANES) * stride + whole_lines<F>(1);
        if (BY_BLOCK) n_cells += BLOCK * BLOCK;
        F* next = cells = arena.take<F>(S::planes_of_cells * n_cells);
        if (cells == nullptr) return false;
        semiring.set_cells(n_cells);
        for (const Plane& each : planes)
            if (each.is_there) *each.cells = next, next += plane;
        if (!SIBLINGS || S::is_sum) s_l = s_r;
        if (!HEADS) e_r = i_r, e_l = i_l;
        if (!S::is_sum) arcs_r = i_r, arcs_l = i_l;
        if (!S::is_sum || !SIBLINGS) ends_r = e_r, ends_l = e_l;
        F** rows[] = {&root_arcs, &root_parts, &row, &arc_tops, &part_tops, &end_tops, &outside};
        for (F** of : rows) *of = next, next += stride;
        partial = outside;
        return true;
    }

    // The sums over i < k < j that the items (i,j) are made of: of products of an item (i,k), which
    // stands in `row`, an item that begins at k or k + 1, in `below`, and with siblings parts of three
    // words. Inside values are these sums; outside values follow them backwards.
    enum Sum : int64_t { OF_C_R, OF_C_L, OF_SPLIT, OF_I_R, OF_I_L };
    static constexpr int64_t SUMS = SIBLINGS ? 5 : 3;
    struct Product {
        const F *row, *below, *parts;
    };
    Product product(int64_t sum) const {
        switch (sum) {
            case OF_C_R: return {e_r, c_r, nullptr};
            case OF_C_L: return {c_l, e_l, nullptr};
            case OF_SPLIT: return {c_r, c_l + stride, nullptr};
            case OF_I_R: return {i_r, s_r, right};
            default: return {s_l, i_l, left};
        }
    }

    // The item of all trees.
    Item top() const {
        if (single_root) return {TOP, BY_DIAGONAL ? 0 : 1, last};
        return {C_R, 0, last};
    }

    Parts parts(const Item& item, int64_t r) const {
        const int64_t i = item.i, j = item.j;
        switch (item.kind) {
            case C_R:
                return {{SIBLINGS ? I_R : SPLIT, i, r}, {C_R, r, j}};
            case C_L:
                return {{C_L, i, r}, {SIBLINGS ? I_L : SPLIT, r, j}};
            case SPLIT:
                return {{C_R, i, r}, {C_L, r + 1, j}};
            case I_R:
                if (r == i) return {{C_R, i, i}, {C_L, i + 1, j}};
                return {{I_R, i, r}, {SPLIT, r, j}};
            case I_L:
                if (r == i) return {{C_R, i, j - 1}, {C_L, j, j}};
                return {{SPLIT, i, r}, {I_L, r, j}};
            default:
                return {{C_L, i, r}, {C_R, r, j}};
        }
    }

    Arc arc(const Item& item, int64_t r) const {
        const int64_t i = item.i + offset, j = item.j + offset;
        switch (item.kind) {
            case C_R:
                return {SIBLINGS ? -1 : i, r + offset};
            case C_L:
                return {SIBLINGS ? -1 : j, r + offset};
            case I_R:
                return {i, j};
            case I_L:
                return {j, i};
            case TOP:
                return {0, r + offset};
            default:
                return {-1, 0};
        }
    }

    // An item of two positions with a single derivation, and its only arc.
    static bool is_single(const Item& item) { return item.j - item.i == 1 && item.kind < TOP; }
    Arc only_arc(const Item& item) const {
        const int64_t i = item.i + offset, j = item.j + offset;
        if (item.kind == SPLIT) return {-1, 0};
        return item.kind == C_R || item.kind == I_R ? Arc{i, j} : Arc{j, i};
    }

    // True if `walk` takes a part of an item apart before all items that wait.
    static bool comes_at_once(const Item& item, const Item& part) {
        if (part.kind > C_L) return true;
        return !SIBLINGS && item.kind <= C_L;  // the rest of the same head's modifiers
    }

    template <class Visit>
    void for_splits(const Item& item, Visit visit) const {
        const int64_t i = item.i, j = item.j;
        switch (item.kind) {
            case C_R:
                return for_products(e_r + at(i, i + 1), c_r + at(i + 1, j), i + 1, j, visit);
            case C_L:
                return for_products(c_l + at(i, i), e_l + at(i, j), i, j - 1, visit);
            case SPLIT:
                return for_products(c_r + at(i, i), c_l + at(i + 1, j), i, j - 1, visit);
            case TOP:
                return for_products(c_l + at(i, i), c_r + at(i, j), i, j, [&](int64_t m, Value value) {
                    return visit(m, with_root(m, value));
                });
            default:
                if constexpr (SIBLINGS) for_siblings(item, visit);
        }
    }

    // -- The k best derivations: values as the chart adds them, for maxima only --

    // The value of the derivation of an item with the split r. a and b are the values of its parts
    // without what an item adds to all its derivations; NULL: the best, from the chart.
    F derivation(const Item& item, int64_t r, const F* a, const F* b) const {
        const int64_t i = item.i, j = item.j;
        const auto end = [&](int64_t h, int64_t m) {
            if constexpr (SIBLINGS) return siblings.end(h, m);
            return F(0);
        };
        const auto arc_of = [&](int64_t h, int64_t m) { return arc_scores(h + offset, m + offset); };
        const auto chosen = [&](const F* value, const F* of, int64_t from, int64_t to) {
            return value ? *value : of[at(from, to)];
        };
        switch (item.kind) {
            case C_R: {
                F left_part = a ? *a + arc_of(i, r) : e_r[at(i, r)];
                if (SIBLINGS && a) left_part = left_part + end(i, r);
                return left_part + chosen(b, c_r, r, j);
            }
            case C_L: {
                F right_part = b ? *b + arc_of(j, r) : e_l[at(r, j)];
                if (SIBLINGS && b) right_part = right_part + end(j, r);
                return chosen(a, c_l, i, r) + right_part;
            }
            case SPLIT:
                return chosen(a, c_r, i, r) + chosen(b, c_l, r + 1, j);
            case TOP:
                return with_root(r, chosen(a, c_l, i, r) + chosen(b, c_r, r, j));
            default:
                if constexpr (SIBLINGS) {
                    if (item.kind == I_R) {
                        if (r == i) return chosen(b, c_l, i + 1, j) + first_r[at(i, j)];
                        const F part = siblings.part_of_three(i, j, r);
                        const F between = b ? *b + siblings.part_of_pair(j, r) : s_r[at(r, j)];
                        return (a ? *a + arc_of(i, r) : i_r[at(i, r)]) + (between + part);
                    }
                    if (r == i) return chosen(a, c_r, i, j - 1) + first_l[at(i, j)];
                    const F part = siblings.part_of_three(j, i, r);
                    const F between = a ? *a + siblings.part_of_pair(i, r) : s_l[at(i, r)];
                    return (between + part) + (b ? *b + arc_of(j, r) : i_l[at(r, j)]);
                }
                return 0;
        }
    }

private:
    Value with_root(int64_t m, Value value) const {
        if (HEADS) value = S::times(value, semiring.get(root_parts + m));
        return S::times(value, semiring.get(root_arcs + m));
    }

    template <class Visit>
    void for_products(const F* a, const F* b, int64_t r, int64_t end, Visit visit) const {
        const int64_t step_a = BY_DIAGONAL ? stride : 1, step_b = BY_DIAGONAL ? 1 - stride : stride;
        for (; r <= end; r++, a += step_a, b += step_b)
            if (visit(r, S::times(semiring.get(a), semiring.get(b)))) return;
    }

    template <class Visit>
    void for_siblings(const Item& item, Visit visit) const {
        const int64_t i = item.i, j = item.j;
        const bool is_right = item.kind == I_R;
        Value alone = is_right ? get(c_l, i + 1, j) : get(c_r, i, j - 1);
        if (HEADS) alone = S::times(alone, get(is_right ? first_r : first_l, i, j));
        if (visit(i, alone) || j - i == 1) return;
        if constexpr (HEADS) fill_row(is_right ? i : j, is_right ? j : i, i + 1, j - 1);
        for (int64_t k = i + 1; k < j; k++) {
            Value between = is_right ? get(s_r, k, j) : get(s_l, i, k);
            if (HEADS) between = S::times(between, semiring.get(row + k));
            const Value value = is_right ? S::times(get(i_r, i, k), between)
                                         : S::times(between, get(i_l, k, j));
            if (visit(k, value)) return;
        }
    }

    // The parts of the modifier m of h with the siblings from..to, written to `row`.
    void fill_row(int64_t h, int64_t m, int64_t from, int64_t to) const {
        siblings.fill_parts_of_three(h, m, from, to, row);
        if constexpr (S::is_sum) {
            for (int64_t k = from; k <= to; k++)
                row[k] = (row[k] + siblings.part_of_pair(m, k)) * scale;
            exp_cells(semiring, row, from, to + 1);
        }
    }
};

}  // namespace gpuparse
