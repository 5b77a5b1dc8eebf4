// The processor that the library was compiled for, and the one it runs on.
#pragma once

#include "types.h"

// The level of the instruction set that the library was compiled for: on x86-64 1 is the baseline, 2
// has SSE 4.2, 3 AVX2 and FMA, 4 AVX-512 (F, BW, CD, DQ, VL), 5 its VNNI too; elsewhere 0.
GPUPARSE(int64_t) compiled_level();

// The level that the processor offers, by the same numbers.
GPUPARSE(int64_t) processor_level();

// 1 where the processor offers each extension that the library was compiled for and that is tested
// for (those of the levels, and beyond AVX-512 those that compilers choose for `-march=native`), else 0.
GPUPARSE(int64_t) processor_fits();
