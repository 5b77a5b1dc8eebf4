// The best sequence of a model with two tags of one part each, whose contexts read one tag before.
#pragma once

#include "sequences.h"

namespace gpuparse {

// As the search of `SequenceLattice` for such a model, at positions without candidates: whole numbers have the same
// sum in any order. Weights come from `pair_weights`, which the cache holds.
class TwoTagSearch {
public:
    static bool fits(const SequenceModel& model, const SequenceBatch& batch) {
        return model.pair_weights.n0 && model.beam.n0 == 2 && model.beam.data[0] > 1 && model.beam.data[1] > 1 &&
               !model.outputs.n0 && !batch.candidates.n0;
    }

    TwoTagSearch(const SequenceTables& tables, const SequenceBatch& batch, Arena& arena)
        : tables_(tables), batch_(batch), n_contexts_(tables.model.contexts.n0), width_(batch.features.n1) {
        for (int32_t previous = -1; previous < 2; ++previous)
            keys_[previous + 1] = arena.take<uint32_t>(n_contexts_);
        features_ = arena.take<uint32_t>(WINDOW * (width_ + 1));
        contexts_ = arena.take<uint32_t>(WINDOW * 2 * (n_contexts_ + 1));
        if (arena.failed()) return;
        for (int64_t c = 0; c < n_contexts_; ++c)
            for (int32_t previous = -1; previous < 2; ++previous)
                keys_[previous + 1][c] = tables.tag_key(tables.model.contexts.data + 4 * c, previous, -1);
    }

    // Fills the tags of positions start : end. False: memory runs out.
    bool find(int64_t start, int64_t end, int32_t* tags, Arena& arena) {
        uint8_t* from = arena.take<uint8_t>(2 * (end - start));
        if (arena.failed()) return false;
        Sums total{{0, 0}};
        for (int64_t first = start; first < end; first += WINDOW) {
            const int64_t last = end - first < WINDOW ? end : first + WINDOW;
            for (int64_t t = first; t < last; ++t) find_likely(t, t - first);
            for (int64_t t = first; t < last; ++t) find_keys(t, t - first, t == start);
            for (int64_t t = first; t < last; ++t) {
                const Pair own = sum_weights(features_ + (t - first) * (width_ + 1), n_features_[t - first]);
                const uint32_t* keys = contexts_ + (t - first) * 2 * (n_contexts_ + 1);
                const int64_t count = n_contexts_of_[t - first];
                const Pair after_first = sum_weights(keys, count);
                const Pair after_second = t == start ? after_first : sum_weights(keys + n_contexts_ + 1, count);
                Sums best;
                for (int j = 0; j < 2; ++j) {
                    const int64_t one = total.of[0] + after_first.of[j], other = total.of[1] + after_second.of[j];
                    from[2 * (t - start) + j] = other > one;
                    best.of[j] = (other > one ? other : one) + own.of[j];
                }
                total = best;
            }
        }
        uint8_t top = total.of[1] > total.of[0];
        for (int64_t t = end; t-- > start;) {
            tags[t] = top;
            top = from[2 * (t - start) + top];
        }
        return true;
    }

private:
    static constexpr int64_t WINDOW = 8;  // positions whose weights are fetched from memory together
    struct Pair { int32_t of[2]; };       // of both tags
    struct Sums { int64_t of[2]; };

    const SequenceTables& tables_;
    const SequenceBatch& batch_;
    const int64_t n_contexts_, width_;
    uint32_t* keys_[3];   // of contexts after no tag, the first and the second one
    uint32_t* features_;  // of the positions of a window
    uint32_t* contexts_;  // keys after the first and the second tag
    int64_t n_features_[WINDOW], n_contexts_of_[WINDOW];

    int64_t row_of(uint32_t key) const { return tables_.block_index(key, 0) / PART_BLOCK; }

    Pair sum_weights(const uint32_t* keys, int64_t count) const {
        const int16_t* weights = tables_.model.pair_weights.data;
        Pair sum{{0, 0}};
        for (int64_t k = 0; k < count; ++k)
            for (int j = 0; j < 2; ++j) sum.of[j] += weights[2 * row_of(keys[k]) + j];
        return sum;
    }

    // Keeps the features that the smaller filter has, and fetches what the other one says of them.
    void find_likely(int64_t t, int64_t place) {
        const uint32_t* row = batch_.features.data + t * width_;
        uint32_t* kept = features_ + place * (width_ + 1);
        int64_t count = 0;
        for (int64_t f = 0; f < width_; ++f) {
            kept[count] = row[f];
            count += tables_.may_be_present(row[f]);
        }
        for (int64_t f = 0; f < count; ++f) __builtin_prefetch(tables_.model.known.data + (kept[f] >> 13));
        n_features_[place] = count;
    }

    // Keeps the features that are present, finds the keys of contexts, and fetches the weights of all.
    void find_keys(int64_t t, int64_t place, bool is_start) {
        const int16_t* weights = tables_.model.pair_weights.data;
        uint32_t* kept = features_ + place * (width_ + 1);
        n_features_[place] = tables_.keep_present(kept, n_features_[place]);
        for (int64_t f = 0; f < n_features_[place]; ++f) __builtin_prefetch(weights + 2 * row_of(kept[f]));
        const uint32_t* row = batch_.features.data + t * width_;
        const uint32_t *after_first = keys_[is_start ? 0 : 1], *after_second = keys_[2];
        uint32_t* keys = contexts_ + place * 2 * (n_contexts_ + 1);
        int64_t count = 0;
        for (int64_t c = 0; c < n_contexts_; ++c) {
            const int32_t column = tables_.model.contexts.data[4 * c + 3];
            const uint32_t feature = column < 0 ? 0 : row[column];
            keys[count] = column < 0 ? after_first[c] : mixed_context(after_first[c], feature);
            keys[n_contexts_ + 1 + count] = column < 0 ? after_second[c] : mixed_context(after_second[c], feature);
            count += column < 0 || tables_.is_present(feature);
        }
        for (int64_t c = 0; c < count; ++c) {
            __builtin_prefetch(weights + 2 * row_of(keys[c]));
            __builtin_prefetch(weights + 2 * row_of(keys[n_contexts_ + 1 + c]));
        }
        n_contexts_of_[place] = count;
    }
};

}  // namespace gpuparse
