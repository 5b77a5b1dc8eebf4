// Checks of trees and graphs of a treebank. Sentence s has the words word_starts[s] : word_starts[s + 1]
// of W; a head is the number of a word in its sentence, or 0 for the root.
#pragma once

#include "types.h"

// Mark the words (W,) whose arc from their head is non-projective; a negative head counts as the root.
// Returns the first sentence whose heads are no tree, -1 if all are.
GPUPARSE(int64_t) mark_nonprojective(i32_1 heads, i64_1 word_starts, out_b8_1 marks);

// Sentences as ids of values with the edges that gpuparse/data/batch.py has: values (F, T) of fields, which read columns
// (F,); starts (S,) of sentences. ids (C, W): of each column the number of each word's string, whose rows in the table
// (V, F) are rows[ends[column]] and the ones after it; rows 0, 1 and 2 of it are the root's and those of both edges.
GPUPARSE(int64_t) encode_words(i64_1 word_starts, i32_2 ids, i64_1 rows, i64_1 ends, i64_1 columns, i32_2 table,
                               out_i32_2 values, out_i64_1 starts);

// The first fault (S,) of each sentence, a code of gpuparse/data/faults.py, and the number of the
// faulty word. `is_partial`: words may have no head, -1.
GPUPARSE(int64_t) check_sentences(i32_1 heads, i64_1 word_starts, bool single_root, bool is_partial,
                                  out_i32_1 faults, out_i32_1 words);

// Which arcs of graphs are kept so that no cycle is left, and the head that a word is given besides, -1
// for none. Word w has the arcs `starts[w] : starts[w + 1]` of `heads`; `primary` (W,) are trees.
GPUPARSE(int64_t) choose_acyclic_arcs(i64_1 starts, i32_1 heads, i32_1 primary, i64_1 word_starts,
                                      out_b8_1 kept, out_i32_1 added);
