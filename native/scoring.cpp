// Exported functions of scores.
#include "arc_scores.h"

using namespace gpuparse;

template<class W, class Out>
static int64_t score_arcs_of(i32_2 values, i64_1 starts, i64_1 lengths, const ArcPlan& plan,
                             const W* weights, const RowMap& rows, out_f64_3 out) {
    Arena arena;
    for (int64_t b = 0; b < starts.n0; ++b) {
        ArenaMark mark(arena);
        const int64_t n = lengths.data[b];
        PairSums<W> sums = take_pair_sums<W>(plan, n, arena);
        View2<Sum<W>> scores{arena.take<Sum<W>>((n + 1) * (n + 1)), n + 1};
        if (arena.failed()) return NO_MEMORY;
        score_arcs_sentence(values, starts.data[b], n, plan, weights, rows, sums, arena, scores);
        for (int64_t h = 0; h <= n; ++h)
            for (int64_t m = 1; m <= n; ++m)
                out.data[(b * out.n1 + h) * out.n2 + m] = scores(h, m);
    }
    return OK;
}

GPUPARSE(int64_t) score_arcs_batch(i32_2 values, i64_1 starts, i64_1 lengths, const ArcPlan* plan,
                                   any_1 weights, const RowMap* rows, out_f64_3 out) {
    switch (weights.dtype) {
    case DT_I8:
        return score_arcs_of<int8_t, double>(values, starts, lengths, *plan, (const int8_t*)weights.data, *rows, out);
    case DT_I16:
        return score_arcs_of<int16_t, double>(values, starts, lengths, *plan, (const int16_t*)weights.data, *rows, out);
    case DT_F32:
        return score_arcs_of<float, double>(values, starts, lengths, *plan, (const float*)weights.data, *rows, out);
    }
    return BAD_TYPE;
}
