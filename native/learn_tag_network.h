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

constexpr double LAST_RATE = 0.05;  // of the first one

// Whether numbers are dropped: eight decisions of one random number.
class Dropper {
public:
    Dropper(uint64_t seed, double probability)
        : state_(seed), threshold_((uint8_t)(256.0 * probability)), scale_(256.0f / (256.0f - (float)threshold_)) {}

    // Fill factors with 0 or with what keeps the mean.
    void fill(float* factors, int64_t count) {
        for (int64_t k = 0; k < count; k += 8) {
            state_ += 0x9E3779B97F4A7C15;
            uint64_t bits = Random::mixed(state_);
            for (int64_t j = k; j < k + 8 && j < count; ++j, bits >>= 8)
                factors[j] = (uint8_t)bits < threshold_ ? 0.0f : scale_;
        }
    }

private:
    uint64_t state_;
    uint8_t threshold_;
    float scale_;
};

// A task, where its weights are, and room for the parts of the candidates of one position.
struct TaskLearner {
    const TagTask& task;
    int64_t n_tags, n_parts, rows, constants;  // rows, constants: of the dense weights
    int64_t *seen, *places;                    // (parts,) position of the last use; place in `used`
    int32_t* used;
    double *scores, *tag_scores;               // of `used`, of the candidates
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
        seen = arena.take_filled<int64_t>(n_parts, -1);
        places = arena.take<int64_t>(n_parts);
        used = arena.take<int32_t>(n_parts);
        scores = arena.take<double>(n_parts);
        tag_scores = arena.take<double>(n_tags);
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
        int64_t n_used = 0, gold = -1, best = 0;
        for (int64_t j = 0; j < count; ++j) {
            const int32_t tag = candidate(i, j);
            if (tag == task.gold.data[i]) gold = j;
            double sum = 0;
            for (int64_t p = task.tag_starts.data[tag]; p < task.tag_starts.data[tag + 1]; ++p) {
                const int32_t part = task.tag_parts.data[p];
                if (seen[part] != position) {
                    seen[part] = position;
                    places[part] = n_used;
                    scores[n_used] = dot_floats(dense + rows + part * size, hidden, size) + dense[constants + part];
                    used[n_used++] = part;
                }
                sum += scores[places[part]];
            }
            tag_scores[j] = sum;
            if (sum > tag_scores[best]) best = j;
        }
        if (gold < 0) return true;
        const double of_gold = tag_scores[gold];
        loss += fill_probabilities(tag_scores, count) - of_gold;
        for (int64_t u = 0; u < n_used; ++u) scores[u] = 0;
        for (int64_t j = 0; j < count; ++j) {
            const int32_t tag = candidate(i, j);
            const double change = tag_scores[j] - (j == gold);
            for (int64_t p = task.tag_starts.data[tag]; p < task.tag_starts.data[tag + 1]; ++p)
                scores[places[task.tag_parts.data[p]]] += change;
        }
        for (int64_t u = 0; u < n_used; ++u) {
            const float change = (float)scores[u];
            if (!(change > 1e-5f || change < -1e-5f)) continue;
            const int64_t row = rows + used[u] * size;
            add_floats(change, dense + row, of_hidden, size);
            add_floats(change, hidden, gradients + row, size);
            gradients[constants + used[u]] += change;
        }
        return best != gold;
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
    float *of_dense, *of_rows, *transposed;
    int64_t *form_seen, *form_place, *row_seen;
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
        of_rows = arena.take_zeros<float>(n_rows * size);
        transposed = arena.take<float>(depth * hidden);
        form_seen = arena.take_filled<int64_t>(n_forms, -1);
        form_place = arena.take<int64_t>(n_forms);
        row_seen = arena.take_filled<int64_t>(n_rows, -1);
        return !arena.failed() && tasks[0].make(arena) && tasks[1].make(arena);
    }

    bool is_learned(int64_t i) const { return tasks[0].n_candidates(i) > 1 || tasks[1].n_candidates(i) > 1; }

    // One step by the sequences order[0 : count].
    bool learn(const int64_t* order, int64_t count, const VectorStep& step, double* counts, Arena& arena) {
        ArenaMark mark(arena);
        const int64_t now = stamp++;
        int64_t n = 0;
        for (int64_t s = 0; s < count; ++s)
            for (int64_t i = lesson.starts.data[order[s]]; i < lesson.starts.data[order[s] + 1]; ++i) n += is_learned(i);
        if (!n) return true;
        int64_t* positions = arena.take<int64_t>(n);
        int64_t* used = arena.take<int64_t>(n * (2 * reach + 1));
        if (arena.failed()) return false;
        int64_t n_used = 0, room = 0;
        n = 0;
        for (int64_t s = 0; s < count; ++s)
            for (int64_t i = lesson.starts.data[order[s]]; i < lesson.starts.data[order[s] + 1]; ++i) {
                if (!is_learned(i)) continue;
                positions[n++] = i;
                for (int64_t o = -reach; o <= reach; ++o) {
                    const int64_t form = lesson.forms.data[lesson.places.data[i] + o];
                    if (form_seen[form] == now) continue;
                    form_seen[form] = now;
                    form_place[form] = n_used;
                    used[n_used++] = form;
                    room += lesson.row_starts.data[form + 1] - lesson.row_starts.data[form];
                }
            }
        float* vectors = arena.take_zeros<float>(n_used * size);
        float* of_vectors = arena.take_zeros<float>(n_used * size);
        int32_t* kept = arena.take<int32_t>(room);
        int64_t* kept_starts = arena.take<int64_t>(n_used + 1);
        float* inputs = arena.take<float>(n * depth);
        float* by_number = arena.take<float>(n * depth);
        float* masks = arena.take<float>(n * depth);
        float* sums = arena.take<float>(n * hidden);
        float* hidden_masks = arena.take<float>(n * hidden);
        float* of_sums = arena.take_zeros<float>(n * hidden);
        float* of_inputs = arena.take_zeros<float>(n * depth);
        if (arena.failed()) return false;
        const uint64_t seed = Random::mixed((uint64_t)learning.seed * 0x9E3779B97F4A7C15 + (uint64_t)step.steps);
        Random random(seed);
        kept_starts[0] = 0;
        for (int64_t u = 0; u < n_used; ++u) {
            int64_t end = kept_starts[u];
            for (int64_t k = lesson.row_starts.data[used[u]]; k < lesson.row_starts.data[used[u] + 1]; ++k) {
                const int32_t row = lesson.rows.data[k];
                const float dropped = lesson.dropped.data[row];
                if (dropped > 0 && random.next() < (double)dropped) continue;
                kept[end++] = row;
                add_floats(1.0f, table + (int64_t)row * size, vectors + u * size, size);
            }
            kept_starts[u + 1] = end;
        }
        Dropper dropper(Random::mixed(seed), learning.dropout);
        dropper.fill(masks, n * depth);
        dropper.fill(hidden_masks, n * hidden);
        for (int64_t k = 0; k < n; ++k) {
            for (int64_t o = 0; o <= 2 * reach; ++o) {
                const int64_t form = lesson.forms.data[lesson.places.data[positions[k]] + o - reach];
                const float* vector = vectors + form_place[form] * size;
                const float* mask = masks + k * depth + o * size;
                float* input = inputs + k * depth + o * size;
                for (int64_t d = 0; d < size; ++d) input[d] = vector[d] * mask[d];
            }
            memcpy(sums + k * hidden, dense + bias, (size_t)hidden * sizeof(float));
        }
        add_product({inputs, depth, 1}, dense, hidden, sums, hidden, n, depth, hidden);
        for (int64_t k = 0; k < n * hidden; ++k) sums[k] = sums[k] > 0.0f ? sums[k] * hidden_masks[k] : 0.0f;
        memset(of_dense, 0, (size_t)n_dense * sizeof(float));
        double loss = 0, ignored = 0;
        int64_t n_open = 0, wrong = 0;
        for (int64_t k = 0; k < n; ++k)
            for (int64_t t = 0; t < 2; ++t) {
                if (tasks[t].n_candidates(positions[k]) < 2) continue;
                const bool is_wrong = tasks[t].learn(positions[k], sums + k * hidden, hidden, dense, of_dense,
                                                     of_sums + k * hidden, t ? ignored : loss);
                if (!t) ++n_open, wrong += is_wrong;
            }
        counts[0] += loss;
        counts[1] += (double)n_open;
        counts[2] += (double)wrong;
        for (int64_t k = 0; k < n * hidden; ++k) of_sums[k] = sums[k] > 0.0f ? of_sums[k] * hidden_masks[k] : 0.0f;
        transpose_floats(inputs, depth, n, depth, by_number);
        add_product({by_number, n, 1}, of_sums, hidden, of_dense, hidden, depth, n, hidden);
        for (int64_t k = 0; k < n; ++k) add_floats(1.0f, of_sums + k * hidden, of_dense + bias, hidden);
        transpose_floats(dense, hidden, depth, hidden, transposed);
        add_product({of_sums, hidden, 1}, transposed, depth, of_inputs, depth, n, hidden, depth);
        for (int64_t k = 0; k < n; ++k)
            for (int64_t o = 0; o <= 2 * reach; ++o) {
                const int64_t form = lesson.forms.data[lesson.places.data[positions[k]] + o - reach];
                const float *from = of_inputs + k * depth + o * size, *mask = masks + k * depth + o * size;
                float* to = of_vectors + form_place[form] * size;
                for (int64_t d = 0; d < size; ++d) to[d] += from[d] * mask[d];
            }
        const float share = 1.0f / (float)n;
        VectorStep rated = step;
        const double left = 1.0 - (double)step.steps / (double)learning.all_steps;
        rated.rate *= left > LAST_RATE ? left : LAST_RATE;
        ++rated.steps;
        const VectorStepper stepper(rated);
        for (int64_t k = 0; k < n_dense; ++k) of_dense[k] *= share;
        stepper.take(n_dense, of_dense, dense, dense_moments, dense_moments + n_dense);
        step_rows(kept, kept_starts, n_used, of_vectors, share, stepper, now);
        return true;
    }

private:
    void step_rows(int32_t* kept, const int64_t* starts, int64_t n_used, const float* of_vectors, float share,
                   const VectorStepper& stepper, int64_t now) {
        int64_t n_touched = 0;
        for (int64_t u = 0; u < n_used; ++u)
            for (int64_t k = starts[u]; k < starts[u + 1]; ++k) {
                const int32_t row = kept[k];
                add_floats(share, of_vectors + u * size, of_rows + row * size, size);
                if (row_seen[row] == now) continue;
                row_seen[row] = now;
                kept[n_touched++] = row;  // never after k
            }
        for (int64_t k = 0; k < n_touched; ++k) {
            const int64_t at = (int64_t)kept[k] * size;
            stepper.take(size, of_rows + at, table + at, table_moments + at, table_moments + n_rows * size + at);
            memset(of_rows + at, 0, (size_t)size * sizeof(float));
        }
    }
};

}  // namespace gpuparse
