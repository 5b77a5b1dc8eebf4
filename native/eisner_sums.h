// Sums over projective trees: log-partition, marginals of parts and random trees of one sentence.
//
// Sums are first made of plain numbers. Every column of arc scores is shifted so that its largest is
// log(4/27), the inverse growth of the number of trees by word: then no sum is larger than the exp of
// what sibling parts and ends add above 0, and what underflows is lost among the rounding errors
// unless the total itself is tiny. If it is, or if the bound is too large, everything is done again
// with scaled numbers, which hold for scores of any size and take a few times as long.
#pragma once

#include "eisner_inside.h"
#include "random.h"

namespace gpuparse {

constexpr double LOG_TREES = 1.9095425048844386;  // log(27 / 4): at most (27 / 4)^n trees of n words
// Numbers below exp(-708) underflow: with this margin it is lost among the rounding errors.
constexpr double LEAST_LOG = -672.0;
constexpr double LARGEST_LOG = 600.0;

// Where the marginals of parts go, as scores are read: arcs [h, m], siblings [h, m, s] and ends [h, m].
// Only cells of parts are written; where data is NULL nothing is.
struct PartMarginals {
    View2<double> arcs;
    View3<double> siblings{};
    View2<double> ends{};
    PartMarginals(View2<double> of_arcs) : arcs(of_arcs) {}
    PartMarginals(View2<double> of_arcs, View3<double> of_siblings, View2<double> of_ends)
        : arcs(of_arcs), siblings(of_siblings), ends(of_ends) {}
};

// A chart of sums and its outside values.
template <class S, class Provider>
struct EisnerSums {
    typedef EisnerChart<S, Provider> Chart;
    typedef double F;
    typedef typename S::Value Value;
    typedef typename S::V V;
    static constexpr bool SIBLINGS = Chart::SIBLINGS;
    // Sums over a row are made of eight partial sums, whatever the length of vectors.
    static constexpr int64_t COUNT = Lanes<F>::count, PARTS = 8 / COUNT;

    Chart chart;
    S s;
    double shift = 0;  // of the log-partition
    Value total = S::zero;
    // Outside values: planes of the items below in each product, which earlier starts add to, and
    // rows of the sums of one start; those of I without its arc.
    F* out[5];
    F* outer[5];

    EisnerSums(View2<const F> arc_scores, const Provider& siblings, int64_t n, bool single_root,
               double scale)
        : chart(arc_scores, siblings, n, single_root, scale) {}

    // Fill the inside values. Returns false if memory ran out.
    bool fill_inside(Arena& arena) {
        if (!chart.make(arena)) return false;
        s = chart.semiring;
        copy_scores();
        fill_by_row(chart);
        if (arena.failed()) return false;
        total = sum_of(chart.top());
        return true;
    }

    double log_partition() const { return S::log_of(total) + shift; }

    // True if plain numbers were enough.
    bool is_exact() const {
        double bound = 0;
        for (int64_t m = 1; SIBLINGS && m <= chart.n; m++)
            bound += chart.part_tops[m] + chart.end_tops[m];
        return bound <= LARGEST_LOG && S::log_of(total) > LEAST_LOG + 3 * log(chart.n + 1.0) + bound;
    }

    // Write the marginals; the total is not 0.
    void fill_marginals(const PartMarginals& marginals) {
        const int64_t n = chart.n;
        s.fill_zero(chart.outside, Chart::OUTSIDE_PLANES * (chart.plane + chart.stride));
        for (int64_t x = 0; x < 5; x++) {
            out[x] = chart.outside + x * chart.plane;
            outer[x] = chart.outside + 5 * chart.plane + x * chart.stride;
        }
        if (chart.single_root)
            for (int64_t m = 1; m <= n; m++) {
                const Value of_root = S::times(s.get(chart.root_parts + m), s.get(chart.root_arcs + m));
                const Value before = chart.get(chart.c_l, 1, m), after = chart.get(chart.c_r, m, n);
                s.put(out[OF_SPLIT] + chart.at(1, m), S::times(of_root, after));
                s.put(out[OF_C_R] + chart.at(m, n), S::times(of_root, before));
                const double share = S::ratio(S::times(of_root, S::times(before, after)), total);
                marginals.arcs(0, m) = share;
                if (marginals.siblings.data) marginals.siblings(0, m, 0) = marginals.ends(0, m) = share;
            }
        else
            s.put(out[OF_C_R] + chart.at(0, n), S::one);
        Pace pace;
        for (int64_t i = chart.single_root ? 1 : 0; i < n && !pace.is_interrupted(2 * (n - i) * (n - i)); i++)
            fill_outside(i, marginals);
    }

    // A random derivation of an item, by a random number of [0, 1).
    int64_t random_split(const Item& item, double random) const {
        const Value all = sum_of(item);
        int64_t picked = item.i;
        double reached = 0;
        chart.for_splits(item, [&](int64_t r, const Value& value) {
            const double p = S::ratio(value, all);
            if (p > 0) picked = r, reached += p;
            return reached > random;
        });
        return picked;
    }

private:
    Value sum_of(const Item& item) const {
        Value sum = S::zero;
        chart.for_splits(item, [&](int64_t, const Value& value) {
            sum = S::plus(sum, value);
            return false;
        });
        return sum;
    }

    // Scores as numbers of the semiring, in the planes.
    void copy_scores() {
        const int64_t n = chart.n;
        const auto& arcs = chart.arc_scores;
        constexpr int64_t PIECE = 1 << 17;
        Pace pace;
        for (int64_t k = 0; k < chart.n_cells && !pace.is_interrupted(PIECE); k += PIECE)
            s.fill_zero(chart.cells + k, chart.n_cells - k < PIECE ? chart.n_cells - k : PIECE);
        for (int64_t m = 1; m <= n; m++) {
            double top = arcs(0, m);
            for (int64_t h = 1; h <= n; h++)
                if (h != m && arcs(h, m) > top) top = arcs(h, m);
            if (top == -__builtin_inf()) top = 0;
            chart.arc_tops[m] = top, chart.part_tops[m] = chart.end_tops[m] = 0;
            shift += top * chart.scale + LOG_TREES;
        }
        const auto arc = [&](int64_t h, int64_t m) {
            return (arcs(h, m) - chart.arc_tops[m]) * chart.scale - LOG_TREES;
        };
        for (int64_t i = 0; i < n && !pace.is_interrupted(10 * n); i++) {
            const int64_t row = i * chart.stride;
            for (int64_t j = i + 1; j <= n; j++) {
                chart.arcs_r[row + j] = arc(i, j);
                if (i > 0) chart.arcs_l[row + j] = arc(j, i);  // the root modifies nothing
            }
            exp_cells(s, chart.arcs_r + row, i + 1, n + 1);
            if (i > 0) exp_cells(s, chart.arcs_l + row, i + 1, n + 1);
            if constexpr (SIBLINGS) copy_sibling_scores(i);
        }
        for (int64_t m = 1; m <= n; m++) {
            s.put(chart.root_arcs + m, s.get(chart.arcs_r + m));
            if constexpr (SIBLINGS)
                s.put(chart.root_parts + m, S::times(s.get(chart.first_r + m), s.get(chart.ends_r + m)));
            else
                s.put(chart.root_parts + m, S::one);
        }
    }

    // Row i of the scores of modifiers without an inner sibling, and of ends.
    void copy_sibling_scores(int64_t i) {
        const int64_t n = chart.n, row = i * chart.stride;
        F *const first_r = chart.first_r + row, *const first_l = chart.first_l + row;
        F *const ends_r = chart.ends_r + row, *const ends_l = chart.ends_l + row;
        for (int64_t j = i + 1; j <= n; j++) {
            first_r[j] = scaled(chart.siblings.first(i, j), chart.part_tops[j]);
            ends_r[j] = scaled(chart.siblings.end(i, j), chart.end_tops[j]);
            if (i == 0) continue;
            first_l[j] = scaled(chart.siblings.first(j, i), chart.part_tops[i]);
            ends_l[j] = scaled(chart.siblings.end(j, i), chart.end_tops[i]);
        }
        exp_cells(s, first_r, i + 1, n + 1);
        exp_cells(s, ends_r, i + 1, n + 1);
        if (i == 0) return;
        exp_cells(s, first_l, i + 1, n + 1);
        exp_cells(s, ends_l, i + 1, n + 1);
    }
    double scaled(double score, double& top) const {
        score *= chart.scale;
        if (score > top) top = score;
        return score;
    }

    // -- Outside: each recurrence backwards --

    enum : int64_t {
        OF_C_R = Chart::OF_C_R, OF_C_L = Chart::OF_C_L, OF_SPLIT = Chart::OF_SPLIT,
        OF_I_R = Chart::OF_I_R, OF_I_L = Chart::OF_I_L
    };

    // Outside values of the items that begin at i, from the last end to the first.
    void fill_outside(int64_t i, const PartMarginals& marginals) {
        const int64_t n = chart.n, stride = chart.stride, row = i * stride;
        s.fill_zero(outer[0], Chart::OUTSIDE_PLANES * stride);
        if constexpr (SIBLINGS) spread_parts(chart, i);
        for (int64_t k = n; k > i; k--) {
            const int64_t cell = row + k;
            // The sums that the first items of the products, (i,k), get from the longer items of the row.
            Value of_row[5];
            share(i, k, of_row);
            Value c_r = S::plus(s.get(out[OF_C_R] + cell), of_row[OF_SPLIT]);
            if (SIBLINGS && k < n)
                c_r = S::plus(c_r, S::times(s.get(outer[OF_I_L] + k + 1), s.get(chart.first_l + cell + 1)));
            const Value c_l = S::plus(s.get(out[OF_SPLIT] + cell), of_row[OF_C_L]);
            Value i_r = S::plus(of_row[OF_C_R], c_r);
            Value i_l = S::plus(s.get(out[OF_C_L] + cell), c_l);
            if constexpr (SIBLINGS) {
                if (marginals.ends.data) {
                    marginals.ends(i, k) = S::ratio(S::times(i_r, s.get(chart.e_r + cell)), total);
                    if (i > 0) marginals.ends(k, i) = S::ratio(S::times(i_l, s.get(chart.e_l + cell)), total);
                }
                i_r = S::plus(S::times(i_r, s.get(chart.ends_r + cell)), of_row[OF_I_R]);
                i_l = S::plus(S::times(i_l, s.get(chart.ends_l + cell)), s.get(out[OF_I_L] + cell));
            }
            marginals.arcs(i, k) = S::ratio(S::times(i_r, s.get(chart.i_r + cell)), total);
            if (i > 0) marginals.arcs(k, i) = S::ratio(S::times(i_l, s.get(chart.i_l + cell)), total);
            i_r = S::times(i_r, s.get(chart.arcs_r + cell));
            i_l = S::times(i_l, s.get(chart.arcs_l + cell));
            Value split = S::plus(i_r, i_l);
            if constexpr (SIBLINGS) {
                s.put(outer[OF_I_R] + k, i_r);
                s.put(outer[OF_I_L] + k, i_l);
                F* const next = out[OF_SPLIT] + cell + stride;
                s.put(next, S::plus(s.get(next), S::times(i_r, s.get(chart.first_r + cell))));
                split = S::plus(s.get(out[OF_I_R] + cell), of_row[OF_I_L]);
            }
            s.put(outer[OF_C_R] + k, c_r);
            s.put(outer[OF_C_L] + k, c_l);
            s.put(outer[OF_SPLIT] + k, split);
        }
        for (int64_t j = i / COUNT * COUNT; j <= n; j += COUNT)  // S(i,j) -> C_R(i,i) C_L(i+1,j)
            add(out[OF_SPLIT] + row + stride + j, s.load(outer[OF_SPLIT] + j));
        if constexpr (SIBLINGS)
            if (marginals.siblings.data) write_siblings(i, marginals.siblings);
    }

    // The marginals of the sibling parts of the items that begin at i, from their outside values and the
    // parts of three words of the start i.
    void write_siblings(int64_t i, View3<double> marginals) const {
        for (int64_t j = i + 1; j <= chart.n; j++) {
            const int64_t cell = i * chart.stride + j;
            const Value to_right = s.get(outer[OF_I_R] + j), to_left = s.get(outer[OF_I_L] + j);
            const auto write = [&](int64_t h, int64_t m, int64_t k, const Value& outside, Value a, Value b,
                                   const F* part) {
                const Value inside = S::times(S::times(a, b), s.get(part));
                marginals(h, m, k) = S::ratio(S::times(outside, inside), total);
            };
            write(i, j, i, to_right, S::one, chart.get(chart.c_l, i + 1, j), chart.first_r + cell);
            for (int64_t k = i + 1; k < j; k++)
                write(i, j, k, to_right, chart.get(chart.i_r, i, k), chart.get(chart.s_r, k, j),
                      chart.right + k * chart.stride + j);
            if (i == 0) continue;  // the root modifies nothing
            write(j, i, j, to_left, S::one, chart.get(chart.c_r, i, j - 1), chart.first_l + cell);
            for (int64_t k = i + 1; k < j; k++)
                write(j, i, k, to_left, chart.get(chart.s_r, i, k), chart.get(chart.i_l, k, j),
                      chart.left + k * chart.stride + j);
        }
    }

    void add(F* cell, const V& value) const { s.store(cell, S::plus(s.load(cell), value)); }

    // From the outside values of the sums (i,j), j > k: shares of the items (i,k), summed, and of those
    // below.
    inline void share(int64_t i, int64_t k, Value* of_row) {
        V sums[5][PARTS], items[5];
        for (int64_t x = 0; x < Chart::SUMS; x++) {
            items[x] = s.splat(chart.product(x).row + i * chart.stride + k);
            for (int64_t part = 0; part < PARTS; part++) sums[x][part] = S::all(S::zero);
        }
        for (int64_t block = (k + 1) / 8 * 8; block <= chart.n; block += 8)
            for (int64_t part = 0; part < PARTS; part++)
                share_products<0>(k, block + part * COUNT, part, items, sums);
        for (int64_t x = 0; x < Chart::SUMS; x++) of_row[x] = sum_of_lanes(sums[x]);
    }

    template <int64_t X>
    inline __attribute__((always_inline)) void share_products(int64_t k, int64_t j, int64_t part,
                                                              const V* items, V (*sums)[PARTS]) {
        const auto of = chart.product(X);
        const int64_t cell = k * chart.stride + j;
        V of_sum = s.load(outer[X] + j);
        if constexpr (X >= Chart::OF_I_R) of_sum = S::times(of_sum, s.load(of.parts + cell));
        sums[X][part] = S::plus(sums[X][part], S::times(of_sum, s.load(of.below + cell)));
        F* const below = out[X] + cell + (X == Chart::OF_SPLIT ? chart.stride : 0);
        add(below, S::times(items[X], of_sum));
        if constexpr (X + 1 < Chart::SUMS) share_products<X + 1>(k, j, part, items, sums);
    }

    static Value sum_of_lanes(const V* parts) {
        V sum = parts[0];
        if constexpr (PARTS == 2) sum = S::plus(sum, parts[1]);
        if constexpr (PARTS == 4)
            sum = S::plus(S::plus(sum, parts[2]), S::plus(parts[1], parts[3]));
        for (int64_t lanes = COUNT / 2; lanes > 0; lanes /= 2) sum = S::plus(sum, S::turned(sum, lanes));
        return S::lane(sum, 0);
    }
};

// Call use(sums) with the filled chart of a sentence, of plain numbers or, where those lose digits,
// scaled ones. Returns false if memory ran out.
template <class Provider, class Use>
inline bool with_sums(View2<const double> arc_scores, const Provider& siblings, int64_t n,
                      bool single_root, double scale, Arena& arena, Use use) {
    {
        const ArenaMark mark(arena);
        EisnerSums<SumProduct, Provider> sums(arc_scores, siblings, n, single_root, scale);
        if (!sums.fill_inside(arena)) return false;
        if (sums.is_exact()) {
            use(sums);
            return true;
        }
    }
    const ArenaMark mark(arena);
    EisnerSums<ScaledSum, Provider> sums(arc_scores, siblings, n, single_root, scale);
    if (!sums.fill_inside(arena)) return false;
    use(sums);
    return true;
}

// The log-partition of n >= 1 words with the scores times `scale` > 0, and the marginals; those of arcs
// are 0 where there is no arc. Without a tree -inf and zeros; NaN if memory ran out.
template <class Siblings>
inline double eisner_sums_sentence(View2<const double> arc_scores, const Siblings& siblings, int64_t n,
                                   bool single_root, double scale, Arena& arena,
                                   const PartMarginals& marginals) {
    double log_partition = __builtin_nan("");
    for (int64_t h = 0; marginals.arcs.data && h <= n; h++)
        for (int64_t m = 0; m <= n; m++) marginals.arcs(h, m) = 0;
    with_sums(arc_scores, siblings, n, single_root, scale, arena, [&](auto& sums) {
        log_partition = sums.log_partition();
        if (marginals.arcs.data && log_partition > -__builtin_inf()) sums.fill_marginals(marginals);
    });
    return log_partition;
}

// Random trees heads(k, 1..n), k < count, each with its probability. Tree k depends on the seed, k and
// the scores alone. Returns the log-partition; -inf without a tree, NaN if memory ran out.
template <class Siblings>
inline double eisner_sample_sentence(View2<const double> arc_scores, const Siblings& siblings, int64_t n,
                                     bool single_root, int64_t seed, int64_t count, Arena& arena,
                                     View2<int64_t> heads) {
    const ArenaMark mark(arena);
    double log_partition = __builtin_nan("");
    ItemStack stack;
    if (!stack.make(n, arena)) return log_partition;
    with_sums(arc_scores, siblings, n, single_root, 1.0, arena, [&](auto& sums) {
        log_partition = sums.log_partition();
        for (int64_t k = 0; k < count && log_partition > -__builtin_inf(); k++) {
            if (is_interrupted(50 * n)) return;
            Random random(seed, k);
            const auto pick = [&](const Item& item) { return sums.random_split(item, random.next()); };
            walk(sums.chart, stack, pick, heads.row(k));
        }
    });
    return log_partition;
}

}  // namespace gpuparse
