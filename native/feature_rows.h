// Features of two words: keys of values, base rows and codes, and the weight rows of a part.
//
// A feature's row of weights is its base row XOR a code: the base row is found from the words'
// values, the code from direction and distance. The base row of two words is the XOR of one part
// of each, which is hashed once per word.
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

struct SentenceVectors;

// A sentence of a batch: its number, the token of its root, and its words.
struct Sentence {
    const i32_2& values;
    int64_t b, start, n;
    SentenceVectors* vectors = nullptr;  // if they are found already

    // A field's values by node.
    const int32_t* row(int64_t r) const { return values.data + r * values.n1 + start; }
};

// Rows of the plan's tables, as gpuparse/features/plan.py has them.
struct Atom { int64_t row, offset; };
struct WordFamily { int64_t role, side, first_codes, second_codes, seed; };
struct PairFamily { int64_t head_side, modifier_side, first_codes, second_codes, seed; };
struct BetweenFamily {
    int64_t head_side, modifier_side, row, n_heads, n_middles, n_modifiers, line;
    int64_t first_codes, second_codes;
};

inline const Atom* atoms_of(const i64_2& atoms) { return (const Atom*)atoms.data; }
inline const WordFamily* words_of(const ArcPlan& plan) { return (const WordFamily*)plan.word.data; }
inline const PairFamily* pairs_of(const ArcPlan& plan) { return (const PairFamily*)plan.pair.data; }
inline const BetweenFamily* betweens_of(const ArcPlan& plan) {
    return (const BetweenFamily*)plan.between.data;
}

// Call visit(codes) for the code tables of a family, one or two.
template<class Family, class Visit>
inline void visit_codes(const ArcPlan& plan, const Family& family, Visit visit) {
    visit(plan.codes.data + family.first_codes * plan.codes.n1);
    if (family.second_codes >= 0) visit(plan.codes.data + family.second_codes * plan.codes.n1);
}

// Values computed once for each word of a sentence, for an ArcPlan with S sides and F pair families.
struct ArcKeys {
    int64_t n, stride;       // words; nodes a row has room for
    uint32_t* side_key;      // (S, stride)
    uint8_t* side_on;        // (S, stride): every atom of the side has a value
    int64_t* on_count;       // (S,): words at which the side is on
    int32_t* on_words;       // (S, stride): those words, ascending
    uint32_t* head_part;     // (F, stride)
    uint32_t* modifier_part;  // (F, stride)
    int64_t* combinations;   // (2 stride,): combination of m - h at m - h + n

    int64_t combination(int64_t h, int64_t m) const { return combinations[n + m - h]; }
};

// The base row of a whole key.
inline uint32_t find_base(uint32_t key, const RowMap& rows) {
    if (rows.is_power) return key;
    uint64_t line = ((uint64_t)key * (uint64_t)(rows.rows / LINE)) >> 32;
    return (uint32_t)(line * LINE + (key & (LINE - 1)));
}

// The key of some atoms at every node, and whether all have a value there. absent: whether node 0
// stands for an absent word, beside which there is no word.
inline void fill_side(const Sentence& sentence, const Atom* atom, const Atom* end, bool absent,
                      uint32_t* __restrict key, uint8_t* __restrict on) {
    const int64_t n = sentence.n;
    for (int64_t i = 0; i <= n; ++i) key[i] = 0, on[i] = 1;
    for (; atom < end; ++atom) {
        const int32_t* __restrict value = sentence.row(atom->row) + atom->offset;
        for (int64_t i = 0; i <= n; ++i) {
            key[i] = fold(key[i], (uint32_t)value[i]);
            on[i] &= value[i] != 0;
        }
        if (absent && atom->offset != 0) on[0] = 0;
    }
}

// Compute all that is computed once per word. absent: as `fill_side` has it, of heads that are inner
// siblings. Where memory runs out, the arena has failed.
inline ArcKeys fill_arc_keys(const Sentence& sentence, const ArcPlan& plan, const RowMap& rows,
                             Arena& arena, bool absent = false) {
    const int64_t n = sentence.n, nodes = n + 1, sides = plan.side_start.n0 - 1;
    const int64_t families = plan.pair.n0;
    const ArcKeys keys{n, nodes, arena.take<uint32_t>(sides * nodes),
                       arena.take<uint8_t>(sides * nodes), arena.take<int64_t>(sides),
                       arena.take<int32_t>(sides * nodes), arena.take<uint32_t>(families * nodes),
                       arena.take<uint32_t>(families * nodes), arena.take<int64_t>(2 * nodes)};
    if (arena.failed()) return keys;
    const Atom* atoms = atoms_of(plan.atoms);
    for (int64_t side = 0; side < sides; ++side) {
        const uint8_t* on = keys.side_on + side * nodes;
        fill_side(sentence, atoms + plan.side_start.data[side],
                  atoms + plan.side_start.data[side + 1], absent, keys.side_key + side * nodes,
                  keys.side_on + side * nodes);
        int32_t* __restrict words = keys.on_words + side * nodes;
        int64_t count = 0;
        for (int64_t i = 1; i <= n; ++i) words[count] = (int32_t)i, count += on[i];
        keys.on_count[side] = count;
    }
    const uint32_t mask = (uint32_t)rows.mask;
    for (int64_t f = 0; f < families; ++f) {
        const PairFamily& family = pairs_of(plan)[f];
        const uint32_t seed = 2 * (uint32_t)family.seed;
        const uint32_t* __restrict head = keys.side_key + family.head_side * nodes;
        const uint32_t* __restrict modifier = keys.side_key + family.modifier_side * nodes;
        uint32_t* __restrict of_head = keys.head_part + f * nodes;
        uint32_t* __restrict of_modifier = keys.modifier_part + f * nodes;
        for (int64_t i = 0; i <= n; ++i) of_head[i] = mix(head[i], seed) & mask;
        for (int64_t i = 0; i <= n; ++i) of_modifier[i] = mix(modifier[i], seed + 1) & mask;
    }
    const int64_t last = plan.buckets.n0 - 1;
    for (int64_t distance = 1; distance <= n; ++distance) {
        int64_t bucket = plan.buckets.data[distance - 1 < last ? distance - 1 : last];
        keys.combinations[n + distance] = bucket;
        keys.combinations[n - distance] = plan.n_buckets + bucket;
    }
    keys.combinations[n] = 0;
    return keys;
}

// True if a family of one word fires at node i, and its base row there.
inline bool has_word(const WordFamily& family, int64_t i, const ArcKeys& keys) {
    return keys.side_on[family.side * keys.stride + i];
}
inline uint32_t word_base(const WordFamily& family, int64_t i, const ArcKeys& keys,
                          const RowMap& rows) {
    const uint32_t key = keys.side_key[family.side * keys.stride + i];
    return find_base(mix(key, 2 * (uint32_t)family.seed) & (uint32_t)rows.mask, rows);
}

// Call visit(family, base) for each family of two words that fires at h and m, and skip(family) for
// each that does not.
template<class Visit, class Skip>
inline void visit_pairs(int64_t h, int64_t m, const ArcPlan& plan, const RowMap& rows,
                        const ArcKeys& keys, Visit visit, Skip skip) {
    const int64_t stride = keys.stride;
    for (int64_t f = 0; f < plan.pair.n0; ++f) {
        const PairFamily& family = pairs_of(plan)[f];
        if (!keys.side_on[family.head_side * stride + h] ||
            !keys.side_on[family.modifier_side * stride + m]) {
            skip(family);
            continue;
        }
        visit(family, find_base(keys.head_part[f * stride + h] ^ keys.modifier_part[f * stride + m],
                                rows));
    }
}
template<class Visit>
inline void visit_pairs(int64_t h, int64_t m, const ArcPlan& plan, const RowMap& rows,
                        const ArcKeys& keys, Visit visit) {
    visit_pairs(h, m, plan, rows, keys, visit, [](const PairFamily&) {});
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

// The value that a between family reads at node i: 0 for no atom, -1 for no value.
inline int64_t between_value(const Sentence& sentence, int64_t i, int64_t side,
                             const ArcPlan& plan) {
    int64_t a = plan.side_start.data[side];
    if (a == plan.side_start.data[side + 1]) return 0;
    const Atom& atom = atoms_of(plan.atoms)[a];
    int64_t value = sentence.row(atom.row)[i + atom.offset];
    return value != 0 ? value : -1;
}

// Weight rows of one part, being written; a row is repeated as often as it fires. The end is a pointer:
// rows, which are numbers, cannot overwrite it, and the compiler keeps it in a register.
struct RowList {
    int64_t* rows;
    int64_t* end = rows;

    int64_t count() const { return end - rows; }

    // Append a family's rows for the combination c of direction and distance.
    template<class Family>
    void add(const ArcPlan& plan, const Family& family, int64_t base, int64_t c) {
        visit_codes(plan, family, [&](const uint32_t* codes) { *end++ = base ^ (int64_t)codes[c]; });
    }

    // Nothing is left of a family, or one feature, that does not fire.
    template<class Family>
    void skip(const ArcPlan&, const Family&, int64_t = 1) {}
    void skip_one() {}
};

// The same with -1 in the place of each feature that does not fire, so that a row's place says of
// which template it is.
struct PlacedRows : RowList {
    template<class Family>
    void skip(const ArcPlan& plan, const Family& family, int64_t times = 1) {
        for (; times > 0; --times) visit_codes(plan, family, [&](const uint32_t*) { skip_one(); });
    }
    void skip_one() { *end++ = -1; }
};

// Append the rows of all features of two words but those of words in between, for the combination c
// of direction and distance. Rows, here and below: RowList, or PlacedRows.
template<class Rows>
inline void add_pair_rows(int64_t h, int64_t m, int64_t c, const ArcPlan& plan, const RowMap& rows,
                          const ArcKeys& keys, Rows& found) {
    for (int64_t f = 0; f < plan.word.n0; ++f) {
        const WordFamily& family = words_of(plan)[f];
        const int64_t i = family.role ? m : h;
        if (has_word(family, i, keys))
            found.add(plan, family, word_base(family, i, keys, rows), c);
        else
            found.skip(plan, family);
    }
    visit_pairs(
        h, m, plan, rows, keys,
        [&](const PairFamily& family, uint32_t base) { found.add(plan, family, base, c); },
        [&](const PairFamily& family) { found.skip(plan, family); });
}

// The same where none fires.
template<class Rows>
inline void skip_pair_rows(const ArcPlan& plan, Rows& found) {
    for (int64_t f = 0; f < plan.word.n0; ++f) found.skip(plan, words_of(plan)[f]);
    for (int64_t f = 0; f < plan.pair.n0; ++f) found.skip(plan, pairs_of(plan)[f]);
}

// Append the rows of every feature of the arc h -> m; those of words in between from left to right.
template<class Rows>
inline void add_arc_rows(const Sentence& sentence, int64_t h, int64_t m, const ArcPlan& plan,
                         const RowMap& rows, const ArcKeys& keys, Rows& found) {
    const int64_t c = keys.combination(h, m);
    add_pair_rows(h, m, c, plan, rows, keys, found);
    const int64_t low = h < m ? h : m, high = h < m ? m : h;
    for (int64_t f = 0; f < plan.between.n0; ++f) {
        const BetweenFamily& family = betweens_of(plan)[f];
        const int64_t head = between_value(sentence, h, family.head_side, plan);
        const int64_t modifier = between_value(sentence, m, family.modifier_side, plan);
        if (head < 0 || modifier < 0) {
            found.skip(plan, family, high - low - 1);
            continue;
        }
        const int32_t* middle = sentence.row(family.row);
        for (int64_t k = low + 1; k < high; ++k) {
            if (middle[k] != 0)
                found.add(plan, family,
                          between_row(family, head, middle[k], modifier, rows.dense), c);
            else
                found.skip(plan, family);
        }
    }
}

// No arc of a sentence of n words has more rows than this.
inline int64_t max_rows(const ArcPlan& plan, int64_t n) {
    return 2 * (plan.word.n0 + plan.pair.n0 + n * plan.between.n0);
}

}  // namespace gpuparse
