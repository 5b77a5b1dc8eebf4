// Word vectors that are learned: float32 scores of arcs, siblings and labels, gradients of a loss, steps.
//
// Scores of arcs follow Lei, Xin, Zhang, Barzilay & Jaakkola (2014) and Dozat & Manning (2017); the
// hidden layer Kiperwasser & Goldberg (2016). Sums are added in the same order on every machine.
#pragma once
#include "arena.h"
#include "exact_trees.h"
#include "pair_trees.h"
#include "random.h"
#include "sentence_scores.h"
#include "vector_exp.h"
#include "vector_lines.h"
#include "vector_rows.h"
#include "vector_steps.h"

namespace gpuparse {

enum VectorLoss : int64_t { VECTOR_HINGE, VECTOR_CONDITIONAL };

constexpr double LEAST_VECTOR_COEFFICIENT = 1e-5;  // an arc or label with a smaller one is left out
constexpr int64_t MOST_GRAND_WORDS = 80;  // of a sentence whose grandparents are learned from

// Scores and gradients of the pair (h, m) by one row of weights: a product of three vectors, one term
// of each word, a constant.
struct PairTerms {
    int64_t size;

    float score(const float* row, const float* u, const float* v) const {
        FloatLine product = {}, of_head = {}, of_modifier = {};
        for (int64_t k = 0; k < size; k += LINE_FLOATS) {
            const int64_t count = size - k;
            const FloatLine head = load_floats(u + k, count), modifier = load_floats(v + k, count);
            product += load_floats(row + k, count) * head * modifier;
            of_head += load_floats(row + size + k, count) * head;
            of_modifier += load_floats(row + 2 * size + k, count) * modifier;
        }
        return fold_floats(product) + fold_floats(of_head) + fold_floats(of_modifier) + row[3 * size];
    }

    // Add x times the gradient of the score.
    void add_gradient(float x, const float* __restrict row, const float* __restrict u,
                      const float* __restrict v, float* __restrict of_row, float* __restrict of_u,
                      float* __restrict of_v) const {
        for (int64_t k = 0; k < size; k++) {
            of_u[k] += x * (row[k] * v[k] + row[size + k]);
            of_v[k] += x * (row[k] * u[k] + row[2 * size + k]);
            of_row[k] += x * (u[k] * v[k]);
            of_row[size + k] += x * u[k];
            of_row[2 * size + k] += x * v[k];
        }
        of_row[3 * size] += x;
    }
};

// A kind of pairs: the first of its columns, where its rows begin, and the terms of a row.
struct VectorPairKind {
    int64_t column, rows;
    PairTerms terms;

    int64_t row(int64_t c) const { return rows + c * (3 * terms.size + 1); }
};

// Where the weights are that every word shares: the bias of the table's sums, the two matrices, one row
// for each combination of direction and distance of each kind of pairs, one for each label, one for
// each combination of direction, occurrence and value of words in between; all in one array.
struct VectorLayout {
    int64_t hidden, arc, label, labels, combinations, betweens;
    VectorPairKind pairs[PAIR_KINDS];
    int64_t first_label;  // of the columns
    int64_t columns;    // of the vectors that are multiplied: of each kind of pairs, then of labels
    int64_t width;      // of a row of the table: what a node has as head, then as modifier
    int64_t label_row, between_row;
    int64_t heads, modifiers, of_labels, of_betweens, size;

    VectorLayout(const VectorSizes& sizes, int64_t n_buckets)
        : hidden(sizes.hidden), arc(sizes.arc), label(sizes.label), labels(sizes.n_labels),
          combinations(2 * n_buckets), betweens(sizes.n_between), first_label(0) {
        const int64_t of_pairs[PAIR_KINDS] = {sizes.arc, sizes.sibling, sizes.grandparent};
        for (int64_t kind = 0; kind < PAIR_KINDS; kind++) {
            pairs[kind] = {first_label, 0, {of_pairs[kind]}};
            first_label += of_pairs[kind];
        }
        columns = first_label + label;
        width = 2 * (hidden ? hidden : columns);
        label_row = 3 * label + 1;
        between_row = 2 * arc + 1;
        heads = width;
        modifiers = heads + hidden * columns;
        of_labels = modifiers + hidden * columns;
        for (VectorPairKind& kind : pairs) {
            kind.rows = of_labels;
            if (kind.terms.size) of_labels = kind.row(combinations);
        }
        of_betweens = of_labels + labels * label_row;
        size = of_betweens + 2 * OCCURRENCES * betweens * between_row;
    }
};

// The nodes of some sentences: what they are as heads and as modifiers, and the gradients of it.
struct NodeVectors {
    float* sums;        // (nodes, width): of the table's rows and the bias, not below 0 with a hidden layer
    float* as_head;     // rows of `columns`, `stride` apart
    float* as_modifier;
    int64_t stride;
    float* head_gradients;      // (nodes, columns)
    float* modifier_gradients;
};

// Scores of a batch by weights that are learned.
struct VectorScorer {
    const Sentences& sentences;
    const VectorPlan& plan;
    const VectorLayout layout;
    const VectorTables& tables;

    const float* dense(int64_t at) const { return tables.dense.data + at; }

    int64_t combination(int64_t h, int64_t m) const {
        const int64_t distance = (h < m ? m - h : h - m) - 1, last = plan.buckets.n0 - 1;
        const int64_t bucket = plan.buckets.data[distance < last ? distance : last];
        return h < m ? bucket : plan.n_buckets + bucket;
    }
    PairTerms label_terms() const { return {layout.label}; }
    const float* label_row(int64_t l) const { return dense(layout.of_labels + l * layout.label_row); }

    int64_t row_of(int64_t k, int64_t token) const {
        return vector_row(plan, sentences.values, k, token, tables.table.n0);
    }

    int64_t count_nodes() const {
        int64_t nodes = 0;
        for (int64_t b = 0; b < sentences.starts.n0; b++) nodes += sentences.lengths.data[b] + 1;
        return nodes;
    }

    // Fill the sum of a node's rows and the bias. kept: (K,), which rows count; scale: of the rows' sum.
    void sum_rows(int64_t token, const uint8_t* kept, float scale, float* __restrict sum) const {
        const int64_t width = layout.width;
        memset(sum, 0, (size_t)width * sizeof(float));
        for (int64_t k = 0; k < plan.rows.n0; k++) {
            const int64_t row = row_of(k, token);
            if (row < 0 || !kept[k]) continue;
            const float* __restrict vector = tables.table.data + row * width;
            for (int64_t j = 0; j < width; j++) sum[j] += vector[j];
        }
        const float* __restrict bias = dense(0);
        for (int64_t j = 0; j < width; j++) sum[j] = sum[j] * scale + bias[j];
        if (layout.hidden == 0) return;
        for (int64_t j = 0; j < width; j++) sum[j] = sum[j] > 0.0f ? sum[j] : 0.0f;
    }

    // Fill both vectors of all nodes from their sums. False: no memory.
    bool project(int64_t nodes, NodeVectors& vectors, Arena& arena) const {
        const int64_t hidden = layout.hidden, columns = layout.columns, width = layout.width;
        if (hidden == 0) {
            vectors.as_head = vectors.sums;
            vectors.as_modifier = vectors.sums + columns;
            vectors.stride = width;
            return true;
        }
        vectors.stride = columns;
        vectors.as_head = arena.take_zeros<float>(nodes * columns);
        vectors.as_modifier = arena.take_zeros<float>(nodes * columns);
        if (arena.failed()) return false;
        add_product({vectors.sums, width, 1}, dense(layout.heads), columns, vectors.as_head, columns,
                    nodes, hidden, columns);
        add_product({vectors.sums + hidden, width, 1}, dense(layout.modifiers), columns,
                    vectors.as_modifier, columns, nodes, hidden, columns);
        return true;
    }

    const float* between_row(int64_t number) const {
        return dense(layout.of_betweens + number * layout.between_row);
    }
    const int32_t* between_values(const Sentence& sentence) const {
        return sentences.values.data + plan.between_row * sentences.values.n1 + sentence.start;
    }

    // Fill scores(0..n, 1..n) of all arcs of a sentence but the diagonal; its nodes: from `first` on.
    // False: no memory.
    bool score_arcs(const NodeVectors& vectors, int64_t first, const Sentence& sentence, Arena& arena,
                    View2<double> scores) const {
        return score_pairs(layout.pairs[ARC_PAIRS], vectors, first, sentence.n, arena, scores) &&
               (layout.betweens == 0 || add_between(vectors, first, sentence, arena, scores));
    }

    // Fill scores(0..n, 1..n) of all pairs but the diagonal of the nodes from `first` on. False: no
    // memory.
    bool score_pairs(const VectorPairKind& kind, const NodeVectors& vectors, int64_t first, int64_t n,
                     Arena& arena, View2<double> scores) const {
        ArenaMark mark(arena);
        const int64_t size = kind.terms.size, count = layout.combinations;
        const float* as_head = vectors.as_head + first * vectors.stride + kind.column;
        const float* as_modifier = vectors.as_modifier + first * vectors.stride + kind.column;
        float* of_modifiers = arena.take<float>((n + 1) * count);
        float* weighted = arena.take<float>(count * size);
        float* of_head = arena.take<float>(count);
        if (arena.failed()) return false;
        for (int64_t m = 1; m <= n; m++) {
            const float* v = as_modifier + m * vectors.stride;
            for (int64_t c = 0; c < count; c++)
                of_modifiers[m * count + c] = dot_floats(dense(kind.row(c)) + 2 * size, v, size);
        }
        for (int64_t h = 0; h <= n; h++) {
            const float* u = as_head + h * vectors.stride;
            for (int64_t c = 0; c < count; c++) {
                const float* row = dense(kind.row(c));
                for (int64_t k = 0; k < size; k++) weighted[c * size + k] = row[k] * u[k];
                of_head[c] = dot_floats(row + size, u, size);
            }
            for (int64_t m = 1; m <= n; m++) {
                if (m == h) continue;
                const int64_t c = combination(h, m);
                const float* v = as_modifier + m * vectors.stride;
                const float product = dot_floats(weighted + c * size, v, size);
                const float constant = dense(kind.row(c))[3 * size];
                scores(h, m) = product + of_head[c] + of_modifiers[m * count + c] + constant;
            }
        }
        return true;
    }

    // Add what words in between do. False: no memory.
    bool add_between(const NodeVectors& vectors, int64_t first, const Sentence& sentence, Arena& arena,
                     View2<double> scores) const {
        const int64_t nodes = sentence.n + 1, size = layout.arc;
        WordsBetween words;
        if (!words.find(plan, between_values(sentence), sentence.n, arena)) return false;
        const int64_t sums = 2 * OCCURRENCES * words.count * nodes + LINE_FLOATS;
        float* of_heads = arena.take<float>(sums);
        float* of_modifiers = arena.take<float>(sums);
        if (arena.failed()) return false;
        words.for_combinations(layout.betweens, [&](int64_t k, int64_t number) {
            const float* row = between_row(number);
            for (int64_t i = 0; i < nodes; i++) {
                const int64_t node = (first + i) * vectors.stride;
                of_heads[k * nodes + i] = dot_floats(row, vectors.as_head + node, size) + row[2 * size];
                of_modifiers[k * nodes + i] = dot_floats(row + size, vectors.as_modifier + node, size);
            }
        });
        const int64_t stride = WordsBetween::stride_of(sentence.n);
        View2<float> by_head{arena.take<float>(nodes * stride), stride};
        View2<float> by_modifier{arena.take<float>(nodes * stride), stride};
        if (arena.failed() ||
            !words.fill(sentence.n, of_heads, of_modifiers, nodes, arena, by_head, by_modifier))
            return false;
        for (int64_t h = 0; h < nodes; h++)
            for (int64_t m = 1; m < nodes; m++)
                if (m != h) scores(h, m) += by_head(h, m) + by_modifier(m, h);
        return true;
    }

    // Fill scores (labels,) of the arc between two nodes.
    void score_labels(const NodeVectors& vectors, int64_t h, int64_t m, double* scores) const {
        const float* u = vectors.as_head + h * vectors.stride + layout.first_label;
        const float* v = vectors.as_modifier + m * vectors.stride + layout.first_label;
        for (int64_t l = 0; l < layout.labels; l++) scores[l] = label_terms().score(label_row(l), u, v);
    }
};

// The scores of vectors for pairs of a kind in one sentence, and their changes; no data: they score none.
struct PairScores {
    View2<double> scores = {}, change = {};  // [i, m], (n + 1, n + 1)

    bool allocate(int64_t n, Arena& arena) {
        const int64_t nodes = n + 1;
        scores = {arena.take_zeros<double>(nodes * nodes), nodes};
        change = {arena.take_zeros<double>(nodes * nodes), nodes};
        return !arena.failed();
    }
    bool are_there() const { return scores.data != nullptr; }
};

// The same of all kinds, and of parts that have no scores.
struct SentencePairs {
    PairScores of[PAIR_KINDS] = {};
    View2<const double> none = {};  // (n + 1, n + 1), zeros

    bool are_finite(int64_t n) const {
        for (const PairScores& kind : of)
            for (int64_t k = 0; kind.are_there() && k < (n + 1) * (n + 1); k++)
                if (!(kind.scores.data[k] - kind.scores.data[k] == 0.0)) return false;
        return true;
    }
    FactoredSiblings<float, double> siblings() const {
        return factored<float>(PairSiblings{of[SIBLING_PAIRS].scores}, none);
    }
    // Add x to the change of each part of a tree but its arcs; returns the score of these, times x.
    double add(int64_t n, const int64_t* heads, double x) const {
        double sum = 0.0;
        for (int64_t kind = ARC_PAIRS + 1; kind < PAIR_KINDS; kind++)
            for (int64_t m = 1; of[kind].are_there() && m <= n; m++) {
                const int64_t h = heads[m];
                const int64_t other = kind == SIBLING_PAIRS ? inner_sibling_of(heads, m)
                                      : h > 0               ? heads[h]
                                                            : h;
                if (other == h) continue;  // there is none
                of[kind].change(other, m) += x;
                sum += x * of[kind].scores(other, m);
            }
        return sum;
    }
};

// The gradient of the loss of some sentences.
struct VectorLearner {
    VectorScorer scorer;
    const Search& search;
    const VectorLearning& learning;
    const VectorGold& gold;
    const VectorGradients& gradients;
    double wrong = 0.0, arc_loss = 0.0, label_loss = 0.0;

    float* dense(int64_t at) const { return gradients.dense.data + at; }

    // Returns as `for_sentences`.
    int64_t learn(Arena& arena) {
        const Sentences& sentences = scorer.sentences;
        const VectorLayout& layout = scorer.layout;
        const int64_t nodes = scorer.count_nodes(), columns = layout.columns;
        memset(gradients.dense.data, 0, (size_t)layout.size * sizeof(float));
        memset(gradients.nodes.data, 0, (size_t)(nodes * layout.width) * sizeof(float));
        NodeVectors vectors;
        vectors.sums = arena.take<float>(nodes * layout.width);
        vectors.head_gradients = arena.take_zeros<float>(nodes * columns);
        vectors.modifier_gradients = arena.take_zeros<float>(nodes * columns);
        if (arena.failed() || !sum_rows(vectors, arena) || !scorer.project(nodes, vectors, arena))
            return NO_MEMORY;
        int64_t first = 0;
        for (int64_t b = 0; b < sentences.starts.n0; b++) {
            ArenaMark mark(arena);
            if (is_interrupted(1000 * sentences.lengths.data[b])) return NO_MEMORY;
            const Sentence sentence{sentences.values, b, sentences.starts.data[b],
                                    sentences.lengths.data[b]};
            const bool is_done = learn_arcs(sentence, first, vectors, arena) &&
                                 learn_labels(sentence, first, vectors, arena);
            if (arena.failed()) return NO_MEMORY;
            if (!is_done) return b;
            first += sentence.n + 1;
        }
        return go_back(nodes, vectors, arena) ? -1 : (int64_t)NO_MEMORY;
    }

private:
    // Fill the sums of all nodes, and the occurrences of rows: row times 2^32 plus node, -1 for rows that
    // are dropped or not there.
    bool sum_rows(NodeVectors& vectors, Arena& arena) const {
        const Sentences& sentences = scorer.sentences;
        const VectorPlan& plan = scorer.plan;
        const int64_t count = plan.rows.n0;
        const float scale = (float)(1.0 / (1.0 - learning.dropout));
        uint8_t* kept = arena.take<uint8_t>(count);
        if (!kept) return false;
        int64_t node = 0;
        for (int64_t b = 0; b < sentences.starts.n0; b++) {
            const int64_t start = sentences.starts.data[b];
            for (int64_t i = 0; i <= sentences.lengths.data[b]; i++, node++) {
                Random random(learning.seed, start + i);
                int64_t* occurrences = gradients.occurrences.data + node * count;
                for (int64_t k = 0; k < count; k++) {
                    const int64_t row = scorer.row_of(k, start + i);
                    kept[k] = !(random.next() < learning.dropout);
                    const int64_t found = gradients.first_node + node;
                    occurrences[k] = row >= 0 && kept[k] ? (row << 32) + found : -1;
                }
                scorer.sum_rows(start + i, kept, scale, vectors.sums + node * scorer.layout.width);
            }
        }
        return true;
    }

    // Arcs, and the further kinds of pairs that are scored.
    bool learn_arcs(const Sentence& sentence, int64_t first, const NodeVectors& vectors, Arena& arena) {
        const int64_t n = sentence.n, nodes = n + 1;
        if (n == 0) return true;
        const int64_t* heads = gold.heads.data + sentence.start;
        SentencePairs pairs;
        pairs.none = {arena.take_zeros<double>(nodes * nodes), nodes};
        for (int64_t kind = 0; kind < PAIR_KINDS; kind++) {
            const VectorPairKind& of = scorer.layout.pairs[kind];
            if (kind != ARC_PAIRS && !of.terms.size) continue;
            if (kind == GRANDPARENT_PAIRS && n > MOST_GRAND_WORDS) continue;
            if (!pairs.of[kind].allocate(n, arena)) return false;
            const View2<double> scores = pairs.of[kind].scores;
            if (!(kind == ARC_PAIRS ? scorer.score_arcs(vectors, first, sentence, arena, scores)
                                    : scorer.score_pairs(of, vectors, first, n, arena, scores)))
                return false;
        }
        const View2<double> scores = pairs.of[ARC_PAIRS].scores, change = pairs.of[ARC_PAIRS].change;
        if (pairs.of[SIBLING_PAIRS].are_there())  // the root is no sibling
            memset(pairs.of[SIBLING_PAIRS].scores.data, 0, (size_t)nodes * sizeof(double));
        if (!(learning.loss == VECTOR_HINGE ? compare_trees(sentence, heads, pairs, arena)
                                            : compare_expectations(sentence, heads, scores, change, arena)))
            return false;
        for (int64_t kind = 0; kind < PAIR_KINDS; kind++)
            if (pairs.of[kind].are_there())
                add_gradients(scorer.layout.pairs[kind], n, first, vectors, pairs.of[kind].change);
        return !scorer.layout.betweens || add_between_gradients(sentence, first, vectors, change, arena);
    }

    // Add the gradients of the scores of pairs times their changes.
    void add_gradients(const VectorPairKind& kind, int64_t n, int64_t first, const NodeVectors& vectors,
                       View2<const double> change) {
        const int64_t stride = vectors.stride, columns = scorer.layout.columns;
        for (int64_t h = 0; h <= n; h++) {
            for (int64_t m = 1; m <= n; m++) {
                const double x = change(h, m);
                if (h == m || !(fabs(x) > LEAST_VECTOR_COEFFICIENT)) continue;
                const int64_t row = kind.row(scorer.combination(h, m));
                const int64_t u = (first + h) * stride + kind.column;
                const int64_t v = (first + m) * stride + kind.column;
                kind.terms.add_gradient(
                    (float)x, scorer.dense(row), vectors.as_head + u, vectors.as_modifier + v, dense(row),
                    vectors.head_gradients + (first + h) * columns + kind.column,
                    vectors.modifier_gradients + (first + m) * columns + kind.column);
            }
        }
    }

    // The same of the scores that words in between add to arcs. False: no memory.
    bool add_between_gradients(const Sentence& sentence, int64_t first, const NodeVectors& vectors,
                               View2<const double> change, Arena& arena) {
        const int64_t n = sentence.n;
        WordsBetween words;
        if (!words.find(scorer.plan, scorer.between_values(sentence), n, arena)) return false;
        for (int64_t h = 0; h <= n; h++) {
            for (int64_t m = 1; m <= n; m++) {
                const double x = change(h, m);
                if (h == m || !(fabs(x) > LEAST_VECTOR_COEFFICIENT)) continue;
                add_between_gradient((float)x, words, first, h, m, vectors);
            }
        }
        return true;
    }
    void add_between_gradient(float x, const WordsBetween& words, int64_t first, int64_t h, int64_t m,
                              const NodeVectors& vectors) const {
        const VectorLayout& layout = scorer.layout;
        const int64_t size = layout.arc, direction = h < m ? 0 : 1;
        const float* u = vectors.as_head + (first + h) * vectors.stride;
        const float* v = vectors.as_modifier + (first + m) * vectors.stride;
        words.for_words(h, m, [&](int64_t value, int64_t occurrence) {
            const float* row = scorer.between_row(
                (direction * OCCURRENCES + occurrence) * layout.betweens + words.numbers[value]);
            float* of_row = dense(row - scorer.dense(0));
            add_floats(x, row, vectors.head_gradients + (first + h) * layout.columns, size);
            add_floats(x, row + size, vectors.modifier_gradients + (first + m) * layout.columns, size);
            add_floats(x, u, of_row, size);
            add_floats(x, v, of_row + size, size);
            of_row[2 * size] += x;
        });
    }

    // Raise the score of every wrong arc of words with gold heads by the cost.
    void add_cost(int64_t n, const int64_t* heads, View2<double> scores) const {
        for (int64_t h = 0; h <= n; h++)
            for (int64_t m = 1; m <= n; m++)
                if (heads[m] >= 0 && heads[m] != h) scores(h, m) += learning.cost;
    }

    static int64_t count_missing(int64_t n, const int64_t* heads) {
        int64_t missing = 0;
        for (int64_t m = 1; m <= n; m++) missing += heads[m] < 0;
        return missing;
    }

    bool find_best(View2<const double> scores, const SentencePairs& pairs, int64_t n, Arena& arena,
                   int64_t* heads) const {
        const View2<const double> siblings = pairs.of[SIBLING_PAIRS].scores;
        if (pairs.of[GRANDPARENT_PAIRS].are_there())
            return pairs.are_finite(n) &&
                   best_pair_tree<double>(scores, siblings.data ? siblings : pairs.none,
                                          pairs.of[GRANDPARENT_PAIRS].scores, n, search.single_root,
                                          arena, heads) &&
                   !arena.failed();
        const int64_t decoder =
            pairs.of[SIBLING_PAIRS].are_there() ? BY_EISNER_SIBLING : search.decoder;
        const ExactTrees<double, FactoredSiblings<float, double>> trees{
            decoder, scores, pairs.siblings(), n, search.single_root};
        return trees.find_best(arena, heads) && !arena.failed();
    }

    // Structured hinge: the best tree, costs added, less gold. Gold that lacks heads is the best tree
    // that has the known ones.
    bool compare_trees(const Sentence& sentence, const int64_t* heads, const SentencePairs& pairs,
                       Arena& arena) {
        const int64_t n = sentence.n, nodes = n + 1;
        const View2<double> scores = pairs.of[ARC_PAIRS].scores, change = pairs.of[ARC_PAIRS].change;
        int64_t* found = arena.take<int64_t>(nodes);
        int64_t* right = arena.take<int64_t>(nodes);
        if (arena.failed()) return false;
        memcpy(right, heads, (size_t)nodes * sizeof(int64_t));
        if (count_missing(n, heads) > 0) {
            View2<double> given{arena.take<double>(nodes * nodes), nodes};
            if (!given.data) return false;
            memcpy(given.data, scores.data, (size_t)(nodes * nodes) * sizeof(double));
            forbid_others(given, sentence, gold.heads);
            if (!find_best(given, pairs, n, arena, right)) return false;
        }
        add_cost(n, heads, scores);
        if (!find_best(scores, pairs, n, arena, found)) return false;
        for (int64_t m = 1; m <= n; m++) {
            wrong += heads[m] >= 0 && found[m] != heads[m];
            if (found[m] == right[m]) continue;
            arc_loss += scores(found[m], m) - scores(right[m], m);
            change(found[m], m) += 1.0;
            change(right[m], m) -= 1.0;
        }
        arc_loss += pairs.add(n, found, 1.0) + pairs.add(n, right, -1.0);
        return true;
    }

    // Conditional likelihood, with costs softmax-margin: expected arcs less those of gold, or less those
    // expected of the trees that have the known heads.
    bool compare_expectations(const Sentence& sentence, const int64_t* heads, View2<double> scores,
                              View2<double> change, Arena& arena) {
        const int64_t n = sentence.n, nodes = n + 1;
        View2<double> wanted{arena.take_zeros<double>(nodes * nodes), nodes};
        if (!wanted.data) return false;
        const auto sum = [&](View2<double> marginals) {
            return ExactTrees<double, NoSiblings>{search.decoder, scores, {}, n, search.single_root}
                .sum(1.0, arena, marginals);
        };
        add_cost(n, heads, scores);
        const double all = sum(change);
        if (all == -INFINITY || arena.failed()) return false;
        double right = 0.0;
        for (int64_t m = 1; m <= n; m++) {
            if (heads[m] < 0) continue;
            right += scores(heads[m], m);
            wanted(heads[m], m) = 1.0;
        }
        if (count_missing(n, heads) > 0) {
            forbid_others(scores, sentence, gold.heads);
            right = sum(wanted);
            if (right == -INFINITY || arena.failed()) return false;
        }
        arc_loss += all - right;
        for (int64_t m = 1; m <= n; m++) wrong += heads[m] >= 0 && change(heads[m], m) <= 0.5;
        for (int64_t h = 0; h <= n; h++)
            for (int64_t m = 1; m <= n; m++) change(h, m) -= wanted(h, m);
        return true;
    }

    // The likelihood of the labels of gold arcs.
    bool learn_labels(const Sentence& sentence, int64_t first, const NodeVectors& vectors, Arena& arena) {
        const VectorLayout& layout = scorer.layout;
        const int64_t count = layout.labels, columns = layout.columns, stride = vectors.stride;
        if (count == 0 || learning.label_loss <= 0.0 || gold.labels.n0 == 0) return true;
        double* scores = arena.take<double>(count);
        if (!scores) return false;
        for (int64_t m = 1; m <= sentence.n; m++) {
            const int64_t h = gold.heads.data[sentence.start + m];
            const int64_t right = gold.labels.data[sentence.start + m];
            if (h < 0 || right < 0) continue;
            scorer.score_labels(vectors, first + h, first + m, scores);
            const double of_right = scores[right];
            label_loss += learning.label_loss * (fill_probabilities(scores, count) - of_right);
            const int64_t column = layout.first_label;
            const float* u = vectors.as_head + (first + h) * stride + column;
            const float* v = vectors.as_modifier + (first + m) * stride + column;
            float* of_u = vectors.head_gradients + (first + h) * columns + column;
            float* of_v = vectors.modifier_gradients + (first + m) * columns + column;
            for (int64_t l = 0; l < count; l++) {
                const double x = learning.label_loss * (scores[l] - (l == right ? 1.0 : 0.0));
                if (!(fabs(x) > LEAST_VECTOR_COEFFICIENT)) continue;
                scorer.label_terms().add_gradient((float)x, scorer.label_row(l), u, v,
                                                  dense(layout.of_labels + l * layout.label_row), of_u,
                                                  of_v);
            }
        }
        return true;
    }

    // From the gradients of both vectors to those of the matrices, the sums and the bias.
    bool go_back(int64_t nodes, const NodeVectors& vectors, Arena& arena) const {
        const VectorLayout& layout = scorer.layout;
        const int64_t width = layout.width, hidden = layout.hidden, columns = layout.columns;
        float* of_sums = gradients.nodes.data;
        if (hidden == 0) {
            for (int64_t i = 0; i < nodes; i++) {
                memcpy(of_sums + i * width, vectors.head_gradients + i * columns,
                       (size_t)columns * sizeof(float));
                memcpy(of_sums + i * width + columns, vectors.modifier_gradients + i * columns,
                       (size_t)columns * sizeof(float));
            }
        } else {
            const float* const of_vectors[] = {vectors.head_gradients, vectors.modifier_gradients};
            const int64_t matrices[] = {layout.heads, layout.modifiers};
            for (int64_t role = 0; role < 2; role++) {
                const Side side{vectors.sums + role * hidden, of_vectors[role], of_sums + role * hidden,
                                matrices[role]};
                // Most words have gradients of labels alone.
                for (const VectorPairKind& kind : layout.pairs)
                    if (!go_back(side, nodes, kind.column, kind.terms.size, arena)) return false;
                if (!go_back(side, nodes, layout.first_label, layout.label, arena)) return false;
            }
            for (int64_t k = 0; k < nodes * width; k++)
                of_sums[k] = vectors.sums[k] > 0.0f ? of_sums[k] : 0.0f;
        }
        for (int64_t i = 0; i < nodes; i++) add_floats(1.0f, of_sums + i * width, dense(0), width);
        return true;
    }

    // The nodes in one role: sums and their gradients (rows of `width`), gradients of the vectors
    // (rows of `columns`), the matrix between them.
    struct Side {
        const float* sums;
        const float* of_vectors;
        float* of_sums;
        int64_t matrix;
    };

    // The same for some columns of one role, over the nodes that have a gradient there.
    bool go_back(const Side& side, int64_t nodes, int64_t from, int64_t count, Arena& arena) const {
        const VectorLayout& layout = scorer.layout;
        const int64_t width = layout.width, hidden = layout.hidden, columns = layout.columns;
        ArenaMark mark(arena);
        int64_t* chosen = arena.take<int64_t>(nodes);
        if (!chosen || count == 0) return !arena.failed();
        int64_t found = 0;
        for (int64_t i = 0; i < nodes; i++) {
            const float* row = side.of_vectors + i * columns + from;
            bool is_zero = true;
            for (int64_t k = 0; k < count; k++) is_zero &= row[k] == 0.0f;
            if (!is_zero) chosen[found++] = i;
        }
        if (found == 0) return true;
        float* sums = arena.take<float>(found * hidden);
        float* of_vectors = arena.take<float>(found * count);
        float* of_sums = arena.take<float>(found * hidden);
        float* transposed = arena.take<float>(count * hidden);
        if (arena.failed()) return false;
        for (int64_t i = 0; i < found; i++) {
            const int64_t node = chosen[i];
            memcpy(sums + i * hidden, side.sums + node * width, (size_t)hidden * sizeof(float));
            memcpy(of_sums + i * hidden, side.of_sums + node * width, (size_t)hidden * sizeof(float));
            memcpy(of_vectors + i * count, side.of_vectors + node * columns + from,
                   (size_t)count * sizeof(float));
        }
        transpose_floats(scorer.dense(side.matrix + from), columns, hidden, count, transposed, hidden);
        add_product({of_vectors, count, 1}, transposed, hidden, of_sums, hidden, found, count, hidden);
        add_product({sums, 1, hidden}, of_vectors, count, dense(side.matrix + from), columns, hidden,
                    found, count);
        for (int64_t i = 0; i < found; i++)
            memcpy(side.of_sums + chosen[i] * width, of_sums + i * hidden,
                   (size_t)hidden * sizeof(float));
        return true;
    }
};

}  // namespace gpuparse
