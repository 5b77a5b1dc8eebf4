// A network that scores tags by vectors of the words around a position: in whole numbers, and while it is
// learned. A form has a vector of D numbers, the sum of rows of a table; a position has H hidden numbers,
// not below 0, of the vectors of the words from `reach` before it to `reach` after it; a part of a tag has a
// score, the product of the hidden numbers with a row.
#pragma once

#include "sequences.h"
#include "types.h"
#include "vectors.h"

// In whole numbers; every rounding adds half and shifts right.
// The vector of a form is its rows of `table` (R, D) times their `scales` (R,), shifted by vector_shift and cut
// to +-63. What a form adds at offset o to the hidden numbers of a position is the product with
// window[o] (2 reach + 1, D / 4, H, 4), shifted by window_shift and cut to +-4095. A hidden number is the
// sum of it with `bias` (H,), shifted by hidden_shifts (H,) and cut to 0 .. 127. bases (2 reach + 1, H): 64 times
// the sum of window over D. runs (H / 64, 2): of each 64 hidden numbers, the first group of
// four numbers of vectors for which window has a number that is not 0, and the one behind the last; 0, 0 for none.
// Several networks in one have blocks, and zeros beside them. reach is at most 3; D and H are multiples of 64.
struct TagNetwork {
    i8_2 table;
    u8_1 scales;
    int64_t vector_shift;
    i8_4 window;
    i32_2 bases;
    i32_2 runs;
    int64_t window_shift;
    i32_1 bias;
    i32_1 hidden_shifts;
};

// The vectors (F, D) of forms, each number plus 64: form f has the rows rows[row_starts[f] : row_starts[f + 1]].
GPUPARSE(int64_t) find_form_vectors(const TagNetwork* network, i64_1 row_starts, i32_1 rows,
                                    out_u8_2 vectors);

// Forms, a row each, the first two for what is before and behind a sentence: values (F, R) of fields, which are 1 and 2
// in the first two; letters (R, 3) whether the form begins with a letter, with a capital, and is all capitals; vectors (R, D)
// of a network.
struct WordForms {
    u32_2 values;
    i64_2 letters;
    u8_2 vectors;
};

// W words in S sentences: ids (W,) of U forms, whose rows are rows (U,); given (G, W): values of some fields.
struct WordBatch {
    i64_1 starts;  // (S + 1,)
    i32_1 ids;
    i64_1 rows;
    u32_2 given;
};

// The values (F, P) of fields at all places: of sentences with 4 places before and behind each, P = W + 8 S. fields
// (F,): a row of forms->values; -1 the first, second or later word of a sentence; -2 its capitals, see
// gpuparse/text/tagging/fields.py; -3 - g row g of given. places (W,): of the words.
GPUPARSE(int64_t) find_word_values(const WordForms* forms, i64_1 fields, const WordBatch* words, out_u32_2 values,
                                   out_i64_1 places);

// A model's view of words: the fields of its templates, as above; the network whose hidden numbers it reads, or NULL.
struct WordReader {
    const SequenceTemplates* templates;
    i64_1 fields;
    const TagNetwork* network;
};

// Words as a SequenceBatch (sequences.h): features (W, T); candidate_starts (W + 1,) and candidates: word w has those of
// the list lists[w], items[ends[list] : ends[list + 1]]; hidden (W, H) of words that do not have one candidate. before:
// empty, or candidate_starts of the same words whose hidden numbers are there already. tags: empty, or (W,) of
// `find_sequences` of the model.
GPUPARSE(int64_t) read_words(const WordReader* reader, const WordForms* forms, const WordBatch* words, i32_1 lists,
                             i64_1 ends, i32_1 items, i64_1 before, out_u32_2 features,
                             out_i64_1 candidate_starts, out_i32_1 candidates, out_u8_2 hidden,
                             const SequenceModel* model, out_i32_1 tags);

// The data that a network is learned from: sequence s has the positions starts[s] : starts[s + 1] of N. Forms,
// places and rows as above; row r is left out with the probability dropped[r]. More forms than one may
// be of the same word.
struct TagLesson {
    i64_1 starts;
    i64_1 forms;
    i64_1 places;
    i64_1 row_starts;
    i32_1 rows;
    f32_1 dropped;
};

// Tags that are learned: parts of tags and candidates as in sequences.h, all tags where there are no
// candidates; gold (N,) is one of them. A position with one candidate is not learned from.
struct TagTask {
    i64_1 tag_starts;
    i32_1 tag_parts;
    i64_1 candidate_starts;
    i32_1 candidates;
    i32_1 gold;
};

// Settings: batch, in sequences; dropout of numbers of vectors and of hidden ones; step->steps is raised after
// each batch, whose rate is step->rate less steps / all_steps of it, but not less than a twentieth.
struct TagLearning {
    int64_t reach;
    int64_t hidden;
    int64_t batch;
    double dropout;
    int64_t seed;
    int64_t all_steps;
};

// Take steps of Adam for batches of the sequences of `order`. Weights: table (R, D); dense: window
// (2 reach + 1, D, H), bias (H,), then of each task rows (parts, H) and constants (parts,). Moments
// (2, ...) of both. counts (3,): raised by the loss, positions, and wrong ones, of the first task.
GPUPARSE(int64_t) learn_tag_network(const TagLesson* lesson, const TagTask* first, const TagTask* second,
                                    const TagLearning* learning, const VectorStep* step, i64_1 order,
                                    out_f32_2 table, out_f32_1 dense, out_f32_3 table_moments,
                                    out_f32_2 dense_moments, out_f64_1 counts);
