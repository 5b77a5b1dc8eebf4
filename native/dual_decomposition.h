// Dual decomposition of non-projective trees with higher-order parts (Koo et al. 2010).
//
// A tree of candidates is to have the highest sum of the parts in its blocks. The sub-problems share
// the arcs: one spanning tree; for each head an automaton that chooses its modifiers on both sides and,
// where parts have grandparents, its own head; and where limits on labels are to be kept, for each head
// another one that chooses its modifiers and their labels. Lagrange multipliers make them agree: they
// are added to the tree's scores and subtracted from those of the automata. So the sum of all best
// scores is never below the score of the best tree, and equals it where all choices agree. The
// multipliers descend along subgradients.
//
// Three things beyond the textbook form, inference/textbook:
// - every tree met is scored, and improved by single changes of head when it is the best so far, so
//   that steps can aim at its score (Polyak), and the bound alone can certify it;
// - an arc is barred where its loss closes the gap: the reduced cost in the tree and the losses in the
//   automata are taken from the bound;
// - where multipliers alone do not close the gap, one disputed arc is forced in one branch and barred
//   in the other, both starting from the same multipliers.
#pragma once

#include <math.h>
#include <stdint.h>

#include "block_trees.h"
#include "chu_liu_edmonds.h"
#include "head_automata.h"
#include "label_limits.h"

namespace gpuparse {

// The results of a search besides the tree.
struct Certificate {
    bool found = false;      // a tree without forbidden parts
    bool is_proven = false;  // no tree scores more; or there is none, if none was found
    int64_t iterations = 0;  // solutions of all sub-problems
    double score = 0.0;      // of the tree, of decoders of higher orders
};

class DualDecomposition {
public:
    DualDecomposition(const CrossingParts& parts, LabelLimits& limits, bool single_root)
        : parts_(parts), c_(parts.candidates), n_(c_.n), n_arcs_(c_.n_arcs), single_root_(single_root),
          automata_{parts}, limits_(limits), scorer_{parts} {}

    // heads: filled at 1..n if a tree is found. granularity: two scores are equal or differ by at
    // least this much; 0 if that is unknown. limits must have memory. Without memory the arena has
    // failed, and nothing is found.
    Certificate search(int64_t max_iterations, double granularity, Arena& arena, int64_t* heads) {
        if (n_ == 0) return {true, true, 0};
        heads_ = heads;
        if (!allocate(arena)) return {};
        const double largest = first_multipliers();
        const double slack = ROUNDING * largest * (double)(n_ + 1);
        double gain = slack;
        if (granularity > 0) gain = granularity - slack > slack ? granularity - slack : slack;
        // Open branches: what is known of the arcs there, the first multipliers, the bound.
        int8_t* states = arena.take<int8_t>(DEEPEST * n_arcs_);
        double* kept = arena.take<double>(DEEPEST * 3 * width_);
        double bounds[DEEPEST];
        if (arena.failed()) return {};
        memset(states, ARC_FREE, (size_t)n_arcs_);
        bounds[0] = (double)INFINITY;
        copy(multipliers_, kept);
        int64_t n_open = 1, iterations = 0;
        bool is_proven = true;
        double last_pace = LAST_PACE;
        while (n_open > 0) {
            if (arena.failed()) return {};
            n_open--;
            if (bounds[n_open] < best_ + gain) continue;
            if (iterations >= max_iterations) {
                is_proven = false;
                break;
            }
            memcpy(state_, states + n_open * n_arcs_, (size_t)n_arcs_);
            const double bound = bounds[n_open];
            copy(kept + n_open * 3 * width_, multipliers_);
            int64_t taken;
            const double met = descend(gain, last_pace, largest, max_iterations - iterations, &taken);
            iterations += taken;
            last_pace = LAST_PACE_IN_BRANCH;
            if (met == -(double)INFINITY) continue;
            const int64_t disputed = most_disputed();
            if (n_open + 2 > DEEPEST) {
                is_proven = false;
                continue;
            }
            const bool is_forced_last = shares_[disputed] < 0.5;  // so that the other one is next
            // If no arc is free, one tree is left, on which all agree in one more iteration.
            for (int64_t i = 0; i < (disputed > 0 ? 2 : 1); i++) {
                int8_t* state = states + n_open * n_arcs_;
                memcpy(state, state_, (size_t)n_arcs_);
                copy(best_multipliers_, kept + n_open * 3 * width_);
                bounds[n_open] = met < bound ? met : bound;
                if (disputed > 0) {
                    if ((i == 0) == is_forced_last)
                        force(disputed, state);
                    else
                        state[disputed] = ARC_BARRED;
                }
                n_open++;
            }
        }
        return {best_ > -(double)INFINITY, is_proven, iterations};
    }

private:
    static constexpr double FIRST_PACE = 0.5;  // of steps, as a part of the way to the best tree met
    static constexpr double LAST_PACE = 0.1, LAST_PACE_IN_BRANCH = 0.4;
    static constexpr int64_t PATIENCE = 4;  // iterations without a better bound: the pace is halved
    static constexpr int64_t PATIENCE_WITHOUT_A_TREE = 30;  // where nothing says how far to step
    static constexpr double MEMORY = 0.8;     // of the last direction in the next one
    static constexpr int64_t BAR_EVERY = 5;   // iterations
    static constexpr double FORGET = 0.2;     // of an arc's share in earlier solutions, with each new one
    static constexpr int64_t DEEPEST = 64;    // branches within branches
    static constexpr double ROUNDING = 1e-12; // of the largest part, for each word

    const CrossingParts& parts_;
    const Candidates& c_;
    const int64_t n_, n_arcs_;
    const bool single_root_;
    HeadAutomata automata_;
    LabelLimits& limits_;
    TreeScorer scorer_;
    SpanningTreeSearch<double> spanning_;
    int64_t width_ = 0;  // of multipliers: without grandparents automata have n + 1 columns, at 0
    // (3, width): the multipliers of an arc as a modifier, as the head of its modifier, with a label.
    double *multipliers_ = nullptr, *best_multipliers_ = nullptr, *direction_ = nullptr;
    double* shares_ = nullptr;  // (n_arcs,): how often an arc was chosen recently
    double* losses_ = nullptr;
    double* matrix_ = nullptr;  // of the spanning tree
    int64_t *tree_ = nullptr, *parent_ = nullptr, *repaired_ = nullptr;
    double* of_labels_ = nullptr;
    int8_t* state_ = nullptr;
    int64_t* heads_ = nullptr;           // the best tree
    double best_ = -(double)INFINITY;    // its score

    bool allocate(Arena& arena) {
        width_ = n_arcs_ > n_ + 1 ? n_arcs_ : n_ + 1;
        multipliers_ = arena.take_zeros<double>(3 * width_);
        best_multipliers_ = arena.take_zeros<double>(3 * width_);
        direction_ = arena.take_zeros<double>(3 * width_);
        shares_ = arena.take<double>(n_arcs_);
        losses_ = arena.take<double>(n_arcs_);
        matrix_ = arena.take_filled<double>((n_ + 1) * (n_ + 1), -(double)INFINITY);
        tree_ = arena.take_zeros<int64_t>(n_ + 1);
        parent_ = arena.take<int64_t>(2 * n_ + 2);
        repaired_ = arena.take_zeros<int64_t>(n_ + 1);
        of_labels_ = arena.take_zeros<double>(n_ + 1);
        state_ = arena.take<int8_t>(n_arcs_);
        return automata_.allocate(arena) && scorer_.tree.allocate(arena) && spanning_.allocate(n_, arena) &&
               !arena.failed();
    }

    double& matrix(int64_t a) { return matrix_[c_.head[a] * (n_ + 1) + c_.modifier[a]]; }

    void copy(const double* source, double* target) const {
        memcpy(target, source, (size_t)(3 * width_) * sizeof(double));
    }

    // The average score of an arc, shared evenly by all that choose it. Returns the largest part,
    // for the size of rounding errors.
    double first_multipliers() {
        const bool has_labels = limits_.has_labels();
        const int64_t n_choosers = 2 + parts_.has_grandparents + has_labels;
        double largest = 0.0;
        for (int64_t a = 1; a < n_arcs_; a++) {
            double total = 0.0;
            int64_t count = 0;
            for (int64_t i = parts_.blocks.start[a]; i < parts_.blocks.start[a + 1]; i++) {
                const double score = parts_.blocks.data[i];
                if (!(score > -(double)INFINITY)) continue;
                total += score;
                count++;
                if (fabs(score) > largest) largest = fabs(score);
            }
            const double end = parts_.ends[a];
            if (end > -(double)INFINITY && fabs(end) > largest) largest = fabs(end);
            const double mean = count > 0 ? total / (double)count : 0.0;
            double of_label = 0.0;
            if (has_labels) {
                of_label = limits_.best_label(a);
                of_label = of_label > -(double)INFINITY ? of_label : 0.0;
                if (fabs(of_label) > largest) largest = fabs(of_label);
            }
            const double share = (mean + of_label) / (double)n_choosers;
            multipliers_[a] = mean - share;
            if (parts_.has_grandparents) multipliers_[width_ + a] = -share;
            if (has_labels) multipliers_[2 * width_ + a] = of_label - share;
        }
        return largest;
    }

    // Force the arc a, and bar all others of its modifier.
    void force(int64_t a, int8_t* state) const {
        const int64_t m = c_.modifier[a];
        for (int64_t other = c_.first[m]; other < c_.first[m + 1]; other++) state[other] = ARC_BARRED;
        state[a] = ARC_FORCED;
    }

    // Bar the arcs that lose at least the margin; whether each word has an arc left.
    bool bar_losers(double margin) {
        for (int64_t m = 1; m <= n_; m++) {
            int64_t n_left = 0, last = 0;
            for (int64_t a = c_.first[m]; a < c_.first[m + 1]; a++) {
                if (state_[a] == ARC_BARRED) continue;
                if (losses_[a] >= margin) {
                    state_[a] = ARC_BARRED;
                } else {
                    n_left++;
                    last = a;
                }
            }
            if (n_left == 0) return false;
            if (n_left == 1) state_[last] = ARC_FORCED;
        }
        return true;
    }

    // Add to the losses what the spanning tree found last loses at least with each arc: the scores of
    // all sets that the arc enters, less its own (chu_liu_edmonds_kbest.h says why).
    void add_reduced_costs() {
        for (int64_t k = 0; k < spanning_.made; k++) parent_[k] = 0;
        for (int64_t k = n_ + 1; k < spanning_.made; k++)
            for (int64_t i = spanning_.bounds[k]; i < spanning_.bounds[k + 1]; i++)
                parent_[spanning_.members[i]] = k;
        for (int64_t m = 1; m <= n_; m++)
            for (int64_t a = c_.first[m]; a < c_.first[m + 1]; a++) {
                const int64_t h = c_.head[a];
                if (matrix(a) == -(double)INFINITY) continue;
                double cost = -matrix(a);
                for (int64_t k = m; k > 0; k = parent_[k]) {  // up to the smallest set that holds h too
                    int64_t over = h;
                    while (over > 0 && over < k) over = parent_[over];
                    if (over == k) break;
                    cost += spanning_.best[k];
                }
                losses_[a] += cost > 0.0 ? cost : 0.0;
            }
    }

    bool find_spanning_tree() {
        return spanning_.search(View2<const double>{matrix_, n_ + 1}, n_, single_root_, tree_);
    }

    // Solve all sub-problems. Returns the sum of their scores, a bound; -inf if one has no solution.
    double solve() {
        for (int64_t a = 1; a < n_arcs_; a++) {
            double score = multipliers_[a] + multipliers_[2 * width_ + a];
            score += parts_.has_grandparents ? multipliers_[width_ + a] : 0.0;
            matrix(a) = state_[a] == ARC_BARRED ? -(double)INFINITY : score;
        }
        if (!find_spanning_tree()) return -(double)INFINITY;
        double bound = 0.0;
        for (int64_t m = 1; m <= n_; m++) bound += matrix_[tree_[m] * (n_ + 1) + m];
        if (!automata_.solve(state_, multipliers_, multipliers_ + width_)) return -(double)INFINITY;
        bound += automata_.trace(state_);
        if (limits_.has_labels())
            bound += limits_.solve(c_, automata_.chain, state_, multipliers_ + 2 * width_);
        return bound;
    }

    // Improve the spanning tree found last, and keep it if it is the best one.
    void try_tree() {
        if (scorer_.score(tree_) == -(double)INFINITY) return;
        for (int64_t m = 1; m <= n_; m++) repaired_[m] = tree_[m];
        const double score = climb_block_tree(scorer_, single_root_, limits_, of_labels_, repaired_);
        if (score > best_) {
            best_ = score;
            for (int64_t m = 1; m <= n_; m++) heads_[m] = repaired_[m];
        }
    }

    // True if the spanning tree found last scores more than the best one.
    bool is_better() {
        double score = scorer_.score(tree_);
        if (limits_.has_labels() && score > -(double)INFINITY)
            for (int64_t h = 0; h <= n_; h++) score += limits_.label_head(c_, tree_, h);
        return score > best_;
    }

    // Turn the direction by the arcs that the tree has and a chooser has not, and vice versa. Returns
    // the number of disagreements.
    double turn() {
        const bool has_labels = limits_.has_labels(), has_grandparents = parts_.has_grandparents;
        const double n_choosers = 2.0 + has_grandparents + has_labels;
        double norm = 0.0;
        const auto disagree = [&](int64_t a, int64_t chooser, double in_tree, double is_chosen) {
            const double apart = in_tree - is_chosen;
            double& of_arc = direction_[chooser * width_ + a];
            of_arc = MEMORY * of_arc + apart;
            norm += apart * apart;
        };
        for (int64_t a = 1; a < n_arcs_; a++) {
            const double in_tree = tree_[c_.modifier[a]] == c_.head[a] ? 1.0 : 0.0;
            disagree(a, 0, in_tree, automata_.as_modifiers[a]);
            double choices = in_tree + automata_.as_modifiers[a];
            if (has_grandparents) {
                disagree(a, 1, in_tree, automata_.as_heads[a]);
                choices += automata_.as_heads[a];
            }
            if (has_labels) {
                disagree(a, 2, in_tree, limits_.as_labelled[a]);
                choices += limits_.as_labelled[a];
            }
            shares_[a] += FORGET * (choices / n_choosers - shares_[a]);
        }
        return norm;
    }

    // The spanning tree of the arcs that were chosen most often recently; whether there is one.
    bool find_consensus() {
        for (int64_t a = 1; a < n_arcs_; a++)
            if (state_[a] != ARC_BARRED) matrix(a) = shares_[a];
        return find_spanning_tree();
    }

    void reset_direction() {
        for (int64_t i = 0; i < 3 * width_; i++) direction_[i] = 0.0;
    }

    // Descend in one branch until its bound says that it has nothing better, or progress is slow.
    // gain: what a better tree must score more than the best one; last_pace: to give up at; most:
    // iterations. Returns the bound, -inf if there is nothing better.
    double descend(double gain, double last_pace, double largest, int64_t most, int64_t* iterations) {
        copy(multipliers_, best_multipliers_);
        reset_direction();
        for (int64_t a = 0; a < n_arcs_; a++) shares_[a] = 0.5;
        double bound = (double)INFINITY, pace = FIRST_PACE;
        int64_t stalled = 0;
        for (int64_t iteration = 1; iteration <= most; iteration++) {
            *iterations = iteration;
            if (is_interrupted(100 * n_arcs_)) return -(double)INFINITY;
            const double met = solve();
            if (met == -(double)INFINITY) return met;
            if (is_better()) try_tree();
            const double norm = turn();
            stalled++;
            if (met < bound) {
                bound = met;
                stalled = 0;
                copy(multipliers_, best_multipliers_);
            }
            if (norm == 0.0 || bound < best_ + gain) return -(double)INFINITY;
            if (iteration % BAR_EVERY == 1) {
                automata_.fill_losses(state_, multipliers_, multipliers_ + width_, losses_);
                add_reduced_costs();
                if (!bar_losers(met - best_ - gain)) return -(double)INFINITY;
            }
            if (best_ == -(double)INFINITY && iteration >= PATIENCE_WITHOUT_A_TREE)
                return bound;  // it may fall for ever
            if (stalled >= PATIENCE) {
                pace = 0.5 * pace;
                stalled = 0;
                copy(best_multipliers_, multipliers_);
                reset_direction();
                if (find_consensus()) try_tree();
                if (pace < last_pace) return bound;
                continue;
            }
            const double aim = best_ > -(double)INFINITY ? best_ : met - 0.1 * largest;
            const double step = pace * (met - aim) / norm;
            for (int64_t i = 0; i < 3; i++)
                for (int64_t a = 0; a < n_arcs_; a++)
                    multipliers_[i * width_ + a] -= step * direction_[i * width_ + a];
        }
        *iterations = most;
        return bound;
    }

    // The arc about which the sub-problems disagreed most recently, 0 if none is free.
    int64_t most_disputed() const {
        int64_t disputed = 0;
        double most = -1.0;
        for (int64_t a = 1; a < n_arcs_; a++) {
            if (state_[a] != ARC_FREE) continue;
            const double dispute = shares_[a] < 1.0 - shares_[a] ? shares_[a] : 1.0 - shares_[a];
            if (dispute > most) {
                disputed = a;
                most = dispute;
            }
        }
        return disputed;
    }
};

// The best tree of one sentence, crossing arcs allowed, or a good one; heads: filled at 1..n if one is
// found. limits: on labels, which have scores too, masks and scores, or none; classes (n + 1,): with
// labels, filled at 1..n with their classes. max_iterations: solutions of all sub-problems;
// granularity: two scores of trees are equal or differ by at least this much: 1 for whole scores, 0 if
// unknown. Without memory the arena has failed.
inline Certificate dual_decomposition_sentence(const CrossingParts& parts, LabelLimits limits,
                                               bool single_root, int64_t max_iterations,
                                               double granularity, Arena& arena, int64_t* heads,
                                               int64_t* classes) {
    ArenaMark mark(arena);
    const Candidates& c = parts.candidates;
    if (!limits.allocate(c.n_arcs, c.n, arena)) return {};
    DualDecomposition search(parts, limits, single_root);
    const Certificate certificate = search.search(max_iterations, granularity, arena, heads);
    if (certificate.found && limits.has_labels()) {
        limits.label_tree(c, heads);
        for (int64_t m = 1; m <= c.n; m++) classes[m] = limits.classes[m];
    }
    return certificate;
}

}  // namespace gpuparse
