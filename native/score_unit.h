// From scores in whole numbers of a network to what they add to those of templates.
#pragma once
#include "dots.h"

namespace gpuparse {

constexpr int64_t MOST_POINTS = (1 << 28) - 1;  // that are added to a score

// 1/2 before a shift to the right that rounds to the nearest, half up; 0 if no shift is as large.
inline int64_t half_of(int64_t shift) { return shift > 0 && shift < 63 ? (int64_t)1 << (shift - 1) : 0; }

// From scores of vectors to what they add to other scores.
struct ScoreUnit {
    int64_t multiplier, shift, half;

    ScoreUnit(int64_t multiplier_of, int64_t shift_of)
        : multiplier(multiplier_of), shift(shift_of), half(half_of(shift_of)) {}

    int32_t points(int32_t score) const {
        const int64_t found = ((int64_t)score * multiplier + half) >> shift;
        const int64_t high = found < MOST_POINTS ? found : MOST_POINTS;
        return (int32_t)(high > -MOST_POINTS ? high : -MOST_POINTS);
    }

    template<class S>
    void convert_all(const int32_t* __restrict scores, int64_t count, S* __restrict converted) const {
        int64_t k = 0;
        if constexpr (sizeof(converted[0]) == sizeof(int32_t) && (S)0.5 == 0)
            for (; k + Lanes<int32_t>::count <= count; k += Lanes<int32_t>::count)
                store(converted + k, scaled(load(scores + k), (int32_t)multiplier, half, shift, MOST_POINTS));
        for (; k < count; ++k) converted[k] = (S)points(scores[k]);
    }
};

}  // namespace gpuparse
