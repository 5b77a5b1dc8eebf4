// Random numbers that are counted, not kept (splitmix64: Steele, Lea & Flood 2014): number t of sample
// k of a sentence is a hash of the sentence's seed, k and t, and depends on nothing else.
#pragma once

#include <stdint.h>

namespace gpuparse {

class Random {
public:
    explicit Random(uint64_t state) : state_(state) {}
    // At the beginning of sample k.
    Random(int64_t seed, int64_t k) : Random(mixed(mixed((uint64_t)seed) + (uint64_t)k * GAMMA)) {}

    // The next number of [0, 1).
    double next() {
        state_ += GAMMA;
        return (double)(mixed(state_) >> 11) * 0x1p-53;
    }

    static uint64_t mixed(uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }

private:
    static constexpr uint64_t GAMMA = 0x9E3779B97F4A7C15;

    uint64_t state_;
};

}  // namespace gpuparse
