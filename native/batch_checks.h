// Checks of batches and scorers, and the choice of the type of the weights.
#pragma once
#include "api/scoring.h"

namespace gpuparse {

// Whether the arrays of a batch and of a scorer agree.
inline int64_t check_batch(const Sentences& sentences, const Scorer& scorer) {
    const int64_t dtype = scorer.weights.dtype;
    if (dtype != DT_I8 && dtype != DT_I16 && dtype != DT_F32) return BAD_TYPE;
    if (scorer.joint && scorer.joint->weights.dtype != dtype) return BAD_TYPE;
    if (sentences.starts.n0 != sentences.lengths.n0) return BAD_SHAPE;
    if (sentences.known.n0 != 0 && sentences.known.n0 != sentences.values.n1) return BAD_SHAPE;
    return OK;
}

inline bool are_by_token(const Sentences& sentences, int64_t size) {
    return size == sentences.values.n1;
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
