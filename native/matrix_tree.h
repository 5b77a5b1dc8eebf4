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
// enough, numbers have exponents of their own (scaled.h).
#pragma once

#include "scaled.h"
#include "views.h"

namespace gpuparse {

// What is subtracted from the scores: shifts[m] from those into the word m, shifts[0] from those of
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
inline bool shift_scores(View2<const double> scores, int64_t n, bool single_root,
                         ScoreShifts& found) {
    double* shifts = found.shifts;
    found.single_root = single_root && n > 1;
    found.root_word = 0;
    if (found.single_root) {
        // A word without any other head is the modifier of the root; then no other word is.
        for (int64_t m = 1; m <= n; m++) {
            bool has_word = false;
            for (int64_t h = 1; h <= n; h++) has_word |= h != m && scores(h, m) > -INFINITY;
            if (has_word) continue;
            if (found.root_word != 0) return false;
            found.root_word = m;
            found.single_root = false;
        }
    }
    found.has_forbidden = found.root_word != 0;
    found.width = found.total = 0.0;
    shifts[0] = 0.0;
    for (int64_t m = 1; m <= n; m++) {
        const bool may_be_root = !found.single_root && (found.root_word == 0 || found.root_word == m);
        double highest = may_be_root ? scores(0, m) : -INFINITY;
        for (int64_t h = 1; h <= n; h++) {
            if (h != m && scores(h, m) > highest) highest = scores(h, m);
        }
        if (highest == -INFINITY) return false;
        shifts[m] = highest;
        found.total += highest;
    }
    if (found.single_root) {
        double highest = -INFINITY;
        for (int64_t m = 1; m <= n; m++) {
            const double left = scores(0, m) - shifts[m];
            if (left > highest) highest = left;
        }
        if (highest == -INFINITY) return false;
        shifts[0] = highest;
        found.total += highest;
    }
    for (int64_t h = 0; h <= n; h++) {
        double lowest = 0.0;
        bool has_forbidden = false;
        for (int64_t m = 1; m <= n; m++) {
            const double shifted = h == m ? 0.0 : scores(h, m) - shifts[m] - shifts[0] * (h == 0);
            has_forbidden |= shifted == -INFINITY;
            if (shifted < lowest && shifted > -INFINITY) lowest = shifted;
        }
        found.has_forbidden |= has_forbidden;
        if (-lowest > found.width) found.width = -lowest;
    }
    return true;
}

// A product of positive numbers, and its logarithm.
struct LogProduct {
    double mantissa = 1.0, exponent = 0.0;
    void multiply(double x) {
        const int64_t bits = same_bits<int64_t>(mantissa * x);  // normal: both are far from underflow
        exponent += (double)((bits >> 52) - 1023);
        mantissa = same_bits<double>((bits & 0xFFFFFFFFFFFFF) | (int64_t)1023 << 52);
    }
    void multiply(Scaled::Number x) {
        multiply(x.mantissa);
        exponent += x.exponent;
    }
    // The logarithm plus `more`. Where both are large and nearly cancel, no digits are lost.
    double log_plus(double more) const {
        // The mantissa from 1 to 2 becomes one from 0.7 to 1.4.
        const bool is_large = mantissa > 1.4142135623730951;
        const double powers = exponent + is_large;
        const double rest = powers * LN2_SMALLEST + ::log(is_large ? 0.5 * mantissa : mantissa);
        return powers * LN2_LARGEST + more + powers * LN2_MIDDLE + rest;
    }
};

// The elimination in numbers of one kind, `Plain` or `Scaled`.
template <class Kind>
struct TreeSums {
    using Number = typename Kind::Number;
    using Row = typename Kind::Row;

    // What is left of the words at one halving. Row 0 of the tables is the root's, row p + 1 and
    // column p that of words[p].
    struct Level {
        int64_t size, width;   // words; cells in a row of `weights`
        Row weights;           // (size + 1, width)
        Row escapes;           // (size + 1, all words): [h, i], the probability that a walk from the
                               // i-th eliminated word meets h first of the words that are left
        int64_t* words;        // (size)
        bool* late;            // (size), of the arcs from the root
        bool* escape_late;     // (all words), of the escapes to the root
    };

    int64_t n = 0;
    bool single_root = false;
    double least = 0.0;               // plain totals below this may have lost digits
    Level levels[66];                 // [0]: all words
    int64_t full_width = 0;           // cells in a row of `escapes`
    Number* totals = nullptr;         // (n): T of the i-th eliminated word
    Number* terms = nullptr;          // (n): of the heads of one word
    bool* totals_late = nullptr;      // (n)
    bool any_late_total = false;      // has a word been eliminated whose only head was the root?
    int64_t* order = nullptr;         // (n): the i-th eliminated word

    // Memory for one sentence. False: there is none.
    bool allocate(int64_t n_words, bool with_marginals, Arena& arena) {
        n = n_words;
        full_width = whole_lines<double>(n);
        totals = arena.take<Number>(n);
        terms = arena.take<Number>(n);
        totals_late = arena.take_zeros<bool>(n);
        order = arena.take<int64_t>(n);
        int64_t size = n;
        for (int64_t level = 0; level == 0 || (with_marginals && size > 1); level++) {
            if (level > 1) size = (size + 1) / 2;
            if (!allocate_level(levels[level], size, with_marginals && level > 0, arena)) return false;
        }
        return !arena.failed();
    }

    // The weights of all arcs, at levels[0].
    void fill_weights(View2<const double> scores, const ScoreShifts& shifted) {
        Level& all = levels[0];
        single_root = shifted.single_root;
        for (int64_t h = 0; h <= n; h++) {
            Row row = all.weights.from(h * all.width);
            double* cells = first_part(row);
            const double from_root = h == 0 ? shifted.shifts[0] : 0.0;
            for (int64_t m = 1; m <= n; m++) {
                cells[m - 1] = scores(h, m) - shifted.shifts[m] - from_root;
            }
            if (h > 0) cells[h - 1] = -INFINITY;
            for (int64_t i = n; i < all.width; i++) cells[i] = -INFINITY;
            if (h == 0 && shifted.root_word != 0) {
                for (int64_t m = 1; m <= n; m++) {
                    if (m != shifted.root_word) cells[m - 1] = -INFINITY;
                }
            }
            Kind::exponentiate(row, n);
        }
        for (int64_t p = 0; p < n; p++) {
            all.words[p] = p + 1;
            all.late[p] = single_root;
        }
    }

    // Eliminate all words of a level but the first `kept`. False: a word has no weight into it that
    // is known to be right. `into`, if there is one: (n, full_width), [e, h], the weights into the
    // word at e when it was eliminated.
    bool eliminate(Level& level, int64_t kept, bool with_escapes, Row into = {}) {
        const Row weights = level.weights, escapes = level.escapes;
        const int64_t width = level.width;
        for (int64_t e = level.size - 1; e >= kept; e--) {
            const int64_t i = n - 1 - e;
            order[i] = level.words[e];
            Number total = Kind::sum(weights.from(width + e), width, e);
            bool is_late = false;
            const Number of_root = Kind::get(weights, e);
            if (!level.late[e]) {
                total = Kind::plus(total, of_root);
            } else if (Kind::is_zero(total)) {
                total = of_root;
                is_late = any_late_total = true;
            }
            if (!Kind::is_at_least(total, least) || Kind::is_zero(total)) return false;
            totals[i] = total;
            totals_late[i] = is_late;
            const bool pull_late = level.late[e] && !is_late;
            const Row source = weights.from((e + 1) * width);
            const Row source_escapes = escapes.from((e + 1) * full_width);
            Kind::normalize(source, e);
            if (with_escapes) Kind::normalize(source_escapes, i);
            for (int64_t h = 0; h <= e; h++) {
                const Number weight = Kind::get(weights, h * width + e);
                if (first_part(into)) Kind::set(into, e * full_width + h, weight);
                const Number share = Kind::over(weight, total);
                if (!Kind::SKIPS_ZEROS || !Kind::is_zero(share)) {
                    const Row target = weights.from(h * width);
                    const Row target_escapes = escapes.from(h * full_width);
                    if (h == 0 && single_root && has_mixed_powers(level, e, i, pull_late, with_escapes)) {
                        add_late(target, level.late, source, share, pull_late, e);
                        if (with_escapes) {
                            add_late(target_escapes, level.escape_late, source_escapes, share,
                                     pull_late, i);
                        }
                    } else {
                        Kind::add_product(target, source, share, e);
                        if (with_escapes) {
                            Kind::add_product(target_escapes, source_escapes, share, i);
                        }
                    }
                }
                if (with_escapes) Kind::set(escapes, h * full_width + i, share);
            }
            level.escape_late[i] = pull_late;
        }
        return true;
    }

    // The log-partition, given the sum of all shifts, and marginals(h, m). NaN where plain numbers do
    // not do, -inf where there is no tree.
    double sum_trees(double shifted_by, View2<double> marginals) {
        struct Task {
            int64_t level, size, turn;
        };
        Task stack[132];
        stack[0] = {0, n, 0};
        int64_t depth = 1;
        double log_partition = NAN;
        const double failure = sizeof(Number) == sizeof(double) ? NAN : -INFINITY;
        while (depth > 0) {
            const Task task = stack[--depth];
            Level& level = levels[task.level];
            int64_t kept = task.size;
            if (task.level > 0) {
                copy_level(task.level, task.size, task.turn);
                kept = task.turn > 0 ? task.size - task.turn : (task.size + 1) / 2;
                if (!eliminate(level, kept, true)) return failure;
            }
            if (kept > 1) {
                const int64_t half = (kept + 1) / 2;
                stack[depth++] = {task.level + 1, kept, half};
                stack[depth++] = {task.level + 1, kept, 0};
                continue;
            }
            bool is_late = single_root;
            const Number last = fill_word(level, level.words[0], marginals, is_late);
            if (!Kind::is_at_least(last, least) || Kind::is_zero(last)) return failure;
            if (isnan(log_partition)) {
                log_partition = log_of_totals(last, is_late, shifted_by);
                if (log_partition == -INFINITY) return log_partition;
            }
        }
        return log_partition;
    }

    // The same without marginals.
    double sum_trees(double shifted_by) {
        const double failure = sizeof(Number) == sizeof(double) ? NAN : -INFINITY;
        if (!eliminate(levels[0], 1, false)) return failure;
        const Number last = Kind::get(levels[0].weights, 0);
        if (!Kind::is_at_least(last, least) || Kind::is_zero(last)) return failure;
        return log_of_totals(last, levels[0].late[0], shifted_by);
    }

    static double* first_part(Plain::Row row) { return row.values; }
    static double* first_part(Scaled::Row row) { return row.mantissas; }

private:
    // Zeros, since whole vectors are computed with: whatever the memory held could be denormal numbers,
    // which are slow.
    bool allocate_level(Level& level, int64_t size, bool with_escapes, Arena& arena) {
        level.size = size;
        level.width = whole_lines<double>(size);
        level.weights = Kind::take_zeros((size + 1) * level.width, arena);
        level.escapes = with_escapes ? Kind::take_zeros((size + 1) * full_width, arena) : Row{};
        level.words = arena.take<int64_t>(size);
        level.late = arena.take<bool>(size);
        level.escape_late = arena.take<bool>(n);
        return !arena.failed();
    }

    // Copy the `size` words that are left at the level before, those from `turn` on to the front.
    void copy_level(int64_t number, int64_t size, int64_t turn) {
        const Level& from = levels[number - 1];
        Level& to = levels[number];
        const int64_t rest = size - turn;
        to.size = size;
        to.width = whole_lines<double>(size);
        const int64_t done = n - size;
        for (int64_t p = 0; p < size; p++) {
            const int64_t q = p < rest ? p + turn : p - rest;
            to.words[p] = from.words[q];
            to.late[p] = from.late[q];
        }
        for (int64_t i = 0; i < done; i++) to.escape_late[i] = from.escape_late[i];
        for (int64_t row = 0; row <= size; row++) {
            const int64_t q = row == 0 ? 0 : (row - 1 < rest ? row - 1 + turn : row - 1 - rest) + 1;
            const Row target = to.weights.from(row * to.width);
            const Row source = from.weights.from(q * from.width);
            Kind::copy(target, source.from(turn), rest);
            Kind::copy(target.from(rest), source, turn);
            if (done > 0) {
                Kind::copy(to.escapes.from(row * full_width), from.escapes.from(q * full_width), done);
            }
        }
    }

    // Whether the powers of t of the root's arcs and escapes may differ from what is added.
    bool has_mixed_powers(const Level& level, int64_t e, int64_t i, bool pull_late,
                          bool with_escapes) const {
        if (!any_late_total) return false;
        bool is_mixed = false;
        for (int64_t m = 0; m < e; m++) is_mixed |= level.late[m] != pull_late;
        for (int64_t j = 0; with_escapes && j < i; j++) is_mixed |= level.escape_late[j] != pull_late;
        return is_mixed;
    }

    // to[m] += share * from[m], m < count, of terms with the lowest power of t.
    static void add_late(Row to, bool* late, Row from, Number share, bool share_late, int64_t count) {
        for (int64_t m = 0; m < count; m++) {
            const Number through = Kind::times(share, Kind::get(from, m));
            if (Kind::is_zero(through)) continue;
            Number sum = Kind::get(to, m);
            add_lowest(sum, late[m], through, share_late);
            Kind::set(to, m, sum);
        }
    }

    // Marginals of the heads of m, the only word that is left at a level. Returns T of m, and sets
    // whether it has a power of t.
    Number fill_word(const Level& level, int64_t m, View2<double> marginals, bool& is_late) {
        Number total = Kind::get(levels[0].weights, m - 1);
        const Number of_root = total;
        const bool root_late = is_late;
        for (int64_t i = 0; i < n - 1; i++) {
            const Number term = terms[i] = arc_escape(level, m, i);
            if (!any_late_total) {
                total = Kind::plus(total, term);
            } else if (!Kind::is_zero(term)) {
                add_lowest(total, is_late, term, level.escape_late[i]);
            }
        }
        if (Kind::is_zero(total)) return total;
        marginals(m, m) = 0.0;
        marginals(0, m) = is_late == root_late ? Kind::ratio(of_root, total) : 0.0;
        for (int64_t i = 0; i < n - 1; i++) {
            const bool counts = !any_late_total || level.escape_late[i] == is_late;
            marginals(order[i], m) = counts ? Kind::ratio(terms[i], total) : 0.0;
        }
        return total;
    }

    // total += term, of terms with the lowest power of t; the term is not 0.
    static void add_lowest(Number& total, bool& is_late, Number term, bool term_late) {
        if (Kind::is_zero(total) || (is_late && !term_late)) {
            total = term;
            is_late = term_late;
        } else if (is_late == term_late) {
            total = Kind::plus(total, term);
        }
    }

    // The weight into m from the i-th eliminated word, times its escape to the root.
    Number arc_escape(const Level& level, int64_t m, int64_t i) const {
        const Level& all = levels[0];
        return Kind::times(Kind::get(all.weights, order[i] * all.width + m - 1),
                           Kind::get(level.escapes, i));
    }

    // The logarithm of the product of all T, -inf if it has two powers of t: two root modifiers.
    double log_of_totals(Number last, bool last_late, double shifted_by) const {
        LogProduct product;
        product.multiply(last);
        int64_t powers = last_late;
        for (int64_t i = 0; i < n - 1; i++) {
            product.multiply(totals[i]);
            powers += totals_late[i];
        }
        return single_root && powers > 1 ? -INFINITY : product.log_plus(shifted_by);
    }
};

// Plain numbers do where scores lie at most this far apart (in nats): without forbidden arcs each
// weight stays above its first value; otherwise all totals must be at least LEAST_TOTAL, and then
// what underflows has a part of 2^-100 or less in any of them.
constexpr double WIDEST = 300.0;
constexpr double LEAST_TOTAL = 0x1p-300;

template <class Kind>
inline double sum_trees_in(View2<const double> scores, int64_t n, const ScoreShifts& shifted,
                           bool with_marginals, View2<double> marginals, Arena& arena) {
    ArenaMark mark(arena);
    TreeSums<Kind>* sums = arena.take<TreeSums<Kind>>(1);
    if (!sums) return NAN;
    *sums = TreeSums<Kind>();
    if (!sums->allocate(n, with_marginals, arena)) return NAN;
    sums->least = shifted.has_forbidden ? LEAST_TOTAL : 0.0;
    sums->fill_weights(scores, shifted);
    return with_marginals ? sums->sum_trees(shifted.total, marginals)
                          : sums->sum_trees(shifted.total);
}

// Log-partition of one sentence in nats, -inf where there is no tree; with marginals, the
// probability of h -> m fills marginals(0..n, 1..n), which are of no use where there is no tree.
// scores: (>= n + 1, >= n + 1), [h, m]. Not a number: out of memory.
inline double matrix_tree_sentence(View2<const double> scores, int64_t n, bool single_root,
                                   bool with_marginals, View2<double> marginals, Arena& arena) {
    if (n == 0) return 0.0;
    ArenaMark mark(arena);
    ScoreShifts shifted;
    shifted.shifts = arena.take<double>(n + 1);
    if (!shifted.shifts) return NAN;
    if (!shift_scores(scores, n, single_root, shifted)) return -INFINITY;
    double sum = NAN;
    if (shifted.width <= WIDEST) {
        sum = sum_trees_in<Plain>(scores, n, shifted, with_marginals, marginals, arena);
    }
    if (isnan(sum) && !arena.failed()) {
        sum = sum_trees_in<Scaled>(scores, n, shifted, with_marginals, marginals, arena);
    }
    return sum;
}

}  // namespace gpuparse
