// Sums over all spanning trees without a single subtraction.
//
// Elimination. Take word e out and give its arcs to the other words, with T[e] the sum of all
// weights into e:  w[h, m] += w[h, e] w[e, m] / T[e].  This is a step of Gaussian elimination on the
// Laplacian of Koo, Globerson, Carreras & Collins (2007), whose diagonal is never formed: it is the
// sum of the weights into a word, so no two numbers are ever subtracted and every digit is right,
// however close the Laplacian comes to a singular one (Grassmann, Taksar & Heyman 1985). The sum
// over all trees is the product of all T.
//
// Marginals. Walk from a word to a head, drawn by the weights, to a head of that, until the root is
// met. In a random tree m has the head h where h is the last step out of m (Wilson 1996):
// P(h -> m) ~ w[h, m] escape[h], where escape[h] is the probability to meet the root before m on a
// walk from h. Those probabilities are known once all words but m are eliminated: the probability to
// meet h before the other words that are left obeys the same rule as the weights. Eliminations are
// shared by halves: all words of one half, then half of the other, and so on: about 1.3 n^3 steps.
//
// Single root. Give the arcs from the root the factor t, and let t go to 0: the sum over all trees
// begins with t times the sum over those with one modifier of the root. Sums of positive numbers may
// be cut to their terms with the lowest power of t all the way: T[e] leaves the root out while e has
// another head. Where arcs are forbidden, e may have none: T[e] then has a power of t itself, and
// what it passes on has one power less. `late` marks what has the power 1 rather than 0.
//
// Weights are exp(score - highest score into the word). Where plain doubles are not known to be wide
// enough, numbers have exponents of their own (`ScaledSum`).
#pragma once

#include "arena.h"
#include "random.h"
#include "semiring.h"
#include "views.h"

namespace gpuparse {

// The scores [h, m] of a sentence times `scale`.
struct ScoresInNats {
    View2<const double> scores;
    double scale;
    double operator()(int64_t h, int64_t m) const { return scores(h, m) * scale; }
};

// The numbers subtracted from the scores: shifts[m] from those into the word m, shifts[0] from those of
// the root. Every tree loses the same, the sum of all shifts.
struct ScoreShifts {
    double* shifts = nullptr;    // (n + 1)
    double total = 0.0;          // the sum of all shifts
    double width = 0.0;          // how far scores then lie below 0, forbidden arcs aside
    bool has_forbidden = false;  // some arc is forbidden
    bool single_root = false;    // a single modifier of the root is still to be enforced
    int64_t root_word = 0;       // the only word that may be the root's modifier; 0: any
};

// Scores of one sentence prepared for sums; false: a word or the root has no arc.
inline bool shift_scores(const ScoresInNats& scores, int64_t n, bool single_root, ScoreShifts& found) {
    double* const shifts = found.shifts;
    for (int64_t m = 0; m <= n; m++) shifts[m] = -INFINITY;
    for (int64_t h = 1; h <= n; h++) {
        for (int64_t m = 1; m <= n; m++) {
            const double score = h == m ? -INFINITY : scores(h, m);
            shifts[m] = score > shifts[m] ? score : shifts[m];
        }
    }
    found.single_root = single_root && n > 1;
    found.root_word = 0;
    for (int64_t m = 1; single_root && n > 1 && m <= n; m++) {
        // A word without any other head is the modifier of the root; then no other word is.
        if (shifts[m] > -INFINITY) continue;
        if (found.root_word != 0) return false;
        found.root_word = m;
        found.single_root = false;
    }
    found.total = shifts[0] = 0.0;
    for (int64_t m = 1; m <= n; m++) {
        const bool may_be_root = !found.single_root && (found.root_word == 0 || found.root_word == m);
        if (may_be_root && scores(0, m) > shifts[m]) shifts[m] = scores(0, m);
        if (shifts[m] == -INFINITY) return false;
        found.total += shifts[m];
    }
    if (found.single_root) {
        shifts[0] = -INFINITY;
        for (int64_t m = 1; m <= n; m++) {
            const double left = scores(0, m) - shifts[m];
            shifts[0] = left > shifts[0] ? left : shifts[0];
        }
        if (shifts[0] == -INFINITY) return false;
        found.total += shifts[0];
    }
    double lowest = 0.0;
    int64_t n_forbidden = found.root_word != 0;
    for (int64_t h = 0; h <= n; h++) {
        const double from_root = h == 0 ? shifts[0] : 0.0;
        for (int64_t m = 1; m <= n; m++) {
            double left = h == m ? 0.0 : scores(h, m) - shifts[m] - from_root;
            n_forbidden += left == -INFINITY;
            left = left == -INFINITY ? 0.0 : left;
            lowest = left < lowest ? left : lowest;
        }
    }
    found.has_forbidden = n_forbidden > 0;
    found.width = -lowest;
    return true;
}

// A product of positive numbers mantissa * 2^exponent, and its logarithm.
struct LogProduct {
    double mantissa = 1.0, exponent = 0.0;

    void multiply(double x) {
        int power;
        mantissa = frexp(mantissa * x, &power);  // both are far from underflow
        exponent += power;
    }
    void multiply(const ScaledSum::Value& x) {
        multiply(x.m);
        exponent += x.e;
    }
    // The logarithm plus `more`. Where both are large and nearly cancel, no digits are lost.
    double log_plus(double more) const {
        const bool is_small = mantissa <= 0.70710678118654755;  // of a mantissa from 0.5 to 1
        const double powers = exponent - is_small;
        const double rest = powers * LN_2_SMALLEST + log(is_small ? 2.0 * mantissa : mantissa);
        return powers * LN_2_LARGEST + more + powers * LN_2_MIDDLE + rest;
    }
};

// The elimination over a semiring of sums.
template <class S>
struct TreeSums {
    using Value = typename S::Value;

    // The words left at one halving. Row 0 of the tables is the root's, row p + 1 and
    // column p that of words[p].
    struct Level {
        int64_t size, width;  // words; cells in a row of `weights`
        double* weights;      // (size + 1, width)
        double* escapes;      // (size + 1, all words): [h, i], the probability that a walk from the
                              // i-th eliminated word meets h first of the words that are left
        int64_t* words;       // (size)
        bool* late;           // (size), of the arcs from the root
        bool* escape_late;    // (all words), of the escapes to the root
    };

    S s{};
    int64_t n = 0;
    bool single_root = false;
    double shift = 0.0;            // of the log-partition
    double least = 0.0;            // plain totals below this may have lost digits
    Level all{};                   // of all words
    int64_t full_width = 0;        // cells in a row of all words
    double* spare = nullptr;       // cells behind those of `all`
    Value* totals = nullptr;       // (n): T of the i-th eliminated word
    Value* terms = nullptr;        // (n + 2): of one sum
    bool* terms_late = nullptr;    // (n + 2)
    bool* totals_late = nullptr;   // (n)
    bool any_late_total = false;   // has a word been eliminated whose only head was the root?
    int64_t* order = nullptr;      // (n): the i-th eliminated word

    // Take memory and fill the weights of all arcs; `more` cells are left at `spare`. False: no memory.
    bool start(const ScoresInNats& scores, int64_t n_words, const ScoreShifts& shifted, int64_t more,
               Arena& arena) {
        n = n_words;
        single_root = shifted.single_root;
        shift = shifted.total;
        least = shifted.has_forbidden ? LEAST_TOTAL : 0.0;
        full_width = whole_lines<double>(n);
        totals = arena.take<Value>(n);
        terms = arena.take<Value>(n + 2);
        terms_late = arena.take<bool>(n + 2);
        totals_late = arena.take_zeros<bool>(n);
        order = arena.take<int64_t>(n);
        const int64_t cells = (n + 1) * full_width + more;
        // Zeros, since whole vectors are computed with: whatever the memory held could be denormal
        // numbers, which are slow.
        double* const memory = arena.take_zeros<double>(S::planes_of_cells * cells);
        s.set_cells(cells);
        if (!make_level(n, memory, nullptr, all, arena)) return false;
        spare = memory + (n + 1) * full_width;
        fill_weights(scores, shifted);
        return true;
    }

    // Cells that marginals need behind those of all words.
    static int64_t cells_of_marginals(int64_t n) {
        int64_t cells = 0;
        for (int64_t size = n; size > 1; size = (size + 1) / 2)
            cells += cells_of_level(size, n);
        return cells;
    }

    // Eliminate all words but the first; false: there is no tree, or plain numbers do not do. `into`,
    // unless NULL: (n, full_width), [e, h], the weights into the word at e when it was eliminated.
    bool eliminate_all(double* into, double& log_partition) {
        if (!eliminate(all, 1, into)) return false;
        const Value last = s.get(all.weights);
        if (into) s.put(into, last);
        return is_usable(last) && set_log_of_totals(last, all.late[0], log_partition);
    }

    // The same with marginals(h, m).
    bool fill_marginals(View2<double> marginals, Arena& arena, double& log_partition) {
        log_partition = NAN;
        return fill_marginals(all, n, spare, marginals, arena, log_partition);
    }

    // The chosen number of `count` terms with the lowest power of t, each by its share.
    int64_t draw_term(int64_t count, Random& random) const {
        Value total = S::zero;
        bool is_late = true;
        for (int64_t i = 0; i < count; i++) add_lowest(total, is_late, terms[i], terms_late[i]);
        double left = random.next();
        int64_t chosen = -1;
        for (int64_t i = 0; i < count; i++) {
            if (S::is_zero(terms[i]) || terms_late[i] != is_late) continue;
            chosen = i;
            left -= S::ratio(terms[i], total);
            if (left < 0.0) break;
        }
        return chosen;
    }

private:
    // Plain numbers do where scores lie at most WIDEST nats apart: without forbidden arcs each weight
    // stays above its first value; otherwise all totals must be at least LEAST_TOTAL, and then what
    // underflows has a part of 2^-100 or less in any of them.
    static constexpr double LEAST_TOTAL = 0x1p-300;

    bool is_usable(double x) const { return x > 0.0 && x >= least && x < INFINITY; }
    bool is_usable(const ScaledSum::Value& x) const { return x.m > 0.0; }

    static int64_t cells_of_level(int64_t size, int64_t n) {
        return (size + 1) * (whole_lines<double>(size) + whole_lines<double>(n));
    }

    // A level of `size` words. False: there is no memory.
    bool make_level(int64_t size, double* weights, double* escapes, Level& level, Arena& arena) {
        level = {size, whole_lines<double>(size), weights, escapes, arena.take<int64_t>(size),
                 arena.take<bool>(size), arena.take<bool>(n)};
        return !arena.failed();
    }

    void fill_weights(const ScoresInNats& scores, const ScoreShifts& shifted) {
        for (int64_t h = 0; h <= n && !is_interrupted(5 * n); h++) {
            double* const row = all.weights + h * full_width;
            const double from_root = h == 0 ? shifted.shifts[0] : 0.0;
            for (int64_t m = 1; m <= n; m++) row[m - 1] = scores(h, m) - shifted.shifts[m] - from_root;
            if (h > 0) row[h - 1] = -INFINITY;
            if (h == 0 && shifted.root_word != 0)
                for (int64_t m = 1; m <= n; m++)
                    if (m != shifted.root_word) row[m - 1] = -INFINITY;
            exp_cells(s, row, 0, n);
        }
        for (int64_t p = 0; p < n; p++) {
            all.words[p] = p + 1;
            all.late[p] = single_root;
        }
    }

    // Eliminate all words of a level but the first `kept`. False: a word has no weight into it that
    // is known to be right.
    bool eliminate(Level& level, int64_t kept, double* into = nullptr) {
        const int64_t width = level.width;
        for (int64_t e = level.size - 1; e >= kept; e--) {
            const int64_t i = n - 1 - e;
            if (is_interrupted(e * (e + i) / 4)) return false;
            order[i] = level.words[e];
            Value total = S::zero;
            for (int64_t h = 1; h <= e; h++) total = S::plus(total, s.get(level.weights + h * width + e));
            bool is_late = false;
            const Value of_root = s.get(level.weights + e);
            if (!level.late[e]) {
                total = S::plus(total, of_root);
            } else if (S::is_zero(total)) {
                total = of_root;
                is_late = any_late_total = true;
            }
            if (!is_usable(total)) return false;
            totals[i] = total;
            totals_late[i] = is_late;
            const bool pull_late = level.late[e] && !is_late;
            double* const source = level.weights + (e + 1) * width;
            double* const source_escapes = level.escapes + (e + 1) * full_width;
            normalize(source, e);
            if (level.escapes) normalize(source_escapes, i);
            for (int64_t h = 0; h <= e; h++) {
                const Value weight = s.get(level.weights + h * width + e);
                if (into) s.put(into + e * full_width + h, weight);
                const Value share = S::normalized(S::over(weight, total));
                // Skipping is worth a branch only where a product is dear.
                if (S::planes_of_cells == 1 || !S::is_zero(share)) {
                    double* const target = level.weights + h * width;
                    double* const target_escapes = level.escapes + h * full_width;
                    if (h == 0 && single_root && has_mixed_powers(level, e, i, pull_late)) {
                        add_late(target, level.late, source, share, pull_late, e);
                        if (level.escapes)
                            add_late(target_escapes, level.escape_late, source_escapes, share, pull_late,
                                     i);
                    } else {
                        add_product(target, source, share, e);
                        if (level.escapes) add_product(target_escapes, source_escapes, share, i);
                    }
                }
                if (level.escapes) s.put(level.escapes + h * full_width + i, share);
            }
            level.escape_late[i] = pull_late;
        }
        return true;
    }

    // Marginals of the heads of the first `kept` words of a level, the others being eliminated: either
    // half of them is eliminated in its turn, in a copy of the level at `memory`.
    bool fill_marginals(const Level& level, int64_t kept, double* memory, View2<double> marginals,
                        Arena& arena, double& log_partition) {
        if (kept == 1) return fill_word(level, level.words[0], marginals, log_partition);
        const ArenaMark mark(arena);
        double* const escapes = memory + (kept + 1) * whole_lines<double>(kept);
        Level half;
        if (!make_level(kept, memory, escapes, half, arena)) return false;
        const int64_t middle = (kept + 1) / 2;
        for (int64_t turn = 0; turn <= middle; turn += middle) {
            const int64_t rest = turn == 0 ? middle : kept - middle;
            copy_level(level, half, turn);
            if (!eliminate(half, rest) ||
                !fill_marginals(half, rest, memory + cells_of_level(kept, n), marginals, arena,
                                log_partition))
                return false;
        }
        return true;
    }

    // Copy the words that are left at a level, those from `turn` on to the front.
    void copy_level(const Level& from, Level& to, int64_t turn) const {
        const int64_t size = to.size, rest = size - turn, done = n - size;
        const auto place = [&](int64_t p) { return p < rest ? p + turn : p - rest; };
        for (int64_t p = 0; p < size; p++) {
            to.words[p] = from.words[place(p)];
            to.late[p] = from.late[place(p)];
        }
        for (int64_t i = 0; i < done; i++) to.escape_late[i] = from.escape_late[i];
        for (int64_t row = 0; row <= size; row++) {
            const int64_t q = row == 0 ? 0 : place(row - 1) + 1;
            s.copy(to.weights + row * to.width, from.weights + q * from.width + turn, rest);
            s.copy(to.weights + row * to.width + rest, from.weights + q * from.width, turn);
            if (done > 0) s.copy(to.escapes + row * full_width, from.escapes + q * full_width, done);
        }
    }

    // Marginals of the heads of m, the only word that is left at a level.
    bool fill_word(const Level& level, int64_t m, View2<double> marginals, double& log_partition) {
        Value total = s.get(all.weights + m - 1);
        const Value of_root = total;
        bool is_late = single_root;
        for (int64_t i = 0; i < n - 1; i++) {
            // The weight into m from the i-th eliminated word, times its escape to the root.
            terms[i] = S::times(s.get(all.weights + order[i] * full_width + m - 1),
                                s.get(level.escapes + i));
            if (!any_late_total)
                total = S::plus(total, terms[i]);
            else
                add_lowest(total, is_late, terms[i], level.escape_late[i]);
        }
        if (!is_usable(total)) return false;
        marginals(m, m) = 0.0;
        marginals(0, m) = is_late == single_root ? S::ratio(of_root, total) : 0.0;
        for (int64_t i = 0; i < n - 1; i++) {
            const bool counts = !any_late_total || level.escape_late[i] == is_late;
            marginals(order[i], m) = counts ? S::ratio(terms[i], total) : 0.0;
        }
        return !isnan(log_partition) || set_log_of_totals(total, is_late, log_partition);
    }

    void normalize(double* row, int64_t count) const {
        for (int64_t i = 0; S::planes_of_cells > 1 && i < count; i += Lanes<double>::count)
            s.store(row + i, s.load(row + i));
    }

    // to[i] += factor * from[i], i < count rounded up to whole vectors.
    void add_product(double* to, const double* from, const Value& factor, int64_t count) const {
        const typename S::V factors = S::all(factor);
        for (int64_t i = 0; i < count; i += Lanes<double>::count)
            s.store_raw(to + i, S::plus(s.load(to + i), S::times(factors, s.load(from + i))));
    }

    // -- Lowest powers of t --

    // True if the powers of t of the root's arcs and escapes may differ from what is added.
    bool has_mixed_powers(const Level& level, int64_t e, int64_t i, bool pull_late) const {
        if (!any_late_total) return false;
        bool is_mixed = false;
        for (int64_t m = 0; m < e; m++) is_mixed |= level.late[m] != pull_late;
        for (int64_t j = 0; level.escapes && j < i; j++) is_mixed |= level.escape_late[j] != pull_late;
        return is_mixed;
    }

    // to[m] += share * from[m], m < count, of terms with the lowest power of t.
    void add_late(double* to, bool* late, const double* from, const Value& share, bool share_late,
                  int64_t count) const {
        for (int64_t m = 0; m < count; m++) {
            Value sum = s.get(to + m);
            add_lowest(sum, late[m], S::times(share, s.get(from + m)), share_late);
            s.put(to + m, sum);
        }
    }

    // total += term, of terms with the lowest power of t.
    static void add_lowest(Value& total, bool& is_late, const Value& term, bool term_late) {
        if (S::is_zero(term)) return;
        if (S::is_zero(total) || (is_late && !term_late)) {
            total = term;
            is_late = term_late;
        } else if (is_late == term_late) {
            total = S::plus(total, term);
        }
    }

    // The logarithm of the product of all T; false if it has two powers of t: two root modifiers.
    bool set_log_of_totals(const Value& last, bool last_late, double& log_partition) const {
        LogProduct product;
        product.multiply(last);
        int64_t powers = last_late;
        for (int64_t i = 0; i < n - 1; i++) {
            product.multiply(totals[i]);
            powers += totals_late[i];
        }
        log_partition = single_root && powers > 1 ? -INFINITY : product.log_plus(shift);
        return log_partition > -INFINITY;
    }
};

// Scores that lie further apart, in nats, need scaled numbers.
constexpr double WIDEST = 300.0;

// Call use(sums, log_partition) with plain numbers and, where those do not do, with scaled ones; it
// returns whether they do. cells: what it needs at `spare`. Returns the log-partition in nats, -inf
// without a tree, NaN if memory ran out.
template <class Use>
inline double with_tree_sums(const ScoresInNats& scores, int64_t n, bool single_root, int64_t cells,
                             Arena& arena, Use use) {
    ArenaMark mark(arena);
    ScoreShifts shifted;
    double log_partition = NAN;
    shifted.shifts = arena.take<double>(n + 1);
    if (!shifted.shifts) return NAN;
    if (!shift_scores(scores, n, single_root, shifted)) return -INFINITY;
    if (shifted.width <= WIDEST) {
        ArenaMark of_plain(arena);
        TreeSums<SumProduct> sums;
        if (!sums.start(scores, n, shifted, cells, arena)) return NAN;
        if (use(sums, log_partition)) return log_partition;
        if (arena.failed()) return NAN;
    }
    TreeSums<ScaledSum> sums;
    if (!sums.start(scores, n, shifted, cells, arena)) return NAN;
    if (use(sums, log_partition)) return log_partition;
    return arena.failed() ? NAN : -INFINITY;
}

// Log-partition of n >= 1 words under scores times `scale`, in nats, -inf where there is no tree; unless
// their data is NULL, marginals(0..n, 1..n) are filled, which are of no use where there is no tree.
// arc_scores: (>= n + 1, >= n + 1), [h, m]. NaN: out of memory.
inline double matrix_tree_sentence(View2<const double> arc_scores, int64_t n, bool single_root,
                                   double scale, View2<double> marginals, Arena& arena) {
    const int64_t cells = marginals.data ? TreeSums<SumProduct>::cells_of_marginals(n) : 0;
    return with_tree_sums({arc_scores, scale}, n, single_root, cells, arena,
                          [&](auto& sums, double& log_partition) {
                              if (!marginals.data) return sums.eliminate_all(nullptr, log_partition);
                              return sums.fill_marginals(marginals, arena, log_partition);
                          });
}

}  // namespace gpuparse
