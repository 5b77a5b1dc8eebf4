// Arrays that are mostly zeros, from the form that files of models have them in.
#pragma once

#include "types.h"

// Write values (V,) where bits (ceil(N / 8),) has ones, the lowest bit of a byte first; expanded (N,) is
// zero before. Types are int8, int16, int32, int64 and uint8, and that of `expanded` holds the other; or
// both are the same. BAD_SHAPE if the ones are not as many as the values, or lie beyond N.
GPUPARSE(int64_t) expand_values(u8_1 bits, any_1 values, out_any_1 expanded);
