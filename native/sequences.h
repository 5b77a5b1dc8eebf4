// Scores of candidate tags of one sequence, the best sequence (Viterbi 1967), sums over all of them, and
// what a gold sequence changes (Collins 2002).
#pragma once

#include <math.h>

#include "api/sequences.h"
#include "arena.h"
#include "score_unit.h"
#include "views.h"

namespace gpuparse {

constexpr int CONTEXT_PARTS = 3;  // parts of a tag that contexts are combined with
constexpr int64_t FOLDED_WORDS = 1 << 15;
constexpr int PART_BLOCK = 8;     // parts whose weights for a feature follow each other

// Sums over sequences, and over the features of a position.
template <class W> struct SequenceSum { using type = int64_t; using own = int32_t; };
template <> struct SequenceSum<float> { using type = double; using own = double; };

// Sums of the parts of a block.
template <class W>
class BlockSums {
public:
    using Own = typename SequenceSum<W>::own;

    void load(const Own* sums) { memcpy(&sums_, sums, sizeof sums_); }
    void store(Own* sums) const { memcpy(sums, &sums_, sizeof sums_); }
    void add(const W* weights) {
        Weights block;
        memcpy(&block, weights, sizeof block);
        sums_ += __builtin_convertvector(block, Sums);
    }

private:
    typedef W Weights __attribute__((vector_size(PART_BLOCK * sizeof(W))));
    typedef Own Sums __attribute__((vector_size(PART_BLOCK * sizeof(Own))));
    Sums sums_{};
};

inline uint32_t mixed_context(uint32_t key, uint32_t value) {
    key ^= value + 0x9E3779B9u + (key << 6) + (key >> 2);
    key *= 0x85EBCA6Bu;
    return key ^ (key >> 15);
}

// The number of tags before a position that the contexts read.
inline int64_t order_of(const SequenceModel& model) {
    int64_t order = 0;
    for (int64_t c = 0; c < model.contexts.n0; ++c) {
        const int32_t* context = model.contexts.data + 4 * c;
        const int64_t needed = context[2] ? 2 : context[1] ? 1 : 0;
        order = needed > order ? needed : order;
    }
    return order;
}

// A model with its tags' classes written out.
struct SequenceTables {
    const SequenceModel& model;
    int64_t n_tags, n_parts, n_coarse, order;
    const int32_t* class_of[3];  // by what a context reads; [0] is NULL

    bool make(Arena& arena) {
        int32_t* coarse = arena.take_zeros<int32_t>(n_tags);
        int32_t* own = arena.take<int32_t>(n_tags);
        if (arena.failed()) return false;
        for (int64_t k = 0; k < n_tags; ++k) own[k] = (int32_t)k;
        for (int64_t c = 0; c < n_coarse; ++c)
            for (int64_t k = model.coarse_starts.data[c]; k < model.coarse_starts.data[c + 1]; ++k)
                coarse[k] = (int32_t)c;
        class_of[0] = nullptr;
        class_of[1] = coarse;
        class_of[2] = own;
        order = order_of(model);
        return true;
    }

    const int32_t* parts_of(int32_t tag) const { return model.tag_parts.data + model.tag_starts.data[tag]; }
    int64_t n_parts_of(int32_t tag) const {
        return model.tag_starts.data[tag + 1] - model.tag_starts.data[tag];
    }
    int64_t n_context_parts_of(int32_t tag) const {
        return n_parts_of(tag) < CONTEXT_PARTS ? n_parts_of(tag) : CONTEXT_PARTS;
    }

    // The key of the tags before that a context reads, -1 for none.
    uint32_t tag_key(const int32_t* context, int32_t previous, int32_t second) const {
        uint32_t key = mixed_context(0x51ED270Bu, (uint32_t)context[0]);
        if (context[1]) key = mixed_context(key, previous < 0 ? 0 : 1 + (uint32_t)class_of[context[1]][previous]);
        if (context[2]) key = mixed_context(key, second < 0 ? 0 : 1 + (uint32_t)class_of[context[2]][second]);
        return key;
    }

    // A first look in the smaller filter, which the cache holds: most features are in none.
    bool may_be_present(uint32_t feature) const {
        const uint32_t word = model.folded.data[(feature >> 13) % (uint32_t)FOLDED_WORDS];
        return (feature != 0) & (word >> ((feature >> 8) & 31) & 1);
    }
    bool is_present(uint32_t feature) const {
        return feature && (model.known.data[feature >> 13] >> ((feature >> 8) & 31) & 1);
    }

    // Keep those of `count` features that are present; returns how many.
    int64_t keep_present(uint32_t* features, int64_t count) const {
        int64_t kept = 0;
        for (int64_t f = 0; f < count; ++f) {
            const uint32_t feature = features[f];
            features[kept] = feature;
            kept += is_present(feature);
        }
        return kept;
    }

    // Where the weights of a block of parts for a feature are.
    uint32_t block_index(uint32_t key, int64_t block) const {
        return (key ^ model.blocks.data[block]) & (uint32_t)(model.weights.n0 - PART_BLOCK);
    }
};

// A weight and what is added to it.
struct WeightChange {
    uint32_t index;
    float delta;
};

// The candidates of one sequence with their scores.
template <class W>
class SequenceLattice {
public:
    using S = typename SequenceSum<W>::type;
    using Own = typename SequenceSum<W>::own;

    // `gold`: NULL, or the tags that must be among the candidates. `cost` is added to all others.
    // margin: of the candidates' own scores below the best one; -1: all stay.
    SequenceLattice(const SequenceTables& tables, const SequenceBatch& batch, int64_t start, int64_t end,
                    const int32_t* gold, S cost, int64_t margin, Arena& arena)
        : tables_(tables), model_(tables.model), weights_((const W*)model_.weights.data),
          n_(end - start), width_(batch.features.n1), features_(batch.features.data + start * width_),
          hidden_(batch.hidden.data + start * batch.hidden.n1), arena_(arena) {
        first_ = arena.take<int64_t>(n_ + 1);
        part_scores_ = arena.take<Own>(tables.n_parts);
        block_seen_ = arena.take_filled<int64_t>(tables.n_parts / PART_BLOCK, -1);
        present_ = rows_of_present_ = arena.take<uint32_t>(WINDOW * (width_ + 1));
        if (arena.failed()) return;
        int64_t room = 0;
        const int64_t* bounds = batch.candidate_starts.data + start;
        for (int64_t t = 0; t < n_; ++t) {
            const int64_t given = bounds[t + 1] - bounds[t];
            room += (given ? given : model_.beam.data[1]) + 1;
        }
        tags_ = arena.take<int32_t>(room);
        scores_ = arena.take<S>(room);
        if (arena.failed()) return;
        const auto is_known = [&](int64_t t) {
            return bounds[t + 1] - bounds[t] == 1 && (!gold || gold[t] == batch.candidates.data[bounds[t]]);
        };
        first_[0] = 0;
        for (int64_t t = 0; t < n_; ++t) {
            const int64_t window_end = t % WINDOW ? t : t + WINDOW < n_ ? t + WINDOW : n_;
            for (int64_t next = t; next < window_end; ++next)
                if (!is_known(next)) fetch_likely(next);
            for (int64_t next = t; next < window_end; ++next)
                if (!is_known(next)) fetch_present(next);
            int32_t* tags = tags_ + first_[t];
            int64_t count = bounds[t + 1] - bounds[t];
            if (is_known(t)) {  // whatever its score is
                tags[0] = batch.candidates.data[bounds[t]];
                scores_[first_[t]] = 0;
                first_[t + 1] = first_[t] + 1;
                continue;
            }
            use_present(t);
            const bool has_scores = count && !gold;
            if (count) {
                for (int64_t j = 0; j < count; ++j) tags[j] = batch.candidates.data[bounds[t] + j];
                for (int64_t j = 0; j < count; ++j) scores_[first_[t] + j] = tag_score(tags[j]);
                count = keep(scores_ + first_[t], tags, count, model_.beam.data[1]);
            } else {
                count = rank(tags);
            }
            if (arena.failed()) return;
            if (gold) {
                bool has_gold = false;
                for (int64_t j = 0; j < count; ++j) has_gold |= tags[j] == gold[t];
                if (!has_gold) tags[count++] = gold[t];
            }
            for (int64_t j = 0; j < count && !has_scores; ++j)
                scores_[first_[t] + j] = tag_score(tags[j]) + (gold && tags[j] != gold[t] ? cost : S(0));
            if (margin >= 0) count = keep_near(scores_ + first_[t], tags, count, (S)margin);
            first_[t + 1] = first_[t] + count;
        }
    }

    int64_t n() const { return n_; }
    int64_t count(int64_t t) const { return first_[t + 1] - first_[t]; }
    int32_t tag(int64_t t, int64_t j) const { return tags_[first_[t] + j]; }
    S score(int64_t t, int64_t j) const { return scores_[first_[t] + j]; }

    // The best sequence: places among the candidates.
    void best(int32_t* places) {
        if (tables_.order == 0) best_alone(places);
        else if (tables_.order == 1) best_first_order(places);
        else best_second_order(places);
    }

    // The log of the sum of exp(scale * score) over all sequences, and the probability of each candidate,
    // by place: forward and backward sums over pairs of tags.
    void sums(double scale, double* probabilities) {
        if (!n_) return;
        int64_t* offsets = arena_.take<int64_t>(n_ + 1);
        if (arena_.failed()) return;
        offsets[0] = 0;
        for (int64_t t = 0; t < n_; ++t) offsets[t + 1] = offsets[t] + n_before(t, 1) * count(t);
        double* forward = arena_.take<double>(offsets[n_]);
        double* backward = arena_.take<double>(offsets[n_]);
        int64_t most = 1, most_ways = 1;
        for (int64_t t = 0; t < n_; ++t) {
            const int64_t ways = n_before(t, 2) * n_before(t, 1) * count(t);
            most = count(t) > most ? count(t) : most;
            most_ways = ways > most_ways ? ways : most_ways;
        }
        double* steps = arena_.take<double>(most_ways);
        double* terms = arena_.take<double>(most);
        if (arena_.failed()) return;
        for (int64_t t = 0; t < n_; ++t) {
            find_steps(t, scale, steps);
            if (arena_.failed()) return;
            const int64_t n_second = n_before(t, 2), n_previous = n_before(t, 1), n_tags = count(t);
            for (int64_t i = 0; i < n_previous; ++i)
                for (int64_t j = 0; j < n_tags; ++j) {
                    for (int64_t h = 0; h < n_second; ++h)
                        terms[h] = (t ? forward[offsets[t - 1] + h * n_previous + i] : 0) +
                                   steps[(h * n_previous + i) * n_tags + j];
                    forward[offsets[t] + i * n_tags + j] = log_sum(terms, n_second);
                }
        }
        const int64_t n_last = offsets[n_] - offsets[n_ - 1];
        for (int64_t cell = offsets[n_ - 1]; cell < offsets[n_]; ++cell) backward[cell] = 0;
        const double all = log_sum(forward + offsets[n_ - 1], n_last);
        for (int64_t t = n_ - 1; t > 0; --t) {
            find_steps(t, scale, steps);  // again: those of all positions would take much memory
            if (arena_.failed()) return;
            const int64_t n_second = n_before(t, 2), n_previous = count(t - 1), n_tags = count(t);
            for (int64_t h = 0; h < n_second; ++h)
                for (int64_t i = 0; i < n_previous; ++i) {
                    for (int64_t j = 0; j < n_tags; ++j)
                        terms[j] = backward[offsets[t] + i * n_tags + j] + steps[(h * n_previous + i) * n_tags + j];
                    backward[offsets[t - 1] + h * n_previous + i] = log_sum(terms, n_tags);
                }
        }
        for (int64_t t = 0; t < n_; ++t)
            for (int64_t j = 0; j < count(t); ++j) {
                double sum = 0;
                for (int64_t i = 0; i < n_before(t, 1); ++i) {
                    const int64_t cell = offsets[t] + i * count(t) + j;
                    sum += exp(forward[cell] + backward[cell] - all);
                }
                probabilities[first_[t] + j] = sum < 1 ? sum : 1;
            }
    }

    int64_t n_cells() const { return first_[n_]; }
    int64_t cell(int64_t t, int64_t j) const { return first_[t] + j; }

    // The sum of a sequence's scores, costs left out.
    S score_of(const int32_t* tags) {
        S sum = 0;
        for (int64_t t = 0; t < n_; ++t) {
            find_present(t);
            sum += tag_score(tags[t]) + context_score(t, before(tags, t, 1), before(tags, t, 2), tags[t]);
        }
        return sum;
    }

    // Changes of +1 for what gold has and -1 for what `found` has, where they differ. Returns how many.
    int64_t differences(const int32_t* gold, const int32_t* found, WeightChange* changes) {
        int64_t count = 0;
        for (int64_t t = 0; t < n_; ++t) {
            bool differs = false;
            for (int64_t d = 0; d <= 2 && d <= t && d <= tables_.order; ++d) differs |= gold[t - d] != found[t - d];
            if (!differs) continue;
            if (gold[t] != found[t]) {
                find_present(t);
                count += add_tag(gold[t], found[t], 1.f, changes + count);
                count += add_tag(found[t], gold[t], -1.f, changes + count);
            }
            count += add_contexts(t, gold, 1.f, changes + count);
            count += add_contexts(t, found, -1.f, changes + count);
        }
        return count;
    }

    // Adds the features of the positions that `differences` looks at to a filter.
    void add_changed(const int32_t* gold, const int32_t* found, uint32_t* filter) const {
        for (int64_t t = 0; t < n_; ++t) {
            bool differs = false;
            for (int64_t d = 0; d <= 2 && d <= t && d <= tables_.order; ++d) differs |= gold[t - d] != found[t - d];
            if (!differs) continue;
            for (int64_t f = 0; f < width_; ++f) {
                const uint32_t feature = features_[t * width_ + f];
                if (is_present(feature)) filter[feature >> 13] |= 1u << ((feature >> 8) & 31);
            }
        }
    }

    // The most changes that `differences` returns.
    int64_t most_differences(const int32_t* gold, const int32_t* found) const {
        int64_t room = 0;
        for (int64_t t = 0; t < n_; ++t)
            room += (tables_.n_parts_of(gold[t]) + tables_.n_parts_of(found[t])) * width_ +
                    2 * CONTEXT_PARTS * model_.contexts.n0;
        return room;
    }

    // The scores of all contexts.
    S context_score(int64_t t, int32_t previous, int32_t second, int32_t tag) const {
        S sum = 0;
        for (int64_t c = 0; c < model_.contexts.n0; ++c) {
            uint32_t key;
            if (!context_key(c, t, previous, second, key)) continue;
            sum += sum_of_parts(key, tag);
        }
        return sum;
    }

private:
    static constexpr int64_t WINDOW = 8;  // positions whose weights are fetched from memory together

    // Tags to choose from d positions before t; one, none, before the first position.
    int64_t n_before(int64_t t, int64_t d) const { return t >= d ? count(t - d) : 1; }

    // scale times what is added by place j at t after i at t - 1 and h at t - 2: steps[h][i][j]. 0 where
    // there is nothing to choose.
    void find_steps(int64_t t, double scale, double* steps) {
        const int64_t n_tags = count(t), n_previous = n_before(t, 1), n_second = n_before(t, 2);
        if (n_second * n_previous * n_tags == 1) {
            steps[0] = 0;
            return;
        }
        ArenaMark mark(arena_);
        ContextSums sums(*this, t);
        if (arena_.failed()) return;
        for (int64_t h = 0; h < n_second; ++h)
            for (int64_t i = 0; i < n_previous; ++i, steps += n_tags) {
                const S* own = sums.of(h, i);
                for (int64_t j = 0; j < n_tags; ++j) steps[j] = scale * (double)(score(t, j) + own[j]);
            }
    }

    // log of the sum of exp over `count` terms, at least one.
    static double log_sum(const double* terms, int64_t count) {
        if (count == 1) return terms[0];
        double top = terms[0], sum = 0;
        for (int64_t i = 1; i < count; ++i) top = terms[i] > top ? terms[i] : top;
        for (int64_t i = 0; i < count; ++i) sum += exp(terms[i] - top);
        return top + log(sum);
    }

    static int32_t before(const int32_t* tags, int64_t t, int64_t d) { return t >= d ? tags[t - d] : -1; }

    bool context_key(int64_t c, int64_t t, int32_t previous, int32_t second, uint32_t& key) const {
        const int32_t* context = model_.contexts.data + 4 * c;
        key = tables_.tag_key(context, previous, second);
        if (context[3] >= 0) {
            const uint32_t feature = features_[t * width_ + context[3]];
            if (!is_present(feature)) return false;
            key = mixed_context(key, feature);
        }
        return true;
    }

    S sum_of_parts(uint32_t key, int32_t tag) const {
        const int32_t* parts = tables_.parts_of(tag);
        S sum = 0;
        for (int64_t p = 0; p < tables_.n_context_parts_of(tag); ++p) sum += weights_[index(key, parts[p])];
        return sum;
    }

    bool is_present(uint32_t feature) const { return tables_.is_present(feature); }

    // Find the features of a position that the smaller filter has, and fetch what the other one says of them.
    void fetch_likely(int64_t t) {
        uint32_t* present = rows_of_present_ + t % WINDOW * (width_ + 1);
        const uint32_t* row = features_ + t * width_;
        int64_t count = 0;
        for (int64_t f = 0; f < width_; ++f) {  // without branches: most guesses would be wrong
            present[count] = row[f];
            count += tables_.may_be_present(present[count]);
        }
        for (int64_t f = 0; f < count; ++f) __builtin_prefetch(model_.known.data + (present[f] >> 13));
        n_of_window_[t % WINDOW] = count;
    }

    // Keep those of them that are present, and fetch the first weights.
    void fetch_present(int64_t t) {
        uint32_t* present = rows_of_present_ + t % WINDOW * (width_ + 1);
        n_of_window_[t % WINDOW] = tables_.keep_present(present, n_of_window_[t % WINDOW]);
        for (int64_t f = 0; f < n_of_window_[t % WINDOW]; ++f)
            __builtin_prefetch(weights_ + tables_.block_index(present[f], 0));
    }

    // Score parts at a position of `fetch_present`.
    void use_present(int64_t t) {
        present_ = rows_of_present_ + t % WINDOW * (width_ + 1);
        n_present_ = n_of_window_[t % WINDOW];
        hidden_now_ = hidden_ + t * model_.outputs.n1;
        ++stamp_;
    }

    void find_present(int64_t t) {
        fetch_likely(t);
        fetch_present(t);
        use_present(t);
    }

    uint32_t index(uint32_t key, int32_t part) const {
        return tables_.block_index(key, part / PART_BLOCK) + (uint32_t)part % PART_BLOCK;
    }

    // The score of a part at the position of `use_present`, computed once for all parts of its block.
    S part_score(int32_t part) {
        const int32_t block = part / PART_BLOCK;
        if (block_seen_[block] != stamp_) {
            block_seen_[block] = stamp_;
            BlockSums<W> sums;
            for (int64_t f = 0; f < n_present_; ++f) sums.add(weights_ + tables_.block_index(present_[f], block));
            sums.store(part_scores_ + block * PART_BLOCK);
            if (model_.outputs.n0) add_outputs(block, part_scores_ + block * PART_BLOCK);
        }
        return part_scores_[part];
    }

    // Add what the network says of the parts of a block.
    void add_outputs(int32_t block, Own* scores) const {
        const int64_t size = model_.outputs.n1;
        const int8_t* rows = model_.outputs.data + block * PART_BLOCK * size;
        int32_t lanes[PART_BLOCK * Lanes<int32_t>::count], dots[PART_BLOCK];
        for (int64_t j = 0; j < PART_BLOCK; ++j) {
            Sums sums{};
            for (int64_t h = 0; h < size; h += VECTOR_BYTES)
                sums = add_byte_dots(sums, (Bytes)load(hidden_now_ + h), load(rows + j * size + h));
            store(lanes + j * Lanes<int32_t>::count, sums);
        }
        fill_lane_sums(lanes, PART_BLOCK, dots);
        const int32_t* constants = model_.output_constants.data + block * PART_BLOCK;
        const ScoreUnit unit(model_.output_multiplier, model_.output_shift);
        for (int64_t j = 0; j < PART_BLOCK; ++j) scores[j] += (Own)unit.points(plus(dots[j], constants[j]));
    }

    S tag_score(int32_t tag) {
        const int32_t* parts = tables_.parts_of(tag);
        S sum = 0;
        for (int64_t p = 0; p < tables_.n_parts_of(tag); ++p) sum += part_score(parts[p]);
        return sum;
    }

    // Keep the `most` highest of `count` (score, number) pairs, in order of numbers of equal scores.
    static int64_t keep(S* scores, int32_t* numbers, int64_t count, int64_t most) {
        if (count <= most) return count;
        for (int64_t i = 0; i < most; ++i) {
            int64_t top = i;
            for (int64_t j = i + 1; j < count; ++j)
                if (scores[j] > scores[top] || (scores[j] == scores[top] && numbers[j] < numbers[top])) top = j;
            const S score = scores[top];
            const int32_t number = numbers[top];
            scores[top] = scores[i];
            numbers[top] = numbers[i];
            scores[i] = score;
            numbers[i] = number;
        }
        return most;
    }

    // Leave out the tags whose scores are further below the best one than the margin.
    static int64_t keep_near(S* scores, int32_t* tags, int64_t count, S margin) {
        S top = scores[0];
        for (int64_t j = 1; j < count; ++j) top = scores[j] > top ? scores[j] : top;
        int64_t kept = 0;
        for (int64_t j = 0; j < count; ++j) {
            scores[kept] = scores[j];
            tags[kept] = tags[j];
            kept += top - scores[j] <= margin;
        }
        return kept;
    }

    // The tags that the beam keeps at a position, from coarse to fine; returns how many.
    int64_t rank(int32_t* tags) {
        ArenaMark mark(arena_);
        int64_t room = tables_.n_tags;
        S* scores = arena_.take<S>(room);
        int32_t* numbers = arena_.take<int32_t>(room);
        int32_t* kept = arena_.take<int32_t>(room);
        if (arena_.failed()) return 0;
        const int64_t* coarse = model_.coarse_starts.data;
        for (int64_t c = 0; c < tables_.n_coarse; ++c) {
            scores[c] = part_score(tables_.parts_of((int32_t)coarse[c])[0]);
            numbers[c] = (int32_t)c;
        }
        int64_t n_kept = keep(scores, numbers, tables_.n_coarse, model_.beam.data[0]);
        for (int64_t i = 0; i < n_kept; ++i) kept[i] = numbers[i];
        int64_t count = 0;
        for (int64_t i = 0; i < n_kept; ++i)
            for (int64_t k = coarse[kept[i]]; k < coarse[kept[i] + 1]; ++k) {
                scores[count] = tag_score((int32_t)k);
                numbers[count++] = (int32_t)k;
            }
        n_kept = keep(scores, numbers, count, model_.beam.data[1]);
        for (int64_t i = 0; i < n_kept; ++i) tags[i] = numbers[i];
        return n_kept;
    }

    void best_alone(int32_t* places) {
        for (int64_t t = 0; t < n_; ++t) {
            int64_t top = 0;
            for (int64_t j = 1; j < count(t); ++j)
                if (score(t, j) > score(t, top)) top = j;
            places[t] = (int32_t)top;
        }
    }

    void best_first_order(int32_t* places) {
        if (!n_) return;
        const int64_t cells = first_[n_];
        S* total = arena_.take<S>(cells);
        int32_t* from = arena_.take<int32_t>(cells);
        if (arena_.failed()) return;
        for (int64_t t = 0; t < n_; ++t) {
            if (count(t) * n_before(t, 1) == 1) {  // nothing to choose here
                total[first_[t]] = t ? total[first_[t - 1]] : S(0);
                from[first_[t]] = 0;
                continue;
            }
            ArenaMark mark(arena_);
            ContextSums sums(*this, t);
            if (arena_.failed()) return;
            S* row = total + first_[t];
            int32_t* row_from = from + first_[t];
            for (int64_t i = 0; i < n_before(t, 1); ++i) {
                const S so_far = t ? total[first_[t - 1] + i] : S(0);
                const S* own = sums.of(0, i);
                for (int64_t j = 0; j < count(t); ++j) {
                    const S sum = so_far + own[j];
                    if (!i || sum > row[j]) {
                        row[j] = sum;
                        row_from[j] = (int32_t)i;
                    }
                }
            }
            for (int64_t j = 0; j < count(t); ++j) row[j] += score(t, j);
        }
        int64_t top = 0;
        for (int64_t j = 1; j < count(n_ - 1); ++j)
            if (total[first_[n_ - 1] + j] > total[first_[n_ - 1] + top]) top = j;
        for (int64_t t = n_ - 1; t >= 0; --t) {
            places[t] = (int32_t)top;
            if (t) top = from[first_[t] + top];
        }
    }

    // A state is the pair of tags at t - 1 and t; before the first word there is one tag, none.
    void best_second_order(int32_t* places) {
        if (!n_) return;
        int64_t* offsets = arena_.take<int64_t>(n_ + 1);
        if (arena_.failed()) return;
        offsets[0] = 0;
        for (int64_t t = 0; t < n_; ++t) offsets[t + 1] = offsets[t] + (t ? count(t - 1) : 1) * count(t);
        S* total = arena_.take<S>(offsets[n_]);
        int32_t* from = arena_.take<int32_t>(offsets[n_]);
        const S nothing = 0;
        if (arena_.failed()) return;
        for (int64_t t = 0; t < n_; ++t) {
            const int64_t n_previous = t ? count(t - 1) : 1, n_second = t > 1 ? count(t - 2) : 1;
            const int64_t n_tags = count(t);
            if (n_previous * n_second * n_tags == 1) {  // nothing to choose here
                total[offsets[t]] = t ? total[offsets[t - 1]] : S(0);
                from[offsets[t]] = 0;
                continue;
            }
            ArenaMark mark(arena_);
            ContextSums sums(*this, t);
            if (arena_.failed()) return;
            for (int64_t i = 0; i < n_previous; ++i) {
                S* row = total + offsets[t] + i * n_tags;
                int32_t* row_from = from + offsets[t] + i * n_tags;
                const S* so_far = t ? total + offsets[t - 1] + i : &nothing;  // of place h at h * n_previous
                for (int64_t h = 0; h < n_second; ++h) {
                    const S before = so_far[h * n_previous];
                    const S* own = sums.of(h, i);
                    for (int64_t j = 0; j < n_tags; ++j) {
                        const S sum = before + own[j];
                        if (h && sum <= row[j]) continue;
                        row[j] = sum;
                        row_from[j] = (int32_t)h;
                    }
                }
                for (int64_t j = 0; j < n_tags; ++j) row[j] += score(t, j);
            }
        }
        const int64_t last = n_ - 1, n_tags = count(last), n_previous = last ? count(last - 1) : 1;
        int64_t top_i = 0, top_j = 0;
        const S* totals = total + offsets[last];
        for (int64_t j = 0; j < n_tags; ++j)
            for (int64_t i = 0; i < n_previous; ++i)
                if (totals[i * n_tags + j] > totals[top_i * n_tags + top_j]) {
                    top_i = i;
                    top_j = j;
                }
        for (int64_t t = last; t >= 0; --t) {
            places[t] = (int32_t)top_j;
            const int32_t h = from[offsets[t] + top_i * count(t) + top_j];
            top_j = top_i;
            top_i = h;
        }
    }

    // Scores of contexts at a position, for all tags before. Tags share parts, and contexts that read
    // classes have the same scores for all tags of a class: each is summed once.
    class ContextSums {
    public:
        ContextSums(const SequenceLattice& lattice, int64_t t)
            : lattice_(lattice), tables_(lattice.tables_), t_(t), n_tags_(lattice.count(t)) {
            Arena& arena = lattice.arena_;
            places_ = arena.template take<int32_t>(n_tags_ * CONTEXT_PARTS);
            blocks_ = arena.template take<int32_t>(n_tags_ * CONTEXT_PARTS);
            previous_ = classes(1, n_previous_);
            second_ = classes(2, n_second_);
            if (arena.failed()) return;
            for (int64_t j = 0; j < n_tags_; ++j) {
                const int32_t* parts = tables_.parts_of(lattice.tag(t, j));
                const int64_t count = tables_.n_context_parts_of(lattice.tag(t, j));
                for (int64_t p = 0; p < CONTEXT_PARTS; ++p)
                    places_[j * CONTEXT_PARTS + p] = p < count ? place_of(parts[p]) : -1;
            }
            // A part that a tag lacks has a sum of its own, which stays 0.
            for (int64_t k = 0; k < n_tags_ * CONTEXT_PARTS; ++k)
                if (places_[k] < 0) places_[k] = (int32_t)(n_blocks_ * PART_BLOCK);
            width_ = (n_blocks_ + 1) * PART_BLOCK;
            const int64_t n_cells = n_previous_ * n_second_;
            of_classes_ = arena.template take<Own>(n_cells * width_);
            is_done_ = arena.template take_zeros<bool>(n_cells);
            of_pair_ = arena.template take<Own>(width_);
            of_tags_ = arena.template take<S>(n_tags_);
        }

        // The sums of all candidates after place i at t - 1 and h at t - 2, until the next call.
        const S* of(int64_t h, int64_t i) {
            const Own* of_parts = of_classes(h, i);
            for (int64_t d = 0; d < width_; ++d) of_pair_[d] = of_parts[d];
            add(previous(i), second(h), true, of_pair_);
            for (int64_t j = 0; j < n_tags_; ++j) {
                S sum = 0;
                for (int64_t p = 0; p < CONTEXT_PARTS; ++p) sum += of_pair_[places_[j * CONTEXT_PARTS + p]];
                of_tags_[j] = sum;
            }
            return of_tags_;
        }

    private:
        int32_t previous(int64_t i) const { return t_ ? lattice_.tag(t_ - 1, i) : -1; }
        int32_t second(int64_t h) const { return t_ > 1 ? lattice_.tag(t_ - 2, h) : -1; }

        // The sums of the contexts that read classes.
        const Own* of_classes(int64_t h, int64_t i) {
            const int64_t cell = second_[h] * n_previous_ + previous_[i];
            Own* of_parts = of_classes_ + cell * width_;
            if (is_done_[cell]) return of_parts;
            is_done_[cell] = true;
            for (int64_t d = 0; d < width_; ++d) of_parts[d] = 0;
            add(previous(i), second(h), false, of_parts);
            return of_parts;
        }

        // The classes of the candidates d positions before, counted from 0; how many there are.
        int32_t* classes(int64_t d, int64_t& count) {
            const int64_t n = lattice_.n_before(t_, d);
            int32_t* found = lattice_.arena_.template take_zeros<int32_t>(n);
            count = 1;
            if (lattice_.arena_.failed() || t_ < d) return found;
            const int32_t* of_tags = tables_.class_of[1];
            count = 0;
            for (int64_t i = 0; i < n; ++i) {
                int64_t same = 0;
                while (of_tags[lattice_.tag(t_ - d, same)] != of_tags[lattice_.tag(t_ - d, i)]) ++same;
                found[i] = same < i ? found[same] : (int32_t)count++;
            }
            return found;
        }

        int32_t place_of(int32_t part) {
            const int32_t block = part / PART_BLOCK;
            int64_t place = 0;
            while (place < n_blocks_ && blocks_[place] != block) ++place;
            if (place == n_blocks_) blocks_[n_blocks_++] = block;
            return (int32_t)place * PART_BLOCK + part % PART_BLOCK;
        }

        // Add the contexts that read tags, or those that read classes alone, to sums of parts, in blocks.
        void add(int32_t previous, int32_t second, bool reads_tags, Own* sums) const {
            const i32_2& contexts = tables_.model.contexts;
            for (int64_t c = 0; c < contexts.n0; ++c) {
                uint32_t key;
                const int32_t* context = contexts.data + 4 * c;
                if ((context[1] > 1 || context[2] > 1) != reads_tags) continue;
                if (!lattice_.context_key(c, t_, previous, second, key)) continue;
                for (int64_t b = 0; b < n_blocks_; ++b) {
                    BlockSums<W> block;
                    block.load(sums + b * PART_BLOCK);
                    block.add(lattice_.weights_ + tables_.block_index(key, blocks_[b]));
                    block.store(sums + b * PART_BLOCK);
                }
            }
        }

        const SequenceLattice& lattice_;
        const SequenceTables& tables_;
        const int64_t t_, n_tags_;
        int64_t n_blocks_ = 0, width_ = 0, n_previous_ = 1, n_second_ = 1;
        int32_t *places_, *blocks_, *previous_, *second_;
        Own *of_classes_, *of_pair_;
        S* of_tags_;
        bool* is_done_;
    };

    int64_t add_tag(int32_t tag, int32_t other, float delta, WeightChange* changes) const {
        int64_t count = 0;
        const int32_t *parts = tables_.parts_of(tag), *others = tables_.parts_of(other);
        for (int64_t p = 0; p < tables_.n_parts_of(tag); ++p) {
            bool is_shared = false;
            for (int64_t o = 0; o < tables_.n_parts_of(other); ++o) is_shared |= others[o] == parts[p];
            if (is_shared) continue;
            for (int64_t f = 0; f < n_present_; ++f) changes[count++] = {index(present_[f], parts[p]), delta};
        }
        return count;
    }

    int64_t add_contexts(int64_t t, const int32_t* tags, float delta, WeightChange* changes) const {
        int64_t count = 0;
        const int32_t* parts = tables_.parts_of(tags[t]);
        for (int64_t c = 0; c < model_.contexts.n0; ++c) {
            uint32_t key;
            if (!context_key(c, t, before(tags, t, 1), before(tags, t, 2), key)) continue;
            for (int64_t p = 0; p < CONTEXT_PARTS && p < tables_.n_parts_of(tags[t]); ++p)
                changes[count++] = {index(key, parts[p]), delta};
        }
        return count;
    }

public:
    static constexpr int64_t MOST_CONTEXTS = 64;

private:
    const SequenceTables& tables_;
    const SequenceModel& model_;
    const W* weights_;
    const int64_t n_, width_;
    const uint32_t* features_;
    const uint8_t *hidden_, *hidden_now_ = nullptr;
    Arena& arena_;
    int64_t* first_;
    int32_t* tags_ = nullptr;
    S* scores_ = nullptr;
    Own* part_scores_;
    int64_t* block_seen_;
    uint32_t* present_;
    int64_t n_present_ = 0, stamp_ = 0;
    uint32_t* rows_of_present_;  // of a window
    int64_t n_of_window_[WINDOW];
};

}  // namespace gpuparse
