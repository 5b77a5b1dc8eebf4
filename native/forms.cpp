// Values of fields of forms, and keys of rows of a network that scores tags.
#include "api/forms.h"

#include "arena.h"
#include "strings.h"

using namespace gpuparse;

namespace {

enum FormField {
    NO_FIELD, FORM, LOWER, FIRST, LAST, RUNS, KINDS, CASE, SEEN, SEEN_BUT_LAST, SEEN_BUT_FIRST, SEEN_BEHIND, N_FIELDS,
};
constexpr int64_t MOST_KINDS = 40, MOST_RUNS = 12;  // characters of a shape
constexpr int64_t MOST_SEEN = 4, FEW_SEEN = 3;      // tags; words
constexpr double SHARE_SEEN = 0.02;                 // of the words that were seen

struct CrcTable {
    uint32_t of_bytes[256];
    constexpr CrcTable() : of_bytes{} {
        for (uint32_t byte = 0; byte < 256; ++byte) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
            of_bytes[byte] = crc;
        }
    }
};
constexpr CrcTable CRC;

uint32_t value_of(Slice text) {
    uint32_t crc = ~0u;
    for (const uint8_t* at = text.start; at < text.end; ++at) crc = CRC.of_bytes[(crc ^ *at) & 255] ^ crc >> 8;
    return ~crc | 4;
}

uint32_t mixed(uint32_t value, uint32_t name) {
    uint32_t key = (value ^ name) * 0x85EBCA6Bu;
    key = (key ^ key >> 13) * 0xC2B2AE35u;
    return key ^ key >> 16;
}

// Where the character behind `at` begins, and the one before it.
const uint8_t* next_character(const uint8_t* at, const uint8_t* end) {
    do ++at;
    while (at < end && (*at & 0xC0) == 0x80);
    return at;
}
const uint8_t* last_character(const uint8_t* at, const uint8_t* start) {
    do --at;
    while (at > start && (*at & 0xC0) == 0x80);
    return at;
}

// The end of the first n characters, and the start of the last n; NULL where there are fewer.
const uint8_t* end_of_first(Slice text, int64_t n) {
    const uint8_t* at = text.start;
    for (; n > 0 && at < text.end; --n) at = next_character(at, text.end);
    return n ? nullptr : at;
}
const uint8_t* start_of_last(Slice text, int64_t n) {
    const uint8_t* at = text.end;
    for (; n > 0 && at > text.start; --n) at = last_character(at, text.start);
    return n ? nullptr : at;
}

uint32_t value_of_runs(Slice kinds) {
    uint8_t text[4 * MOST_RUNS];
    int64_t size = 0, runs = 0, seen = 0;
    Slice before{kinds.start, kinds.start};
    for (const uint8_t* at = kinds.start; at < kinds.end && seen < MOST_KINDS && runs < MOST_RUNS; ++seen) {
        const Slice one{at, next_character(at, kinds.end)};
        at = one.end;
        const bool is_same = are_same(one, before);
        before = one;
        if (is_same || one.size() > 4) continue;
        memcpy(text + size, one.start, (size_t)one.size());
        size += one.size();
        ++runs;
    }
    return value_of({text, text + size});
}

uint32_t value_of_case(Slice form, Slice kinds) {
    bool has_digit = false, has_hyphen = false, has_lower = false, has_upper = false, has_other_upper = false;
    if (ascii_prefix(form.start, form.size()) < form.size()) return 0;
    for (const uint8_t* at = kinds.start; at < kinds.end; ++at) {
        has_digit |= *at == 'd';
        has_hyphen |= *at == '-';
        has_lower |= *at == 'x';
        has_upper |= *at == 'X';
        has_other_upper |= *at == 'X' && at > kinds.start;
    }
    uint8_t text[8], *to = text;
    if (has_digit) *to++ = 'd';
    if (has_hyphen) *to++ = '-';
    if (kinds.size() && *kinds.start == 'X') *to++ = 'U';
    if (has_upper && !has_lower) *to++ = 'A';
    if (has_other_upper) *to++ = 'M';
    if (!has_upper && !has_lower && !has_digit) *to++ = 'P';
    if (to == text) *to++ = '-';
    return value_of({text, to});
}

class Seen {
public:
    Seen(const StringTable& names, u32_1 known) : names_(names), known_(known) {}

    uint32_t value(Slice text) const {
        const int64_t slot = find_slot(text, hash_bytes(text, names_.key), names_);
        const int64_t i = slot < 0 ? EMPTY_SLOT : names_.slots.data[slot];
        return is_between(0, i, known_.n0) ? known_.data[i] : 0;
    }
    uint32_t value_of_part(Slice text) const { return end_of_first(text, 2) ? value(text) : 0; }

private:
    const StringTable& names_;
    u32_1 known_;
};

uint32_t value_of_field(int64_t field, int64_t n, Slice form, Slice lower, Slice kinds, const Seen& seen) {
    switch (field) {
    case FORM: return value_of(form);
    case LOWER: return value_of(lower);
    case FIRST: {
        const uint8_t* end = end_of_first(lower, n);
        return end ? value_of({lower.start, end}) : 0;
    }
    case LAST: {
        const uint8_t* start = start_of_last(lower, n);
        return start ? value_of({start, lower.end}) : 0;
    }
    case RUNS: return value_of_runs(kinds);
    case KINDS: {
        const uint8_t* end = end_of_first(kinds, n);
        return value_of({kinds.start, end ? end : kinds.end});
    }
    case CASE: return value_of_case(form, kinds);
    case SEEN: return seen.value(lower);
    case SEEN_BUT_LAST: {
        const uint8_t* end = start_of_last(lower, n);
        return end ? seen.value_of_part({lower.start, end}) : 0;
    }
    case SEEN_BUT_FIRST: {
        const uint8_t* start = end_of_first(lower, n);
        return start ? seen.value_of_part({start, lower.end}) : 0;
    }
    case SEEN_BEHIND:
        for (const uint8_t* at = lower.end; at > lower.start; --at)
            if (at[-1] == '-' || at[-1] == '/') return seen.value({at, lower.end});
        return 0;
    default: return 0;
    }
}

// Appends texts to a room that is large enough.
class Text {
public:
    explicit Text(uint8_t* room) : start_(room), end_(room) {}

    void add(uint8_t byte) { *end_++ = byte; }
    void add(Slice text) {
        if (text.size()) memcpy(end_, text.start, (size_t)text.size());
        end_ += text.size();
    }
    Slice all() const { return {start_, end_}; }

private:
    uint8_t *start_, *end_;
};

// True if a text comes first in the order of characters, which is that of bytes of UTF-8.
bool is_before(Slice one, Slice other) {
    const int64_t size = one.size() < other.size() ? one.size() : other.size();
    const int order = size ? memcmp(one.start, other.start, (size_t)size) : 0;
    return order ? order < 0 : one.size() < other.size();
}

// The text before the first tab of a line.
Slice first_field(Slice line) {
    const uint8_t* at = line.start;
    while (at < line.end && *at != TAB) ++at;
    return {line.start, at};
}

// The lines of a text, of which there are `count`.
class Lines {
public:
    explicit Lines(u8_1 text) : at_(text.data), end_(text.data + text.n0) {}

    static int64_t feeds(u8_1 text) {
        int64_t found = 0;
        for (int64_t i = 0; i < text.n0; ++i) found += text.data[i] == LINE_FEED;
        return found;
    }
    static bool fit(u8_1 text, int64_t count) { return feeds(text) + (count > 0) == count; }
    Slice next() {
        const uint8_t* start = at_;
        while (at_ < end_ && *at_ != LINE_FEED) ++at_;
        const Slice line{start, at_};
        at_ += at_ < end_;
        return line;
    }

private:
    const uint8_t *at_, *end_;
};

}  // namespace

GPUPARSE(int64_t) read_forms(const FormTexts* texts, i64_2 fields, const StringTable* seen, u32_1 known,
                             out_u32_2 values) {
    const int64_t n = values.n0;
    if (!table_fits(*seen) || fields.n0 != values.n1 || (fields.n0 && fields.n1 != 2) ||
        !Lines::fit(texts->forms, n) || !Lines::fit(texts->lowers, n) || !Lines::fit(texts->kinds, n))
        return BAD_SHAPE;
    for (int64_t f = 0; f < fields.n0; ++f)
        if (!is_between(0, fields.data[2 * f], N_FIELDS) || !is_between(0, fields.data[2 * f + 1], 10)) return BAD_SHAPE;
    Lines forms(texts->forms), lowers(texts->lowers), kinds(texts->kinds);
    const Seen of_words(*seen, known);
    for (int64_t i = 0; i < n; ++i) {
        const Slice form = forms.next(), lower = lowers.next(), of_form = kinds.next();
        for (int64_t f = 0; f < fields.n0; ++f) {
            const int64_t* field = fields.data + 2 * f;
            values.data[i * fields.n0 + f] = value_of_field(field[0], field[1], form, lower, of_form, of_words);
        }
    }
    return OK;
}

GPUPARSE(int64_t) find_form_keys(u32_2 values, u32_1 names, u8_1 lowers, i64_1 sizes, int64_t ngram_name,
                                 out_u32_2 keys, out_i64_1 counts) {
    const int64_t n = values.n0, n_fields = names.n0, most = keys.n1 - n_fields;
    if (values.n1 != n_fields || most < 0 || keys.n0 != n || counts.n0 != n || !Lines::fit(lowers, n) ||
        !are_between(1, sizes, 10))
        return BAD_SHAPE;
    Arena arena;
    uint8_t* text = arena.take<uint8_t>(lowers.n0 + 2);
    const uint8_t** starts = arena.take<const uint8_t*>(lowers.n0 + 3);
    Slice* ngrams = arena.take<Slice>(most + 1);
    uint32_t* of_ngrams = arena.take<uint32_t>(most + 1);
    if (arena.failed()) return NO_MEMORY;
    Lines lines(lowers);
    for (int64_t i = 0; i < n; ++i) {
        uint32_t* to = keys.data + i * keys.n1;
        for (int64_t f = 0; f < n_fields; ++f) {
            const uint32_t value = values.data[i * n_fields + f];
            if (value) *to++ = mixed(value, names.data[f]);
        }
        const Slice lower = lines.next();
        const uint8_t* end = text + lower.size() + 2;
        text[0] = '<';
        if (lower.size()) memcpy(text + 1, lower.start, (size_t)lower.size());
        text[lower.size() + 1] = '>';
        int64_t length = 0, found = 0;
        for (const uint8_t* at = text; at < end; at = next_character(at, end)) starts[length++] = at;
        starts[length] = end;
        for (int64_t s = 0; s < sizes.n0; ++s)
            for (int64_t first = 0; first + sizes.data[s] <= length && found < most; ++first) {
                const Slice ngram{starts[first], starts[first + sizes.data[s]]};
                const uint32_t value = value_of(ngram);
                bool is_new = true;
                for (int64_t k = 0; k < found && is_new; ++k)
                    is_new = of_ngrams[k] != value || !are_same(ngrams[k], ngram);
                if (!is_new) continue;
                ngrams[found] = ngram;
                of_ngrams[found++] = value;
                *to++ = mixed(value, (uint32_t)ngram_name);
            }
        counts.data[i] = to - (keys.data + i * keys.n1);
    }
    return OK;
}

GPUPARSE(int64_t) classify_counts(i64_1 starts, i32_1 tags, i64_1 counts, u8_1 texts, out_u32_1 values) {
    const int64_t n_texts = Lines::feeds(texts) + (texts.n0 > 0);
    int64_t longest = 0;
    if (!are_starts(starts, tags.n0) || starts.n0 != values.n0 + 1 || counts.n0 != tags.n0 ||
        !are_between(0, tags, n_texts))
        return BAD_SHAPE;
    Arena arena;
    Slice* of_tags = arena.take<Slice>(n_texts + 1);
    if (arena.failed()) return NO_MEMORY;
    Lines lines(texts);
    for (int64_t k = 0; k < n_texts; ++k) {
        of_tags[k] = lines.next();
        longest = of_tags[k].size() > longest ? of_tags[k].size() : longest;
    }
    uint8_t* room = arena.take<uint8_t>(MOST_SEEN * (longest + 1) + 1);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t i = 0; i < values.n0; ++i) {
        const int64_t first = starts.data[i], last = starts.data[i + 1];
        int64_t total = 0, n_best = 0, best[MOST_SEEN + 1];
        for (int64_t k = first; k < last; ++k) total += counts.data[k];
        for (int64_t k = first; k < last; ++k) {
            const int64_t count = counts.data[k];
            if (count <= 0 || (double)count < SHARE_SEEN * (double)total) continue;
            int64_t place = n_best;
            for (; place > 0; --place) {
                const int64_t other = counts.data[best[place - 1]];
                const Slice text = of_tags[tags.data[k]], of_other = of_tags[tags.data[best[place - 1]]];
                if (other > count || (other == count && !is_before(text, of_other))) break;
                best[place] = best[place - 1];
            }
            best[place] = k;
            n_best += n_best < MOST_SEEN;
        }
        Text text(room);
        if (total <= FEW_SEEN) text.add((uint8_t)('0' + total));
        for (int64_t b = 0; b < n_best; ++b) {
            if (b) text.add('|');
            text.add(of_tags[tags.data[best[b]]]);
        }
        values.data[i] = value_of(text.all());
    }
    return OK;
}

GPUPARSE(int64_t) join_words_with_upos(u8_1 names, u8_1 lowers, int64_t count, out_u8_1 found) {
    if (!Lines::fit(names, count) || !Lines::fit(lowers, count) || found.n0 < names.n0 + lowers.n0) return BAD_SHAPE;
    Lines lines(names), of_lowers(lowers);
    Text text(found.data);
    for (int64_t i = 0; i < count; ++i) {
        const Slice name = lines.next(), form = first_field(name);
        if (form.end == name.end) return BAD_SHAPE;
        if (i) text.add(LINE_FEED);
        text.add(first_field(of_lowers.next()));
        text.add(TAB);
        text.add(first_field({form.end + 1, name.end}));
    }
    return text.all().size();
}
