// Tokens of a text as CoNLL-U.
#pragma once

#include "types.h"

// T tokens in S sentences, none empty, with W words. What the arrays mean says gpuparse/text/conllu.py.
struct TokenTable {
    i64_1 starts;           // (T,) byte offsets in the text, ascending
    i64_1 ends;             // (T,)
    i64_1 sentence_starts;  // (S + 1,)
    u8_1 begins;            // (S,) 0, 1 a paragraph, 2 a document
    i64_1 segments;         // (S,)
    i64_1 numbers;          // (S,)
    i64_1 word_starts;      // (T + 1,)
    u8_1 words;
    i64_1 word_ends;        // (W + 1,)
    i64_2 characters;       // (T, 2), or (0, 2)
    bool ends_paragraph;
};

// Writes the CoNLL-U if `written` has room for all of it. Returns its size in bytes.
GPUPARSE(int64_t) write_tokens(u8_1 text, const TokenTable* table, out_u8_1 written);
