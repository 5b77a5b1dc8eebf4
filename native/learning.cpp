// Exported functions of learning.
#include "learn.h"
#include "learn_conditional.h"
#include "learn_factored.h"
#include "learn_labels.h"

using namespace gpuparse;

// True if the tables are the memory that the scorer reads.
static bool fit_tables(const LearnedTables& tables, const Scorer& scorer) {
    if (tables.weights.data != scorer.weights.data || tables.weights.n0 != scorer.weights.n0 ||
        tables.sums.n0 != tables.weights.n0)
        return false;
    if (!scorer.joint) return true;
    const any_1& labels = scorer.joint->weights;
    return tables.label_weights.data == labels.data && tables.label_weights.n0 == labels.n0 &&
           tables.label_sums.n0 == labels.n0;
}

static bool fit_trees(const Sentences& sentences, const Scorer& scorer, const GoldTrees& trees) {
    const int64_t tokens = sentences.values.n1;
    if (!are_heads(sentences, trees.gold, trees.is_partial) || trees.found.n0 < 1 ||
        trees.found.n1 != tokens || trees.target.n0 != tokens)
        return false;
    if (!scorer.joint) return trees.gold_labels.n0 == 0;
    if (trees.gold_labels.n0 != tokens || trees.found_labels.n0 != trees.found.n0 ||
        trees.found_labels.n1 != tokens || trees.target_labels.n0 != tokens)
        return false;
    return are_between(-1, trees.gold_labels, scorer.joint->width);
}

// True if what is compared with gold lies in its sentences: the completed trees, which may lack what gold
// lacks until they are completed, and found trees that were predicted before.
static bool fit_compared(const Sentences& sentences, const Scorer& scorer, const GoldTrees& trees,
                         bool is_predicted) {
    const int64_t width = scorer.joint ? scorer.joint->width : 0;
    for (int64_t b = 0; b < sentences.starts.n0; ++b) {
        const int64_t start = sentences.starts.data[b], n = sentences.lengths.data[b];
        for (int64_t token = start + 1; token <= start + n; ++token) {
            const bool may_lack = trees.is_partial && !is_predicted;
            const auto lowest = [&](const i64_1& gold) { return may_lack && gold.data[token] < 0 ? -1 : 0; };
            if (!is_between(lowest(trees.gold), trees.target.data[token], n + 1)) return false;
            if (width && !is_between(lowest(trees.gold_labels), trees.target_labels.data[token], width))
                return false;
        }
        for (int64_t j = 0; is_predicted && n && j < trees.found.n0; ++j) {
            const int64_t* found = trees.found.data + j * trees.found.n1 + start;
            if (found[1] < 0) continue;
            if (!are_heads(found, n, false)) return false;
            for (int64_t m = 1; width && m <= n; ++m)
                if (!is_between(0, trees.found_labels.data[j * trees.found.n1 + start + m], width)) return false;
        }
    }
    return true;
}

static int64_t check_learner(const Learner& learner) {
    const Sentences& sentences = learner.sentences;
    if (learner.scorer.weights.dtype != DT_F32) return BAD_TYPE;
    if (learner.scorer.vectors) return BAD_SHAPE;
    const int64_t status = check_batch(sentences, learner.scorer);
    if (status != OK) return status;
    const bool finds_graphs = learner.search.decoder == BY_MULTI_PARENT;
    if (!can_decode(learner.search, learner.scorer) || !learner.trees != finds_graphs ||
        !learner.graphs == finds_graphs || !cells_fit(sentences, learner.allowed))
        return BAD_SHAPE;
    if (learner.trees) {
        if (learner.trees->found.n0 > 1 && !has_sums(learner.search.decoder)) return BAD_SHAPE;
        return fit_trees(sentences, learner.scorer, *learner.trees) ? OK : BAD_SHAPE;
    }
    const GoldGraphs& graphs = *learner.graphs;
    return graphs.found.n0 == graphs.gold.n0 && squares_fit(sentences, graphs.firsts, graphs.gold.n0)
               ? OK
               : BAD_SHAPE;
}

GPUPARSE(int64_t) predict_batch(const Sentences* sentences, const Scorer* scorer,
                                const Search* search, const UpdateRule* rule,
                                const GoldTrees* trees, const GoldGraphs* graphs,
                                const ArcCells* allowed) {
    const Learner learner{*sentences, *scorer, *search, *rule, trees, graphs, allowed};
    const int64_t status = check_learner(learner);
    if (status != OK) return status;
    return for_sentences(*sentences, [&](const Sentence& sentence, Arena& arena) {
        SentenceScores<float> scores = learner.score(sentence, arena);
        return !arena.failed() && learner.predict(sentence, scores, arena);
    });
}

GPUPARSE(int64_t) learn_batch(const Sentences* sentences, const Scorer* scorer,
                              const Search* search, const UpdateRule* rule, const GoldTrees* trees,
                              const GoldGraphs* graphs, const ArcCells* allowed,
                              const LearnedTables* tables, int64_t seen, bool is_predicted,
                              out_f64_1 wrong) {
    Learner learner{*sentences, *scorer, *search, *rule, trees, graphs, allowed,
                    {tables->weights.n0, {tables->weights.data, tables->sums.data},
                     {tables->label_weights.data, tables->label_sums.data}}, seen};
    const int64_t status = check_learner(learner);
    if (status != OK) return status;
    const bool needs_trees = rule->rule == MIRA_FACTORED || rule->rule == CONDITIONAL;
    if (!fit_tables(*tables, *scorer) || wrong.n0 != 1 || (needs_trees && !trees)) return BAD_SHAPE;
    if (rule->rule == CONDITIONAL && !has_sums(search->decoder)) return BAD_SHAPE;
    if (trees && !fit_compared(*sentences, *scorer, *trees, is_predicted)) return BAD_SHAPE;
    // Factored constraints are counted one by one.
    const int64_t counts = rule->rule == MIRA_FACTORED ? 1 : learner.found_structures();
    if (!learner.difference.start(counts)) return NO_MEMORY;
    const int64_t result = for_sentences(*sentences, [&](const Sentence& sentence, Arena& arena) {
        switch (rule->rule) {
            case MIRA_FACTORED: return learn_factored(learner, sentence, arena);
            case CONDITIONAL: return learn_conditional(learner, sentence, arena);
        }
        return learner.learn(sentence, is_predicted, arena);
    });
    *wrong.data += learner.wrong;
    return result;
}

GPUPARSE(int64_t) learn_labels(const Sentences* sentences, const LabelPlan* plan,
                               const UpdateRule* rule, i64_1 heads, const GraphHeads* graphs,
                               i64_1 gold, int64_t seen, out_f32_2 weights, out_f32_1 sums) {
    const int64_t width = weights.n1;
    if (!arcs_fit(*sentences, *plan, weights, nullptr, heads, graphs, gold.n0) || !are_between(-1, gold, width) ||
        sums.n0 != weights.n0 * width)
        return BAD_SHAPE;
    Arena arena;
    LabelLearner learner{{*plan, weights.data, weights.n0, width, arena}, *rule,
                         {weights.data, sums.data}};
    if (arena.failed()) return NO_MEMORY;
    int64_t wrong = 0;
    const int64_t status = for_arcs(*sentences, {heads, graphs}, [&](const Sentence& sentence, int64_t a,
                                                                    const int64_t* nodes) {
        const int64_t right = gold.data[a];
        if (right < 0 || width == 1) return;
        learner.scorer.score(sentence, nodes);
        // The best wrong label of a graph's primary arc is one that such an arc may have: learning
        // separates gold labels from those that labelling could choose instead.
        const int64_t guess = graphs && nodes[OF_OTHER] == NO_NODE
                                  ? best_permitted(learner.scorer.sums, width,
                                                   graphs->may_be_primary.data, right)
                                  : learner.best_other(right);
        if (guess >= 0) wrong += learner.learn(right, guess, seen + sentence.b);
    });
    return status == OK ? wrong : status;
}

GPUPARSE(int64_t) list_tree_difference(i64_1 gold, i64_1 found, i64_1 gold_labels,
                                       i64_1 found_labels, bool siblings, const HigherPlan* higher,
                                       const HigherPlan* children, out_i64_2 parts) {
    const int64_t n = gold.n0 - 1;
    const bool has_labels = gold_labels.n0 > 0;
    if (found.n0 != gold.n0 || parts.n1 != 7 || n < 1) return BAD_SHAPE;
    if (has_labels && (gold_labels.n0 != gold.n0 || found_labels.n0 != gold.n0)) return BAD_SHAPE;
    if (!are_heads(gold.data, n, false) || !are_heads(found.data, n, false)) return BAD_SHAPE;
    if (children && !has_labels) return BAD_SHAPE;
    const HigherPlan* const plans[] = {higher, children};
    for (const HigherPlan* plan : plans)
        if (plan && plan->family_start.n0 != HIGHER_KINDS + 1) return BAD_SHAPE;
    Arena arena;
    PartList list(n, 1, arena);
    if (arena.failed()) return NO_MEMORY;
    const TreePair trees{n, gold.data, found.data, has_labels ? gold_labels.data : nullptr,
                         has_labels ? found_labels.data : nullptr};
    list_differing_parts(trees, listed_kinds(siblings, higher, children), 0, list);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t p = 0; p < list.parts.count && p < parts.n0; p++) {
        const Part& part = list.parts.data[p];
        const int64_t row[] = {part.kind,   part.h,     part.m,       part.third,
                               part.fourth, part.label, list.signs.data[p]};
        memcpy(parts.data + 7 * p, row, sizeof(row));
    }
    return list.parts.count;
}
