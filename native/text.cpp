// The exported functions about text.
#include "api/text.h"

#include "arena.h"
#include "bytes.h"
#include "text_tokens.h"
#include "views.h"

using namespace gpuparse;

constexpr int N_COLUMNS_OF_WORD = 11;  // offsets of the ten columns, and 1 + the end of the line

// Bytes being written; those without room are counted only.
struct CountedTarget {
    uint8_t* bytes;
    int64_t size;
    int64_t used = 0;

    void put(char byte) {
        if (used < size) bytes[used] = (uint8_t)byte;
        ++used;
    }
    void copy(const void* text, int64_t n) {
        if (n > 0 && n <= size - used) memcpy(bytes + used, text, (size_t)n);
        used += n;
    }
    template <int N>
    void copy(const char (&text)[N]) {
        copy(text, N - 1);
    }
    void put_number(int64_t number) {
        char digits[20];
        int n = 0;
        do digits[n++] = (char)('0' + number % 10);
        while (number /= 10);
        while (n > 0) put(digits[--n]);
    }
};

class TokenWriter {
public:
    TokenWriter(u8_1 text, const TokenTable& table, out_u8_1 written, const ConllTable& found)
        : text_(text.data), size_(text.n0), table_(table), out_{written.data, written.n0}, found_(found) {}

    int64_t longest = 0;  // bytes of a line

    int64_t write() {
        int64_t n_sentences = table_.begins.n0;
        for (int64_t s = 0; s < n_sentences; ++s) {
            bool ends_paragraph =
                s + 1 < n_sentences ? table_.begins.data[s + 1] > 0 : table_.ends_paragraph;
            write_sentence(s, ends_paragraph);
        }
        return out_.used;
    }

private:
    const uint8_t* text_;
    int64_t size_;
    const TokenTable& table_;
    CountedTarget out_;
    const ConllTable& found_;
    int64_t n_words_ = 0, n_lines_ = 0, line_start_ = 0;

    void end_line() {
        longest = out_.used - line_start_ > longest ? out_.used - line_start_ : longest;
        out_.put('\n');
        line_start_ = out_.used;
        ++n_lines_;
    }

    // A word whose line began before its FORM, of `size` bytes, was written; the last column has been written.
    void end_word(int64_t form, int64_t size) {
        int64_t* columns = found_.columns.data + n_words_ * N_COLUMNS_OF_WORD;
        columns[0] = line_start_;
        columns[1] = form;
        for (int c = 2; c < N_COLUMNS_OF_WORD - 1; ++c) columns[c] = form + size + 1 + 2 * (c - 2);
        columns[N_COLUMNS_OF_WORD - 1] = out_.used + 1;
        found_.heads.data[n_words_] = -1;
        found_.lines.data[n_words_++] = n_lines_;
        end_line();
    }

    int64_t start(int64_t t) const { return table_.starts.data[t]; }
    int64_t end(int64_t t) const { return table_.ends.data[t]; }
    // Where the spaces after a token end.
    int64_t spaces_end(int64_t t) const { return t + 1 < table_.starts.n0 ? start(t + 1) : size_; }

    void write_sentence(int64_t s, bool ends_paragraph) {
        int64_t first = table_.sentence_starts.data[s], last = table_.sentence_starts.data[s + 1];
        found_.word_starts.data[s] = n_words_;
        found_.spans.data[2 * s] = out_.used;
        if (table_.begins.data[s] > 1) {
            out_.copy("# newdoc");
            if (table_.document.n0) out_.copy(" id = ");
            out_.copy(table_.document.data, table_.document.n0);
            end_line();
        }
        if (table_.begins.data[s] > 0) {
            out_.copy("# newpar");
            end_line();
        }
        out_.copy("# sent_id = ");
        if (table_.document.n0) {
            out_.copy(table_.document.data, table_.document.n0);
            out_.put('-');
        }
        out_.put_number(table_.segments.data[s]);
        out_.put('-');
        out_.put_number(table_.numbers.data[s]);
        end_line();
        out_.copy("# text = ");
        for (int64_t t = first; t < last; ++t) {
            out_.copy(text_ + start(t), end(t) - start(t));
            if (t + 1 < last && end(t) < spaces_end(t)) out_.put(' ');
        }
        end_line();
        int64_t number = 1;
        for (int64_t t = first; t < last; ++t) {
            int64_t word = table_.word_starts.data[t], n = table_.word_starts.data[t + 1] - word;
            out_.put_number(number);
            if (n > 1) {
                out_.put('-');
                out_.put_number(number + n - 1);
            }
            out_.put('\t');
            const int64_t form = out_.used;
            out_.copy(text_ + start(t), end(t) - start(t));
            out_.copy("\t_\t_\t_\t_\t_\t_\t_\t");
            write_misc(t, ends_paragraph && t + 1 == last);
            if (n < 2) {
                end_word(form, end(t) - start(t));
                ++number;
                continue;
            }
            end_line();
            for (int64_t w = word; w < word + n; ++w) {
                out_.put_number(number++);
                out_.put('\t');
                const int64_t *ends = table_.word_ends.data, of_word = out_.used;
                out_.copy(table_.words.data + ends[w], ends[w + 1] - ends[w]);
                out_.copy("\t_\t_\t_\t_\t_\t_\t_\t_");
                end_word(of_word, ends[w + 1] - ends[w]);
            }
        }
        found_.spans.data[2 * s + 1] = out_.used;
        found_.word_starts.data[s + 1] = n_words_;
        end_line();
    }

    void write_misc(int64_t t, bool ends_paragraph) {
        int64_t from = end(t), to = spaces_end(t), before = out_.used;
        if (t == 0 && start(0) > 0) {
            out_.copy("SpacesBefore=");
            write_spaces(0, start(0));
            out_.put('|');
        }
        if (from == to) {
            out_.copy("SpaceAfter=No|");
        } else if (to - from != 1 || text_[from] != ' ' || ends_paragraph) {
            out_.copy("SpacesAfter=");
            write_spaces(from, to);
            out_.put('|');
        }
        if (table_.characters.n0 > 0) {
            out_.copy("TokenRange=");
            out_.put_number(table_.characters.data[2 * t]);
            out_.put(':');
            out_.put_number(table_.characters.data[2 * t + 1]);
            out_.put('|');
        }
        if (out_.used == before)
            out_.put('_');
        else
            --out_.used;  // the last separator
    }

    // Other white space than the four is written as \\u00A0: at the end of a line it would be lost.
    void write_spaces(int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
            char byte = (char)text_[i];
            char escape = byte == ' '    ? 's'
                          : byte == '\t' ? 't'
                          : byte == '\r' ? 'r'
                          : byte == '\n' ? 'n'
                                         : 0;
            const uint32_t lead = text_[i];
            const int64_t more = lead < 0xC0 ? 0 : lead < 0xE0 ? 1 : 2;  // bytes
            if (escape) {
                out_.put('\\');
                out_.put(escape);
            } else if (lead > ' ' && (more == 0 || lead >= 0xF0 || i + more >= to)) {
                out_.put(byte);
            } else {
                uint32_t code = more == 0 ? lead : lead & (more == 1 ? 0x1F : 0x0F);
                for (int64_t k = 0; k < more; ++k) code = code << 6 | (text_[++i] & 0x3F);
                out_.copy("\\u");
                for (int shift = 12; shift >= 0; shift -= 4) out_.put("0123456789ABCDEF"[code >> shift & 15]);
            }
        }
    }
};

static bool tokens_fit(const TokenTable& table, int64_t size) {
    int64_t n_tokens = table.starts.n0, n_sentences = table.begins.n0, at = 0;
    if (table.ends.n0 != n_tokens || table.segments.n0 != n_sentences || table.numbers.n0 != n_sentences)
        return false;
    for (int64_t t = 0; t < n_tokens; ++t) {
        if (table.starts.data[t] < at || table.ends.data[t] <= table.starts.data[t]) return false;
        at = table.ends.data[t];
    }
    if (at > size) return false;
    if (table.sentence_starts.n0 != n_sentences + 1 || !are_starts(table.sentence_starts, n_tokens))
        return false;
    for (int64_t s = 0; s < n_sentences; ++s)
        if (table.segments.data[s] < 0 || table.numbers.data[s] < 0) return false;
    if (table.characters.n0 > 0 && (table.characters.n0 != n_tokens || table.characters.n1 != 2))
        return false;
    for (int64_t i = 0; i < 2 * table.characters.n0; ++i)
        if (table.characters.data[i] < 0) return false;
    int64_t n_words = table.word_ends.n0 - 1;
    return n_words >= 0 && are_starts(table.word_ends, table.words.n0) &&
           table.word_starts.n0 == n_tokens + 1 && are_starts(table.word_starts, n_words);
}

GPUPARSE(int64_t) write_tokens(u8_1 text, const TokenTable* table, out_u8_1 written, const ConllTable* found,
                               out_i64_1 longest) {
    if (!table || !found || !tokens_fit(*table, text.n0) || longest.n0 != 1) return BAD_SHAPE;
    int64_t n_words = 0;
    for (int64_t t = 0; t < table->starts.n0; ++t) {
        const int64_t n = table->word_starts.data[t + 1] - table->word_starts.data[t];
        n_words += n > 1 ? n : 1;
    }
    const int64_t n_sentences = table->begins.n0;
    if (found->columns.n0 != n_words || (n_words && found->columns.n1 != N_COLUMNS_OF_WORD) ||
        found->heads.n0 != n_words || found->lines.n0 != n_words || found->word_starts.n0 != n_sentences + 1 ||
        found->spans.n0 != n_sentences || (n_sentences && found->spans.n1 != 2))
        return BAD_SHAPE;
    found->word_starts.data[0] = 0;
    TokenWriter writer(text, *table, written, *found);
    const int64_t size = writer.write();
    longest.data[0] = writer.longest;
    return size;
}

GPUPARSE(int64_t) view_text(u32_1 characters, b8_1 spaces, i64_1 segments, u8_1 class_of, u32_1 lower_of,
                            i64_1 blanks, out_u32_1 codes, out_u32_1 lower, out_u8_1 classes,
                            out_b8_1 is_visible, out_b8_1 is_blank, out_i64_1 source, out_i64_1 places,
                            out_i64_1 starts) {
    const int64_t n = characters.n0, n_segments = segments.n0, room = n + VIEW_MARGIN * (n_segments + 1);
    if (spaces.n0 != n || places.n0 != n || starts.n0 != n_segments || codes.n0 != room || lower.n0 != room ||
        classes.n0 != room || is_visible.n0 != room || is_blank.n0 != room || source.n0 != room ||
        class_of.n0 != lower_of.n0 || class_of.n0 <= SPACE_CODE)
        return BAD_SHAPE;
    for (int64_t s = 0; s < n_segments; ++s)
        if (!is_between(s ? segments.data[s - 1] + 1 : 0, segments.data[s], n) ||
            (s && spaces.data[segments.data[s]]))
            return BAD_SHAPE;
    for (int64_t i = 0; i < n; ++i)
        if (characters.data[i] >= (uint64_t)class_of.n0) return BAD_SHAPE;
    int64_t at = 0, s = 0;
    bool began = false;  // whether a character that is no space came
    const auto put = [&](uint32_t code, int64_t from, bool blank) {
        codes.data[at] = code;
        lower.data[at] = lower_of.data[code];
        classes.data[at] = class_of.data[code];
        is_visible.data[at] = code != 0 && code != SPACE_CODE;
        is_blank.data[at] = blank;
        source.data[at++] = from;
    };
    for (int64_t i = 0; i < n; ++i) {
        const bool is_new = s < n_segments && segments.data[s] == i;
        if (is_new) {
            for (int64_t k = 0; k < VIEW_MARGIN; ++k) put(0, -1, false);
            starts.data[s++] = at;
        }
        const uint32_t code = characters.data[i];
        if (!spaces.data[i]) {
            began = true;
            put(code, i, false);
        } else if (began && i + 1 < n && !spaces.data[i + 1] && !(s < n_segments && segments.data[s] == i + 1)) {
            bool blank = i > 0 && !spaces.data[i - 1];
            if (blank) {
                blank = false;
                for (int64_t b = 0; b < blanks.n0; ++b) blank |= blanks.data[b] == (int64_t)code;
            }
            put(SPACE_CODE, i, blank);
        }
        places.data[i] = at - 1;
    }
    for (int64_t k = 0; k < VIEW_MARGIN; ++k) put(0, -1, false);
    return at;
}

GPUPARSE(int64_t) open_gaps(const TextView* view, b8_2 is_open, out_i64_1 places, out_b8_1 ends) {
    if (!view || !is_view(*view) || places.n0 != view->codes.n0 || ends.n0 != places.n0 || is_open.n0 != 2 || is_open.n1 != CLASSES * CLASSES)
        return BAD_SHAPE;
    Arena arena;
    const ClassRuns runs(*view, arena);
    if (arena.failed()) return NO_MEMORY;
    const int64_t n = view->codes.n0;
    const uint8_t* classes = view->classes.data;
    const uint8_t* is_visible = view->is_visible.data;
    // Beside a space the class of a digit is how many of them are in a row.
    const auto number_class = [&](int64_t i) {
        const int64_t length = runs.lengths[runs.of[i]];
        if (classes[i] != DIGIT) return (int64_t)classes[i];
        return FIRST_NUMBER - 1 + (length < LONGEST_NUMBER ? length : LONGEST_NUMBER);
    };
    int64_t count = 0;
    for (int64_t p = 0; p < n; ++p) {
        ends.data[p] = is_visible[p];
        if (!is_visible[p] || p + 1 >= n) continue;
        if (is_visible[p + 1]) {
            ends.data[p] = false;
            if (is_open.data[classes[p] * CLASSES + classes[p + 1]]) places.data[count++] = p;
        } else if (view->codes.data[p + 1] == SPACE_CODE && p + 2 < n && is_visible[p + 2] &&
                   view->is_blank.data[p + 1]) {
            if (is_open.data[CLASSES * CLASSES + number_class(p) * CLASSES + number_class(p + 2)])
                places.data[count++] = p;
        }
    }
    return count;
}

GPUPARSE(int64_t) gap_fields(const TextView* view, i64_1 places, i64_1 fields, u64_1 lexicon, out_u32_2 values) {
    if (!view || !is_view(*view) || values.n0 != fields.n0 || (fields.n0 && values.n1 != view->codes.n0) ||
        !are_between(0, fields, GAP_FIELDS))
        return BAD_SHAPE;
    Arena arena;
    const GapFields gaps(*view, places, lexicon, arena);
    if (arena.failed()) return NO_MEMORY;
    if (!gaps.are_gaps()) return BAD_SHAPE;
    for (int64_t f = 0; f < fields.n0; ++f) gaps.write(fields.data[f], values.data + f * values.n1);
    return OK;
}

GPUPARSE(int64_t) hash_spans(u32_1 values, i64_1 first, i64_1 last, out_u64_1 hashes) {
    if (last.n0 != first.n0 || hashes.n0 != first.n0) return BAD_SHAPE;
    for (int64_t i = 0; i < first.n0; ++i)
        if (first.data[i] < 0 || last.data[i] < first.data[i] || last.data[i] > values.n0) return BAD_SHAPE;
    for (int64_t i = 0; i < first.n0; ++i) hashes.data[i] = span_hash(values.data, first.data[i], last.data[i]);
    return OK;
}

GPUPARSE(int64_t) find_tokens(const TextView* view, b8_1 ends, out_i64_1 first, out_i64_1 last,
                              out_i64_1 segments, out_i64_1 starts, out_b8_1 closing) {
    if (!view || !is_view(*view) || ends.n0 != view->codes.n0 || first.n0 != ends.n0 || last.n0 != ends.n0 ||
        segments.n0 != ends.n0 || closing.n0 != ends.n0 || starts.n0 != view->starts.n0 + 1)
        return BAD_SHAPE;
    for (int64_t s = 0; s < view->starts.n0; ++s)
        if (!is_between(s ? view->starts.data[s - 1] + 1 : 0, view->starts.data[s], ends.n0)) return BAD_SHAPE;
    int64_t count = 0, begin = -1, next = 0;  // next: segment that was not begun
    for (int64_t p = 0; p < ends.n0; ++p) {
        if (!view->is_visible.data[p]) continue;
        if (begin < 0) {
            begin = p;
            while (next < view->starts.n0 && view->starts.data[next] <= p) starts.data[next++] = count;
            if (!next) return BAD_SHAPE;
            segments.data[count] = next - 1;
        }
        if (!ends.data[p]) continue;
        first.data[count] = begin;
        last.data[count++] = p + 1;
        begin = -1;
    }
    while (next <= view->starts.n0) starts.data[next++] = count;
    const TextTokens tokens{{first.data, count}, {last.data, count}, {starts.data, starts.n0}};
    const u8_1 no_cases{nullptr, 0};
    TokenFields(*view, tokens, no_cases).mark_closing(closing.data);
    return count;
}

GPUPARSE(int64_t) token_fields(const TextView* view, const TextTokens* tokens, i64_1 fields, u8_1 cases,
                               i64_1 columns, out_u32_2 values) {
    if (!view || !tokens || !are_tokens(*view, *tokens) || cases.n0 != tokens->first.n0 ||
        columns.n0 != cases.n0 || values.n0 != fields.n0 || !are_between(0, columns, values.n1) ||
        !are_between(0, fields, TOKEN_FIELDS))
        return BAD_SHAPE;
    const TokenFields known(*view, *tokens, cases);
    for (int64_t f = 0; f < fields.n0; ++f)
        known.write(fields.data[f], columns.data, values.data + f * values.n1);
    return OK;
}

GPUPARSE(int64_t) find_cases(const TextView* view, const TextTokens* tokens, u64_1 hashes, u8_1 kinds,
                             out_u8_1 cases) {
    if (!view || !tokens || !are_tokens(*view, *tokens) || kinds.n0 != hashes.n0 || cases.n0 != tokens->first.n0)
        return BAD_SHAPE;
    const TokenFields known(*view, *tokens, kinds);
    for (int64_t t = 0; t < cases.n0; ++t) {
        cases.data[t] = 0;
        if (!known.is_capital(t)) continue;
        const uint64_t hash = span_hash(view->lower.data, tokens->first.data[t], tokens->last.data[t]);
        const int64_t at = lower_bound(hashes, hash);
        if (at < hashes.n0 && hashes.data[at] == hash) cases.data[t] = kinds.data[at];
    }
    return OK;
}

// The best tags of the positions at `places`, by values of fields; any tag is a candidate.
static int64_t find_tags(const SequenceModel* model, const SequenceTemplates* templates, u32_2 values,
                         i64_1 places, i64_1 starts, int32_t* tags, Arena& arena) {
    const int64_t n = places.n0, width = templates->keys.n0;
    uint32_t* features = arena.take<uint32_t>(n * width);
    const int64_t* no_candidates = arena.take_zeros<int64_t>(n + 1);
    if (arena.failed()) return NO_MEMORY;
    const int64_t status = sequence_features(templates, values, places, {features, n, width});
    if (status != OK) return status;
    const SequenceBatch batch{{features, n, width}, starts, {no_candidates, n + 1}, {}, {}};
    return find_sequences(model, &batch, {tags, n});
}

// Sets `ends` at those of the `places` where the model of gaps separates.
static int64_t decide_gaps(const TextTokenizer& tokenizer, const TextView& view, i64_1 places, uint8_t* ends,
                           Arena& arena) {
    const int64_t n_fields = tokenizer.gap_fields.n0, n_segments = view.starts.n0;
    uint32_t* values = arena.take<uint32_t>(n_fields * view.codes.n0);
    int64_t* starts = arena.take<int64_t>(n_segments + 1);
    int32_t* tags = arena.take<int32_t>(places.n0);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t s = 0, g = 0; s <= n_segments; ++s) {
        while (g < places.n0 && (s == n_segments || places.data[g] < view.starts.data[s])) ++g;
        starts[s] = g;
    }
    int64_t status = gap_fields(&view, places, tokenizer.gap_fields, tokenizer.lexicon,
                                {values, n_fields, view.codes.n0});
    if (status != OK) return status;
    status = find_tags(tokenizer.gaps, tokenizer.gap_templates, {values, n_fields, view.codes.n0}, places,
                       {starts, n_segments + 1}, tags, arena);
    for (int64_t g = 0; status == OK && g < places.n0; ++g) ends[places.data[g]] = tags[g] == CUT;
    return status;
}

// Sets `is_end` of all tokens by the model of sentence ends.
static int64_t decide_ends(const TextTokenizer& tokenizer, const TextView& view, const TextTokens& tokens,
                           const int64_t* segments, uint8_t* is_end, Arena& arena) {
    const int64_t n = tokens.first.n0, n_fields = tokenizer.end_fields.n0, n_columns = n + AROUND * tokens.starts.n0;
    uint8_t* cases = arena.take<uint8_t>(n);
    int64_t* columns = arena.take<int64_t>(n);
    uint32_t* values = arena.take_filled<uint32_t>(n_fields * n_columns, 1);
    int32_t* tags = arena.take<int32_t>(n);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t t = 0; t < n; ++t) columns[t] = AROUND * (segments[t] + 1) + t;
    int64_t status = find_cases(&view, &tokens, tokenizer.hashes, tokenizer.kinds, {cases, n});
    if (status != OK) return status;
    status = token_fields(&view, &tokens, tokenizer.end_fields, {cases, n}, {columns, n}, {values, n_fields, n_columns});
    if (status != OK) return status;
    status = find_tags(tokenizer.ends, tokenizer.end_templates, {values, n_fields, n_columns}, {columns, n},
                       tokens.starts, tags, arena);
    for (int64_t t = 0; status == OK && t < n; ++t) is_end[t] = tags[t] == END;
    return status;
}

// True if characters first : last end, or begin, with a text whose hash is in `edges`.
static bool ends_with_one(const u64_1& edges, const uint32_t* lower, int64_t first, int64_t last) {
    for (int64_t from = last; from-- > first && last - from <= LONGEST_EDGE;)
        if (has_value(edges, span_hash(lower, from, last))) return true;
    return false;
}
static bool begins_with_one(const u64_1& edges, const uint32_t* lower, int64_t first, int64_t last) {
    for (int64_t to = first + 1; to <= last && to - first <= LONGEST_EDGE; ++to)
        if (has_value(edges, span_hash(lower, first, to))) return true;
    return false;
}

// The features of the tokens that may be multiword tokens.
static int64_t features_of_words(const TextTokenizer& tokenizer, const TextView& view, const TextTokens& tokens,
                                 const int64_t* segments, const uint8_t* may_split, out_u32_2 features, Arena& arena) {
    const int64_t n = tokens.first.n0, n_fields = tokenizer.word_fields.n0, n_columns = n + AROUND * tokens.starts.n0;
    int64_t *first = arena.take<int64_t>(n), *last = arena.take<int64_t>(n), *columns = arena.take<int64_t>(n);
    int64_t* chosen = arena.take<int64_t>(n);
    uint8_t* cases = arena.take_zeros<uint8_t>(n);
    uint32_t* values = arena.take_filled<uint32_t>(n_fields * n_columns, 1);
    if (arena.failed()) return NO_MEMORY;
    if (!are_between(0, tokenizer.word_fields, TOKEN_SPACES)) return BAD_SHAPE;
    int64_t count = 0;
    for (int64_t t = 0; t < n; ++t) count += may_split[t];
    if (count > features.n0) return OK;
    // Fields of a token alone: those of tokens around the chosen ones are enough.
    int64_t n_read = 0, n_chosen = 0, next = 0;
    for (int64_t t = 0; t < n; ++t) {
        if (!may_split[t]) continue;
        chosen[n_chosen++] = AROUND * (segments[t] + 1) + t;
        next = next < t - AROUND ? t - AROUND : next;
        for (; next <= t + AROUND && next < n; ++next) {
            first[n_read] = tokens.first.data[next];
            last[n_read] = tokens.last.data[next];
            columns[n_read++] = AROUND * (segments[next] + 1) + next;
        }
    }
    const int64_t bounds[] = {0, n_read};
    const TextTokens read{{first, n_read}, {last, n_read}, {bounds, 2}};
    const int64_t status = token_fields(&view, &read, tokenizer.word_fields, {cases, n_read}, {columns, n_read},
                                        {values, n_fields, n_columns});
    if (status != OK) return status;
    return sequence_features(tokenizer.word_templates, {values, n_fields, n_columns}, {chosen, n_chosen},
                             {features.data, n_chosen, features.n1});
}

GPUPARSE(int64_t) split_text(const TextTokenizer* tokenizer, u32_1 characters, b8_1 spaces, i64_1 segments,
                             u8_1 known, bool of_segments, out_i64_2 tokens, out_b8_2 flags,
                             out_u32_2 features) {
    const int64_t n = characters.n0, n_segments = segments.n0, room = n + VIEW_MARGIN * (n_segments + 1);
    if (!tokenizer || !tokenizer->ends || !tokenizer->end_templates ||
        (tokenizer->gaps && !tokenizer->gap_templates) || (known.n0 && known.n0 != n) || tokens.n0 != 3 ||
        tokens.n1 != n || flags.n0 != 2 || flags.n1 != n)
        return BAD_SHAPE;
    const auto are_pairs = [](const b8_2& pairs) { return !pairs.n0 || (pairs.n0 == 256 && pairs.n1 == 256); };
    if (!are_pairs(tokenizer->ending_pairs) || !are_pairs(tokenizer->beginning_pairs)) return BAD_SHAPE;
    Arena arena;
    uint32_t *codes = arena.take<uint32_t>(room), *lower = arena.take<uint32_t>(room);
    uint8_t *classes = arena.take<uint8_t>(room), *is_visible = arena.take<uint8_t>(room);
    uint8_t *is_blank = arena.take<uint8_t>(room), *ends = arena.take<uint8_t>(room);
    int64_t *source = arena.take<int64_t>(room), *places = arena.take<int64_t>(room);
    int64_t *view_starts = arena.take<int64_t>(n_segments), *starts = arena.take<int64_t>(n_segments + 1);
    int64_t *first = arena.take<int64_t>(room), *last = arena.take<int64_t>(room);
    int64_t* of_segment = arena.take<int64_t>(room);
    uint8_t* closing = arena.take<uint8_t>(room);
    if (arena.failed()) return NO_MEMORY;
    const int64_t size = view_text(characters, spaces, segments, tokenizer->class_of, tokenizer->lower_of,
                                   tokenizer->blanks, {codes, room}, {lower, room}, {classes, room},
                                   {is_visible, room}, {is_blank, room}, {source, room}, {places, n},
                                   {view_starts, n_segments});
    if (size < 0) return size;
    const TextView view{{codes, size}, {lower, size}, {classes, size}, {is_visible, size}, {is_blank, size},
                        {view_starts, n_segments}};
    int64_t n_gaps = open_gaps(&view, tokenizer->is_open, {places, size}, {ends, size});
    if (n_gaps < 0) return n_gaps;
    if (known.n0) {
        int64_t n_open = 0;
        for (int64_t g = 0; g < n_gaps; ++g)
            if (!known.data[source[places[g]]]) places[n_open++] = places[g];
        n_gaps = n_open;
        for (int64_t p = 0; p < size; ++p)
            if (is_visible[p] && known.data[source[p]]) ends[p] = known.data[source[p]] == 2;
    }
    int64_t status = tokenizer->gaps && n_gaps ? decide_gaps(*tokenizer, view, {places, n_gaps}, ends, arena) : OK;
    if (status != OK) return status;
    const int64_t count = find_tokens(&view, {ends, size}, {first, size}, {last, size}, {of_segment, size},
                                      {starts, n_segments + 1}, {closing, size});
    if (count <= 0) return count;
    uint8_t *is_end = flags.data, *may_split = flags.data + n;
    memset(is_end, 0, (size_t)count);
    const TextTokens found{{first, count}, {last, count}, {starts, n_segments + 1}};
    if (!of_segments) status = decide_ends(*tokenizer, view, found, of_segment, is_end, arena);
    if (status != OK) return status;
    for (int64_t s = 1; s <= n_segments; ++s)
        if (starts[s]) is_end[starts[s] - 1] = 1;
    for (int64_t t = 0; t < count; ++t) {
        if (!is_end[t] || !tokenizer->keeps_closing || of_segments) continue;
        while (t + 1 < count && closing[t + 1]) is_end[t++] = 0;
        is_end[t] = 1;
    }
    const auto has = [&](const b8_2& pairs, int64_t p) {
        return pairs.n0 && pairs.data[256 * (lower[p] & 255) + (lower[p + 1] & 255)];
    };
    for (int64_t t = 0; t < count; ++t) {
        tokens.data[t] = source[first[t]];
        tokens.data[n + t] = source[last[t] - 1] + 1;
        tokens.data[2 * n + t] = of_segment[t];
        may_split[t] =
            (has(tokenizer->ending_pairs, last[t] - 2) && ends_with_one(tokenizer->edges, lower, first[t], last[t])) ||
            (has(tokenizer->beginning_pairs, first[t]) && begins_with_one(tokenizer->edges, lower, first[t], last[t]));
    }
    if (tokenizer->word_templates)
        status = features_of_words(*tokenizer, view, found, of_segment, may_split, features, arena);
    return status == OK ? count : status;
}
