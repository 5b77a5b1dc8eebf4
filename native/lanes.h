// Vectors of the length that this machine has, by the vector extensions of g++ and clang.
//
// Results must not depend on the length: vectorise over cells, never sum over the lanes.
// Loads may reach beyond the last cell: arrays have room for one more vector there.
#pragma once

#include <stdint.h>
#include <string.h>

namespace gpuparse {

#if defined(__AVX512F__)
enum : int64_t { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum : int64_t { VECTOR_BYTES = 32 };
#else
enum : int64_t { VECTOR_BYTES = 16 };
#endif

// One vector of numbers of type F.
template <class F>
struct Lanes {
    typedef F type __attribute__((vector_size(VECTOR_BYTES)));
    static constexpr int64_t count = VECTOR_BYTES / static_cast<int64_t>(sizeof(F));
};

template <class F>
using Vector = typename Lanes<F>::type;

template <class F>
inline Vector<F> load(const F* from) {
    Vector<F> vector;
    memcpy(&vector, from, sizeof vector);
    return vector;
}

template <class F>
inline void store(F* to, Vector<F> vector) {
    memcpy(to, &vector, sizeof vector);
}

// The vector with this number in every lane.
template <class F>
inline Vector<F> splat(F number) {
    return number - Vector<F>{};
}

// Lane k of the result is lane k + `lanes` of the vector, modulo their number, a power of two.
template <class V>
inline V turned_lanes(V vector, int64_t lanes) {
    const int64_t count = (int64_t)(sizeof(V) / sizeof(vector[0]));
    V result;
    for (int64_t k = 0; k < count; k++) result[k] = vector[(k + lanes) & (count - 1)];
    return result;
}

// All bits set in the lanes of the cells from <= j + lane < to.
inline Vector<int64_t> lanes_between(int64_t j, int64_t from, int64_t to) {
    Vector<int64_t> cell;
    for (int64_t k = 0; k < Lanes<int64_t>::count; k++) cell[k] = k;
    cell += splat(j);
    return (cell >= splat(from)) & (cell < splat(to));
}

// A number of cells rounded up to whole cache lines of 64 bytes, the longest vectors.
template <class F>
inline int64_t whole_lines(int64_t count) {
    const int64_t line = 64 / static_cast<int64_t>(sizeof(F));
    return (count + line - 1) / line * line;
}

}  // namespace gpuparse
