// Features of sequences: hashes of the values of fields around each position.
#pragma once

#include "api/sequences.h"
#include "arena.h"
#include "views.h"

namespace gpuparse {

constexpr int64_t FEATURE_LANES = 16;  // positions whose features are computed together
typedef uint32_t FeatureVector __attribute__((vector_size(FEATURE_LANES * sizeof(uint32_t))));

inline bool templates_fit(const SequenceTemplates& templates, const u32_2& values, const i64_1& places) {
    if (templates.starts.n0 != templates.keys.n0 + 1 || !are_starts(templates.starts, templates.atoms.n0) ||
        !are_between(0, templates.atoms, templates.reads.n0) || (templates.reads.n0 && templates.reads.n1 != 2))
        return false;
    int64_t least = 0, most = 0;
    for (int64_t r = 0; r < templates.reads.n0; ++r) {
        const int64_t* read = templates.reads.data + 2 * r;
        if (!is_between(0, read[0], values.n0) || !is_between(-values.n1, read[1], values.n1 + 1)) return false;
        least = read[1] < least ? read[1] : least;
        most = read[1] > most ? read[1] : most;
    }
    return are_between(-least, places, values.n1 - most);
}

// Writes `features` (N, T); `read` has room for a block of values of each (field, offset).
inline void write_features(const SequenceTemplates& templates, const u32_2& values, const i64_1& places,
                           uint32_t* features, uint32_t* read) {
    constexpr int64_t L = FEATURE_LANES;
    const int64_t width = templates.keys.n0;
    for (int64_t i = 0; i < places.n0; i += L) {
        const int64_t n = places.n0 - i < L ? places.n0 - i : L;
        for (int64_t r = 0; r < templates.reads.n0; ++r) {
            const int64_t* from = templates.reads.data + 2 * r;
            const uint32_t* field = values.data + from[0] * values.n1 + from[1];
            for (int64_t l = 0; l < n; ++l) read[r * L + l] = field[places.data[i + l]];
            for (int64_t l = n; l < L; ++l) read[r * L + l] = 0;
        }
        for (int64_t t = 0; t < width; ++t) {
            FeatureVector keys = templates.keys.data[t] - FeatureVector{}, present = ~FeatureVector{};
            for (int64_t a = templates.starts.data[t]; a < templates.starts.data[t + 1]; ++a) {
                FeatureVector value;
                memcpy(&value, read + templates.atoms.data[a] * L, sizeof value);
                keys = (keys ^ value) * 0x85EBCA6Bu;
                keys = (keys ^ (keys >> 13)) * 0xC2B2AE35u;
                keys ^= keys >> 16;
                present &= (FeatureVector)(value != 0);
            }
            keys += (FeatureVector)(keys == 0) & 1;
            keys &= present;
            uint32_t found[L];
            memcpy(found, &keys, sizeof found);
            for (int64_t l = 0; l < n; ++l) features[(i + l) * width + t] = found[l];
        }
    }
}

}  // namespace gpuparse
