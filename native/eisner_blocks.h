// Inside values of the chart of Eisner for maxima of the first order, block by block: for long sentences.
//
// By diagonal, each split is a load from main memory once the chart outgrows the caches. Here the cells
// are stored by row and filled in square blocks. The splits that lie in other blocks, nearly all, are a
// product of finished blocks like that of matrices, whose operands stay in the caches and whose sums
// stay in registers; the splits within the block follow row by row. Maxima do not depend on the order,
// so the values are those by diagonal.
#pragma once

#include "eisner_inside.h"

namespace gpuparse {

// A part of a product of blocks that fits in registers.
constexpr int64_t TILE_ROWS = 4, TILE_VECTORS = VECTOR_BYTES == 64 ? 4 : 2;

// out(i, j) = max of out(i, j) and of a(i, k) + b(k, j) over k < count, for the rows and ends of a tile.
template <class S>
inline void add_tile(typename S::F* out, int64_t out_stride, const typename S::F* a,
                     const typename S::F* b, int64_t stride, int64_t count) {
    typedef typename S::F F;
    typedef typename S::V V;
    V sums[TILE_ROWS][TILE_VECTORS];
    for (int64_t i = 0; i < TILE_ROWS; i++)
        for (int64_t v = 0; v < TILE_VECTORS; v++)
            sums[i][v] = S::load(out + i * out_stride + v * Lanes<F>::count);
    for (int64_t k = 0; k < count; k++, a++, b += stride)
        for (int64_t v = 0; v < TILE_VECTORS; v++) {
            const V below = S::load(b + v * Lanes<F>::count);
            for (int64_t i = 0; i < TILE_ROWS; i++)
                sums[i][v] = S::plus(S::times(S::splat(a + i * stride), below), sums[i][v]);
        }
    for (int64_t i = 0; i < TILE_ROWS; i++)
        for (int64_t v = 0; v < TILE_VECTORS; v++)
            S::store(out + i * out_stride + v * Lanes<F>::count, sums[i][v]);
}

// The same for a whole block of ends from j on and `count` splits from k on. a, b: planes.
template <class Chart>
inline void add_product(const Chart& chart, typename Chart::F* out, int64_t out_stride,
                        const typename Chart::F* a, const typename Chart::F* b, int64_t i, int64_t k,
                        int64_t j, int64_t count) {
    constexpr int64_t WIDTH = TILE_VECTORS * Lanes<typename Chart::F>::count;
    static_assert(Chart::BLOCK % WIDTH == 0 && Chart::BLOCK % TILE_ROWS == 0, "tiles fill a block");
    for (int64_t column = 0; column < Chart::BLOCK; column += WIDTH)
        for (int64_t row = 0; row < Chart::BLOCK; row += TILE_ROWS)
            add_tile<typename Chart::Semiring>(
                out + row * out_stride + column, out_stride, a + chart.at(i + row, k),
                b + chart.at(k, j + column), chart.stride, count);
}

// Write the arcs of a block where their items will be; other values that do not count.
template <class Chart>
inline void copy_arcs(const Chart& chart, int64_t first_row, int64_t first_end) {
    typedef typename Chart::Semiring S;
    const int64_t rows = first_row + Chart::BLOCK <= chart.n ? first_row + Chart::BLOCK : chart.n + 1;
    for (int64_t i = first_row; i < rows; i++)
        for (int64_t j = first_end; j < first_end + Chart::BLOCK; j++) {
            const int64_t cell = chart.at(i, j);
            const bool is_span = i < j && j <= chart.n;
            chart.i_r[cell] = is_span ? chart.arc_scores(i, j) : S::zero;
            chart.i_l[cell] = is_span && i > 0 ? chart.arc_scores(j, i) : S::zero;
            chart.c_r[cell] = chart.c_l[cell] = S::zero;
        }
    for (int64_t k = 0; k < Chart::BLOCK * Chart::BLOCK; k++) chart.partial[k] = S::zero;
}

// Fill a block of rows and ends whose splits in other blocks are in c_r, c_l and `partial`.
template <class Chart>
inline void finish_block(const Chart& chart, int64_t first_row, int64_t first_end) {
    typedef typename Chart::Semiring S;
    const int64_t next_row = first_row + Chart::BLOCK, count = Lanes<typename Chart::F>::count;
    const int64_t ends = first_end + Chart::BLOCK <= chart.n ? first_end + Chart::BLOCK : chart.n + 1;
    for (int64_t i = next_row <= chart.n ? next_row - 1 : chart.n; i >= first_row; i--) {
        const bool has_diagonal = first_row == first_end;
        if (has_diagonal) chart.c_r[chart.at(i, i)] = S::one;
        const int64_t from = has_diagonal ? i / count * count : first_end;
        for (int64_t j = from; j < ends; j += count) {
            EisnerRow<Chart> cells(chart, i, j);
            cells.sums[Chart::OF_C_R] = S::load(chart.c_r + chart.at(i, j));
            cells.sums[Chart::OF_C_L] = S::load(chart.c_l + chart.at(i, j));
            cells.sums[Chart::OF_SPLIT] =
                S::plus(S::load(chart.partial + (i - first_row) * Chart::BLOCK + j - first_end),
                        S::load(chart.c_l + chart.at(i + 1, j)));
            for (int64_t k = i + 1; k < j && k < next_row; k++) cells.take(k);
            for (int64_t k = next_row > first_end ? next_row : first_end; k < j; k++) cells.take(k);
            cells.finish();
            if (has_diagonal) chart.c_r[chart.at(i, i)] = S::one;
        }
        if (has_diagonal) chart.c_l[chart.at(i, i)] = S::one;
    }
}

template <class Chart>
inline void fill_by_block(const Chart& chart) {
    typedef typename Chart::Semiring S;
    constexpr int64_t BLOCK = Chart::BLOCK, SPLITS_AT_ONCE = 3 * BLOCK;  // fits in the caches
    for (int64_t j = 0; j < chart.stride; j++) chart.c_l[chart.at(chart.n + 1, j)] = S::zero;
    for (int64_t i = chart.n / BLOCK * BLOCK; i >= 0; i -= BLOCK)
        for (int64_t j = i; j <= chart.n; j += BLOCK) {
            if (is_interrupted((j - i + BLOCK) * 1024)) return;
            copy_arcs(chart, i, j);
            for (int64_t k = i + BLOCK; k < j; k += SPLITS_AT_ONCE) {
                const int64_t count = k + SPLITS_AT_ONCE < j ? SPLITS_AT_ONCE : j - k, at = chart.at(i, j);
                add_product(chart, chart.c_r + at, chart.stride, chart.i_r, chart.c_r, i, k, j, count);
                add_product(chart, chart.c_l + at, chart.stride, chart.c_l, chart.i_l, i, k, j, count);
                add_product(chart, chart.partial, BLOCK, chart.c_r, chart.c_l + chart.stride, i, k, j,
                            count);
            }
            finish_block(chart, i, j);
        }
    if (chart.single_root)
        for (int64_t m = 1; m <= chart.n; m++) chart.root_arcs[m] = chart.arc_scores(0, m);
}

}  // namespace gpuparse
