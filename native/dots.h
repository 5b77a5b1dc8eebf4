// Sums of products of whole numbers by the dot instructions that the machine has; all give the same
// sums, modulo 2^32. Numbers that no sum exceeds are proved when a model is loaded; others wrap around.
#pragma once
#include "lanes.h"

#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace gpuparse {

using Sums = Vector<int32_t>;
using Bytes = Vector<int8_t>;
using Words = Vector<int16_t>;

// a + b and a - b, modulo 2^32.
inline int32_t plus(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
inline Sums plus(Sums a, Sums b) { return (Sums)((Vector<uint32_t>)a + (Vector<uint32_t>)b); }
inline Sums minus(Sums a, Sums b) { return (Sums)((Vector<uint32_t>)a - (Vector<uint32_t>)b); }
// a * b + c, modulo 2^16.
inline Words times_plus(Words a, Words b, Words c) {
    typedef Vector<uint16_t> Whole;
    return (Words)((Whole)a * (Whole)b + (Whole)c);
}

// The same 4 bytes in every lane of 32 bits.
inline Bytes splat_bytes(const uint8_t* bytes) {
    int32_t four;
    memcpy(&four, bytes, sizeof(four));
    return (Bytes)splat(four);
}
// The same 2 words of 16 bits.
inline Words splat_words(const int16_t* words) {
    int32_t two;
    memcpy(&two, words, sizeof(two));
    return (Words)splat(two);
}

// The number added to a signed byte so that `add_byte_dots` can read it as `a`.
#if defined(__AVX2__) || (defined(__SSSE3__) && !defined(__AVX__))
constexpr int32_t DOT_OFFSET = 128;
#else
constexpr int32_t DOT_OFFSET = 0;
#endif

// sums[k] + the sum over j of a[4 k + j] * b[4 k + j]. a: from 0 to 127; or signed bytes, plus DOT_OFFSET,
// if |b[2 i]| + |b[2 i + 1]| is at most 128: sums of two products do not exceed 16 bits.
inline Sums add_byte_dots(Sums sums, Bytes a, Bytes b) {
#if defined(__AVX512VNNI__)
    return (Sums)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#elif defined(__AVX512BW__)
    const __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);  // below 2^15
    return plus(sums, (Sums)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#elif defined(__AVXVNNI__)
    return (Sums)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
#elif defined(__AVX2__)
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    return plus(sums, (Sums)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#elif defined(__SSSE3__) && !defined(__AVX__)
    const __m128i pairs = _mm_maddubs_epi16((__m128i)a, (__m128i)b);
    return plus(sums, (Sums)_mm_madd_epi16(pairs, _mm_set1_epi16(1)));
#elif defined(__ARM_FEATURE_DOTPROD)
    return (Sums)vdotq_s32((int32x4_t)sums, (int8x16_t)a, (int8x16_t)b);
#else
    for (int64_t k = 0; k < Lanes<int32_t>::count; k++)
        for (int64_t j = 4 * k; j < 4 * k + 4; j++) sums[k] = plus(sums[k], (int32_t)a[j] * (int32_t)b[j]);
    return sums;
#endif
}

// sums[k] + a[2 k] * b[2 k] + a[2 k + 1] * b[2 k + 1].
inline Sums add_word_dots(Sums sums, Words a, Words b) {
#if defined(__AVX512VNNI__)
    return (Sums)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#elif defined(__AVX512BW__)
    return plus(sums, (Sums)_mm512_madd_epi16((__m512i)a, (__m512i)b));
#elif defined(__AVXVNNI__)
    return (Sums)_mm256_dpwssd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
#elif defined(__AVX2__)
    return plus(sums, (Sums)_mm256_madd_epi16((__m256i)a, (__m256i)b));
#elif defined(__SSSE3__) && !defined(__AVX__)
    return plus(sums, (Sums)_mm_madd_epi16((__m128i)a, (__m128i)b));
#elif defined(__ARM_NEON) && defined(__aarch64__)
    const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return (Sums)vaddq_s32((int32x4_t)sums, vpaddq_s32(low, vmull_high_s16(x, y)));
#else
    for (int64_t k = 0; k < Lanes<int32_t>::count; k++)
        for (int64_t j = 2 * k; j < 2 * k + 2; j++) sums[k] = plus(sums[k], (int32_t)a[j] * (int32_t)b[j]);
    return sums;
#endif
}

typedef uint32_t Four __attribute__((vector_size(16)));

// Sums of every fourth lane.
inline Four fold_lanes(Sums signed_sums) {
    const auto sums = (Vector<uint32_t>)signed_sums;
#if defined(__AVX512F__)
    typedef uint32_t Eight __attribute__((vector_size(32)));
    const Eight both = __builtin_shufflevector(sums, sums, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(sums, sums, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(both, both, 0, 1, 2, 3) +
           __builtin_shufflevector(both, both, 4, 5, 6, 7);
#elif defined(__AVX__)
    return __builtin_shufflevector(sums, sums, 0, 1, 2, 3) +
           __builtin_shufflevector(sums, sums, 4, 5, 6, 7);
#else
    return sums;
#endif
}

// The sums of all lanes of four vectors.
inline Four sums_of_lanes(Sums a, Sums b, Sums c, Sums d) {
    const Four w = fold_lanes(a), x = fold_lanes(b), y = fold_lanes(c), z = fold_lanes(d);
    const Four wx = __builtin_shufflevector(w, x, 0, 4, 1, 5) + __builtin_shufflevector(w, x, 2, 6, 3, 7);
    const Four yz = __builtin_shufflevector(y, z, 0, 4, 1, 5) + __builtin_shufflevector(y, z, 2, 6, 3, 7);
    return __builtin_shufflevector(wx, yz, 0, 1, 4, 5) + __builtin_shufflevector(wx, yz, 2, 3, 6, 7);
}

#if defined(__AVX512F__)
// Lanes of a or b whose numbers have the bit `step`, 0 for a, plus those `step` further on or back.
template<int64_t step>
inline Sums merge_lanes(Sums a, Sums b) {
    constexpr __mmask16 of_b = step == 8 ? 0xFF00 : step == 4 ? 0xF0F0 : step == 2 ? 0xCCCC : 0xAAAA;
    const __m512i x = (__m512i)a, y = (__m512i)b;
    const Sums kept = (Sums)_mm512_mask_blend_epi32(of_b, x, y);
    const __m512i left = _mm512_mask_blend_epi32(of_b, y, x);
    if constexpr (step == 8) return plus(kept, (Sums)_mm512_maskz_shuffle_i64x2(255, left, left, 0x4E));
    if constexpr (step == 4) return plus(kept, (Sums)_mm512_maskz_shuffle_i64x2(255, left, left, 0xB1));
    if constexpr (step == 2) return plus(kept, (Sums)_mm512_maskz_shuffle_epi32(0xFFFF, left, _MM_PERM_BADC));
    if constexpr (step == 1) return plus(kept, (Sums)_mm512_maskz_shuffle_epi32(0xFFFF, left, _MM_PERM_CDAB));
}
template<int64_t step>
inline Sums merge_vectors(const int32_t* vectors) {
    if constexpr (step == 16) return load(vectors);
    else return merge_lanes<step>(merge_vectors<2 * step>(vectors), merge_vectors<2 * step>(vectors + step * 16));
}
#endif

// Fill sums[r] with the sum of all lanes of vector r; count: rounded up to a multiple of 4.
inline void fill_lane_sums(const int32_t* vectors, int64_t count, int32_t* sums) {
    constexpr int64_t lanes = Lanes<int32_t>::count;
    int64_t r = 0;
#if defined(__AVX512F__)
    for (; r + lanes <= count; r += lanes) store(sums + r, merge_vectors<1>(vectors + r * lanes));
#endif
    for (; r < count; r += 4) {
        const int32_t* of = vectors + r * lanes;
        const Four four = sums_of_lanes(load(of), load(of + lanes), load(of + 2 * lanes), load(of + 3 * lanes));
        memcpy(sums + r, &four, sizeof(four));
    }
}

// The largest lane.
inline int32_t largest_lane(Sums sums) {
    typedef int32_t Quarter __attribute__((vector_size(16)));
    const auto larger = [](auto a, auto b) { return a > b ? a : b; };
#if defined(__AVX512F__)
    typedef int32_t Eight __attribute__((vector_size(32)));
    const Eight both = larger(__builtin_shufflevector(sums, sums, 0, 1, 2, 3, 4, 5, 6, 7),
                              __builtin_shufflevector(sums, sums, 8, 9, 10, 11, 12, 13, 14, 15));
#else
    const Sums both = sums;
#endif
#if defined(__AVX__)
    const Quarter four = larger(__builtin_shufflevector(both, both, 0, 1, 2, 3),
                                __builtin_shufflevector(both, both, 4, 5, 6, 7));
#else
    const Quarter four = both;
#endif
    return larger(larger(four[0], four[1]), larger(four[2], four[3]));
}

// The bytes from an address on, as many as a vector has words.
inline Words widen(const int8_t* from) {
#if defined(__AVX512BW__)
    return (Words)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)from));
#elif defined(__AVX2__)
    return (Words)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)from));
#else
    typedef int8_t Half __attribute__((vector_size(VECTOR_BYTES / 2)));
    Half half;
    memcpy(&half, from, sizeof(half));
    return __builtin_convertvector(half, Words);
#endif
}

// (score * multiplier + half) >> shift of every lane, in 64 bits, cut to +-most. multiplier: from 0 on.
inline Sums scaled(Sums scores, int32_t multiplier, int64_t half, int64_t shift, int64_t most) {
#if defined(__AVX512F__)
    const __m512i factor = _mm512_set1_epi64(multiplier);
    const auto finish = [=](__m512i product) {  // of every other lane
        Vector<int64_t> score = ((Vector<int64_t>)product + splat(half)) >> splat(shift);
        score = score < splat(most) ? score : splat(most);
        return (Vector<uint64_t>)(score > splat(-most) ? score : splat(-most));
    };
    const __m512i odd = (__m512i)((Vector<uint64_t>)scores >> 32);
    const Vector<uint64_t> low = finish(_mm512_maskz_mul_epi32(255, (__m512i)scores, factor));
    return (Sums)((low & 0xFFFFFFFFu) | finish(_mm512_maskz_mul_epi32(255, odd, factor)) << 32);
#else
    for (int64_t k = 0; k < Lanes<int32_t>::count; k++) {
        int64_t score = ((int64_t)scores[k] * multiplier + half) >> shift;
        score = score < most ? score : most;
        scores[k] = (int32_t)(score > -most ? score : -most);
    }
    return scores;
#endif
}

constexpr int64_t LINE_OF_ROW = 64;  // numbers of a row that are summed together

// A line of some rows, and their factors: from 0 to 255. n_rows: a multiple of 4.
struct ScaledRows {
    const int8_t* const* rows;
    int64_t j;  // first number of the line
    const uint8_t* factors;
    int64_t n_rows;

    const int8_t* row(int64_t r) const { return rows[r] + j; }
};

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
// Sums of a line: each of the four vectors has every fourth run of four numbers.
struct LineSums {
    __m512i s0, s1, s2, s3;
};

// Bytes of four rows side by side, so that one instruction adds four products to a sum.
inline LineSums sum_line(const ScaledRows& of) {
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t r = 0; r < of.n_rows; r += 4) {
        const __m512i a = _mm512_loadu_si512(of.row(r)), b = _mm512_loadu_si512(of.row(r + 1));
        const __m512i c = _mm512_loadu_si512(of.row(r + 2)), d = _mm512_loadu_si512(of.row(r + 3));
        const __m512i f = (__m512i)splat_bytes(of.factors + r);
        const __m512i ab0 = _mm512_unpacklo_epi8(a, b), ab1 = _mm512_unpackhi_epi8(a, b);
        const __m512i cd0 = _mm512_unpacklo_epi8(c, d), cd1 = _mm512_unpackhi_epi8(c, d);
        s0 = _mm512_dpbusd_epi32(s0, f, _mm512_unpacklo_epi16(ab0, cd0));
        s1 = _mm512_dpbusd_epi32(s1, f, _mm512_unpackhi_epi16(ab0, cd0));
        s2 = _mm512_dpbusd_epi32(s2, f, _mm512_unpacklo_epi16(ab1, cd1));
        s3 = _mm512_dpbusd_epi32(s3, f, _mm512_unpackhi_epi16(ab1, cd1));
    }
    return {s0, s1, s2, s3};
}
#endif

// Fill a line of sums with numbers of a bias, and those of all rows times their factors.
inline void add_scaled_rows(const ScaledRows& of, const int32_t* bias, int32_t* __restrict sums) {
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
    const auto [s0, s1, s2, s3] = sum_line(of);
    // Pairs of 64 bits: of lanes 0 and 1 of the four vectors, of lanes 2 and 3; then in order.
    const __m512i low0 = __builtin_shufflevector(s0, s1, 0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i low1 = __builtin_shufflevector(s2, s3, 0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high0 = __builtin_shufflevector(s0, s1, 4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i high1 = __builtin_shufflevector(s2, s3, 4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i in_order[4] = {__builtin_shufflevector(low0, low1, 0, 1, 2, 3, 8, 9, 10, 11),
                                 __builtin_shufflevector(low0, low1, 4, 5, 6, 7, 12, 13, 14, 15),
                                 __builtin_shufflevector(high0, high1, 0, 1, 2, 3, 8, 9, 10, 11),
                                 __builtin_shufflevector(high0, high1, 4, 5, 6, 7, 12, 13, 14, 15)};
    for (int64_t k = 0; k < 4; k++) store(sums + 16 * k, plus(load(bias + 16 * k), (Sums)in_order[k]));
#elif defined(__AVX2__)
    for (int64_t j = 0; j < LINE_OF_ROW; j += 32) {
        __m256i s[4] = {};
        for (int64_t r = 0; r < of.n_rows; r += 2) {
            const __m256i f = _mm256_set1_epi32(of.factors[r] | of.factors[r + 1] << 16);
            for (int64_t half = 0; half < 2; half++) {
                const int64_t at = j + 16 * half;
                const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(of.row(r) + at)));
                const __m256i b =
                    _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(of.row(r + 1) + at)));
                s[2 * half] = _mm256_add_epi32(
                    s[2 * half], _mm256_madd_epi16(f, _mm256_unpacklo_epi16(a, b)));
                s[2 * half + 1] = _mm256_add_epi32(
                    s[2 * half + 1], _mm256_madd_epi16(f, _mm256_unpackhi_epi16(a, b)));
            }
        }
        for (int64_t half = 0; half < 2; half++) {
            const __m256i low = _mm256_permute2x128_si256(s[2 * half], s[2 * half + 1], 0x20);
            const __m256i high = _mm256_permute2x128_si256(s[2 * half], s[2 * half + 1], 0x31);
            const int32_t* from = bias + j + 16 * half;
            int32_t* to = sums + j + 16 * half;
            _mm256_storeu_si256(
                (__m256i*)to, _mm256_add_epi32(low, _mm256_loadu_si256((const __m256i*)from)));
            _mm256_storeu_si256(
                (__m256i*)(to + 8),
                _mm256_add_epi32(high, _mm256_loadu_si256((const __m256i*)(from + 8))));
        }
    }
#else
    for (int64_t j = 0; j < LINE_OF_ROW; j++) sums[j] = bias[j];
    for (int64_t r = 0; r < of.n_rows; r++) {
        const int8_t* __restrict row = of.row(r);
        const int16_t factor = of.factors[r];
        for (int64_t j = 0; j < LINE_OF_ROW; j++) sums[j] = plus(sums[j], (int16_t)(row[j] * factor));
    }
#endif
}

// Write `count` numbers, a multiple of 4, each with `more` added, in the order in which `cut_sums` adds them.
inline void lay_out_sums(const int32_t* numbers, int32_t more, int64_t count, int32_t* to) {
    for (int64_t j = 0; j < count; j += 4) {
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
        const int64_t run = j % LINE_OF_ROW / 4, at = j - j % LINE_OF_ROW + run % 4 * 16 + run / 4 * 4;
#else
        const int64_t at = j;
#endif
        for (int64_t k = 0; k < 4; k++) to[at + k] = plus(numbers[j + k], more);
    }
}

// Fill a line of bytes with (numbers of a bias + those of all rows times their factors) >> shift, cut to
// 0 .. 127. bias: of `lay_out_sums`.
inline void cut_sums(const ScaledRows& of, const int32_t* bias, int32_t shift, uint8_t* __restrict to) {
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
    const LineSums line = sum_line(of);
    const __m128i by = _mm_cvtsi32_si128(shift);
    const auto shifted = [&](__m512i sums, int64_t k) {
        return _mm512_maskz_sra_epi32(0xFFFF, _mm512_add_epi32(sums, _mm512_loadu_si512(bias + 16 * k)), by);
    };
    const __m512i low = _mm512_packs_epi32(shifted(line.s0, 0), shifted(line.s1, 1));
    const __m512i high = _mm512_packs_epi32(shifted(line.s2, 2), shifted(line.s3, 3));
    _mm512_storeu_si512(to, _mm512_min_epu8(_mm512_packus_epi16(low, high), _mm512_set1_epi8(127)));
#else
    int32_t sums[LINE_OF_ROW];
    add_scaled_rows(of, bias, sums);
    for (int64_t j = 0; j < LINE_OF_ROW; j++) {
        int32_t number = sums[j] >> shift;
        number = number < 127 ? number : 127;
        to[j] = (uint8_t)(number > 0 ? number : 0);
    }
#endif
}

}  // namespace gpuparse
