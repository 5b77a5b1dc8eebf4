// Learning of second-stage labels: the online step, one arc at a time.
//
// McDonald, Lerman & Pereira (2006): a second stage labels the arcs of a finished tree, or of a graph
// where words have several heads. Each arc is one constraint: its gold label is to score at least 1
// above the best other label that labelling could choose there.
#pragma once
#include <math.h>

#include "api/learning.h"
#include "labels.h"
#include "updates.h"

namespace gpuparse {

// The weights of second-stage labels, lines of `width` weights, and working memory for one arc.
struct LabelLearner {
    const Sentences& sentences;
    const LabelPlan& plan;
    const UpdateRule& rule;
    int64_t n_lines, width;
    float* weights;
    float* weighted;
    int64_t* lines;   // (templates,): of the arc, -1 for a template that does not fire
    float* scores;    // (width,)

    bool take(Arena& arena) {
        lines = arena.take<int64_t>(plan.direction.n0);
        scores = arena.take<float>(width);
        return !arena.failed();
    }

    // Score the labels of the arc at these positions.
    void score(int64_t start, const int64_t* positions) {
        fill_label_lines(sentences.values, start, plan, n_lines, width, positions, lines);
        sum_label_lines(weights, lines, plan.direction.n0, width, scores);
    }

    // The label other than gold with the highest score, the first of equals.
    int64_t best_other(int64_t gold) const {
        int64_t best = gold == 0 ? 1 : 0;
        for (int64_t label = 0; label < width; label++)
            if (label != gold && scores[label] > scores[best]) best = label;
        return best;
    }

    // Learn from the arc that was scored, `guess` being the best wrong label. Returns whether that
    // scores as high as the gold label.
    bool learn(int64_t right, int64_t guess, int64_t seen) {
        const double margin = (double)scores[right] - (double)scores[guess];
        const bool is_wrong = margin <= 0;
        if (rule.rule == CONDITIONAL) {
            follow_gradient(right, seen);
            return is_wrong;
        }
        const double cost = rule.rule != PERCEPTRON || is_wrong ? 1.0 : 0.0;
        const double step = step_size(rule.rule, cost, margin, squared_norm(), rule.max_step);
        if (!(step > 0.0)) return is_wrong;
        for (int64_t f = 0; f < plan.direction.n0; f++) {
            if (lines[f] < 0) continue;
            change(lines[f] + right, step, seen);
            change(lines[f] + guess, -step, seen);
        }
        return is_wrong;
    }

private:
    void change(int64_t at, double change, int64_t seen) {
        weights[at] = (float)(weights[at] + change);
        weighted[at] = (float)(weighted[at] + (double)seen * change);
    }

    // Squared length of gold minus guessed features: lines that coincide count together.
    double squared_norm() const {
        int64_t ones = 0, pairs = 0;
        for (int64_t f = 0; f < plan.direction.n0; f++) {
            if (lines[f] < 0) continue;
            ones++;
            for (int64_t g = 0; g < f; g++) pairs += lines[f] == lines[g];
        }
        return 2.0 * (double)(ones + 2 * pairs);
    }

    // A step up the gradient of the gold label's log-probability; scores become probabilities.
    void follow_gradient(int64_t right, int64_t seen) {
        float most = scores[0], total = 0.0f;
        for (int64_t label = 1; label < width; label++)
            if (scores[label] > most) most = scores[label];
        for (int64_t label = 0; label < width; label++) scores[label] = expf(scores[label] - most);
        for (int64_t label = 0; label < width; label++) total += scores[label];
        for (int64_t label = 0; label < width; label++) scores[label] /= total;
        for (int64_t label = 0; label < width; label++) {
            const double is_right = label == right ? 1.0 : 0.0;
            const double step = rule.max_step * (is_right - (double)scores[label]);
            for (int64_t f = 0; f < plan.direction.n0; f++)
                if (lines[f] >= 0) change(lines[f] + label, step, seen);
        }
    }
};

// Learn from all words of all sentences; returns how many had another label first, or a status.
inline int64_t learn_tree_labels(LabelLearner& learner, const i64_1& heads, const i64_1& gold,
                                 int64_t seen) {
    Arena arena;
    if (!learner.take(arena)) return NO_MEMORY;
    int64_t wrong = 0;
    for (int64_t b = 0; b < learner.sentences.starts.n0; b++) {
        ArenaMark mark(arena);
        const int64_t start = learner.sentences.starts.data[b], n = learner.sentences.lengths.data[b];
        LabelPositions positions;
        if (!positions.take(n, arena)) return NO_MEMORY;
        positions.fill(heads.data + start, n);
        for (int64_t m = 1; m <= n; m++) {
            const int64_t right = gold.data[start + m];
            if (right < 0 || learner.width == 1) continue;
            learner.score(start, positions.of(m));
            wrong += learner.learn(right, learner.best_other(right), seen + b);
        }
    }
    return wrong;
}

// The same from every arc of graphs. The best wrong label of a primary arc is one that such an arc
// may have: learning separates gold labels from those that labelling could choose instead.
inline int64_t learn_labels_of_graphs(LabelLearner& learner, const i64_1& heads,
                                      const LabelledGraphs& graphs, int64_t seen) {
    Arena arena;
    if (!learner.take(arena)) return NO_MEMORY;
    int64_t wrong = 0;
    for (int64_t b = 0; b < learner.sentences.starts.n0; b++) {
        ArenaMark mark(arena);
        const int64_t start = learner.sentences.starts.data[b], n = learner.sentences.lengths.data[b];
        const int64_t* of_words = heads.data + start;
        LabelPositions positions;
        if (!positions.take(n, arena)) return NO_MEMORY;
        positions.fill(of_words, n);
        for (int64_t m = 1; m <= n; m++) {
            const int64_t end = graphs.arc_starts.data[start + m + 1];
            for (int64_t arc = graphs.arc_starts.data[start + m]; arc < end; arc++) {
                const int64_t right = graphs.gold.data[arc];
                if (right < 0 || learner.width == 1) continue;
                positions.turn_to_arc(of_words, n, graphs.arc_heads.data[arc], m);
                learner.score(start, positions.of(m));
                const bool is_primary = positions.of(m)[OF_OTHER] == NO_NODE;
                const int64_t guess =
                    is_primary ? best_permitted(learner.scores, learner.width,
                                                graphs.may_be_primary.data, right)
                               : learner.best_other(right);
                if (guess >= 0) wrong += learner.learn(right, guess, seen + b);
            }
        }
    }
    return wrong;
}

}  // namespace gpuparse
