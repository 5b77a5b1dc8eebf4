// The rows of the table of word vectors that a node has.
#pragma once
#include "api/vectors.h"
#include "views.h"

namespace gpuparse {

constexpr int64_t MOST_BETWEEN = 256;  // values of words in between
constexpr int64_t OCCURRENCES = 2;     // of a value in between that count

// Whether a plan fits a batch: nothing that is read of them is missing. Places are not looked at, of
// which there are more than a batch reads: who reads one asks whether there is such a row.
inline bool fits(const VectorPlan& plan, const Sentences& sentences) {
    const int64_t count = plan.rows.n0, tokens = sentences.values.n1;
    if (plan.offsets.n0 != count || plan.starts.n0 != count || plan.sizes.n0 != count ||
        plan.n_buckets < 1 || plan.buckets.n0 < 1 || !are_between(0, plan.buckets, plan.n_buckets) ||
        !are_between(0, plan.rows, sentences.values.n0))
        return false;
    if (!is_between(0, plan.n_between, MOST_BETWEEN + 1) ||
        !are_between(-1, plan.between_places, plan.n_between) ||
        (plan.n_between > 0 && !is_between(0, plan.between_row, sentences.values.n0)))
        return false;
    int64_t before = 0, after = 0;
    for (int64_t k = 0; k < count; ++k) {
        const int64_t offset = plan.offsets.data[k], start = plan.starts.data[k];
        if (!is_between(-tokens, offset, tokens) || start < 0 || plan.sizes.data[k] < 0 ||
            plan.sizes.data[k] > plan.places.n0 - start)
            return false;
        if (-offset > before) before = -offset;
        if (offset > after) after = offset;
    }
    if (sentences.starts.n0 != sentences.lengths.n0) return false;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        if (start < before || n < 0 || n >= tokens - after - start) return false;
    }
    return true;
}

// The row of template k at a token, of a table of `n_rows`; -1 for none.
inline int64_t vector_row(const VectorPlan& plan, const i32_2& values, int64_t k, int64_t token,
                          int64_t n_rows) {
    const int32_t value =
        values.data[plan.rows.data[k] * values.n1 + token + plan.offsets.data[k]];
    const bool is_known = value >= 0 && value < plan.sizes.data[k];
    const int64_t row = is_known ? plan.places.data[plan.starts.data[k] + value] : -1;
    return row < n_rows ? row : -1;
}

// Values of the words in between that one sentence has, and when each is met for the first time and the
// second on the way from a node.
struct WordsBetween {
    int64_t count = 0;                 // values
    int64_t numbers[MOST_BETWEEN];     // of the plan
    int64_t words[MOST_BETWEEN];       // that have a value
    const int16_t* of_words = nullptr;  // (n + 1,) the index of a node's value, -1 for none

    // False: no memory.
    template <class Arena>
    bool find(const VectorPlan& plan, const int32_t* values, int64_t n, Arena& arena) {
        int16_t index[MOST_BETWEEN];
        for (int64_t k = 0; k < plan.n_between; k++) index[k] = -1;
        int16_t* found = arena.template take<int16_t>(n + 1);
        if (!found) return false;
        found[0] = -1;
        for (int64_t i = 1; i <= n; i++) {
            const int64_t value = values[i];
            const int64_t number =
                value >= 0 && value < plan.between_places.n0 ? plan.between_places.data[value] : -1;
            if (number >= 0 && index[number] < 0) {
                numbers[count] = number;
                words[count] = 0;
                index[number] = (int16_t)count++;
            }
            found[i] = number < 0 ? (int16_t)-1 : index[number];
            if (number >= 0) words[index[number]]++;
        }
        of_words = found;
        return true;
    }

    // Call use(k, row) for each direction, occurrence and value that can be met: its number in `add`,
    // and the row of its weights.
    template <class Use>
    void for_combinations(int64_t n_between, Use use) const {
        for (int64_t part = 0; part < 2 * OCCURRENCES; part++)
            for (int64_t value = 0; value < count; value++)
                if (words[value] > part % OCCURRENCES)
                    use(part * count + value, part * n_between + numbers[value]);
    }

    // Call use(value, occurrence) for each word strictly between two nodes that counts, from `from` on.
    template <class Use>
    void for_words(int64_t from, int64_t to, Use use) const {
        uint8_t seen[MOST_BETWEEN] = {};
        const int64_t step = from < to ? 1 : -1;
        for (int64_t i = from + step; i != to; i += step) {
            const int64_t value = of_words[i];
            if (value >= 0 && seen[value] < OCCURRENCES) use(value, (int64_t)seen[value]++);
        }
    }

    // Add to scores(0..n, 1..n) what words in between do. of_heads, of_modifiers:
    // (2 OCCURRENCES count, stride), by direction, occurrence, value and node.
    template <class T, class S>
    void add(int64_t n, const T* of_heads, const T* of_modifiers, int64_t stride, View2<S> scores) const {
        for (int64_t i = 0; i <= n; i++) {
            for (int64_t direction = 0; direction < 2; direction++) {
                const int64_t step = direction ? -1 : 1, as_modifier = 1 - direction;
                uint8_t seen[MOST_BETWEEN];
                memset(seen, 0, (size_t)count);
                T head = 0, modifier = 0;
                for (int64_t j = i + step; j >= 0 && j <= n; j += step) {
                    if (j > 0) scores(i, j) += head;
                    if (i > 0) scores(j, i) += modifier;
                    const int64_t value = of_words[j];
                    if (value < 0 || seen[value] >= OCCURRENCES) continue;
                    const int64_t occurrence = seen[value]++;
                    head += of_heads[((direction * OCCURRENCES + occurrence) * count + value) * stride + i];
                    modifier +=
                        of_modifiers[((as_modifier * OCCURRENCES + occurrence) * count + value) * stride + i];
                }
            }
        }
    }
};

}  // namespace gpuparse
