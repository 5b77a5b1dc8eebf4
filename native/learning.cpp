// Exported functions of learning.
#include "batch_checks.h"
#include "learn.h"
#include "learn_conditional.h"
#include "learn_factored.h"
#include "learn_labels.h"

using namespace gpuparse;

// Whether a batch, a scorer of float32 weights and a decoder agree.
static int64_t check_learning(const Sentences& sentences, const Scorer& scorer) {
    if (scorer.weights.dtype != DT_F32) return BAD_TYPE;
    return check_batch(sentences, scorer);
}

// Whether the tables are the memory that the scorer reads.
static bool fit_tables(const LearnedTables& tables, const Scorer& scorer) {
    if (tables.weights.data != scorer.weights.data || tables.weights.n0 != scorer.weights.n0 ||
        tables.sums.n0 != tables.weights.n0)
        return false;
    if (!scorer.joint) return true;
    const any_1& labels = scorer.joint->weights;
    return tables.label_weights.data == labels.data && tables.label_weights.n0 == labels.n0 &&
           tables.label_sums.n0 == labels.n0;
}

// Heads of all words of all sentences lie in their sentence; -1 only where `may_lack`.
static bool are_heads(const Sentences& sentences, const i64_1& heads, bool may_lack) {
    if (!are_by_token(sentences, heads.n0)) return false;
    for (int64_t b = 0; b < sentences.starts.n0; b++) {
        const int64_t n = sentences.lengths.data[b];
        const int64_t* of_words = heads.data + sentences.starts.data[b];
        for (int64_t m = 1; m <= n; m++)
            if (of_words[m] < (may_lack ? -1 : 0) || of_words[m] > n || of_words[m] == m)
                return false;
    }
    return true;
}

static int64_t check_trees(const Sentences& sentences, const Scorer& scorer,
                           const GoldTrees& trees) {
    const int64_t tokens = sentences.values.n1;
    if (!are_heads(sentences, trees.gold, trees.is_partial) || trees.found.n0 < 1 ||
        trees.found.n1 != tokens || trees.target.n0 != tokens)
        return BAD_SHAPE;
    if (!scorer.joint) return trees.gold_labels.n0 == 0 ? OK : BAD_SHAPE;
    if (trees.gold_labels.n0 != tokens || trees.found_labels.n0 != trees.found.n0 ||
        trees.found_labels.n1 != tokens || trees.target_labels.n0 != tokens)
        return BAD_SHAPE;
    for (int64_t b = 0; b < sentences.starts.n0; b++) {
        const int64_t* labels = trees.gold_labels.data + sentences.starts.data[b];
        for (int64_t m = 1; m <= sentences.lengths.data[b]; m++)
            if (labels[m] < -1 || labels[m] >= scorer.joint->width) return BAD_SHAPE;
    }
    return OK;
}

static int64_t check_graphs(const Sentences& sentences, const GoldGraphs& graphs) {
    if (!are_by_token(sentences, graphs.firsts.n0) || graphs.found.n0 != graphs.gold.n0)
        return BAD_SHAPE;
    for (int64_t b = 0; b < sentences.starts.n0; b++) {
        const int64_t nodes = sentences.lengths.data[b] + 1;
        const int64_t first = graphs.firsts.data[sentences.starts.data[b]];
        if (first < 0 || first > graphs.gold.n0 - nodes * nodes) return BAD_SHAPE;
    }
    return OK;
}

static int64_t check_structures(const LearningBatch& batch) {
    const int64_t status = check_learning(batch.sentences, batch.scorer);
    if (status != OK) return status;
    if (!can_decode(batch.search, batch.scorer)) return BAD_SHAPE;
    if (!batch.trees == !batch.graphs) return BAD_SHAPE;
    return batch.trees ? check_trees(batch.sentences, batch.scorer, *batch.trees)
                       : check_graphs(batch.sentences, *batch.graphs);
}

static LearnedWeights weights_of(const LearnedTables& tables) {
    return {tables.weights.n0, tables.weights.data, tables.sums.data, tables.label_weights.data,
            tables.label_sums.data};
}

GPUPARSE(int64_t) predict_batch(const Sentences* sentences, const Scorer* scorer,
                                const Search* search, const UpdateRule* rule,
                                const GoldTrees* trees, const GoldGraphs* graphs,
                                const ArcCells* allowed) {
    const LearningBatch batch{*sentences, *scorer, *search, *rule, trees, graphs, allowed};
    const int64_t status = check_structures(batch);
    return status == OK ? predict_all(batch) : status;
}

GPUPARSE(int64_t) learn_batch(const Sentences* sentences, const Scorer* scorer,
                              const Search* search, const UpdateRule* rule, const GoldTrees* trees,
                              const GoldGraphs* graphs, const ArcCells* allowed,
                              const LearnedTables* tables, int64_t seen, bool is_predicted,
                              out_f64_1 wrong) {
    const LearningBatch batch{*sentences, *scorer, *search, *rule, trees, graphs, allowed};
    const int64_t status = check_structures(batch);
    if (status != OK) return status;
    if (!fit_tables(*tables, *scorer) || wrong.n0 != 1) return BAD_SHAPE;
    return learn_all(batch, weights_of(*tables), seen, !is_predicted, *wrong.data);
}

GPUPARSE(int64_t) learn_factored(const Sentences* sentences, const Scorer* scorer,
                                 const UpdateRule* rule, i64_1 gold, const LearnedTables* tables,
                                 int64_t seen, out_f64_1 wrong) {
    int64_t status = check_learning(*sentences, *scorer);
    if (status != OK) return status;
    if (!fit_tables(*tables, *scorer) || wrong.n0 != 1 || !are_heads(*sentences, gold, true))
        return BAD_SHAPE;
    Arena arena;
    Difference rows;
    LearnedWeights weights = weights_of(*tables);
    if (!rows.start(1)) return NO_MEMORY;
    for (int64_t b = 0; b < sentences->starts.n0; b++) {
        ArenaMark mark(arena);
        const SentencePlace place{b, sentences->starts.data[b], sentences->lengths.data[b]};
        if (!learn_factored_sentence(*sentences, *scorer, place, gold.data + place.start,
                                     rule->max_step, seen + b, rows, weights, arena, *wrong.data))
            return NO_MEMORY;
    }
    return OK;
}

GPUPARSE(int64_t) learn_conditional(const Sentences* sentences, const Scorer* scorer,
                                    const Search* search, const UpdateRule* rule, i64_1 gold,
                                    const LearnedTables* tables, int64_t seen, out_f64_1 wrong) {
    int64_t status = check_learning(*sentences, *scorer);
    if (status != OK) return status;
    if (!fit_tables(*tables, *scorer) || wrong.n0 != 1 || !are_heads(*sentences, gold, true))
        return BAD_SHAPE;
    Arena arena;
    LearnedWeights weights = weights_of(*tables);
    for (int64_t b = 0; b < sentences->starts.n0; b++) {
        ArenaMark mark(arena);
        const SentencePlace place{b, sentences->starts.data[b], sentences->lengths.data[b]};
        status =
            learn_conditional_sentence(*sentences, *scorer, *search, *rule, place, gold, seen + b,
                                       weights, arena, *wrong.data);
        if (status != OK) return status;
    }
    return OK;
}

// Whether tables of labels are whole lines, and heads those of whole trees.
static bool fit_labels(const Sentences& sentences, const LabelPlan& plan, const i64_1& heads,
                       int64_t n_labels, const out_f32_1& weights, const out_f32_1& sums) {
    return n_labels >= 1 && weights.n0 >= n_labels && weights.n0 % n_labels == 0 &&
           sums.n0 == weights.n0 && plan.start.n0 == plan.direction.n0 + 1 &&
           sentences.starts.n0 == sentences.lengths.n0 && are_heads(sentences, heads, false);
}

static bool are_labels(const i64_1& labels, int64_t n_labels) {
    for (int64_t i = 0; i < labels.n0; i++)
        if (labels.data[i] < -1 || labels.data[i] >= n_labels) return false;
    return true;
}

static LabelLearner label_learner(const Sentences& sentences, const LabelPlan& plan,
                                  const UpdateRule& rule, int64_t n_labels, out_f32_1 weights,
                                  out_f32_1 sums) {
    return {sentences, plan, rule, weights.n0 / n_labels, n_labels, weights.data, sums.data,
            nullptr, nullptr};
}

GPUPARSE(int64_t) learn_labels(const Sentences* sentences, const LabelPlan* plan,
                               const UpdateRule* rule, i64_1 heads, i64_1 gold, int64_t n_labels,
                               int64_t seen, out_f32_1 weights, out_f32_1 sums) {
    if (!fit_labels(*sentences, *plan, heads, n_labels, weights, sums) ||
        !are_by_token(*sentences, gold.n0) || !are_labels(gold, n_labels))
        return BAD_SHAPE;
    LabelLearner learner = label_learner(*sentences, *plan, *rule, n_labels, weights, sums);
    return learn_tree_labels(learner, heads, gold, seen);
}

GPUPARSE(int64_t) learn_graph_labels(const Sentences* sentences, const LabelPlan* plan,
                                     const UpdateRule* rule, i64_1 heads,
                                     const LabelledGraphs* graphs, int64_t n_labels, int64_t seen,
                                     out_f32_1 weights, out_f32_1 sums) {
    const int64_t tokens = sentences->values.n1, arcs = graphs->arc_heads.n0;
    if (!fit_labels(*sentences, *plan, heads, n_labels, weights, sums) ||
        graphs->arc_starts.n0 != tokens + 1 || graphs->gold.n0 != arcs ||
        graphs->arc_starts.data[0] < 0 || graphs->arc_starts.data[tokens] > arcs ||
        graphs->may_be_primary.n0 != n_labels || !are_labels(graphs->gold, n_labels))
        return BAD_SHAPE;
    for (int64_t t = 0; t < tokens; t++)
        if (graphs->arc_starts.data[t] > graphs->arc_starts.data[t + 1]) return BAD_SHAPE;
    LabelLearner learner = label_learner(*sentences, *plan, *rule, n_labels, weights, sums);
    return learn_labels_of_graphs(learner, heads, *graphs, seen);
}

GPUPARSE(int64_t) hildreth(f64_2 gram, f64_1 missing, double cap, double ridge, out_f64_1 steps) {
    const int64_t k = missing.n0;
    if (gram.n0 != k || (k && gram.n1 != k) || steps.n0 != k) return BAD_SHAPE;
    hildreth_steps(k, gram.data, missing.data, cap, ridge, steps.data);
    return OK;
}

GPUPARSE(int64_t) hildreth_rows(i64_1 starts, i64_1 rows, i32_1 counts, f64_1 missing, double cap,
                                double tolerance, out_f64_1 steps, out_f64_1 change) {
    const int64_t k = missing.n0;
    if (starts.n0 != k + 1 || steps.n0 != k || rows.n0 != counts.n0 || starts.data[0] < 0 ||
        starts.data[k] > rows.n0)
        return BAD_SHAPE;
    for (int64_t j = 0; j < k; ++j)
        if (starts.data[j] > starts.data[j + 1]) return BAD_SHAPE;
    for (int64_t i = 0; i < rows.n0; ++i)
        if (rows.data[i] < 0 || rows.data[i] >= change.n0) return BAD_SHAPE;
    const SparseConstraints all{missing.n0, starts.data, rows.data, counts.data, missing.data};
    hildreth_sparse_steps(all, cap, tolerance, steps.data, change.data);
    return OK;
}

GPUPARSE(int64_t) find_update_steps(const UpdateRule* rule, f64_1 costs, f64_1 margins, f64_2 gram,
                                    out_f64_1 steps) {
    const int64_t k = costs.n0;
    if (margins.n0 != k || gram.n0 != k || (k && gram.n1 != k) || steps.n0 != k) return BAD_SHAPE;
    Arena arena;
    double* missing = arena.take<double>(k);
    if (!missing) return NO_MEMORY;
    find_steps(rule->rule, k, costs.data, margins.data, gram.data, rule->max_step, missing,
               steps.data);
    return OK;
}

GPUPARSE(int64_t) list_tree_difference(i64_1 gold, i64_1 found, i64_1 gold_labels,
                                       i64_1 found_labels, bool siblings, const HigherPlan* higher,
                                       const HigherPlan* children, out_i64_2 parts) {
    const int64_t n = gold.n0 - 1;
    const bool has_labels = gold_labels.n0 > 0;
    if (found.n0 != gold.n0 || parts.n1 != 7 || n < 1) return BAD_SHAPE;
    if (has_labels && (gold_labels.n0 != gold.n0 || found_labels.n0 != gold.n0)) return BAD_SHAPE;
    Arena arena;
    PartList list;
    if (!start_part_list(list, n, 1, arena)) return NO_MEMORY;
    const TreePair trees{n, gold.data, found.data, has_labels ? gold_labels.data : nullptr,
                         has_labels ? found_labels.data : nullptr};
    const ListedKinds kinds{siblings, higher ? higher->family_start.data : nullptr,
                            higher && higher->only_last,
                            children ? children->family_start.data : nullptr};
    list_differing_parts(trees, kinds, 0, list);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t p = 0; p < list.count && p < parts.n0; p++) {
        const Part& part = list.parts[p];
        const int64_t row[] = {part.kind,   part.h,     part.m,       part.third,
                               part.fourth, part.label, list.signs[p]};
        memcpy(parts.data + 7 * p, row, sizeof(row));
    }
    return list.count;
}
