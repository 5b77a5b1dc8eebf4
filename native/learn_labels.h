// Learning of second-stage labels: the online step, one arc at a time.
//
// McDonald, Lerman & Pereira (2006): a second stage labels the arcs of a finished tree, or of a graph
// where words have several heads. Each arc is one constraint: its gold label is to score at least 1
// above the best other label that labelling could choose there.
#pragma once
#include "labels.h"
#include "updates.h"
#include "difference.h"

namespace gpuparse {

// The weights of second-stage labels, lines of one weight per label, and the scores of one arc.
struct LabelLearner {
    LabelScorer<float> scorer;
    const UpdateRule& rule;
    LearnedTable table;

    // The label other than gold with the highest score, the first of equals.
    int64_t best_other(int64_t gold) const {
        int64_t best = gold == 0 ? 1 : 0;
        for (int64_t label = 0; label < scorer.width; label++)
            if (label != gold && scorer.sums[label] > scorer.sums[best]) best = label;
        return best;
    }

    // Learn from the arc that was scored, `guess` being the best wrong label. Returns whether that
    // scores as high as the gold label.
    bool learn(int64_t right, int64_t guess, int64_t seen) {
        const double margin = (double)scorer.sums[right] - (double)scorer.sums[guess];
        const bool is_wrong = margin <= 0;
        if (rule.rule == CONDITIONAL) {
            follow_gradient(right, seen);
            return is_wrong;
        }
        const double cost = rule.rule != PERCEPTRON || is_wrong ? 1.0 : 0.0;
        const double step = step_size(rule, cost, margin, squared_norm());
        if (!(step > 0.0)) return is_wrong;
        for_lines([&](int64_t line) {
            table.change(line + right, step, seen);
            table.change(line + guess, -step, seen);
        });
        return is_wrong;
    }

private:
    // Call visit(line) for the features of the arc.
    template<class Visit>
    void for_lines(Visit visit) const {
        for (int64_t f = 0; f < scorer.plan.direction.n0; f++)
            if (scorer.lines[f] >= 0) visit(scorer.lines[f]);
    }

    // Squared length of gold minus guessed features: lines that coincide count together.
    double squared_norm() const {
        int64_t pairs = 0;
        for_lines([&](int64_t line) {
            for_lines([&](int64_t other) { pairs += line == other; });
        });
        return 2.0 * (double)pairs;
    }

    // A step up the gradient of the gold label's log-probability; scores become probabilities.
    void follow_gradient(int64_t right, int64_t seen) {
        float* scores = scorer.sums;
        const int64_t width = scorer.width;
        float most = scores[0], total = 0.0f;
        for (int64_t label = 1; label < width; label++)
            if (scores[label] > most) most = scores[label];
        for (int64_t label = 0; label < width; label++) scores[label] = expf(scores[label] - most);
        for (int64_t label = 0; label < width; label++) total += scores[label];
        for (int64_t label = 0; label < width; label++) {
            const double is_right = label == right ? 1.0 : 0.0;
            const double step = rule.max_step * (is_right - (double)(scores[label] / total));
            for_lines([&](int64_t line) { table.change(line + label, step, seen); });
        }
    }
};

}  // namespace gpuparse
