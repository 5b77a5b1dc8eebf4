// The exported functions of linear chains (Viterbi 1967; Rabiner 1989).
#include "api/chains.h"

#include <math.h>

#include "arena.h"
#include "random.h"
#include "views.h"

using namespace gpuparse;

namespace {

bool are_chains(const Chains& chains) {
    const int64_t n_chains = chains.unary.n0, n = chains.unary.n1, k = chains.unary.n2;
    const auto fits = [&](const f64_4& scores, int64_t positions, int64_t rows) {
        const bool is_shared = scores.n0 == 1 && scores.n1 == 1;
        return (is_shared || (scores.n0 == n_chains && scores.n1 == positions)) && scores.n2 == rows &&
               scores.n3 == k;
    };
    if (k < 1 || k > 4096 || chains.lengths.n0 != n_chains || !are_between(1, chains.lengths, n + 1)) return false;
    if (n > 1 && !fits(chains.pairs, n - 1, k)) return false;
    return n <= 2 || chains.triples.n0 == 0 || fits(chains.triples, n - 2, k * k);
}

// One chain. A state is the last tag, or of the second order the last two: before * K + last. State c
// is reached from the states from(r, c) for r = 0 .. K - 1; ascending r is the order of ties.
struct Chain {
    const double *unary, *pairs, *triples;
    int64_t pair_step, triple_step;  // values from position to position, 0 where they are shared
    int64_t n, k, n_states;
    bool is_second;

    Chain(const Chains& chains, int64_t b) : n(chains.lengths.data[b]), k(chains.unary.n2) {
        is_second = chains.triples.n0 > 0;
        n_states = is_second ? k * k : k;
        unary = chains.unary.data + b * chains.unary.n1 * k;
        const auto of = [&](const f64_4& scores, int64_t& step) {
            const int64_t size = scores.n2 * scores.n3;
            step = scores.n0 == 1 && scores.n1 == 1 ? 0 : size;
            return scores.data + (step ? b * scores.n1 * size : 0);
        };
        pairs = of(chains.pairs, pair_step);
        triples = of(chains.triples, triple_step);
    }

    int64_t from(int64_t r, int64_t c) const { return is_second ? r * k + c / k : r; }

    // What is added at position t >= 1 by reaching state c from state p.
    double step(int64_t t, int64_t p, int64_t c) const {
        const int64_t tag = c % k;
        double sum = unary[t * k + tag] + pairs[(t - 1) * pair_step + p % k * k + tag];
        if (is_second && t > 1) sum += triples[(t - 2) * triple_step + p * k + tag];
        return sum;
    }

    void start(double* values) const {
        for (int64_t c = 0; c < n_states; ++c) values[c] = c < k ? unary[c] : -INFINITY;
    }
};

double added(double a, double b) {  // log(exp(a) + exp(b))
    const double high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

// forward (n, n_states): the log of the sum over all beginnings that end in a state.
void sum_forward(const Chain& chain, double* forward) {
    chain.start(forward);
    for (int64_t t = 1; t < chain.n; ++t) {
        const double* before = forward + (t - 1) * chain.n_states;
        double* here = forward + t * chain.n_states;
        for (int64_t c = 0; c < chain.n_states; ++c) {
            double sum = -INFINITY;
            for (int64_t r = 0; r < chain.k; ++r) {
                const int64_t p = chain.from(r, c);
                sum = added(sum, before[p] + chain.step(t, p, c));
            }
            here[c] = sum;
        }
    }
}

// A way to a state: its value, the state before and which of the ways to that one.
struct Way {
    double value;
    int32_t state, rank;
};

// The best `most` ways to each state, by value, then in the order of r and rank.
void find_ways(const Chain& chain, int64_t most, Way* ways, Way* scratch) {
    const int64_t row = chain.n_states * most;
    for (int64_t cell = 0; cell < row; ++cell) ways[cell] = {-INFINITY, -1, 0};
    for (int64_t c = 0; c < chain.k; ++c) ways[c * most].value = chain.unary[c];
    for (int64_t t = 1; t < chain.n; ++t) {
        const Way* before = ways + (t - 1) * row;
        for (int64_t c = 0; c < chain.n_states; ++c) {
            int64_t count = 0;
            for (int64_t r = 0; r < chain.k; ++r) {
                const int64_t p = chain.from(r, c);
                const double step = chain.step(t, p, c);
                for (int64_t rank = 0; rank < most; ++rank) {
                    const double value = before[p * most + rank].value + step;
                    if (value == -INFINITY) break;
                    if (count == most && value <= scratch[count - 1].value) break;
                    int64_t place = count < most ? count++ : count - 1;
                    for (; place > 0 && scratch[place - 1].value < value; --place) scratch[place] = scratch[place - 1];
                    scratch[place] = {value, (int32_t)p, (int32_t)rank};
                }
            }
            Way* here = ways + t * row + c * most;
            for (int64_t rank = 0; rank < most; ++rank)
                here[rank] = rank < count ? scratch[rank] : Way{-INFINITY, -1, 0};
        }
    }
}

}  // namespace

GPUPARSE(int64_t) find_chains(const Chains* chains, out_i64_3 tags, out_f64_2 scores) {
    const int64_t most = tags.n1, n_all = chains->unary.n1;
    if (!are_chains(*chains) || tags.n0 != chains->unary.n0 || tags.n2 != n_all || scores.n0 != tags.n0 ||
        scores.n1 != most || most < 1 || most >= INT32_MAX)
        return BAD_SHAPE;
    Arena arena;
    for (int64_t b = 0; b < tags.n0; ++b) {
        ArenaMark mark(arena);
        const Chain chain(*chains, b);
        const int64_t row = chain.n_states * most;
        Way* ways = arena.take<Way>(chain.n * row);
        Way* scratch = arena.take<Way>(most);
        int64_t* taken = arena.take_zeros<int64_t>(chain.n_states);
        if (arena.failed()) return NO_MEMORY;
        find_ways(chain, most, ways, scratch);
        const Way* last = ways + (chain.n - 1) * row;
        for (int64_t place = 0; place < most; ++place) {
            int64_t* of_place = tags.data + (b * most + place) * n_all;
            for (int64_t t = 0; t < n_all; ++t) of_place[t] = -1;
            // The best way that is left; of equal ones the smallest last tag, then the tag before.
            int64_t top = -1;
            for (int64_t j = 0; j < chain.k; ++j)
                for (int64_t c = j; c < chain.n_states; c += chain.k) {
                    if (taken[c] == most) continue;
                    const double value = last[c * most + taken[c]].value;
                    if (value > -INFINITY && (top < 0 || value > last[top * most + taken[top]].value)) top = c;
                }
            scores.data[b * most + place] = top < 0 ? -INFINITY : last[top * most + taken[top]].value;
            if (top < 0) continue;
            int64_t state = top, rank = taken[top]++;
            for (int64_t t = chain.n - 1; t >= 0; --t) {
                of_place[t] = state % chain.k;
                const Way& way = ways[t * row + state * most + rank];
                state = way.state;
                rank = way.rank;
            }
        }
    }
    return OK;
}

GPUPARSE(int64_t) sum_chains(const Chains* chains, out_f64_1 log_sums, out_f64_3 probabilities) {
    const int64_t n_chains = chains->unary.n0, n_all = chains->unary.n1, k = chains->unary.n2;
    const bool has_all = probabilities.n0 > 0;
    if (!are_chains(*chains) || log_sums.n0 != n_chains ||
        (has_all && (probabilities.n0 != n_chains || probabilities.n1 != n_all || probabilities.n2 != k)))
        return BAD_SHAPE;
    Arena arena;
    for (int64_t b = 0; b < n_chains; ++b) {
        ArenaMark mark(arena);
        const Chain chain(*chains, b);
        double* forward = arena.take<double>(chain.n * chain.n_states);
        double* backward = arena.take<double>(2 * chain.n_states);
        if (arena.failed()) return NO_MEMORY;
        sum_forward(chain, forward);
        double all = -INFINITY;
        for (int64_t c = 0; c < chain.n_states; ++c) all = added(all, forward[(chain.n - 1) * chain.n_states + c]);
        log_sums.data[b] = all;
        if (!has_all) continue;
        double* shares = probabilities.data + b * n_all * k;
        for (int64_t cell = 0; cell < n_all * k; ++cell) shares[cell] = 0;
        if (all == -INFINITY) continue;
        double *here = backward, *behind = backward + chain.n_states;
        for (int64_t c = 0; c < chain.n_states; ++c) here[c] = 0;
        for (int64_t t = chain.n - 1; t >= 0; --t) {
            for (int64_t c = 0; c < chain.n_states; ++c)
                shares[t * k + c % k] += exp(forward[t * chain.n_states + c] + here[c] - all);
            if (!t) break;
            double* other = behind;
            behind = here;
            here = other;
            for (int64_t c = 0; c < chain.n_states; ++c) here[c] = -INFINITY;
            for (int64_t c = 0; c < chain.n_states; ++c)
                for (int64_t r = 0; r < k; ++r) {
                    const int64_t p = chain.from(r, c);
                    here[p] = added(here[p], behind[c] + chain.step(t, p, c));
                }
        }
    }
    return OK;
}

GPUPARSE(int64_t) sample_chains(const Chains* chains, i64_1 seeds, out_i64_3 tags) {
    const int64_t n_all = chains->unary.n1;
    if (!are_chains(*chains) || tags.n0 != chains->unary.n0 || tags.n2 != n_all || seeds.n0 != tags.n0)
        return BAD_SHAPE;
    Arena arena;
    for (int64_t b = 0; b < tags.n0; ++b) {
        ArenaMark mark(arena);
        const Chain chain(*chains, b);
        double* forward = arena.take<double>(chain.n * chain.n_states);
        double* shares = arena.take<double>(chain.n_states > chain.k ? chain.n_states : chain.k);
        if (arena.failed()) return NO_MEMORY;
        sum_forward(chain, forward);
        for (int64_t sample = 0; sample < tags.n1; ++sample) {
            int64_t* found = tags.data + (b * tags.n1 + sample) * n_all;
            for (int64_t t = 0; t < n_all; ++t) found[t] = -1;
            Random random(seeds.data[b], sample);
            int64_t state = -1;
            for (int64_t t = chain.n - 1; t >= 0; --t) {
                const double* here = forward + t * chain.n_states;
                const bool is_last = state < 0;
                const int64_t count = is_last ? chain.n_states : chain.k;
                double top = -INFINITY, sum = 0;
                for (int64_t r = 0; r < count; ++r) {
                    const int64_t p = is_last ? r : chain.from(r, state);
                    shares[r] = here[p] + (is_last ? 0 : chain.step(t + 1, p, state));
                    top = shares[r] > top ? shares[r] : top;
                }
                if (top == -INFINITY) break;
                for (int64_t r = 0; r < count; ++r) sum += shares[r] = exp(shares[r] - top);
                double left = random.next() * sum;
                int64_t chosen = -1;
                for (int64_t r = 0; r < count; ++r) {
                    if (!(shares[r] > 0)) continue;
                    chosen = r;
                    if (left < shares[r]) break;
                    left -= shares[r];
                }
                state = is_last ? chosen : chain.from(chosen, state);
                found[t] = state % chain.k;
            }
        }
    }
    return OK;
}
