// Copying a treebank's bytes with columns replaced.
#pragma once

#include "conll_columns.h"

namespace gpuparse {

constexpr int64_t LONGEST_HEAD = 10;  // digits of the largest int32
constexpr int64_t MAX_KEYS = 62;      // bits of a mask

inline Slice name_of(const ConllNames& names, int64_t r) {
    return {names.bytes.data + names.ends.data[r], names.bytes.data + names.ends.data[r + 1]};
}

inline int64_t n_names(const ConllNames& names) { return names.ends.n0 - 1; }

inline bool names_fit(const ConllNames* names) { return names && are_starts(names->ends, names->bytes.n0); }

inline bool arcs_fit(const ConllArcs& arcs, int64_t n_words) {
    const int64_t n_arcs = arcs.heads.n0;
    return names_fit(arcs.names) && arcs.starts.n0 == n_words + 1 && are_starts(arcs.starts, n_arcs) &&
           arcs.relations.n0 == n_arcs && are_between(0, arcs.heads, (int64_t)1 << 31) &&
           are_between(0, arcs.relations, n_names(*arcs.names));
}

inline bool replacement_fits(const ConllColumns& replacing, int64_t n_words) {
    if (replacing.heads.n0 != n_words) return false;
    const ConllLabels* labels = replacing.labels;
    if (labels && !(names_fit(labels->names) && labels->labels.n0 == n_words &&
                    are_between(0, labels->labels, n_names(*labels->names))))
        return false;
    if (replacing.arcs && !arcs_fit(*replacing.arcs, n_words)) return false;
    const ConllItems* items = replacing.items;
    return !items || (names_fit(items->keys) && n_names(*items->keys) <= MAX_KEYS &&
                      items->values.n0 == n_names(*items->keys) &&
                      (items->values.n0 == 0 || (items->values.n1 == n_words && items->values.n2 > 0)));
}

// The most bytes that are written.
inline int64_t largest_text(u8_1 data, const ConllColumns& replacing) {
    int64_t n_words = replacing.heads.n0, size = data.n0 + n_words * LONGEST_HEAD;
    if (replacing.labels) {
        int64_t longest = 0;
        for (int64_t r = 0; r < n_names(*replacing.labels->names); ++r) {
            const int64_t here = name_of(*replacing.labels->names, r).size();
            longest = here > longest ? here : longest;
        }
        size += n_words * longest;
    }
    if (replacing.arcs) {
        const ConllArcs& arcs = *replacing.arcs;
        size += n_words + 1;
        for (int64_t a = 0; a < arcs.relations.n0; ++a)
            size += LONGEST_HEAD + 2 + name_of(*arcs.names, arcs.relations.data[a]).size();
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
        : data_(data), columns_(columns), dropped_(dropped), replacing_(replacing),
          out_{text.data, text.n0} {}

    // The number of bytes written; BAD_SHAPE where offsets do not ascend or the target is too small.
    int64_t write(Arena& arena) {
        for (int64_t w = 0; w < columns_.n0; ++w) {
            const int64_t* columns = columns_.data + w * (N_COLUMNS + 1);
            while (span_ < dropped_.n0 && dropped_.data[2 * span_] < columns[0]) pass_span();
            if (replacing_.heads.data[w] >= NO_HEAD) {
                pass_column(columns, HEAD);
                write_head(replacing_.heads.data[w]);
            }
            if (replacing_.labels) {
                pass_column(columns, DEPREL);
                out_.copy(name_of(*replacing_.labels->names, replacing_.labels->labels.data[w]));
            }
            if (replacing_.arcs && !write_deps(pass_column(columns, DEPS), w, arena)) return NO_MEMORY;
            if (replacing_.items) write_misc(pass_column(columns, MISC), w);
        }
        while (span_ < dropped_.n0) pass_span();
        copy_to(data_.n0);
        return out_.is_full ? (int64_t)BAD_SHAPE : out_.used;
    }

private:
    u8_1 data_;
    i64_2 columns_, dropped_;
    const ConllColumns& replacing_;
    ByteTarget out_;
    int64_t done_ = 0, span_ = 0;  // bytes read, spans passed

    // Copies the bytes up to `end`; offsets that do not ascend make the target full.
    void copy_to(int64_t end) {
        if (end < done_ || end > data_.n0) {
            out_.is_full = true;
            return;
        }
        out_.copy({data_.data + done_, data_.data + end});
        done_ = end;
    }

    // Copies the bytes up to a column, and leaves the column out.
    Slice pass_column(const int64_t* columns, int64_t c) {
        copy_to(columns[c]);
        done_ = columns[c + 1] - 1;
        return column_of(data_.data, columns, c);
    }

    void pass_span() {
        copy_to(dropped_.data[2 * span_]);
        int64_t end = dropped_.data[2 * span_ + 1];
        if (end < done_) out_.is_full = true;
        done_ = end;
        ++span_;
    }

    void write_head(int32_t head) {
        if (head == NO_HEAD)
            out_.put('_');
        else
            out_.put_number(head);
    }

    // Writes the arcs of word w and, between them, the items of DEPS whose head is an empty node. False
    // where memory runs out.
    bool write_deps(Slice column, int64_t w, Arena& arena) {
        const ConllArcs& arcs = *replacing_.arcs;
        ArenaMark mark(arena);
        DepsItem* items = arena.take<DepsItem>(count_items(column));
        if (!items) return false;
        int64_t n_items = 0;
        for_items(column, [&](Slice text) {
            const DepsItem item = parse_deps_item(text);
            if (item.fault != NO_DEPS_FAULT || item.j == 0) return true;
            int64_t k = n_items++;  // by i and j
            for (; k > 0; --k) {
                const DepsItem& before = items[k - 1];
                if (before.i < item.i || (before.i == item.i && before.j <= item.j)) break;
                items[k] = before;
            }
            items[k] = item;
            return true;
        });
        const int64_t begin = out_.used, last = arcs.starts.data[w + 1];
        int64_t k = 0;
        for (int64_t a = arcs.starts.data[w]; a <= last; ++a) {
            for (; k < n_items && (a == last || items[k].i < arcs.heads.data[a]); ++k) {
                if (out_.used > begin) out_.put('|');
                out_.copy(items[k].text);
            }
            if (a == last) break;
            if (out_.used > begin) out_.put('|');
            write_head(arcs.heads.data[a]);
            out_.put(':');
            out_.copy(name_of(*arcs.names, arcs.relations.data[a]));
        }
        if (out_.used == begin) out_.put('_');
        return true;
    }

    // Writes MISC with the values of word w: an item whose key is replaced where it first occurs,
    // further ones last, in their order.
    void write_misc(Slice column, int64_t w) {
        const ConllItems& items = *replacing_.items;
        const int64_t n_keys = items.values.n0;
        int64_t n_items = 0;
        uint64_t placed = 0;
        const auto write_item = [&](int64_t k) {  // `KEY=value`, the value up to its first byte of 0
            const uint8_t* value = items.values.data + (k * items.values.n1 + w) * items.values.n2;
            if (placed >> k & 1 || value[0] == 0) return;
            if (n_items++ > 0) out_.put('|');
            out_.copy(name_of(*items.keys, k));
            out_.put('=');
            for (int64_t i = 0; i < items.values.n2 && value[i] != 0; ++i) out_.put(value[i]);
        };
        if (column.size() > 0 && !column.is_underscore())
            for_items(column, [&](Slice item) {
                int64_t k = 0;
                while (k < n_keys && !has_key(item, name_of(*items.keys, k))) ++k;
                if (k < n_keys) {
                    write_item(k);
                    placed |= (uint64_t)1 << k;
                } else {
                    if (n_items++ > 0) out_.put('|');
                    out_.copy(item);
                }
                return true;
            });
        for (int64_t k = 0; k < n_keys; ++k) write_item(k);
        if (n_items == 0 && column.size() > 0) out_.put('_');
    }
};

}  // namespace gpuparse
