// Dense scores of a batch, as the functions of the C interface get them, and those of a sentence.
#pragma once

#include <math.h>

#include "arena.h"
#include "sibling_provider.h"
#include "views.h"

namespace gpuparse {

// Call `function` with a null pointer of the type of the scores; BAD_TYPE for other types than floats.
template <class Function>
inline int64_t of_float_type(int64_t dtype, Function function) {
    if (dtype == DT_F64) return function((const double*)nullptr);
    if (dtype == DT_F32) return function((const float*)nullptr);
    return BAD_TYPE;
}

// Call search(b, n, arena) for each sentence b of n words. Returns a status.
template <class Search>
inline int64_t for_sentences(i64_1 lengths, Search search) {
    Arena arena;
    for (int64_t b = 0; b < lengths.n0; b++) {
        if (is_interrupted(100 * lengths.data[b])) return NO_MEMORY;
        search(b, lengths.data[b], arena);
        if (arena.failed()) return NO_MEMORY;
    }
    return OK;
}

// The scores (N, N) of sentence b of (B, N, N).
template <class F, class Array>
inline View2<const F> scores_of_sentence(const Array& scores, int64_t b) {
    return {static_cast<const F*>(scores.data) + b * scores.n1 * scores.n2, scores.n2};
}

// The sibling scores (N, N, N) and ends (N, N) of sentence b; sibling scores have B N rows (N, N).
template <class F, class Array>
inline DenseSiblings<F> siblings_of_sentence(const Array& sibling, const Array& end, int64_t b) {
    const int64_t nodes = sibling.n1;
    const F* scores = static_cast<const F*>(sibling.data) + b * nodes * nodes * nodes;
    return {{scores, nodes * nodes, nodes}, scores_of_sentence<F>(end, b)};
}

// True if lengths are (B,) numbers of words from 0 to N - 1.
inline bool lengths_fit(i64_1 lengths, int64_t n_batch, int64_t nodes) {
    if (lengths.n0 != n_batch) return false;
    for (int64_t b = 0; b < n_batch; b++)
        if (lengths.data[b] < 0 || lengths.data[b] >= nodes) return false;
    return true;
}

// True if scores are (B, N, N), and lengths fit them.
template <class Array>
inline bool scores_fit(const Array& scores, i64_1 lengths) {
    return scores.n1 == scores.n2 && lengths_fit(lengths, scores.n0, scores.n1);
}

// True if sibling and end scores fit those of arcs.
template <class Array>
inline bool siblings_fit(const Array& arc, const Array& sibling, const Array& end) {
    return sibling.n0 == arc.n0 * arc.n1 && sibling.n1 == arc.n1 && sibling.n2 == arc.n1 &&
           end.n0 == arc.n0 && end.n1 == arc.n1 && end.n2 == arc.n1;
}

}  // namespace gpuparse
