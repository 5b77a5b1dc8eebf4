// Second-order Eisner with sibling parts: the chart of one sentence, and its best tree.
//
// The rows of all charts are filled from the last word to the first. When row i begins, everything
// about later starts is known, and each recurrence is a product of a row and a triangular matrix of
// the semiring: the cell (i,k) times all of row k. So nothing is reduced across a vector and nothing
// is stored twice. There are no back-pointers: the back-trace looks for the first best split again.
//
// Nothing of size n^3 is stored. The part of a sibling pair is added to the sibling item, once; the
// provider spreads the parts of three words into rows that stay in the cache.
#pragma once

#include "arena.h"
#include "semiring.h"
#include "sibling_provider.h"
#include "views.h"

namespace gpuparse {

// Planes of the chart, each n + 2 rows over j. Until row i is filled, I_R and I_L hold the arcs, and
// S_R and S_L the parts of pairs: S(i,j) with the part of the modifier j and the sibling i, and of the
// modifier i and the sibling j. E_R and E_L are I_R and I_L with the end of the outermost modifier,
// which they hold alone until row i is filled.
template <class Number>
struct SiblingChart {
    typedef Number F;
    int64_t n, stride, plane;
    F *I_R, *I_L, *C_R, *C_L, *S_R, *S_L, *first_R, *first_L, *E_R, *E_L;
    F *right, *left;  // rows of parts of three words

    int64_t at(int64_t i, int64_t j) const { return i * stride + j; }
};

template <class F>
inline bool make_sibling_chart(int64_t n, Arena& arena, SiblingChart<F>& chart) {
    chart.n = n, chart.stride = whole_lines<F>(n + 1), chart.plane = (n + 2) * chart.stride;
    F* cells = arena.take<F>(10 * chart.plane + 2 * (n + 1) * chart.stride + 2 * whole_lines<F>(1));
    if (cells == nullptr) return false;
    F** planes[] = {&chart.I_R,     &chart.I_L,     &chart.C_R, &chart.C_L, &chart.S_R,  &chart.S_L,
                    &chart.first_R, &chart.first_L, &chart.E_R, &chart.E_L, &chart.right};
    for (F** plane : planes) *plane = cells, cells += chart.plane;
    chart.left = chart.right + (n + 1) * chart.stride;
    return true;
}

// Row i of all planes at a vector of ends from j on.
template <class Semiring>
struct SiblingRow {
    typedef typename Semiring::F F;
    typedef Vector<F> V;
    struct Sums {
        V i_r, c_r, s, i_l, c_l;
    };

    const SiblingChart<F>& chart;
    const int64_t i, j, row;
    const V arcs_r, arcs_l, pairs_r, pairs_l, first_l, ends_r, ends_l;

    SiblingRow(const SiblingChart<F>& of, int64_t start, int64_t from)
        : chart(of), i(start), j(from), row(start * of.stride),
          arcs_r(load(of.I_R + row + from)), arcs_l(load(of.I_L + row + from)),
          pairs_r(load(of.S_R + row + from)), pairs_l(load(of.S_L + row + from)),
          first_l(load(of.first_L + row + from)),
          ends_r(load(of.E_R + row + from)), ends_l(load(of.E_L + row + from)) {}

    // Add what has the split, or the inner sibling, k.
    inline __attribute__((always_inline)) void take(int64_t k, Sums& sums) const {
        const int64_t below = k * chart.stride + j;
        const F* cell = chart.I_R + row + k;
        const V to_k = splat<F>(*cell), last_k = splat<F>(chart.E_R[row + k]);
        const V with_k = splat<F>(chart.C_R[row + k]), before = splat<F>(chart.C_L[row + k]);
        const V sibling_r = Semiring::times(load(chart.S_R + below), load(chart.right + below));
        const V sibling_l = Semiring::times(splat<F>(chart.S_L[row + k]), load(chart.left + below));
        sums.i_r = Semiring::plus(Semiring::times(to_k, sibling_r), sums.i_r);
        sums.c_r = Semiring::plus(Semiring::times(last_k, load(chart.C_R + below)), sums.c_r);
        sums.s = Semiring::plus(Semiring::times(with_k, load(chart.C_L + below + chart.stride)), sums.s);
        sums.i_l = Semiring::plus(Semiring::times(sibling_l, load(chart.I_L + below)), sums.i_l);
        sums.c_l = Semiring::plus(Semiring::times(before, load(chart.E_L + below)), sums.c_l);
    }

    // I_L(i,k+1) without a sibling: C_R(i,k) first(k+1,i), at the end k + 1 alone.
    inline __attribute__((always_inline)) void take_first(int64_t k, Sums& sums) const {
        const V first = Semiring::times(splat<F>(chart.C_R[row + k]), first_l);
        const int64_t lane = k + 1 - j;
        if (0 <= lane && lane < Lanes<F>::count) {
            V only = splat<F>(Semiring::zero);
            only[lane] = first[lane];
            sums.i_l = Semiring::plus(only, sums.i_l);
        }
    }

    inline __attribute__((always_inline)) void write(const Sums& sums) const {
        const int64_t at = row + j;
        const V i_r = Semiring::times(sums.i_r, arcs_r), i_l = Semiring::times(sums.i_l, arcs_l);
        store<F>(chart.I_R + at, i_r);
        store<F>(chart.I_L + at, i_l);
        store<F>(chart.S_R + at, Semiring::times(sums.s, pairs_r));
        store<F>(chart.S_L + at, Semiring::times(sums.s, pairs_l));
        const V e_r = Semiring::times(i_r, ends_r), e_l = Semiring::times(i_l, ends_l);
        store<F>(chart.E_R + at, e_r);
        store<F>(chart.E_L + at, e_l);
        store<F>(chart.C_R + at, Semiring::plus(e_r, sums.c_r));
        store<F>(chart.C_L + at, Semiring::plus(e_l, sums.c_l));
    }

    // Fill the cells. Those that are no spans get zero or NaN.
    inline void fill() const {
        const V nothing = splat<F>(Semiring::zero);
        const V next_l = load(chart.C_L + row + chart.stride + j);
        Sums sums = {Semiring::times(next_l, load(chart.first_R + row + j)), nothing, next_l, nothing,
                     nothing};
        // The splits to the left of these ends, whose cells in row i are all known ...
        for (int64_t k = i + 1; k < j; k++) take(k, sums);
        take_first(i > j - 1 ? i : j - 1, sums);
        write(sums);
        // ... and those among them, of which one more is known in every round.
        const int64_t last = j + Lanes<F>::count - 1 < chart.n ? j + Lanes<F>::count - 1 : chart.n;
        for (int64_t k = i + 1 > j ? i + 1 : j; k < last; k++) {
            take(k, sums);
            take_first(k, sums);
            write(sums);
        }
    }
};

// All inside values of the spans over the positions first .. n.
//   S(i,j)   = sum over i <= r < j of C_R(i,r) C_L(r+1,j)
//   I_R(i,j) = (C_L(i+1,j) first(i,j) + sum over i < k < j of I_R(i,k) (S(k,j) sib(i,j,k))) arc(i,j)
//   I_L(i,j) = (C_R(i,j-1) first(j,i) + sum over i < k < j of (S(i,k) sib(j,i,k)) I_L(k,j)) arc(j,i)
//   C_R(i,j) = sum over i < r <= j of I_R(i,r) end(i,r) C_R(r,j)
//   C_L(i,j) = sum over i <= r < j of C_L(i,r) I_L(r,j) end(j,r)
template <class Semiring, class Siblings>
inline void fill_sibling_chart(View2<const typename Semiring::F> arc_scores, const Siblings& siblings,
                               int64_t first, const SiblingChart<typename Semiring::F>& chart) {
    typedef typename Semiring::F F;
    const int64_t n = chart.n, stride = chart.stride, plane = chart.plane;
    F* const beyond[] = {chart.I_R, chart.I_L, chart.S_R, chart.E_R, chart.E_L};
    for (F* cells : beyond)
        for (int64_t at = 0; at < plane; at++) cells[at] = Semiring::zero;
    for (int64_t j = 0; j < stride; j++) chart.C_L[(n + 1) * stride + j] = Semiring::zero;
    for (int64_t h = 0; h <= n; h++) {
        for (int64_t m = h + 1; m <= n; m++) chart.I_R[chart.at(h, m)] = arc_scores(h, m);
        for (int64_t m = 1; m < h; m++) chart.I_L[chart.at(m, h)] = arc_scores(h, m);
    }
    copy_ends(siblings, n, stride, chart.E_R, chart.E_L);
    copy_parts_of_two(siblings, n, stride, chart.first_R, chart.first_L, chart.S_R, chart.S_L);
    for (int64_t i = n; i >= first; i--) {
        siblings.spread_parts_of_three(i, n, stride, chart.right, chart.left);
        F* const diagonal = chart.C_R + chart.at(i, i);
        *diagonal = Semiring::one;
        for (int64_t j = i / Lanes<F>::count * Lanes<F>::count; j <= n; j += Lanes<F>::count) {
            SiblingRow<Semiring>(chart, i, j).fill();
            *diagonal = Semiring::one;
        }
        chart.C_L[chart.at(i, i)] = Semiring::one;
    }
}

// A complete span whose tree is still to be read.
struct SiblingSpan {
    int64_t start, end;
    bool is_right;
};

// Heads of the best trees under the complete spans on the stack.
template <class F, class Siblings>
inline void trace_siblings(const SiblingChart<F>& chart, const Siblings& siblings, SiblingSpan* stack,
                           int64_t depth, int64_t* heads) {
    const F nothing = MaxPlus<F>::zero;
    while (depth > 0) {
        auto [i, j, is_right] = stack[--depth];
        if (i == j) continue;
        F best = nothing;
        int64_t r = i, h = is_right ? i : j;
        if (is_right) {  // C_R(i,j) -> I_R(i,r) end(i,r) C_R(r,j)
            for (int64_t k = i + 1; k <= j; k++) {
                const F value = chart.E_R[chart.at(i, k)] + chart.C_R[chart.at(k, j)];
                if (value > best) best = value, r = k;
            }
            stack[depth++] = {r, j, true};
        } else {  // C_L(i,j) -> C_L(i,r) I_L(r,j) end(j,r)
            for (int64_t k = i; k < j; k++) {
                const F value = chart.C_L[chart.at(i, k)] + chart.E_L[chart.at(k, j)];
                if (value > best) best = value, r = k;
            }
            stack[depth++] = {i, r, false};
        }
        int64_t m = r;
        while (true) {
            heads[m] = h;
            // I(h,m) -> I(h,s) S(s,m), or a span without modifiers of h.
            int64_t s = h;
            if (h < m) {
                best = chart.C_L[chart.at(h + 1, m)] + chart.first_R[chart.at(h, m)];
                for (int64_t k = h + 1; k < m; k++) {
                    F value = chart.S_R[chart.at(k, m)] + siblings.part_of_three(h, m, k);
                    value = chart.I_R[chart.at(h, k)] + value;
                    if (value > best) best = value, s = k;
                }
            } else {
                best = chart.C_R[chart.at(m, h - 1)] + chart.first_L[chart.at(m, h)];
                for (int64_t k = m + 1; k < h; k++) {
                    F value = chart.S_L[chart.at(m, k)] + siblings.part_of_three(h, m, k);
                    value = value + chart.I_L[chart.at(k, h)];
                    if (value > best) best = value, s = k;
                }
            }
            if (s == h) break;
            // S(i,j) -> C_R(i,r) C_L(r+1,j)
            const int64_t start = s < m ? s : m, end = s < m ? m : s;
            best = nothing, r = start;
            for (int64_t k = start; k < end; k++) {
                const F value = chart.C_R[chart.at(start, k)] + chart.C_L[chart.at(k + 1, end)];
                if (value > best) best = value, r = k;
            }
            stack[depth++] = {start, r, true};
            stack[depth++] = {r + 1, end, false};
            m = s;
        }
        if (h < m)
            stack[depth++] = {h + 1, m, false};
        else
            stack[depth++] = {m, h - 1, true};
    }
}

// The best projective tree of one sentence of n >= 1 words. Fills heads[1..n].
// Returns whether there is a tree; if not, heads are left as they were.
template <class F, class Siblings>
inline bool eisner_sibling_sentence(View2<const F> arc_scores, const Siblings& siblings, int64_t n,
                                    bool single_root, Arena& arena, int64_t* heads) {
    const ArenaMark mark(arena);
    SiblingChart<F> chart;
    SiblingSpan* stack = arena.take<SiblingSpan>(2 * n + 4);
    if (!make_sibling_chart<F>(n, arena, chart) || stack == nullptr) return false;
    fill_sibling_chart<MaxPlus<F>>(arc_scores, siblings, single_root ? 1 : 0, chart);
    F best = MaxPlus<F>::zero;
    int64_t depth = 0;
    if (single_root) {
        // The maximum over m of C_L(1,m) + C_R(m,n) + first(0,m) + end(0,m) + arc(0,m).
        int64_t root = 0;
        for (int64_t m = 1; m <= n; m++) {
            F value = chart.C_L[chart.at(1, m)] + chart.C_R[chart.at(m, n)];
            value += chart.first_R[m] + siblings.end(0, m);
            value += arc_scores(0, m);
            if (value > best) best = value, root = m;
        }
        if (best > MaxPlus<F>::zero) {
            heads[root] = 0;
            stack[depth++] = {1, root, false};
            stack[depth++] = {root, n, true};
        }
    } else {
        best = chart.C_R[n];
        if (best > MaxPlus<F>::zero) stack[depth++] = {0, n, true};
    }
    trace_siblings(chart, siblings, stack, depth, heads);
    return best > MaxPlus<F>::zero;
}

}  // namespace gpuparse
