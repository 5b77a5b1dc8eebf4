// The exported functions of linear chains (Viterbi 1967; Rabiner 1989).
#include "api/chains.h"

#include <math.h>

#include "arena.h"
#include "random.h"
#include "vector_exp.h"
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

    // step() to all tags from state p, whose own value is `before`.
    void steps(int64_t t, int64_t p, double before, double* values) const {
        const double *of_tags = unary + t * k, *of_pairs = pairs + (t - 1) * pair_step + p % k * k;
        const double* of_triples = is_second && t > 1 ? triples + (t - 2) * triple_step + p * k : nullptr;
        for (int64_t tag = 0; tag < k; ++tag) {
            double sum = of_tags[tag] + of_pairs[tag];
            if (of_triples) sum += of_triples[tag];
            values[tag] = before + sum;
        }
    }

    void start(double* values) const {
        for (int64_t c = 0; c < n_states; ++c) values[c] = c < k ? unary[c] : -INFINITY;
    }
};

// The sums over the ways into one group of states at one position: those whose tag before is `group`, of the
// first order all. Way r comes from state p = from(r); the columns are the tags.
struct Sums {
    int64_t k, width;  // the tags, and whole vectors of them
    double* shares;    // (k, width): exp(value of the way - top)
    double* tops;      // (width): the value of the best way, or 0 without any
    double* sums;      // (width): of the shares

    Sums(Arena& arena, int64_t k) : k(k), width(whole_lines<double>(k)) {
        shares = arena.take<double>(k * width);
        tops = arena.take<double>(width);
        sums = arena.take<double>(width);
    }

    // `before`: the logs of the sums of the states at position t - 1, t >= 1.
    void add(const Chain& chain, int64_t t, int64_t group, const double* before) const {
        for (int64_t r = 0; r < k; ++r) {
            const int64_t p = chain.from(r, group * k);
            chain.steps(t, p, before[p], shares + r * width);
            for (int64_t tag = k; tag < width; ++tag) shares[r * width + tag] = -INFINITY;
        }
        const Vector<double> none = splat(-__builtin_inf());
        for (int64_t j = 0; j < width; j += Lanes<double>::count) {
            Vector<double> top = none, sum = splat(0.0);
            for (int64_t r = 0; r < k; ++r) {
                const Vector<double> value = load(shares + r * width + j);
                top = value > top ? value : top;
            }
            top = top > none ? top : splat(0.0);
            for (int64_t r = 0; r < k; ++r) {
                const Vector<double> share = vector_exp(load(shares + r * width + j) - top);
                store(shares + r * width + j, share);
                sum += share;
            }
            store(tops + j, top);
            store(sums + j, sum);
        }
    }
};

// forward (n, n_states): the log of the sum over all beginnings that end in a state.
void sum_forward(const Chain& chain, const Sums& ways, double* forward) {
    chain.start(forward);
    for (int64_t t = 1; t < chain.n; ++t)
        for (int64_t group = 0; group < chain.n_states / chain.k; ++group) {
            ways.add(chain, t, group, forward + (t - 1) * chain.n_states);
            double* here = forward + t * chain.n_states + group * chain.k;
            for (int64_t tag = 0; tag < chain.k; ++tag)
                here[tag] = ways.sums[tag] > 0 ? ways.tops[tag] + log(ways.sums[tag]) : -INFINITY;
        }
}

// The log of the sum over the states; shares (n_states) get the share of each.
double sum_states(const Chain& chain, const double* values, double* shares) {
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < chain.n_states; ++c) top = values[c] > top ? values[c] : top;
    if (top == -INFINITY) return top;
    for (int64_t c = 0; c < chain.n_states; ++c) sum += shares[c] = exp(values[c] - top);
    for (int64_t c = 0; c < chain.n_states; ++c) shares[c] /= sum;
    return top + log(sum);
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

GPUPARSE(int64_t) sum_chains(const Chains* chains, out_f64_1 log_sums, out_f64_3 tag_shares,
                             out_f64_4 pair_shares, out_f64_4 triple_shares) {
    const int64_t n_chains = chains->unary.n0, n_all = chains->unary.n1, k = chains->unary.n2;
    const auto fits = [&](const out_f64_4& shares, const f64_4& scores) {
        return shares.n0 == 0 || (tag_shares.n0 > 0 && shares.n0 == n_chains && shares.n1 == scores.n1 &&
                                  shares.n2 == scores.n2 && shares.n3 == k);
    };
    if (!are_chains(*chains) || log_sums.n0 != n_chains ||
        (tag_shares.n0 > 0 && (tag_shares.n0 != n_chains || tag_shares.n1 != n_all || tag_shares.n2 != k)) ||
        !fits(pair_shares, chains->pairs) || !fits(triple_shares, chains->triples))
        return BAD_SHAPE;
    Arena arena;
    const auto clear = [](double* shares, int64_t count) {
        for (int64_t cell = 0; cell < count; ++cell) shares[cell] = 0;
    };
    clear(tag_shares.data, tag_shares.n0 * n_all * k);
    clear(pair_shares.data, pair_shares.n0 * pair_shares.n1 * pair_shares.n2 * k);
    clear(triple_shares.data, triple_shares.n0 * triple_shares.n1 * triple_shares.n2 * k);
    for (int64_t b = 0; b < n_chains; ++b) {
        ArenaMark mark(arena);
        const Chain chain(*chains, b);
        const Sums ways(arena, k);
        double* forward = arena.take<double>(chain.n * chain.n_states);
        double* here = arena.take<double>(chain.n_states);  // the probabilities of the states at t
        double* before = arena.take<double>(chain.n_states);
        if (arena.failed()) return NO_MEMORY;
        sum_forward(chain, ways, forward);
        log_sums.data[b] = sum_states(chain, forward + (chain.n - 1) * chain.n_states, here);
        if (tag_shares.n0 == 0 || log_sums.data[b] == -INFINITY) continue;
        double* of_tags = tag_shares.data + b * n_all * k;
        for (int64_t t = chain.n - 1;; --t) {
            for (int64_t c = 0; c < chain.n_states; ++c) of_tags[t * k + c % k] += here[c];
            if (!t) break;
            double *of_pairs = nullptr, *of_triples = nullptr;
            if (pair_shares.n0) of_pairs = pair_shares.data + b * pair_shares.n1 * k * k + (t - 1) * chain.pair_step;
            if (triple_shares.n0 && chain.is_second && t > 1)
                of_triples = triple_shares.data + b * triple_shares.n1 * k * k * k + (t - 2) * chain.triple_step;
            clear(before, chain.n_states);
            for (int64_t group = 0; group < chain.n_states / k; ++group) {
                ways.add(chain, t, group, forward + (t - 1) * chain.n_states);
                for (int64_t tag = 0; tag < k; ++tag)  // of a way, given that there is one
                    ways.sums[tag] = ways.sums[tag] > 0 ? here[group * k + tag] / ways.sums[tag] : 0;
                for (int64_t r = 0; r < k; ++r) {
                    const int64_t p = chain.from(r, group * k);
                    double* shares = ways.shares + r * ways.width;
                    for (int64_t tag = 0; tag < k; ++tag) shares[tag] *= ways.sums[tag];
                    for (int64_t tag = 0; tag < k; ++tag) before[p] += shares[tag];
                    if (of_pairs)
                        for (int64_t tag = 0; tag < k; ++tag) of_pairs[p % k * k + tag] += shares[tag];
                    if (of_triples)
                        for (int64_t tag = 0; tag < k; ++tag) of_triples[p * k + tag] += shares[tag];
                }
            }
            double* other = before;
            before = here;
            here = other;
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
        const Sums ways(arena, chain.k);
        double* shares = arena.take<double>(chain.n_states);
        if (arena.failed()) return NO_MEMORY;
        sum_forward(chain, ways, forward);
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
