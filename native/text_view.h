// A text as characters with one space between words, hashes of spans of it, and gaps between its tokens.
#pragma once

#include "api/text.h"
#include "arena.h"
#include "views.h"

namespace gpuparse {

constexpr int64_t VIEW_MARGIN = 8;  // places without a character around each segment
constexpr uint32_t SPACE_CODE = 0x20;
constexpr int32_t CUT = 1, END = 1;  // tags: a token ends with the gap, a sentence with the token
constexpr int64_t LONGEST_EDGE = 100;  // characters that rules of multiword tokens know of a token
constexpr int64_t AROUND = 4;  // columns of fields without a token around each segment
// Classes of gpuparse/text/characters.py.
constexpr int64_t CLASSES = 128;
constexpr uint8_t DIGIT = 2, FIRST_NUMBER = 23, LONGEST_NUMBER = 7, UPPER_FIRST = 30, UPPER_LAST = 31;

// Hashes of spans: the sum of mixed values times powers of a base, counted from the first value, mixed.
constexpr uint64_t HASH_BASE = 6364136223846793005u;
constexpr uint64_t HASH_INVERSE = 13877824140714322085u;  // HASH_BASE times it is 1

inline uint64_t mixed_value(uint64_t value) {
    const uint64_t mixed = (value + 1) * 0x9E3779B97F4A7C15u;
    return mixed ^ (mixed >> 29);
}
inline uint64_t finished_hash(uint64_t sum) {
    sum = (sum ^ (sum >> 32)) * 0xD6E8FEB86659FD93u;
    return sum ^ (sum >> 32);
}

// The hash of the values first : last; 0 for none.
template <class T>
uint64_t span_hash(const T* values, int64_t first, int64_t last) {
    uint64_t sum = 0;
    for (int64_t i = last; i-- > first;) sum = sum * HASH_BASE + mixed_value(values[i]);
    return finished_hash(sum);
}

// The hash of the values first : last, equal ones in a row once; 0 for none.
template <class T>
uint64_t shape_hash(const T* values, int64_t first, int64_t last) {
    uint64_t sum = 0;
    for (int64_t i = last; i-- > first;)
        if (i + 1 == last || values[i] != values[i + 1]) sum = sum * HASH_BASE + mixed_value(values[i]);
    return finished_hash(sum);
}

// Sums that give the hash of any span at once.
class HashSums {
public:
    template <class T>
    HashSums(const T* values, int64_t n, Arena& arena)
        : sums_(arena.take<uint64_t>(n + 1)), inverse_(arena.take<uint64_t>(n + 1)) {
        if (arena.failed()) return;
        uint64_t power = 1, inverse = 1;
        sums_[0] = 0;
        for (int64_t i = 0; i < n; ++i, power *= HASH_BASE, inverse *= HASH_INVERSE) {
            sums_[i + 1] = sums_[i] + mixed_value(values[i]) * power;
            inverse_[i] = inverse;
        }
        inverse_[n] = inverse;
    }
    uint64_t of(int64_t first, int64_t last) const {
        return first < last ? finished_hash((sums_[last] - sums_[first]) * inverse_[first]) : 0;
    }

private:
    uint64_t* sums_;
    uint64_t* inverse_;
};

// The place of the first of ascending values that is not below `value`.
inline int64_t lower_bound(const u64_1& values, uint64_t value) {
    int64_t low = 0, high = values.n0;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (values.data[middle] < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

inline bool has_value(const u64_1& values, uint64_t value) {
    const int64_t at = lower_bound(values, value);
    return at < values.n0 && values.data[at] == value;
}

inline bool is_view(const TextView& view) {
    const int64_t n = view.codes.n0;
    return view.lower.n0 == n && view.classes.n0 == n && view.is_visible.n0 == n && view.is_blank.n0 == n &&
           are_between(0, view.classes, CLASSES);
}

// Runs of one class: the number of each place's run, the class of each, and how many places it has.
struct ClassRuns {
    int64_t* of;
    uint8_t* classes;
    int64_t* lengths;
    int64_t count = 0;

    ClassRuns(const TextView& view, Arena& arena) {
        const int64_t n = view.classes.n0;
        of = arena.take<int64_t>(n);
        classes = arena.take<uint8_t>(n);
        lengths = arena.take<int64_t>(n);
        if (arena.failed()) return;
        for (int64_t i = 0; i < n; ++i) {
            if (!i || view.classes.data[i] != view.classes.data[i - 1]) {
                classes[count] = view.classes.data[i];
                lengths[count++] = 0;
            }
            of[i] = count - 1;
            ++lengths[count - 1];
        }
    }
};

// The fields of gaps; see FIELDS of gpuparse/text/boundaries.py, in the same order.
enum GapField : int64_t {
    GAP_CHAR, GAP_LOWER, GAP_CLASS, GAP_STRING, GAP_BEFORE, GAP_AFTER, GAP_SHAPE_BEFORE, GAP_SHAPE_AFTER,
    GAP_LENGTH_BEFORE, GAP_LENGTH_AFTER, GAP_SIGNS, GAP_SINCE_LAST, GAP_KNOWN_BEFORE, GAP_KNOWN_AFTER,
    GAP_KNOWN_ACROSS, GAP_FIELDS
};
constexpr int64_t HASH_REACH = 64;  // characters that hashes of a string reach to either side
constexpr int64_t LONGEST_KNOWN = 6;  // characters of a word of the lexicon
constexpr uint32_t SIGNS[] = {'@', '/', ':', '.', '-', '\'', 0x2019};

class GapFields {
public:
    GapFields(const TextView& view, const i64_1& places, const u64_1& lexicon, Arena& arena)
        : view_(view), places_(places), lexicon_(lexicon), n_(view.codes.n0), lower_(view.lower.data, n_, arena),
          runs_(view, arena), shapes_(runs_.classes, runs_.count, arena) {
        string_first_ = arena.take<int64_t>(n_);
        string_last_ = arena.take<int64_t>(n_);
        signs_ = arena.take<uint32_t>(n_);
        if (arena.failed()) return;
        for (int64_t first = 0, last; first < n_; first = last) {
            last = first + 1;
            if (!view.is_visible.data[first]) continue;
            uint32_t signs = sign(first);
            for (; last < n_ && view.is_visible.data[last]; ++last) signs |= sign(last);
            for (int64_t i = first; i < last; ++i) {
                string_first_[i] = first;
                string_last_[i] = last;
                signs_[i] = 256 | signs;
            }
        }
    }

    // True if every place is before a gap: visible, and a visible one behind it, perhaps after a space.
    bool are_gaps() const {
        for (int64_t g = 0; g < places_.n0; ++g) {
            const int64_t p = places_.data[g];
            if (!is_between(0, p, n_ - 1) || (g && p <= places_.data[g - 1])) return false;
            if (!view_.is_visible.data[p]) return false;
            if (after(p) >= n_ || !view_.is_visible.data[after(p)]) return false;
        }
        return true;
    }

    void write(int64_t field, uint32_t* row) const {
        if (field <= GAP_CLASS) {
            for (int64_t i = 0; i < n_; ++i)
                row[i] = 1 + (field == GAP_CHAR    ? view_.codes.data[i]
                              : field == GAP_LOWER ? view_.lower.data[i]
                                                   : view_.classes.data[i]);
            return;
        }
        memset(row, 0, (size_t)n_ * sizeof *row);
        for (int64_t g = 0; g < places_.n0; ++g)
            row[places_.data[g]] = value(field, places_.data[g], g ? places_.data[g - 1] : 0);
    }

private:
    const TextView& view_;
    const i64_1& places_;
    const u64_1& lexicon_;
    int64_t n_;
    HashSums lower_;
    ClassRuns runs_;
    HashSums shapes_;
    int64_t* string_first_;  // of the string between spaces that a visible place is in
    int64_t* string_last_;
    uint32_t* signs_;

    int64_t after(int64_t p) const { return p + 1 + (view_.codes.data[p + 1] == SPACE_CODE); }

    uint32_t sign(int64_t i) const {
        for (uint32_t bit = 0; bit < sizeof SIGNS / sizeof *SIGNS; ++bit)
            if (view_.codes.data[i] == SIGNS[bit]) return 1u << bit;
        return 0;
    }

    uint32_t shape(int64_t first, int64_t last) const {
        return first < last ? (uint32_t)shapes_.of(runs_.of[first], runs_.of[last - 1] + 1) : 0;
    }

    uint32_t value(int64_t field, int64_t p, int64_t previous) const {
        const int64_t before = p + 1, behind = after(p);
        const int64_t start = string_first_[p], end = string_last_[behind];
        const int64_t first = start > before - HASH_REACH ? start : before - HASH_REACH;
        const int64_t last = end < behind + HASH_REACH ? end : behind + HASH_REACH;
        switch (field) {
            case GAP_STRING: return (uint32_t)lower_.of(first, last);
            case GAP_BEFORE: return (uint32_t)lower_.of(first, before);
            case GAP_AFTER: return (uint32_t)lower_.of(behind, last);
            case GAP_SHAPE_BEFORE: return shape(first, before);
            case GAP_SHAPE_AFTER: return shape(behind, last);
            case GAP_LENGTH_BEFORE: return (uint32_t)(before - start < 8 ? before - start : 8);
            case GAP_LENGTH_AFTER: return 1 + (uint32_t)(end - behind < 8 ? end - behind : 8);
            case GAP_SIGNS: return signs_[p];
            case GAP_SINCE_LAST: return (uint32_t)(p - previous < 6 ? p - previous : 6);
            default: return known(field, before);
        }
    }

    // 1 and the number of the last span that is a known word; 0 without a lexicon.
    uint32_t known(int64_t field, int64_t before) const {
        if (!lexicon_.n0) return 0;
        const bool is_across = field == GAP_KNOWN_ACROSS;
        uint32_t found = 1, number = 2;
        for (int64_t size = 1 + is_across; size <= LONGEST_KNOWN - is_across; ++size) {
            const int64_t first = field == GAP_KNOWN_AFTER ? 0 : field == GAP_KNOWN_BEFORE ? size : 1;
            const int64_t last = is_across ? size - 1 : first;
            for (int64_t left = first; left <= last; ++left, ++number)
                if (is_known(before - left, before + size - left)) found = number;
        }
        return found;
    }

    bool is_known(int64_t first, int64_t last) const {
        if (first < 0 || last > n_) return false;
        return has_value(lexicon_, lower_.of(first, last));
    }
};

}  // namespace gpuparse
