// Labels of finished trees and graphs: for every arc, the label with the highest score.
//
// A label template sees one arc and the words around it in the tree; its key is a hash of all values
// that it reads, and finds a line of weights, one weight per label.
#pragma once
#include <math.h>

#include "api/parsing.h"
#include "arc_scores.h"
#include "checks.h"

namespace gpuparse {

enum LabelRole : int64_t {
    OF_HEAD, OF_MODIFIER, OF_GRANDPARENT, OF_BEFORE, OF_AFTER, OF_LEFTMOST, OF_RIGHTMOST, OF_OTHER,
    LABEL_ROLES
};
constexpr int64_t ARCS_SCORED = 64;  // by word vectors together, at least
constexpr int64_t NO_NODE = -1;  // node of a role that a tree does not fill
constexpr int32_t NO_NODE_VALUE = 3;  // value read there: that of the edge after the last word

// Nodes of all roles for every word of a tree. heads: by node, heads[1..n].
struct LabelPositions {
    int64_t* nodes;  // (n + 1, LABEL_ROLES)

    int64_t* of(int64_t m) const { return nodes + m * LABEL_ROLES; }

    // False: no memory.
    bool fill(const int64_t* heads, int64_t n, Arena& arena) {
        nodes = arena.take_filled<int64_t>((n + 1) * LABEL_ROLES, NO_NODE);
        if (!nodes) return false;
        for (int64_t m = 1; m <= n; ++m) {
            const int64_t h = heads[m];
            if (h < 0 || h > n) continue;  // no head: all nodes are missing
            of(m)[OF_HEAD] = h;
            of(m)[OF_MODIFIER] = m;
            if (h > 0 && heads[h] >= 0 && heads[h] <= n) of(m)[OF_GRANDPARENT] = heads[h];
            // Going right, the rightmost modifier of h so far is the one just before m.
            const int64_t previous = of(h)[OF_RIGHTMOST];
            if (previous == NO_NODE) {
                of(h)[OF_LEFTMOST] = m;
            } else {
                of(m)[OF_BEFORE] = previous;
                of(previous)[OF_AFTER] = m;
            }
            of(h)[OF_RIGHTMOST] = m;
        }
        return true;
    }

    // Make row m, as `fill` or another arc into m left it, that of the arc h -> m. heads: the tree of
    // primary heads. A word with one head keeps its row: its label is that of the tree.
    void turn_to_arc(const int64_t* heads, int64_t n, int64_t h, int64_t m) {
        int64_t* row = of(m);
        if (row[OF_HEAD] == h) return;
        row[OF_HEAD] = h;
        row[OF_GRANDPARENT] = h > 0 ? heads[h] : NO_NODE;
        row[OF_OTHER] = heads[m] != h ? heads[m] : NO_NODE;
        int64_t before = m - 1, after = m + 1;
        while (before > 0 && heads[before] != h) --before;
        while (after <= n && heads[after] != h) ++after;
        row[OF_BEFORE] = before > 0 ? before : NO_NODE;
        row[OF_AFTER] = after <= n ? after : NO_NODE;
    }
};

inline bool label_plan_fits(const LabelPlan& plan, const Sentences& sentences) {
    const int64_t templates = plan.direction.n0, atoms = plan.role.n0;
    ModelChecker checker{sentences.values};
    if (plan.distance.n0 != templates || plan.start.n0 != templates + 1 || plan.buckets.n0 < 1 ||
        !are_starts(plan.start, atoms) || plan.row.n0 != atoms || plan.offset.n0 != atoms ||
        !are_between(0, plan.role, LABEL_ROLES))
        return false;
    for (int64_t a = 0; a < atoms; ++a)
        if (!checker.fits_atom(plan.row.data[a], plan.offset.data[a])) return false;
    return checker.fit_sentences(sentences);
}

// True if a plan, weights and word vectors fit a batch, heads are by token, and there is a number for
// every token, or for every arc of graphs whose arcs lie in their sentences.
template<class Weights>
bool arcs_fit(const Sentences& sentences, const LabelPlan& plan, const Weights& weights,
              const WordVectors* vectors, const i64_1& heads, const GraphHeads* graphs, int64_t size) {
    const int64_t width = weights.n1;
    if (!vectors_fit(vectors, sentences, nullptr) || !kept_fit(vectors, sentences) ||
        (has_labels(vectors) && vectors->label_constants.n0 < width))
        return false;
    if (!label_plan_fits(plan, sentences) || !are_by_token(sentences, heads.n0) ||
        weights.n0 < 1 || width < 1)
        return false;
    if (!graphs) return size == heads.n0;
    if (graphs->heads.n0 != size || graphs->starts.n0 != heads.n0 + 1 ||
        !are_starts(graphs->starts, size) || graphs->may_be_primary.n0 != width)
        return false;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        const int64_t* starts = graphs->starts.data + start;
        if (!are_heads(heads.data + start, n, true)) return false;
        for (int64_t a = starts[1]; a < starts[n + 1]; ++a)
            if (!is_between(0, graphs->heads.data[a], n + 1)) return false;
    }
    return true;
}

// The arcs of finished trees, or of graphs if there are any. heads: by token.
struct TreeArcs {
    const i64_1& heads;
    const GraphHeads* graphs;

    // Call visit(h, a) for every arc into a token's word. a: the token in a tree, the number of the arc in a
    // graph.
    template<class Visit>
    void for_heads(int64_t token, Visit visit) const {
        if (!graphs) return visit(heads.data[token], token);
        for (int64_t a = graphs->starts.data[token]; a < graphs->starts.data[token + 1]; ++a)
            visit(graphs->heads.data[a], a);
    }

    // Heads of the word that has most.
    int64_t most_heads() const {
        int64_t most = 1;
        for (int64_t token = 0; graphs && token < heads.n0; ++token) {
            const int64_t count = graphs->starts.data[token + 1] - graphs->starts.data[token];
            most = count > most ? count : most;
        }
        return most;
    }
};

// Call visit(sentence, a, nodes) for every arc, with the nodes of all roles. Returns OK or NO_MEMORY.
template<class Visit>
int64_t for_arcs(const Sentences& sentences, const TreeArcs& arcs, Visit visit) {
    const int64_t result = for_sentences(sentences, [&](const Sentence& sentence, Arena& arena) {
        const int64_t* of_words = arcs.heads.data + sentence.start;
        LabelPositions positions;
        if (!positions.fill(of_words, sentence.n, arena)) return false;
        for (int64_t m = 1; m <= sentence.n; ++m)
            arcs.for_heads(sentence.start + m, [&](int64_t h, int64_t a) {
                if (arcs.graphs) positions.turn_to_arc(of_words, sentence.n, h, m);
                visit(sentence, a, positions.of(m));
            });
        return true;
    });
    return result == NO_FAILURE ? (int64_t)OK : result;
}

// Fill lines[f] with the first weight of the line of each feature of an arc, -1 for one that does not
// fire. nodes: of the arc; width: labels.
inline void fill_label_lines(const Sentence& sentence, const LabelPlan& plan, int64_t n_lines,
                             int64_t width, const int64_t* nodes, int64_t* lines) {
    const int64_t h = nodes[OF_HEAD], m = nodes[OF_MODIFIER];
    int64_t at = (h < m ? m - h : h - m) - 1;
    if (at < 0) at = 0;
    if (at > plan.buckets.n0 - 1) at = plan.buckets.n0 - 1;
    const int64_t bucket = plan.buckets.data[at];
    for (int64_t f = 0; f < plan.direction.n0; ++f) {
        uint32_t key = 0;
        bool on = true;
        for (int64_t a = plan.start.data[f]; a < plan.start.data[f + 1]; ++a) {
            const int64_t node = nodes[plan.role.data[a]];
            int32_t value = NO_NODE_VALUE;
            if (node != NO_NODE) value = sentence.row(plan.row.data[a])[node + plan.offset.data[a]];
            on &= value != 0;
            key = fold(key, (uint32_t)value);
        }
        if (plan.direction.data[f]) key = fold(key, h < m);
        if (plan.distance.data[f]) key = fold(key, (uint32_t)bucket);
        key = mix(key, (uint32_t)(f + 1));
        lines[f] = on ? (int64_t)(((uint64_t)key * (uint64_t)n_lines) >> 32) * width : -1;
    }
}

// The tables that score labels of arcs, and the scores of one arc.
template<class W>
struct LabelScorer {
    const LabelPlan& plan;
    const W* weights;  // (n_lines, width)
    int64_t n_lines, width;
    int64_t* lines;    // (templates,): of the arc, -1 for a template that does not fire
    int64_t* next;     // (templates,): of the arc that is scored after it
    Sum<W>* sums;      // (width,)
    ArcLabelVectors* vectors = nullptr;  // of the sentence that is read; NULL: none
    const TreeArcs* arcs = nullptr;   // of all sentences
    int64_t b = 0, node = 0;          // its number, and that of its root among all nodes
    int64_t word = 1, n_found = 0;    // the first whose arcs are not scored; arcs found since scoring
    bool is_read = false;             // whether one is
    Sum<W>* of_vectors = nullptr;     // (width,) and more: what vectors add to the arc's sums
    Sum<W>* next_vectors = nullptr;   // of the arc that is scored after it
    Sentences kept{};                 // whose vectors may be there already
    bool has_margin = false;          // whether templates score only what vectors leave open
    Sum<W> margin = 0;                // least score of an open label below the best

    LabelScorer(const LabelPlan& plan, const W* weights, int64_t n_lines, int64_t width, Arena& arena)
        : plan(plan), weights(weights), n_lines(n_lines), width(width),
          lines(arena.take<int64_t>(plan.direction.n0)), next(arena.take<int64_t>(plan.direction.n0)),
          sums(arena.take<Sum<W>>(width)) {}

    // Add what word vectors score, if they score labels. all: the arcs, each of which is found once, in this
    // order. Where memory runs out, the arena has failed.
    void add_vectors(const WordVectors* from, const Sentences& sentences, const TreeArcs& all, Arena& arena) {
        if (!has_labels(from)) return;
        kept = sentences;
        arcs = &all;
        SentenceVectors* nodes = make_vectors(sentences, from, arena);
        if (!nodes) return;
        of_vectors = arena.take_zeros<Sum<W>>(from->label_constants.n0);
        next_vectors = arena.take_zeros<Sum<W>>(from->label_constants.n0);
        vectors = ArcLabelVectors::make(nodes, ARCS_SCORED + all.most_heads(), arena);
        has_margin = from->label_margin >= 0;
        if (has_margin) margin = (Sum<W>)label_unit(*from).points((int32_t)from->label_margin);
    }

    // Find the lines of an arc and prefetch them, to be summed after `turn`.
    void find(const Sentence& sentence, const int64_t* nodes) {
        if (vectors) score_vectors(sentence, nodes);
        if (!is_open(nodes)) {
            for (int64_t f = 0; f < plan.direction.n0; ++f) next[f] = -1;
            return;
        }
        fill_label_lines(sentence, plan, n_lines, width, nodes, next);
        constexpr int64_t step = 64 / (int64_t)sizeof(W);  // weights of a cache line
        for (int64_t f = 0; f < plan.direction.n0; ++f) {
            if (next[f] < 0) continue;
            const W* const line = weights + next[f];
            for (int64_t label = 0; label < width; label += step) __builtin_prefetch(line + label);
            __builtin_prefetch(line + width - 1);
        }
    }

    // The arc found last becomes the one that `sum` scores.
    void turn() {
        int64_t* const found = next;
        next = lines;
        lines = found;
        Sum<W>* const of_next = next_vectors;
        next_vectors = of_vectors;
        of_vectors = of_next;
    }

    // Sum the lines of an arc.
    void sum() {
        Sum<W>* __restrict total = sums;
        for (int64_t label = 0; label < width; ++label) total[label] = 0;
        for (int64_t f = 0; f < plan.direction.n0; ++f) {
            if (lines[f] < 0) continue;
            const W* __restrict line = weights + lines[f];
            for (int64_t label = 0; label < width; ++label) total[label] += line[label];
        }
        for (int64_t label = 0; vectors && label < width; ++label) total[label] += of_vectors[label];
    }

    void score(const Sentence& sentence, const int64_t* nodes) {
        find(sentence, nodes);
        turn();
        sum();
    }

private:
    // True if vectors leave the label of the arc found next to templates; the best of these scores is 0.
    bool is_open(const int64_t* nodes) const {
        if (!has_margin || nodes[OF_HEAD] < 0) return true;
        int64_t n_open = 0;
        for (int64_t label = 0; label < width; ++label) n_open += next_vectors[label] >= -margin;
        return n_open > 1;
    }
    void score_vectors(const Sentence& sentence, const int64_t* nodes) {
        if (!is_read || b != sentence.b) {
            for (; b < sentence.b; ++b) node += kept.lengths.data[b] + 1;
            if (kept.vectors.n0)
                vectors->nodes->take_labels(sentence, kept.vectors.data + node * kept.vectors.n1);
            else
                vectors->nodes->fill(sentence, true);
            vectors->n_arcs = n_found = 0;
            word = 1;
            is_read = true;
        }
        if (nodes[OF_HEAD] >= 0) {
            if (n_found == vectors->n_arcs) score_arcs(sentence);
            vectors->fill(n_found++, next_vectors);
            return;
        }
        for (int64_t label = 0; label < width; ++label) next_vectors[label] = 0;
    }
    // Score the arcs of the next words of a sentence together.
    void score_arcs(const Sentence& sentence) {
        vectors->n_arcs = n_found = 0;
        for (; word <= sentence.n && vectors->n_arcs < ARCS_SCORED; ++word)
            arcs->for_heads(sentence.start + word, [&](int64_t h, int64_t) {
                if (is_between(0, h, sentence.n + 1)) vectors->list(h, word);
            });
        vectors->score();
    }
};

// Call visit(a, is_second) for every arc of `for_arcs`, with its scores in scorer.sums. is_second: whether
// its modifier has another, primary head. The next arc's lines are prefetched while one arc is summed.
template<class W, class Visit>
int64_t for_scored_arcs(const Sentences& sentences, const TreeArcs& arcs, LabelScorer<W>& scorer,
                        Visit visit) {
    int64_t found = -1;
    bool is_second = false;
    auto finish = [&] {
        if (found < 0) return;
        scorer.sum();
        visit(found, is_second);
    };
    const int64_t status = for_arcs(
        sentences, arcs, [&](const Sentence& sentence, int64_t a, const int64_t* nodes) {
            scorer.find(sentence, nodes);
            finish();
            scorer.turn();
            found = a;
            is_second = nodes[OF_OTHER] != NO_NODE;
        });
    if (status == OK) finish();
    return status;
}

// The first of the labels with a sum, which one of them has.
template<class S>
int64_t first_with(const S* sums, S sum) {
    int64_t label = 0;
    while (sums[label] != sum) ++label;
    return label;
}
inline int64_t first_with(const int32_t* sums, int32_t sum) {
    Sums label;
    for (int32_t k = 0; k < (int32_t)Lanes<int32_t>::count; ++k) label[k] = k;
    for (;; sums += Lanes<int32_t>::count, label += splat((int32_t)Lanes<int32_t>::count)) {
        const int32_t found = largest_lane(load(sums) == splat(sum) ? -label : splat(INT32_MIN));
        if (found > INT32_MIN) return -found;
    }
}

// The first of the labels with the highest sum.
template<class S>
int64_t first_best(const S* sums, int64_t width) {
    S most = sums[0];
    for (int64_t label = 1; label < width; ++label) most = sums[label] > most ? sums[label] : most;
    return most == most ? first_with(sums, most) : 0;
}

// The permitted label with the highest sum, the first of equals, `left_out` not counted; -1 for none.
template<class S>
int64_t best_permitted(const S* sums, int64_t width, const uint8_t* permitted, int64_t left_out) {
    int64_t best = -1;
    for (int64_t label = 0; label < width; ++label)
        if (permitted[label] && label != left_out && (best < 0 || sums[label] > sums[best]))
            best = label;
    return best;
}

// log of the sum over labels of exp(scale * (sums - top)), top the largest sum. Smaller terms than
// exp(-40) are lost among the rounding errors of a sum of at least 1.
template<class S>
double log_excess(const S* sums, int64_t width, double top, double scale) {
    double total = 0.0;
    for (int64_t label = 0; label < width; ++label) {
        const double below = scale * ((double)sums[label] - top);
        if (below > -40.0) total += exp(below);
    }
    return log(total);
}

// The probability of one label of an arc.
template<class S>
double label_probability(const S* sums, int64_t width, int64_t label, double scale) {
    double top = sums[0];
    for (int64_t other = 1; other < width; ++other)
        if ((double)sums[other] > top) top = sums[other];
    return exp(scale * ((double)sums[label] - top) - log_excess(sums, width, top, scale));
}

}  // namespace gpuparse
