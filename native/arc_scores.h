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

// Sums over the words in between, which wrap where a model's weights are too many and too large.
inline float add(float a, float b) { return a + b; }
inline float subtract(float a, float b) { return a - b; }
inline int32_t add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
inline int32_t subtract(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }

// LINE sums.
template<class W> struct SumVector { typedef int32_t type __attribute__((vector_size(64))); };
template<> struct SumVector<float> { typedef float type __attribute__((vector_size(64))); };

// Load LINE numbers, converted to those of a vector.
template<class W, class Vector>
inline void load_line(const W* numbers, Vector& line) {
    typedef W Numbers __attribute__((vector_size(LINE * sizeof(W))));
    Numbers lanes;
    memcpy(&lanes, numbers, sizeof(lanes));
    line = __builtin_convertvector(lanes, Vector);
}

// Load LINE weights as sums. 8 bits in two steps: g++ converts vectors to four times the width number
// by number.
typedef int16_t Wider __attribute__((vector_size(LINE * sizeof(int16_t))));
template<class W>
inline void load_weights(const W* weights, typename SumVector<W>::type& sums) {
    if constexpr (sizeof(W) == 1) {
        Wider wider;
        load_line(weights, wider);
        sums = __builtin_convertvector(wider, typename SumVector<W>::type);
    } else {
        load_line(weights, sums);
    }
}

// Load the weights line[low ^ 0], line[low ^ 1], ... as sums.
template<class W>
inline void load_permuted(const W* line, uint32_t low, typename SumVector<W>::type& sums) {
    W permuted[LINE];
#ifdef __clang__
    for (uint32_t k = 0; k < LINE; ++k) permuted[k] = line[low ^ k];
#else
    typedef W Weights __attribute__((vector_size(LINE * sizeof(W))));
    Weights lanes, order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    memcpy(&lanes, line, sizeof(lanes));
    lanes = __builtin_shuffle(lanes, order ^ (W)low);
    memcpy(permuted, &lanes, sizeof(lanes));
#endif
    load_weights(permuted, sums);
}

// Hides a row number from the vectoriser: gathers by vector instructions are slower than loads.
inline uint64_t scalar(uint32_t row) {
    asm("" : "+r"(row));
    return row;
}

// Families whose rows are prefetched ahead of the one that is summed. Measured for tables of
// 8 MB: 4 is 20 to 30 % faster than 0, and 3 is 2 % faster than 4.
constexpr int64_t AHEAD = 3;

// Scores the families of one and two words of an ArcPlan in one sentence.
template<class W>
struct PairScorer {
    const ArcPlan& plan;
    const W* weights;
    const RowMap& rows;
    const ArcKeys& keys;
    Sum<W>* word_sum;  // (2, n + 1, LINE): sums of the word families by role, word, combination
    uint32_t* base;    // (AHEAD + 1, n + 1): base rows of one head's arcs, of families in turn;
                       // in the order of on_words if the modifier's side is not on at all words
    uint32_t* code;    // (K, n + 1): codes of one head's arcs

    // Sum the word families. Where memory runs out, the arena has failed.
    PairScorer(const ArcPlan& plan, const W* weights, const RowMap& rows, const ArcKeys& keys,
               Arena& arena)
        : plan(plan), weights(weights), rows(rows), keys(keys),
          word_sum(arena.take_zeros<Sum<W>>(2 * (keys.n + 1) * LINE)),
          base(arena.take<uint32_t>((AHEAD + 1) * (keys.n + 1))),
          code(arena.take<uint32_t>(plan.codes.n0 * (keys.n + 1))) {
        if (arena.failed()) return;
        constexpr bool is_whole = (W)0.5 == 0;
        if constexpr (is_whole)
            sum_words_by_code(arena);
        else
            sum_words();
    }

    // Fill out(h, 1..n) of the heads first..n with the scores of two words each.
    void score(int64_t first_head, View2<Sum<W>> out) const {
        const int64_t n = keys.n, nodes = n + 1;
        Pace pace;
        for (int64_t h = first_head; h <= n && !pace.is_interrupted(2 * n * plan.pair.n0); ++h) {
            const int64_t* combination = keys.combinations + n - h;
            const Sum<W>* of_head = word_sum + h * LINE;
            const Sum<W>* of_modifier = word_sum + nodes * LINE;
            for (int64_t m = 1; m <= n; ++m)
                out(h, m) = of_head[combination[m]] + of_modifier[m * LINE + combination[m]];
            for (int64_t table = 0; table < plan.codes.n0; ++table) {
                const uint32_t* codes = plan.codes.data + table * plan.codes.n1;
                for (int64_t m = 1; m <= n; ++m) code[table * nodes + m] = codes[combination[m]];
            }
            add_pairs(h, &out(h, 0));
        }
    }

    // Sum the features of two nodes for every combination of direction and distance.
    void score_combinations(int64_t h, int64_t m, Sum<W>* out) const {
        const int64_t combinations = plan.codes.n1;
        const Sum<W>* of_head = word_sum + h * LINE;
        const Sum<W>* of_modifier = word_sum + (keys.n + 1 + m) * LINE;
        for (int64_t c = 0; c < combinations; ++c) out[c] = of_head[c] + of_modifier[c];
        visit_pairs(h, m, plan, rows, keys, [&](const PairFamily& family, uint32_t base) {
            visit_codes(plan, family, [&](const uint32_t* codes) {
                for (int64_t c = 0; c < combinations; ++c)
                    out[c] += weights[scalar(base ^ codes[c])];
            });
        });
    }

private:
    // Sum the word families, each combination in the order of the families: float sums depend on it.
    void sum_words() {
        const int64_t combinations = plan.codes.n1;
        for (int64_t f = 0; f < plan.word.n0; ++f) {
            const WordFamily& family = words_of(plan)[f];
            // The root too: it stands for the modifier of an end that is absent.
            for (int64_t i = 0; i <= keys.n; ++i) {
                if (!has_word(family, i, keys)) continue;
                const uint32_t base = word_base(family, i, keys, rows);
                Sum<W>* sum = word_sum + (family.role * (keys.n + 1) + i) * LINE;
                visit_codes(plan, family, [&](const uint32_t* codes) {
                    for (int64_t c = 0; c < combinations; ++c)
                        sum[c] += weights[scalar(base ^ codes[c])];
                });
            }
        }
    }

    // The same sums of whole numbers: whole lines are added for each table of codes, and combinations
    // then pick their codes.
    void sum_words_by_code(Arena& arena) {
        typedef typename SumVector<W>::type Sums;
        const int64_t tables = plan.codes.n0;
        ArenaMark mark(arena);
        Sums* const by_code = (Sums*)arena.take<Sum<W>>(2 * tables * LINE);
        if (!by_code) return;
        for (int64_t i = 0; i <= keys.n; ++i) {
            memset(by_code, 0, 2 * tables * sizeof(Sums));
            for (int64_t f = 0; f < plan.word.n0; ++f) {
                const WordFamily& family = words_of(plan)[f];
                if (!has_word(family, i, keys)) continue;
                const uint32_t base = word_base(family, i, keys, rows), low = base % LINE;
                Sums line;
                load_permuted(weights + (base - low), low, line);
                Sums* const of_role = by_code + family.role * tables;
                of_role[family.first_codes] += line;
                if (family.second_codes >= 0) of_role[family.second_codes] += line;
            }
            for (int64_t role = 0; role < 2; ++role) {
                Sum<W>* sum = word_sum + (role * (keys.n + 1) + i) * LINE;
                for (int64_t table = 0; table < tables; ++table) {
                    const Sum<W>* of_codes = (const Sum<W>*)(by_code + role * tables + table);
                    const uint32_t* codes = plan.codes.data + table * plan.codes.n1;
                    for (int64_t c = 0; c < plan.codes.n1; ++c) sum[c] += of_codes[codes[c]];
                }
            }
        }
    }

    // Find the base rows of a family for the arcs of head h, and prefetch them.
    void find_bases(int64_t f, int64_t h) const {
        const int64_t n = keys.n, stride = keys.stride;
        const PairFamily& family = pairs_of(plan)[f];
        if (!keys.side_on[family.head_side * stride + h]) return;
        const W* const table = weights;
        const uint32_t head = keys.head_part[f * stride + h];
        const uint32_t* __restrict part = keys.modifier_part + f * stride;
        uint32_t* __restrict bases = base + f % (AHEAD + 1) * (n + 1);
        const int64_t count = keys.on_count[family.modifier_side];
        if (count < n) {
            const int32_t* __restrict words = keys.on_words + family.modifier_side * stride;
            for (int64_t k = 0; k < count; ++k) {
                bases[k] = find_base(head ^ part[words[k]], rows);
                __builtin_prefetch(table + scalar(bases[k]), 0, 3);
            }
            return;
        }
        if (rows.is_power) {
            for (int64_t m = 1; m <= n; ++m) bases[m] = head ^ part[m];
        } else {
            for (int64_t m = 1; m <= n; ++m) bases[m] = find_base(head ^ part[m], rows);
        }
#pragma GCC unroll 4
        for (int64_t m = 1; m <= n; ++m) __builtin_prefetch(table + scalar(bases[m]), 0, 3);
    }

    // Add the pair families of head h's arcs to its row of scores.
    void add_pairs(int64_t h, Sum<W>* __restrict out) const {
        const int64_t n = keys.n, nodes = n + 1, families = plan.pair.n0;
        const W* const table = weights;
        for (int64_t f = 0; f < AHEAD && f < families; ++f) find_bases(f, h);
        for (int64_t f = 0; f < families; ++f) {
            if (f + AHEAD < families) find_bases(f + AHEAD, h);
            const PairFamily& family = pairs_of(plan)[f];
            if (!keys.side_on[family.head_side * keys.stride + h]) continue;
            const uint32_t* __restrict bases = base + f % (AHEAD + 1) * nodes;
            const uint32_t* __restrict first = code + family.first_codes * nodes;
            const uint32_t* __restrict second = code + family.second_codes * nodes;
            const int64_t count = keys.on_count[family.modifier_side];
            if (count == n) {
                if (family.second_codes >= 0) {
#pragma GCC unroll 4
                    for (int64_t m = 1; m <= n; ++m) {
                        const Sum<W> one = table[scalar(bases[m] ^ first[m])];
                        out[m] += one + table[scalar(bases[m] ^ second[m])];
                    }
                } else {
                    for (int64_t m = 1; m <= n; ++m) out[m] += table[scalar(bases[m] ^ first[m])];
                }
            } else {
                const int32_t* __restrict words = keys.on_words + family.modifier_side * keys.stride;
                for (int64_t k = 0; k < count; ++k) {
                    const int64_t m = words[k];
                    out[m] += table[scalar(bases[k] ^ first[m])];
                    if (family.second_codes >= 0) out[m] += table[scalar(bases[k] ^ second[m])];
                }
            }
        }
    }
};

// The nodes of one role by the value that a between family reads of them.
struct ValueGroups {
    int64_t* value;     // of each node, -1 for none
    int64_t* next;      // the next node with the same value, or n + 1
    int64_t* is_first;  // whether a node is the first one with its value
    int64_t* last;      // for the first node: the last one with its value

    ValueGroups(int64_t n, Arena& arena)
        : value(arena.take<int64_t>(n + 1)), next(arena.take<int64_t>(n + 1)),
          is_first(arena.take<int64_t>(n + 1)), last(arena.take<int64_t>(n + 1)) {}

    // Chain the nodes from `lowest` on that share a value.
    void fill(const Sentence& sentence, int64_t lowest, int64_t side, const ArcPlan& plan) {
        const int64_t n = sentence.n;
        for (int64_t i = 0; i <= n; ++i) {
            value[i] = between_value(sentence, i, side, plan);
            next[i] = n + 1;
            is_first[i] = value[i] >= 0;
        }
        for (int64_t i = lowest; i <= n; ++i) {
            if (!is_first[i]) continue;
            last[i] = i;
            for (int64_t j = i + 1; j <= n; ++j) {
                if (value[j] != value[i]) continue;
                next[last[i]] = j;
                is_first[j] = 0;
                last[i] = j;
            }
        }
    }
};

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
        for (int64_t c = 0; c < LINE; ++c) at[c] = total[c] = add(total[c], (Sum<W>)line[c]);
    }
}

// Add the between families: running sums for each pair of values of head and modifier.
template<class W>
void add_between(const Sentence& sentence, const ArcPlan& plan, const W* weights,
                 const RowMap& rows, const ArcKeys& keys, Arena& arena, View2<Sum<W>> out) {
    const int64_t n = sentence.n;
    ValueGroups heads(n, arena), modifiers(n, arena);
    int64_t* middle = arena.take<int64_t>(n + 1);
    Sum<W>* prefix = arena.take<Sum<W>>((n + 2) * LINE);
    if (arena.failed()) return;
    Pace pace;
    for (int64_t f = 0; f < plan.between.n0; ++f) {
        const BetweenFamily& family = betweens_of(plan)[f];
        heads.fill(sentence, 0, family.head_side, plan);
        modifiers.fill(sentence, 1, family.modifier_side, plan);
        const int32_t* between = sentence.row(family.row);
        for (int64_t k = 1; k <= n; ++k) {
            int64_t value = between[k] < family.n_middles ? between[k] : family.n_middles - 1;
            middle[k] = value * family.n_modifiers * LINE;
        }
        for (int64_t a = 0; a <= n; ++a) {
            if (pace.is_interrupted(n * n)) return;
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
                        if (h == m) continue;  // no arc, and sums that were not filled
                        const Sum<W>* low = prefix + ((h < m ? h : m) + 1) * LINE;
                        const Sum<W>* high = prefix + (h < m ? m : h) * LINE;
                        const int64_t c = keys.combination(h, m);
                        visit_codes(plan, family, [&](const uint32_t* codes) {
                            out(h, m) = add(out(h, m), subtract(high[codes[c]], low[codes[c]]));
                        });
                    }
                }
            }
        }
    }
}

// Fill out(0..n, 1..n) with the scores of all arcs; the diagonal is undefined. keys: of the plan.
//
// Cost: O(families n^2) gathers, O(K^2 n) vector additions for K distinct values in between.
template<class W>
void score_arcs(const Sentence& sentence, const ArcPlan& plan, const W* weights, const RowMap& rows,
                const ArcKeys& keys, Arena& arena, View2<Sum<W>> out) {
    if (plan.word.n0 + plan.pair.n0 + plan.between.n0 == 0) {  // arcs are scored by vectors alone
        for (int64_t h = 0; h <= keys.n; ++h)
            for (int64_t m = 1; m <= keys.n; ++m) out(h, m) = 0;
        return;
    }
    const PairScorer<W> pairs(plan, weights, rows, keys, arena);
    if (arena.failed()) return;
    pairs.score(0, out);
    add_between(sentence, plan, weights, rows, keys, arena, out);
}

}  // namespace gpuparse
