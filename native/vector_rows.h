// The rows of the table of word vectors that a node has.
#pragma once
#include "api/vectors.h"
#include "views.h"

namespace gpuparse {

// Whether a plan fits a batch: nothing that is read of them is missing. Places are not looked at, of
// which there are more than a batch reads: who reads one asks whether there is such a row.
inline bool fits(const VectorPlan& plan, const Sentences& sentences) {
    const int64_t count = plan.rows.n0, tokens = sentences.values.n1;
    if (plan.offsets.n0 != count || plan.starts.n0 != count || plan.sizes.n0 != count ||
        plan.n_buckets < 1 || plan.buckets.n0 < 1 || !are_between(0, plan.buckets, plan.n_buckets) ||
        !are_between(0, plan.rows, sentences.values.n0))
        return false;
    int64_t before = 0, after = 0;
    for (int64_t k = 0; k < count; ++k) {
        const int64_t offset = plan.offsets.data[k], start = plan.starts.data[k];
        if (!is_between(-tokens, offset, tokens) || start < 0 || plan.sizes.data[k] < 0 ||
            plan.sizes.data[k] > plan.places.n0 - start)
            return false;
        if (-offset > before) before = -offset;
        if (offset > after) after = offset;
    }
    if (sentences.starts.n0 != sentences.lengths.n0) return false;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        if (start < before || n < 0 || n >= tokens - after - start) return false;
    }
    return true;
}

// The row of template k at a token, of a table of `n_rows`; -1 for none.
inline int64_t vector_row(const VectorPlan& plan, const i32_2& values, int64_t k, int64_t token,
                          int64_t n_rows) {
    const int32_t value =
        values.data[plan.rows.data[k] * values.n1 + token + plan.offsets.data[k]];
    const bool is_known = value >= 0 && value < plan.sizes.data[k];
    const int64_t row = is_known ? plan.places.data[plan.starts.data[k] + value] : -1;
    return row < n_rows ? row : -1;
}

}  // namespace gpuparse
