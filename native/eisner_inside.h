// Inside values of the charts of Eisner: maxima or sums over all derivations of each item.
//
// By diagonal (maxima of the first order or with pairs of siblings, short sentences): the operands of a
// split are contiguous over the start, and one loop over the splits keeps its sums in registers. By row,
// from the last to the first (all others): when row i begins, everything about later starts is known,
// and each recurrence is the product of a row and a triangular matrix: the cell (i,k) times all of row k.
// Neither reduces across a vector or stores a value twice, and nothing of size n^3 is stored: the
// provider spreads the parts of three words of one start into rows that stay in the cache.
#pragma once

#include "eisner_chart.h"

namespace gpuparse {

// -- By diagonal --

// Fill the cells of one width from `start` on, as many as a vector holds. The splits with a part
// C(i,i) or C(j,j), which is one, stand outside of the loop.
template <class Chart>
inline void fill_diagonal(const Chart& chart, int64_t width, int64_t start) {
    typedef typename Chart::Semiring S;
    typedef typename Chart::F F;
    typedef typename S::V V;
    const int64_t stride = chart.stride, out = width * stride + start;
    // One split on, the right part is one narrower and starts one further on.
    const int64_t back = 1 - stride, left_part = out - stride, right_part = out + (width - 1) * back;
    // From the widest left part to the narrowest: the parts that were stored last are then read last
    // as right parts, where the misaligned load of a fresh store would have to wait.
    const F *a_i = chart.i_r + left_part, *a_r = chart.c_r + left_part, *a_l = chart.c_l + left_part;
    const F *b_i = chart.i_l + right_part, *b_r = chart.c_r + right_part;
    const F* b_l = chart.c_l + right_part + back;
    V split = S::all(S::zero), right = split, left = split;
    V from_i, from_j;  // what the arcs between i and j are multiplied with
    if constexpr (Chart::PAIRS) {
        const F *a_s = chart.s_l + left_part, *b_s = chart.s_r + right_part;
        from_i = S::load(chart.c_l + out + back), from_j = S::load(chart.c_r + out - stride);
        for (int64_t d = 1; d < width; d++) {
            const V item_r = S::load(a_i), item_l = S::load(b_i);
            split = S::plus(S::times(S::load(a_r), S::load(b_l)), split);
            right = S::plus(S::times(item_r, S::load(b_r)), right);
            left = S::plus(S::times(S::load(a_l), item_l), left);
            from_i = S::plus(S::times(item_r, S::load(b_s)), from_i);
            from_j = S::plus(S::times(S::load(a_s), item_l), from_j);
            a_i -= stride, a_r -= stride, a_l -= stride, a_s -= stride;
            b_i -= back, b_r -= back, b_l -= back, b_s -= back;
        }
        split = S::plus(S::load(chart.c_l + out + back), split);
        S::store(chart.s_r + out, S::times(split, S::load(chart.s_r + out)));
        S::store(chart.s_l + out, S::times(split, S::load(chart.s_l + out)));
    } else {
        for (int64_t d = 1; d < width; d++) {
            split = S::plus(S::times(S::load(a_r), S::load(b_l)), split);
            right = S::plus(S::times(S::load(a_i), S::load(b_r)), right);
            left = S::plus(S::times(S::load(a_l), S::load(b_i)), left);
            a_i -= stride, a_r -= stride, a_l -= stride;
            b_i -= back, b_r -= back, b_l -= back;
        }
        from_i = from_j = S::plus(S::load(chart.c_l + out + back), split);
    }
    const V to_right = S::times(from_i, S::load(chart.i_r + out));  // where the arcs are until now
    const V to_left = S::times(from_j, S::load(chart.i_l + out));
    S::store(chart.i_r + out, to_right);
    S::store(chart.i_l + out, to_left);
    S::store(chart.c_r + out, S::plus(to_right, right));
    S::store(chart.c_l + out, S::plus(to_left, left));
}

template <class Chart>
inline void fill_by_diagonal(const Chart& chart) {
    typedef typename Chart::F F;
    const int64_t nodes = chart.last + 1, stride = chart.stride, offset = chart.offset;
    Pace pace;
    for (int64_t h = 0; h < nodes && !pace.is_interrupted(2 * nodes); h++) {
        const F* arcs = &chart.arc_scores(h + offset, offset);
        F *to_left = chart.i_l + h * stride, *to_right = chart.i_r + h;
        for (int64_t m = 0; m < h; m++, to_left += 1 - stride) *to_left = arcs[m];
        for (int64_t m = h; m < nodes; m++, to_right += stride) *to_right = arcs[m];
        if constexpr (Chart::PAIRS) {  // of h as the sibling
            const F* pairs = &chart.siblings.pair(h + offset, offset);
            F *before = chart.s_l + h * stride, *behind = chart.s_r + h;
            for (int64_t m = 0; m < h; m++, before += 1 - stride) *before = pairs[m];
            for (int64_t m = h; m < nodes; m++, behind += stride) *behind = pairs[m];
        }
    }
    for (int64_t i = 0; i < stride; i++) chart.c_r[i] = chart.c_l[i] = Chart::Semiring::one;
    for (int64_t width = 1; width <= chart.last; width++) {
        if (pace.is_interrupted(width * (nodes - width) / 2)) return;
        for (int64_t start = 0; start <= chart.last - width; start += Lanes<F>::count)
            fill_diagonal(chart, width, start);
    }
    if (chart.single_root)
        for (int64_t m = 0; m < nodes; m++) chart.root_arcs[m] = chart.arc_scores(0, m + 1);
}

// -- By row --

// Row i of all planes at a vector of ends from j on.
template <class Chart>
struct EisnerRow {
    typedef typename Chart::Semiring S;
    typedef typename Chart::F F;
    typedef typename S::V V;
    static constexpr bool SIBLINGS = Chart::SIBLINGS;
    const Chart& chart;
    const S semiring;
    const int64_t i, j, row;
    const V arcs_r, arcs_l;
    V pairs_r{}, pairs_l{}, first_l{}, ends_r{}, ends_l{};
    V sums[5];  // by Chart::Sum

    EisnerRow(const Chart& of, int64_t start, int64_t from)
        : chart(of), semiring(of.semiring), i(start), j(from), row(start * of.stride),
          arcs_r(semiring.load(of.arcs_r + row + from)),
          arcs_l(semiring.load(of.arcs_l + row + from)) {
        if constexpr (SIBLINGS) {
            first_l = semiring.load(of.first_l + row + from);
            ends_r = semiring.load(of.ends_r + row + from);
            ends_l = semiring.load(of.ends_l + row + from);
            if constexpr (!S::is_sum) {
                pairs_r = semiring.load(of.s_r + row + from);
                pairs_l = semiring.load(of.s_l + row + from);
            }
        }
    }

    // Add what has the split, or the inner sibling, k.
    template <int64_t X = 0>
    inline __attribute__((always_inline)) void take(int64_t k) {
        const auto of = chart.product(X);
        const int64_t cell = k * chart.stride + j;
        V item = semiring.splat(of.row + row + k), below = semiring.load(of.below + cell);
        if constexpr (X == Chart::OF_I_R) below = S::times(below, semiring.load(of.parts + cell));
        if constexpr (X == Chart::OF_I_L) item = S::times(item, semiring.load(of.parts + cell));
        sums[X] = S::plus(S::times(item, below), sums[X]);
        if constexpr (X + 1 < Chart::SUMS) take<X + 1>(k);
    }

    // I_L(i,k+1) without a sibling: C_R(i,k) first(k+1,i), at the end k + 1 alone.
    inline __attribute__((always_inline)) void take_first(int64_t k) {
        const int64_t lane = k + 1 - j;
        if (SIBLINGS && 0 <= lane && lane < Lanes<F>::count) {
            const V first = S::times(semiring.splat(chart.c_r + row + k), first_l);
            sums[Chart::OF_I_L] = S::plus(S::only(first, lane), sums[Chart::OF_I_L]);
        }
    }

    inline __attribute__((always_inline)) void write() const {
        const int64_t out = row + j;
        const V split = sums[Chart::OF_SPLIT];
        const V i_r = S::times(SIBLINGS ? sums[Chart::OF_I_R] : split, arcs_r);
        const V i_l = S::times(SIBLINGS ? sums[Chart::OF_I_L] : split, arcs_l);
        V e_r = i_r, e_l = i_l;
        semiring.store(chart.i_r + out, i_r);
        semiring.store(chart.i_l + out, i_l);
        if constexpr (Chart::STORES_SPLITS)
            semiring.store(chart.s_r + out, SIBLINGS && !S::is_sum ? S::times(split, pairs_r) : split);
        if constexpr (SIBLINGS) {
            if (!S::is_sum) semiring.store(chart.s_l + out, S::times(split, pairs_l));
            e_r = S::times(i_r, ends_r), e_l = S::times(i_l, ends_l);
            semiring.store(chart.e_r + out, e_r);
            semiring.store(chart.e_l + out, e_l);
        }
        semiring.store(chart.c_r + out, S::plus(e_r, sums[Chart::OF_C_R]));
        semiring.store(chart.c_l + out, S::plus(e_l, sums[Chart::OF_C_L]));
    }

    // Fill the cells. Those that are no spans get a value that does not count.
    inline void fill() {
        sums[Chart::OF_C_R] = sums[Chart::OF_C_L] = sums[Chart::OF_I_L] = S::all(S::zero);
        sums[Chart::OF_SPLIT] = semiring.load(chart.c_l + row + chart.stride + j);
        if constexpr (SIBLINGS)
            sums[Chart::OF_I_R] =
                S::times(sums[Chart::OF_SPLIT], semiring.load(chart.first_r + row + j));
        // The splits to the left of these ends, whose cells in row i are all known ...
        for (int64_t k = i + 1; k < j; k++) take(k);
        take_first(i > j - 1 ? i : j - 1);
        finish();
    }

    // Add the splits among these ends, of which one more is known in every round.
    inline void finish() {
        write();
        const int64_t end = j + Lanes<F>::count - 1;
        const int64_t last = end < chart.n ? end : chart.n;
        for (int64_t k = i + 1 > j ? i + 1 : j; k < last; k++) {
            take(k);
            take_first(k);
            write();
        }
    }
};

// Scores of maxima, in the planes of the chart.
template <class Chart>
inline void copy_scores(const Chart& chart) {
    typedef typename Chart::Semiring S;
    typedef typename Chart::F F;
    const int64_t n = chart.n, stride = chart.stride;
    F* const planes[] = {chart.i_r, chart.i_l, chart.s_r, chart.e_r, chart.e_l};
    Pace pace;
    for (F* cells : planes)
        for (int64_t i = 0; i < chart.plane && !pace.is_interrupted(stride); i += stride)
            for (int64_t j = 0; j < stride; j++) cells[i + j] = S::zero;
    for (int64_t j = 0; j < stride; j++) chart.c_l[(n + 1) * stride + j] = S::zero;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(3 * n); h++) {
        for (int64_t m = h + 1; m <= n; m++) chart.i_r[chart.at(h, m)] = chart.arc_scores(h, m);
        for (int64_t m = 1; m < h; m++) chart.i_l[chart.at(m, h)] = chart.arc_scores(h, m);
    }
    copy_ends(chart.siblings, n, stride, chart.e_r, chart.e_l);
    copy_parts_of_two(chart.siblings, n, stride, chart.first_r, chart.first_l, chart.s_r, chart.s_l);
    if (chart.single_root)
        for (int64_t m = 1; m <= n; m++) {
            chart.root_arcs[m] = chart.arc_scores(0, m);
            chart.root_parts[m] = chart.siblings.first(0, m) + chart.siblings.end(0, m);
        }
}

// The parts of three words of the start i, in the rows of the chart.
template <class Chart>
inline void spread_parts(const Chart& chart, int64_t i) {
    const int64_t n = chart.n, stride = chart.stride;
    // Sums keep the parts of pairs with those of three words. Pairs are the same under all heads.
    const bool are_pairs = Chart::Semiring::is_sum && chart.siblings.are_pairs;
    if (!are_pairs) chart.siblings.spread_parts_of_three(i, n, stride, chart.right, chart.left);
    if constexpr (Chart::Semiring::is_sum) {
        const auto& s = chart.semiring;
        Vector<double> top = splat(0.0);
        for (int64_t k = i + 1; k < n; k++) {
            double* __restrict right = chart.right + k * stride;
            if (!are_pairs || k == i + 1) {
                for (int64_t j = k + 1; j <= n; j++) {
                    const double of_three = are_pairs ? 0.0 : right[j];
                    right[j] = (of_three + chart.siblings.part_of_pair(j, k)) * chart.scale;
                }
                exp_cells(s, right, k + 1, n + 1, [&](int64_t j, const Vector<double>& scores) {
                    const Vector<double> tops = load(chart.part_tops + j);
                    store<double>(chart.part_tops + j, scores > tops ? scores : tops);
                });
            }
            if (i == 0) continue;  // the root modifies nothing
            double* __restrict left = chart.left + k * stride;
            const double beside = chart.siblings.part_of_pair(i, k);
            const int64_t end = are_pairs ? k + 1 : n;
            for (int64_t j = k + 1; j <= end; j++)
                left[j] = ((are_pairs ? 0.0 : left[j]) + beside) * chart.scale;
            exp_cells(s, left, k + 1, end + 1, [&](int64_t, const Vector<double>& scores) {
                top = scores > top ? scores : top;
            });
            for (int64_t j = end + 1; j <= n; j++) s.put(left + j, s.get(left + end));
        }
        if (i == 0) return s.fill_zero(chart.left, chart.plane);
        for (int64_t k = 0; k < Lanes<double>::count; k++)
            chart.part_tops[i] = top[k] > chart.part_tops[i] ? top[k] : chart.part_tops[i];
    }
}

// All inside values by row; the scores are in the planes.
template <class Chart>
inline void fill_by_row(const Chart& chart) {
    typedef typename Chart::Semiring S;
    const int64_t count = Lanes<typename Chart::F>::count;
    Pace pace;
    for (int64_t i = chart.n; i >= (chart.single_root ? 1 : 0); i--) {
        if (pace.is_interrupted((chart.n - i) * (chart.n - i))) return;
        if constexpr (Chart::SIBLINGS) spread_parts(chart, i);
        const int64_t diagonal = chart.at(i, i);
        chart.semiring.put(chart.c_r + diagonal, S::one);
        for (int64_t j = i / count * count; j <= chart.n; j += count) {
            EisnerRow<Chart>(chart, i, j).fill();
            chart.semiring.put(chart.c_r + diagonal, S::one);
        }
        chart.semiring.put(chart.c_l + diagonal, S::one);
        // The last split of C_R(i,j), with C_R(j,j), is added by `write`: sums would have it twice.
        if (S::is_sum) chart.semiring.put(chart.c_r + diagonal, S::zero);
    }
    for (int64_t i = 0; i <= chart.n; i++) chart.semiring.put(chart.c_r + chart.at(i, i), S::one);
}

// All inside values of a chart of maxima, unless the call is to end.
template <class Chart>
inline void fill_maxima(const Chart& chart) {
    if constexpr (Chart::BY_DIAGONAL) {
        fill_by_diagonal(chart);
    } else {
        copy_scores(chart);
        fill_by_row(chart);
    }
}

}  // namespace gpuparse
