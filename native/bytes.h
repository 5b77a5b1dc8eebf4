// Bytes of text: 64 at a time where it pays, numbers, UTF-8, and a target that cannot overflow.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace gpuparse {

constexpr int64_t BLOCK = 64;
constexpr uint8_t TAB = '\t', LINE_FEED = '\n', CARRIAGE_RETURN = '\r';

#if defined(__SSE2__)
// Bit i says whether byte i of 64 is a tab, line feed or carriage return.
inline uint64_t separators_of(const uint8_t* block) {
    uint64_t mask = 0;
    for (int k = 0; k < 4; ++k) {
        __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * k));
        __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(TAB)),
                                    _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(LINE_FEED)),
                                                 _mm_cmpeq_epi8(bytes, _mm_set1_epi8(CARRIAGE_RETURN))));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(hits) << (16 * k);
    }
    return mask;
}
#else
inline uint64_t separators_of(const uint8_t* block) {
    uint64_t mask = 0;
    for (int i = 0; i < BLOCK; ++i) {
        uint8_t byte = block[i];
        mask |= (uint64_t)(byte == TAB || byte == LINE_FEED || byte == CARRIAGE_RETURN) << i;
    }
    return mask;
}
#endif

// The bytes before the first of `size` that is not ASCII.
inline int64_t ascii_prefix(const uint8_t* text, int64_t size) {
    int64_t at = 0;
    for (; at + BLOCK <= size; at += BLOCK) {
        uint64_t high = 0, part;
        for (int64_t k = 0; k < BLOCK; k += 8) {
            memcpy(&part, text + at + k, 8);
            high |= part;
        }
        if (high & 0x8080808080808080u) break;
    }
    while (at < size && text[at] < 0x80) ++at;
    return at;
}

// Bytes of the UTF-8 character that `text` begins with; 0 where there is none (Unicode standard,
// table 3-7). `left`: bytes of the text, at least 1.
inline int64_t character_size(const uint8_t* text, int64_t left) {
    uint8_t lead = text[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    int64_t size = lead < 0xE0 ? 2 : (lead < 0xF0 ? 3 : 4);
    if (size > left) return 0;
    uint8_t low = 0x80, high = 0xBF;  // of byte 2: no overlong form, surrogate, or above U+10FFFF
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (text[1] < low || text[1] > high) return 0;
    for (int64_t k = 2; k < size; ++k)
        if ((text[k] & 0xC0) != 0x80) return 0;
    return size;
}

// The offset of the first byte, from `at` on, that begins no UTF-8 character; `size` if none.
inline int64_t find_invalid_utf8(const uint8_t* text, int64_t size, int64_t at) {
    while (at < size) {
        at += ascii_prefix(text + at, size - at);
        while (at < size && text[at] >= 0x80) {
            int64_t step = character_size(text + at, size - at);
            if (step == 0) return at;
            at += step;
        }
    }
    return size;
}

// Some bytes of a text.
struct Slice {
    const uint8_t* start;
    const uint8_t* end;

    int64_t size() const { return end - start; }
    bool is_underscore() const { return size() == 1 && *start == '_'; }
};

inline bool are_same(Slice one, Slice other) {
    return one.size() == other.size() && memcmp(one.start, other.start, (size_t)one.size()) == 0;
}

constexpr int32_t BAD_NUMBER = -2;

// A number up to 2^31 - 1 without leading zeros; BAD_NUMBER if it is none.
inline int32_t parse_number(Slice text) {
    if (text.size() <= 0 || text.size() > 10 || (*text.start == '0' && text.size() > 1)) return BAD_NUMBER;
    int64_t value = 0;
    for (const uint8_t* at = text.start; at < text.end; ++at) {
        if (*at < '0' || *at > '9') return BAD_NUMBER;
        value = value * 10 + (*at - '0');
    }
    return value <= INT32_MAX ? (int32_t)value : BAD_NUMBER;
}

// Bytes being written. What does not fit is not written, and then `is_full` stays true.
struct ByteTarget {
    uint8_t* bytes;
    int64_t size;
    int64_t used = 0;
    bool is_full = false;

    void put(uint8_t byte) {
        if (used < size)
            bytes[used++] = byte;
        else
            is_full = true;
    }
    void copy(Slice text) {
        if (text.size() < 0 || text.size() > size - used) {
            is_full = true;
            return;
        }
        if (text.size() > 0) memcpy(bytes + used, text.start, (size_t)text.size());
        used += text.size();
    }
    // A number from 0 on.
    void put_number(int32_t number) {
        uint8_t digits[10];
        int n_digits = 0;
        do {
            digits[n_digits++] = (uint8_t)('0' + number % 10);
            number /= 10;
        } while (number > 0);
        while (n_digits > 0) put(digits[--n_digits]);
    }
};

}  // namespace gpuparse
