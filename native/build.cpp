// The processor that the library was compiled for. Plain integer code: it must run on any processor.
#include "api/build.h"

#if defined(__x86_64__)
namespace {

// The instructions that the processor and the system offer, as in Intel's manual (CPUID).
struct Processor {
    uint32_t ecx1;   // leaf 1
    uint32_t ebx7, ecx7, edx7;
    uint32_t eax71;  // leaf 7, subleaf 1
    uint32_t ecx_extended;
    bool saves_avx, saves_avx512;  // the system keeps these registers between tasks
};

void ask(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]) {
    __asm__ volatile("cpuid"
                     : "=a"(registers[0]), "=b"(registers[1]), "=c"(registers[2]), "=d"(registers[3])
                     : "0"(leaf), "2"(subleaf));
}

Processor ask_processor() {
    Processor found = {};
    uint32_t registers[4];
    ask(0, 0, registers);
    const uint32_t last = registers[0];
    ask(1, 0, registers);
    found.ecx1 = registers[2];
    if (last >= 7) {
        ask(7, 0, registers);
        found.ebx7 = registers[1];
        found.ecx7 = registers[2];
        found.edx7 = registers[3];
        const uint32_t subleaves = registers[0];
        if (subleaves >= 1) {
            ask(7, 1, registers);
            found.eax71 = registers[0];
        }
    }
    ask(0x80000000u, 0, registers);
    if (registers[0] >= 0x80000001u) {
        ask(0x80000001u, 0, registers);
        found.ecx_extended = registers[2];
    }
    if (found.ecx1 >> 27 & 1) {
        uint32_t low, high;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        found.saves_avx = (low & 0x6) == 0x6;
        found.saves_avx512 = (low & 0xe6) == 0xe6;
    }
    return found;
}

bool has(uint32_t word, int bit) { return word >> bit & 1; }

int64_t level_of(const Processor& p) {
    if (!has(p.ecx1, 0) || !has(p.ecx1, 9) || !has(p.ecx1, 13) || !has(p.ecx1, 19) ||
        !has(p.ecx1, 20) || !has(p.ecx1, 23))
        return 1;  // without SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2 or POPCNT
    if (!p.saves_avx || !has(p.ecx1, 12) || !has(p.ecx1, 22) || !has(p.ecx1, 28) ||
        !has(p.ecx1, 29) || !has(p.ebx7, 3) || !has(p.ebx7, 5) || !has(p.ebx7, 8) ||
        !has(p.ecx_extended, 5))
        return 2;  // without FMA, MOVBE, AVX, F16C, BMI1, AVX2, BMI2 or LZCNT
    if (!p.saves_avx512 || !has(p.ebx7, 16) || !has(p.ebx7, 17) || !has(p.ebx7, 28) ||
        !has(p.ebx7, 30) || !has(p.ebx7, 31))
        return 3;  // without AVX-512 F, DQ, CD, BW or VL
    return has(p.ecx7, 11) ? 5 : 4;  // with AVX-512 VNNI
}

}  // namespace
#endif

GPUPARSE(int64_t) compiled_level() {
#if !defined(__x86_64__)
    return 0;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
#if defined(__AVX512VNNI__)
    return 5;
#else
    return 4;
#endif
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
    return level_of(ask_processor());
#else
    return 0;
#endif
}

GPUPARSE(int64_t) processor_fits() {
#if defined(__x86_64__)
    const Processor p = ask_processor();
    if (level_of(p) < compiled_level()) return 0;
#if defined(__AVX__)
    if (!p.saves_avx || !has(p.ecx1, 28)) return 0;
#endif
#if defined(__AVX512F__)
    if (!p.saves_avx512 || !has(p.ebx7, 16)) return 0;
#endif
#if defined(__AVX512IFMA__)
    if (!has(p.ebx7, 21)) return 0;
#endif
#if defined(__AVX512VBMI__)
    if (!has(p.ecx7, 1)) return 0;
#endif
#if defined(__AVX512VBMI2__)
    if (!has(p.ecx7, 6)) return 0;
#endif
#if defined(__GFNI__)
    if (!has(p.ecx7, 8)) return 0;
#endif
#if defined(__AVX512VNNI__)
    if (!has(p.ecx7, 11)) return 0;
#endif
#if defined(__AVX512BITALG__)
    if (!has(p.ecx7, 12)) return 0;
#endif
#if defined(__AVX512VPOPCNTDQ__)
    if (!has(p.ecx7, 14)) return 0;
#endif
#if defined(__AVX512FP16__)
    if (!has(p.edx7, 23)) return 0;
#endif
#if defined(__AVXVNNI__)
    if (!has(p.eax71, 4)) return 0;
#endif
#if defined(__AVX512BF16__)
    if (!has(p.eax71, 5)) return 0;
#endif
#endif
    return 1;
}
