// Scores of parts of two words: every family's weights, gathered and summed.
//
// Loops run over families outside and modifiers inside, for one head at a time, so that a head's
// row of scores stays in the first-level cache. Sums are added in a fixed order: float32 weights
// give the same sums everywhere.
#pragma once
#include "feature_rows.h"
#include "views.h"

namespace gpuparse {

template<class W> struct SumType { using type = int32_t; };
template<> struct SumType<float> { using type = float; };
template<class W> using Sum = typename SumType<W>::type;

// Hides a row number from the vectoriser: gathers by vector instructions are slower than loads.
inline uint64_t scalar(uint32_t row) {
    asm("" : "+r"(row));
    return row;
}

// Families whose rows are asked for ahead of the one that is summed. Measured: 4 is 20 to 30 %
// faster than 0 for tables of 8 MB, and as fast for tables of 1 MB.
constexpr int64_t AHEAD = 4;

// Working memory for the scores of an ArcPlan in one sentence of n words.
template<class W>
struct PairSums {
    ArcKeys keys;
    Sum<W>* word_sum;  // (2, n + 1, LINE): sums of the word families by role, word, combination
    uint32_t* base;    // base rows of one head's arcs, of AHEAD + 1 families in turn
    uint32_t* code;    // (K, n + 1): codes of one head's arcs
};

template<class W>
PairSums<W> take_pair_sums(const ArcPlan& plan, int64_t n, Arena& arena) {
    PairSums<W> sums;
    sums.keys = take_arc_keys(plan, n, arena);
    sums.word_sum = arena.take<Sum<W>>(2 * (n + 1) * LINE);
    sums.base = arena.take<uint32_t>((AHEAD + 1) * (n + 1));
    sums.code = arena.take<uint32_t>(plan.codes.n0 * (n + 1));
    return sums;
}

// Sum the word families: one number for each word, role and combination.
template<class W>
void sum_words(int64_t n, const ArcPlan& plan, const W* weights, const RowMap& rows,
               PairSums<W>& sums) {
    const ArcKeys& keys = sums.keys;
    const int64_t combinations = plan.codes.n1;
    memset(sums.word_sum, 0, (size_t)(2 * (n + 1) * LINE) * sizeof(Sum<W>));
    for (int64_t f = 0; f < plan.word.n0; ++f) {
        const WordFamily& family = words_of(plan)[f];
        const uint32_t* first = codes_of(plan, family.first_codes);
        const uint32_t* second =
            family.second_codes >= 0 ? codes_of(plan, family.second_codes) : nullptr;
        // The root too: it stands for the modifier of an end that is absent.
        for (int64_t i = 0; i <= n; ++i) {
            const int64_t at = family.side * keys.stride + i;
            if (!keys.side_on[at]) continue;
            const uint32_t base = find_base(
                mix(keys.side_key[at], 2 * (uint32_t)family.seed) & (uint32_t)rows.mask, rows);
            Sum<W>* sum = sums.word_sum + (family.role * (n + 1) + i) * LINE;
            for (int64_t c = 0; c < combinations; ++c) sum[c] += weights[scalar(base ^ first[c])];
            if (second)
                for (int64_t c = 0; c < combinations; ++c)
                    sum[c] += weights[scalar(base ^ second[c])];
        }
    }
}

// Add the pair families of head h's arcs to its row of scores.
template<class W>
void add_pairs(int64_t h, int64_t n, const ArcPlan& plan, const W* weights, const RowMap& rows,
               PairSums<W>& sums, Sum<W>* __restrict out) {
    const ArcKeys& keys = sums.keys;
    const int64_t stride = keys.stride, nodes = n + 1, families = plan.pair.n0;
    const PairFamily* pairs = pairs_of(plan);
    auto find = [&](int64_t f) {
        const PairFamily& family = pairs[f];
        if (!keys.side_on[family.head_side * stride + h]) return;
        const uint32_t head = keys.head_part[f * stride + h];
        const uint32_t* __restrict part = keys.modifier_part + f * stride;
        uint32_t* __restrict base = sums.base + f % (AHEAD + 1) * nodes;
        if (rows.is_power) {
            for (int64_t m = 1; m <= n; ++m) base[m] = head ^ part[m];
        } else {
            for (int64_t m = 1; m <= n; ++m) base[m] = find_base(head ^ part[m], rows);
        }
        for (int64_t m = 1; m <= n; ++m) __builtin_prefetch(weights + scalar(base[m]), 0, 2);
    };
    for (int64_t f = 0; f < AHEAD && f < families; ++f) find(f);
    for (int64_t f = 0; f < families; ++f) {
        if (f + AHEAD < families) find(f + AHEAD);
        const PairFamily& family = pairs[f];
        if (!keys.side_on[family.head_side * stride + h]) continue;
        const uint32_t* __restrict base = sums.base + f % (AHEAD + 1) * nodes;
        const uint32_t* __restrict first = sums.code + family.first_codes * nodes;
        const uint32_t* __restrict second = sums.code + family.second_codes * nodes;
        if (keys.side_full[family.modifier_side]) {
            if (family.second_codes >= 0) {
                for (int64_t m = 1; m <= n; ++m) {
                    const Sum<W> one = weights[scalar(base[m] ^ first[m])];
                    out[m] += one + weights[scalar(base[m] ^ second[m])];
                }
            } else {
                for (int64_t m = 1; m <= n; ++m) out[m] += weights[scalar(base[m] ^ first[m])];
            }
        } else {
            const uint8_t* __restrict on = keys.side_on + family.modifier_side * stride;
            for (int64_t m = 1; m <= n; ++m) {
                if (!on[m]) continue;
                out[m] += weights[scalar(base[m] ^ first[m])];
                if (family.second_codes >= 0) out[m] += weights[scalar(base[m] ^ second[m])];
            }
        }
    }
}

// Fill out(h, 1..n) of the heads first..n with the scores of two words each, all families but
// those of words in between.
template<class W>
void score_pairs(int64_t first_head, int64_t n, const ArcPlan& plan, const W* weights,
                 const RowMap& rows, PairSums<W>& sums, View2<Sum<W>> out) {
    const int64_t nodes = n + 1;
    for (int64_t h = first_head; h <= n; ++h) {
        const int64_t* combination = sums.keys.combination + n - h;
        const Sum<W>* of_head = sums.word_sum + h * LINE;
        const Sum<W>* of_modifier = sums.word_sum + nodes * LINE;
        for (int64_t m = 1; m <= n; ++m)
            out(h, m) = of_head[combination[m]] + of_modifier[m * LINE + combination[m]];
        for (int64_t table = 0; table < plan.codes.n0; ++table) {
            const uint32_t* codes = codes_of(plan, table);
            for (int64_t m = 1; m <= n; ++m) sums.code[table * nodes + m] = codes[combination[m]];
        }
        add_pairs(h, n, plan, weights, rows, sums, &out(h, 0));
    }
}

// The nodes of one role by the value that a between family reads of them.
struct ValueGroups {
    int64_t* value;   // of each node, -1 for none
    int64_t* next;    // the next node with the same value, or n + 1
    int64_t* is_first;  // whether a node is the first one with its value
    int64_t* last;    // for the first node: the last one with its value
};

inline ValueGroups take_groups(int64_t n, Arena& arena) {
    ValueGroups groups;
    groups.value = arena.take<int64_t>(n + 1);
    groups.next = arena.take<int64_t>(n + 1);
    groups.is_first = arena.take<int64_t>(n + 1);
    groups.last = arena.take<int64_t>(n + 1);
    return groups;
}

// Chain the nodes from `lowest` on that share a value.
inline void fill_groups(const i32_2& values, int64_t start, int64_t n, int64_t lowest,
                        int64_t side, const ArcPlan& plan, ValueGroups& groups) {
    for (int64_t i = 0; i <= n; ++i) {
        groups.value[i] = between_value(values, start + i, side, plan);
        groups.next[i] = n + 1;
        groups.is_first[i] = groups.value[i] >= 0;
    }
    for (int64_t i = lowest; i <= n; ++i) {
        if (!groups.is_first[i]) continue;
        int64_t last = i;
        for (int64_t j = i + 1; j <= n; ++j) {
            if (groups.value[j] == groups.value[i]) {
                groups.next[last] = j;
                groups.is_first[j] = 0;
                last = j;
            }
        }
        groups.last[i] = last;
    }
}

// Running sums, over the words low..high - 1, of the lines at first + middle[k].
template<class W>
void fill_prefix(int64_t low, int64_t high, const W* first, const int64_t* middle,
                 Sum<W>* __restrict prefix) {
    Sum<W> total[LINE] = {};
    Sum<W>* at = prefix + low * LINE;
    for (int64_t c = 0; c < LINE; ++c) at[c] = 0;
    for (int64_t k = low; k < high; ++k) {
        const W* __restrict line = first + middle[k];
        at += LINE;
        for (int64_t c = 0; c < LINE; ++c) at[c] = total[c] = total[c] + line[c];
    }
}

// Add the between families: running sums for each pair of values of head and modifier.
template<class W>
void add_between(const i32_2& values, int64_t start, int64_t n, const ArcPlan& plan,
                 const W* weights, const RowMap& rows, const ArcKeys& keys, Arena& arena,
                 View2<Sum<W>> out) {
    ValueGroups heads = take_groups(n, arena), modifiers = take_groups(n, arena);
    int64_t* middle = arena.take<int64_t>(n + 1);
    Sum<W>* prefix = arena.take<Sum<W>>((n + 2) * LINE);
    if (!prefix) return;
    for (int64_t f = 0; f < plan.between.n0; ++f) {
        const BetweenFamily& family = betweens_of(plan)[f];
        const uint32_t* first = codes_of(plan, family.first_codes);
        const uint32_t* second =
            family.second_codes >= 0 ? codes_of(plan, family.second_codes) : nullptr;
        fill_groups(values, start, n, 0, family.head_side, plan, heads);
        fill_groups(values, start, n, 1, family.modifier_side, plan, modifiers);
        const int32_t* between = values.data + family.row * values.n1 + start;
        for (int64_t k = 1; k <= n; ++k) {
            int64_t value = between[k] < family.n_middles ? between[k] : family.n_middles - 1;
            middle[k] = value * family.n_modifiers * LINE;
        }
        for (int64_t a = 0; a <= n; ++a) {
            if (!heads.is_first[a]) continue;
            for (int64_t b = 1; b <= n; ++b) {
                if (!modifiers.is_first[b]) continue;
                // The line of a word in between without a value is never written: it adds zero.
                const W* line = weights + between_row(family, heads.value[a], 0,
                                                      modifiers.value[b], rows.dense);
                const int64_t from = (a < b ? a : b) + 1;
                const int64_t to =
                    heads.last[a] > modifiers.last[b] ? heads.last[a] : modifiers.last[b];
                fill_prefix(from, to, line, middle, prefix);
                for (int64_t h = a; h <= n; h = heads.next[h]) {
                    for (int64_t m = b; m <= n; m = modifiers.next[m]) {
                        const Sum<W>* low = prefix + ((h < m ? h : m) + 1) * LINE;
                        const Sum<W>* high = prefix + (h < m ? m : h) * LINE;
                        const int64_t c = keys.combination[n + m - h];
                        out(h, m) += high[first[c]] - low[first[c]];
                        if (second) out(h, m) += high[second[c]] - low[second[c]];
                    }
                }
            }
        }
    }
}

// Fill out(0..n, 1..n) with the scores of all arcs; the diagonal is undefined.
//
// Cost: O(families n^2) gathers, O(K^2 n) vector additions for K distinct values in between.
template<class W>
void score_arcs_sentence(const i32_2& values, int64_t start, int64_t n, const ArcPlan& plan,
                         const W* weights, const RowMap& rows, PairSums<W>& sums, Arena& arena,
                         View2<Sum<W>> out) {
    fill_arc_keys(values, start, n, plan, rows, sums.keys);
    sum_words(n, plan, weights, rows, sums);
    score_pairs(0, n, plan, weights, rows, sums, out);
    add_between(values, start, n, plan, weights, rows, sums.keys, arena, out);
}

}  // namespace gpuparse
