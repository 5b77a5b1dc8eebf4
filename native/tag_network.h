// Hidden numbers of a network that scores tags, in whole numbers (api/tagging.h).
#pragma once

#include "api/tagging.h"
#include "arena.h"
#include "dots.h"
#include "views.h"

namespace gpuparse {

constexpr int64_t MOST_OFFSETS = 7;      // from three words before to three after
constexpr int32_t LARGEST_NUMBER = 63;   // of a vector; 64 more, it has 7 bits without a sign
constexpr int32_t LARGEST_SHARE = 4095;  // of a form in a hidden number: MOST_OFFSETS of them have 16 bits
constexpr int64_t AHEAD = 2;             // positions, whose shares are fetched meanwhile
constexpr int64_t FORMS_AT_ONCE = 4;     // whose vectors are multiplied together
constexpr int64_t HIDDEN_OF_RUN = 64;    // hidden numbers of a row of runs; MULTIPLE in text/tagging/network.py

inline int32_t cut(int32_t number, int32_t low, int32_t high) {
    number = number < high ? number : high;
    return number > low ? number : low;
}
inline int32_t rounded(int32_t number, int64_t shift) { return plus(number, (1 << shift) >> 1) >> shift; }

inline bool fill_form_vectors(const TagNetwork& network, const i64_1& row_starts, const i32_1& rows,
                              const out_u8_2& vectors, Arena& arena) {
    const int64_t size = network.table.n1;
    int64_t most = 0;
    for (int64_t f = 0; f < vectors.n0; ++f) {
        const int64_t count = row_starts.data[f + 1] - row_starts.data[f];
        most = count > most ? count : most;
    }
    const int8_t** of_form = arena.take<const int8_t*>(most + 4);
    uint8_t* factors = arena.take<uint8_t>(most + 4);
    int32_t* nothing = arena.take_zeros<int32_t>(LINE_OF_ROW);
    if (arena.failed()) return false;
    for (int64_t f = 0; f < vectors.n0; ++f) {
        int64_t count = 0;
        for (int64_t k = row_starts.data[f]; k < row_starts.data[f + 1]; ++k) {
            of_form[count] = network.table.data + rows.data[k] * size;
            factors[count++] = network.scales.data[rows.data[k]];
        }
        while (count % 4) {
            of_form[count] = of_form[count - 1];
            factors[count++] = 0;
        }
        for (int64_t j = 0; j < size; j += LINE_OF_ROW) {
            int32_t sums[LINE_OF_ROW];
            add_scaled_rows({of_form, j, factors, count}, nothing, sums);
            uint8_t* to = vectors.data + f * size + j;
            for (int64_t k = 0; k < LINE_OF_ROW; ++k)
                to[k] = (uint8_t)(64 + cut(rounded(sums[k], network.vector_shift), -LARGEST_NUMBER, LARGEST_NUMBER));
        }
    }
    return true;
}

// The shares of some forms in hidden numbers at each offset: shares (count, offsets, H).
inline void fill_shares(const TagNetwork& network, const uint8_t* const* vectors, int64_t count, int16_t* shares) {
    const int64_t size = network.table.n1, hidden = network.window.n2, offsets = network.window.n0;
    constexpr int64_t lanes = Lanes<int32_t>::count;
    for (int64_t o = 0; o < offsets; ++o)
        for (int64_t h = 0; h < hidden; h += lanes) {
            const int32_t* run = network.runs.data + h / HIDDEN_OF_RUN * 2;
            const int8_t* window = network.window.data + ((o * size / 4 + run[0]) * hidden + h) * 4;
            Sums sums[FORMS_AT_ONCE];
            const Sums base = load(network.bases.data + o * hidden + h);
            for (int64_t f = 0; f < FORMS_AT_ONCE; ++f) sums[f] = minus(Sums{}, base);
            for (int64_t d = 4 * run[0]; d < 4 * run[1]; d += 4, window += 4 * hidden) {
                const Bytes weights = load(window);
                for (int64_t f = 0; f < FORMS_AT_ONCE; ++f)
                    sums[f] = add_byte_dots(sums[f], splat_bytes(vectors[f] + d), weights);
            }
            for (int64_t f = 0; f < count; ++f) {
                int32_t found[lanes];
                store(found, sums[f]);
                int16_t* to = shares + (f * offsets + o) * hidden + h;
                for (int64_t k = 0; k < lanes; ++k)
                    to[k] = (int16_t)cut(rounded(found[k], network.window_shift), -LARGEST_SHARE, LARGEST_SHARE);
            }
        }
}

// The hidden numbers of positions that are wanted. forms: at each place one of `n_forms`, whose vectors have the rows `rows`.
inline bool fill_hidden(const TagNetwork& network, const u8_2& vectors, const int64_t* rows, int64_t n_forms,
                        const int64_t* forms, const i64_1& places, const uint8_t* wanted, const out_u8_2& hidden,
                        Arena& arena) {
    const int64_t size = vectors.n1, width = hidden.n1, offsets = network.window.n0, reach = offsets / 2;
    int64_t* place_of = arena.take_filled<int64_t>(n_forms, -1);
    int64_t* needed = arena.take<int64_t>(n_forms);
    if (arena.failed()) return false;
    int64_t n_needed = 0;
    for (int64_t i = 0; i < places.n0; ++i)
        for (int64_t o = 0; wanted[i] && o < offsets; ++o) {
            const int64_t form = forms[places.data[i] + o - reach];
            if (place_of[form] >= 0) continue;
            place_of[form] = n_needed;
            needed[n_needed++] = form;
        }
    const int64_t row = offsets * width;
    int16_t* shares = arena.take<int16_t>(n_needed * row);
    if (arena.failed()) return false;
    for (int64_t k = 0; k < n_needed; k += FORMS_AT_ONCE) {
        const uint8_t* some[FORMS_AT_ONCE];
        const int64_t left = n_needed - k, count = left < FORMS_AT_ONCE ? left : FORMS_AT_ONCE;
        if (is_interrupted(row)) return false;
        for (int64_t f = 0; f < FORMS_AT_ONCE; ++f) some[f] = vectors.data + rows[needed[k + (f < count ? f : 0)]] * size;
        fill_shares(network, some, count, shares + k * row);
    }
    int16_t* sums = arena.take<int16_t>(width);
    int32_t* bases = arena.take<int32_t>(width);  // with what rounds
    if (arena.failed()) return false;
    const int32_t* shifts = network.hidden_shifts.data;
    for (int64_t h = 0; h < width; ++h) bases[h] = network.bias.data[h] + ((1 << shifts[h]) >> 1);
    const auto share = [&](int64_t i, int64_t o) {
        return shares + place_of[forms[places.data[i] + o - reach]] * row + o * width;
    };
    for (int64_t i = 0; i < places.n0; ++i) {
        if (!wanted[i]) continue;
        const int64_t next = i + AHEAD;
        for (int64_t o = 0; next < places.n0 && wanted[next] && o < offsets; ++o)
            for (int64_t h = 0; h < width; h += 32) __builtin_prefetch(share(next, o) + h);
        const int16_t* of[MOST_OFFSETS];
        for (int64_t o = 0; o < offsets; ++o) of[o] = share(i, o);
        for (int64_t h = 0; h < width; h += Lanes<int16_t>::count) {
            Words sum = load(of[0] + h);
            for (int64_t o = 1; o < offsets; ++o) sum += load(of[o] + h);
            store(sums + h, sum);
        }
        uint8_t* to = hidden.data + i * width;
        for (int64_t h = 0; h < width; ++h) to[h] = (uint8_t)cut((bases[h] + sums[h]) >> shifts[h], 0, 127);
    }
    return true;
}

}  // namespace gpuparse
