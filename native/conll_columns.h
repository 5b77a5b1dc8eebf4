// The columns DEPS and MISC: their items, read and written.
#pragma once

#include "conll_scanner.h"

namespace gpuparse {

// Call visit(item) for the items of a column, which `|` joins, until it returns false.
template <class Visit>
inline void for_items(Slice column, Visit visit) {
    while (true) {
        const void* bar = column.size() > 0 ? memchr(column.start, '|', (size_t)column.size()) : nullptr;
        const Slice item = {column.start, bar ? static_cast<const uint8_t*>(bar) : column.end};
        if (!visit(item) || !bar) return;
        column.start = item.end + 1;
    }
}

inline int64_t count_items(Slice column) {
    int64_t count = 1;
    for (const uint8_t* at = column.start; at < column.end; ++at) count += *at == '|';
    return count;
}

// Faults of an item of DEPS; the codes are those of gpuparse/data/faults.py.
enum DepsFault { NO_DEPS_FAULT, NO_COLON, NO_NUMBER, NO_RELATION, OUT_OF_RANGE, OWN_HEAD };

// An item `head:relation` of DEPS. Word i has j = 0, empty node i.j has j > 0.
struct DepsItem {
    DepsFault fault;
    int32_t i, j;
    Slice text, relation;
};

inline DepsItem parse_deps_item(Slice text) {
    const uint8_t* colon = text.start;
    while (colon < text.end && *colon != ':') ++colon;
    if (colon == text.end) return {NO_COLON, 0, 0, text, {}};
    const ConllId id = parse_id({text.start, colon});
    if (id.kind != WORD && id.kind != EMPTY_NODE) return {NO_NUMBER, 0, 0, text, {}};
    if (colon + 1 == text.end) return {NO_RELATION, 0, 0, text, {}};
    return {NO_DEPS_FAULT, id.i, id.kind == EMPTY_NODE ? id.j : 0, text, {colon + 1, text.end}};
}

class DepsScanner {
public:
    DepsScanner(u8_1 data, i64_2 columns, out_i64_1 starts, out_i32_1 heads, out_i64_2 spans)
        : data_(data), columns_(columns), starts_(starts.data), heads_(heads.data), spans_(spans.data) {}

    int64_t n_arcs = 0;

    // Stores the arcs of sentence `s`, the words first..last - 1. Returns whether it is faulty, and
    // then has no arcs, and `fault` (5,) receives its first fault.
    bool scan_sentence(int64_t s, int64_t first, int64_t last, int64_t* fault) {
        const int64_t begin = n_arcs;
        for (int64_t w = first; w < last; ++w) {
            const DepsItem item = scan_word(w, w - first + 1, last - first);
            starts_[w + 1] = n_arcs;
            if (item.fault == NO_DEPS_FAULT) continue;
            const int64_t found[] = {item.fault, s, w, item.text.start - data_.data,
                                     item.text.end - data_.data};
            memcpy(fault, found, sizeof(found));
            n_arcs = begin;
            for (int64_t v = first; v < last; ++v) starts_[v + 1] = begin;
            return true;
        }
        return false;
    }

private:
    u8_1 data_;
    i64_2 columns_;
    int64_t* starts_;
    int32_t* heads_;
    int64_t* spans_;

    // Stores the arcs of word w of the treebank, word m of n in its sentence; returns the item that was
    // read last.
    DepsItem scan_word(int64_t w, int64_t m, int64_t n) {
        const Slice column = column_of(data_, columns_, w, DEPS);
        const int64_t first = n_arcs;
        DepsItem item = {NO_DEPS_FAULT, 0, 0, column, {}};
        if (column.is_underscore()) return item;
        for_items(column, [&](Slice text) {
            item = parse_deps_item(text);
            if (item.fault == NO_DEPS_FAULT && item.i > n) item.fault = OUT_OF_RANGE;
            if (item.fault == NO_DEPS_FAULT && item.i == m && item.j == 0) item.fault = OWN_HEAD;
            if (item.fault != NO_DEPS_FAULT) return false;
            if (item.j == 0) insert_arc(first, item);
            return true;
        });
        return item;
    }

    // Puts an arc among those of its word from `first` on, by its head, unless that head is there.
    void insert_arc(int64_t first, const DepsItem& item) {
        int64_t at = n_arcs;
        while (at > first && heads_[at - 1] > item.i) --at;
        if (at > first && heads_[at - 1] == item.i) return;
        memmove(heads_ + at + 1, heads_ + at, sizeof(int32_t) * (size_t)(n_arcs - at));
        memmove(spans_ + 2 * at + 2, spans_ + 2 * at, sizeof(int64_t) * (size_t)(2 * (n_arcs - at)));
        heads_[at] = item.i;
        spans_[2 * at] = item.relation.start - data_.data;
        spans_[2 * at + 1] = item.relation.end - data_.data;
        ++n_arcs;
    }
};

// Is this an item of MISC with a key, `KEY=value` or `KEY` alone?
inline bool has_key(Slice item, Slice key) {
    if (item.size() < key.size() || (item.size() > key.size() && item.start[key.size()] != '='))
        return false;
    return memcmp(item.start, key.start, (size_t)key.size()) == 0;
}

// The number under a key of MISC; NO_HEAD where there is none. The first item with the key counts.
inline int32_t misc_number(Slice column, Slice key) {
    int32_t number = NO_HEAD;
    for_items(column, [&](Slice item) {
        if (item.size() == 0 || !has_key(item, key)) return true;
        number = item.size() > key.size() ? parse_head({item.start + key.size() + 1, item.end}) : BAD_NUMBER;
        return false;
    });
    return number;
}

}  // namespace gpuparse
