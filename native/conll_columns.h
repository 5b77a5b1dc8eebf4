// The columns DEPS and MISC: their items, read and written.
#pragma once

#include "conll_scanner.h"

namespace gpuparse {

// The end of the item that begins at `start`: the next `|`, or the column's end.
inline int64_t item_end(const uint8_t* text, int64_t start, int64_t end) {
    if (start >= end) return end;
    const void* bar = memchr(text + start, '|', (size_t)(end - start));
    return bar ? static_cast<const uint8_t*>(bar) - text : end;
}

// What is wrong with an item of DEPS; the codes are those of gpuparse/data/faults.py.
enum DepsFault { NO_DEPS_FAULT, NO_COLON, NO_NUMBER, NO_RELATION, OUT_OF_RANGE, OWN_HEAD };

// An item `head:relation` of DEPS. Word i has j = 0, empty node i.j has j > 0.
struct DepsItem {
    DepsFault fault;
    int32_t i, j;
    int64_t relation;  // its offset
};

inline DepsItem parse_deps_item(const uint8_t* text, int64_t start, int64_t end) {
    int64_t colon = start;
    while (colon < end && text[colon] != ':') ++colon;
    if (colon == end) return {NO_COLON, 0, 0, end};
    ConllId id = parse_id(text, start, colon);
    if (id.kind != WORD && id.kind != EMPTY_NODE) return {NO_NUMBER, 0, 0, end};
    if (colon + 1 == end) return {NO_RELATION, 0, 0, end};
    return {NO_DEPS_FAULT, id.i, id.kind == EMPTY_NODE ? id.j : 0, colon + 1};
}

class DepsScanner {
public:
    DepsScanner(u8_1 data, i64_2 columns, out_i64_1 starts, out_i32_1 heads, out_i64_2 spans)
        : text_(data.data), columns_(columns), starts_(starts.data), heads_(heads.data),
          spans_(spans.data) {}

    int64_t n_arcs = 0, n_from_empty = 0, n_repeated = 0;

    // Stores the arcs of sentence `s`, the words first..last - 1. Returns whether it is faulty, and
    // then has no arcs, and `fault` (5,) receives its first fault.
    bool scan_sentence(int64_t s, int64_t first, int64_t last, int64_t* fault) {
        int64_t begin = n_arcs, from_empty = n_from_empty, repeated = n_repeated;
        for (int64_t w = first; w < last; ++w) {
            DepsFault code = scan_word(w, w - first + 1, last - first);
            starts_[w + 1] = n_arcs;
            if (code == NO_DEPS_FAULT) continue;
            fault[0] = code;
            fault[1] = s;
            fault[2] = w;
            fault[3] = item_;
            fault[4] = stop_;
            n_arcs = begin;
            n_from_empty = from_empty;
            n_repeated = repeated;
            for (int64_t v = first; v < last; ++v) starts_[v + 1] = begin;
            return true;
        }
        return false;
    }

private:
    const uint8_t* text_;
    i64_2 columns_;
    int64_t* starts_;
    int32_t* heads_;
    int64_t* spans_;
    int64_t item_ = 0, stop_ = 0;  // of the item that was read last

    // Stores the arcs of word w of the treebank, word m of n in its sentence.
    DepsFault scan_word(int64_t w, int64_t m, int64_t n) {
        const int64_t* columns = columns_.data + w * (N_COLUMNS + 1);
        int64_t start = columns[DEPS], end = columns[DEPS + 1] - 1, first = n_arcs;
        if (is_underscore(text_, start, end)) return NO_DEPS_FAULT;
        while (true) {
            item_ = start;
            stop_ = item_end(text_, start, end);
            DepsItem item = parse_deps_item(text_, start, stop_);
            if (item.fault == NO_DEPS_FAULT && item.i > n) item.fault = OUT_OF_RANGE;
            if (item.fault == NO_DEPS_FAULT && item.i == m && item.j == 0) item.fault = OWN_HEAD;
            if (item.fault != NO_DEPS_FAULT) return item.fault;
            if (item.j > 0)
                ++n_from_empty;
            else if (!insert_arc(first, item))
                ++n_repeated;
            if (stop_ == end) return NO_DEPS_FAULT;
            start = stop_ + 1;
        }
    }

    // Puts an arc among those of its word from `first` on, by its head; false if that head is there.
    bool insert_arc(int64_t first, DepsItem item) {
        int64_t at = n_arcs;
        while (at > first && heads_[at - 1] > item.i) --at;
        if (at > first && heads_[at - 1] == item.i) return false;
        memmove(heads_ + at + 1, heads_ + at, sizeof(int32_t) * (size_t)(n_arcs - at));
        memmove(spans_ + 2 * at + 2, spans_ + 2 * at, sizeof(int64_t) * (size_t)(2 * (n_arcs - at)));
        heads_[at] = item.i;
        spans_[2 * at] = item.relation;
        spans_[2 * at + 1] = stop_;
        ++n_arcs;
        return true;
    }
};

// Is text[start:end] an item of MISC with this key, `KEY=value` or `KEY` alone?
inline bool has_key(const uint8_t* text, int64_t start, int64_t end, const uint8_t* key, int64_t size) {
    if (end - start < size || (end - start > size && text[start + size] != '=')) return false;
    return memcmp(text + start, key, (size_t)size) == 0;
}

// The number under a key of the MISC column text[start:end]; NO_HEAD where there is none. The first
// item with the key counts.
inline int32_t misc_number(const uint8_t* text, int64_t start, int64_t end, u8_1 key) {
    while (start < end) {
        int64_t stop = item_end(text, start, end);
        if (has_key(text, start, stop, key.data, key.n0)) {
            int64_t value = start + key.n0 + 1 < stop ? start + key.n0 + 1 : stop;
            return is_underscore(text, value, stop) ? NO_HEAD : parse_number(text, value, stop);
        }
        start = stop + 1;
    }
    return NO_HEAD;
}

}  // namespace gpuparse
