// What the library was compiled for. Nothing here may be compiled to anything but plain integer code.
#include "api/build.h"

#if defined(__x86_64__)
#define SUPPORTS(name) (__builtin_cpu_supports(name) != 0)
#endif

GPUPARSE(int64_t) compiled_level() {
#if !defined(__x86_64__)
    return 0;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
    return 4;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__)
    return 3;
#elif defined(__SSE4_2__) && defined(__POPCNT__)
    return 2;
#else
    return 1;
#endif
}

GPUPARSE(int64_t) processor_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!SUPPORTS("sse4.2") || !SUPPORTS("popcnt")) return 1;
    if (!SUPPORTS("avx2") || !SUPPORTS("fma") || !SUPPORTS("bmi") || !SUPPORTS("bmi2")) return 2;
    if (!SUPPORTS("avx512f") || !SUPPORTS("avx512bw") || !SUPPORTS("avx512cd") ||
        !SUPPORTS("avx512dq") || !SUPPORTS("avx512vl"))
        return 3;
    return 4;
#else
    return 0;
#endif
}

GPUPARSE(int64_t) processor_fits() {
#if defined(__x86_64__)
    if (processor_level() < compiled_level()) return 0;
#if defined(__AVX__)
    if (!SUPPORTS("avx")) return 0;
#endif
#if defined(__AVX512F__)
    if (!SUPPORTS("avx512f")) return 0;
#endif
#if defined(__AVX512VBMI__)
    if (!SUPPORTS("avx512vbmi")) return 0;
#endif
#if defined(__AVX512VBMI2__)
    if (!SUPPORTS("avx512vbmi2")) return 0;
#endif
#if defined(__AVX512IFMA__)
    if (!SUPPORTS("avx512ifma")) return 0;
#endif
#if defined(__AVX512VNNI__)
    if (!SUPPORTS("avx512vnni")) return 0;
#endif
#if defined(__AVX512BITALG__)
    if (!SUPPORTS("avx512bitalg")) return 0;
#endif
#if defined(__AVX512VPOPCNTDQ__)
    if (!SUPPORTS("avx512vpopcntdq")) return 0;
#endif
#endif
    return 1;
}

GPUPARSE(int64_t) count_true(b8_1 values) {
    int64_t count = 0;
    for (int64_t i = 0; i < values.n0; ++i) count += values.data[i] != 0;
    return count;
}
