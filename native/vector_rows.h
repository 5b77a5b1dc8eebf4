// The rows of the table of word vectors that a node has.
#pragma once
#include "api/vectors.h"
#include "lanes.h"
#include "views.h"

namespace gpuparse {

constexpr int64_t MOST_BETWEEN = 256;  // values of words in between
constexpr int64_t OCCURRENCES = 2;     // of a value in between that count

// True if a plan fits a batch: nothing that is read of them is missing. Places are not looked at, of
// which there are more than a batch reads: who reads one asks whether there is such a row.
inline bool fits(const VectorPlan& plan, const Sentences& sentences) {
    const int64_t count = plan.rows.n0, tokens = sentences.values.n1;
    if (plan.offsets.n0 != count || plan.starts.n0 != count || plan.sizes.n0 != count ||
        !is_between(1, plan.n_buckets, (int64_t)1 << 31) || plan.buckets.n0 < 1 ||
        !are_between(0, plan.buckets, plan.n_buckets) ||
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

    // Call use(k, row) for each direction, occurrence and value that can be met: its number in `fill`,
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

    // Fill what words in between add to the score of h -> m: by_modifier(m, h), which depends on h, and
    // by_head(h, m), which depends on m; both (n + 1, stride_of(n)), and nothing of use on the diagonal.
    // of_heads, of_modifiers: (2 OCCURRENCES count, stride) and a line more, by direction, occurrence,
    // value and node. The sums of all nodes are kept while one end moves away from them: a word that it
    // passes is the first with its value for the nodes from the last such word on, and the second for
    // those from the one before on. T: of 32 bits. False: no memory.
    template <class T, class Arena>
    bool fill(int64_t n, const T* of_heads, const T* of_modifiers, int64_t stride, Arena& arena,
              View2<T> by_head, View2<T> by_modifier) const {
        T* heads = arena.template take<T>(stride_of(n));
        T* modifiers = arena.template take<T>(stride_of(n));
        if (arena.failed()) return false;
        for (int64_t direction = 0; direction < 2; direction++) {
            int64_t last[MOST_BETWEEN][OCCURRENCES];
            const int64_t start = direction ? n : 0, step = direction ? -1 : 1;
            for (int64_t value = 0; value < count; value++)
                for (int64_t k = 0; k < OCCURRENCES; k++) last[value][k] = start;
            memset(heads, 0, (size_t)stride_of(n) * sizeof(T));
            memset(modifiers, 0, (size_t)stride_of(n) * sizeof(T));
            for (int64_t j = start; j >= 0 && j <= n; j += step) {
                const int64_t passed = direction ? j + 1 : 0, end = direction ? n + 1 : j;
                const int64_t value = of_words[j];
                Passed<T> word{passed, end, {}, {}, {}};
                if (value >= 0) {
                    int64_t from = j;
                    for (int64_t k = 0; k < OCCURRENCES; k++) {  // nodes from `to` to the one before `from`
                        const int64_t to = last[value][k];
                        last[value][k] = from;
                        word.low[k] = direction ? from + 1 : to;
                        word.high[k] = direction ? to + 1 : from;
                        from = to;
                    }
                }
                const int64_t at = value < 0 ? 0 : value;
                for (int64_t k = 0; k < OCCURRENCES; k++)
                    word.rows[k] = of_heads + ((direction * OCCURRENCES + k) * count + at) * stride;
                word.move(heads, &by_modifier(j, 0));
                for (int64_t k = 0; k < OCCURRENCES; k++)
                    word.rows[k] = of_modifiers + (((1 - direction) * OCCURRENCES + k) * count + at) * stride;
                word.move(modifiers, &by_head(j, 0));
            }
        }
        return true;
    }

    // Room for a row that `fill` fills.
    static int64_t stride_of(int64_t n) { return whole_lines<int32_t>(n + 1) + whole_lines<int32_t>(1); }

private:
    // A word that one end passes: the nodes passed before it, and for each occurrence the nodes from `low`
    // to before `high` that it counts for and what it adds to them.
    template <class T>
    struct Passed {
        int64_t from, to;
        int64_t low[OCCURRENCES], high[OCCURRENCES];
        const T* rows[OCCURRENCES];

        // Write the sums of the nodes without the word, then add it.
        void move(T* sums, T* without) const {
            typedef Vector<uint32_t> Index;
            Index lane;
            for (uint32_t k = 0; k < Lanes<uint32_t>::count; k++) lane[k] = k;
            for (int64_t i = from; i < to; i += Lanes<T>::count) {
                Vector<T> sum = load(sums + i);
                store(without + i, sum);
                for (int64_t k = 0; k < OCCURRENCES; k++) {
                    const Index node = lane + (uint32_t)(i - low[k]);
                    sum = node < (uint32_t)(high[k] - low[k]) ? sum + load(rows[k] + i) : sum;
                }
                store(sums + i, sum);
            }
        }
    };
};

}  // namespace gpuparse
