// The fields of the tokens of a text; see FIELDS of gpuparse/text/sentences.py, in the same order.
#pragma once

#include "text_view.h"

namespace gpuparse {

enum TokenField : int64_t {
    TOKEN_FORM, TOKEN_LOWER, TOKEN_SHAPE, TOKEN_KIND, TOKEN_LENGTH,
    TOKEN_PREFIX,  // five of them, of one to five characters
    TOKEN_SUFFIX = TOKEN_PREFIX + 5,
    TOKEN_SPACES = TOKEN_SUFFIX + 5, TOKEN_CASE, TOKEN_FINAL, TOKEN_FROM_START, TOKEN_TO_END, TOKEN_SINCE_FINAL,
    TOKEN_TO_FINAL, TOKEN_OPEN_MARKS, TOKEN_FIELDS
};

constexpr uint32_t FINAL_MARKS[] = {'.', '!', '?', 0x2026, 0x3002, 0xFF01, 0xFF1F, 0xFF61, 0x0964, 0x061F, 0x06D4};
constexpr uint32_t OPENING_MARKS[] = {'(', '[', '{', 0xAB, 0x201C, 0x201E, 0x300C, 0xFF08};
constexpr uint32_t CLOSING_MARKS[] = {')', ']', '}', 0xBB, 0x201D, 0x203A, 0x300D, 0x300F, 0xFF09};
constexpr uint32_t OPEN_OR_CLOSING_MARKS[] = {'"', '\'', 0x2019};
constexpr int64_t BUCKETS[] = {1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 30, 40, 60};

template <int N>
bool is_one_of(const uint32_t (&marks)[N], uint32_t code) {
    for (uint32_t mark : marks)
        if (mark == code) return true;
    return false;
}

inline uint32_t bucket_of(int64_t count) {
    uint32_t bucket = 1;
    for (int64_t step : BUCKETS) bucket += step <= count;
    return bucket;
}

inline bool are_tokens(const TextView& view, const TextTokens& tokens) {
    const int64_t n = tokens.first.n0;
    if (!is_view(view) || tokens.last.n0 != n || !are_starts(tokens.starts, n)) return false;
    int64_t at = 0;
    for (int64_t t = 0; t < n; at = tokens.last.data[t++])
        if (tokens.first.data[t] < at || tokens.last.data[t] <= tokens.first.data[t]) return false;
    return at <= view.codes.n0;
}

class TokenFields {
public:
    // Args: cases: what is known of the words of tokens.
    TokenFields(const TextView& view, const TextTokens& tokens, const u8_1& cases)
        : view_(view), tokens_(tokens), cases_(cases) {}

    // Write a field of token t into row[columns[t]].
    void write(int64_t field, const int64_t* columns, uint32_t* row) const {
        for (int64_t s = 0; s + 1 < tokens_.starts.n0; ++s) {
            const int64_t start = tokens_.starts.data[s], end = tokens_.starts.data[s + 1];
            if (field == TOKEN_TO_FINAL) {
                int64_t next = end;
                for (int64_t t = end; t-- > start;) {
                    row[columns[t]] = bucket_of(next - t);
                    if (is_final(t)) next = t;
                }
                continue;
            }
            int64_t final = start - 1, depth = 0;
            uint32_t quotes = 0;
            for (int64_t t = start; t < end; ++t) {
                uint32_t value = 0;
                switch (field) {
                    case TOKEN_SPACES: value = spaces(t, end); break;
                    case TOKEN_CASE: value = is_capital(t) ? cases_.data[t] + 2u : 1u; break;
                    case TOKEN_FINAL: value = 1u + is_final(t); break;
                    case TOKEN_FROM_START: value = bucket_of(t - start); break;
                    case TOKEN_TO_END: value = bucket_of(end - 1 - t); break;
                    case TOKEN_SINCE_FINAL:
                        value = bucket_of(t - final);
                        if (is_final(t)) final = t;
                        break;
                    case TOKEN_OPEN_MARKS: {
                        const uint32_t mark = code(t);
                        if (last(t) - first(t) == 1) {
                            depth += is_one_of(OPENING_MARKS, mark);
                            depth -= is_one_of(CLOSING_MARKS, mark);
                            quotes ^= mark == '"';
                        }
                        const int64_t open = (depth < -1 ? -1 : depth > 2 ? 2 : depth) + 1;
                        value = (uint32_t)(open * 2 + quotes + 1);
                        break;
                    }
                    default: value = own(field, first(t), last(t));
                }
                row[columns[t]] = value;
            }
        }
    }

    bool is_capital(int64_t t) const {
        const uint8_t kind = view_.classes.data[first(t)];
        return kind == UPPER_FIRST || kind == UPPER_LAST;
    }

    // A closing mark without a space before it; marks that also open, such as `"`, are closing ones if a space
    // or nothing follows.
    void mark_closing(uint8_t* closing) const {
        for (int64_t s = 0; s + 1 < tokens_.starts.n0; ++s) {
            const int64_t start = tokens_.starts.data[s], end = tokens_.starts.data[s + 1];
            for (int64_t t = start; t < end; ++t) {
                const bool is_one = last(t) - first(t) == 1 && t > start && first(t) <= last(t - 1);
                closing[t] = is_one && (is_one_of(CLOSING_MARKS, code(t)) ||
                                        (is_one_of(OPEN_OR_CLOSING_MARKS, code(t)) && spaces(t, end) > 1));
            }
        }
    }

private:
    const TextView& view_;
    const TextTokens& tokens_;
    const u8_1& cases_;

    int64_t first(int64_t t) const { return tokens_.first.data[t]; }
    int64_t last(int64_t t) const { return tokens_.last.data[t]; }
    uint32_t code(int64_t t) const { return view_.codes.data[first(t)]; }

    // 2 where a space follows, 1 where none does, 3 at the end of the segment.
    uint32_t spaces(int64_t t, int64_t end) const { return t + 1 == end ? 3 : 1 + (first(t + 1) > last(t)); }

    // True if a short token ends with a mark that ends sentences.
    bool is_final(int64_t t) const {
        return last(t) - first(t) <= 4 && is_one_of(FINAL_MARKS, view_.codes.data[last(t) - 1]);
    }

    uint32_t own(int64_t field, int64_t first, int64_t last) const {
        const uint8_t* classes = view_.classes.data;
        const int64_t length = last - first;
        switch (field) {
            case TOKEN_FORM: return (uint32_t)span_hash(view_.codes.data, first, last);
            case TOKEN_LOWER: return (uint32_t)span_hash(view_.lower.data, first, last);
            case TOKEN_SHAPE: {
                uint32_t shape = (uint32_t)shape_hash(classes, first, last) * 31;
                shape ^= classes[first] * 131u + classes[length > 1 ? first + 1 : first] * 17u;
                return shape + classes[last - 1] * 7919u + (uint32_t)(length < 4 ? length : 4) * 104729u;
            }
            case TOKEN_KIND: return classes[first] * 4u + (uint32_t)(length < 2 ? length : 2);
            case TOKEN_LENGTH: return (uint32_t)(length < 12 ? length : 12);
        }
        const int64_t size = (field - TOKEN_PREFIX) % 5 + 1, part = size < length ? size : length;
        if (field < TOKEN_SUFFIX) return (uint32_t)span_hash(view_.lower.data, first, first + part);
        return (uint32_t)span_hash(view_.lower.data, last - part, last);
    }
};

}  // namespace gpuparse
