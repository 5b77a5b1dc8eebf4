// Eisner with siblings and grandchildren: Carreras 2007; a row of the chart for each candidate arc.
//
// The row of the arc h -> m holds Closed(h,e,m) for all span ends e, so both maxima inside an open
// span, over the sibling and over the inner grandchild, are taken for a vector of splits at once. Rows
// of one head and side follow each other, the nearest modifier first, after one for the half without
// modifiers, so that "none" is a choice like all modifiers.
//
// Spans are filled from the last start to the first. Everything to the right of a start is known then:
// rows of arcs to the right are filled whole; those to the left get one more end with each start, by a
// maximum along a row of those that end there. There are no back-pointers: the back-trace finds the
// first best choice again.
#pragma once

#include <math.h>
#include <stdint.h>

#include "arc_chart.h"
#include "candidates.h"
#include "row_maxima.h"

namespace gpuparse {

// Where the block of each arc h -> m with a child begins: rows of one number for each label. which: 0,
// row 0 without an inner sibling, row j with the one of rank j - 1; 1, row 0 where m has no modifier
// between h and m, row j where its furthest one there is its j-th nearest candidate on that side; 2,
// the same for the candidates of m on the side away from h.
inline int64_t* child_starts(const Candidates& c, int64_t which, int64_t n_labels, Arena& arena) {
    return block_starts(c, arena, [&](int64_t a) {
        const int64_t h = c.head[a], m = c.modifier[a], side = (h < m) == (which == 2) ? 0 : 1;
        const int32_t* children = c.modifiers[side] + c.side[side][m];
        int64_t count = which == 0 ? c.rank[a] : c.side[side][m + 1] - c.side[side][m];
        if (which == 1) {  // those between h and m: all that are nearer than h
            const int64_t back = c.number(m, h);
            if (back >= 0) count = c.rank[back];
            while (count > 0 && (children[count - 1] < h) == (h < m)) count--;
        }
        return (count + 1) * n_labels;
    });
}

// Scores of an arc with its inner sibling, the score of the arc included; with its inner grandchild;
// and with its outer one: blocks as child_starts() says.
template <class F>
struct GrandchildBlocks {
    int64_t n_labels;
    Blocks<F> of_kind[3];

    int64_t rows(int64_t which, int64_t a) const {
        const int64_t* start = of_kind[which].start;
        return (start[a + 1] - start[a]) / n_labels;
    }
    // Row `row` of an arc.
    const F* scores(int64_t which, int64_t a, int64_t row = 0) const {
        return of_kind[which].data + of_kind[which].start[a] + row * n_labels;
    }
};

template <class F>
struct GrandchildChart {
    static constexpr int64_t L = Lanes<F>::count;
    const Candidates& c;
    const GrandchildBlocks<F>& blocks;
    bool single_root;
    int64_t n = 0, stride = 0;
    int64_t* rows[2] = {nullptr, nullptr};  // of the half of h without modifiers on a side
    F* chart = nullptr;    // an arc to the right has the end e in column e, one to the left in e - 1
    F* opened = nullptr;   // Open(h,m,l), by label
    F* weights = nullptr;  // the best label of an open span with each outer grandchild, none first
    F* ends = nullptr;     // what ends at the start at hand: [m, rank of its modifier]
    int64_t ends_stride = 0;
    int64_t* reach = nullptr;      // how many candidates to the left stand at or after the start
    F** weights_of_left = nullptr;  // from the nearest outer grandchild on, by rank of the arc
    HalfStack stack = {};

    // False: no memory.
    bool allocate(Arena& arena) {
        n = c.n;
        stride = n + L;
        int64_t n_rows = 0;
        rows[0] = arena.take<int64_t>(2 * (n + 1));
        if (!rows[0]) return false;
        rows[1] = rows[0] + n + 1;
        for (int64_t away = 0; away < 2; away++)
            for (int64_t h = 0; h <= n; h++) {
                rows[away][h] = n_rows;
                n_rows += 1 + c.side[away][h + 1] - c.side[away][h];
            }
        chart = arena.take_filled<F>((c.n_arcs + 2 * n + 2) * stride, -(F)INFINITY);
        opened = arena.take<F>(c.n_arcs * blocks.n_labels);
        weights = arena.take<F>(blocks.of_kind[2].start[c.n_arcs] / blocks.n_labels + L);
        ends_stride = (n + 2 * L - 1) / L * L;
        ends = arena.take_filled<F>((n + 1) * ends_stride, -(F)INFINITY);
        reach = arena.take_zeros<int64_t>(n + 1);
        weights_of_left = arena.take<F*>(c.side[1][n + 1]);
        stack.pairs = arena.take<int64_t>(2 * (n + 2));
        if (arena.failed()) return false;
        for (int64_t a = 1; a < c.n_arcs; a++)
            if (c.head[a] > c.modifier[a]) weights_of_left[c.side[1][c.head[a]] + c.rank[a]] = weight(a) + 1;
        for (int64_t h = 0; h <= n; h++) {
            chart[rows[0][h] * stride + h] = 0;
            if (h > 0) chart[rows[1][h] * stride + h - 1] = 0;
        }
        return true;
    }

    F* weight(int64_t a) const { return weights + blocks.of_kind[2].start[a] / blocks.n_labels; }

    static int64_t smaller(int64_t i, int64_t j) { return i < j ? i : j; }

    // One vector of max over rows begin .. stop - 1 of row + its score, each score `step` further.
    Vector<F> best_rows(const F* row, int64_t begin, int64_t stop, const F* scores, int64_t step,
                        Vector<F> best) const {
        for (int64_t j = begin; j < stop; j++)
            best = larger<Vector<F>>(load<F>(row + j * stride) + splat<F>(scores[j * step]), best);
        return best;
    }

    // Open: the largest sum of a span of i and a span of m over all splits, i < m. i_row, m_row: the
    // halves without modifiers at the first split; n_i, n_m: rows of each; of_i, of_m: scores of the
    // rows. The j-th candidate of i stands at least j to the right of i, that of m to the left of m.
    F best_split(const F* i_row, const F* m_row, int64_t width, int64_t n_i, int64_t n_m, const F* of_i,
                 const F* of_m, int64_t step) const {
        Vector<F> most = no_value<F>();
        for (int64_t d = 0; d < width; d += L) {
            const int64_t rows_i = smaller(n_i, d + L), rows_m = smaller(n_m, width - d);
            const Vector<F> best_i = best_rows(i_row + d, 0, rows_i, of_i, step, no_value<F>());
            const Vector<F> best_m = best_rows(m_row + d, 0, rows_m, of_m, step, no_value<F>());
            most = larger<Vector<F>>(best_i + best_m, most);
        }
        return largest_lane(most);
    }

    // Open of the arcs i -> m and m -> i with one label each, which read the same rows. The scores of
    // the rows of i and of m under i -> m, then under m -> i.
    void best_splits(const F* i_row, const F* m_row, int64_t width, int64_t n_i, int64_t n_m,
                     const F* right_i, const F* right_m, const F* left_i, const F* left_m, F* right,
                     F* left) const {
        Vector<F> most_right = no_value<F>(), most_left = no_value<F>();
        for (int64_t d = 0; d < width; d += L) {
            const int64_t rows_i = smaller(n_i, d + L), rows_m = smaller(n_m, width - d);
            Vector<F> i_right = no_value<F>(), i_left = i_right, m_right = i_right, m_left = i_right;
            const auto raise = [&](const F* row, int64_t j, const F* of_right, const F* of_left,
                                   Vector<F>& best_right, Vector<F>& best_left) {
                const Vector<F> halves = load<F>(row + d + j * stride);
                best_right = larger<Vector<F>>(halves + splat<F>(of_right[j]), best_right);
                best_left = larger<Vector<F>>(halves + splat<F>(of_left[j]), best_left);
            };
            const int64_t both = smaller(rows_i, rows_m);
            for (int64_t j = 0; j < both; j++) {
                raise(i_row, j, right_i, left_i, i_right, i_left);
                raise(m_row, j, right_m, left_m, m_right, m_left);
            }
            for (int64_t j = both; j < rows_i; j++) raise(i_row, j, right_i, left_i, i_right, i_left);
            for (int64_t j = both; j < rows_m; j++) raise(m_row, j, right_m, left_m, m_right, m_left);
            most_right = larger<Vector<F>>(i_right + m_right, most_right);
            most_left = larger<Vector<F>>(i_left + m_left, most_left);
        }
        *right = largest_lane(most_right);
        *left = largest_lane(most_left);
    }

    // The open spans of i and m, i < m, with n_i rows of i up to m.
    void open(int64_t i, int64_t m, int64_t n_i, int64_t right, int64_t left) {
        const F *i_row = chart + rows[0][i] * stride + i, *m_row = chart + rows[1][m] * stride + i;
        const int64_t width = m - i, n_m = reach[m] + 1;
        const int64_t n_labels = blocks.n_labels;
        if (n_labels == 1 && right >= 0 && left >= 0) {
            best_splits(i_row, m_row, width, n_i, n_m, blocks.scores(0, right), blocks.scores(1, right),
                        blocks.scores(1, left), blocks.scores(0, left), opened + right, opened + left);
            return;
        }
        for (int64_t k = 0; k < n_labels && right >= 0; k++)
            opened[right * n_labels + k] =
                best_split(i_row, m_row, width, n_i, n_m, blocks.scores(0, right) + k,
                           blocks.scores(1, right) + k, n_labels);
        for (int64_t k = 0; k < n_labels && left >= 0; k++)
            opened[left * n_labels + k] =
                best_split(i_row, m_row, width, n_i, n_m, blocks.scores(1, left) + k,
                           blocks.scores(0, left) + k, n_labels);
    }

    // The best label of the open span of an arc with each outer grandchild.
    void weigh(int64_t a) {
        const F *of_label = opened + a * blocks.n_labels;
        const F* outer = blocks.scores(2, a);
        const int64_t n_labels = blocks.n_labels, count = blocks.rows(2, a);
        F* of_child = weight(a);
        if (n_labels == 1) {
            for (int64_t j = 0; j < count; j++) of_child[j] = of_label[0] + outer[j];
            return;
        }
        for (int64_t j = 0; j < count; j++) {
            F best = -(F)INFINITY;
            for (int64_t k = 0; k < n_labels; k++) {
                const F value = of_label[k] + outer[j * n_labels + k];
                best = value > best ? value : best;
            }
            of_child[j] = best;
        }
    }

    // The row of an arc to the right: at each end the best sum of a weight and of a row of m.
    void close(int64_t i, int64_t m, int64_t a) {
        F* out = chart + (rows[0][i] + 1 + c.rank[a]) * stride + m;
        const F* of_m = chart + rows[0][m] * stride + m;
        const F* of_child = weight(a);
        const int64_t count = blocks.rows(2, a);
        for (int64_t e = 0; e < n + 1 - m; e += L)
            store<F>(out + e, best_rows(of_m + e, 0, count, of_child, 1, no_value<F>()));
    }

    // The closed spans of j to the left that end in i.
    void close_left(int64_t i, int64_t j) {
        const int64_t begin = c.side[1][j], count = reach[j];
        F* end = ends + j * ends_stride;
        F* cell = chart + (rows[1][j] + 1) * stride + i - 1;
        if (c.number(j, i) >= 0) {
            const F value = weights_of_left[begin + count][-1];
            end[count] = value;
            cell[count * stride] = value;
            reach[j]++;
        }
        for (int64_t p = count - 1; p >= 0; p--) {
            const int64_t last = c.modifiers[1][begin + p];
            const F* weight = weights_of_left[begin + p];
            const F* of_last = ends + last * ends_stride;
            Vector<F> best = no_value<F>();
            for (int64_t k = 0; k < reach[last]; k += L)
                best = larger<Vector<F>>(load<F>(weight + k) + load<F>(of_last + k), best);
            end[p] = cell[p * stride] = largest_lane(best);
        }
    }

    void fill() {
        for (int64_t i = n; i >= 0 && !is_interrupted((n - i) * n * n / 4); i--) {
            int64_t n_i = 1;  // rows of i up to the modifier at hand
            for (int64_t m = i + 1; m <= n; m++) {
                const int64_t right = c.number(i, m), left = c.number(m, i);
                if (right < 0 && left < 0) continue;
                open(i, m, n_i, right, left);
                if (left >= 0) weigh(left);
                if (right < 0) continue;
                weigh(right);
                close(i, m, right);
                if (!(single_root && i == 0)) n_i++;
            }
            if (i == 0) break;
            for (int64_t j = i + 1; j <= n; j++) close_left(i, j);
        }
    }

    // The first j < count with the largest cell[j * stride] + scores[j * step].
    int64_t first_best(const F* cell, const F* scores, int64_t step, int64_t count) const {
        F best = -(F)INFINITY;
        int64_t chosen = 0;
        for (int64_t j = 0; j < count; j++) {
            const F value = cell[j * stride] + scores[j * step];
            if (value > best) {
                best = value;
                chosen = j;
            }
        }
        return chosen;
    }

    // The j-th candidate modifier of h on side d, from 1: the number of its arc.
    int64_t arc_of(int64_t d, int64_t h, int64_t j) const {
        return c.number(h, c.modifiers[d][c.side[d][h] + j - 1]);
    }

    // Heads and labels under the closed span of the arc a that ends in a column.
    void follow(int64_t a, int64_t column, int64_t* heads, int64_t* labels) {
        const int64_t h = c.head[a], m = c.modifier[a], away = h < m ? 0 : 1;
        const int64_t n_labels = blocks.n_labels;
        heads[m] = h;
        // Closed(h,e,m) -> Open(h,m,l) + out(h,m,c,l) + Closed(m,e,c)
        const int64_t child = first_best(chart + rows[away][m] * stride + column, weight(a), 1,
                                         blocks.rows(2, a));
        if (child > 0) stack.push(arc_of(away, m, child), column);
        const F *of_label = opened + a * blocks.n_labels;
        const F* outer = blocks.scores(2, a, child);
        int64_t chosen = 0;
        F best = -(F)INFINITY;
        for (int64_t k = 0; k < n_labels; k++) {
            const F value = of_label[k] + outer[k];
            if (value > best) {
                chosen = k;
                best = value;
            }
        }
        labels[m] = chosen;
        // Open(h,m,l) -> Closed(h,r,s) + sib(h,m,s,l), Closed(m,r+1,c) + in(h,m,c,l)
        const int64_t n_siblings = single_root && h == 0 ? 1 : c.rank[a] + 1;
        const int64_t n_inner = blocks.rows(1, a);
        const F *sibling = blocks.scores(0, a) + chosen, *inner = blocks.scores(1, a) + chosen;
        const F *h_row = chart + rows[away][h] * stride, *m_row = chart + rows[1 - away][m] * stride;
        const int64_t begin = h < m ? h : m, stop = h < m ? m : h;
        int64_t r = begin, s = 0, k = 0;
        for (int64_t split = begin; split < stop; split++) {
            r = split;
            // The j-th candidate of either stands at least j away from it.
            const int64_t from_h = h < m ? r - h + 1 : h - r, from_m = h < m ? m - r : r - m + 1;
            s = first_best(h_row + r, sibling, n_labels, smaller(n_siblings, from_h));
            k = first_best(m_row + r, inner, n_labels, smaller(n_inner, from_m));
            const F of_h = h_row[s * stride + r] + sibling[s * n_labels];
            const F of_m = m_row[k * stride + r] + inner[k * n_labels];
            if (of_h + of_m == of_label[chosen]) break;
        }
        if (s > 0) stack.push(arc_of(away, h, s), r);
        if (k > 0) stack.push(arc_of(1 - away, m, k), r);
    }

    bool trace(int64_t* heads, int64_t* labels) {
        F best = -(F)INFINITY;
        int64_t last = 0;
        for (int64_t j = 1; j <= c.side[0][1]; j++) {
            const F value = chart[(rows[0][0] + j) * stride + n];
            if (value > best) {
                best = value;
                last = arc_of(0, 0, j);
            }
        }
        if (best == -(F)INFINITY) return false;
        stack.push(last, n);
        while (stack.depth > 0) {
            int64_t a, column;
            stack.pop(&a, &column);
            follow(a, column, heads, labels);
        }
        return true;
    }
};

// The best projective tree of one sentence with its labels; fills heads and labels at 1..n and returns
// whether there is a tree (if not, heads and labels are left as they were; without memory there is
// none, and the arena has failed). n >= 1.
// Cost: O(n^4) time, O(n^3) memory, times the labels for time.
template <class F>
inline bool eisner_grandchild_sentence(const Candidates& candidates, const GrandchildBlocks<F>& blocks,
                                       bool single_root, Arena& arena, int64_t* heads,
                                       int64_t* labels) {
    ArenaMark mark(arena);
    GrandchildChart<F> chart{candidates, blocks, single_root};
    if (!chart.allocate(arena)) return false;
    chart.fill();
    if (arena.failed()) return false;
    return chart.trace(heads, labels);
}

// The last modifier of m on the way from `begin` to `stop`, which is not included; 0 for none.
inline int64_t furthest_modifier(const int64_t* heads, int64_t m, int64_t begin, int64_t stop,
                                 int64_t step) {
    int64_t found = 0;
    for (int64_t k = begin; k != stop; k += step)
        if (heads[k] == m) found = k;
    return found;
}

// The sum over words 1, 2, ..., n of sibling (with arc), inner and outer score, one by one.
template <class F>
inline F grandchild_tree_score(const Candidates& c, const GrandchildBlocks<F>& blocks,
                               const int64_t* heads, const int64_t* labels) {
    F total = 0;
    for (int64_t m = 1; m <= c.n; m++) {
        const int64_t h = heads[m], a = c.number(h, m), step = h < m ? 1 : -1;
        const auto score = [&](int64_t which, int64_t head, int64_t child) {
            const int64_t row = child ? c.rank[c.number(head, child)] + 1 : 0;
            return blocks.scores(which, a, row)[labels[m]];
        };
        total += score(0, h, furthest_modifier(heads, h, h + step, m, step));
        total += score(1, m, furthest_modifier(heads, m, m - step, h, -step));
        const int64_t stop = step > 0 ? c.n + 1 : 0;
        total += score(2, m, furthest_modifier(heads, m, m + step, stop, step));
    }
    return total;
}

}  // namespace gpuparse
