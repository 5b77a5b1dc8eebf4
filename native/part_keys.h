// Keys of the words of parts of three and four words, and the weight rows of a part.
//
// The feature of a template for a part is a hash: the XOR of one number for each word of the part,
// which is hashed once per word. A part of four words then costs three XORs, and one row per template.
#pragma once
#include "feature_rows.h"
#include "part_provider.h"

namespace gpuparse {

constexpr uint32_t PART_SEED = 1u << 16;  // families of arcs and siblings have smaller ones
constexpr uint32_t RIGHT_HASH = 0x5BD1E995u, BELOW_HASH = 0xB5297A4Du;

// Hash every word of a sentence for every template of a plan. The arena has failed where memory runs
// out.
inline PartKeys fill_part_keys(const Sentence& sentence, const HigherPlan& plan, Arena& arena) {
    const int64_t n = sentence.n, nodes = n + 1, sides = plan.side_start.n0 - 1;
    const int64_t terms = plan.sides.n0;
    uint32_t* side_key = arena.take<uint32_t>(sides * nodes);
    uint8_t* side_on = arena.take<uint8_t>(sides * nodes);
    uint32_t* words = arena.take<uint32_t>(terms * PART_WORDS * nodes);
    uint8_t* on = arena.take<uint8_t>(terms * PART_WORDS * nodes);
    uint32_t* right = arena.take<uint32_t>(terms);
    uint32_t* below = arena.take<uint32_t>(terms);
    PartKeys keys{plan.family_start.data, nodes, words, on, right, below};
    if (arena.failed()) return keys;
    const Atom* atoms = atoms_of(plan.atoms);
    for (int64_t side = 0; side < sides; ++side)
        fill_side(sentence, atoms + plan.side_start.data[side],
                  atoms + plan.side_start.data[side + 1], true, side_key + side * nodes,
                  side_on + side * nodes);
    for (int64_t term = 0; term < terms; ++term) {
        right[term] = plan.with_direction.data[term] ? RIGHT_HASH : 0;
        below[term] = plan.with_direction.data[term] ? BELOW_HASH : 0;
        for (int64_t position = 0; position < PART_WORDS; ++position) {
            const int64_t side = plan.sides.data[term * PART_WORDS + position];
            const int64_t at = (term * PART_WORDS + position) * nodes;
            const uint32_t seed = PART_SEED + (uint32_t)(PART_WORDS * term + position);
            const uint32_t* __restrict key = side_key + side * nodes;
            uint32_t* __restrict word = words + at;
            // Side 0 reads nothing of a word that may be absent: it adds nothing to the XOR.
            if (side > 0)
                for (int64_t i = 0; i <= n; ++i) word[i] = mix(key[i], seed);
            else
                memset(word, 0, (size_t)nodes * sizeof(uint32_t));
            memcpy(on + at, side_on + side * nodes, (size_t)nodes);
        }
    }
    return keys;
}

// Append the weight rows of every feature of a part. words: PART_WORDS words in the order of the kind's
// roles, ABSENT_WORD for absent ones and beyond the last role.
template<class Rows>
inline void add_part_rows(int64_t kind, const int64_t* words, const PartKeys& keys, int64_t cells,
                          Rows& found) {
    const int64_t h = words[HEAD_POSITION[kind]], m = words[MODIFIER_POSITION[kind]];
    const bool is_right = h < m, is_below = HEAD_POSITION[kind] == 1 && words[0] < h;
    for (int64_t term = keys.first[kind]; term < keys.first[kind + 1]; ++term) {
        uint32_t key = 0;
        bool on = true;
        for (int64_t position = 0; position < PART_WORDS; ++position) {
            on &= keys.is_on(term, position)[words[position]] != 0;
            key ^= keys.word(term, position)[words[position]];
        }
        if (!on) {
            found.skip_one();
            continue;
        }
        if (is_right) key ^= keys.right[term];
        if (is_below) key ^= keys.below[term];
        *found.end++ = (int64_t)cell_of(key, cells);
    }
}

// No part has more rows than this.
inline int64_t max_part_rows(const HigherPlan& plan) {
    int64_t most = 0;
    for (int64_t k = 0; k + 1 < plan.family_start.n0; ++k) {
        const int64_t terms = plan.family_start.data[k + 1] - plan.family_start.data[k];
        if (terms > most) most = terms;
    }
    return most;
}

}  // namespace gpuparse
