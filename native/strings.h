// Strings to numbers from 0: an open-addressing hash table over bytes. Hashes only choose the place to
// look; equality is of bytes.
#pragma once

#include "api/conll.h"
#include "bytes.h"
#include "views.h"

namespace gpuparse {

constexpr int32_t EMPTY_SLOT = -1;

// The product of two numbers, its halves folded together.
inline uint64_t fold_product(uint64_t a, uint64_t b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// 64-bit hash under a key: eight bytes at a time, multiplied and folded, the length first. The constants
// are those of MurmurHash3's 64-bit finaliser (Appleby 2008).
inline uint64_t hash_bytes(Slice text, int64_t key) {
    const uint64_t factor = ((uint64_t)key ^ 0xFF51AFD7ED558CCDu) | 1;
    uint64_t mixed = (uint64_t)text.size() ^ (uint64_t)key, part = 0;
    const uint8_t* at = text.start;
    for (; text.end - at >= 8; at += 8) {
        memcpy(&part, at, 8);
        mixed = fold_product(mixed ^ part, factor);
    }
    part = 0;
    for (; at < text.end; ++at) part = part << 8 | *at;
    return fold_product(mixed ^ part, 0xC4CEB9FE1A85EC53u);
}

// The slot of a string, or the empty one where it belongs (linear probing); -1 where the table is not
// one. A slot is written after all that it refers to, so that one thread can search while another adds.
inline int64_t find_slot(Slice text, uint64_t hashed, const StringTable& table) {
    const uint64_t mask = (uint64_t)table.slots.n0 - 1;
    uint64_t slot = hashed & mask;
    for (int64_t turn = 0; turn < table.slots.n0; ++turn, slot = (slot + 1) & mask) {
        const int32_t i = __atomic_load_n(table.slots.data + slot, __ATOMIC_ACQUIRE);
        if (i == EMPTY_SLOT) return (int64_t)slot;
        if (!is_between(0, i, table.hashes.n0)) return -1;
        const int64_t known = table.ends.data[i];
        if (table.hashes.data[i] == hashed && table.ends.data[i + 1] - known == text.size() &&
            is_between(0, known, table.pool.n0 - text.size() + 1) &&
            memcmp(table.pool.data + known, text.start, (size_t)text.size()) == 0)
            return (int64_t)slot;
    }
    return -1;
}

// Do the strings lie in the data?
inline bool strings_fit(u8_1 data, i64_1 starts, i64_1 stops) {
    if (starts.n0 != stops.n0) return false;
    bool fit = true;
    for (int64_t k = 0; k < starts.n0; ++k)
        fit &= (starts.data[k] >= 0) & (starts.data[k] <= stops.data[k]) & (stops.data[k] <= data.n0);
    return fit;
}

inline bool table_fits(const StringTable& table) {
    int64_t n_slots = table.slots.n0;
    return n_slots > 0 && (n_slots & (n_slots - 1)) == 0 && table.hashes.n0 < n_slots &&
           table.ends.n0 == table.hashes.n0 + 1;
}

}  // namespace gpuparse
