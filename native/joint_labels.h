// Labels found with the trees: the best label of every arc, from a line of one weight per label.
//
// A label template is conjoined with every label: its value finds a line of weights by the same keys
// as an arc template's. Templates of one word without the distance are summed once per word and
// direction; all others once per arc. Word vectors may add to the sums. The score of an arc's best label
// then takes part in the arc's score, whatever the decoder (Carreras 2007, section 2).
#pragma once
#include <math.h>

#include "arc_scores.h"
#include "word_vectors.h"

namespace gpuparse {

constexpr int64_t LABEL_LANES = 16;        // a line has a multiple of this many weights
static_assert(LABEL_LANES == LINE, "load_weights loads as many");
constexpr int32_t LITTLE = -(1 << 30);  // of padding lanes, so that the maximum never picks them
constexpr int64_t CACHE_LINE = 64;         // bytes

// The data that score labels of the arcs of one sentence.
template<class W>
struct LabelSums {
    const JointLabels* joint;
    const W* weights;
    ArcKeys keys;
    Sum<W>* words;    // (2, 2, n + 1, stride): sums of the templates of one word, by role, direction
    int64_t* lines;   // (n + 1, most): first weights of the lines of one head's arcs
    int64_t* counts;  // (n + 1,): how many lines each of them has
    Sum<W>* sums;     // (stride,) of one arc
    int64_t most;
    LabelVectors* vectors;  // NULL: none
    Sum<W>* of_vectors;     // (n + 1, stride): what vectors add to the arcs of one head

    Sum<W>* of_word(int64_t role, int64_t direction, int64_t i) const {
        return words + ((role * 2 + direction) * (keys.n + 1) + i) * joint->stride;
    }
};

// Sum the families of one word, for arcs to the right and left. vectors: of the sentence, or NULL. Where
// memory runs out, the arena has failed.
template<class W>
LabelSums<W> sum_label_words(const JointLabels& joint, const ArcKeys& keys, SentenceVectors* vectors,
                             Arena& arena) {
    const ArcPlan& plan = *joint.plan;
    const int64_t nodes = keys.n + 1, stride = joint.stride, most = 2 * plan.pair.n0 + 1;
    LabelSums<W> labels{&joint, (const W*)joint.weights.data, keys,
                              arena.take_zeros<Sum<W>>(4 * nodes * stride),
                              arena.take<int64_t>(nodes * most), arena.take<int64_t>(nodes),
                              arena.take<Sum<W>>(stride), most,
                              vectors && has_labels(vectors->of) ? LabelVectors::make(vectors, arena)
                                                                 : nullptr,
                        nullptr};
    if (labels.vectors) labels.of_vectors = arena.take<Sum<W>>(nodes * stride);
    if (arena.failed()) return labels;
    for (int64_t at = 0; at < 2 * nodes; ++at)
        for (int64_t k = joint.width; k < stride; ++k) labels.words[at * stride + k] = (Sum<W>)LITTLE;
    for (int64_t f = 0; f < plan.word.n0; ++f) {
        const WordFamily& family = words_of(plan)[f];
        for (int64_t i = family.role; i < nodes; ++i) {
            if (!has_word(family, i, keys)) continue;
            const uint32_t base = word_base(family, i, keys, *joint.rows);
            for (int64_t direction = 0; direction < 2; ++direction) {
                Sum<W>* sum = labels.of_word(family.role, direction, i);
                visit_codes(plan, family, [&](const uint32_t* codes) {
                    const uint32_t row = base ^ codes[direction * plan.n_buckets];
                    const W* line = labels.weights + (uint64_t)row * (uint64_t)stride;
                    for (int64_t k = 0; k < stride; ++k) sum[k] += line[k];
                });
            }
        }
    }
    return labels;
}

// Fill the lines of the arc h -> m; returns how many.
template<class W>
int64_t find_lines(int64_t h, int64_t m, const LabelSums<W>& labels, int64_t* lines) {
    const ArcPlan& plan = *labels.joint->plan;
    const int64_t c = labels.keys.combination(h, m);
    RowList found{lines};
    visit_pairs(h, m, plan, *labels.joint->rows, labels.keys,
                [&](const PairFamily& family, uint32_t base) { found.add(plan, family, base, c); });
    for (int64_t k = 0; k < found.count(); ++k) lines[k] *= labels.joint->stride;
    return found.count();
}

// Fill sums[l] with the score of label l on the arc h -> m.
template<class W>
void sum_labels(int64_t h, int64_t m, const LabelSums<W>& labels, Sum<W>* __restrict sums) {
    const int64_t direction = h < m ? 0 : 1, stride = labels.joint->stride;
    const Sum<W>* of_head = labels.of_word(0, direction, h);
    const Sum<W>* of_modifier = labels.of_word(1, direction, m);
    const int64_t count = find_lines(h, m, labels, labels.lines);
    for (int64_t k = 0; k < stride; ++k) sums[k] = of_head[k] + of_modifier[k];
    for (int64_t line = 0; line < count; ++line) {
        const W* weights = labels.weights + labels.lines[line];
        for (int64_t k = 0; k < stride; ++k) sums[k] += weights[k];
    }
    if (labels.vectors) labels.vectors->add(h, m, stride, sums);
}

// Add LINE weights at each of the lines to their sums.
template<class W>
inline void add_lines(const W* weights, const int64_t* lines, int64_t count,
                      typename SumVector<W>::type& total) {
    for (int64_t line = 0; line < count; ++line) {
        typename SumVector<W>::type lanes;
        load_weights(weights + lines[line], lanes);
        total += lanes;
    }
}
// 8 bits are widened once to 16, which hold the sums of some lines, and not twice.
inline void add_lines(const int8_t* weights, const int64_t* lines, int64_t count,
                      SumVector<int8_t>::type& total) {
    constexpr int64_t MOST = 255;  // lines whose sums 16 bits hold: 255 * -128 > -2^15
    for (int64_t first = 0; first < count; first += MOST) {
        const int64_t end = first + MOST < count ? first + MOST : count;
        Wider part = {};
        for (int64_t line = first; line < end; ++line) {
            Wider lanes;
            load_line(weights + lines[line], lanes);
            part += lanes;
        }
        total += __builtin_convertvector(part, SumVector<int8_t>::type);
    }
}

// The largest sum of any label of an arc, whose lines are known. Labels by the vector, its sum in a
// register while a loop runs over the lines.
template<class W>
Sum<W> largest_sum(int64_t h, int64_t m, const LabelSums<W>& labels, const int64_t* lines,
                   int64_t count) {
    typedef typename SumVector<W>::type Lanes;
    const int64_t direction = h < m ? 0 : 1, stride = labels.joint->stride;
    const Sum<W>* of_head = labels.of_word(0, direction, h);
    const Sum<W>* of_modifier = labels.of_word(1, direction, m);
    Lanes best;
    for (int64_t k = 0; k < LABEL_LANES; ++k) best[k] = (Sum<W>)LITTLE * 2;
    for (int64_t k = 0; k < stride; k += LABEL_LANES) {
        Lanes total, other;
        memcpy(&total, of_head + k, sizeof(total));
        memcpy(&other, of_modifier + k, sizeof(other));
        total += other;
        add_lines(labels.weights + k, lines, count, total);
        if (labels.vectors) {
            memcpy(&other, labels.of_vectors + m * stride + k, sizeof(other));
            total += other;
        }
        best = total > best ? total : best;
    }
    typedef Sum<W> Four __attribute__((vector_size(16)));
    Four four[4];
    memcpy(four, &best, sizeof(four));
    four[0] = four[0] > four[1] ? four[0] : four[1];
    four[2] = four[2] > four[3] ? four[2] : four[3];
    four[0] = four[0] > four[2] ? four[0] : four[2];
    const Sum<W> one = four[0][0] > four[0][1] ? four[0][0] : four[0][1];
    const Sum<W> other = four[0][2] > four[0][3] ? four[0][2] : four[0][3];
    return one > other ? one : other;
}

// Add to scores(h, m) of every arc of one sentence what its best label scores; keep it in
// best(h, m).
//
// The lines of all arcs of a head are asked for before any is read. Cost: O(labels * families) an arc.
template<class W>
void add_best_labels(LabelSums<W>& labels, View2<Sum<W>> best, View2<double> scores) {
    const int64_t n = labels.keys.n, stride = labels.joint->stride;
    const int64_t per_cache_line = CACHE_LINE / (int64_t)sizeof(W);
    Pace pace;
    for (int64_t h = 0; h <= n && !pace.is_interrupted(50 * n); ++h) {
        if (labels.vectors) labels.vectors->fill_row(h, labels.of_vectors);
        for (int64_t m = 1; m <= n; ++m) {
            if (h == m) continue;
            int64_t* lines = labels.lines + m * labels.most;
            labels.counts[m] = find_lines(h, m, labels, lines);
            for (int64_t line = 0; line < labels.counts[m]; ++line)
                for (int64_t k = 0; k < stride; k += per_cache_line)
                    __builtin_prefetch(labels.weights + lines[line] + k);
        }
        for (int64_t m = 1; m <= n; ++m) {
            if (h == m) continue;
            best(h, m) = largest_sum(h, m, labels, labels.lines + m * labels.most, labels.counts[m]);
            scores(h, m) += best(h, m);
        }
    }
}

// The first of the labels that score highest, and the score. Every label but `right` scores `cost`
// more than its sum.
struct BestLabel { int64_t label; double score; };

template<class S>
BestLabel best_label(const S* sums, int64_t width, int64_t right, double cost) {
    BestLabel best{0, -(double)INFINITY};
    for (int64_t label = 0; label < width; ++label) {
        const double value = (double)sums[label] + (label != right ? cost : 0.0);
        if (value > best.score) best = {label, value};
    }
    return best;
}

// The best label of an arc of the sentence whose sums these are; `right` and `cost` as in
// `best_label`.
template<class W>
BestLabel find_label(int64_t h, int64_t m, const LabelSums<W>& labels, int64_t right, double cost) {
    sum_labels(h, m, labels, labels.sums);
    return best_label(labels.sums, labels.joint->width, right, cost);
}

// Append the weight rows of the label of an arc, counted in single weights from `first` on.
template<class Rows>
inline void add_label_rows(int64_t h, int64_t m, int64_t label, const JointLabels& joint,
                           const ArcKeys& keys, int64_t first, Rows& found) {
    int64_t* row = found.end;
    add_pair_rows(h, m, keys.combination(h, m), *joint.plan, *joint.rows, keys, found);
    for (; row < found.end; ++row)
        if (*row >= 0) *row = first + *row * joint.stride + label;
}

}  // namespace gpuparse
