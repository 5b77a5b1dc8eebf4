// The exported functions of networks that score tags.
#include "learn_tag_network.h"
#include "sequence_features.h"
#include "tag_network.h"
#include "word_values.h"

using namespace gpuparse;

namespace {

// True if forms, from `reach` before each place to `reach` after it, are some of `n_forms`.
bool places_fit(const i64_1& forms, const i64_1& places, int64_t reach, int64_t n_forms) {
    return are_between(0, forms, n_forms) && are_between(reach, places, forms.n0 - reach);
}

bool fits(const TagNetwork& network) {
    const int64_t size = network.table.n1, hidden = network.window.n2, offsets = network.window.n0;
    return size > 0 && size % 64 == 0 && hidden > 0 && hidden % 64 == 0 && offsets % 2 && offsets <= MOST_OFFSETS &&
           network.scales.n0 == network.table.n0 && network.window.n1 == size / 4 && network.window.n3 == 4 &&
           network.runs.n0 == hidden / HIDDEN_OF_RUN && network.runs.n1 == 2 &&
           are_between(0, i32_1{network.runs.data, network.runs.n0 * 2}, size / 4 + 1) &&
           network.bases.n0 == offsets && network.bases.n1 == hidden && network.bias.n0 == hidden &&
           are_between(-(1 << 30), network.bias, 1 << 30) &&  // sums of 32 bits
           is_between(0, network.vector_shift, 31) && is_between(0, network.window_shift, 31) &&
           network.hidden_shifts.n0 == hidden && are_between(0, network.hidden_shifts, 31);
}

bool fits(const TagTask& task, int64_t n) {
    if (!task.gold.n0) return task.tag_starts.n0 == 1 && !task.tag_parts.n0;
    return task.gold.n0 == n && are_starts(task.tag_starts, task.tag_parts.n0) &&
           are_between(0, task.tag_parts, INT32_MAX) && task.candidate_starts.n0 == n + 1 &&
           are_starts(task.candidate_starts, task.candidates.n0) &&
           are_between(0, task.candidates, task.tag_starts.n0 - 1) && are_between(0, task.gold, task.tag_starts.n0 - 1);
}

}  // namespace

GPUPARSE(int64_t) find_form_vectors(const TagNetwork* network, i64_1 row_starts, i32_1 rows,
                                    out_u8_2 vectors) {
    if (!network || !fits(*network) || !are_starts(row_starts, rows.n0) || vectors.n0 != row_starts.n0 - 1 ||
        !are_between(0, rows, network->table.n0) || vectors.n1 != network->table.n1)
        return BAD_SHAPE;
    Arena arena;
    return fill_form_vectors(*network, row_starts, rows, vectors, arena) ? OK : NO_MEMORY;
}

GPUPARSE(int64_t) find_word_values(const WordForms* forms, i64_1 fields, const WordBatch* words, out_u32_2 values,
                                   out_i64_1 places) {
    if (!forms || !words || !words_fit(*words, *forms, fields) || values.n0 != fields.n0 ||
        values.n1 != places_of(*words) || places.n0 != words->ids.n0)
        return BAD_SHAPE;
    find_places(*words, places.data);
    fill_word_values(*forms, fields, *words, values.data);
    return OK;
}

GPUPARSE(int64_t) read_words(const WordReader* reader, const WordForms* forms, const WordBatch* words, i32_1 lists,
                             i64_1 ends, i32_1 items, i64_1 before, out_u32_2 features,
                             out_i64_1 candidate_starts, out_i32_1 candidates, out_u8_2 hidden,
                             const SequenceModel* model, out_i32_1 tags) {
    if (!reader || !reader->templates || !forms || !words || !words_fit(*words, *forms, reader->fields))
        return BAD_SHAPE;
    const SequenceTemplates& templates = *reader->templates;
    const TagNetwork* network = reader->network;
    const int64_t n = words->ids.n0, n_places = places_of(*words);
    if (lists.n0 != n || !are_starts(ends, items.n0) || !are_between(0, lists, ends.n0 - 1) || features.n0 != n ||
        features.n1 != templates.keys.n0 || candidate_starts.n0 != n + 1 || (before.n0 && before.n0 != n + 1) ||
        (tags.n0 && !model) || (network && (!fits(*network) || forms->vectors.n1 != network->table.n1 || hidden.n0 != n ||
                     forms->vectors.n0 != forms->letters.n0 || hidden.n1 != network->window.n2)))
        return BAD_SHAPE;
    Arena arena;
    int64_t* places = arena.take<int64_t>(n);
    uint8_t* wanted = arena.take<uint8_t>(n);
    if (arena.failed()) return NO_MEMORY;
    find_places(*words, places);
    {
        Arena of_values;  // of its own: later blocks of an arena are twice as large
        uint32_t* values = of_values.take<uint32_t>(reader->fields.n0 * n_places);
        uint32_t* read = of_values.take<uint32_t>(templates.reads.n0 * FEATURE_LANES);
        if (of_values.failed()) return NO_MEMORY;
        fill_word_values(*forms, reader->fields, *words, values);
        const u32_2 at_places{values, reader->fields.n0, n_places};
        if (!templates_fit(templates, at_places, {places, n})) return BAD_SHAPE;
        write_features(templates, at_places, {places, n}, features.data, read);
    }
    int64_t at = 0;
    for (int64_t w = 0; w < n; ++w) {
        const int64_t first = ends.data[lists.data[w]], count = ends.data[lists.data[w] + 1] - first;
        if (count > candidates.n0 - at) return BAD_SHAPE;
        candidate_starts.data[w] = at;
        for (int64_t k = 0; k < count; ++k) candidates.data[at++] = items.data[first + k];
        wanted[w] = count != 1 && (!before.n0 || before.data[w + 1] - before.data[w] == 1);
    }
    candidate_starts.data[n] = at;
    if (at != candidates.n0) return BAD_SHAPE;
    const auto find = [&] {
        const SequenceBatch batch{{features.data, n, features.n1}, words->starts, {candidate_starts.data, n + 1},
                                  {candidates.data, at}, {hidden.data, hidden.n0, hidden.n1}};
        return tags.n0 ? find_sequences(model, &batch, tags) : (int64_t)OK;
    };
    if (!network) return find();
    // Forms at places: those before and behind sentences, then the words'.
    int64_t* at_place = arena.take<int64_t>(n_places);
    int64_t* rows = arena.take<int64_t>(words->rows.n0 + 2);
    if (arena.failed()) return NO_MEMORY;
    rows[0] = 0;
    rows[1] = 1;
    for (int64_t u = 0; u < words->rows.n0; ++u) rows[u + 2] = words->rows.data[u];
    fill_places(*words, [&](int64_t place, int64_t w) { at_place[place] = w < 0 ? w + 2 : words->ids.data[w] + 2; });
    if (!fill_hidden(*network, forms->vectors, rows, words->rows.n0 + 2, at_place, {places, n}, wanted, hidden, arena))
        return NO_MEMORY;
    return find();
}

GPUPARSE(int64_t) learn_tag_network(const TagLesson* lesson, const TagTask* first, const TagTask* second,
                                    const TagLearning* learning, const VectorStep* step, i64_1 order,
                                    out_f32_2 table, out_f32_1 dense, out_f32_3 table_moments,
                                    out_f32_2 dense_moments, out_f64_1 counts) {
    if (!lesson || !first || !second || !learning || !step) return BAD_SHAPE;
    const int64_t n = lesson->places.n0, reach = learning->reach;
    if (!is_between(0, reach, MOST_OFFSETS / 2 + 1) || !is_between(1, learning->hidden, dense.n0 + 1) ||
        !is_between(1, learning->batch, INT32_MAX) ||
        !(learning->dropout >= 0 && learning->dropout < 1) || learning->all_steps < 1 || step->steps < 0 ||
        !are_starts(lesson->starts, n) || !are_starts(lesson->row_starts, lesson->rows.n0) ||
        !are_between(0, lesson->rows, table.n0) || lesson->dropped.n0 != table.n0 ||
        !places_fit(lesson->forms, lesson->places, reach, lesson->row_starts.n0 - 1) || !fits(*first, n) ||
        !fits(*second, n) || !are_between(0, order, lesson->starts.n0 - 1) || table.n1 < 1 || counts.n0 != 3 ||
        table_moments.n0 != 2 || table_moments.n1 != table.n0 || table_moments.n2 != table.n1 ||
        dense_moments.n0 != 2 || dense_moments.n1 != dense.n0)
        return BAD_SHAPE;
    Arena arena;
    TagNetworkLearner learner(*lesson, *first, *second, *learning, table, dense, table_moments, dense_moments);
    if (learner.n_dense != dense.n0) return BAD_SHAPE;
    if (!learner.make(arena)) return NO_MEMORY;
    VectorStep here = *step;
    for (int64_t at = 0; at < order.n0; at += learning->batch, ++here.steps) {
        const int64_t left = order.n0 - at, count = left < learning->batch ? left : learning->batch;
        if (is_interrupted(100000)) return NO_MEMORY;
        if (!learner.learn(order.data + at, count, here, counts.data, arena)) return NO_MEMORY;
    }
    return OK;
}
