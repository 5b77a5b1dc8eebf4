// The exported checks of trees and graphs of a treebank.
#include "api/treebank.h"

#include "trees.h"
#include "views.h"

using namespace gpuparse;

static int64_t longest_sentence(i64_1 word_starts) {
    int64_t longest = 0;
    for (int64_t s = 0; s + 1 < word_starts.n0; ++s) {
        int64_t n = word_starts.data[s + 1] - word_starts.data[s];
        longest = n > longest ? n : longest;
    }
    return longest;
}

// Are these the first words of sentences, from 0 to `n_words`?
static bool word_starts_fit(i64_1 word_starts, int64_t n_words) {
    return are_starts(word_starts, n_words) && longest_sentence(word_starts) < INT32_MAX;
}

GPUPARSE(int64_t) mark_nonprojective(i32_1 heads, i64_1 word_starts, out_b8_1 marks) {
    if (!word_starts_fit(word_starts, heads.n0) || marks.n0 != heads.n0) return BAD_SHAPE;
    int64_t room = longest_sentence(word_starts) + 1;
    Arena arena;
    int32_t* child = arena.take<int32_t>(4 * room);
    if (!child) return NO_MEMORY;
    int32_t *first = child + 2 * room, *last = child + 3 * room;
    for (int64_t s = 0; s + 1 < word_starts.n0; ++s) {
        int64_t start = word_starts.data[s], n = word_starts.data[s + 1] - start;
        const int32_t* tree = heads.data + start;
        if (!number_in_preorder(tree, n, child, child + room, first, last)) return s;
        for (int64_t m = 1; m <= n; ++m) {
            int64_t h = tree[m - 1];
            bool crosses = false;
            if (h > 0)
                for (int64_t k = (h < m ? h : m) + 1; k < (h < m ? m : h) && !crosses; ++k)
                    crosses = first[k] < first[h] || first[k] > last[h];
            marks.data[start + m - 1] = crosses;
        }
    }
    return -1;
}

GPUPARSE(int64_t) encode_words(i64_1 word_starts, i32_2 ids, i64_1 rows, i64_1 ends, i64_1 columns, i32_2 table,
                               out_i32_2 values, out_i64_1 starts) {
    constexpr int64_t margin = 3;  // MARGIN of gpuparse/data/batch.py
    const int64_t n = ids.n1, n_sentences = word_starts.n0 - 1, n_tokens = n + (1 + 2 * margin) * n_sentences;
    if (!are_starts(word_starts, n) || ends.n0 != ids.n0 + 1 || !are_starts(ends, rows.n0) || table.n0 < 3 ||
        !are_between(0, rows, table.n0) || !are_between(0, columns, ids.n0) || columns.n0 != table.n1 ||
        values.n0 != columns.n0 || values.n1 != n_tokens || starts.n0 != n_sentences)
        return BAD_SHAPE;
    for (int64_t c = 0; c < ids.n0; ++c)
        if (!are_between(0, i32_1{ids.data + c * n, n}, ends.data[c + 1] - ends.data[c])) return BAD_SHAPE;
    for (int64_t f = 0; f < columns.n0; ++f) {
        const int32_t* of_words = ids.data + columns.data[f] * n;
        const int64_t* row_of = rows.data + ends.data[columns.data[f]];
        int32_t* to = values.data + f * n_tokens;
        const auto put = [&](int64_t row) { *to++ = table.data[row * table.n1 + f]; };
        for (int64_t s = 0; s < n_sentences; ++s) {
            for (int64_t k = 0; k < margin; ++k) put(1);
            starts.data[s] = to - (values.data + f * n_tokens);
            put(0);
            for (int64_t w = word_starts.data[s]; w < word_starts.data[s + 1]; ++w) put(row_of[of_words[w]]);
            for (int64_t k = 0; k < margin; ++k) put(2);
        }
    }
    return OK;
}

GPUPARSE(int64_t) check_sentences(i32_1 heads, i64_1 word_starts, bool single_root, bool is_partial,
                                  out_i32_1 faults, out_i32_1 words) {
    int64_t n_sentences = word_starts.n0 - 1;
    if (!word_starts_fit(word_starts, heads.n0) || faults.n0 != n_sentences || words.n0 != n_sentences)
        return BAD_SHAPE;
    Arena arena;
    int32_t* seen = arena.take<int32_t>(longest_sentence(word_starts) + 1);
    if (!seen) return NO_MEMORY;
    for (int64_t s = 0; s < n_sentences; ++s) {
        int64_t start = word_starts.data[s];
        FaultyWord found = check_heads(heads.data + start, (int32_t)(word_starts.data[s + 1] - start),
                                       single_root, is_partial, seen);
        faults.data[s] = found.fault;
        words.data[s] = found.word;
    }
    return OK;
}

GPUPARSE(int64_t) choose_acyclic_arcs(i64_1 starts, i32_1 heads, i32_1 primary, i64_1 word_starts,
                                      out_b8_1 kept, out_i32_1 added) {
    int64_t n_words = primary.n0;
    if (!word_starts_fit(word_starts, n_words) || starts.n0 != n_words + 1 || added.n0 != n_words ||
        !are_starts(starts, heads.n0) || kept.n0 != heads.n0)
        return BAD_SHAPE;
    int64_t room = longest_sentence(word_starts) + 1;
    Arena arena;
    int32_t* stack = arena.take<int32_t>(room);
    int64_t* seen = arena.take<int64_t>(room);
    uint8_t* headed = arena.take<uint8_t>(room);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t s = 0; s + 1 < word_starts.n0; ++s) {
        int64_t first = word_starts.data[s], n = word_starts.data[s + 1] - first;
        for (int64_t w = first; w < first + n; ++w) {
            bool fits = primary.data[w] >= 0 && primary.data[w] <= n;
            for (int64_t a = starts.data[w]; a < starts.data[w + 1]; ++a)
                fits &= heads.data[a] >= 0 && heads.data[a] <= n;
            if (!fits) return BAD_SHAPE;
        }
        memset(seen, 0, (size_t)room * sizeof(int64_t));
        SentenceGraph graph = {starts.data + first, heads.data, primary.data + first, (int32_t)n,
                               kept.data, added.data + first, stack, seen};
        graph.choose(headed);
    }
    return OK;
}
