// Views of text, what is known of gaps between characters and of tokens, and tokens as CoNLL-U.
#pragma once

#include "conll.h"
#include "sequences.h"

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
    u8_1 document;  // the name of the document, written before each number of a sentence; or none
};

// Writes the CoNLL-U if `written` has room for all of it, and fills `found`, without faults, as `scan_conll` does; its
// arrays have exactly as many words and sentences. longest (1,): of the lines, in bytes. Returns the size in bytes.
GPUPARSE(int64_t) write_tokens(u8_1 text, const TokenTable* table, out_u8_1 written, const ConllTable* found,
                               out_i64_1 longest);

// Segments of a text at P places; see TextView of gpuparse/text/views.py.
struct TextView {
    u32_1 codes;
    u32_1 lower;
    u8_1 classes;
    b8_1 is_visible;
    b8_1 is_blank;
    i64_1 starts;  // (S,)
};

// The view of characters (C,), of which `spaces` are no tokens and `blanks` (ascending codes) may be in one;
// segments (S,) begin without a space, but perhaps the first. class_of, lower_of: by code point. Outputs have
// C + 8 * (S + 1) places, `places` C, `starts` S. Returns how many places are filled.
GPUPARSE(int64_t) view_text(u32_1 characters, b8_1 spaces, i64_1 segments, u8_1 class_of, u32_1 lower_of,
                            i64_1 blanks, out_u32_1 codes, out_u32_1 lower, out_u8_1 classes,
                            out_b8_1 is_visible, out_b8_1 is_blank, out_i64_1 source, out_i64_1 places,
                            out_i64_1 starts);

// Gaps that a model decides, by pairs of classes: is_open (2, 128 * 128) without and with a space. Fills places
// (P,) before them, ascending; ends (P,), where tokens end for certain. Returns the number of gaps.
GPUPARSE(int64_t) open_gaps(const TextView* view, b8_2 is_open, out_i64_1 places, out_b8_1 ends);

// Fields (F, P) of gaps after `places`, by numbers of fields. lexicon: ascending.
GPUPARSE(int64_t) gap_fields(const TextView* view, i64_1 places, i64_1 fields, u64_1 lexicon, out_u32_2 values);

// Hashes of spans of values.
GPUPARSE(int64_t) hash_spans(u32_1 values, i64_1 first, i64_1 last, out_u64_1 hashes);

// T tokens in segments: the first place of each and the one after it; starts (S + 1,).
struct TextTokens {
    i64_1 first;
    i64_1 last;
    i64_1 starts;
};

// The tokens that end with the places of `ends` (P,), and which are closing marks. Outputs have room for P
// tokens, starts (S + 1,). Returns the number of tokens.
GPUPARSE(int64_t) find_tokens(const TextView* view, b8_1 ends, out_i64_1 first, out_i64_1 last,
                              out_i64_1 segments, out_i64_1 starts, out_b8_1 closing);

// Fields of tokens by their numbers, at `columns` (T,) of the values (F, R). cases: (T,) of their words.
GPUPARSE(int64_t) token_fields(const TextView* view, const TextTokens* tokens, i64_1 fields, u8_1 cases,
                               i64_1 columns, out_u32_2 values);

// The kinds of words of tokens with a capital letter, by hashes, ascending; 0 for other tokens and words.
GPUPARSE(int64_t) find_cases(const TextView* view, const TextTokens* tokens, u64_1 hashes, u8_1 kinds,
                             out_u8_1 cases);

// A tokeniser: the tables and models that the functions above and of sequences.h take. `gaps` and its templates are
// NULL where no gap is open. Some rule of multiword tokens may fit a token that ends with a pair of ending_pairs, or
// begins with one of beginning_pairs, (256, 256) by the low bytes of characters in lower case, or (0, 0); and there a
// text of up to 100 characters in lower case whose hash is in `edges`, ascending. word_templates: of the model that chooses
// among rules, NULL without rules; they read fields of a token alone.
struct TextTokenizer {
    u8_1 class_of;
    u32_1 lower_of;
    i64_1 blanks;
    b8_2 is_open;
    const SequenceModel* gaps;
    const SequenceTemplates* gap_templates;
    i64_1 gap_fields;
    u64_1 lexicon;
    const SequenceModel* ends;
    const SequenceTemplates* end_templates;
    i64_1 end_fields;
    u64_1 hashes;
    u8_1 kinds;
    bool keeps_closing;
    u64_1 edges;
    b8_2 ending_pairs;
    b8_2 beginning_pairs;
    const SequenceTemplates* word_templates;
    i64_1 word_fields;
};

// The tokens of characters, as `view_text` takes them, all steps in one. known: (C,) of each character, 0 the models
// decide, 1 no token ends there, 2 one does; or missing. of_segments: whether sentences end where segments do, and
// nowhere else. tokens: (3, C) first characters, those after the last ones, segments. flags: (2, C) whether a
// sentence ends with a token, and whether it may be a multiword token. features (K, T): those of word_templates of the
// tokens that may be, if they are K at most. Returns the number of tokens.
GPUPARSE(int64_t) split_text(const TextTokenizer* tokenizer, u32_1 characters, b8_1 spaces, i64_1 segments,
                             u8_1 known, bool of_segments, out_i64_2 tokens, out_b8_2 flags,
                             out_u32_2 features);
