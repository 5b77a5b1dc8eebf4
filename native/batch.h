// The sentences of a batch one after another, checks of a call's arguments, the type of the weights.
#pragma once
#include "api/parsing.h"
#include "feature_rows.h"

namespace gpuparse {

constexpr int64_t NO_FAILURE = -1;  // every sentence has a tree

// Call visit(sentence, arena) for every sentence; what it takes of the arena is given back. Returns the
// number of the first sentence for which it returns false, NO_FAILURE, or NO_MEMORY, also where the call is to end.
template<class Visit>
int64_t for_sentences(const Sentences& sentences, Visit visit) {
    Arena arena;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        ArenaMark mark(arena);
        if (is_interrupted(100 * sentences.lengths.data[b])) return NO_MEMORY;
        const bool is_done = visit(Sentence{sentences.values, b, sentences.starts.data[b],
                                            sentences.lengths.data[b]}, arena);
        if (arena.failed()) return NO_MEMORY;
        if (!is_done) return b;
    }
    return NO_FAILURE;
}

inline bool are_by_token(const Sentences& sentences, int64_t size) {
    return size == sentences.values.n1;
}

// True if heads[1..n] are nodes of the sentence; -1 only where `may_lack`.
inline bool are_heads(const int64_t* heads, int64_t n, bool may_lack) {
    for (int64_t m = 1; m <= n; m++)
        if (heads[m] < (may_lack ? -1 : 0) || heads[m] > n || heads[m] == m) return false;
    return true;
}
inline bool are_heads(const Sentences& sentences, const i64_1& heads, bool may_lack) {
    if (!are_by_token(sentences, heads.n0)) return false;
    for (int64_t b = 0; b < sentences.starts.n0; b++)
        if (!are_heads(heads.data + sentences.starts.data[b], sentences.lengths.data[b], may_lack))
            return false;
    return true;
}

// True if `size` cells have those of all arcs between `nodes` nodes from `first` on.
inline bool is_square(int64_t first, int64_t nodes, int64_t size) {
    return first >= 0 && first <= size && nodes * nodes <= size - first;
}
// The same for all sentences; firsts: by token, of the roots.
inline bool squares_fit(const Sentences& sentences, const i64_1& firsts, int64_t size) {
    if (!are_by_token(sentences, firsts.n0)) return false;
    for (int64_t b = 0; b < sentences.starts.n0; b++)
        if (!is_square(firsts.data[sentences.starts.data[b]], sentences.lengths.data[b] + 1, size))
            return false;
    return true;
}
inline bool cells_fit(const Sentences& sentences, const ArcCells* allowed) {
    return !allowed || allowed->cells.n0 == 0 ||
           squares_fit(sentences, allowed->firsts, allowed->cells.n0);
}

// Call function(W()) for the type W of the weights.
template<class Function>
int64_t with_weights(int64_t dtype, Function function) {
    switch (dtype) {
        case DT_I8: return function((int8_t)0);
        case DT_I16: return function((int16_t)0);
        case DT_F32: return function((float)0);
    }
    return BAD_TYPE;
}

}  // namespace gpuparse
