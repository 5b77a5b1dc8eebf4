// Values of fields at the places of words, with those of the edges of sentences (api/tagging.h).
#pragma once

#include "api/tagging.h"
#include "views.h"

namespace gpuparse {

constexpr int64_t WORD_MARGIN = 4;  // places before and behind a sentence
constexpr uint32_t BEFORE_WORDS = 1, AFTER_WORDS = 2;  // the values of all fields there
enum WordField : int64_t { FIRST_GIVEN = -3, CAPITALS = -2, PLACE = -1 };

inline int64_t places_of(const WordBatch& words) { return words.ids.n0 + 2 * WORD_MARGIN * (words.starts.n0 - 1); }

inline bool words_fit(const WordBatch& words, const WordForms& forms, const i64_1& fields) {
    const int64_t n_rows = forms.letters.n0;
    return are_starts(words.starts, words.ids.n0) && are_between(0, words.ids, words.rows.n0) &&
           are_between(0, words.rows, n_rows) && (!forms.values.n0 || forms.values.n1 == n_rows) &&
           (!n_rows || forms.letters.n1 == 3) && (!words.given.n0 || words.given.n1 == words.ids.n0) &&
           are_between(FIRST_GIVEN + 1 - words.given.n0, fields, forms.values.n0);
}

inline void find_places(const WordBatch& words, int64_t* places) {
    for (int64_t s = 0; s + 1 < words.starts.n0; ++s)
        for (int64_t w = words.starts.data[s]; w < words.starts.data[s + 1]; ++w)
            places[w] = w + WORD_MARGIN * (2 * s + 1);
}

// Calls put(place, word) for all places: -2 before, -1 behind a sentence.
template <class Put>
void fill_places(const WordBatch& words, Put put) {
    int64_t place = 0;
    for (int64_t s = 0; s + 1 < words.starts.n0; ++s) {
        for (int64_t k = 0; k < WORD_MARGIN; ++k) put(place++, -2);
        for (int64_t w = words.starts.data[s]; w < words.starts.data[s + 1]; ++w) put(place++, w);
        for (int64_t k = 0; k < WORD_MARGIN; ++k) put(place++, -1);
    }
}

// How many words of a sentence that begin with a letter begin with a capital, and whether it is short.
inline uint32_t capitals_of(const WordBatch& words, const WordForms& forms, int64_t start, int64_t end) {
    int64_t sums[3] = {0, 0, 0};
    for (int64_t w = start; w < end; ++w)
        for (int k = 0; k < 3; ++k) sums[k] += forms.letters.data[3 * words.rows.data[words.ids.data[w]] + k];
    const bool has_letters = sums[0] > 0, is_capital = 2 * sums[1] > sums[0], is_upper = 2 * sums[2] >= sums[0];
    return 4u + has_letters + is_capital + (is_capital && is_upper) + 4u * (end - start < 4);
}

inline void fill_word_values(const WordForms& forms, const i64_1& fields, const WordBatch& words,
                             uint32_t* values) {
    const int64_t n_places = places_of(words);
    for (int64_t f = 0; f < fields.n0; ++f) {
        const int64_t field = fields.data[f];
        uint32_t* to = values + f * n_places;
        const uint32_t* of_forms = field < 0 ? nullptr : forms.values.data + field * forms.values.n1;
        const uint32_t* given = field > FIRST_GIVEN ? nullptr : words.given.data + (FIRST_GIVEN - field) * words.given.n1;
        for (int64_t s = 0; s + 1 < words.starts.n0; ++s) {
            const int64_t start = words.starts.data[s], end = words.starts.data[s + 1];
            for (int64_t k = 0; k < WORD_MARGIN; ++k) *to++ = BEFORE_WORDS;
            const uint32_t of_all = field == CAPITALS ? capitals_of(words, forms, start, end) : 0;
            for (int64_t w = start; w < end; ++w)
                *to++ = field >= 0         ? of_forms[words.rows.data[words.ids.data[w]]]
                        : field == PLACE    ? 4 + (uint32_t)(w - start < 2 ? w - start : 2)
                        : field == CAPITALS ? of_all
                                            : given[w];
            for (int64_t k = 0; k < WORD_MARGIN; ++k) *to++ = AFTER_WORDS;
        }
    }
}

}  // namespace gpuparse
