// Exported functions of word vectors.
#include "api/vectors.h"

#include "vector_rows.h"

using namespace gpuparse;

GPUPARSE(int64_t) find_vector_rows(const Sentences* sentences, const VectorPlan* plan,
                                   out_i32_2 found) {
    const int64_t count = plan->rows.n0;
    if (!fits(*plan, *sentences, INT32_MAX) || found.n0 != sentences->values.n1 || found.n1 != count)
        return BAD_SHAPE;
    for (int64_t b = 0; b < sentences->starts.n0; ++b) {
        for (int64_t i = 0; i <= sentences->lengths.data[b]; ++i) {
            const int64_t token = sentences->starts.data[b] + i;
            for (int64_t k = 0; k < count; ++k)
                found.data[token * count + k] = vector_row(*plan, sentences->values, k, token);
        }
    }
    return OK;
}
