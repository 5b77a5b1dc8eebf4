// First-order Eisner: the chart of one sentence over a semiring, and its best tree.
//
// Charts are stored by diagonal, chart[width * stride + start], so the operands of a split are
// contiguous over the start, and a loop over the splits keeps its sums in registers. There are no
// back-pointers: the back-trace looks for the first split that reaches the stored maximum, O(n) for
// each of the O(n) spans of a tree.
#pragma once

#include "arena.h"
#include "semiring.h"
#include "views.h"

namespace gpuparse {

// The cells of one sentence over the positions first .. first + last.
//   S(i,j)   = sum over i <= r < j of C_R(i,r) C_L(r+1,j)
//   I_R(i,j) = S(i,j) arc(i,j)                  I_L(i,j) = S(i,j) arc(j,i)
//   C_R(i,j) = sum over i < r <= j of I_R(i,r) C_R(r,j)
//   C_L(i,j) = sum over i <= r < j of C_L(i,r) I_L(r,j)
// The arcs come first, their diagonals turned into rows: arc(j,i) at [last - width][j] and arc(i,j)
// at [last + width][i], where I_R takes its place. The others follow, at [width][start].
template <class F>
struct EisnerChart {
    int64_t first, last, stride;
    F* cells;

    int64_t nodes() const { return last + 1; }
    F* arcs_left() const { return cells + last * stride; }  // [-width][end]
    F* I_R() const { return cells + last * stride; }
    F* C_R() const { return cells + (2 * last + 1) * stride; }
    F* C_L() const { return C_R() + nodes() * stride; }
    F* S() const { return C_L() + nodes() * stride; }
    F* I_L() const { return S() + nodes() * stride; }
    int64_t at(int64_t i, int64_t j) const { return (j - i) * stride + i; }
};

template <class F>
inline EisnerChart<F> make_eisner_chart(int64_t n, bool single_root, Arena& arena) {
    const int64_t first = single_root ? 1 : 0, last = n - first;
    const int64_t stride = whole_lines<F>(last + 1);
    F* cells = arena.take<F>(6 * (last + 1) * stride + 2 * whole_lines<F>(1));
    return {first, last, stride, cells};
}

// Write arc(h, m) for all h and m to where fill_eisner expects it.
template <class F, class Source>
inline void copy_arcs(const EisnerChart<F>& chart, View2<Source> arc_scores) {
    const int64_t nodes = chart.nodes(), last = chart.last, stride = chart.stride;
    for (int64_t h = 0; h < nodes; h++) {
        const Source* row = &arc_scores(h + chart.first, chart.first);
        F* column = chart.cells + (last - h) * stride + h;
        for (int64_t m = 0; m < nodes; m++) column[m * stride] = row[m];
    }
}

// Fill the cells of one width from `start` on, as many as a vector holds. The three chains of sums
// share one loop. The splits with a part C(i,i) or C(j,j), which is one, stand outside of it.
template <class Semiring>
inline void fill_spans(const EisnerChart<typename Semiring::F>& chart, int64_t width, int64_t start) {
    typedef typename Semiring::F F;
    typedef Vector<F> V;
    const int64_t stride = chart.stride, out = width * stride + start;
    // One split on, the right part is one narrower and starts one further on.
    const int64_t back = 1 - stride;
    F *const i_r = chart.I_R(), *const c_r = chart.C_R(), *const c_l = chart.C_L();
    F* const i_l = chart.I_L();
    // From the widest left part to the narrowest: the parts that were stored last are then read last
    // as right parts, where the misaligned load of a fresh store would have to wait.
    const F *a_i = i_r + out - stride, *a_r = c_r + out - stride, *a_l = c_l + out - stride;
    const int64_t b = out + (width - 1) * back;
    const F *b_i = i_l + b, *b_r = c_r + b, *b_l = c_l + b + back;
    V split = splat<F>(Semiring::zero), right = split, left = split;
    for (int64_t d = 1; d < width; d++) {
        split = Semiring::plus(Semiring::times(load(a_r), load(b_l)), split);
        right = Semiring::plus(Semiring::times(load(a_i), load(b_r)), right);
        left = Semiring::plus(Semiring::times(load(a_l), load(b_i)), left);
        a_i -= stride, a_r -= stride, a_l -= stride;
        b_i -= back, b_r -= back, b_l -= back;
    }
    split = Semiring::plus(load(c_l + out + back), split);
    const V to_right = Semiring::times(split, load(i_r + out));  // where the arcs are until now
    const V to_left = Semiring::times(split, load(chart.arcs_left() + start + width * back));
    store<F>(chart.S() + out, split);
    store<F>(i_r + out, to_right);
    store<F>(i_l + out, to_left);
    store<F>(c_r + out, Semiring::plus(to_right, right));
    store<F>(c_l + out, Semiring::plus(to_left, left));
}

// All inside values; the arcs are in the chart.
template <class Semiring>
inline void fill_eisner(const EisnerChart<typename Semiring::F>& chart) {
    typedef typename Semiring::F F;
    for (int64_t i = 0; i < chart.stride; i++) chart.C_R()[i] = chart.C_L()[i] = Semiring::one;
    for (int64_t width = 1; width <= chart.last; width++)
        for (int64_t start = 0; start <= chart.last - width; start += Lanes<F>::count)
            fill_spans<Semiring>(chart, width, start);
}

// A complete span whose tree is still to be read.
struct Span {
    int64_t start, end;
    bool is_right;
};

// The smallest d with left[d * stride] + right[d * (1 - stride)] == target.
template <class F>
inline int64_t first_split(F target, const F* left, const F* right, int64_t stride) {
    int64_t d = 0;
    while (left[d * stride] + right[d * (1 - stride)] != target) d++;
    return d;
}

// Heads of the best trees under the spans on the stack, which has room for n + 2 of them.
template <class F>
inline void trace_eisner(const EisnerChart<F>& chart, Span* stack, int64_t depth, int64_t* heads) {
    const int64_t stride = chart.stride, first = chart.first, back = 1 - stride;
    const F *i_r = chart.I_R(), *c_r = chart.C_R(), *c_l = chart.C_L(), *s = chart.S();
    const F* i_l = chart.I_L();
    while (depth > 0) {
        auto [i, j, is_right] = stack[--depth];
        while (i < j) {
            const int64_t out = chart.at(i, j);
            int64_t r, start, end;
            if (is_right) {  // C_R(i,j) -> I_R(i,r) C_R(r,j)
                r = i + 1 + first_split(c_r[out], i_r + stride + i, c_r + out + back, stride);
                heads[r + first] = i + first;
                start = i, end = r, i = r;
            } else {  // C_L(i,j) -> C_L(i,r) I_L(r,j)
                r = i + first_split(c_l[out], c_l + i, i_l + out, stride);
                heads[r + first] = j + first;
                start = r, end = j, j = r;
            }
            // I(i,j) -> C_R(i,r) C_L(r+1,j)
            const int64_t of = chart.at(start, end);
            r = start + first_split(s[of], c_r + start, c_l + of + back, stride);
            stack[depth++] = {start, r, true};
            stack[depth++] = {r + 1, end, false};
        }
    }
}

// The best projective tree of one sentence of n >= 1 words. Fills heads[1..n].
// Returns whether there is a tree; if not, heads are left as they were.
template <class F>
inline bool eisner_sentence(View2<const F> arc_scores, int64_t n, bool single_root, Arena& arena,
                            int64_t* heads) {
    const ArenaMark mark(arena);
    const EisnerChart<F> chart = make_eisner_chart<F>(n, single_root, arena);
    Span* stack = arena.take<Span>(2 * n + 4);
    if (chart.cells == nullptr || stack == nullptr) return false;
    copy_arcs<F>(chart, arc_scores);
    fill_eisner<MaxPlus<F>>(chart);
    const F* complete_left = chart.C_L();
    const F* complete_right = chart.C_R();
    F best = MaxPlus<F>::zero;
    if (single_root) {
        // The maximum over m of C_L(1,m) + C_R(m,n) + arc(0,m).
        int64_t root = 0;
        for (int64_t m = 0; m < n; m++) {
            F value = complete_left[chart.at(0, m)] + complete_right[chart.at(m, chart.last)];
            value += arc_scores(0, m + 1);
            if (value > best) best = value, root = m;
        }
        if (best > MaxPlus<F>::zero) {
            heads[root + 1] = 0;
            stack[0] = {0, root, false};
            stack[1] = {root, chart.last, true};
            trace_eisner(chart, stack, 2, heads);
        }
    } else {
        best = complete_right[chart.at(0, chart.last)];
        if (best > MaxPlus<F>::zero) {
            stack[0] = {0, chart.last, true};
            trace_eisner(chart, stack, 1, heads);
        }
    }
    return best > MaxPlus<F>::zero;
}

}  // namespace gpuparse
