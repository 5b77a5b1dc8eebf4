// Kinds of parts of three and four words, in the order of the plan's tables (gpuparse/data/parts.py).
#pragma once
#include <stdint.h>

namespace gpuparse {

enum HigherKind {
    GRANDPARENT, GRAND_SIBLING, TRI_SIBLING, HEAD_CHILD, INNER_GRANDCHILD, OUTER_GRANDCHILD,
    HIGHER_KINDS
};
constexpr int32_t ABSENT_WORD = 0;  // stands for a sibling, child or grandparent that is not there
constexpr int64_t PART_WORDS = 4;   // most words of a part
// The places of h and m among the words of a part, in the order of the kind's roles.
constexpr int64_t HEAD_POSITION[HIGHER_KINDS] = {1, 1, 0, 0, 0, 0};
constexpr int64_t MODIFIER_POSITION[HIGHER_KINDS] = {2, 3, 3, 1, 1, 1};

}  // namespace gpuparse
