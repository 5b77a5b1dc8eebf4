// Head automata: for every head by itself, its best head and its best modifiers on both sides.
//
// Each automaton chooses what scores most, whether or not all choices together make a tree: they are
// the sub-problems of dual decomposition. For parts of siblings alone every block is one column wide,
// and no head is chosen. An arc costs the Lagrange multiplier of modifiers where the automaton of its
// head takes it as a modifier, and that of heads where the automaton of its modifier takes it as its
// own head. A column is one possible head of a head: with grandparents, column columns[h] + q is the
// number of the arc, otherwise it is h.
#pragma once

#include <math.h>
#include <stdint.h>

#include "arena.h"
#include "candidates.h"

namespace gpuparse {

enum ArcState : int8_t { ARC_FREE, ARC_FORCED, ARC_BARRED };  // what is known of an arc

// The parts of one sentence as dual decomposition reads them. blocks: as grand_sibling_starts() says,
// or sibling_starts() without grandparents; ends (n_arcs,).
struct CrossingParts {
    const Candidates& candidates;
    Blocks<double> blocks;
    const double* ends;
    bool has_grandparents;
};

// Where the columns of each head begin, (n + 2,): its candidate heads, or one column without
// grandparents. NULL: no memory.
inline const int32_t* columns_of_heads(const Candidates& c, bool has_grandparents, Arena& arena) {
    if (has_grandparents) return c.first;
    int32_t* columns = arena.take<int32_t>(c.n + 2);
    for (int64_t h = 0; columns && h <= c.n + 1; h++) columns[h] = (int32_t)h;
    return columns;
}

struct HeadAutomata {
    const CrossingParts& parts;
    int64_t n = 0, n_arcs = 0;
    bool has_grandparents = false;
    const int32_t* columns = nullptr;
    int32_t* chain[2] = {nullptr, nullptr};  // as Candidates::modifiers, with arcs in their place
    int64_t* rows = nullptr;     // (n_arcs + 1,): where the row of an arc begins, of all columns of its head
    int32_t* reverse = nullptr;  // (n_arcs,): in that row, the modifier as the head of its head; or -1
    double *forward = nullptr, *backward = nullptr;  // by row: best modifiers up to an arc, from it on
    double* of_side[2] = {nullptr, nullptr};         // by column: best modifiers of one side
    double* totals = nullptr;    // by column: of both sides, less the multiplier of the column
    int8_t *as_modifiers = nullptr, *as_heads = nullptr;  // 1 for what is chosen, by arc and by column

    // False: no memory.
    bool allocate(Arena& arena) {
        const Candidates& c = parts.candidates;
        n = c.n;
        n_arcs = c.n_arcs;
        has_grandparents = parts.has_grandparents;
        columns = columns_of_heads(c, has_grandparents, arena);
        chain[0] = arena.take_zeros<int32_t>(2 * n_arcs);
        reverse = arena.take_filled<int32_t>(n_arcs, -1);
        if (!columns || !chain[0]) return false;
        chain[1] = chain[0] + n_arcs;
        rows = block_starts(c, arena, [&](int64_t a) {
            return (int64_t)(columns[c.head[a] + 1] - columns[c.head[a]]);
        });
        if (arena.failed()) return false;
        for (int64_t d = 0; d < 2; d++)
            for (int64_t h = 0; h <= n; h++)
                for (int64_t k = c.side[d][h]; k < c.side[d][h + 1]; k++)
                    chain[d][k] = (int32_t)c.number(h, c.modifiers[d][k]);
        for (int64_t a = 1; a < n_arcs && has_grandparents; a++) {
            const int64_t h = c.head[a], back = h > 0 ? c.number(c.modifier[a], h) : -1;
            if (back >= 0) reverse[a] = (int32_t)(back - columns[h]);
        }
        const int64_t n_columns = columns[n + 1];
        forward = arena.take<double>(2 * rows[n_arcs]);
        of_side[0] = arena.take<double>(2 * n_columns);
        totals = arena.take<double>(n_columns);
        as_modifiers = arena.take<int8_t>(n_arcs);
        as_heads = arena.take<int8_t>(n_columns);
        if (arena.failed()) return false;
        backward = forward + rows[n_arcs];
        of_side[1] = of_side[0] + n_columns;
        return true;
    }

    int64_t width(int64_t h) const { return columns[h + 1] - columns[h]; }

    // row[q] = the largest of row[q] and inner[q] + block[q].
    static void raise_row(double* __restrict row, const double* __restrict inner,
                          const double* __restrict block, int64_t width) {
        for (int64_t q = 0; q < width; q++) {
            const double value = inner[q] + block[q];
            row[q] = value > row[q] ? value : row[q];
        }
    }

    // Fill forward, of_side and totals. state (n_arcs,): what is known of the arcs; multipliers
    // (n_arcs,) and by column. A column with grandparents whose arc is barred has the total -inf.
    // False: the call is to end.
    bool solve(const int8_t* state, const double* of_modifiers, const double* of_heads) {
        const Candidates& c = parts.candidates;
        const double *blocks = parts.blocks.data, *ends = parts.ends;
        const int64_t* starts = parts.blocks.start;
        for (int64_t h = 0; h <= n; h++) {
            const int64_t column = columns[h], n_columns = width(h);
            if (is_interrupted(n_columns * n_columns * n_columns / 4)) return false;
            for (int64_t d = 0; d < 2; d++) {
                const int32_t* arcs = chain[d];
                const int64_t begin = c.side[d][h];
                int64_t since = -1;  // the last forced arc: nothing goes past it
                double* best = of_side[d] + column;
                for (int64_t q = 0; q < n_columns; q++) best[q] = 0.0;
                for (int64_t k = begin; k < c.side[d][h + 1]; k++) {
                    const int64_t a = arcs[k];
                    if (state[a] == ARC_BARRED) continue;
                    double* row = forward + rows[a];
                    const double* block = blocks + starts[a];
                    for (int64_t q = 0; q < n_columns; q++)
                        row[q] = since < 0 ? block[q] : -(double)INFINITY;
                    for (int64_t i = since > begin ? since : begin; i < k; i++) {
                        const int64_t inner = arcs[i];
                        if (state[inner] == ARC_BARRED) continue;
                        raise_row(row, forward + rows[inner], block + (i - begin + 1) * n_columns,
                                  n_columns);
                    }
                    if (reverse[a] >= 0) row[reverse[a]] = -(double)INFINITY;
                    const double multiplier = of_modifiers[a], end = ends[a];
                    if (state[a] == ARC_FORCED) {
                        since = k;
                        for (int64_t q = 0; q < n_columns; q++) best[q] = -(double)INFINITY;
                    }
                    for (int64_t q = 0; q < n_columns; q++) {
                        const double value = row[q] - multiplier;
                        row[q] = value;
                        const double with_end = value + end;
                        best[q] = with_end > best[q] ? with_end : best[q];
                    }
                }
            }
            for (int64_t k = column; k < column + n_columns; k++)
                totals[k] = of_side[0][k] + of_side[1][k] - of_heads[k];
            if (has_grandparents)
                for (int64_t a = column; a < column + n_columns; a++)
                    if (state[a] == ARC_BARRED) totals[a] = -(double)INFINITY;
        }
        return true;
    }

    // Mark the best of the arcs begin .. end - 1 on side d under column q; the innermost wins a tie.
    void trace_side(int64_t d, int64_t begin, int64_t end, int64_t q, int64_t n_columns,
                    const int8_t* state) {
        const int32_t* arcs = chain[d];
        const double *blocks = parts.blocks.data, *ends = parts.ends;
        const int64_t* starts = parts.blocks.start;
        int64_t chosen = -1;
        double highest = 0.0;
        for (int64_t k = begin; k < end; k++) {
            const int64_t a = arcs[k];
            if (state[a] == ARC_BARRED) continue;
            const double value = forward[rows[a] + q] + ends[a];
            if (value > highest || state[a] == ARC_FORCED) {
                chosen = k;
                highest = value;
            }
        }
        while (chosen >= 0) {
            const int64_t a = arcs[chosen];
            as_modifiers[a] = 1;
            int64_t inner = -1;
            highest = blocks[starts[a] + q];
            for (int64_t i = begin; i < chosen; i++) {
                const int64_t other = arcs[i];
                if (state[other] == ARC_BARRED) continue;
                const double part = blocks[starts[a] + (i - begin + 1) * n_columns + q];
                const double value = forward[rows[other] + q] + part;
                if (value > highest || state[other] == ARC_FORCED) {
                    inner = i;
                    highest = value;
                }
            }
            chosen = inner;
        }
    }

    // Fill as_modifiers and as_heads after solve(); the first best column wins. Returns the sum of all
    // scores; -inf, and then the choices are void, if an automaton has no choice.
    double trace(const int8_t* state) {
        const Candidates& c = parts.candidates;
        memset(as_modifiers, 0, (size_t)n_arcs);
        memset(as_heads, 0, (size_t)columns[n + 1]);
        double total = 0.0;
        for (int64_t h = 0; h <= n; h++) {
            const int64_t column = columns[h], n_columns = width(h);
            int64_t best = column;
            for (int64_t k = column + 1; k < column + n_columns; k++)
                best = totals[k] > totals[best] ? k : best;
            total += totals[best];
            if (!(totals[best] > -(double)INFINITY)) return -(double)INFINITY;
            as_heads[best] = 1;
            for (int64_t d = 0; d < 2; d++)
                trace_side(d, c.side[d][h], c.side[d][h + 1], best - column, n_columns, state);
        }
        return total;
    }

    // The least loss of all automata together if they agree to take an arc; losses (n_arcs,): filled.
    // After solve() with the same arguments.
    void fill_losses(const int8_t* state, const double* of_modifiers, const double* of_heads,
                     double* losses) {
        const Candidates& c = parts.candidates;
        for (int64_t a = 0; a < n_arcs; a++) losses[a] = 0.0;
        for (int64_t h = 0; h <= n; h++) {
            const int64_t column = columns[h], n_columns = width(h);
            if (is_interrupted(n_columns * n_columns * n_columns / 4)) return;
            double best = totals[column];
            for (int64_t k = column + 1; k < column + n_columns; k++)
                best = totals[k] > best ? totals[k] : best;
            if (has_grandparents)
                for (int64_t a = column; a < column + n_columns; a++) losses[a] += best - totals[a];
            for (int64_t d = 0; d < 2; d++)
                fill_losses_of_side(d, c.side[d][h], c.side[d][h + 1], column, n_columns, best, state,
                                    of_modifiers, of_heads, losses);
        }
    }

    void fill_losses_of_side(int64_t d, int64_t begin, int64_t end, int64_t column, int64_t n_columns,
                             double best, const int8_t* state, const double* of_modifiers,
                             const double* of_heads, double* losses) {
        const int32_t* arcs = chain[d];
        const double *blocks = parts.blocks.data, *ends = parts.ends;
        int64_t forced = end;  // the nearest beyond: nothing goes past it
        for (int64_t k = end - 1; k >= begin; k--) {
            const int64_t a = arcs[k];
            if (state[a] == ARC_BARRED) {
                losses[a] = (double)INFINITY;
                continue;
            }
            double* __restrict row = backward + rows[a];
            const double outermost = forced == end ? ends[a] : -(double)INFINITY;
            for (int64_t q = 0; q < n_columns; q++) row[q] = outermost;
            for (int64_t o = k + 1; o < (forced + 1 < end ? forced + 1 : end); o++) {
                const int64_t outer = arcs[o];
                if (state[outer] == ARC_BARRED) continue;
                const double* __restrict block =
                    blocks + parts.blocks.start[outer] + (k - begin + 1) * n_columns;
                const double* __restrict other = backward + rows[outer];
                const double multiplier = of_modifiers[outer];
                for (int64_t q = 0; q < n_columns; q++) {
                    const double value = (block[q] - multiplier) + other[q];
                    row[q] = value > row[q] ? value : row[q];
                }
            }
            if (reverse[a] >= 0) row[reverse[a]] = -(double)INFINITY;
            forced = state[a] == ARC_FORCED ? k : forced;
            double highest = -(double)INFINITY;
            for (int64_t q = 0; q < n_columns; q++) {
                if (has_grandparents && state[column + q] == ARC_BARRED) continue;
                double value = forward[rows[a] + q] + row[q];
                value += of_side[1 - d][column + q] - of_heads[column + q];
                highest = value > highest ? value : highest;
            }
            losses[a] += best - highest;
        }
    }
};

}  // namespace gpuparse
