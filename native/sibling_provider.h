// Providers: where a second-order decoder reads sibling scores from.
//
// DenseSiblings reads arrays. FactoredSiblings adds cells of a table: it has matrices for the parts
// of one and two words and gathers the parts of three words, so nothing of size n^3 is stored.
// Both have the same methods, and decoders are templates over the provider. PairSiblings is for the best
// tree alone, where all scores of siblings are those of pairs.
#pragma once

#include "interrupts.h"
#include "views.h"

namespace gpuparse {

// scores(h, m, s): modifier m of h with the inner sibling s, s == h where there is none.
// ends(h, m): m is the outermost modifier of h on its side.
template <class Number>
struct DenseSiblings {
    typedef Number F;
    static constexpr bool are_pairs = false;
    View3<const F> scores;
    View2<const F> ends;

    F first(int64_t h, int64_t m) const { return scores(h, m, h); }
    F part_of_pair(int64_t, int64_t) const { return 0; }
    F part_of_three(int64_t h, int64_t m, int64_t s) const { return scores(h, m, s); }
    F score(int64_t h, int64_t m, int64_t s) const { return scores(h, m, s); }
    F end(int64_t h, int64_t m) const { return ends(h, m); }

    // row[s] = part_of_three(h, m, s) for s = from..to.
    void fill_parts_of_three(int64_t h, int64_t m, int64_t from, int64_t to, F* row) const {
        for (int64_t s = from; s <= to; s++) row[s] = scores(h, m, s);
    }

    // For i < k < j: the part of the modifier j of i with the sibling k goes to
    // right[k * stride + j], that of the modifier i of j to left[k * stride + j].
    void spread_parts_of_three(int64_t i, int64_t n, int64_t stride, F* right, F* left) const {
        for (int64_t j = i + 2; j <= n; j++) {
            const F *to_right = &scores(i, j, 0), *to_left = &scores(j, i, 0);
            for (int64_t k = i + 1; k < j; k++) {
                right[k * stride + j] = to_right[k];
                left[k * stride + j] = to_left[k];
            }
        }
    }

    // For the heads h = from..to and every word m: at(h, m) is the score of m with the inner sibling
    // near(h, m), beyond(h, m) that of the modifier next(h, m) with the inner sibling m, if next >= 0.
    void fill_sibling_rows(int64_t n, int64_t from, int64_t to, View2<const int64_t> near,
                           View2<const int64_t> next, View2<F> at, View2<F> beyond) const {
        for (int64_t h = from; h <= to; h++)
            for (int64_t m = 1; m <= n; m++)
                if (m != h) {
                    at(h, m) = scores(h, m, near(h, m));
                    if (next(h, m) >= 0) beyond(h, m) = scores(h, next(h, m), m);
                }
    }
};

// No scores of siblings and ends, for searches by single changes: all are 0.
template <class Number>
struct ZeroSiblings {
    typedef Number F;

    F score(int64_t, int64_t, int64_t) const { return 0; }
    F end(int64_t, int64_t) const { return 0; }

    void fill_sibling_rows(int64_t n, int64_t from, int64_t to, View2<const int64_t>,
                           View2<const int64_t>, View2<F> at, View2<F> beyond) const {
        for (int64_t h = from; h <= to; h++)
            for (int64_t m = 0; m <= n; m++) at(h, m) = beyond(h, m) = 0;
    }
};

// score(h, m, s) = pair(s, m) + the sum over the terms p of table[cell] with
//   cell  = firsts[p] + (place & head_mask(p, h) & sibling_mask(p, s) & modifier_mask(p, m))
//   place = head(p, h) ^ sibling(p, s) ^ modifier(p, m) ^ gaps(p, m - s + middle)
// Masks are -1 or 0: a word without a value for a term leads to the term's first cell, which is 0.
// first_scores(h, m): the whole score of a modifier without an inner sibling.
template <class Weight, class Number>
struct FactoredSiblings {
    typedef Number F;
    View2<const F> first_scores, pair, ends;
    const Weight* table;
    int64_t terms;
    const int64_t* firsts;                            // (terms,)
    View2<const int64_t> head, sibling, modifier;     // (terms, n + 1)
    View2<const int64_t> head_mask, sibling_mask, modifier_mask;
    View2<const int64_t> gaps;                        // (terms, 2 * middle + 1)
    int64_t middle;
    bool are_pairs = false;  // whether all scores but `pair` are 0

    F first(int64_t h, int64_t m) const { return first_scores(h, m); }
    F part_of_pair(int64_t m, int64_t s) const { return pair(s, m); }
    F end(int64_t h, int64_t m) const { return ends(h, m); }

    F part_of_three(int64_t h, int64_t m, int64_t s) const {
        F total = 0;
        for (int64_t p = 0; p < terms; p++) {
            int64_t place = head(p, h) ^ sibling(p, s) ^ modifier(p, m) ^ gaps(p, middle + m - s);
            place &= head_mask(p, h) & sibling_mask(p, s) & modifier_mask(p, m);
            total += table[firsts[p] + place];
        }
        return total;
    }

    F score(int64_t h, int64_t m, int64_t s) const {
        return s == h ? first(h, m) : pair(s, m) + part_of_three(h, m, s);
    }

    void fill_parts_of_three(int64_t h, int64_t m, int64_t from, int64_t to, F* row) const {
        for (int64_t s = from; s <= to; s++) row[s] = 0;
        for (int64_t p = 0; p < terms; p++) {
            if ((head_mask(p, h) & modifier_mask(p, m)) == 0) continue;
            const int64_t fixed = head(p, h) ^ modifier(p, m);
            const int64_t *siblings = &sibling(p, 0), *masks = &sibling_mask(p, 0);
            const int64_t* gap = &gaps(p, middle + m);
            const Weight* __restrict cells = table + firsts[p];
            for (int64_t s = from; s <= to; s++)
                row[s] += cells[(fixed ^ siblings[s] ^ gap[-s]) & masks[s]];
        }
    }

    void spread_parts_of_three(int64_t i, int64_t n, int64_t stride, F* right, F* left) const {
        for (int64_t k = i + 1; k < n; k++) {
            F *__restrict to_right = right + k * stride, *__restrict to_left = left + k * stride;
            for (int64_t j = k + 1; j <= n; j++) to_right[j] = to_left[j] = 0;
            for (int64_t p = 0; p < terms; p++) {
                if (sibling_mask(p, k) == 0) continue;
                const int64_t inner = sibling(p, k);
                const Weight* __restrict cells = table + firsts[p];
                if (head_mask(p, i) != 0) {
                    const int64_t fixed = head(p, i) ^ inner;
                    const int64_t *modifiers = &modifier(p, 0), *masks = &modifier_mask(p, 0);
                    const int64_t* gap = &gaps(p, middle - k);
                    for (int64_t j = k + 1; j <= n; j++)
                        to_right[j] += cells[(fixed ^ modifiers[j] ^ gap[j]) & masks[j]];
                }
                if (modifier_mask(p, i) != 0) {
                    const int64_t fixed = inner ^ modifier(p, i) ^ gaps(p, middle + i - k);
                    const int64_t *heads = &head(p, 0), *masks = &head_mask(p, 0);
                    for (int64_t j = k + 1; j <= n; j++)
                        to_left[j] += cells[(fixed ^ heads[j]) & masks[j]];
                }
            }
        }
    }

    void fill_sibling_rows(int64_t n, int64_t from, int64_t to, View2<const int64_t> near,
                           View2<const int64_t> next, View2<F> at, View2<F> beyond) const {
        for (int64_t h = from; h <= to; h++) {
            for (int64_t m = 1; m <= n; m++) at(h, m) = beyond(h, m) = 0;
            for (int64_t p = 0; p < terms; p++) {
                if (head_mask(p, h) == 0) continue;
                const int64_t of_head = head(p, h);
                const Weight* __restrict cells = table + firsts[p];
                for (int64_t m = 1; m <= n; m++) {
                    if (m == h) continue;
                    const int64_t s = near(h, m), o = next(h, m);
                    if (s != h) {
                        const int64_t place = sibling(p, s) ^ modifier(p, m) ^ gaps(p, middle + m - s);
                        at(h, m) += cells[(of_head ^ place) & sibling_mask(p, s) & modifier_mask(p, m)];
                    }
                    if (o >= 0) {
                        const int64_t place = sibling(p, m) ^ modifier(p, o) ^ gaps(p, middle + o - m);
                        beyond(h, m) += cells[(of_head ^ place) & sibling_mask(p, m) & modifier_mask(p, o)];
                    }
                }
            }
            for (int64_t m = 1; m <= n; m++) {
                if (m == h) continue;
                const int64_t s = near(h, m), o = next(h, m);
                at(h, m) = s != h ? pair(s, m) + at(h, m) : first(h, m);
                if (o >= 0) beyond(h, m) = pair(m, o) + beyond(h, m);
            }
        }
    }
};

// pair(s, m): modifier m of any head with the inner sibling s.
struct PairSiblings {
    View2<const double> pair;
};

// The provider of pairs alone, for all that needs more than the best tree. none: zeros.
template <class Weight>
inline FactoredSiblings<Weight, double> factored(const PairSiblings& pairs, View2<const double> none) {
    FactoredSiblings<Weight, double> made = {};
    made.pair = pairs.pair;
    made.first_scores = made.ends = none;
    made.are_pairs = true;
    return made;
}

// The parts of i < j, written to [i * stride + j]. first_right: of the modifier j of i, first_left: of
// the modifier i of j, without siblings. pair_right: of the modifier j and its sibling i, pair_left:
// of the modifier i and its sibling j.
template <class Siblings, class F>
inline void copy_parts_of_two(const Siblings& siblings, int64_t n, int64_t stride, F* first_right,
                              F* first_left, F* pair_right, F* pair_left) {
    Pace pace;
    for (int64_t i = 0; i <= n && !pace.is_interrupted(4 * n); i++) {
        for (int64_t j = i + 1; j <= n; j++) {
            first_right[i * stride + j] = siblings.first(i, j);
            pair_right[i * stride + j] = siblings.part_of_pair(j, i);
        }
        for (int64_t j = 0; j < i; j++) {
            first_left[j * stride + i] = siblings.first(i, j);
            pair_left[j * stride + i] = siblings.part_of_pair(j, i);
        }
    }
}

// The ends of i < j, written to [i * stride + j]: to_right of j under i, to_left of i under j.
template <class Siblings, class F>
inline void copy_ends(const Siblings& siblings, int64_t n, int64_t stride, F* to_right, F* to_left) {
    Pace pace;
    for (int64_t i = 0; i <= n && !pace.is_interrupted(4 * n); i++) {
        for (int64_t j = i + 1; j <= n; j++) to_right[i * stride + j] = siblings.end(i, j);
        for (int64_t j = 1; j < i; j++) to_left[j * stride + i] = siblings.end(i, j);
    }
}

}  // namespace gpuparse
