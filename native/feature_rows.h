// Features of two words: keys of values, base rows and codes, and the weight rows of a part.
//
// A feature's row of weights is its base row XOR a code: the base row is found from the words'
// values, the code from direction and distance. The base row of two words is the XOR of one part
// of each, which is hashed once a word.
#pragma once
#include "api/scoring.h"
#include "arena.h"

namespace gpuparse {

constexpr int64_t LINE = 16;      // rows within which all codes of a family lie
constexpr int64_t NO_SIBLING = 0;  // stands for a word that is absent: the root is never one

inline uint32_t fold(uint32_t key, uint32_t value) {
    key = (key ^ value) * 0x9E3779B1u;
    return key ^ (key >> 15);
}

inline uint32_t mix(uint32_t key, uint32_t seed) {
    key ^= seed * 0x85EBCA6Bu;
    key ^= key >> 16;
    key *= 0x7FEB352Du;
    key ^= key >> 15;
    key *= 0x846CA68Bu;
    return key ^ (key >> 16);
}

// Rows of the plan's tables, as gpuparse/features/plan.py has them.
struct Atom { int64_t row, offset; };
struct WordFamily { int64_t role, side, first_codes, second_codes, seed; };
struct PairFamily { int64_t head_side, modifier_side, first_codes, second_codes, seed; };
struct BetweenFamily {
    int64_t head_side, modifier_side, row, n_heads, n_middles, n_modifiers, line;
    int64_t first_codes, second_codes;
};

inline const Atom* atoms_of(const ArcPlan& plan) { return (const Atom*)plan.atoms.data; }
inline const WordFamily* words_of(const ArcPlan& plan) { return (const WordFamily*)plan.word.data; }
inline const PairFamily* pairs_of(const ArcPlan& plan) { return (const PairFamily*)plan.pair.data; }
inline const BetweenFamily* betweens_of(const ArcPlan& plan) {
    return (const BetweenFamily*)plan.between.data;
}
inline const uint32_t* codes_of(const ArcPlan& plan, int64_t table) {
    return plan.codes.data + table * plan.codes.n1;
}

// What is computed once a word of a sentence, for an ArcPlan with S sides and F pair families.
struct ArcKeys {
    int64_t stride;          // nodes a row has room for
    uint32_t* side_key;      // (S, stride)
    uint8_t* side_on;        // (S, stride): every atom of the side has a value
    uint8_t* side_full;      // (S,): on at every word
    uint32_t* head_part;     // (F, stride)
    uint32_t* modifier_part;  // (F, stride)
    int64_t* combination;    // (2 stride,): combination of m - h at m - h + n
};

inline ArcKeys take_arc_keys(const ArcPlan& plan, int64_t n, Arena& arena) {
    int64_t nodes = n + 1, sides = plan.side_start.n0 - 1, families = plan.pair.n0;
    ArcKeys keys;
    keys.stride = nodes;
    keys.side_key = arena.take<uint32_t>(sides * nodes);
    keys.side_on = arena.take<uint8_t>(sides * nodes);
    keys.side_full = arena.take<uint8_t>(sides);
    keys.head_part = arena.take<uint32_t>(families * nodes);
    keys.modifier_part = arena.take<uint32_t>(families * nodes);
    keys.combination = arena.take<int64_t>(2 * nodes);
    return keys;
}

// The base row of a whole key.
inline uint32_t find_base(uint32_t key, const RowMap& rows) {
    if (rows.is_power) return key;
    uint64_t line = ((uint64_t)key * (uint64_t)(rows.rows / LINE)) >> 32;
    return (uint32_t)(line * LINE + (key & (LINE - 1)));
}

// Keys of every side at every node.
inline void fill_sides(const i32_2& values, int64_t start, int64_t n, const ArcPlan& plan,
                       ArcKeys& keys) {
    const Atom* atoms = atoms_of(plan);
    for (int64_t side = 0; side + 1 < plan.side_start.n0; ++side) {
        uint32_t* __restrict key = keys.side_key + side * keys.stride;
        uint8_t* __restrict on = keys.side_on + side * keys.stride;
        for (int64_t i = 0; i <= n; ++i) key[i] = 0, on[i] = 1;
        for (int64_t a = plan.side_start.data[side]; a < plan.side_start.data[side + 1]; ++a) {
            const int32_t* __restrict value =
                values.data + atoms[a].row * values.n1 + start + atoms[a].offset;
            for (int64_t i = 0; i <= n; ++i) {
                key[i] = fold(key[i], (uint32_t)value[i]);
                on[i] &= value[i] != 0;
            }
        }
        uint8_t full = 1;
        for (int64_t i = 1; i <= n; ++i) full &= on[i];
        keys.side_full[side] = full;
    }
}

// Fill all that is computed once a word: sides, parts, and the combination of every m - h.
inline void fill_arc_keys(const i32_2& values, int64_t start, int64_t n, const ArcPlan& plan,
                          const RowMap& rows, ArcKeys& keys) {
    fill_sides(values, start, n, plan, keys);
    const uint32_t mask = (uint32_t)rows.mask;
    for (int64_t f = 0; f < plan.pair.n0; ++f) {
        const PairFamily& family = pairs_of(plan)[f];
        const uint32_t seed = 2 * (uint32_t)family.seed;
        const uint32_t* __restrict head = keys.side_key + family.head_side * keys.stride;
        const uint32_t* __restrict modifier = keys.side_key + family.modifier_side * keys.stride;
        uint32_t* __restrict of_head = keys.head_part + f * keys.stride;
        uint32_t* __restrict of_modifier = keys.modifier_part + f * keys.stride;
        for (int64_t i = 0; i <= n; ++i) of_head[i] = mix(head[i], seed) & mask;
        for (int64_t i = 0; i <= n; ++i) of_modifier[i] = mix(modifier[i], seed + 1) & mask;
    }
    const int64_t last = plan.buckets.n0 - 1;
    for (int64_t distance = 1; distance <= n; ++distance) {
        int64_t bucket = plan.buckets.data[distance - 1 < last ? distance - 1 : last];
        keys.combination[n + distance] = bucket;
        keys.combination[n - distance] = plan.n_buckets + bucket;
    }
    keys.combination[n] = 0;
}

// First row of the dense line of three values, in a family's region of the dense rows.
inline int64_t between_row(const BetweenFamily& family, int64_t head, int64_t middle,
                           int64_t modifier, int64_t dense) {
    if (head >= family.n_heads) head = family.n_heads - 1;
    if (middle >= family.n_middles) middle = family.n_middles - 1;
    if (modifier >= family.n_modifiers) modifier = family.n_modifiers - 1;
    int64_t line = (head * family.n_middles + middle) * family.n_modifiers + modifier;
    return dense + (family.line + line) * LINE;
}

// The value that a between family reads of a word: 0 for no atom, -1 for no value.
inline int64_t between_value(const i32_2& values, int64_t token, int64_t side,
                             const ArcPlan& plan) {
    int64_t a = plan.side_start.data[side];
    if (a == plan.side_start.data[side + 1]) return 0;
    const Atom& atom = atoms_of(plan)[a];
    int64_t value = values.data[atom.row * values.n1 + token + atom.offset];
    return value != 0 ? value : -1;
}

// Append a family's rows, one or two; returns the new count.
inline int64_t put_rows(int64_t base, int64_t first_codes, int64_t second_codes,
                        const ArcPlan& plan, int64_t combination, int64_t* found, int64_t count) {
    found[count++] = base ^ (int64_t)codes_of(plan, first_codes)[combination];
    if (second_codes >= 0)
        found[count++] = base ^ (int64_t)codes_of(plan, second_codes)[combination];
    return count;
}

// Write the weight rows of all features of two words but those of words in between, for the
// combination c of direction and distance; returns how many there are.
inline int64_t pair_rows(int64_t h, int64_t m, int64_t c, const ArcPlan& plan, const RowMap& rows,
                         const ArcKeys& keys, int64_t* found) {
    int64_t count = 0;
    const int64_t stride = keys.stride;
    for (int64_t f = 0; f < plan.word.n0; ++f) {
        const WordFamily& family = words_of(plan)[f];
        const int64_t at = family.side * stride + (family.role ? m : h);
        if (!keys.side_on[at]) continue;
        uint32_t key = mix(keys.side_key[at], 2 * (uint32_t)family.seed) & (uint32_t)rows.mask;
        count = put_rows(find_base(key, rows), family.first_codes, family.second_codes, plan, c,
                         found, count);
    }
    for (int64_t f = 0; f < plan.pair.n0; ++f) {
        const PairFamily& family = pairs_of(plan)[f];
        if (!keys.side_on[family.head_side * stride + h]) continue;
        if (!keys.side_on[family.modifier_side * stride + m]) continue;
        uint32_t key = keys.head_part[f * stride + h] ^ keys.modifier_part[f * stride + m];
        count = put_rows(find_base(key, rows), family.first_codes, family.second_codes, plan, c,
                         found, count);
    }
    return count;
}

// Write the weight rows of every feature of the arc h -> m; returns how many there are. A row is
// repeated as often as it fires. `fill_arc_keys` must have been called for the sentence.
inline int64_t arc_rows(const i32_2& values, int64_t start, int64_t n, int64_t h, int64_t m,
                        const ArcPlan& plan, const RowMap& rows, const ArcKeys& keys,
                        int64_t* found) {
    const int64_t c = keys.combination[n + m - h];
    int64_t count = pair_rows(h, m, c, plan, rows, keys, found);
    const int64_t low = h < m ? h : m, high = h < m ? m : h;
    for (int64_t f = 0; f < plan.between.n0; ++f) {
        const BetweenFamily& family = betweens_of(plan)[f];
        const int64_t head = between_value(values, start + h, family.head_side, plan);
        const int64_t modifier = between_value(values, start + m, family.modifier_side, plan);
        if (head < 0 || modifier < 0) continue;
        for (int64_t k = low + 1; k < high; ++k) {
            const int64_t middle = values.data[family.row * values.n1 + start + k];
            if (middle == 0) continue;
            count = put_rows(between_row(family, head, middle, modifier, rows.dense),
                             family.first_codes, family.second_codes, plan, c, found, count);
        }
    }
    return count;
}

// No arc of a sentence of n words has more rows than this.
inline int64_t max_rows(const ArcPlan& plan, int64_t n) {
    return 2 * (plan.word.n0 + plan.pair.n0 + n * plan.between.n0);
}

}  // namespace gpuparse
