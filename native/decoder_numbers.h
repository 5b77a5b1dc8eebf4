// The numbers of decoders.
#pragma once

#include <stdint.h>

namespace gpuparse {

// In the order of the table in gpuparse/inference/decoders.py.
enum DecoderNumber : int64_t {
    BY_EISNER,
    BY_CHU_LIU_EDMONDS,
    BY_EISNER_SIBLING,
    BY_HILL_CLIMB,
    BY_MULTI_PARENT,
    BY_EISNER_GRANDCHILD,
    BY_EISNER_GRAND_SIBLING,
    BY_EISNER_TRI_SIBLING,
    BY_DUAL_DECOMPOSITION
};

// True if a decoder has k best trees, sums and random trees; these are the first ones.
inline bool has_sums(int64_t decoder) {
    return BY_EISNER <= decoder && decoder <= BY_EISNER_SIBLING;
}

// True if a decoder reads parts of three or four words; these are the last ones.
inline bool is_higher_order(int64_t decoder) {
    return BY_EISNER_GRANDCHILD <= decoder && decoder <= BY_DUAL_DECOMPOSITION;
}

}  // namespace gpuparse
