// The exported functions about text.
#include "api/text.h"

#include "arena.h"
#include "bytes.h"
#include "views.h"

using namespace gpuparse;

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
    TokenWriter(u8_1 text, const TokenTable& table, out_u8_1 written)
        : text_(text.data), size_(text.n0), table_(table), out_{written.data, written.n0} {}

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

    int64_t start(int64_t t) const { return table_.starts.data[t]; }
    int64_t end(int64_t t) const { return table_.ends.data[t]; }
    // Where the spaces after a token end.
    int64_t spaces_end(int64_t t) const { return t + 1 < table_.starts.n0 ? start(t + 1) : size_; }

    void write_sentence(int64_t s, bool ends_paragraph) {
        int64_t first = table_.sentence_starts.data[s], last = table_.sentence_starts.data[s + 1];
        if (table_.begins.data[s] > 1) out_.copy("# newdoc\n");
        if (table_.begins.data[s] > 0) out_.copy("# newpar\n");
        out_.copy("# sent_id = ");
        out_.put_number(table_.segments.data[s]);
        out_.put('-');
        out_.put_number(table_.numbers.data[s]);
        out_.copy("\n# text = ");
        for (int64_t t = first; t < last; ++t) {
            out_.copy(text_ + start(t), end(t) - start(t));
            if (t + 1 < last && end(t) < spaces_end(t)) out_.put(' ');
        }
        out_.put('\n');
        int64_t number = 1;
        for (int64_t t = first; t < last; ++t) {
            int64_t word = table_.word_starts.data[t], n = table_.word_starts.data[t + 1] - word;
            out_.put_number(number);
            if (n > 1) {
                out_.put('-');
                out_.put_number(number + n - 1);
            }
            out_.put('\t');
            out_.copy(text_ + start(t), end(t) - start(t));
            out_.copy("\t_\t_\t_\t_\t_\t_\t_\t");
            write_misc(t, ends_paragraph && t + 1 == last);
            if (n < 2) {
                ++number;
                continue;
            }
            for (int64_t w = word; w < word + n; ++w) {
                out_.put_number(number++);
                out_.put('\t');
                const int64_t* ends = table_.word_ends.data;
                out_.copy(table_.words.data + ends[w], ends[w + 1] - ends[w]);
                out_.copy("\t_\t_\t_\t_\t_\t_\t_\t_\n");
            }
        }
        out_.put('\n');
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
        out_.put('\n');
    }

    void write_spaces(int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
            char byte = (char)text_[i];
            char escape = byte == ' '    ? 's'
                          : byte == '\t' ? 't'
                          : byte == '\r' ? 'r'
                          : byte == '\n' ? 'n'
                                         : 0;
            if (escape) out_.put('\\');
            out_.put(escape ? escape : byte);
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

GPUPARSE(int64_t) write_tokens(u8_1 text, const TokenTable* table, out_u8_1 written) {
    if (!table || !tokens_fit(*table, text.n0)) return BAD_SHAPE;
    return TokenWriter(text, *table, written).write();
}
