// Learning of a network that scores tags: the likelihood of gold tags among the candidates, by Adam.
// Sums are added in the same order on every machine.
#pragma once

#include "api/tagging.h"
#include "arena.h"
#include "random.h"
#include "vector_exp.h"
#include "vector_lines.h"
#include "vector_steps.h"
#include "views.h"

namespace gpuparse {

constexpr double LAST_RATE = 0.05;   // of the first one
constexpr int64_t ROWS_AHEAD = 4;    // that are fetched meanwhile

// True if numbers are dropped: eight decisions of one random number.
class Dropper {
public:
    Dropper(uint64_t seed, double probability)
        : state_(seed), threshold_((uint8_t)(256.0 * probability)), scale_(256.0f / (256.0f - (float)threshold_)) {}

    // Fill factors with 0 or with what keeps the mean.
    void fill(float* factors, int64_t count) {
        uint64_t bits[AT_ONCE];
        uint8_t bytes[sizeof bits];
        for (int64_t k = 0; k < count; k += (int64_t)sizeof bits) {
            const int64_t left = count - k;
            for (int64_t j = 0; j < AT_ONCE; ++j) bits[j] = Random::mixed(state_ + (uint64_t)(j + 1) * STEP);
            state_ += (uint64_t)(left < (int64_t)sizeof bits ? (left + 7) / 8 : AT_ONCE) * STEP;
            memcpy(bytes, bits, sizeof bits);
            if (left >= (int64_t)sizeof bits)
                write(factors + k, bytes, sizeof bits);
            else
                write(factors + k, bytes, left);
        }
    }

private:
    static constexpr int64_t AT_ONCE = 64;  // random numbers
    static constexpr uint64_t STEP = 0x9E3779B97F4A7C15;

    void write(float* __restrict factors, const uint8_t* __restrict bytes, int64_t count) const {
        for (int64_t j = 0; j < count; ++j) factors[j] = bytes[j] < threshold_ ? 0.0f : scale_;
    }

    uint64_t state_;
    uint8_t threshold_;
    float scale_;
};

// A task, where its weights are, and room for the parts of the candidates of one position.
struct TaskLearner {
    const TagTask& task;
    int64_t n_tags, n_parts, rows, constants;  // rows, constants: of the dense weights
    int64_t* seen;                             // (parts,) position of the last use
    int32_t *used, *place_of;                  // parts of a position; (parts,) their places there
    int32_t* places;                           // in `used`, of the parts of one candidate after the other
    int64_t* ends;                             // of candidates in `places`
    double *scores, *tag_scores;               // of `used`, of the candidates
    float* changes;                            // of `used`
    int64_t stamp = 0;

    explicit TaskLearner(const TagTask& of) : task(of) {
        n_tags = of.tag_starts.n0 - 1;
        n_parts = 0;
        for (int64_t k = 0; k < of.tag_parts.n0; ++k)
            if (of.tag_parts.data[k] >= n_parts) n_parts = of.tag_parts.data[k] + 1;
    }

    // Its weights begin at `first`; returns where they end.
    int64_t place(int64_t first, int64_t hidden) {
        rows = first;
        constants = rows + n_parts * hidden;
        return constants + n_parts;
    }

    bool make(Arena& arena) {
        int64_t most = 1, longest = 0;  // candidates of a position, parts of a tag
        for (int64_t i = 0; i < task.gold.n0; ++i) most = n_candidates(i) > most ? n_candidates(i) : most;
        for (int64_t tag = 0; tag < n_tags; ++tag) {
            const int64_t count = task.tag_starts.data[tag + 1] - task.tag_starts.data[tag];
            longest = count > longest ? count : longest;
        }
        seen = arena.take_filled<int64_t>(n_parts, -1);
        used = arena.take<int32_t>(n_parts + 1);
        place_of = arena.take<int32_t>(n_parts);
        places = arena.take<int32_t>(most * longest);
        ends = arena.take<int64_t>(most);
        scores = arena.take<double>(n_parts);
        tag_scores = arena.take<double>(most);
        changes = arena.take<float>(n_parts);
        return !arena.failed();
    }

    int64_t n_candidates(int64_t i) const {
        if (!task.gold.n0) return 1;
        const int64_t count = task.candidate_starts.data[i + 1] - task.candidate_starts.data[i];
        return count ? count : n_tags;
    }
    int32_t candidate(int64_t i, int64_t j) const {
        const int64_t start = task.candidate_starts.data[i];
        return task.candidate_starts.data[i + 1] > start ? task.candidates.data[start + j] : (int32_t)j;
    }

    // Add the gradients at a position to those of the weights and of its hidden numbers; returns whether
    // another tag than gold has the highest score.
    bool learn(int64_t i, const float* hidden, int64_t size, const float* dense, float* gradients,
               float* of_hidden, double& loss) {
        const int64_t count = n_candidates(i), position = stamp++;
        const int64_t* __restrict starts = task.tag_starts.data;
        const int32_t* __restrict parts = task.tag_parts.data;
        const int32_t tag_of_gold = task.gold.data[i];
        int64_t n_used = 0, n_places = 0, gold = -1, best = 0;
        for (int64_t j = 0; j < count; ++j) {
            const int32_t tag = candidate(i, j);
            gold = tag == tag_of_gold ? j : gold;
            const int64_t end = starts[tag + 1];
            for (int64_t p = starts[tag]; p < end; ++p) {  // without branches, which nothing foretells
                const int32_t part = parts[p];
                const bool is_new = seen[part] != position;
                const int32_t place = is_new ? (int32_t)n_used : place_of[part];
                seen[part] = position;
                place_of[part] = place;
                used[n_used] = part;
                n_used += is_new;
                places[n_places++] = place;
            }
            ends[j] = n_places;
        }
        if (gold < 0) return true;
        for (int64_t u = 0; u < n_used; u += ROWS_AT_ONCE) score(u, n_used, hidden, size, dense);
        for (int64_t j = 0, at = 0; j < count; ++j) {
            double sum = 0;
            for (; at < ends[j]; ++at) sum += scores[places[at]];
            tag_scores[j] = sum;
            if (sum > tag_scores[best]) best = j;
        }
        const double of_gold = tag_scores[gold];
        loss += fill_probabilities(tag_scores, count) - of_gold;
        for (int64_t u = 0; u < n_used; ++u) scores[u] = 0;
        for (int64_t j = 0, at = 0; j < count; ++j) {
            const double change = tag_scores[j] - (j == gold);
            for (; at < ends[j]; ++at) scores[places[at]] += change;
        }
        int64_t n_changed = 0;
        for (int64_t u = 0; u < n_used; ++u) {
            const float change = (float)scores[u];
            if (!(change > 1e-5f || change < -1e-5f)) continue;
            gradients[constants + used[u]] += change;
            used[n_changed] = used[u];
            changes[n_changed++] = change;
        }
        int64_t k = 0;
        for (; k + 4 * LINE_FLOATS <= size; k += 4 * LINE_FLOATS)
            change_rows<4>(k, LINE_FLOATS, n_changed, hidden, size, dense, gradients, of_hidden);
        for (; k < size; k += LINE_FLOATS)
            change_rows<1>(k, size - k, n_changed, hidden, size, dense, gradients, of_hidden);
        return best != gold;
    }

private:
    static constexpr int64_t ROWS_AT_ONCE = 4;

    // Fill scores[u : u + ROWS_AT_ONCE], at most n_used of them.
    void score(int64_t u, int64_t n_used, const float* hidden, int64_t size, const float* dense) {
        const float* of[ROWS_AT_ONCE];
        FloatLine sums[ROWS_AT_ONCE] = {};
        const auto last = [&](int64_t r) { return u + r < n_used ? u + r : n_used - 1; };
        for (int64_t r = 0; r < ROWS_AT_ONCE; ++r) of[r] = dense + rows + used[last(r)] * size;
        int64_t k = 0;
        for (; k + LINE_FLOATS <= size; k += LINE_FLOATS) {
            const FloatLine line = load_floats(hidden + k);
            for (int64_t r = 0; r < ROWS_AT_ONCE; ++r) sums[r] += load_floats(of[r] + k) * line;
        }
        if (k < size)
            for (int64_t r = 0; r < ROWS_AT_ONCE; ++r)
                sums[r] += load_floats(of[r] + k, size - k) * load_floats(hidden + k, size - k);
        for (int64_t r = 0; r < ROWS_AT_ONCE; ++r)
            scores[last(r)] = fold_floats(sums[r]) + dense[constants + used[last(r)]];
    }

    // Add the gradients of L lines from number k on by all changes; the last line has `last` numbers.
    template <int L>
    void change_rows(int64_t k, int64_t last, int64_t n_changed, const float* hidden, int64_t size,
                     const float* dense, float* gradients, float* of_hidden) const {
        FloatLine sums[L], lines[L];
        const auto at = [&](int l) { return k + l * LINE_FLOATS; };
        const auto count = [&](int l) { return l + 1 < L ? LINE_FLOATS : last; };
        for (int l = 0; l < L; ++l) {
            sums[l] = load_floats(of_hidden + at(l), count(l));
            lines[l] = load_floats(hidden + at(l), count(l));
        }
        for (int64_t u = 0; u < n_changed; ++u) {
            const int64_t row = rows + used[u] * size;
            for (int l = 0; l < L; ++l) {
                sums[l] += load_floats(dense + row + at(l), count(l)) * changes[u];
                FloatLine gradient = load_floats(gradients + row + at(l), count(l));
                gradient += lines[l] * changes[u];
                store_floats(gradients + row + at(l), gradient, count(l));
            }
        }
        for (int l = 0; l < L; ++l) store_floats(of_hidden + at(l), sums[l], count(l));
    }
};

// The words of one step, and what is computed of them; of_X has the gradients of X.
struct TagBatch {
    int64_t stamp;                         // of the step, by which what was seen in it is known
    int64_t n, n_forms;                    // words; forms in their windows
    int64_t *positions, *forms;            // of the words in the lesson; of the forms
    int32_t* kept;                         // rows of the forms, without those that are dropped
    int64_t* kept_starts;                  // of the forms in `kept`
    float *vectors, *of_vectors;           // of the forms
    float *inputs, *masks, *of_inputs;     // of the windows; masks: their dropout
    float *sums, *hidden_masks, *of_sums;  // of the hidden numbers of the words
    float* by_number;                      // of_sums by hidden numbers

    // Make room for all that the words and forms need.
    bool make(int64_t size, int64_t depth, int64_t hidden, int64_t n_rows_of_forms, Arena& arena) {
        vectors = arena.take_zeros<float>(n_forms * size);
        of_vectors = arena.take_zeros<float>(n_forms * size);
        kept = arena.take<int32_t>(n_rows_of_forms);
        kept_starts = arena.take<int64_t>(n_forms + 1);
        inputs = arena.take<float>(n * depth);
        by_number = arena.take<float>(n * hidden);
        masks = arena.take<float>(n * depth);
        sums = arena.take<float>(n * hidden);
        hidden_masks = arena.take<float>(n * hidden);
        of_sums = arena.take_zeros<float>(n * hidden);
        of_inputs = arena.take_zeros<float>(n * depth);
        return !arena.failed();
    }
};

struct TagNetworkLearner {
    const TagLesson& lesson;
    const TagLearning& learning;
    TaskLearner tasks[2];
    int64_t size, reach, hidden, depth, bias, n_dense;  // size: D; depth: of the window; bias: its place
    float *table, *dense, *table_moments, *dense_moments;
    int64_t n_rows;
    // Gradients and what was used of the forms and of the rows in this batch.
    float *of_dense, *transposed, *of_window;  // of_window: by hidden numbers
    int64_t *form_seen, *form_place, *row_seen, *row_place;
    int64_t stamp = 0;

    TagNetworkLearner(const TagLesson& of, const TagTask& first, const TagTask& second, const TagLearning& how,
                      const out_f32_2& rows, const out_f32_1& weights, const out_f32_3& row_moments,
                      const out_f32_2& moments)
        : lesson(of), learning(how), tasks{TaskLearner(first), TaskLearner(second)} {
        size = rows.n1;
        reach = how.reach;
        hidden = how.hidden;
        depth = (2 * reach + 1) * size;
        bias = depth * hidden;
        n_dense = tasks[1].place(tasks[0].place(bias + hidden, hidden), hidden);
        table = rows.data;
        n_rows = rows.n0;
        dense = weights.data;
        table_moments = row_moments.data;
        dense_moments = moments.data;
    }

    bool make(Arena& arena) {
        const int64_t n_forms = lesson.row_starts.n0 - 1;
        of_dense = arena.take<float>(n_dense);
        transposed = arena.take<float>(depth * hidden);
        of_window = arena.take<float>(depth * hidden);
        form_seen = arena.take_filled<int64_t>(n_forms, -1);
        form_place = arena.take<int64_t>(n_forms);
        row_seen = arena.take_filled<int64_t>(n_rows, -1);
        row_place = arena.take<int64_t>(n_rows);
        return !arena.failed() && tasks[0].make(arena) && tasks[1].make(arena);
    }

    bool is_learned(int64_t i) const { return tasks[0].n_candidates(i) > 1 || tasks[1].n_candidates(i) > 1; }

    // One step by the sequences order[0 : count].
    bool learn(const int64_t* order, int64_t count, const VectorStep& step, double* counts, Arena& arena) {
        ArenaMark mark(arena);
        TagBatch batch;
        if (!gather(order, count, batch, arena)) return false;
        if (!batch.n) return true;
        const uint64_t seed = Random::mixed((uint64_t)learning.seed * 0x9E3779B97F4A7C15 + (uint64_t)step.steps);
        sum_rows(seed, batch);
        forward(seed, batch);
        learn_tags(batch, counts);
        backward(batch);
        return change_weights(step, batch, arena);
    }

private:
    // List the words to learn from and the forms in their windows, and make room for them.
    bool gather(const int64_t* order, int64_t count, TagBatch& batch, Arena& arena) {
        batch.stamp = stamp++;
        const auto each_word = [&](auto&& use) {
            for (int64_t s = 0; s < count; ++s)
                for (int64_t i = lesson.starts.data[order[s]]; i < lesson.starts.data[order[s] + 1]; ++i)
                    if (is_learned(i)) use(i);
        };
        int64_t n = 0, n_listed = 0, n_rows_of_forms = 0;
        each_word([&](int64_t) { ++n; });
        batch.n = n;
        batch.positions = arena.take<int64_t>(n);
        batch.forms = arena.take<int64_t>(n * (2 * reach + 1));
        if (arena.failed()) return false;
        batch.n_forms = 0;
        each_word([&](int64_t i) {
            batch.positions[n_listed++] = i;
            for (int64_t o = -reach; o <= reach; ++o) {
                const int64_t form = lesson.forms.data[lesson.places.data[i] + o];
                if (form_seen[form] == batch.stamp) continue;
                form_seen[form] = batch.stamp;
                form_place[form] = batch.n_forms;
                batch.forms[batch.n_forms++] = form;
                n_rows_of_forms += lesson.row_starts.data[form + 1] - lesson.row_starts.data[form];
            }
        });
        return batch.make(size, depth, hidden, n_rows_of_forms, arena);
    }

    // The vector of a form is the sum of its rows; some rows are dropped.
    void sum_rows(uint64_t seed, TagBatch& batch) const {
        Random random(seed);
        batch.kept_starts[0] = 0;
        for (int64_t u = 0; u < batch.n_forms; ++u) {
            const int64_t form = batch.forms[u];
            int64_t end = batch.kept_starts[u];
            for (int64_t k = lesson.row_starts.data[form]; k < lesson.row_starts.data[form + 1]; ++k) {
                const int32_t row = lesson.rows.data[k];
                const float dropped = lesson.dropped.data[row];
                if (dropped > 0 && random.next() < (double)dropped) continue;
                batch.kept[end++] = row;
                add_floats(1.0f, table + (int64_t)row * size, batch.vectors + u * size, size);
            }
            batch.kept_starts[u + 1] = end;
        }
    }

    // The place in a batch of the form at offset o - reach from its word k.
    int64_t place_of_form(const TagBatch& batch, int64_t k, int64_t o) const {
        return form_place[lesson.forms.data[lesson.places.data[batch.positions[k]] + o - reach]];
    }

    // The hidden numbers of the words, from the vectors in their windows.
    void forward(uint64_t seed, TagBatch& batch) const {
        const int64_t n = batch.n;
        Dropper dropper(Random::mixed(seed), learning.dropout);
        dropper.fill(batch.masks, n * depth);
        dropper.fill(batch.hidden_masks, n * hidden);
        float *const sums = batch.sums, *const masks = batch.hidden_masks;
        for (int64_t k = 0; k < n; ++k) {
            for (int64_t o = 0; o <= 2 * reach; ++o) {
                const float* vector = batch.vectors + place_of_form(batch, k, o) * size;
                const float* mask = batch.masks + k * depth + o * size;
                float* input = batch.inputs + k * depth + o * size;
                for (int64_t d = 0; d < size; ++d) input[d] = vector[d] * mask[d];
            }
            memcpy(sums + k * hidden, dense + bias, (size_t)hidden * sizeof(float));
        }
        add_sparse_product(batch.inputs, depth, dense, hidden, sums, hidden, n, depth, hidden);
        for (int64_t k = 0; k < n * hidden; ++k) sums[k] = sums[k] > 0.0f ? sums[k] * masks[k] : 0.0f;
    }

    // The gradients of the layers after the hidden numbers, and theirs.
    void learn_tags(TagBatch& batch, double* counts) {
        memset(of_dense + bias, 0, (size_t)(n_dense - bias) * sizeof(float));
        double loss = 0, ignored = 0;
        int64_t n_open = 0, wrong = 0;
        for (int64_t k = 0; k < batch.n; ++k)
            for (int64_t t = 0; t < 2; ++t) {
                if (tasks[t].n_candidates(batch.positions[k]) < 2) continue;
                const bool is_wrong =
                    tasks[t].learn(batch.positions[k], batch.sums + k * hidden, hidden, dense, of_dense,
                                   batch.of_sums + k * hidden, t ? ignored : loss);
                if (!t) ++n_open, wrong += is_wrong;
            }
        counts[0] += loss;
        counts[1] += (double)n_open;
        counts[2] += (double)wrong;
    }

    // The gradients of the layers before the hidden numbers, from theirs.
    void backward(TagBatch& batch) const {
        const int64_t n = batch.n;
        float* const of_sums = batch.of_sums;
        for (int64_t k = 0; k < n * hidden; ++k)
            of_sums[k] = batch.sums[k] > 0.0f ? of_sums[k] * batch.hidden_masks[k] : 0.0f;
        // Most gradients of hidden numbers are 0: products are taken by them, and turned.
        transpose_floats(of_sums, hidden, n, hidden, batch.by_number, n);
        memset(of_window, 0, (size_t)(depth * hidden) * sizeof(float));
        add_sparse_product(batch.by_number, n, batch.inputs, depth, of_window, depth, hidden, n, depth);
        transpose_floats(of_window, depth, hidden, depth, of_dense, hidden);
        for (int64_t k = 0; k < n; ++k) add_floats(1.0f, of_sums + k * hidden, of_dense + bias, hidden);
        transpose_floats(dense, hidden, depth, hidden, transposed, depth);
        add_sparse_product(of_sums, hidden, transposed, depth, batch.of_inputs, depth, n, hidden, depth);
        for (int64_t k = 0; k < n; ++k)
            for (int64_t o = 0; o <= 2 * reach; ++o) {
                const float *from = batch.of_inputs + k * depth + o * size, *mask = batch.masks + k * depth + o * size;
                float* to = batch.of_vectors + place_of_form(batch, k, o) * size;
                for (int64_t d = 0; d < size; ++d) to[d] += from[d] * mask[d];
            }
    }

    // Take the step of the dense weights and of the kept rows.
    bool change_weights(const VectorStep& step, const TagBatch& batch, Arena& arena) {
        const float share = 1.0f / (float)batch.n;
        VectorStep rated = step;
        const double left = 1.0 - (double)step.steps / (double)learning.all_steps;
        rated.rate *= left > LAST_RATE ? left : LAST_RATE;
        ++rated.steps;
        const VectorStepper stepper(rated);
        for (int64_t k = 0; k < n_dense; ++k) of_dense[k] *= share;
        stepper.take(n_dense, of_dense, dense, dense_moments, dense_moments + n_dense);
        return step_rows(batch, share, stepper, arena);
    }

    bool step_rows(const TagBatch& batch, float share, const VectorStepper& stepper, Arena& arena) {
        const int64_t* const starts = batch.kept_starts;
        int32_t* const kept = batch.kept;
        float* of_rows = arena.take_zeros<float>(starts[batch.n_forms] * size);
        if (arena.failed()) return false;
        int64_t n_touched = 0;
        for (int64_t u = 0; u < batch.n_forms; ++u)
            for (int64_t k = starts[u]; k < starts[u + 1]; ++k) {
                const int32_t row = kept[k];
                if (row_seen[row] != batch.stamp) {
                    row_seen[row] = batch.stamp;
                    row_place[row] = n_touched;
                    kept[n_touched++] = row;  // never after k
                }
                add_floats(share, batch.of_vectors + u * size, of_rows + row_place[row] * size, size);
            }
        for (int64_t k = 0; k < n_touched; ++k) {
            if (k + ROWS_AHEAD < n_touched) fetch((int64_t)kept[k + ROWS_AHEAD] * size);
            const int64_t at = (int64_t)kept[k] * size;
            stepper.take(size, of_rows + k * size, table + at, table_moments + at, table_moments + n_rows * size + at);
        }
        return true;
    }

    // Fetch the row that begins at a number of the table, and its moments.
    void fetch(int64_t at) const {
        for (int64_t d = 0; d < size; d += LINE_FLOATS) {
            __builtin_prefetch(table + at + d, 1);
            __builtin_prefetch(table_moments + at + d, 1);
            __builtin_prefetch(table_moments + n_rows * size + at + d, 1);
        }
    }
};

}  // namespace gpuparse
