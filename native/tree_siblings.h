// Siblings in a tree given by heads.
#pragma once
#include <stdint.h>

namespace gpuparse {

// The modifier of m's head just inside m; the head itself if there is none.
inline int64_t inner_sibling_of(const int64_t* heads, int64_t m) {
    const int64_t h = heads[m], step = h > m ? 1 : -1;
    int64_t s = m + step;
    while (s != h && heads[s] != h) s += step;
    return s;
}

// Whether m's head has no modifier beyond m.
inline bool is_outermost_modifier(const int64_t* heads, int64_t n, int64_t m) {
    const int64_t step = heads[m] < m ? 1 : -1;
    int64_t o = m + step;
    while (1 <= o && o <= n && heads[o] != heads[m]) o += step;
    return !(1 <= o && o <= n);
}

}  // namespace gpuparse
