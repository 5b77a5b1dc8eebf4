// Reading and writing CoNLL files, and numbers for strings. Offsets count bytes of `data`.
#pragma once

#include "types.h"

// The results of `scan_conll`: W words, S sentences, F faults, in arrays with room for L lines.
struct ConllTable {
    out_i64_2 columns;      // (L, 11): of a word the offset of each column, and 1 + the line's end
    out_i32_1 heads;        // (L,): HEAD, -1 for `_`, -2 for anything else that is no number
    out_i64_1 lines;        // (L,): the line of a word, from 0
    out_i64_1 word_starts;  // (L + 1,): the first word of each sentence, and W
    out_i64_2 spans;        // (L, 2): a sentence's lines with its comments, without its blank line
    out_i64_2 faults;       // (L, 6): code, detail, line, its offset, span with the blank line
};

// Scan the lines of a CoNLL file, L at most. `counts` receives W, S, F and the lines that end in \r\n.
// `stop_at_fault`: return at the first fault; else leave out the words of its sentence and go on.
GPUPARSE(int64_t) scan_conll(u8_1 data, int64_t max_line, bool stop_at_fault,
                             const ConllTable* found, out_i64_1 counts);

// Names in one array: name r is bytes[ends[r] : ends[r + 1]].
struct ConllNames {
    u8_1 bytes;
    i64_1 ends;
};

// DEPREL of W words, as numbers of `names`.
struct ConllLabels {
    const ConllNames* names;
    i32_1 labels;
};

// The arcs of W words: heads[starts[w] : starts[w + 1]], ascending, with the numbers of relations.
struct ConllArcs {
    const ConllNames* names;
    i64_1 starts;
    i32_1 heads;
    i32_1 relations;
};

// Items of MISC: of each key the value of each word, (K, W, width) bytes; a first byte of 0 for none.
struct ConllItems {
    const ConllNames* keys;
    u8_3 values;
};

// New values of columns of W words; NULL leaves a column as it is.
struct ConllColumns {
    i32_1 heads;  // (W,): -1 writes `_`, -2 leaves HEAD as it is
    const ConllLabels* labels;
    const ConllArcs* arcs;
    const ConllItems* items;
};

// The most bytes that `replace_columns` writes.
GPUPARSE(int64_t) replaced_size(u8_1 data, const ConllColumns* replacing);

// Copy the bytes with columns replaced, and without the spans `dropped` (D, 2), which ascend and
// contain no words. Returns the number of bytes written.
GPUPARSE(int64_t) replace_columns(u8_1 data, i64_2 columns, i64_2 dropped,
                                  const ConllColumns* replacing, out_u8_1 text);

// Copy the bytes with C columns from `first` on replaced in each word: by string ids (C, W) of the
// strings names[ends[i] : ends[i + 1]]. `text` has exactly as many bytes as the result.
GPUPARSE(int64_t) set_columns(u8_1 data, i64_2 columns, int64_t first, u8_1 names, i64_1 ends,
                              i32_2 ids, out_u8_1 text);

// The numbers (W,) under a key of MISC; -1 where there is none, -2 for anything that is no number.
GPUPARSE(int64_t) scan_misc_numbers(u8_1 data, i64_2 columns, u8_1 key, out_i32_1 numbers);

// The items of DEPS, at least one per word: the room that `scan_deps` needs.
GPUPARSE(int64_t) count_deps(u8_1 data, i64_2 columns);

// The arcs in DEPS: `starts` (W + 1,), `heads` (A,) ascending within a word, `spans` (A, 2) of the
// relations. `faults` (S, 5) receives code, sentence, word and span of the first faulty item of each
// faulty sentence, which gets no arcs. Items are left out whose head is an empty node, or was the head of the
// word before. Returns the number of faults; A is the last of `starts`.
GPUPARSE(int64_t) scan_deps(u8_1 data, i64_2 columns, i64_1 word_starts, out_i64_1 starts,
                            out_i32_1 heads, out_i64_2 spans, out_i64_2 faults);

// The place of the first occurrence of a text in `data`; -1 if there is none.
GPUPARSE(int64_t) find_text(u8_1 data, u8_1 text);

// The first word whose text in a column differs between two treebanks of as many words; -1 if none.
GPUPARSE(int64_t) first_difference(u8_1 data, i64_2 columns, u8_1 other, i64_2 other_columns,
                                   int64_t column);

// A hash table of strings: `slots` (a power of two, more than the strings) has a string's number or
// -1; string i is pool[ends[i] : ends[i + 1]] and has the hash hashes[i]. key: of the hash, random, so
// that no file can be made whose strings all have one hash.
struct StringTable {
    int64_t key;
    out_i32_1 slots;
    out_u64_1 hashes;
    out_i64_1 ends;
    out_u8_1 pool;
};

// Numbers of the strings data[starts[k] : stops[k]], -1 for those that the table lacks.
GPUPARSE(int64_t) find_strings(u8_1 data, i64_1 starts, i64_1 stops, const StringTable* table,
                               out_i32_1 ids);

// The same from string `first` on, but new strings are added while there is room. `size` (1,) is the
// number of strings in the table. Returns the string at which it stopped.
GPUPARSE(int64_t) add_strings(u8_1 data, i64_1 starts, i64_1 stops, const StringTable* table,
                              int64_t first, out_i64_1 size, out_i32_1 ids);

// Enter the first `size` strings, all different, into empty slots.
GPUPARSE(int64_t) fill_slots(const StringTable* table, int64_t size);

// Numbers (N,) of different rows (N, C) in order of first appearance, and the first row of each (N,); returns
// how many there are. key: of the hash, as for a table of strings.
GPUPARSE(int64_t) number_rows(i32_2 rows, int64_t key, out_i32_1 numbers, out_i64_1 firsts);
