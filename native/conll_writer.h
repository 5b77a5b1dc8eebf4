// Copying a treebank's bytes with columns replaced.
#pragma once

#include "conll_columns.h"

namespace gpuparse {

constexpr int64_t LONGEST_HEAD = 10;  // digits of the largest int32
constexpr int64_t MAX_KEYS = 62;      // bits of a mask

struct Name {
    const uint8_t* bytes;
    int64_t size;
};

inline Name name_of(const ConllNames& names, int64_t r) {
    return {names.bytes.data + names.ends.data[r], names.ends.data[r + 1] - names.ends.data[r]};
}

inline int64_t n_names(const ConllNames& names) { return names.ends.n0 - 1; }

// Do the ends ascend within the bytes?
inline bool names_fit(const ConllNames& names) {
    if (names.ends.n0 < 1 || names.ends.data[0] < 0) return false;
    for (int64_t r = 0; r < n_names(names); ++r)
        if (names.ends.data[r + 1] < names.ends.data[r]) return false;
    return names.ends.data[n_names(names)] <= names.bytes.n0;
}

// Do the numbers of `count` relations name something?
inline bool relations_fit(const int32_t* relations, int64_t count, const ConllNames& names) {
    for (int64_t k = 0; k < count; ++k)
        if (relations[k] < 0 || relations[k] >= n_names(names)) return false;
    return true;
}

inline bool arcs_fit(const ConllArcs& arcs, int64_t n_words) {
    if (!arcs.names || !names_fit(*arcs.names) || arcs.starts.n0 != n_words + 1 || arcs.starts.data[0] != 0) return false;
    for (int64_t w = 0; w < n_words; ++w)
        if (arcs.starts.data[w + 1] < arcs.starts.data[w]) return false;
    int64_t n_arcs = arcs.starts.data[n_words];
    if (arcs.heads.n0 != n_arcs || arcs.relations.n0 != n_arcs) return false;
    for (int64_t a = 0; a < n_arcs; ++a)
        if (arcs.heads.data[a] < 0) return false;
    return relations_fit(arcs.relations.data, n_arcs, *arcs.names);
}

inline bool replacement_fits(const ConllColumns& replacing, int64_t n_words) {
    if (replacing.heads.n0 != n_words) return false;
    const ConllLabels* labels = replacing.labels;
    if (labels && !(labels->names && names_fit(*labels->names) && labels->labels.n0 == n_words &&
                    relations_fit(labels->labels.data, n_words, *labels->names)))
        return false;
    if (replacing.arcs && !arcs_fit(*replacing.arcs, n_words)) return false;
    const ConllItems* items = replacing.items;
    return !items || (items->keys && names_fit(*items->keys) && n_names(*items->keys) <= MAX_KEYS &&
                      items->values.n0 == n_names(*items->keys) &&
                      (items->values.n0 == 0 || (items->values.n1 == n_words && items->values.n2 > 0)));
}

// The most bytes that are written.
inline int64_t largest_text(u8_1 data, const ConllColumns& replacing) {
    int64_t n_words = replacing.heads.n0, size = data.n0 + n_words * LONGEST_HEAD;
    if (replacing.labels) {
        int64_t longest = 0;
        for (int64_t r = 0; r < n_names(*replacing.labels->names); ++r) {
            int64_t here = name_of(*replacing.labels->names, r).size;
            longest = here > longest ? here : longest;
        }
        size += n_words * longest;
    }
    if (replacing.arcs) {
        const ConllArcs& arcs = *replacing.arcs;
        size += n_words + 1;
        for (int64_t a = 0; a < arcs.relations.n0; ++a)
            size += LONGEST_HEAD + 2 + name_of(*arcs.names, arcs.relations.data[a]).size;
    }
    if (replacing.items) {
        const ConllItems& items = *replacing.items;
        size += n_words * (items.keys->bytes.n0 + items.values.n0 * (items.values.n2 + 2) + 1);
    }
    return size;
}

class ConllWriter {
public:
    ConllWriter(u8_1 data, i64_2 columns, i64_2 dropped, const ConllColumns& replacing, out_u8_1 text)
        : text_(data.data), size_(data.n0), columns_(columns), dropped_(dropped), replacing_(replacing),
          out_{text.data, text.n0} {}

    // The number of bytes written; BAD_SHAPE where offsets do not ascend or the target is too small.
    int64_t write(Arena& arena) {
        for (int64_t w = 0; w < columns_.n0; ++w) {
            const int64_t* columns = columns_.data + w * (N_COLUMNS + 1);
            while (span_ < dropped_.n0 && dropped_.data[2 * span_] < columns[0]) pass_span();
            if (replacing_.heads.data[w] >= NO_HEAD) {
                copy_to(columns[HEAD]);
                write_head(replacing_.heads.data[w]);
                done_ = columns[HEAD + 1] - 1;
            }
            if (replacing_.labels) {
                copy_to(columns[DEPREL]);
                put(name_of(*replacing_.labels->names, replacing_.labels->labels.data[w]));
                done_ = columns[DEPREL + 1] - 1;
            }
            if (replacing_.arcs) {
                copy_to(columns[DEPS]);
                done_ = columns[DEPS + 1] - 1;
                if (!write_deps(columns[DEPS], done_, w, arena)) return NO_MEMORY;
            }
            if (replacing_.items) {
                copy_to(columns[MISC]);
                done_ = columns[MISC + 1] - 1;
                write_misc(columns[MISC], done_, w);
            }
        }
        while (span_ < dropped_.n0) pass_span();
        copy_to(size_);
        return out_.is_full ? (int64_t)BAD_SHAPE : out_.used;
    }

private:
    const uint8_t* text_;
    int64_t size_;
    i64_2 columns_, dropped_;
    const ConllColumns& replacing_;
    ByteTarget out_;
    int64_t done_ = 0, span_ = 0;  // bytes read, spans passed

    // Offsets that do not ascend make the target full.
    void copy_to(int64_t end) {
        if (end < done_ || end > size_) {
            out_.is_full = true;
            return;
        }
        out_.copy(text_ + done_, end - done_);
        done_ = end;
    }

    void pass_span() {
        copy_to(dropped_.data[2 * span_]);
        int64_t end = dropped_.data[2 * span_ + 1];
        if (end < done_) out_.is_full = true;
        done_ = end;
        ++span_;
    }

    void put(Name name) { out_.copy(name.bytes, name.size); }

    void write_head(int32_t head) {
        if (head == NO_HEAD)
            out_.put('_');
        else
            out_.put_number(head);
    }

    struct EmptyItem {
        int32_t i, j;
        int64_t start, end;
    };

    // The items of DEPS whose head is an empty node, by i and j; `items` has room for all.
    int64_t items_from_empty(int64_t start, int64_t end, EmptyItem* items) const {
        int64_t count = 0;
        while (start < end) {
            int64_t stop = item_end(text_, start, end);
            DepsItem item = parse_deps_item(text_, start, stop);
            if (item.fault == NO_DEPS_FAULT && item.j > 0) {
                int64_t k = count++;
                for (; k > 0; --k) {
                    const EmptyItem& before = items[k - 1];
                    if (before.i < item.i || (before.i == item.i && before.j <= item.j)) break;
                    items[k] = before;
                }
                items[k] = {item.i, item.j, start, stop};
            }
            start = stop + 1;
        }
        return count;
    }

    // Writes the arcs of word w and, between them, the items of DEPS text[start:end] whose head is an
    // empty node. False where memory runs out.
    bool write_deps(int64_t start, int64_t end, int64_t w, Arena& arena) {
        const ConllArcs& arcs = *replacing_.arcs;
        ArenaMark mark(arena);
        int64_t room = 1;
        for (int64_t at = start; at < end; ++at) room += text_[at] == '|';
        EmptyItem* items = arena.take<EmptyItem>(room);
        if (!items) return false;
        int64_t n_items = items_from_empty(start, end, items);
        int64_t begin = out_.used, k = 0, last = arcs.starts.data[w + 1];
        for (int64_t a = arcs.starts.data[w]; a <= last; ++a) {
            for (; k < n_items && (a == last || items[k].i < arcs.heads.data[a]); ++k) {
                if (out_.used > begin) out_.put('|');
                out_.copy(text_ + items[k].start, items[k].end - items[k].start);
            }
            if (a == last) break;
            if (out_.used > begin) out_.put('|');
            write_head(arcs.heads.data[a]);
            out_.put(':');
            put(name_of(*arcs.names, arcs.relations.data[a]));
        }
        if (out_.used == begin) out_.put('_');
        return true;
    }

    // Writes `KEY=value`, the value up to its first byte of 0; behind a `|` unless it is the first.
    void write_item(int64_t k, const uint8_t* value, bool is_first) {
        const ConllItems& items = *replacing_.items;
        if (!is_first) out_.put('|');
        put(name_of(*items.keys, k));
        out_.put('=');
        for (int64_t i = 0; i < items.values.n2 && value[i] != 0; ++i) out_.put(value[i]);
    }

    // Writes MISC text[start:end] with the values of word w: an item whose key is replaced where it
    // first occurs, further ones last, in their order.
    void write_misc(int64_t start, int64_t end, int64_t w) {
        const ConllItems& items = *replacing_.items;
        int64_t n_keys = items.values.n0, n_items = 0;
        uint64_t placed = 0;
        int64_t item = end == start || is_underscore(text_, start, end) ? end + 1 : start;
        while (item <= end) {
            int64_t stop = item_end(text_, item, end), k = 0;
            for (; k < n_keys; ++k) {
                Name key = name_of(*items.keys, k);
                if (has_key(text_, item, stop, key.bytes, key.size)) break;
            }
            if (k == n_keys) {
                if (n_items++ > 0) out_.put('|');
                out_.copy(text_ + item, stop - item);
            } else if (!(placed >> k & 1)) {
                placed |= (uint64_t)1 << k;
                if (value_of(k, w)[0] != 0) write_item(k, value_of(k, w), n_items++ == 0);
            }
            item = stop + 1;
        }
        for (int64_t k = 0; k < n_keys; ++k)
            if (!(placed >> k & 1) && value_of(k, w)[0] != 0)
                write_item(k, value_of(k, w), n_items++ == 0);
        if (n_items == 0 && end > start) out_.put('_');
    }

    const uint8_t* value_of(int64_t k, int64_t w) const {
        u8_3 values = replacing_.items->values;
        return values.data + (k * values.n1 + w) * values.n2;
    }
};

}  // namespace gpuparse
