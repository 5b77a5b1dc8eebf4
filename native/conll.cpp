// The exported functions of reading and writing CoNLL files, and of numbers for strings.
#include "api/conll.h"

#include "conll_columns.h"
#include "conll_scanner.h"
#include "conll_writer.h"
#include "strings.h"

using namespace gpuparse;

static int64_t lines_of(u8_1 data) {
    int64_t count = 0;
    for (int64_t i = 0; i < data.n0; ++i) count += data.data[i] == LINE_FEED;
    return count + (data.n0 > 0 && data.data[data.n0 - 1] != LINE_FEED);
}

GPUPARSE(int64_t) scan_conll(u8_1 data, int64_t max_line, bool stop_at_fault,
                             const ConllTable* found, out_i64_1 counts) {
    int64_t n_lines = lines_of(data);
    const ConllTable& table = *found;
    bool has_room = table.columns.n0 >= n_lines && table.columns.n1 == N_COLUMNS + 1 &&
                    table.heads.n0 >= n_lines && table.lines.n0 >= n_lines &&
                    table.word_starts.n0 >= n_lines + 1 && table.spans.n0 >= n_lines &&
                    table.spans.n1 == 2 && table.faults.n0 >= n_lines && table.faults.n1 == 6 &&
                    counts.n0 == 4;
    if (!has_room) return BAD_SHAPE;
    Arena arena;
    int32_t* tabs = arena.take<int32_t>(n_lines);
    if (!tabs) return NO_MEMORY;
    ConllScanner scanner(data, max_line, stop_at_fault, table, tabs);
    scanner.scan();
    counts.data[0] = scanner.n_words;
    counts.data[1] = scanner.n_sentences;
    counts.data[2] = scanner.n_faults;
    counts.data[3] = scanner.n_crlf;
    return OK;
}

GPUPARSE(int64_t) replaced_size(u8_1 data, const ConllColumns* replacing) {
    if (!replacement_fits(*replacing, replacing->heads.n0)) return BAD_SHAPE;
    return largest_text(data, *replacing);
}

GPUPARSE(int64_t) replace_columns(u8_1 data, i64_2 columns, i64_2 dropped,
                                  const ConllColumns* replacing, out_u8_1 text) {
    if (!columns_fit(columns, data.n0) || !replacement_fits(*replacing, columns.n0)) return BAD_SHAPE;
    if (dropped.n0 > 0 && dropped.n1 != 2) return BAD_SHAPE;
    Arena arena;
    return ConllWriter(data, columns, dropped, *replacing, text).write(arena);
}

GPUPARSE(int64_t) set_columns(u8_1 data, i64_2 columns, int64_t first, u8_1 names, i64_1 ends,
                              i32_2 ids, out_u8_1 text) {
    const int64_t n_words = columns.n0, count = ids.n0;
    if (!columns_fit(columns, data.n0) || first < 0 || count < 1 || first + count > 10 || ids.n1 != n_words ||
        !are_starts(ends, names.n0))
        return BAD_SHAPE;
    // The size first: nothing is written where it does not fit.
    int64_t size = data.n0, read = 0;
    for (int64_t w = 0; w < n_words; ++w) {
        if (columns.data[11 * w + first] < read) return BAD_SHAPE;  // words in order
        read = columns.data[11 * w + first + count] - 1;
        size -= columns.data[11 * w + first + count] - columns.data[11 * w + first] - count;
        for (int64_t c = 0; c < count; ++c) {
            const int32_t id = ids.data[c * n_words + w];
            if (!is_between(0, id, ends.n0 - 1)) return BAD_SHAPE;
            size += ends.data[id + 1] - ends.data[id];
        }
    }
    if (size != text.n0) return BAD_SHAPE;
    read = 0;
    uint8_t* to = text.data;
    const auto copy = [&](const uint8_t* from, int64_t bytes) {
        if (bytes) memcpy(to, from, (size_t)bytes);
        to += bytes;
    };
    for (int64_t w = 0; w < n_words; ++w) {
        copy(data.data + read, columns.data[11 * w + first] - read);
        for (int64_t c = 0; c < count; ++c) {
            const int32_t id = ids.data[c * n_words + w];
            if (c) *to++ = '\t';
            copy(names.data + ends.data[id], ends.data[id + 1] - ends.data[id]);
        }
        read = columns.data[11 * w + first + count] - 1;
    }
    copy(data.data + read, data.n0 - read);
    return OK;
}

GPUPARSE(int64_t) scan_misc_numbers(u8_1 data, i64_2 columns, u8_1 key, out_i32_1 numbers) {
    if (!columns_fit(columns, data.n0) || numbers.n0 != columns.n0) return BAD_SHAPE;
    for (int64_t w = 0; w < columns.n0; ++w)
        numbers.data[w] = misc_number(column_of(data, columns, w, MISC), {key.data, key.data + key.n0});
    return OK;
}

static int64_t deps_of(u8_1 data, i64_2 columns) {
    int64_t count = 0;
    for (int64_t w = 0; w < columns.n0; ++w) count += count_items(column_of(data, columns, w, DEPS));
    return count;
}

GPUPARSE(int64_t) count_deps(u8_1 data, i64_2 columns) {
    return columns_fit(columns, data.n0) ? deps_of(data, columns) : (int64_t)BAD_SHAPE;
}

GPUPARSE(int64_t) scan_deps(u8_1 data, i64_2 columns, i64_1 word_starts, out_i64_1 starts,
                            out_i32_1 heads, out_i64_2 spans, out_i64_2 faults) {
    int64_t n_words = columns.n0, n_sentences = word_starts.n0 - 1;
    if (!are_starts(word_starts, n_words) || !columns_fit(columns, data.n0)) return BAD_SHAPE;
    int64_t room = deps_of(data, columns);
    if (starts.n0 != n_words + 1 || heads.n0 < room || spans.n0 < room || spans.n1 != 2 ||
        faults.n0 < n_sentences || faults.n1 != 5)
        return BAD_SHAPE;
    DepsScanner scanner(data, columns, starts, heads, spans);
    int64_t n_faults = 0;
    starts.data[0] = 0;
    for (int64_t s = 0; s < n_sentences; ++s)
        n_faults += scanner.scan_sentence(s, word_starts.data[s], word_starts.data[s + 1],
                                          faults.data + 5 * n_faults);
    return n_faults;
}

GPUPARSE(int64_t) find_text(u8_1 data, u8_1 text) {
    if (data.n0 == 0 || text.n0 == 0) return text.n0 == 0 ? 0 : -1;
    const void* found = memmem(data.data, (size_t)data.n0, text.data, (size_t)text.n0);
    return found ? (const uint8_t*)found - data.data : -1;
}

GPUPARSE(int64_t) first_difference(u8_1 data, i64_2 columns, u8_1 other, i64_2 other_columns,
                                   int64_t column) {
    if (columns.n0 != other_columns.n0 || column < 0 || column >= N_COLUMNS ||
        !columns_fit(columns, data.n0) || !columns_fit(other_columns, other.n0))
        return BAD_SHAPE;
    for (int64_t w = 0; w < columns.n0; ++w) {
        if (!are_same(column_of(data, columns, w, column), column_of(other, other_columns, w, column))) return w;
    }
    return -1;
}

GPUPARSE(int64_t) find_strings(u8_1 data, i64_1 starts, i64_1 stops, const StringTable* table,
                               out_i32_1 ids) {
    if (!strings_fit(data, starts, stops) || !table_fits(*table) || ids.n0 != starts.n0) return BAD_SHAPE;
    for (int64_t k = 0; k < starts.n0; ++k) {
        const Slice text = {data.data + starts.data[k], data.data + stops.data[k]};
        const int64_t slot = find_slot(text, hash_bytes(text, table->key), *table);
        if (slot < 0) return BAD_SHAPE;
        ids.data[k] = table->slots.data[slot];
    }
    return OK;
}

GPUPARSE(int64_t) add_strings(u8_1 data, i64_1 starts, i64_1 stops, const StringTable* table,
                              int64_t first, out_i64_1 size, out_i32_1 ids) {
    if (!strings_fit(data, starts, stops) || !table_fits(*table) || ids.n0 != starts.n0 ||
        size.n0 != 1 || !is_between(0, size.data[0], table->hashes.n0 + 1) || first < 0)
        return BAD_SHAPE;
    int64_t& count = size.data[0];
    for (int64_t k = first; k < starts.n0; ++k) {
        const Slice text = {data.data + starts.data[k], data.data + stops.data[k]};
        const uint64_t hashed = hash_bytes(text, table->key);
        const int64_t slot = find_slot(text, hashed, *table), used = table->ends.data[count];
        if (slot < 0 || used < 0) return BAD_SHAPE;
        if (table->slots.data[slot] == EMPTY_SLOT) {
            if (count == table->hashes.n0 || text.size() > table->pool.n0 - used) return k;
            if (text.size() > 0) memcpy(table->pool.data + used, text.start, (size_t)text.size());
            table->hashes.data[count] = hashed;
            table->ends.data[count + 1] = used + text.size();
            __atomic_store_n(table->slots.data + slot, (int32_t)count, __ATOMIC_RELEASE);
            ++count;
        }
        ids.data[k] = table->slots.data[slot];
    }
    return starts.n0;
}

GPUPARSE(int64_t) fill_slots(const StringTable* table, int64_t size) {
    if (!table_fits(*table) || !is_between(0, size, table->hashes.n0 + 1)) return BAD_SHAPE;
    const uint64_t mask = (uint64_t)table->slots.n0 - 1;
    for (int64_t i = 0; i < table->slots.n0; ++i)
        if (table->slots.data[i] != EMPTY_SLOT) return BAD_SHAPE;
    for (int64_t i = 0; i < size; ++i) {
        uint64_t slot = table->hashes.data[i] & mask;
        while (table->slots.data[slot] != EMPTY_SLOT) slot = (slot + 1) & mask;
        table->slots.data[slot] = (int32_t)i;
    }
    return OK;
}

GPUPARSE(int64_t) number_rows(i32_2 rows, int64_t key, out_i32_1 numbers, out_i64_1 firsts) {
    const int64_t n = rows.n0, bytes = rows.n1 * (int64_t)sizeof(int32_t);
    if (numbers.n0 != n || firsts.n0 != n || n >= INT32_MAX || (n && !bytes)) return BAD_SHAPE;
    int64_t n_slots = 64, count = 0;
    while (n_slots < 2 * n) n_slots *= 2;
    Arena arena;
    int32_t* slots = arena.take_filled<int32_t>(n_slots, EMPTY_SLOT);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t i = 0; i < n; ++i) {
        const uint8_t* row = (const uint8_t*)(rows.data + i * rows.n1);
        uint64_t slot = hash_bytes({row, row + bytes}, key) & (uint64_t)(n_slots - 1);
        while (slots[slot] != EMPTY_SLOT &&
               memcmp(rows.data + firsts.data[slots[slot]] * rows.n1, row, (size_t)bytes) != 0)
            slot = (slot + 1) & (uint64_t)(n_slots - 1);
        if (slots[slot] == EMPTY_SLOT) {
            firsts.data[count] = i;
            slots[slot] = (int32_t)count++;
        }
        numbers.data[i] = slots[slot];
    }
    return count;
}
