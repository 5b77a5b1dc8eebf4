// Exported functions of word vectors.
#include "api/vectors.h"

#include "batch.h"
#include "learn_vectors.h"

using namespace gpuparse;

// True if weights have the sizes that they should have.
static bool fit_tables(const VectorPlan& plan, const VectorSizes& sizes, const VectorTables& tables) {
    const int64_t most = (int64_t)1 << 16;
    if (!is_between(0, sizes.hidden, most) || !is_between(1, sizes.arc, most) ||
        !is_between(0, sizes.sibling, most) || !is_between(0, sizes.grandparent, most) ||
        !is_between(0, sizes.label, most) ||
        !is_between(0, sizes.n_labels, most) || !is_between(1, plan.n_buckets, most) ||
        sizes.n_between != plan.n_between ||
        !is_between(0, sizes.n_between, MOST_BETWEEN + 1))
        return false;
    const VectorLayout layout(sizes, plan.n_buckets);
    return tables.table.n0 <= INT32_MAX && (tables.table.n0 == 0 || tables.table.n1 == layout.width) &&
           tables.dense.n0 == layout.size;
}

// True if the labels of all words are below `count`, or -1.
static bool fit_labels(const Sentences& sentences, const i64_1& labels, int64_t count) {
    if (labels.n0 == 0) return true;
    if (!are_by_token(sentences, labels.n0)) return false;
    for (int64_t b = 0; b < sentences.starts.n0; b++)
        for (int64_t m = 1; m <= sentences.lengths.data[b]; m++)
            if (!is_between(-1, labels.data[sentences.starts.data[b] + m], count)) return false;
    return true;
}

GPUPARSE(int64_t) find_vector_gradients(const Sentences* sentences, const VectorPlan* plan,
                                        const VectorSizes* sizes, const VectorTables* tables,
                                        const Search* search, const VectorLearning* learning,
                                        const VectorGold* gold, const VectorGradients* gradients,
                                        out_f64_1 counts) {
    if (!fit_tables(*plan, *sizes, *tables)) return BAD_SHAPE;
    VectorLearner learner{{*sentences, *plan, {*sizes, plan->n_buckets}, *tables},
                          *search, *learning, *gold, *gradients};
    const VectorLayout& layout = learner.scorer.layout;
    if (!fits(*plan, *sentences) || !are_heads(*sentences, gold->heads, true) || counts.n0 != 3 ||
        !is_between(VECTOR_HINGE, learning->loss, VECTOR_CONDITIONAL + 1) ||
        !(learning->dropout >= 0.0 && learning->dropout < 1.0) ||
        !is_between(0, gradients->first_node, INT32_MAX) ||
        (search->decoder != BY_EISNER && search->decoder != BY_CHU_LIU_EDMONDS))
        return BAD_SHAPE;
    if ((sizes->sibling || sizes->grandparent) &&
        (learning->loss != VECTOR_HINGE || search->decoder != BY_EISNER))
        return BAD_SHAPE;
    if (!fit_labels(*sentences, gold->labels, layout.labels)) return BAD_SHAPE;
    const int64_t nodes = learner.scorer.count_nodes();
    if (nodes > INT32_MAX || gradients->nodes.n0 != nodes || gradients->nodes.n1 != layout.width ||
        gradients->dense.n0 != layout.size || gradients->occurrences.n0 != nodes * plan->rows.n0)
        return BAD_SHAPE;
    Arena arena;
    const int64_t status = learner.learn(arena);
    if (status == NO_FAILURE) {
        counts.data[0] += learner.wrong;
        counts.data[1] += learner.arc_loss;
        counts.data[2] += learner.label_loss;
    }
    return status;
}

GPUPARSE(int64_t) step_vector_weights(const VectorStep* step, f32_2 gradients, int64_t first,
                                      int64_t last, out_f32_1 weights, out_f32_2 moments) {
    const int64_t size = weights.n0;
    if (first < 0 || last < first || last > size || moments.n0 != 2 ||
        moments.n1 != size || gradients.n0 < 1 || gradients.n1 != size)
        return BAD_SHAPE;
    const VectorStepper stepper(*step);
    constexpr int64_t BLOCK = 512;
    for (int64_t from = first; from < last; from += BLOCK) {
        const int64_t count = last - from < BLOCK ? last - from : BLOCK;
        float sums[BLOCK] = {};
        for (int64_t group = 0; group < gradients.n0; group++)
            add_floats(1.0f, gradients.data + group * size + from, sums, count);
        stepper.take(count, sums, weights.data + from, moments.data + from, moments.data + size + from);
    }
    return OK;
}

static bool fit_occurrences(const i64_1& occurrences, int64_t rows, int64_t nodes) {
    for (int64_t k = 0; k < occurrences.n0; k++)
        if (!is_between(0, occurrences.data[k] >> 32, rows) ||
            (occurrences.data[k] & UINT32_MAX) >= nodes)
            return false;
    return true;
}

GPUPARSE(int64_t) step_vector_rows(const VectorStep* step, i64_1 occurrences, f32_2 gradients,
                                   double scale, out_f32_2 table, out_f32_3 moments) {
    const int64_t width = table.n1, size = table.n0 * width;
    if (moments.n0 != 2 || moments.n1 != table.n0 || moments.n2 != width ||
        (gradients.n0 > 0 && gradients.n1 != width))
        return BAD_SHAPE;
    if (!fit_occurrences(occurrences, table.n0, gradients.n0)) return BAD_SHAPE;
    const VectorStepper stepper(*step);
    Arena arena;
    float* sums = arena.take<float>(width);
    if (!sums) return NO_MEMORY;
    for (int64_t k = 0; k < occurrences.n0;) {
        const int64_t row = occurrences.data[k] >> 32, at = row * width;
        if (is_interrupted(2 * width)) return NO_MEMORY;
        memset(sums, 0, (size_t)width * sizeof(float));
        for (; k < occurrences.n0 && occurrences.data[k] >> 32 == row; k++)
            add_floats(1.0f, gradients.data + (occurrences.data[k] & UINT32_MAX) * width, sums, width);
        for (int64_t j = 0; j < width; j++) sums[j] *= (float)scale;
        stepper.take(width, sums, table.data + at, moments.data + at, moments.data + size + at);
    }
    return OK;
}
