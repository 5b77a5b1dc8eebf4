// Scores from word vectors.
#pragma once
#include "parsing.h"

// Templates of one word, K of them; see gpuparse/features/word_vectors.py. Template k reads row rows[k]
// of a batch's values at the token `offsets[k]` further on; value v there has the row
// places[starts[k] + v] of the table of vectors, -1 for none, where v < sizes[k]. buckets, n_buckets: of
// distances, as in `ArcPlan`.
struct VectorPlan {
    i64_1 rows;
    i64_1 offsets;
    i64_1 starts;
    i64_1 sizes;
    i32_1 places;
    i64_1 buckets;
    int64_t n_buckets;
};

// Write the table rows of every node of the sentences: found (tokens, K), -1 for none.
GPUPARSE(int64_t) find_vector_rows(const Sentences* sentences, const VectorPlan* plan,
    out_i32_2 found);
