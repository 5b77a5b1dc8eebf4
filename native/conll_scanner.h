// From bytes to the table of words. Lines are cut at tabs and line feeds; the lines of a sentence are
// checked when its blank line is reached, and those that are words move together in the table.
#pragma once

#include "api/conll.h"
#include "arena.h"
#include "bytes.h"
#include "views.h"

namespace gpuparse {

constexpr int N_COLUMNS = 10;
enum ConllColumn { FORM = 1, HEAD = 6, DEPREL = 7, DEPS = 8, MISC = 9 };
constexpr int32_t NO_HEAD = -1;  // HEAD is `_`

// The kinds of rows that an ID column names.
enum IdKind { WORD, RANGE, EMPTY_NODE, MALFORMED };

struct ConllId {
    IdKind kind;
    int32_t i, j;
};

// An ID: `i` a word, `i-j` a multiword range, `i.j` an empty node.
inline ConllId parse_id(Slice text) {
    for (const uint8_t* at = text.start; at < text.end; ++at) {
        if (*at != '-' && *at != '.') continue;
        const int32_t i = parse_number({text.start, at}), j = parse_number({at + 1, text.end});
        if (i < 0 || j < 1) return {MALFORMED, 0, 0};
        return {*at == '-' ? RANGE : EMPTY_NODE, i, j};
    }
    const int32_t i = parse_number(text);
    return {i >= 0 ? WORD : MALFORMED, i, i};
}

// HEAD, or a number of the same form: NO_HEAD for `_`.
inline int32_t parse_head(Slice text) { return text.is_underscore() ? NO_HEAD : parse_number(text); }

// Column c of a word whose offsets these are.
inline Slice column_of(const uint8_t* text, const int64_t* columns, int64_t c) {
    return {text + columns[c], text + columns[c + 1] - 1};
}
inline Slice column_of(u8_1 data, i64_2 columns, int64_t w, int64_t c) {
    return column_of(data.data, columns.data + w * (N_COLUMNS + 1), c);
}

// Faults of a line; the codes are those of gpuparse/data/scanner.py.
enum LineFault {
    NO_LINE_FAULT,
    COLUMN_COUNT,      // detail: columns found
    LINE_TOO_LONG,     // detail: the limit
    LONE_RETURN,
    NOT_UTF8,          // detail: offset of the byte
    BAD_ID,
    UNEXPECTED_ID,     // detail: the expected ID
    EMPTY_FORM,
    RANGE_REVERSED,
    RANGE_OVERLAPS,
    RANGE_MISPLACED,   // detail: the expected ID
    RANGE_PAST_END,    // detail: words of the sentence
};

struct FoundFault {
    LineFault code;
    int64_t line;  // within the sentence
    int64_t detail;
};

class ConllScanner {
public:
    ConllScanner(u8_1 data, int64_t max_line, bool stop_at_fault, const ConllTable& table, int32_t* tabs)
        : text_(data.data), size_(data.n0), max_line_(max_line), stop_at_fault_(stop_at_fault),
          table_(table), tabs_(tabs) {}

    int64_t n_words = 0, n_sentences = 0, n_faults = 0, n_crlf = 0;

    // `table` has room for all lines.
    void scan() {
        table_.word_starts.data[0] = 0;
        if (size_ == 0) return;
        invalid_ = find_invalid_utf8(text_, size_, 0);
        begin_line(0);
        for (int64_t start = 0; start < size_ && !stopped_; start += BLOCK) {
            uint64_t mask = separators_from(start);
            while (mask != 0 && !stopped_) {
                int64_t at = start + __builtin_ctzll(mask);
                mask &= mask - 1;
                separate(at, text_[at]);
            }
        }
        if (stopped_) return;
        if (text_[size_ - 1] != LINE_FEED) separate(size_, LINE_FEED);
        if (n_lines_ > 0 && !stopped_) end_sentence(size_, size_);
    }

private:
    const uint8_t* text_;
    int64_t size_, max_line_;
    bool stop_at_fault_;
    const ConllTable& table_;
    int32_t* tabs_;  // of the sentence's lines; -1 for a carriage return inside

    int64_t first_line_ = 0, n_lines_ = 0;  // of the sentence, blank lines not counted
    int64_t line_start_ = 0, n_tabs_ = 0;
    bool is_broken_ = false, stopped_ = false;
    int64_t invalid_ = 0;  // offset of the next byte that is not UTF-8

    // The sentence's lines stand behind the words found before, each as a row of the table.
    int64_t* row(int64_t line) const { return table_.columns.data + (n_words + line) * (N_COLUMNS + 1); }

    uint64_t separators_from(int64_t start) const {
        if (start + BLOCK <= size_) return separators_of(text_ + start);
        uint8_t last[BLOCK] = {0};
        memcpy(last, text_ + start, (size_t)(size_ - start));
        return separators_of(last);
    }

    void begin_line(int64_t start) {
        line_start_ = start;
        n_tabs_ = 0;
        is_broken_ = false;
        if (start < size_) row(n_lines_)[0] = start;
    }

    void separate(int64_t at, uint8_t byte) {
        if (byte == TAB) {
            if (++n_tabs_ < N_COLUMNS) row(n_lines_)[n_tabs_] = at + 1;
        } else if (byte == LINE_FEED) {
            end_line(at);
        } else if (at + 1 >= size_ || text_[at + 1] != LINE_FEED) {
            is_broken_ = true;
        }
    }

    void end_line(int64_t at) {
        bool crlf = at > line_start_ && at < size_ && text_[at - 1] == CARRIAGE_RETURN;
        n_crlf += crlf;
        int64_t next = at < size_ ? at + 1 : size_;
        if (at - crlf == line_start_) {  // blank
            if (n_lines_ > 0) end_sentence(line_start_, next);
            ++first_line_;
        } else {
            row(n_lines_)[N_COLUMNS] = at - crlf + 1;
            tabs_[n_lines_++] = is_broken_ ? -1 : (int32_t)n_tabs_;
        }
        if (!stopped_) begin_line(next);
    }

    // The sentence's lines end at `end`, and `after` its blank line.
    void end_sentence(int64_t end, int64_t after) {
        int64_t start = row(0)[0];
        int64_t bad = -1;
        if (invalid_ < end) {
            for (bad = 0; bad + 1 < n_lines_ && row(bad + 1)[0] <= invalid_;) ++bad;
        }
        int64_t found = 0;
        FoundFault fault = check(bad, &found);
        if (invalid_ < end) invalid_ = find_invalid_utf8(text_, size_, end);
        if (fault.code != NO_LINE_FAULT) {
            const int64_t out[] = {fault.code, fault.detail, first_line_ + fault.line, fault_offset_,
                                   start, after};
            memcpy(table_.faults.data + 6 * n_faults++, out, sizeof(out));
            stopped_ = stop_at_fault_;
        } else if (found > 0) {
            n_words += found;
            table_.spans.data[2 * n_sentences] = start;
            table_.spans.data[2 * n_sentences + 1] = end;
            table_.word_starts.data[++n_sentences] = n_words;
        }
        first_line_ += n_lines_;
        n_lines_ = 0;
    }

    int64_t fault_offset_ = 0;

    // The first fault of the sentence, whose line `bad`, if any, is not UTF-8; else stores its words.
    FoundFault check(int64_t bad, int64_t* found) {
        // Words overwrite rows of lines before them: offsets of faulty lines are kept apart.
        int64_t bad_offset = bad >= 0 ? row(bad)[0] : 0;
        int64_t next = 1, range_end = 0, range_line = 0, range_offset = 0;
        FoundFault fault = {NO_LINE_FAULT, 0, 0};
        for (int64_t line = 0; line < n_lines_ && fault.code == NO_LINE_FAULT; ++line) {
            const int64_t* columns = row(line);
            fault_offset_ = columns[0];
            fault = check_layout(line);
            if (fault.code != NO_LINE_FAULT || text_[columns[0]] == '#') continue;
            const ConllId id = parse_id(column_of(text_, columns, 0));
            if (id.kind == MALFORMED) fault = {BAD_ID, line, 0};
            if (id.kind == RANGE) {
                fault = check_range(id, line, next, range_end);
                range_end = id.j;
                range_line = line;
                range_offset = columns[0];
            }
            if (id.kind == WORD) {
                if (id.i != next)
                    fault = {UNEXPECTED_ID, line, next};
                else
                    store_word(columns, next++ - 1, line);
            }
        }
        if (fault.code == NO_LINE_FAULT && range_end >= next) {
            fault = {RANGE_PAST_END, range_line, next - 1};
            fault_offset_ = range_offset;
        }
        if (bad >= 0 && (fault.code == NO_LINE_FAULT || bad < fault.line)) {
            fault = {NOT_UTF8, bad, invalid_};
            fault_offset_ = bad_offset;
        }
        *found = next - 1;
        return fault;
    }

    // Faults of a line as such; comments have no columns.
    FoundFault check_layout(int64_t line) const {
        const int64_t* columns = row(line);
        if (columns[N_COLUMNS] - 1 - columns[0] > max_line_) return {LINE_TOO_LONG, line, max_line_};
        if (tabs_[line] < 0) return {LONE_RETURN, line, 0};
        if (text_[columns[0]] == '#') return {NO_LINE_FAULT, line, 0};
        if (tabs_[line] != N_COLUMNS - 1) return {COLUMN_COUNT, line, tabs_[line] + 1};
        if (columns[2] - 1 == columns[1]) return {EMPTY_FORM, line, 0};
        return {NO_LINE_FAULT, line, 0};
    }

    // Faults of a multiword range that stands before word `next`.
    static FoundFault check_range(ConllId id, int64_t line, int64_t next, int64_t range_end) {
        if (id.j < id.i) return {RANGE_REVERSED, line, 0};
        if (id.i <= range_end) return {RANGE_OVERLAPS, line, 0};
        if (id.i != next) return {RANGE_MISPLACED, line, next};
        return {NO_LINE_FAULT, line, 0};
    }

    void store_word(const int64_t* columns, int64_t word, int64_t line) {
        table_.heads.data[n_words + word] = parse_head(column_of(text_, columns, HEAD));
        table_.lines.data[n_words + word] = first_line_ + line;
        if (word != line) memmove(row(word), columns, sizeof(int64_t) * (N_COLUMNS + 1));
    }
};

// Are the offsets of each word's columns ascending and inside of `size` bytes?
inline bool columns_fit(i64_2 columns, int64_t size) {
    if (columns.n0 > 0 && columns.n1 != N_COLUMNS + 1) return false;
    for (int64_t w = 0; w < columns.n0; ++w) {
        const int64_t* of_word = columns.data + w * (N_COLUMNS + 1);
        bool fits = of_word[0] >= 0 && of_word[N_COLUMNS] <= size + 1;
        for (int c = 0; c < N_COLUMNS; ++c) fits &= of_word[c] < of_word[c + 1];
        if (!fits) return false;
    }
    return true;
}

}  // namespace gpuparse
