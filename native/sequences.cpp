// The exported functions of linear models of sequences.
#include "sequences.h"

#include "sequence_features.h"
#include "two_tags.h"

using namespace gpuparse;

namespace {

// True if starts ascend by at least one from 0 to `end`.
bool are_filled_starts(const i64_1& starts, int64_t end) {
    if (!are_starts(starts, end)) return false;
    for (int64_t i = 1; i < starts.n0; ++i)
        if (starts.data[i] == starts.data[i - 1]) return false;
    return true;
}

SequenceTables tables_of(const SequenceModel& model) {
    return {model, model.tag_starts.n0 - 1, PART_BLOCK * model.blocks.n0, model.coarse_starts.n0 - 1, 0, {}};
}

int64_t check_model(const SequenceModel& model, int64_t width) {
    const int64_t n_tags = model.tag_starts.n0 - 1, rows = model.weights.n0;
    if (model.weights.dtype != DT_I16 && model.weights.dtype != DT_F32) return BAD_TYPE;
    if (rows < PART_BLOCK || rows > (int64_t(1) << 31) || (rows & (rows - 1))) return BAD_SHAPE;
    if (model.known.n0 != (1 << 19) || model.folded.n0 != FOLDED_WORDS) return BAD_SHAPE;
    if (n_tags < 1 || n_tags >= INT32_MAX || !are_filled_starts(model.tag_starts, model.tag_parts.n0) ||
        !are_between(0, model.tag_parts, PART_BLOCK * model.blocks.n0) || !are_filled_starts(model.coarse_starts, n_tags))
        return BAD_SHAPE;
    if (!is_between(2, model.beam.n0, 4) || !are_between(1, model.beam, INT32_MAX)) return BAD_SHAPE;
    if (model.contexts.n0 > SequenceLattice<float>::MOST_CONTEXTS || (model.contexts.n0 && model.contexts.n1 != 4))
        return BAD_SHAPE;
    for (int64_t c = 0; c < model.contexts.n0; ++c) {
        const int32_t* context = model.contexts.data + 4 * c;
        if (!is_between(0, context[1], 3) || !is_between(0, context[2], 3) || !(context[1] || context[2]) ||
            !is_between(-1, context[3], width))
            return BAD_SHAPE;
    }
    if (model.pair_weights.n0 && (model.pair_weights.n0 != rows / PART_BLOCK || model.pair_weights.n1 != 2 || n_tags != 2 ||
                                  model.blocks.n0 != 1 || order_of(model) > 1 || model.weights.dtype != DT_I16))
        return BAD_SHAPE;
    return OK;
}

int64_t check_batch(const SequenceModel& model, const SequenceBatch& batch) {
    const int64_t status = check_model(model, batch.features.n1);
    if (status != OK) return status;
    const int64_t n_tags = model.tag_starts.n0 - 1, n = batch.features.n0;
    const i8_2& outputs = model.outputs;
    if (outputs.n0 && (outputs.n0 != PART_BLOCK * model.blocks.n0 || outputs.n1 < 1 || outputs.n1 % 64 ||
                       model.output_constants.n0 != outputs.n0 || batch.hidden.n0 != n ||
                       batch.hidden.n1 != outputs.n1 || !is_between(0, model.output_multiplier, (int64_t)1 << 31) ||
                       !is_between(0, model.output_shift, 63)))
        return BAD_SHAPE;
    if (!are_starts(batch.starts, n) || batch.candidate_starts.n0 != n + 1 ||
        !are_starts(batch.candidate_starts, batch.candidates.n0) || !are_between(0, batch.candidates, n_tags))
        return BAD_SHAPE;
    return OK;
}

template <class W>
int64_t find_all(const SequenceModel& model, const SequenceBatch& batch, out_i32_1 tags) {
    Arena arena;
    SequenceTables tables = tables_of(model);
    if (!tables.make(arena)) return NO_MEMORY;
    for (int64_t s = 0; s + 1 < batch.starts.n0; ++s) {
        ArenaMark mark(arena);
        const int64_t start = batch.starts.data[s], end = batch.starts.data[s + 1];
        if (is_interrupted(1000 * (end - start))) return NO_MEMORY;
        const int64_t margin = model.beam.n0 > 2 ? model.beam.data[2] : -1;
        SequenceLattice<W> lattice(tables, batch, start, end, nullptr, 0, margin, arena);
        if (arena.failed()) return NO_MEMORY;
        int32_t* places = tags.data + start;
        lattice.best(places);
        if (arena.failed()) return NO_MEMORY;
        for (int64_t t = 0; t < end - start; ++t) places[t] = lattice.tag(t, places[t]);
    }
    return OK;
}

template <class W>
int64_t sum_all(const SequenceModel& model, const SequenceBatch& batch, double scale, out_i32_2 tags,
                out_f64_2 probabilities) {
    Arena arena;
    SequenceTables tables = tables_of(model);
    if (!tables.make(arena)) return NO_MEMORY;
    for (int64_t s = 0; s + 1 < batch.starts.n0; ++s) {
        ArenaMark mark(arena);
        const int64_t start = batch.starts.data[s], end = batch.starts.data[s + 1];
        if (is_interrupted(1000 * (end - start))) return NO_MEMORY;
        SequenceLattice<W> lattice(tables, batch, start, end, nullptr, 0, -1, arena);
        double* found = arena.failed() ? nullptr : arena.take<double>(lattice.n_cells());
        if (arena.failed()) return NO_MEMORY;
        lattice.sums(scale, found);
        if (arena.failed()) return NO_MEMORY;
        for (int64_t t = 0; t < end - start; ++t) {
            int32_t* of_tags = tags.data + (start + t) * tags.n1;
            double* of_probabilities = probabilities.data + (start + t) * tags.n1;
            double* left = found + lattice.cell(t, 0);
            for (int64_t i = 0; i < tags.n1; ++i) {
                of_tags[i] = -1;
                of_probabilities[i] = 0;
                int64_t top = -1;
                for (int64_t j = 0; j < lattice.count(t); ++j)
                    if (left[j] >= 0 && (top < 0 || left[j] > left[top])) top = j;
                if (top < 0) continue;
                of_tags[i] = lattice.tag(t, top);
                of_probabilities[i] = left[top];
                left[top] = -1;
            }
        }
    }
    return OK;
}

}  // namespace

GPUPARSE(int64_t) sequence_features(const SequenceTemplates* templates, u32_2 values, i64_1 places,
                                    out_u32_2 features) {
    if (!templates || !templates_fit(*templates, values, places) || features.n0 != places.n0 ||
        features.n1 != templates->keys.n0)
        return BAD_SHAPE;
    Arena arena;
    uint32_t* read = arena.take<uint32_t>(templates->reads.n0 * FEATURE_LANES);
    if (arena.failed()) return NO_MEMORY;
    write_features(*templates, values, places, features.data, read);
    return OK;
}

// As `find_all` of a model that `TwoTagSearch` fits.
static int64_t find_two_tags(const SequenceModel& model, const SequenceBatch& batch, out_i32_1 tags) {
    Arena arena;
    SequenceTables tables = tables_of(model);
    if (!tables.make(arena)) return NO_MEMORY;
    TwoTagSearch search(tables, batch, arena);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t s = 0; s + 1 < batch.starts.n0; ++s) {
        ArenaMark mark(arena);
        if (is_interrupted(100 * (batch.starts.data[s + 1] - batch.starts.data[s]))) return NO_MEMORY;
        if (!search.find(batch.starts.data[s], batch.starts.data[s + 1], tags.data, arena)) return NO_MEMORY;
    }
    return OK;
}

GPUPARSE(int64_t) find_sequences(const SequenceModel* model, const SequenceBatch* batch, out_i32_1 tags) {
    const int64_t status = check_batch(*model, *batch);
    if (status != OK) return status;
    if (tags.n0 != batch->features.n0) return BAD_SHAPE;
    if (TwoTagSearch::fits(*model, *batch)) return find_two_tags(*model, *batch, tags);
    if (model->weights.dtype == DT_I16) return find_all<int16_t>(*model, *batch, tags);
    return find_all<float>(*model, *batch, tags);
}

GPUPARSE(int64_t) sum_sequences(const SequenceModel* model, const SequenceBatch* batch, double scale,
                                out_i32_2 tags, out_f64_2 probabilities) {
    const int64_t status = check_batch(*model, *batch);
    if (status != OK) return status;
    if (tags.n0 != batch->features.n0 || probabilities.n0 != tags.n0 || probabilities.n1 != tags.n1 ||
        !(scale > 0 && scale < INFINITY))
        return BAD_SHAPE;
    if (model->weights.dtype == DT_I16) return sum_all<int16_t>(*model, *batch, scale, tags, probabilities);
    return sum_all<float>(*model, *batch, scale, tags, probabilities);
}

GPUPARSE(int64_t) learn_sequences(const SequenceModel* model, const SequenceBatch* batch, i32_1 gold,
                                  i64_1 order, int64_t seen, double cost, double max_step,
                                  out_f32_1 weights, out_f64_1 sums, out_i64_1 wrong,
                                  out_u32_1 changed) {
    const int64_t status = check_batch(*model, *batch);
    if (status != OK) return status;
    if (model->weights.dtype != DT_F32 || weights.data != (const float*)model->weights.data ||
        weights.n0 != model->weights.n0 || sums.n0 != weights.n0 || wrong.n0 != 1 ||
        changed.n0 != model->known.n0 ||
        gold.n0 != batch->features.n0 || !are_between(0, gold, model->tag_starts.n0 - 1) ||
        !are_between(0, order, batch->starts.n0 - 1))
        return BAD_SHAPE;
    Arena arena;
    SequenceTables tables = tables_of(*model);
    if (!tables.make(arena)) return NO_MEMORY;
    for (int64_t o = 0; o < order.n0; ++o, ++seen) {
        ArenaMark mark(arena);
        const int64_t start = batch->starts.data[order.data[o]], end = batch->starts.data[order.data[o] + 1];
        if (is_interrupted(2000 * (end - start))) return NO_MEMORY;
        const int32_t* right = gold.data + start;
        SequenceLattice<float> lattice(tables, *batch, start, end, right, cost, -1, arena);
        int32_t* found = arena.take<int32_t>(end - start);
        if (arena.failed()) return NO_MEMORY;
        lattice.best(found);
        if (arena.failed()) return NO_MEMORY;
        int64_t n_wrong = 0;
        for (int64_t t = 0; t < end - start; ++t) {
            found[t] = lattice.tag(t, found[t]);
            n_wrong += found[t] != right[t];
        }
        if (!n_wrong) continue;
        wrong.data[0] += n_wrong;
        WeightChange* changes = arena.take<WeightChange>(lattice.most_differences(right, found));
        if (arena.failed()) return NO_MEMORY;
        const int64_t count = lattice.differences(right, found, changes);
        double step = 1;
        if (max_step > 0) {
            const double loss = (cost > 0 ? cost * (double)n_wrong : 1.0) + lattice.score_of(found) -
                                lattice.score_of(right);
            step = loss / (double)(count > 0 ? count : 1);
            step = step > max_step ? max_step : step > 0 ? step : 0;
        }
        if (step > 0) lattice.add_changed(right, found, changed.data);
        for (int64_t i = 0; i < count; ++i) {
            const float change = (float)(step * changes[i].delta);
            weights.data[changes[i].index] += change;
            sums.data[changes[i].index] += (double)change * (double)seen;
        }
    }
    return OK;
}
