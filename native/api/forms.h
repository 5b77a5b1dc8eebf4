// The input of forms: values of fields, and keys of the rows of a network that scores tags (tagging.h).
#pragma once

#include "conll.h"
#include "types.h"

// Forms, each a line; the forms in lower case; and the kinds of their characters: X upper, x lower, d digit, a
// other letter, all others themselves. All in UTF-8, with a line feed between two lines.
struct FormTexts {
    u8_1 forms;
    u8_1 lowers;
    u8_1 kinds;
};

// The values (N, F) of fields (F, 2) of N forms: 0 where there is no value, else the CRC-32 of a text with bit 2
// set. A field is one of these numbers, and n:
// 0 none; 1 the form; 2 the form in lower case, 3 its first n characters, 4 its last n characters; 5 its kinds, runs as
// one, 6 its first n kinds; 7 whether it has digits (d), hyphens (-), begins with a capital (U), is all capitals (A),
// has other capitals (M), has no letter or digit (P), of forms of ASCII alone; 8 what was seen of it in lower case,
// 9 of it without the last n characters, 10 without the first n, 11 of what is behind its last hyphen or slash.
// The values seen: numbers of `known`, by name; of 9 and 10, names of two characters at least.
GPUPARSE(int64_t) read_forms(const FormTexts* texts, i64_2 fields, const StringTable* seen, u32_1 known,
                             out_u32_2 values);

// Keys of N forms: keys (N, K), of which the first counts (N,) are filled. Those of values (N, F) that are not 0, each
// mixed with the name of its field (F,); then of n-grams of the form in lower case between < and >, each once, of
// the sizes given, at most K - F of them, mixed with ngram_name. lowers: as in FormTexts.
GPUPARSE(int64_t) find_form_keys(u32_2 values, u32_1 names, u8_1 lowers, i64_1 sizes, int64_t ngram_name,
                                 out_u32_2 keys, out_i64_1 counts);

// The value (N,) of the tags that names were seen with: name i with the tags starts[i] : starts[i + 1], each counts times.
// texts: of the tags, a line each. It is of the text of the frequent tags: those with a fiftieth of all
// counts, at most four, the most frequent first, | between; before them the sum of all counts if it is 3 at most.
GPUPARSE(int64_t) classify_counts(i64_1 starts, i32_1 tags, i64_1 counts, u8_1 texts, out_u32_1 values);

// Write, for `count` lines `form TAB UPOS TAB XPOS` and the same in lower case, the form in lower case, a tab, and UPOS. Returns
// the size of `found`, which needs room for both.
GPUPARSE(int64_t) join_words_with_upos(u8_1 names, u8_1 lowers, int64_t count, out_u8_1 found);
