// Exported functions of arrays that are mostly zeros.
#include "api/compact.h"

#include <string.h>

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace {

#if defined(__SSE4_1__)
// For each byte of bits, the place of the value of each bit among eight values; 128 where the bit is 0.
struct Places {
    uint64_t of_bits[256];
    constexpr Places() : of_bits() {
        for (int bits = 0; bits < 256; ++bits)
            for (int bit = 0, place = 0; bit < 8; ++bit)
                of_bits[bits] |= (uint64_t)(bits >> bit & 1 ? place++ : 128) << (8 * bit);
    }
};
constexpr Places PLACES;

// The first of eight bytes or 2-byte numbers where bits are ones, and zeros elsewhere.
inline __m128i spread_bytes(uint8_t bits, const void* values) {
    return _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i*)values), _mm_cvtsi64_si128((int64_t)PLACES.of_bits[bits]));
}
inline __m128i spread_pairs(uint8_t bits, const void* values) {
    const __m128i places = _mm_cvtsi64_si128((int64_t)PLACES.of_bits[bits]);
    const __m128i twice = _mm_or_si128(_mm_add_epi8(places, places), _mm_and_si128(places, _mm_set1_epi8(-128)));
    const __m128i both = _mm_or_si128(_mm_unpacklo_epi8(twice, twice), _mm_set1_epi16(0x0100));
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i*)values), both);
}
#endif

// True if eight numbers are written at once; eight values can be read, and eight numbers written.
template<class From, class To>
inline bool spread(uint8_t bits, const From* values, To* expanded) {
#if defined(__SSE4_1__)
    if constexpr (sizeof(From) == 1 && sizeof(To) == 1) {
        _mm_storel_epi64((__m128i*)expanded, spread_bytes(bits, values));
        return true;
    } else if constexpr (sizeof(From) == 1 && sizeof(To) == 2) {
        _mm_storeu_si128((__m128i*)expanded, _mm_cvtepi8_epi16(spread_bytes(bits, values)));
        return true;
    } else if constexpr (sizeof(From) == 2 && sizeof(To) == 2) {
        _mm_storeu_si128((__m128i*)expanded, spread_pairs(bits, values));
        return true;
    }
#endif
    (void)bits, (void)values, (void)expanded;
    return false;
}

template<class From, class To>
int64_t expand(const u8_1& bits, const From* values, int64_t n_values, To* expanded, int64_t n) {
    if (bits.n0 != (n + 7) / 8) return BAD_SHAPE;
    const auto word_at = [&](int64_t i) {  // of eight bytes
        uint64_t word = 0;
        memcpy(&word, bits.data + i, bits.n0 - i < 8 ? bits.n0 - i : 8);
        return word;
    };
    int64_t count = 0;
    for (int64_t i = 0; i < bits.n0; i += 8) count += __builtin_popcountll(word_at(i));
    if (count != n_values || (n % 8 && bits.data[bits.n0 - 1] >> n % 8)) return BAD_SHAPE;
    const From* const end = values + n_values;
    for (int64_t i = 0; i < bits.n0; i += 8) {
        if (!word_at(i)) continue;  // its page may never be touched
        for (int64_t k = i; k < i + 8 && k < bits.n0; ++k) {
            const uint8_t byte = bits.data[k];
            if (end - values >= 8 && 8 * k + 8 <= n && spread(byte, values, expanded + 8 * k)) {
                values += __builtin_popcount(byte);
                continue;
            }
            for (uint32_t left = byte; left; left &= left - 1)
                expanded[8 * k + __builtin_ctz(left)] = (To)*values++;
        }
    }
    return OK;
}

// For values whose type the other one holds.
template<class From>
int64_t expand_from(const u8_1& bits, const any_1& values, const out_any_1& expanded) {
    const From* from = (const From*)values.data;
    const auto into = [&](auto* to) { return expand(bits, from, values.n0, to, expanded.n0); };
    switch (expanded.dtype) {
        case DT_I8: return sizeof(From) <= 1 ? into((int8_t*)expanded.data) : BAD_TYPE;
        case DT_I16: return sizeof(From) <= 2 ? into((int16_t*)expanded.data) : BAD_TYPE;
        case DT_I32: return sizeof(From) <= 4 ? into((int32_t*)expanded.data) : BAD_TYPE;
        case DT_I64: return into((int64_t*)expanded.data);
        default: return BAD_TYPE;
    }
}

}  // namespace

GPUPARSE(int64_t) expand_values(u8_1 bits, any_1 values, out_any_1 expanded) {
    if (values.dtype == DT_U8 && expanded.dtype == DT_U8)
        return expand(bits, (const uint8_t*)values.data, values.n0, (uint8_t*)expanded.data, expanded.n0);
    switch (values.dtype) {
        case DT_I8: return expand_from<int8_t>(bits, values, expanded);
        case DT_I16: return expand_from<int16_t>(bits, values, expanded);
        case DT_I32: return expand_from<int32_t>(bits, values, expanded);
        case DT_I64: return expand_from<int64_t>(bits, values, expanded);
        default: return BAD_TYPE;
    }
}
